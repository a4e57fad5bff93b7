"""Everything that travels, as strictly decoded and signed structs with a version and a size limit.

A message is an `Envelope`: who, in which session, about what, a body in msgpack, and an Ed25519
signature over all of it, the body by its SHA-256. Bodies are decoded with unknown fields forbidden,
and nothing in them is code. No question travels: the plan opens a session, and every party derives
the questions from it and from the sums opened so far.

Leaks:
    Whoever carries a message sees its topic, sender and length, the plan, the opened sums, and
    shares that say nothing on their own.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from cipherdag.errors import MalformedMessageError, SignatureError
from cipherdag.privacy.aggregation import Declaration, Segment
from cipherdag.privacy.keys.identity import SigningIdentity, verify
from cipherdag.privacy.wire import MAX_MESSAGE_BYTES, Body, digest, encode
from cipherdag.protocol.plan import MAX_SITES, SESSION_BYTES, PerSite, Plan, fewest_survivors
from cipherdag.protocol.set_up_messages import Chances, Commitments, Linked, Offers, Sealed
from cipherdag.questions.question import Question

WIRE_VERSION: Final = 10
COORDINATOR: Final = "coordinator"
AWAITS: Final = "the run waits until a person of this site approves it"
DENIED: Final = "a person of this site denied the run"
TOO_MANY_WAIT: Final = "too many other runs wait for a person of this site"
MAX_REFUSAL: Final = 500
OTHER_SITES: Final = (
    "the run has other sites than an earlier one: their sums would show answers by subtraction"
)
WAITING: Final = frozenset({AWAITS, OTHER_SITES})
"""Refusals of a plan that end once a person of the site has decided on it."""
Topic = Literal[
    "invite", "offer", "offers", "seals", "sealed", "ready",
    "commitments", "chance", "chances", "links", "linked", "ask", "share", "unmask",
    "unmasked", "recover", "recovered", "open", "opened", "secure", "secured",
    "finish", "closed", "refusal",
]  # fmt: skip

LONG: Final = frozenset({
    "offers", "seals", "sealed", "commitments", "chances", "links", "linked",
    "ask", "share", "open", "opened", "secure", "secured", "finish",
})  # fmt: skip
"""Messages that grow with the sites or the numbers; any other has `SHORT_BYTES` at most."""
SHORT_BYTES: Final = 4 * 1024 * 1024

Lines = Annotated[tuple[bytes, ...], msgspec.Meta(max_length=4096)]
"""Bits that were found before, each line an encoded `asked.Line`."""
Verb = Literal["prepare", "square", "compare", "open"]
"""The steps of secure tests after the parts of all sites."""


class Envelope(Body, frozen=True):
    """One signed message; ``sender`` is a site's name, or ``coordinator``."""

    version: int
    session: bytes
    sender: str
    topic: Topic
    body: bytes
    signature: bytes


class Ask(Body, frozen=True):
    """Round ``number``: the question of a step of the plan; nothing but its digest travels."""

    number: int  # which round of the session, 1 for the first
    # ascending positions of the sites asked
    participants: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_SITES)]
    step: int  # which question of the plan; that of the round before, where it was given up
    content: bytes  # `content_digest` of the question as the coordinator derived it
    # the sum opened last, as `wire.pack` has it, or the verdicts found in its place; empty for the
    # first step, where the round before was given up, and where all bits of it were known
    previous: bytes = b""
    known: Lines = ()  # bits of the question that were found before, each an encoded `asked.Line`


class Share(Body, frozen=True):
    """A protected answer, and a word for each site asked that shares a key with it, in order."""

    digest: bytes  # of the question, as this site was asked it
    share: bytes  # the protected answer; of secure tests the site's sealed parts, and nothing below
    # for each of these sites a sealed piece of its self mask; none where nothing is masked, or
    # where no site may leave
    escrow: PerSite
    # for each of these sites a tag on the digest. A coordinator that asked the sites different
    # questions cannot collect tags on one digest.
    tags: PerSite
    # in place of an answer: bits of the question that this site knows, and that the request did not
    # hold, each an encoded `asked.Line`
    found: Lines = ()


class RoundRequest(Body, frozen=True):
    """Asks for something about the round whose question has this digest."""

    digest: bytes


class Unmask(RoundRequest, frozen=True):
    """Asks for the seed that the sum needs, with the tags of all that share a key, in order."""

    tags: PerSite


class Unmasked(Body, frozen=True):
    """The seed of a site's self mask."""

    digest: bytes
    seed: bytes


class Recover(RoundRequest, frozen=True):
    """Asks for this site's piece of the self mask of a site that left; the piece is sealed."""

    vanished: int
    piece: bytes


class Recovered(Body, frozen=True):
    """A site's piece of the self mask of a site that left."""

    digest: bytes
    piece: bytes


class Open(RoundRequest, frozen=True):
    """Asks a site to open the combined ciphertext of the round, with all participants' seeds."""

    combined: bytes
    seeds: PerSite


class Opened(Body, frozen=True):
    """The opened sum, as words modulo the plaintext modulus."""

    digest: bytes
    words: bytes


class Secure(RoundRequest, frozen=True):
    """Asks a site with a role for its next step in the secure tests of a round.

    ``content`` is what others sealed for it, as `cipherdag.privacy.mpc.messages` has it.
    """

    verb: Verb
    content: bytes


class Secured(Body, frozen=True):
    """The answer of a site with a role: keys, sealed shares, or signed bits."""

    digest: bytes
    content: bytes


class Finish(Body, frozen=True):
    """Ends a session after this many rounds; ``previous`` is the last sum, as in `Ask`."""

    rounds: int
    previous: bytes = b""


class Closed(Body, frozen=True):
    """A site's last word: its ledger's head and length, and a digest of what the run came to there.

    ``result`` is empty where the plan has not ended.
    """

    ledger_head: bytes
    records: int
    result: bytes = b""


class Refusal(Body, frozen=True):
    """Why a site refused: the name of an error of `cipherdag.errors` and a text without data."""

    error: str
    message: str


REQUESTS: Final[Mapping[str, type[Body]]] = {
    "invite": Plan, "offers": Offers, "sealed": Sealed,
    "commitments": Commitments, "chances": Chances, "linked": Linked,
    "ask": Ask, "unmask": Unmask, "recover": Recover, "open": Open, "secure": Secure,
    "finish": Finish,
}  # fmt: skip
"""What the coordinator sends a site, by operation."""
REPLIES: Final[Mapping[str, Topic]] = {
    "invite": "offer", "offers": "seals", "sealed": "ready",
    "commitments": "chance", "chances": "links", "linked": "ready",
    "ask": "share", "unmask": "unmasked", "recover": "recovered", "open": "opened",
    "secure": "secured", "finish": "closed",
}  # fmt: skip
"""The topic of the reply to each operation, unless it is a refusal."""
OPERATIONS: Final = frozenset(REQUESTS)

_ENVELOPE = msgspec.msgpack.Decoder(Envelope)


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
    """The encoded body, once topic, session, sender and signature are checked, in this order.

    ``envelope`` is what `read_envelope` made of the message; ``identity`` the sender's pinned key.
    MalformedMessageError for another topic, else SignatureError.
    """
    if envelope.topic != topic:
        raise MalformedMessageError(f"expected a message about {topic}, got {envelope.topic}")
    if envelope.session != session or envelope.sender != sender:
        raise SignatureError("the message belongs to another session or sender")
    verify(identity, envelope.signature, *_signed_parts(session, sender, topic, envelope.body))
    return envelope.body


def read_envelope(message: bytes, topic: str | None = None) -> Envelope:
    """Decode an envelope, untrusted: length by topic, form and version are checked."""
    short = topic is not None and topic not in LONG
    if len(message) > (SHORT_BYTES if short else MAX_MESSAGE_BYTES):
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
    version = WIRE_VERSION.to_bytes(2, "big")
    # Ed25519 itself reads what it signs twice
    body = hashlib.sha256(payload).digest()
    return b"cipherdag envelope", version, session, sender.encode(), topic.encode(), body


def question_digest(plan: Plan, transcript: bytes, ask: Ask) -> bytes:
    """The digest that keys, masks and signatures of a round are bound to.

    It covers the plan, the session, the key agreement's transcript, the round's number, who is
    asked, the question and the sum that led to it: sites with different sums do not agree.
    """
    return digest(b"question", plan.digest, transcript, encode(ask))


def content_digest(question: Question) -> bytes:
    """Digest of a question alone, whoever is asked and in whichever round."""
    return digest(b"content", msgspec.msgpack.encode(question, order="deterministic"))


def declaration(
    question: Question, participants: tuple[int, ...], digest_: bytes, plan: Plan
) -> Declaration:
    """Declares to the privacy layer what a round's shares are for.

    A mask is recovered by as many sites as a sum must cover. The honest ones among them released
    their seed and never answer the question again, so too few are left to open another sum of it.
    Where only that many are asked, no mask is recovered at all: the run could not go on without
    the site that left, and with fewer pieces two overlapping sums could be opened. On a sparse
    graph of keys the neighbours of a site recover its mask; `KeyBounds` says how many.
    """
    asked = len(participants)
    fewest = threshold = fewest_survivors(len(plan.cohort), plan.colluders)
    if plan.key_bounds is not None:
        fewest, threshold = plan.min_survivors, plan.key_bounds.threshold
    return Declaration(
        digest=digest_,
        cohort_size=asked,
        segments=tuple(
            Segment(each.length, each.bound, each.resolution_bits, each.comparison, each.signed)
            for each in question.encodings
        ),
        participants=participants,
        threshold=threshold if asked > fewest else 0,
    )
