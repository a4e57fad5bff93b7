"""Describe: rows, missing values, means, spreads, quantiles and shares, before a graph is learnt.

Each column is told of by itself: no sum is of two of them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts
from cipherdag.algorithms.departures import over_one_cohort
from cipherdag.algorithms.describe.data_quality import remarks
from cipherdag.algorithms.describe.summaries import Spreads, summaries_of
from cipherdag.algorithms.evidence.pooled_moments import common_origins, common_units
from cipherdag.algorithms.evidence.site_differences import (
    SiteDifference,
    details_of,
    marginal_differences,
)
from cipherdag.algorithms.parameters import row_bound
from cipherdag.arrays import FloatVector
from cipherdag.findings.description import CUT_DETAIL, ColumnSummary, Description
from cipherdag.findings.doubts import DIFFERING, this_site_report
from cipherdag.findings.finding import Note, Report
from cipherdag.findings.panels import TablePanel
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.disclosure import Disclosure, joined
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.gather import gather_two
from cipherdag.questions.pooled_data import ColumnKinds, Columns
from cipherdag.questions.presence import Measured
from cipherdag.questions.question import Question
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.questions.threshold import sum_with_threshold

TITLE = "To look at before a graph is learnt"
WHY = (
    "From the disclosed sums alone. They do not say which sites differ; `cipherdag site result` "
    "says at each site whether it does."
)
CUT = (
    "Some site left out rows that miss a value in any column, because they are fewer than its "
    "min_cell_size: neither the rows nor the missing values count them."
)
LIMITS = (
    (
        "Quantiles lie between public marks on a straight line. They are exact to the distance of "
        "two marks, a quarter of a standard deviation near the mean. A site that restricts small "
        "counts moves fewer than min_cell_size values past a mark."
    ),
    (
        "Where a few values of a site, fewer than its min_cell_size, lie so far from the others "
        "that they would make up most of the spread, it draws them in. Mean, standard deviation "
        "and quantiles are then not those of the values in its file."
    ),
    "Two columns are never looked at together, so nothing here says how they depend on each other.",
)


@dataclass(frozen=True, slots=True)
class DescribeOutcome:
    """The summaries by position.

    Attributes:
        spreads: Values, means and deviations.
        columns: What is known of every column.
        differences: How the sites compare in each.
        of_patients: The details on rows that are visits, as `ColumnKinds` has them.
    """

    spreads: Spreads
    columns: tuple[ColumnSummary, ...]
    differences: tuple[SiteDifference, ...]
    of_patients: Mapping[str, Any]


Describing = Generator["Question", "FloatVector", DescribeOutcome]


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
    concludes: ClassVar[type[Description]] = Description
    takes_overlap: ClassVar[bool] = True

    max_rows: int = row_bound()

    def check_measured(self, measured: Measured) -> None:
        """Take any sites: every column is described by those that have it."""
        del measured

    def check_visits(self, visits: int) -> None:
        """Take visits of patients, too."""

    def ask(self, facts: Facts) -> Describing:
        """The run as a generator: yields questions, receives sums, returns a `DescribeOutcome`.

        Returns:
            The outcome, after six rounds, or three where one site alone may answer.

        Raises:
            SiteUnreachableError: A site left.
            AggregateRangeError: Sums contradict each other.
        """
        return over_one_cohort(self._described(facts), facts.present)

    def _described(self, facts: Facts) -> Describing:
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
        counted = yield from sum_with_threshold(counts, facts.min_contributors)
        return DescribeOutcome(
            spreads, summaries_of(spreads, counts, counted), differences, kinds.of_patients
        )

    def conclude(self, outcome: DescribeOutcome, facts: Facts) -> Description:
        """Make the description of every column, by name."""
        return Description(
            rows=outcome.spreads.rows,
            columns=dict(zip(facts.names, outcome.columns, strict=True)),
            details={
                **outcome.of_patients,
                DIFFERING: details_of(outcome.differences, facts.names),
                CUT_DETAIL: outcome.spreads.cut,
            },
        )

    def disclosures(self) -> tuple[Disclosure, ...]:
        """Sums and counts of single columns, and how sites differ in them."""
        return joined(
            Columns(n_variables=1).disclosures,
            ColumnSums.discloses,
            ValueCounts.discloses,
            SiteDifferences.discloses,
        )

    def report(self, conclusion: Any) -> Report:
        """Report the columns to look at before a graph is learnt."""
        said = remarks(conclusion)
        lines = Note.of_columns(TITLE, said).lines or ("nothing odd",)
        cut = (CUT,) if conclusion.details[CUT_DETAIL] else ()
        shown = TablePanel(
            title=TITLE, note=WHY, columns=("Column", "Found"), rows=said or (("", "nothing odd"),)
        )
        notes = (Note(f"{TITLE}:", (*lines, *cut)),)
        report = Report(panels=(shown,), notes=notes, limits=(*cut, *LIMITS))
        return report + this_site_report(conclusion.details)

    def _sums(self, kinds: ColumnKinds) -> ColumnSums:
        numbers = kinds.categories == 0
        return ColumnSums(
            categories=tuple(kinds.categories.tolist()),
            origins=np.ascontiguousarray(common_origins(kinds)[numbers], dtype="<f8").tobytes(),
            units=pack_integers(common_units(kinds)[numbers]),
            max_rows=self.max_rows,
        )
