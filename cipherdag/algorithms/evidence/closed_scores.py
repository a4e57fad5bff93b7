"""Scores within sites that stay closed: does their sum over the sites stand out?

Of numbers every site's Fisher z, weighted by w = n - |S| - 3, adds up to a number whose variance is
the sum of the weights where x and y are independent given S at every site; verdicts are those of
the p-values of ``stratified``. Of categories and numbers together it is a score of every site's own
regression (`WithinScores`), and of several that one test has each is compared by itself, within
limits that independent ones would all keep with probability 1 - alpha (Šidák).

Source: Fisher, Metron 1 (1921) 3-32; Hedges and Olkin, Statistical Methods for Meta-Analysis, 11;
Šidák, JASA 62 (1967) 626-633.

Leaks:
    Of every score how many sites have it; where these are enough the sum of its variances, and
    whether it stands out; see `ScoreWeights` and `CellVerdicts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.evidence.closed_cells import Opened, independent_within, square_limits
from cipherdag.algorithms.evidence.source import PValues, RememberedTests, Tests, by_slices
from cipherdag.questions.scores.score_weights import ScoreWeights

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from cipherdag.algorithms.evidence.kind import EvidenceSettings
    from cipherdag.questions.combined_evidence import CombinedEvidence
    from cipherdag.questions.question import FloatVector, IndexArray, Question
    from cipherdag.questions.scores.within_scores import WithinScores

LARGEST_QUARTERS = 4
"""Of a site's score: its rows; of numbers, as if z were 1 at most, a correlation of 0.76."""


class ClosedScores(RememberedTests):
    """Verdicts on scores in the place of p-values: 1 for independent, 0 for dependent.

    A test that too few sites do is not done, and counts as dependent; given nothing it counts as
    independent, since x or y does not vary at the others.

    Leaks:
        See the module.

    Args:
        name: What its tests are tallied as.
        about: Makes the question of tests by size of S.
        settings: How tests are done.
        opened: Opens what is opened beside verdicts, once for all levels.
    """

    def __init__(
        self,
        name: str,
        about: Callable[[list[IndexArray]], CombinedEvidence | WithinScores],
        settings: EvidenceSettings,
        opened: Opened,
    ) -> None:
        super().__init__(settings=settings)
        self._opened = opened
        self._name, self._about, self._settings = name, about, settings

    def _ask(self, tests: Tests) -> PValues:
        """Two rounds that `Opened` asks, and some to compare, per `ROUND_VALUES`."""
        self.tally[self._name] += sum(len(rows) for rows in tests)
        return (yield from by_slices(tests, [np.full(len(r), 2.0) for r in tests], self._piece))

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        question = ScoreWeights(scores=self._about(tests))
        (able, variances), n_sites = yield from self._opened.ask(tests, question)
        limits = score_limits(question, variances, self._settings.spec.alpha)
        independent = yield from independent_within(
            question, limits, self._settings, n_sites=n_sites, quarters=LARGEST_QUARTERS
        )
        most = np.zeros(question.n_tests)
        np.maximum.at(most, question.owner, able)
        constant = np.arange(len(most)) < len(tests[0])
        constant &= most < max(self._settings.fewest, 1)
        return self.settle_constant(tests[0], independent, constant, self._name)


def score_limits(question: ScoreWeights, variances: FloatVector, alpha: float) -> FloatVector:
    """How far the sum of every score may lie from 0, shape (K,); 0: it is not compared."""
    ones = np.ones(int((variances > 0).sum()))
    return square_limits(question.owner, variances, ones, np.full(len(variances), alpha))
