"""Tests over all sites from what the sites' own tests add up to.

statistic    sum of statistics, of degrees of freedom  chi-square of the sums
fisher       sum of -2 ln p, number of tests           chi-square of the sum (Fisher, 1932)
stouffer     sum of w z, of w**2                       normal (Stouffer, 1949; Lipták, 1958);
                                                       for Fisher's z: inverse-variance weights
weighted_p   sum of n p, of n                          mean p-value (FedCMFS, Eq. 1)
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from cipherdag.algorithms.evidence.closed import closed, summed_by
from cipherdag.algorithms.evidence.effects import of_correlation
from cipherdag.algorithms.evidence.kind import EvidenceKind, EvidenceSettings, Opening
from cipherdag.algorithms.evidence.source import (
    NOT_DONE,
    PValues,
    RememberedTests,
    Tests,
    by_slices,
)
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.graphs.edge_evidence import Effect
from cipherdag.questions.combined_evidence import (
    Combination,
    CombinedEvidence,
    combined_p,
    combined_strength,
)
from cipherdag.questions.encodings import segments
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import ContributorCounts, open_unsuppressed
from cipherdag.statistics.normal_scores import normal_scores


class CombinedTests(RememberedTests):
    """Evidence from what the sites' own tests add up to.

    A test that fewer than ``fewest`` sites have degrees of freedom for is not done, and counts as
    dependent; given nothing it counts as independent, since x or y does not vary at the others.
    ``weighted_p`` takes a test without degrees of freedom for one, with p = 1.

    Leaks:
        Of every test, how many sites have degrees of freedom for it; of those that at least
        ``fewest`` have, what `CombinedEvidence` says.

    Args:
        combination: What is added.
        settings: How tests are done; its rows per cell are what the sites need together.
    """

    def __init__(self, combination: Combination, settings: EvidenceSettings) -> None:
        super().__init__(settings=settings)
        self._fewest = settings.fewest
        if combination == "weighted_p":
            self._constant = np.nan
        self._combination, self._about = combination, summed_by(combination, settings)

    def _ask(self, tests: Tests) -> PValues:
        """Two rounds, the first to count who contributes, and two more per `ROUND_VALUES`."""
        self.tally[self._combination] += sum(len(rows) for rows in tests)
        found = yield from by_slices(tests, [np.full(len(r), 3.0) for r in tests], self._piece)
        if undone := sum(int(np.isnan(own).sum()) for own in found):
            self.tally[self._combination] -= undone
            self.tally[NOT_DONE] += undone
        return found

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        """p-values of the tests of one or two rounds."""
        question = self._about(tests)
        if self._fewest <= 1:
            sums = yield question
            p_value, none = self._told(question, sums, tests), question.weights(sums) <= 0
        else:
            able = np.rint((yield ContributorCounts(question=question)))
            sums = yield from open_unsuppressed(question, able >= self._fewest)
            p_value, none = self._told(question, sums, tests), able < self._fewest
        # of too few sites that x and y vary at
        none &= np.arange(len(none)) < len(tests[0])
        if self._fewest > 1:
            p_value = np.where(none, self._constant, p_value)
        self.record_constant_pairs(
            tests[0][(none & ~np.isnan(p_value))[: len(tests[0])]], self._combination
        )
        return p_value

    def _told(
        self, question: CombinedEvidence, sums: FloatVector, tests: list[IndexArray]
    ) -> FloatVector:
        self.keep_strengths(tests[0], _scores(question, sums)[: len(tests[0])])
        p_value = combined_p(question, sums)
        if question.combination == "stouffer":
            signed, amount, weight, _ = segments(question.encodings, sums)
            informed = (weight > 0) & (signed[0] > 0)
            precision = np.where(informed, weight, np.nan)
            kept = np.column_stack([amount / precision, 1.0 / np.sqrt(precision)])
            self.keep_estimates(tests, kept, p_value)
        return p_value

    def effect(self, test: Sequence[int]) -> Effect | None:
        """The partial correlation within the sites, where their tests are Fisher's z."""
        known = self.estimate(test)
        return None if known is None else of_correlation(*known)


def _scores(question: CombinedEvidence, sums: FloatVector) -> FloatVector:
    """Strengths as normal scores, shape (B,); 0 for ``weighted_p``, which has none."""
    if question.combination == "weighted_p":
        return np.zeros(sum(question.counts))
    strength = combined_strength(question, sums)
    if question.combination == "stouffer":
        return strength
    weight = segments(question.encodings, sums)[-2]
    return normal_scores(strength, weight if question.combination == "statistic" else 2.0 * weight)


def _combined(
    name: Combination,
    discloses: str,
    *,
    any_test: bool = True,
    overlapping: bool = True,
    close: Opening | None = None,
    closed: str = "",
) -> EvidenceKind:
    """A kind that asks nothing before its tests."""

    def opened(
        settings: EvidenceSettings,
    ) -> Generator[Question, FloatVector, CombinedTests]:
        yield from ()
        return CombinedTests(name, settings)

    return EvidenceKind(
        name=name,
        discloses=discloses,
        open=opened,
        close=close,
        closed=closed,
        any_test=any_test,
        overlapping=overlapping,
        triplets=True,
    )


STATISTIC = _combined(
    "statistic",
    "For every test, how many sites have degrees of freedom for it, and the sums of these and of "
    "their statistics.",
    any_test=False,
)
FISHER = _combined(
    "fisher",
    "For every test, the sum of -2 ln p over the sites, and how many did it.",
    close=closed("fisher"),
    closed="For every test, whether it says independent over all sites, and whether any of them "
    "can do it; no sum, no p-value, and not how many sites did it.",
)
STOUFFER = _combined(
    "stouffer", "For every test, the sums of the sites' weighted z and of the squared weights."
)
WEIGHTED_P = _combined(
    "weighted_p",
    "For every test, the mean p-value over the sites, weighted by rows, and the rows of all sites "
    "together; for every pair that is selected from, also the weighted mean strength.",
    overlapping=False,
    close=closed("weighted_p"),
    closed="For every test, whether the mean p-value, weighted by rows, is above alpha; no sum, no "
    "p-value, and not how many sites did it.",
)
