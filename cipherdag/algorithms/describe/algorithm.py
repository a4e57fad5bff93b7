"""Describe: rows, missing values, means, spreads, quantiles and shares, before a graph is learnt.

Each column is told of by itself: no sum is of two of them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts
from cipherdag.algorithms.departures import over_one_cohort
from cipherdag.algorithms.describe.report import disclosed, reported
from cipherdag.algorithms.describe.summaries import Spreads, summaries_of
from cipherdag.algorithms.evidence.kind import EvidenceSettings
from cipherdag.algorithms.evidence.pooled_moments import common_origins, common_units
from cipherdag.algorithms.evidence.site_differences import (
    SiteDifference,
    details_of,
    marginal_differences,
)
from cipherdag.algorithms.parameters import row_bound
from cipherdag.arrays import FloatVector
from cipherdag.findings.conclusion import Report
from cipherdag.findings.description import CUT_DETAIL, ColumnSummary, Description
from cipherdag.findings.site_differences import DETAIL
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.gather import gather_two
from cipherdag.questions.pooled_data import ColumnKinds, Columns
from cipherdag.questions.presence import Measured
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import sum_with_threshold


@dataclass(frozen=True, slots=True)
class DescribeOutcome:
    """What was found, by position.

    Attributes:
        spreads: Values, means and deviations.
        columns: What is known of every column.
        differences: How the sites compare in each.
    """

    spreads: Spreads
    columns: tuple[ColumnSummary, ...]
    differences: tuple[SiteDifference, ...]


Describing = Generator["Question", "FloatVector", DescribeOutcome]


@dataclass(frozen=True, kw_only=True, slots=True)
class Describe(Algorithm[DescribeOutcome, Description]):
    """Describe's parameters; `ask` is the algorithm.

    Attributes:
        max_rows: Declared bound of a site's rows, a power of two.

    Leaks:
        The coordinator learns what `Columns` opens, its marks of columns that enough sites have; of
        every column that enough sites have, the
        values, the mean and the standard deviation over all sites (`ColumnSums`), the counts of
        categories, and of numbers up to marks (`ValueCounts`); and what `SiteDifferences` opens,
        given nothing. No sum is of two columns.
    """

    name: ClassVar[str] = "describe"
    title: ClassVar[str] = "Describe"
    concludes: ClassVar[type[Description]] = Description
    takes_overlap: ClassVar[bool] = True

    max_rows: int = row_bound()

    def check_measured(self, measured: Measured) -> None:
        """Take any sites: every column is described by those that have it."""
        del measured

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
        question = Columns(n_variables=facts.n_variables, max_rows=self.max_rows)
        kinds = question.read((yield from sum_with_threshold(question, facts.fewest)))
        sums = self._sums(kinds)
        opened, differences = yield from gather_two(
            sum_with_threshold(sums, facts.fewest),
            marginal_differences(kinds, self._settings(facts)),
        )
        spreads = Spreads.of(sums, opened)
        counts = ValueCounts(
            categories=sums.categories,
            origins=sums.origins,
            units=sums.units,
            marks=np.ascontiguousarray(spreads.marks(), dtype="<f8").tobytes(),
            max_rows=self.max_rows,
        )
        counted = yield from sum_with_threshold(counts, facts.fewest)
        return DescribeOutcome(spreads, summaries_of(spreads, counts, counted), differences)

    def conclude(self, outcome: DescribeOutcome, facts: Facts) -> Description:
        """What is known of every column, by name."""
        return Description(
            rows=outcome.spreads.rows,
            columns=dict(zip(facts.names, outcome.columns, strict=True)),
            details={
                DETAIL: details_of(outcome.differences, facts.names),
                CUT_DETAIL: outcome.spreads.cut,
            },
        )

    def disclosures(self) -> tuple[str, ...]:
        """Sums and counts of single columns."""
        return disclosed()

    def report(self, found: Any) -> Report:
        """What to look at before a graph is learnt."""
        return reported(found)

    def _settings(self, facts: Facts) -> EvidenceSettings:
        return EvidenceSettings(
            spec=CITestSpec(alpha=0.5),  # no test is done
            n_variables=facts.n_variables,
            max_rows=self.max_rows,
            present=facts.present,
            fewest=facts.fewest,
        )

    def _sums(self, kinds: ColumnKinds) -> ColumnSums:
        numbers = kinds.categories == 0
        return ColumnSums(
            categories=tuple(kinds.categories.tolist()),
            origins=np.ascontiguousarray(common_origins(kinds)[numbers], dtype="<f8").tobytes(),
            units=pack_integers(common_units(kinds)[numbers]),
            max_rows=self.max_rows,
        )
