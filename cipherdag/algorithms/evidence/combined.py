"""Tests over all sites combine the results of the sites' tests by sums.

fisher       sum of -2 ln p, number of tests           chi-square of the sum (Fisher, 1932)
weighted_p   sum of n p, of n                          mean p-value (FedCMFS, Eq. 1)

By bits the sums stay closed, and only each verdict is disclosed. A test is independent where:

fisher       the sum of -2 ln p is below the chi-square's critical value for the sites that test
weighted_p   the sum of n (p - alpha) is above 0

A test that says independent may be asked again at a second level (`options.SECOND_ALPHA`), which
separates a p-value just above alpha from one near 1.
"""

import math
from collections.abc import Callable, Generator
from functools import partial

import msgspec
import numpy as np

from cipherdag.algorithms.evidence.combination_method import CombinationMethod
from cipherdag.algorithms.evidence.federated_test import (
    CachedFederatedCITest,
    PValues,
    Tests,
    in_batches,
)
from cipherdag.algorithms.evidence.options import EvidenceSettings, Method, with_second_alpha
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.combined_evidence import Combination, CombinedEvidence, combined_p
from cipherdag.questions.disclosure import Quantity, bits, sums
from cipherdag.questions.encodings import pack_blocks, segments
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import ContributorCounts, open_unsuppressed
from cipherdag.questions.verdicts import VERDICT_VALUES, EvidenceVerdicts, finest_grid_that_fits
from cipherdag.statistics.p_values import normal_scores

LOG_BITS = 12
"""Most bits of the grid of -2 ln p: a finer one changes no verdict, and makes keys longer."""
TOO_MANY_SITES = "reveal bits with evidence fisher is for fewer sites"


class CombinedTests(CachedFederatedCITest):
    """`CombinedTests` tests by the sums of the results of the sites' tests.

    A test for which fewer than ``min_contributors`` sites have degrees of freedom is not done, and
    counts as dependent; a marginal one as independent, since x or y is constant at the others.
    ``weighted_p`` counts a test without degrees of freedom as one with p = 1. The rows per cell
    are required of all sites together.
    """

    def __init__(self, combination: Combination, settings: EvidenceSettings) -> None:
        super().__init__(settings)
        self._min_contributors = settings.min_contributors
        if combination == "weighted_p":
            self._constant = np.nan
        self._combination, self._about = combination, summed_by(combination, settings)

    def _ask(self, tests: Tests) -> PValues:
        """Ask in two rounds per `MAX_VALUES_PER_ROUND`; the first counts the contributing sites."""
        self.tally[self._combination] += sum(len(rows) for rows in tests)
        p_values = yield from in_batches(tests, [np.full(len(r), 3.0) for r in tests], self._piece)
        if not_done := sum(int(np.isnan(block).sum()) for block in p_values):
            self.tally[self._combination] -= not_done
            self.tally[Method.NOT_DONE] += not_done
        return p_values

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        """Compute the p-values of tests in one round, or in two where contributors are counted."""
        question = self._about(tests)
        if self._min_contributors <= 1:
            sums = yield question
            p_value, none = self._p_values_of(question, sums, tests), question.weights(sums) <= 0
        else:
            able = np.rint((yield ContributorCounts(question=question)))
            sums = yield from open_unsuppressed(question, able >= self._min_contributors)
            p_value, none = self._p_values_of(question, sums, tests), able < self._min_contributors
        # marginal tests of pairs that vary at too few sites
        none &= np.arange(len(none)) < len(tests[0])
        if self._min_contributors > 1:
            p_value = np.where(none, self._constant, p_value)
        self.record_constant_pairs(
            tests[0][(none & ~np.isnan(p_value))[: len(tests[0])]], self._combination
        )
        return p_value

    def _p_values_of(
        self, question: CombinedEvidence, sums: FloatVector, tests: list[IndexArray]
    ) -> FloatVector:
        """Compute p-values from sums, and store strengths."""
        self.store_strengths(tests[0], _strengths(question, sums)[: len(tests[0])])
        return combined_p(question, sums)


def _strengths(question: CombinedEvidence, sums: FloatVector) -> FloatVector:
    """Compute strengths as normal scores, shape (B,); 0 for ``weighted_p``, which has none."""
    if question.combination == "weighted_p":
        return np.zeros(sum(question.counts))
    strength, weight, _ = segments(question.encodings, sums)
    return normal_scores(strength, 2.0 * weight)


class ThresholdedTests(CachedFederatedCITest):
    """`ThresholdedTests` opens verdicts instead of p-values: 1 for independent, 0 for dependent.

    With ``fisher`` a test that no site can do has NaN. With ``weighted_p``, where constants are
    untestable, marginal tests are compared in both directions, and have NaN where neither holds.
    ParameterError where there are too many sites, or rows at a site, to compare their sums.
    """

    def __init__(self, combination: Combination, settings: EvidenceSettings) -> None:
        super().__init__(settings)
        self._combination = combination
        self._about = summed_by(combination, settings)
        n_sites, alpha = settings.present.n_sites, settings.spec.alpha
        self._critical: tuple[int, ...] = ()
        self._both = combination == "weighted_p" and settings.spec.constant == "untestable"
        if combination == "fisher":
            self._critical, self._grid_bits = fisher_criticals(alpha, n_sites)
            self._largest = self._critical[-1] + 1
        else:
            self._largest, self._grid_bits = largest_excess(settings.max_rows, n_sites)

    def _ask(self, tests: Tests) -> PValues:
        """Ask in a round per `MAX_VALUES_PER_ROUND` of the keys of all comparisons."""
        self.tally[self._combination] += sum(len(rows) for rows in tests)
        each = len(self._critical) + 1 if self._critical else 1 + self._both
        values = float(each * VERDICT_VALUES)
        return (yield from in_batches(tests, [np.full(len(r), values) for r in tests], self._piece))

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        asked = EvidenceVerdicts(
            self._about(tests), self._grid_bits, self._largest, self._critical, self._both
        )
        count, marginal = sum(len(rows) for rows in tests), len(tests[0])
        first, second = np.split((yield asked), [count])
        independent = 1.0 - first if asked.says_dependent else first
        if self._combination == "fisher":
            p_value = np.where(second > 0, independent, np.nan)
            # as with sums: in a pair that no site can test, x or y is constant
            constant = np.isnan(p_value) & (np.arange(count) < marginal)
            return self.resolve_constant_pairs(tests[0], p_value, constant, self._combination)
        if self._both:
            neither = (independent[:marginal] == 0) & (second == 0)
            marginal_verdicts = np.where(neither, np.nan, independent[:marginal])
            return np.concatenate([marginal_verdicts, independent[marginal:]])
        return independent


def open_combined(
    combination: Combination, settings: EvidenceSettings
) -> Generator[Question, FloatVector, CombinedTests]:
    """Open a source of p-values; it asks nothing before its tests."""
    yield from ()
    return CombinedTests(combination, settings)


def open_thresholded(
    combination: Combination, settings: EvidenceSettings
) -> Generator[Question, FloatVector, ThresholdedTests]:
    """Open a source of verdicts; it asks nothing before its tests."""
    yield from ()
    source = ThresholdedTests(combination, settings)
    source.lenient = ThresholdedTests(combination, with_second_alpha(settings))
    return source


def summed_by(
    combination: Combination, settings: EvidenceSettings
) -> Callable[[list[IndexArray]], CombinedEvidence]:
    """Return the function that makes the question of tests by size of S."""
    template = CombinedEvidence.over_sites(
        settings.spec, combination, settings.n_variables, settings.max_rows
    )

    def about(tests: list[IndexArray]) -> CombinedEvidence:
        counts, members = pack_blocks(tests)
        return msgspec.structs.replace(template, counts=counts, members=members)

    return about


def fisher_criticals(alpha: float, n_sites: int) -> tuple[tuple[int, ...], int]:
    """Compute the largest sums of -2 ln p of independent tests for 1, 2, ... sites, and their grid.

    A test is independent iff the p-value of the sum is above alpha. ParameterError for too many
    sites.
    """
    from scipy.special import chdtri

    values = [float(chdtri(2.0 * sites, alpha)) for sites in range(1, n_sites + 1)]

    def on_grid(bits: int) -> tuple[int, ...]:
        return tuple(math.ceil(math.ldexp(value, bits)) - 1 for value in values)

    # a site's value is cut just above the largest one: more changes no verdict
    _, bits = finest_grid_that_fits(
        lambda bits: on_grid(bits)[-1] + 1, n_sites, TOO_MANY_SITES, most=LOG_BITS
    )
    return on_grid(bits), bits


def largest_excess(max_rows: int, n_sites: int) -> tuple[int, int]:
    """Compute the largest n (p - alpha) of a site on the finest grid that fits, and its bits.

    ParameterError for too many sites, or rows at one.
    """
    otherwise = "reveal bits with evidence weighted_p needs a smaller max_rows"
    return finest_grid_that_fits(lambda bits: max_rows << bits, n_sites, otherwise)


FISHER = CombinationMethod(
    name="fisher",
    discloses=sums(Quantity.LOG_P_VALUES, Quantity.SITES, Quantity.RELIABILITY),
    open=partial(open_combined, "fisher"),
    close=partial(open_thresholded, "fisher"),
    closed=bits(Quantity.DECISION, Quantity.ABLE),
    triplets=True,
    overlapping=True,
)
WEIGHTED_P = CombinationMethod(
    name="weighted_p",
    discloses=sums(Quantity.P_VALUES, Quantity.TEST_ROWS, Quantity.STRENGTHS, Quantity.SITES),
    open=partial(open_combined, "weighted_p"),
    close=partial(open_thresholded, "weighted_p"),
    closed=bits(Quantity.DECISION, Quantity.ABLE),
    triplets=True,
)
