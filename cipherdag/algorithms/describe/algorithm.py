"""Describe: rows, missing values, means, spreads, quantiles and shares, before a graph is learnt.

Each column is told of by itself: no sum is of two of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts
from cipherdag.algorithms.describe.summaries import (
    Spreads,
    Summaries,
    exact_summaries,
    rounded_summaries,
)
from cipherdag.algorithms.evidence.pooled_moments import common_origins, common_units
from cipherdag.algorithms.evidence.site_differences import (
    SiteDifference,
    details_of,
    marginal_differences,
)
from cipherdag.algorithms.parameters import row_bound
from cipherdag.findings.description import ColumnSummary, Description
from cipherdag.findings.doubts import DIFFERING, MOST_NAMED, this_site_report
from cipherdag.findings.finding import Note, Report
from cipherdag.findings.panels import TablePanel
from cipherdag.pages.numerals import first_of, shown
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.disclosure import Disclosure, joined
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.estimation.rounded_totals import CellSizes
from cipherdag.questions.gather import gather_two, over_one_cohort
from cipherdag.questions.pooled_data import ColumnKinds, Columns
from cipherdag.questions.presence import Measured
from cipherdag.questions.question import Asking
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.questions.threshold import sum_with_threshold

NEARLY_EMPTY = 0.05
"""Share of rows with a value below which a column tells next to nothing."""
MOSTLY_FULL = 0.5
RARE = 0.01
"""Share of rows below which a category is called rare."""
NARROW = 0.2
"""Middle half of the numbers, in standard deviations, below which some lie far off: 1.35 of a
normal distribution, 0.2 where one in fifty is a hundred times as large."""


def remarks(description: Description) -> tuple[tuple[str, str], ...]:
    """What is odd, each with the columns it is said of; in the order of the columns."""
    differing = {row["variable"]: row for row in description.details.get(DIFFERING, ())}
    columns_of: dict[str, list[str]] = {}
    for name, summary in description.columns.items():
        for said in (
            *_of_column(summary, description.rows),
            *_between_sites(differing.get(name, {})),
        ):
            columns_of.setdefault(said, []).append(name)
    return tuple((first_of(names, MOST_NAMED), said) for said, names in columns_of.items())


def _of_column(summary: ColumnSummary, rows: int) -> Iterator[str]:
    if summary.beyond:
        yield (
            "a site has a number so large that its column cannot be added: a typing error, or "
            "another unit?"
        )
    if summary.far:
        yield (
            "a few values of a site lie ten times as far from its middle as all others, as typing "
            "errors, another unit or codes for missing values do"
        )
    if summary.n_rows is None:
        yield "withheld: too few sites have enough values"
        return
    share = summary.n_rows / max(rows, 1)
    if share < NEARLY_EMPTY:
        yield f"nearly empty: {share:.1%} of the rows tell a value"
    elif share < MOSTLY_FULL:
        yield f"only {share:.0%} of the rows tell a value"
    if summary.constant:
        many = "" if summary.categories else ", or values too near each other beside their size"
        yield f"one value only{many}"
    yield from _of_categories(summary) if summary.categories else _of_numbers(summary)


def _of_categories(summary: ColumnSummary) -> Iterator[str]:
    if never := sum(most == 0 for _, most in summary.ranges):
        yield f"{never} of its {summary.categories} categories never occur"
    if rare := sum(0.0 < most < RARE for _, most in summary.shares):
        yield f"{rare} of its {summary.categories} categories have less than {RARE:.0%} of the rows"


def _of_numbers(summary: ColumnSummary) -> Iterator[str]:
    low, high = summary.quantiles[1], summary.quantiles[3]
    if not summary.deviation or low is None or high is None:
        return
    if high - low < NARROW * summary.deviation:
        yield (
            f"half of the numbers lie within {shown(high - low)} of each other, beside a standard "
            f"deviation of {shown(summary.deviation)}: some lie far off"
        )


def _between_sites(difference: Mapping[str, Any]) -> Iterator[str]:
    if difference.get("coded"):
        yield "some site has one value far from all others, again and again: a missing value?"
    if difference.get("differs"):
        p_value = shown(difference["p_value"])
        yield f"distributed differently at the sites, beyond chance (p = {p_value})"


TITLE = "To look at before a graph is learnt"
WHY = (
    "From the disclosed sums alone. They do not say which sites differ; `cipherdag site result` "
    "says at each site whether it does."
)
LIMITS = (
    (
        "Quantiles lie between public marks on a straight line. They are exact to the distance of "
        "two marks, a quarter of a standard deviation near the mean. Where some site restricts "
        "small counts, they are exact to a unit of rows and a seventh of that distance."
    ),
    (
        "Where a few values of a site, fewer than its min_cell_size, lie so far from the others "
        "that they would make up most of the spread, it draws them in. Mean and standard deviation "
        "are then not those of the values in its file. Of a column with missing values, a site "
        "that restricts small counts leaves out, or counts twice, fewer than two units of values "
        "in these, evenly from the smallest to the largest."
    ),
    "Two columns are never looked at together, so nothing here says how they depend on each other.",
)


@dataclass(frozen=True, slots=True)
class DescribeOutcome:
    """The summaries by position."""

    summaries: Summaries  # what is known of every column, in units of 1 where counts are exact
    differences: tuple[SiteDifference, ...]  # how the sites compare in each
    of_patients: Mapping[str, Any]  # the details on rows that are visits, as `ColumnKinds` has them


@dataclass(frozen=True, kw_only=True, slots=True)
class Describe(Algorithm[DescribeOutcome, Description]):
    """Describe's parameters; `ask` is the algorithm.

    Attributes:
        max_rows: Most rows that a site may have, a power of two.

    Leaks:
        No sum is of two columns.
    """

    name: ClassVar[str] = "describe"
    title: ClassVar[str] = "Describe"
    use: ClassVar[str] = "Describe the columns of all sites, before you learn a graph."
    takes_visits: ClassVar[bool] = True
    concludes: ClassVar[type[Description]] = Description
    takes_overlap: ClassVar[bool] = True

    max_rows: int = row_bound()

    def check_measured(self, measured: Measured) -> None:
        del measured

    def ask(self, facts: Facts) -> Asking[DescribeOutcome]:
        """The run as a generator: yields questions, receives sums, returns a `DescribeOutcome`.

        After six rounds, or three where one site alone may answer; where some site restricts small
        counts, after about five more, of which three or so find counts, and three quantiles.
        SiteUnreachableError where a site left, AggregateRangeError where sums contradict.
        """
        return over_one_cohort(self._described(facts), facts.present)

    def _described(self, facts: Facts) -> Asking[DescribeOutcome]:
        question = Columns(
            n_variables=facts.n_variables, max_rows=self.max_rows, visits=facts.visits
        )
        kinds = question.read((yield from sum_with_threshold(question, facts.min_contributors)))
        sums = self._sums(kinds)
        opened, differences = yield from gather_two(
            sum_with_threshold(sums, facts.min_contributors),
            marginal_differences(
                # a comparison of sites takes rows for persons
                None if kinds.patients else kinds,
                min_contributors=facts.min_contributors,
                max_rows=self.max_rows,
            ),
        )
        spreads = Spreads.of(sums, opened)
        counts = ValueCounts(
            categories=sums.categories,
            origins=sums.origins,
            units=sums.units,
            marks=np.ascontiguousarray(spreads.marks(), dtype="<f8").tobytes(),
            max_rows=self.max_rows,
        )
        if kinds.restricted:
            rounded = yield from rounded_summaries(spreads, counts, facts.present.n_sites)
            return DescribeOutcome(rounded, differences, kinds.of_patients)
        counted = yield from sum_with_threshold(counts, facts.min_contributors)
        exact = exact_summaries(spreads, counts, counted)
        return DescribeOutcome(exact, differences, kinds.of_patients)

    def conclude(self, outcome: DescribeOutcome, facts: Facts) -> Description:
        return Description(
            rows=outcome.summaries.rows,
            columns=dict(zip(facts.names, outcome.summaries.columns, strict=True)),
            rounded_to=outcome.summaries.unit,
            details={
                **outcome.of_patients,
                DIFFERING: details_of(outcome.differences, facts.names),
            },
        )

    def disclosures(self) -> tuple[Disclosure, ...]:
        return joined(
            Columns(n_variables=1).disclosures,
            ColumnSums.discloses,
            ValueCounts.discloses,
            ValueCounts.rounded,
            CellSizes.discloses,
            SiteDifferences.discloses,
        )

    def report(self, conclusion: Any) -> Report:
        said = remarks(conclusion)
        lines = Note.of_columns(TITLE, said).lines or ("nothing odd",)
        shown = TablePanel(
            title=TITLE, note=WHY, columns=("Column", "Found"), rows=said or (("", "nothing odd"),)
        )
        report = Report(panels=(shown,), notes=(Note(f"{TITLE}:", lines),), limits=LIMITS)
        return report + this_site_report(conclusion.details)

    def _sums(self, kinds: ColumnKinds) -> ColumnSums:
        numbers = kinds.categories == 0
        return ColumnSums(
            categories=tuple(kinds.categories.tolist()),
            origins=np.ascontiguousarray(common_origins(kinds)[numbers], dtype="<f8").tobytes(),
            units=pack_integers(common_units(kinds)[numbers]),
            max_rows=self.max_rows,
        )
