"""What the coordinator received, in digests, so that each site's ledger can be held against it.

Leaks:
    Nothing beyond what the coordinator saw: who answered what, how long, and SHA-256 digests.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from cipherdag.errors import LedgerError, MalformedMessageError, OutputError
from cipherdag.protocol.messages import (
    Body,
    Opened,
    Ready,
    Recovered,
    Share,
    Unmasked,
    decode,
    read_envelope,
)
from cipherdag.sites.ledger import LedgerHead, read_releases, verify_ledger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cipherdag.protocol.engines.engine import Engine, SiteFailure

# the field of a reply that the site's ledger records
RECORDED: dict[str, tuple[type[Body], str]] = {
    "ready": (Ready, "schema_digest"),
    "share": (Share, "share"),
    "unmasked": (Unmasked, "seed"),
    "recovered": (Recovered, "piece"),
    "opened": (Opened, "words"),
}


class Received(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reply: from whom, about what, and SHA-256 of the whole and of what a ledger records."""

    site: str
    session: str
    topic: str
    bytes: int
    envelope: str
    content: str = ""


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """A ledger that verifies, held against a transcript if there is one.

    Attributes:
        head: Where the ledger ends.
        matched: Records whose content arrived; None without a transcript.
        unreceived: Lines whose content left the site but never arrived, as when a site was slow.
    """

    head: LedgerHead
    matched: int | None = None
    unreceived: tuple[int, ...] = ()

    @property
    def received(self) -> str:
        """What a transcript adds, as the end of a sentence."""
        if self.matched is None:
            return ""
        late = f", {len(self.unreceived)} never arrived" if self.unreceived else ""
        return f"; {self.matched} records arrived as written{late}"


class TranscribingEngine:
    """An engine that writes down what comes back; a context manager is not needed.

    Args:
        engine: Carries the messages.
        path: File to append to, one JSON object per reply.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path

    def call(
        self, operation: str, messages: Mapping[str, bytes], *, timeout_s: float
    ) -> dict[str, bytes | SiteFailure]:
        """See `Engine.call`."""
        replies = self._engine.call(operation, messages, timeout_s=timeout_s)
        lines = [
            msgspec.json.encode(received(site, reply)) + b"\n"
            for site, reply in replies.items()
            if isinstance(reply, bytes)
        ]
        try:
            with self._path.open("ab") as file:
                file.writelines(lines)
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written: {error.strerror}") from error
        return replies


def received(site: str, reply: bytes) -> Received:
    """The record of one reply; one that is not a message is recorded as such."""
    digest = hashlib.sha256(reply).hexdigest()
    try:
        envelope = read_envelope(reply)
        content = ""
        if envelope.topic in RECORDED:
            kind, field = RECORDED[envelope.topic]
            content = hashlib.sha256(getattr(decode(envelope.body, kind), field)).hexdigest()
    except MalformedMessageError:
        return Received(site, "", "garbage", len(reply), digest)
    return Received(site, envelope.session.hex(), envelope.topic, len(reply), digest, content)


def read_transcript(path: Path) -> list[Received]:
    """The replies of a run.

    Raises:
        OutputError: The file cannot be read.
    """
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Received) for line in lines]
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise OutputError(f"{path} is not the transcript of a run") from error


def check_ledger(
    lines: Sequence[str], transcript: Sequence[Received], *, expected: LedgerHead
) -> LedgerCheck:
    """Hold a site's ledger against what the coordinator received in one run.

    Args:
        lines: The site's ledger, which may go on after the run.
        transcript: What the coordinator received.
        expected: Where the ledger stood at the end of the run, as the site reported.

    Raises:
        LedgerError: The ledger is broken, is not the one reported, or lacks what arrived.
    """
    head = verify_ledger(lines, identity=expected.identity)
    if expected.records > len(lines):
        raise LedgerError("the ledger is shorter than the site reported", site=expected.site)
    at_end = verify_ledger(lines[: expected.records], identity=expected.identity)
    if at_end.hash != expected.hash:
        raise LedgerError("the ledger is not the one that the site reported", site=expected.site)
    own = [reply for reply in transcript if reply.site == expected.site and reply.content]
    arrived = {(reply.session, reply.content) for reply in own}
    sessions = {reply.session for reply in transcript}
    releases = [r for r in read_releases(lines) if r.session in sessions]
    recorded = {(release.session, release.content) for release in releases}
    if not arrived <= recorded:
        raise LedgerError(
            f"{len(arrived - recorded)} answers arrived that the ledger does not record",
            site=expected.site,
        )
    missing = [r.line for r in releases if (r.session, r.content) not in arrived]
    return LedgerCheck(head, len(releases) - len(missing), tuple(missing))
