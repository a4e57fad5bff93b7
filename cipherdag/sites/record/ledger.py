"""A site's ledger: one record for everything that left it, hash-chained and signed.

A line is the canonical JSON of one `Release`. Its hash covers the whole record and the hash of the
line before; its signature is the site's. Changing, removing or inserting a line breaks the chain;
cutting the end off is found by comparing the head with the one the site reported on closing.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec

from cipherdag.errors import CipherdagError, LedgerError, writing
from cipherdag.privacy.keys.identity import SigningIdentity, verify
from cipherdag.protocol.durable_files import append
from cipherdag.protocol.progress import LedgerHead

REFUSAL = "refusal"
WAITS = "waits"
REPEAT = "repeat"
COUNTED = "counted"
REPAIRED = "repaired-line"
ENGINE_START = "engine-start"
GENESIS = "0" * 64
DOMAIN = b"cipherdag ledger"
MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ReleaseKind:
    """One kind of release that answers no question.

    ``seen`` is a sentence on who sees what of it; ``{sites}`` is how many a sum covers.
    ``operations`` are the requests that it replies to, if always the same.
    """

    name: str
    phrase: str
    seen: str = ""
    operations: tuple[str, ...] = ()


CLOSED_RUN = "closed"
LABEL_POSITIONS, RELATIONS = "label-positions", "relations"
SAME_ROWS = "All see whether the rows are those of an earlier run."
_KINDS = (
    ReleaseKind(
        "offer",
        "public keys made for this run, a real site's keyed fingerprint of its rows, and the last "
        "records of other ledgers that it remembers, by their fingerprints",
        SAME_ROWS,
        operations=("invite",),
    ),
    ReleaseKind(
        "seals",
        "encrypted keys, and from the first site its schema, for the other sites, and the last "
        "record of its ledger, by its fingerprint",
        "Only they can read keys and schema.",
        operations=("offers", "chances"),
    ),
    ReleaseKind(
        "chance",
        "a random number that it had committed to",
        "Such numbers decide how keys are dealt out.",
        operations=("commitments",),
    ),
    ReleaseKind(
        "schema-digest",
        "a fingerprint of the schema under a key that the sites have in common",
        "It shows whether all schemas are the same. Without the key nobody reads a name from it.",
        operations=("sealed", "linked"),
    ),
    ReleaseKind(
        LABEL_POSITIONS,
        "positions of the labels among the identifiers",
        "The same at every site, seen by the coordinator.",
    ),
    ReleaseKind(
        RELATIONS,
        "which variables the schema says to follow from others, by position",
        "The same at every site, seen by the coordinator.",
    ),
    ReleaseKind(
        "mask-seeds",
        "the seed of a mask that this answer alone has, so that the sum can be read",
        "The answer also has masks in common with other sites. These still hide it, and cancel "
        "only in the sum. The mask that it alone has protects it if a site leaves.",
        operations=("unmask",),
    ),
    ReleaseKind("mask-piece", "a piece of the mask of a site that left", operations=("recover",)),
    ReleaseKind(
        "opened-sum",
        "the disclosed sum over all sites",
        "It is the sum over {sites} sites, which everybody in the run sees.",
        operations=("open",),
    ),
    ReleaseKind(
        "secure-step",
        "a message of the secure computation of bits",
        "Such a message is encrypted for another site, or is a key that alone reveals nothing. The "
        "last message holds the bits, which everybody sees.",
        operations=("secure",),
    ),
    ReleaseKind("blinded-sum", "the disclosed sum over all sites, blinded, in an earlier revision"),
    ReleaseKind("verdict-shares", "shares of bits, in an earlier revision"),
    ReleaseKind(
        CLOSED_RUN,
        "fingerprints (SHA-256) of the result and of its ledger, and how many records that has",
        "They show later whether either was changed.",
        operations=("finish",),
    ),
    ReleaseKind(REFUSAL, "a refusal"),
    ReleaseKind(
        WAITS,
        "word that the plan waits for a decision of this site",
        "It leaves each time that the coordinator asks; it is written down once, then counted.",
    ),
    ReleaseKind(REPEAT, "a reply that was sent before, once more"),
    ReleaseKind(COUNTED, "counted within an hour"),
    ReleaseKind(REPAIRED, "a record that a crash cut short was taken off the ledger"),
    ReleaseKind(ENGINE_START, "a start of the process that carries messages; nothing left"),
)
RELEASE_KINDS = {kind.name: kind for kind in _KINDS}
REPLY_KINDS = {operation: kind.name for kind in _KINDS for operation in kind.operations}
"""What a reply is called, by operation; a share is called after its questions."""


def answers(kind: str) -> bool:
    """True if a release of this kind answers a question."""
    return kind.split("+", maxsplit=1)[0] not in RELEASE_KINDS


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The record of one thing that left a site; numbers of values and bytes, never the values.

    Session, key, digests and hashes are in hexadecimal.

    Attributes:
        line: 1-based number of the record.
        time: When, in UTC.
        identity: The site's Ed25519 public key.
        round: Round of the session; 0 for the set-up.
        kind: What was asked, such as ``edge-votes``; or one of `RELEASE_KINDS`.
        values: How many values left; of ``counted``, how many messages.
        bytes: Length of what left, the whole signed reply; ``content`` is its SHA-256. Of
            ``counted``, of all that left again, whose contents stand in earlier records.
        sites: Size of the cohort whose sum is all that becomes visible.
        digest: Digest of the question; where the record closes a run, of the sums the site keeps.
        previous: Hash of the record before.
        question: The question in words, where this answers one; or why a plan was refused, or what
            was counted.
    """

    line: int
    time: str
    site: str
    identity: str
    session: str
    round: int
    algorithm: str
    kind: str
    values: int
    bytes: int
    protection: str
    sites: int
    digest: str
    content: str
    previous: str
    question: str = ""


class SignedRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A release with its hash and the site's signature over that hash, both in hexadecimal."""

    release: Release
    hash: str
    signature: str


class Ledger:
    """Appends releases, in memory and to ``path`` if there is one, under the site's signature.

    A ledger that is already there, or ``lines`` where there is no file, is verified and continued.
    """

    def __init__(
        self,
        site: str,
        identity: SigningIdentity,
        *,
        path: Path | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        lines: Iterable[str] = (),
    ) -> None:
        self._site = site
        self._identity = identity
        self._path = path
        self._clock = clock
        self._lines = list(lines)
        if self._lines:
            verify_ledger(self._lines, identity=identity.public.hex())
        if path is not None and path.exists():
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            self._lines = ledger_lines(whole.decode("utf-8", "replace"))
            verify_ledger(self._lines, identity=identity.public.hex())
            if whole != content:
                self._repair(path, len(whole))

    @property
    def lines(self) -> tuple[str, ...]:
        """All records, one canonical JSON object each."""
        return tuple(self._lines)

    @property
    def head(self) -> LedgerHead:
        """The head of the ledger."""
        last = GENESIS if self.last is None else self.last.hash
        return LedgerHead(len(self._lines), last, self._site, self._identity.public.hex())

    @property
    def last(self) -> SignedRelease | None:
        """The last record; None where there is none."""
        return msgspec.json.decode(self._lines[-1], type=SignedRelease) if self._lines else None

    def holds(self, record: str) -> bool:
        """Whether the ledger has a record of this hash, in hexadecimal."""
        return any(f'"hash":"{record}"' in line for line in self._lines)

    def _repair(self, path: Path, length: int) -> None:
        """Take off a last line that a crash cut short, and note that; nothing of it had left."""
        with writing(path):
            os.truncate(path, length)
        self.note(REPAIRED)

    def note(self, kind: str, account: str = "") -> Release:
        """Record what happened at the site outside a run, with an account in words; nothing left.

        OutputError where the file cannot be written.
        """
        return self.append(kind=kind, question=account)

    def append(
        self,
        *,
        kind: str,
        session: bytes = b"",
        round_number: int = 0,
        algorithm: str = "",
        values: int = 0,
        content: bytes = b"",
        length: int = 0,
        protection: str = "",
        sites: int = 0,
        digest: bytes = b"",
        question: str = "",
    ) -> Release:
        """Record what is about to leave, on disk; on an OutputError nothing may leave.

        ``length`` is that of contents which stand in earlier records and left again.
        """
        release = Release(
            line=len(self._lines) + 1,
            time=self._clock().isoformat(timespec="milliseconds"),
            site=self._site,
            identity=self._identity.public.hex(),
            session=session.hex(),
            round=round_number,
            algorithm=algorithm,
            kind=kind,
            values=values,
            bytes=length or len(content),
            protection=protection,
            sites=sites,
            digest=digest.hex(),
            content=hashlib.sha256(content).hexdigest(),
            previous=self.head.hash,
            question=question,
        )
        hashed = _hash(release)
        signature = self._identity.sign(DOMAIN, bytes.fromhex(hashed)).hex()
        line = _canonical(SignedRelease(release=release, hash=hashed, signature=signature))
        if self._path is not None:
            append(self._path, f"{line}\n".encode())
        self._lines.append(line)
        return release


def verify_ledger(lines: Iterable[str], *, identity: str | None = None) -> LedgerHead:
    """Check chain, canonical form and signatures of a ledger, and say where it ends.

    Lines have no line ends; the expected identity, in hexadecimal, is the first record's own where
    None. LedgerError names the first line that is wrong.
    """
    previous, site, count = GENESIS, "", 0
    for number, line in enumerate(lines, start=1):
        signed = _read(line, number)
        release = signed.release
        identity = identity or release.identity
        site = site or release.site
        expected = (number, previous, identity, site)
        if (release.line, release.previous, release.identity, release.site) != expected:
            raise LedgerError(f"line {number} does not continue the line before", line=number)
        if _hash(release) != signed.hash:
            raise LedgerError(f"line {number} does not match its hash", line=number)
        try:
            key, signature, hashed = map(bytes.fromhex, (identity, signed.signature, signed.hash))
            verify(key, signature, DOMAIN, hashed)
        except (CipherdagError, ValueError):
            raise LedgerError(f"line {number} is not signed by the site", line=number) from None
        previous, count = signed.hash, number
    return LedgerHead(records=count, hash=previous, site=site, identity=identity or "")


def ledger_lines(text: str) -> list[str]:
    """The lines of a ledger file; only a line feed ends one, since JSON may hold other breaks."""
    return text.removesuffix("\n").split("\n") if text else []


def read_releases(lines: Iterable[str]) -> list[Release]:
    """The records of a ledger, unverified."""
    return [_read(line, number).release for number, line in enumerate(lines, start=1)]


def clock_remark(releases: Iterable[Release]) -> str:
    """Before which lines the site's clock ran backwards; empty where it never did.

    The ledger is valid all the same: the chain gives its order.
    """
    times = [(release.time, release.line) for release in releases]
    back = [line for (before, _), (time, line) in pairwise(times) if time < before]
    if not back:
        return ""
    shown = ", ".join(map(str, back[:MOST_SHOWN])) + (", ..." if back[MOST_SHOWN:] else "")
    return f"the site's clock ran backwards before line {shown}"


def _read(line: str, number: int) -> SignedRelease:
    try:
        signed = msgspec.json.decode(line, type=SignedRelease)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise LedgerError(f"line {number} is not a record", line=number) from None
    # hexadecimal can be written in two cases; only one of them is ours
    if _canonical(signed) != line or signed.signature != signed.signature.lower():
        raise LedgerError(f"line {number} is not in canonical form", line=number)
    return signed


def _canonical(record: msgspec.Struct) -> str:
    return msgspec.json.encode(record, order="deterministic").decode()


def _hash(release: Release) -> str:
    return hashlib.sha256(_canonical(release).encode()).hexdigest()
