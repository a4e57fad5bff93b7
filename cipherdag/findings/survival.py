"""How long it takes until an event, over the rows of all sites.

Leaks:
    Nothing new: all of it follows from opened sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_ROWS = "all"
"""What one group of all rows is called."""
Numbers = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCurve:
    """The Kaplan-Meier curve of one group, a number per bin; empty where too few sites tell of it.

    Attributes:
        sites: How many sites tell of the group, 0 where they are too few.
        events: Rows with the event in the bin.
        at_risk: Rows without it when the bin begins.
        survival: Estimated chance of no event up to the end of the bin; None without rows at risk.
        low: Lower end of its 95 % interval, likewise.
        high: Upper end, likewise.
        median: End of the bin in which the curve falls to a half, and the ends of its interval;
            None where that does not happen.
    """

    sites: int = 0
    events: tuple[int, ...] = ()
    at_risk: tuple[int, ...] = ()
    survival: Numbers = ()
    low: Numbers = ()
    high: Numbers = ()
    median: Numbers = (None, None, None)

    @property
    def told(self) -> bool:
        """Whether enough sites tell of it."""
        return bool(self.at_risk)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTest:
    """A log-rank test of all groups.

    Attributes:
        statistic: Chi-square.
        dof: Degrees of freedom.
        p_value: Chance of a larger statistic if all groups are alike; None without any.
        observed: Events of every group.
        expected: How many it would have if it had them as fast as all together.
        sites: How many sites tell of it.
    """

    statistic: float
    dof: int
    p_value: float | None
    observed: tuple[float, ...]
    expected: tuple[float, ...]
    sites: int


@dataclass(frozen=True, kw_only=True)
class SurvivalAnalysis:
    """Curves, and what makes the event come faster.

    Attributes:
        time: Column of the times.
        event: Column that says whether the event ended them.
        by: Column of the groups; empty of one group.
        edges: Upper edge of every bin of time.
        curves: Of every group, in the order of the column's categories.
        n_sites: How many sites were asked.
        test: Of the groups within the sites, at exact times; None of one group, or where too few
            sites tell of it.
        together: The same of all rows as if of one site, in bins of time; None where some site
            restricts small counts, which this test does not bear.
        details: What else was found.
    """

    time: str
    event: str
    by: str
    edges: tuple[float, ...]
    curves: tuple[GroupCurve, ...]
    n_sites: int
    test: GroupTest | None = None
    together: GroupTest | None = None
    details: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def group_names(self) -> tuple[str, ...]:
        """What the groups are called, in the order of `curves`: numbers, without the schema."""
        numbered = tuple(str(number) for number in range(1, len(self.curves) + 1))
        return numbered if self.by else (ALL_ROWS,)

    @property
    def not_told(self) -> tuple[str, ...]:
        """The groups that too few sites tell of."""
        named = zip(self.group_names, self.curves, strict=True)
        return tuple(name for name, own in named if not own.told)

    @property
    def decisions(self) -> bytes:
        """All that was counted, in one order: equal counts, equal bytes."""
        counted = [(own.sites, own.events, own.at_risk) for own in self.curves]
        tests = [
            None if own is None else (own.statistic, own.dof) for own in (self.test, self.together)
        ]
        return msgspec.json.encode([self.edges, counted, tests])
