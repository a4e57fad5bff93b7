"""A site's ledger held against what the coordinator received of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cipherdag.errors import LedgerError
from cipherdag.protocol.transcript import Received
from cipherdag.sites.record.ledger import (
    LedgerHead,
    clock_remark,
    read_releases,
    verify_ledger,
)


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """A ledger that verifies, held against a transcript if there is one.

    Attributes:
        head: Where the ledger ends.
        matched: Records whose content arrived; None without a transcript.
        unreceived: Lines whose content left the site but never arrived, as when a site was slow.
        remark: What is odd and proves nothing, such as a clock that was set back.
    """

    head: LedgerHead
    matched: int | None = None
    unreceived: tuple[int, ...] = ()
    remark: str = ""

    @property
    def received(self) -> str:
        """What a transcript adds, as the end of a sentence."""
        if self.matched is None:
            return ""
        late = f", {len(self.unreceived)} never arrived" if self.unreceived else ""
        return f"; {self.matched} records arrived as written{late}"


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
    written = read_releases(lines)
    releases = [release for release in written if release.session in sessions]
    recorded = {(release.session, release.content) for release in releases}
    if not arrived <= recorded:
        raise LedgerError(
            f"{len(arrived - recorded)} answers arrived that the ledger does not record",
            site=expected.site,
        )
    missing = [r.line for r in releases if (r.session, r.content) not in arrived]
    matched = len(releases) - len(missing)
    return LedgerCheck(head, matched, tuple(missing), clock_remark(written))
