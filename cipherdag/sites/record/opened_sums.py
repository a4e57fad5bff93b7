"""Whose answers the sums cover that a site helped to open, over all runs, and the bits it found.

Two sums of nearly the same question over cohorts that differ in one site show that site's answer by
subtraction, whatever protected each of them (privacy.md, section 5). A session cannot see this, so
the site remembers: a run opens sums over the same sites again, or over sites that differ in enough
of them. What was asked does not count: that two questions are nearly the same is not for a site to
judge. Counts in units have the same unit for good: floors by two units tell several times as many
small counts exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from cipherdag.errors import DifferencingError, PolicyRefusedError, SiteNotReadyError
from cipherdag.protocol.asked import Answers, Context, Line
from cipherdag.protocol.durable_files import append_entries, read_entries
from cipherdag.sites.record.ledger import Release

Groups = Iterable[tuple[str, ...]]
"""Sites by what they measured, group by group; empty where all measured the same."""

REOPENED = "sums over nearly these sites were opened before"


class OpenedSum(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The sums of a session over the same sites: in hexadecimal, with the day of the first.

    ``content`` is of lines that an earlier revision wrote, one for every question.
    ``measured_groups`` are the sites by what they measured, where that differed: every sum is over
    some of them. ``unit`` is that of counts, 0 of sums.
    """

    session: str
    day: str
    schema: str
    sites: tuple[str, ...]
    content: str = ""
    measured_groups: tuple[tuple[str, ...], ...] = msgspec.field(default=(), name="alike")
    unit: int = 0

    @property
    def groups(self) -> set[frozenset[str]]:
        """The sites that every one of its sums covers together."""
        return set(map(frozenset, self.measured_groups or (self.sites,)))


@dataclass(frozen=True, slots=True)
class CohortChange:
    """The difference of a new cohort from those of earlier runs.

    ``nearest`` is the earlier sum that differs least from it, in the ``differing`` sites;
    ``covered_before`` says whether one covered just this cohort.
    """

    covered_before: bool
    nearest: OpenedSum
    differing: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentence on what the difference of two such sums discloses."""
        names = ", ".join(f"'{name}'" for name in self.differing)
        alone = "the answers" if len(self.differing) == 1 else "sums and differences"
        run = f"run {self.nearest.session[:8]} of {self.nearest.day}"
        return f"with {run} it would show {alone} of {names} by subtraction"


def differing_sites(one: OpenedSum, other: OpenedSum) -> frozenset[str]:
    """The fewest sites that differences of two runs' sums show; none where they show nothing new.

    Of two runs over sites that measured the same, those of one cohort alone. Where groups of sites
    measured different variables, every sum is over some groups, and a difference shows no fewer
    than the smallest part into which the groups of one run cut those of the other.
    """
    ours, theirs = one.groups, other.groups
    if not one.measured_groups and not other.measured_groups:
        return frozenset(one.sites) ^ frozenset(other.sites)
    parts = [first & second for first in ours - theirs for second in theirs - ours]
    for groups, sites in ((ours, {*other.sites}), (theirs, {*one.sites})):
        parts += [group - sites for group in groups if group & sites]
    return min(filter(None, parts), key=len, default=frozenset())


class OpenedSums:
    """The record of one site, in memory and in ``path`` if there is one.

    The schema, in canonical bytes, gives positions their meaning. The file, of mode 0600, has one
    JSON object a line; SiteNotReadyError where it cannot be read.
    """

    def __init__(self, schema: bytes, path: Path | None = None) -> None:
        self._schema = sha256(schema).hexdigest()
        self._path = path
        self._sums: list[OpenedSum] = []
        self._accepted: set[str] = set()
        if path is not None:
            unread = SiteNotReadyError(
                f"{path.name} cannot be read, so earlier runs are not known",
                remedy="Restore it: it holds which sums this site helped to open.",
            )
            self._sums = read_entries(path, OpenedSum, unread)

    def runs(self, *, but: bytes) -> int:
        """The number of other runs that opened a sum over this schema."""
        sessions = {done.session for done in self._sums if done.schema == self._schema}
        return len(sessions - {but.hex()})

    def reads(self, session: str) -> bool:
        """False if a run opened sums over another schema than this one."""
        return all(each.schema == self._schema for each in self._sums if each.session == session)

    def accept(self, session: bytes) -> None:
        """A person of the site approved this run, told that its sites differ from earlier ones."""
        self._accepted.add(session.hex())

    def change(
        self, session: bytes, cohort: Iterable[str], groups: Groups = ()
    ) -> CohortChange | None:
        """The difference of a cohort from those of other runs' sums; None if there is none."""
        now = OpenedSum("", "", self._schema, tuple(sorted(cohort)), measured_groups=tuple(groups))
        others = [done for done in self._sums if done.session != session.hex()]
        # other sites are another cohort, even where differences of sums show nothing new
        between = [differing_sites(done, now) or {*done.sites} ^ {*now.sites} for done in others]
        differing = [(done, sites) for done, sites in zip(others, between, strict=True) if sites]
        if not differing:
            return None
        nearest, sites = min(differing, key=lambda each: len(each[1]))
        return CohortChange(len(differing) < len(others), nearest, tuple(sorted(sites)))

    def check(
        self,
        session: bytes,
        sites: Iterable[str],
        groups: Groups = (),
        *,
        fewest: int,
        unit: int = 0,
    ) -> None:
        """Refuse a sum where another run opened one over nearly these sites.

        Two sums cover the same sites or differ in the ``fewest``, else DifferencingError, unless
        somebody who was told so approved this run; ``groups`` are the sites by what they measured,
        where that differs. Counts are asked for in a ``unit``, 0 for none: PolicyRefusedError where
        counts of these sites were found in another one.
        """
        now = OpenedSum("", "", self._schema, tuple(sorted(sites)), measured_groups=tuple(groups))
        for done in self._sums if unit else ():
            if done.sites == now.sites and done.unit not in (0, unit):
                raise PolicyRefusedError(
                    f"counts of these sites in units of {unit}, after units of {done.unit} in run "
                    f"{done.session[:8]} of {done.day}: both together tell small counts",
                    remedy=f"Have {done.unit} be the largest min_cell_size of the sites again.",
                )
        if session.hex() in self._accepted:
            return
        others = (done for done in self._sums if done.session != session.hex())
        if any(0 < len(differing_sites(done, now)) < fewest for done in others):
            raise DifferencingError(REOPENED)

    def write(
        self, session: bytes, sites: Iterable[str], groups: Groups = (), *, unit: int = 0
    ) -> None:
        """Record a sum before it is opened, on disk; on an OutputError nothing may leave."""
        covered = tuple(sorted(sites))
        ours = (done for done in self._sums if done.session == session.hex())
        if any(done.sites == covered and unit in (0, done.unit) for done in ours):
            return
        day = datetime.now(UTC).date().isoformat()
        measured = tuple(groups)
        done = OpenedSum(
            session.hex(), day, self._schema, covered, measured_groups=measured, unit=unit
        )
        if self._path is not None:
            append_entries(self._path, done)
        self._sums.append(done)

    def check_complete(self, releases: Iterable[Release]) -> None:
        """Raise SiteNotReadyError where the ledger holds openings that this record lacks."""
        recorded = {done.session for done in self._sums}
        opened = {release.session for release in releases if release.kind == "mask-seeds"}
        if not opened <= recorded:
            raise SiteNotReadyError(
                f"sums.jsonl lacks {len(opened - recorded)} runs that the ledger holds",
                remedy="Restore sums.jsonl: without it earlier runs could be subtracted from new "
                "ones unnoticed.",
            )


class AskedLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line, and the rows that it is about."""

    about: bytes
    line: Line


@dataclass(frozen=True, slots=True)
class AskedBits:
    """The bits that a site helped to find, by its rows and the cohort: none is found again.

    The file has a line for every batch of secure tests, as soon as this site signed it or knows
    both signatures. A plan that asks for such a bit again is answered by the line, without
    computing. So whoever repeats a plan, or asks a test again among others, learns nothing new,
    whatever answers others change.
    """

    path: Path

    def of(self, context: Context) -> Answers:
        """Earlier runs' bits of these rows; SiteNotReadyError, ForgedSumError for two answers."""
        answers = Answers(context)
        unread = SiteNotReadyError(
            f"{self.path.name} cannot be read, so what was asked before is not known",
            remedy="Restore it: it holds which bits this site helped to find.",
        )
        for entry in read_entries(self.path, AskedLine, unread):
            if entry.about == context.digest and entry.line.run != context.run:
                answers.hold(entry.line)
        return answers

    def write(self, context: Context, line: Line) -> None:
        """Record bits that are signed; on an OutputError nothing may leave."""
        append_entries(self.path, AskedLine(context.digest, line))
