"""How long it takes until an event, over the rows of all sites.

Leaks:
    Nothing new: all of it follows from opened sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

ALL_ROWS = "all"
"""What one group of all rows is called."""
Numbers = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCurve:
    """The survival curve of one group, a number per bin; empty where too few sites tell of it.

    Attributes:
        sites: How many sites tell of the group, 0 where they are too few.
        events: Rows with the event in the bin.
        at_risk: Rows without it when the bin begins.
        survival: Estimated chance of no event up to the end of the bin; None without rows at risk.
        low: Lower end of its 95 % interval, likewise.
        high: Upper end, likewise.
        median: End of the bin in which the curve falls to a half, and the ends of its interval;
            None where that does not happen.
        coarse: Whether bins are so coarse that the interval owes most of its width to them.
    """

    sites: int = 0
    events: tuple[int, ...] = ()
    at_risk: tuple[int, ...] = ()
    survival: Numbers = ()
    low: Numbers = ()
    high: Numbers = ()
    median: Numbers = (None, None, None)
    coarse: bool = False

    @property
    def told(self) -> bool:
        """Whether enough sites tell of it."""
        return bool(self.at_risk)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTest:
    """A log-rank test of groups.

    Attributes:
        statistic: Chi-square.
        dof: Degrees of freedom.
        p_value: Chance of a larger statistic if all groups are alike; None without any.
        observed: Events of every group.
        expected: How many it would have if it had them as fast as all together.
        sites: How many sites tell of it.
        groups: Which groups it compares, by place from 0; of the others no event is observed, and
            none expected. Empty in results of earlier revisions, which compare all.
    """

    statistic: float
    dof: int
    p_value: float | None
    observed: tuple[float, ...]
    expected: tuple[float, ...]
    sites: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardRatio:
    """How many times the hazard is, with one category beside the first, or with one unit more.

    Attributes:
        column: The column.
        category: The category by its place, from 1, beside category 0; None of numbers.
        log_ratio: Logarithm of the ratio, others alike; None where there is a fault.
        deviation: Its standard deviation, likewise.
        ratio: The ratio of hazards, likewise.
        low: Lower end of its 95 % interval, likewise.
        high: Upper end, likewise.
        p_value: Wald's, likewise.
        fault: Why nothing is told: "not told of" by enough sites, "not determined" beside the other
            columns, or the likelihood rises "endless up" or "endless down"; empty where all is.
    """

    column: str
    category: int | None = None
    log_ratio: float | None = None
    deviation: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardModel:
    """A Cox model.

    Attributes:
        sites: How many sites tell of it, 0 where they are too few.
        own_hazards: Whether each site has a hazard of its own, or all have one.
        efron: Whether ties are taken as Efron does, or as Breslow.
        ratios: Of every column, in the order of the model.
        value: Logarithm of the partial likelihood at its maximum; None without sites.
        null: The same with no predictor at all.
        statistic: Twice the difference, chi-square; None where that is not known.
        dof: Its degrees of freedom.
        p_value: Chance of a larger one if no predictor matters.
        few: Columns and places from 0 of the categories that too few sites have rows of, so that
            nothing is told of the model.
    """

    sites: int
    own_hazards: bool
    efron: bool = True
    ratios: tuple[HazardRatio, ...] = ()
    value: float | None = None
    null: float | None = None
    statistic: float | None = None
    dof: int = 0
    p_value: float | None = None
    few: tuple[tuple[str, int], ...] = ()

    @property
    def decisions(self) -> tuple[object, ...]:
        """What was fitted, without what a library's functions make of it."""
        return self.sites, self.dof, [(own.log_ratio, own.fault) for own in self.ratios]


@dataclass(frozen=True, kw_only=True)
class SurvivalAnalysis:
    """Curves, and what makes the event come faster.

    Attributes:
        time: Column of the times.
        event: Column that says whether the event ended them.
        event_category: Which of its categories is the event, from 1.
        by: Column of the groups; empty of one group.
        edges: Upper edge of every bin of time.
        curves: Of every group, in the order of the column's categories.
        n_sites: How many sites were asked.
        test: Of the groups within the sites, at exact times; None of one group, or where too few
            sites tell of it.
        together: The same of all rows as if of one site, in bins of time; None where some site
            restricts small counts, which this test does not bear.
        model: The Cox model; None where none was asked for.
        restricted: Whether some site restricts small counts, and so moves events along a curve.
        all_rows: How many rows the sites hold, those with missing values, too; 0 if not known.
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
    model: HazardModel | None = None
    event_category: int = 2
    restricted: bool = False
    all_rows: int = 0
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
    def not_compared(self) -> tuple[str, ...]:
        """The groups that have a curve and no part in the test within the sites."""
        if self.test is None or not self.test.groups:
            return ()
        named = enumerate(zip(self.group_names, self.curves, strict=True))
        return tuple(n for k, (n, own) in named if own.told and k not in self.test.groups)

    def category_name(self, column: str, category: int) -> str:
        """What a category is called by its place: a number from 1, without the schema."""
        del column
        return str(category + 1)

    @property
    def event_name(self) -> str:
        """Which category is the event: its number, without the schema."""
        return f"{self.event}, category {self.event_category}"

    @property
    def ratio_names(self) -> tuple[str, ...]:
        """What the ratios of hazards are of, in the order of the model."""
        ratios = () if self.model is None else self.model.ratios
        return tuple(
            own.column
            if own.category is None
            else f"{own.column} {self.category_name(own.column, own.category)} rather than "
            f"{self.category_name(own.column, 0)}"
            for own in ratios
        )

    @property
    def decisions(self) -> bytes:
        """All that was counted, in one order: equal counts, equal bytes."""
        counted = [(own.sites, own.events, own.at_risk) for own in self.curves]
        tests = [
            None if own is None else (own.statistic, own.dof) for own in (self.test, self.together)
        ]
        model = None if self.model is None else self.model.decisions
        return msgspec.json.encode([self.edges, counted, tests, model])
