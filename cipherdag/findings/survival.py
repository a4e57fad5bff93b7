"""How long it takes until an event, over the rows of all sites."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec

from cipherdag.findings.axes import Estimate, Forest
from cipherdag.findings.effect import BetweenSites
from cipherdag.findings.finding import Cells, Column, Finding, Table, aligned
from cipherdag.graphs.graph import CausalGraph
from cipherdag.pages.numerals import counted, probability, ranged, shown

ALL_ROWS = "all"
ROUNDED = "Counts were disclosed in whole units of {} rows, and are ranges; intervals cover them."
BY_BIN = ("at_risk", "events", "survival", "low", "high")
"""What a curve has for every bin, in the order of the table ``curves``."""
Numbers = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCurve:
    """The survival curve of one group, a number per bin; empty where too few sites tell of it."""

    sites: int = 0  # how many sites tell of the group, 0 where they are too few
    # the least and the most rows that it can have; the same where counts are exact
    rows: tuple[int, int] = (0, 0)
    ended: tuple[int, int] = (0, 0)  # how many with the event up to the last edge, likewise
    events: tuple[int, ...] = ()  # rows with the event in the bin; about, where counts are ranges
    at_risk: tuple[int, ...] = ()  # rows without it when the bin begins, likewise
    # estimated chance of no event up to the end of the bin; None without rows at risk
    survival: Numbers = ()
    low: Numbers = ()  # lower end of its 95 % interval, likewise
    high: Numbers = ()  # upper end, likewise
    # end of the bin in which the curve falls to a half, and the ends of its interval; None where
    # that does not happen
    median: Numbers = (None, None, None)
    # whether bins are so coarse that the interval owes most of its width to them
    coarse: bool = False

    @property
    def reported(self) -> bool:
        """True if there is a curve."""
        return bool(self.at_risk)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTest:
    """A log-rank test of groups."""

    statistic: float
    dof: int
    p_value: float | None  # chance of a larger statistic if all groups are alike; None without any
    # events of every group; empty where some site restricts small counts
    observed: tuple[float, ...]
    # how many it would have if it had them as fast as all together, likewise
    expected: tuple[float, ...]
    sites: int  # how many sites tell of it
    # which groups it compares, by place from 0; of the others no event is observed, and none
    # expected. Empty in results of earlier revisions, which compare all.
    groups: tuple[int, ...] = ()
    # by how many those observed are more; empty of the test of all rows
    excess: tuple[float, ...] = ()

    def line(self, rows: str) -> str:
        """The test in one line; ``rows`` says which rows it compares."""
        if self.p_value is None:
            return f"Log-rank test {rows}: not done, as no groups are at risk together at an event."
        return (
            f"Log-rank test {rows}, {self.sites} of them: chi-square {self.statistic:.2f} with "
            f"{self.dof} degree{'s' * (self.dof != 1)} of freedom, p = {probability(self.p_value)}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardRatio:
    """The hazard ratio of one category to the first one, or per unit of a number.

    Attributes:
        category: The category by its place, from 1, beside category 0; None of numbers.
        log_ratio: Logarithm of the ratio, others alike; None, as all numbers, where there is a
            fault.
        fault: Why there is none: "withheld" by too many sites, "not determined" beside the other
            columns, or the likelihood rises "endless up" or "endless down"; empty where all is.
        between: The logarithms that each site's rows tell alone, and Cochran's Q of them; None
            where fewer than two sites have events enough, and in results of earlier revisions.
        over_time: The same of how much the logarithm is larger at the last event than at the first.
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
    between: BetweenSites | None = None
    over_time: BetweenSites | None = None


class HazardModel(msgspec.Struct, frozen=True, kw_only=True):
    """A Cox model."""

    sites: int  # how many sites tell of it, 0 where they are too few
    # whether each site has a hazard of its own, or all have one
    site_hazards: bool = msgspec.field(name="own_hazards")
    efron: bool = True  # whether ties are taken as Efron does, or as Breslow
    ratios: tuple[HazardRatio, ...] = ()  # of every column, in the order of the model
    # logarithm of the partial likelihood at its maximum; None without sites
    value: float | None = None
    null: float | None = None  # the same with no predictor at all
    statistic: float | None = None  # twice the difference, chi-square; None where that is not known
    dof: int = 0
    p_value: float | None = None  # chance of a larger one if no predictor matters
    # columns and places from 0 of the categories that too few sites have rows of, so that nothing
    # is told of the model
    few: tuple[tuple[str, int], ...] = ()

    @property
    def decisions(self) -> tuple[object, ...]:
        """The canonical bytes of what was fitted, without results of library functions."""
        return self.sites, self.dof, [(ratio.log_ratio, ratio.fault) for ratio in self.ratios]


@dataclass(frozen=True, kw_only=True)
class SurvivalAnalysis(Finding):
    """Curves, and what makes the event come faster; of rows that are visits the latter alone.

    Attributes:
        event: Column that says whether the event ended them.
        event_category: Which of its categories is the event, from 1.
        by: Column of the groups; empty of one group.
        edges: Upper edge of every bin of time.
        curves: Of every group, in the order of the column's categories.
        test: Of the groups, stratified by site, at exact times; None of one group, or where too few
            sites tell of it.
        together: The same of all rows as if of one site, in bins of time; None where some site
            restricts small counts, which this test does not bear.
        rounded_to: In how large units counts of all sites are known; 1 if they are exact.
        all_rows: How many rows the sites hold, those with missing values, too; 0 if not known.
    """

    kind: ClassVar[str] = "survival"
    template: ClassVar[str] = "survival_run.html.j2"
    causal: ClassVar[bool] = False
    promise: ClassVar[str] = "how long it takes until an event, over all sites' rows together."

    time: str
    event: str
    event_category: int = 2
    by: str
    n_sites: int
    edges: tuple[float, ...]
    curves: tuple[GroupCurve, ...]
    test: GroupTest | None = None
    together: GroupTest | None = None
    model: HazardModel | None = None
    rounded_to: int = 1
    all_rows: int = 0

    @property
    def decisions(self) -> bytes:
        counts = [(each.sites, each.rows, each.ended, each.events) for each in self.curves]
        tests = [test and (test.statistic, test.dof) for test in (self.test, self.together)]
        model = None if self.model is None else self.model.decisions
        return msgspec.json.encode([self.edges, counts, tests, model])

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the groups, in the order of `curves`."""
        if not self.by:
            return (ALL_ROWS,)[: len(self.curves)]
        return tuple(self.dictionary.category(self.by, k) for k in range(len(self.curves)))

    @property
    def unreported(self) -> tuple[str, ...]:
        """The groups that too few sites tell of."""
        named = zip(self.group_names, self.curves, strict=True)
        return tuple(name for name, curve in named if not curve.reported)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """The groups that have a curve and no part in the stratified test."""
        if self.test is None or not self.test.groups:
            return ()
        named = enumerate(zip(self.group_names, self.curves, strict=True))
        return tuple(n for k, (n, curve) in named if curve.reported and k not in self.test.groups)

    @property
    def event_name(self) -> str:
        """The category that is the event, such as "died = yes"; its number, without the schema."""
        if self.event not in self.dictionary.categories:
            return f"{self.event}, category {self.event_category}"
        return f"{self.event} = {self.dictionary.category(self.event, self.event_category - 1)}"

    @property
    def ratio_names(self) -> tuple[str, ...]:
        """The names of the hazard ratios, in the order of the model."""
        category = self.dictionary.category
        return tuple(
            ratio.column
            if ratio.category is None
            else f"{ratio.column} {category(ratio.column, ratio.category)} rather than "
            f"{category(ratio.column, 0)}"
            for ratio in self._ratios
        )

    @property
    def _ratios(self) -> tuple[HazardRatio, ...]:
        return () if self.model is None else self.model.ratios

    @property
    def headline(self) -> str:
        if not self.curves:
            return f"{counted(len(self._ratios), 'ratio')} of hazards ({self.event_name})"
        return f"{ranged(*self._total('ended'))} events ({self.event_name})"

    @property
    def test_lines(self) -> list[str]:
        """Each log-rank test in one line."""
        tests = ("stratified by site", self.test), ("of the rows of all sites", self.together)
        return [test.line(rows) for rows, test in tests if test is not None]

    def _total(self, counted: str) -> tuple[int, int]:
        ranges = [getattr(curve, counted) for curve in self.curves]
        return sum(least for least, _ in ranges), sum(most for _, most in ranges)

    def _group_rows(self) -> Cells:
        """A row per group; None of the test where there is none, or it leaves the group out."""
        none: tuple[float | None, ...] = (None,) * len(self.curves)
        tests = [none, none, none]
        if test := self.test:
            events = tuple(map(int, test.observed))
            for number, each in enumerate((events, test.expected, test.excess)):
                by_group = {k: each[k] for k in test.groups or range(len(each)) if each}
                tests[number] = tuple(map(by_group.get, range(len(none))))
        return [
            (name, curve.sites, *curve.rows, *curve.ended, *curve.median, *test)
            if curve.reported
            else (name, curve.sites, *(None,) * 10)
            for name, curve, *test in zip(self.group_names, self.curves, *tests, strict=True)
        ]

    def lines(self, n_sites: int) -> list[str]:
        del n_sites  # those that were asked are counted
        least, most = self._total("rows")
        of = f" of {self.all_rows:,}" if most < self.all_rows else ""
        rows = f"{ranged(least, most)}{of} rows of {self.n_sites} sites"
        groups = [(row[0], _line(self.time, row)) for row in self.cells("groups")]
        ends = f"event: {self.event_name}, up to {self.time} {max(self.edges, default=0.0):g}"
        lines = ["", f"{rows}, {ends}:", *aligned(groups)] if groups else []
        lines += [ROUNDED.format(self.rounded_to)] if self.rounded_to > 1 else []
        lines += ["", *self.test_lines] if self.test or self.together else []
        ratios = [
            (row[0], _ratio(*row[1:5])) for row in self.cells("hazard_ratios") if row[1] is not None
        ]
        lines += ["", "Ratios of hazards, all else alike:", *aligned(ratios)] if ratios else []
        return lines

    def sections(self, truth: CausalGraph | None) -> dict[str, Any]:
        del truth
        rows = self.cells("hazard_ratios")
        drawn = tuple(Estimate(*row[:4]) for row in rows if None not in row[1:4])
        if not drawn:
            return {"forest": None}
        note = "95 % intervals; the broken line is where hazards do not differ."
        title, label = "Ratios of hazards", "ratio of hazards"
        return {"forest": Forest(title=title, note=note, label=label, ratios=True, estimates=drawn)}

    def to_json(self, identifiers: Mapping[str, str]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for name, value in super().to_json(identifiers).items():
            entries |= {"groups": list(self.group_names)} if name == "curves" else {}
            entries[name] = value
        return entries

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Self:
        category = report.get("parameters", {}).get("event_category", 2)
        return super().from_json({"event_category": category, **report})

    def _ratio_rows(self) -> Cells:
        columns = ("ratio", "low", "high", "p_value", "log_ratio", "deviation", "fault")
        return [
            (name, *(getattr(ratio, column) for column in columns))
            for name, ratio in zip(self.ratio_names, self._ratios, strict=True)
        ]

    def _curve_rows(self) -> Cells:
        return [
            (name, *row)
            for name, curve in zip(self.group_names, self.curves, strict=True)
            if curve.reported
            for row in zip(self.edges, *(getattr(curve, part) for part in BY_BIN), strict=True)
        ]

    tables = (
        Table(
            name="groups",
            doc="One row per group; no numbers of one that too few sites tell of.",
            columns=(
                Column("group", str, "The group, or `all`."),
                Column("sites", int, "The sites that tell of it."),
                Column("rows", float, "The rows at risk at the beginning, at least."),
                Column("rows_most", float, "At most; the same where counts are exact."),
                Column("events", float, "The events in all bins, at least."),
                Column("events_most", float, "At most."),
                Column("median", float, "The end of the bin in which the curve falls to a half."),
                Column("median_low", float, "The lower end of its interval at 95 %."),
                Column("median_high", float, "The upper end."),
                Column("observed", float, "The events in the stratified test, if it has any."),
                Column("expected", float, "How many it would have if all groups were alike."),
                Column("excess", float, "By how many it has more than expected."),
            ),
            rows=_group_rows,
            saved="never",
        ),
        Table(
            name="curves",
            doc="One row per group and bin of time.",
            columns=(
                Column("group", str, "The group, or `all`."),
                Column("time", float, "The upper edge of the bin."),
                Column("at_risk", int, "The rows at risk when it begins; about, if rounded."),
                Column("events", int, "The rows with the event in it, likewise."),
                Column("survival", float, "The estimated chance of no event up to the edge."),
                Column("low", float, "The lower end of its interval at 95 %."),
                Column("high", float, "The upper end; NaN without rows at risk."),
            ),
            rows=_curve_rows,
        ),
        Table(
            name="hazard_ratios",
            doc="One row per column of the Cox model, and per category of it but the first.",
            columns=(
                Column("of", str, "The column, and the two categories that are compared."),
                Column("ratio", float, "How many times the hazard is, with others alike."),
                Column("low", float, "The lower end of its interval at 95 %."),
                Column("high", float, "The upper end."),
                Column("p_value", float, "The p-value of Wald's test."),
                Column("log_ratio", float, "The logarithm of the ratio."),
                Column("deviation", float, "The standard deviation of the logarithm."),
                Column("fault", str, "Why there is no number."),
            ),
            rows=_ratio_rows,
            saved="with rows",
        ),
    )


def _line(time: str, row: tuple[Any, ...]) -> str:
    """A row of the table ``groups`` in one line of a terminal."""
    _, sites, rows, most, events, last, median, low, high, observed, expected, excess = row
    if rows is None:
        return "withheld: too few rows, or too few sites tell of it"
    ends = " to ".join("-" if end is None else shown(end) for end in (low, high))
    half = "no median yet" if median is None else f"median {time} {shown(median)} (95 %: {ends})"
    line = f"{ranged(rows, most)} rows at {sites} sites, {ranged(events, last)} events, {half}"
    if observed is not None:
        return f"{line}; over all follow-up {observed:,} events, {expected:.1f} expected"
    if excess is not None:
        more = "more" if excess >= 0.0 else "fewer"
        return f"{line}; over all follow-up {abs(excess):.1f} events {more} than expected"
    return line


def _ratio(ratio: float, low: float, high: float, p_value: float) -> str:
    return f"{shown(ratio)} ({shown(low)} to {shown(high)}), p = {probability(p_value)}"
