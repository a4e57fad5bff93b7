"""Everything that travels, as strictly decoded and signed structs with a version and a size limit.

A message is an `Envelope`: who, in which session, about what, a body in msgpack, and an Ed25519
signature over all of it. Bodies are decoded with unknown fields forbidden, and nothing in them is
code. Questions travel inside `Ask`; their digest binds session, cohort, protection, round and
every parameter.

Leaks:
    Whoever carries a message sees its topic, sender and length, the questions, and shares that say
    nothing on their own.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar

import msgspec

from cipherdag.errors import MalformedMessageError, SignatureError
from cipherdag.privacy.aggregation import Declaration, Segment
from cipherdag.privacy.identity import SigningIdentity, verify
from cipherdag.privacy.protections import PROTECTIONS
from cipherdag.protocol.limits import MAX_MESSAGE_BYTES
from cipherdag.questions.question import Question

if TYPE_CHECKING:
    from collections.abc import Mapping

WIRE_VERSION: Final = 1
SESSION_BYTES: Final = 16
COORDINATOR: Final = "coordinator"
COLLUDERS: Final = 1
"""How many sites may collude in a run that does not say otherwise."""

Topic = Literal[
    "invite", "offer", "offers", "seals", "sealed", "ready", "ask", "share",
    "unmask", "unmasked", "recover", "recovered", "open", "opened", "finish", "closed", "refusal",
]  # fmt: skip
Protection = Annotated[str, msgspec.Meta(pattern=rf"\A(?:{'|'.join(PROTECTIONS)})\Z")]
"""The name of a protection; a message with any other is malformed."""


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=False):
    """What every message body has in common: strict decoding."""


class Envelope(Body, frozen=True):
    """One signed message; ``sender`` is a site's name, or ``coordinator``."""

    version: int
    session: bytes
    sender: str
    topic: Topic
    body: bytes
    signature: bytes


class Member(Body, frozen=True):
    """One site of a cohort and its pinned Ed25519 public key (32 bytes)."""

    name: str
    identity: bytes


class Invite(Body, frozen=True):
    """Opens a session.

    Attributes:
        cohort: The sites in order.
        protection: How answers are protected.
        algorithm: What will be asked.
        min_survivors: Fewest sites that a sum may cover; each site's policy may ask for more.
        colluders: Sites that may collude with the coordinator without learning more than sums.
    """

    cohort: tuple[Member, ...]
    protection: Protection
    algorithm: str
    min_survivors: int
    colluders: int


class Offer(Body, frozen=True):
    """A site's ephemeral public keys for one session, bound to the invite it saw."""

    invite_digest: bytes
    x25519: bytes
    mlkem: bytes


class Offers(Body, frozen=True):
    """The signed offers of the whole cohort in order, relayed as they were received."""

    envelopes: tuple[bytes, ...]


class Seals(Body, frozen=True):
    """A site's ML-KEM ciphertexts for the later sites, and what the first site seals for them.

    Attributes:
        transcript: Digest of all offers.
        ciphertexts: One per later site in cohort order.
        secrets: From the first site only, one sealed `SharedSecrets` per later site.
        content: From the first site only, the sealed `SharedContent`, once for all.
        public_context: From the first site under BFV: the coordinator's key-free context.
    """

    transcript: bytes
    ciphertexts: tuple[bytes, ...]
    secrets: tuple[bytes, ...] = ()
    content: bytes = b""
    public_context: bytes = b""


class SharedSecrets(Body, frozen=True):
    """Keys that all sites know and the coordinator does not; they travel sealed, site to site."""

    alignment_key: bytes
    context_key: bytes


class SharedContent(Body, frozen=True):
    """What travels under the sites' context key: the BFV keys, if any, and the study's schema."""

    context: bytes
    schema: bytes


class Sealed(Body, frozen=True):
    """The signed seals of the whole cohort in order, relayed as they were received."""

    envelopes: tuple[bytes, ...]


class Ready(Body, frozen=True):
    """A site is set up: its keyed schema digest and the number of aligned variables.

    ``labels`` are the positions of a multi-label study's labels, where the algorithm needs them.
    """

    schema_digest: bytes
    n_variables: int
    labels: tuple[int, ...] = ()


class Ask(Body, frozen=True):
    """Round ``number``: a question to the sites at ``participants``, ascending positions."""

    number: int
    participants: tuple[int, ...]
    question: Question


class Share(Body, frozen=True):
    """A protected answer, and what the site says to every other participant in order.

    Attributes:
        digest: Of the question, as this site was asked it.
        share: The protected answer.
        escrow: A sealed piece of its self mask for each; none where nothing is masked, or where
            no site may leave.
        tags: Its word on the digest for each. A coordinator that asked the sites different
            questions cannot collect tags on one digest.
    """

    digest: bytes
    share: bytes
    escrow: tuple[bytes, ...]
    tags: tuple[bytes, ...]


class Unmask(Body, frozen=True):
    """Asks for the seed that the sum needs, with the tags of all other participants in order."""

    digest: bytes
    tags: tuple[bytes, ...]


class Unmasked(Body, frozen=True):
    """The seed of a site's self mask."""

    digest: bytes
    seed: bytes


class Recover(Body, frozen=True):
    """Asks for this site's piece of the self mask of a site that left; the piece is sealed."""

    digest: bytes
    vanished: int
    piece: bytes


class Recovered(Body, frozen=True):
    """A site's piece of the self mask of a site that left."""

    digest: bytes
    piece: bytes


class Open(Body, frozen=True):
    """Asks a site to open the combined ciphertext of the round, with all participants' seeds."""

    digest: bytes
    combined: bytes
    seeds: tuple[bytes, ...]


class Opened(Body, frozen=True):
    """The opened sum, as words modulo the plaintext modulus."""

    digest: bytes
    words: bytes


class Finish(Body, frozen=True):
    """Ends a session after this many rounds."""

    rounds: int


class Closed(Body, frozen=True):
    """A site's last word: the head of its ledger and the number of its records."""

    ledger_head: bytes
    records: int


class Refusal(Body, frozen=True):
    """Why a site refused: the name of an error of `cipherdag.errors` and a text without data."""

    error: str
    message: str


REQUESTS: Final[Mapping[str, type[Body]]] = {
    "invite": Invite, "offers": Offers, "sealed": Sealed, "ask": Ask, "unmask": Unmask,
    "recover": Recover, "open": Open, "finish": Finish,
}  # fmt: skip
"""What the coordinator sends a site, by operation."""
REPLIES: Final[Mapping[str, Topic]] = {
    "invite": "offer", "offers": "seals", "sealed": "ready", "ask": "share", "unmask": "unmasked",
    "recover": "recovered", "open": "opened", "finish": "closed",
}  # fmt: skip
"""What a reply to each is about, unless it is a refusal."""
OPERATIONS: Final = frozenset(REQUESTS)

BodyType = TypeVar("BodyType", bound=Body)
_ENVELOPE = msgspec.msgpack.Decoder(Envelope)


def encode(body: Body) -> bytes:
    """Canonical msgpack of a body: equal bodies give equal bytes."""
    return msgspec.msgpack.encode(body, order="deterministic")


def decode(body: bytes, kind: type[BodyType]) -> BodyType:
    """Decode strictly; raises MalformedMessageError without quoting any content."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError):
        raise MalformedMessageError(f"the bytes are not a valid {kind.__name__}") from None


def seal_envelope(
    identity: SigningIdentity, *, session: bytes, sender: str, topic: Topic, body: Body
) -> bytes:
    """A signed message as bytes."""
    payload = encode(body)
    signature = identity.sign(*_signed_parts(session, sender, topic, payload))
    return encode(Envelope(WIRE_VERSION, session, sender, topic, payload, signature))


def open_envelope(
    envelope: Envelope, *, identity: bytes, session: bytes, sender: str, topic: str
) -> bytes:
    """Check topic, session, sender and signature, in this order.

    Args:
        envelope: What `read_envelope` made of the message that arrived.
        identity: The sender's pinned public key.
        session: The session it must belong to.
        sender: Whom it must come from.
        topic: What it must be about.

    Returns:
        The body, still encoded.

    Raises:
        MalformedMessageError: Another topic.
        SignatureError: Another session or sender, or a signature that does not verify.
    """
    if envelope.topic != topic:
        raise MalformedMessageError(f"expected a message about {topic}, got {envelope.topic}")
    if envelope.session != session or envelope.sender != sender:
        raise SignatureError("the message belongs to another session or sender")
    verify(identity, envelope.signature, *_signed_parts(session, sender, topic, envelope.body))
    return envelope.body


def read_envelope(message: bytes) -> Envelope:
    """Decode an envelope without trusting it: only length, form and version are checked."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise MalformedMessageError("the message is longer than the limit")
    try:
        envelope = _ENVELOPE.decode(message)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError):
        raise MalformedMessageError("the bytes are not an envelope") from None
    if envelope.version != WIRE_VERSION:
        raise MalformedMessageError(
            f"the message has version {envelope.version}, this side speaks {WIRE_VERSION}"
        )
    if len(envelope.session) != SESSION_BYTES:
        raise MalformedMessageError("the session identifier has the wrong length")
    return envelope


def _signed_parts(session: bytes, sender: str, topic: str, payload: bytes) -> tuple[bytes, ...]:
    """The purpose of a signature, and what it covers."""
    version = WIRE_VERSION.to_bytes(2, "big")
    return b"cipherdag envelope", version, session, sender.encode(), topic.encode(), payload


def digest(purpose: bytes, *parts: bytes) -> bytes:
    """SHA-256 over length-prefixed parts under a purpose: 32 bytes."""
    state = hashlib.sha256(b"cipherdag digest")
    for part in (purpose, *parts):
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def question_digest(*, invite_digest: bytes, transcript: bytes, ask: Ask) -> bytes:
    """The digest that keys, masks and signatures of a round are bound to.

    It covers the invite (session, cohort, protection, algorithm), the key agreement's transcript,
    the round's number, who is asked and the whole question.
    """
    return digest(b"question", invite_digest, transcript, encode(ask))


def content_digest(question: Question) -> bytes:
    """Digest of a question alone, whoever is asked and in whichever round."""
    return digest(b"content", msgspec.msgpack.encode(question, order="deterministic"))


def fewest_survivors(n_sites: int, colluders: int) -> int:
    """Fewest sites that a sum may cover: max(c + 2, floor((N + c) / 2) + 1), at most N.

    Any two such sets share more than ``colluders`` sites, hence an honest one, and a site that
    helped to open a question never answers it again: no two of them can be played off against each
    other (docs/adr/0012).
    """
    return min(n_sites, max(colluders + 2, (n_sites + colluders) // 2 + 1))


def declaration(ask: Ask, digest_: bytes, n_sites: int, colluders: int) -> Declaration:
    """What a round's shares are for, as the privacy layer wants it.

    As many sites recover a mask as a sum covers at least: the honest ones among them released
    their seed and never answer the question again, so too few are left to open another sum of it.
    Where no more are asked than that, no mask is recovered at all: the run could not go on without
    the site that left, and with fewer pieces two overlapping sums could be opened.
    """
    asked, fewest = len(ask.participants), fewest_survivors(n_sites, colluders)
    return Declaration(
        digest=digest_,
        cohort_size=asked,
        segments=tuple(
            Segment(own.length, own.bound, own.resolution_bits, own.comparison)
            for own in ask.question.encodings
        ),
        participants=ask.participants,
        threshold=fewest if asked > fewest else 0,
    )
