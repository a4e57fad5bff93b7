"""Partial correlations within sites whose scores stay closed: does their sum stand out?

Every site's Fisher z of its own rows, weighted by w = n - |S| - 3, adds up to a number whose
variance is the sum of the weights where x and y are independent given S at every site. It is what
``stratified`` compares with the normal distribution, so verdicts are those of its p-values.

Source: Fisher, Metron 1 (1921) 3-32; Hedges and Olkin, Statistical Methods for Meta-Analysis, 11.

Leaks:
    Of every test how many sites do it; where these are enough the sum of the weights, and whether
    the test says independent; see `ScoreWeights` and `CellVerdicts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cipherdag.algorithms.evidence.closed_cells import independent_within, on_grid
from cipherdag.algorithms.evidence.source import PValues, RememberedTests, Tests, by_slices
from cipherdag.questions.combined_evidence import CombinedEvidence, ScoreWeights
from cipherdag.questions.coverage import Contributors
from cipherdag.questions.encodings import pack_blocks

if TYPE_CHECKING:
    from collections.abc import Generator

    from cipherdag.algorithms.evidence.kind import EvidenceSettings
    from cipherdag.questions.question import FloatVector, IndexArray, Question

LARGEST_QUARTERS = 4
"""Of a site's w z: as if its z were 1 at most, a correlation of 0.76."""


class ClosedNumbers(RememberedTests):
    """Verdicts on correlations in the place of p-values: 1 for independent, 0 for dependent.

    A test that too few sites do is not done, and counts as dependent; given nothing it counts as
    independent, since x or y does not vary at the others.

    Leaks:
        See the module.

    Args:
        settings: How tests are done; the test is that of numbers.
    """

    def __init__(self, settings: EvidenceSettings) -> None:
        super().__init__()
        self._settings = settings
        self._constant = np.nan if settings.spec.constant == "untestable" else 1.0
        self._template = CombinedEvidence.over_sites(
            settings.spec, "stouffer", settings.n_variables, settings.max_rows
        )

    def _ask(self, tests: Tests) -> PValues:
        """A round to count, one of weights, and some to compare, per `ROUND_VALUES`."""
        self.tally["stouffer"] += sum(len(rows) for rows in tests)
        return (yield from by_slices(tests, [np.full(len(r), 2.0) for r in tests], self._piece))

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        counts, members = pack_blocks(tests)
        scores = msgspec.structs.replace(self._template, counts=counts, members=members)
        question = ScoreWeights(scores=scores)
        able = np.rint((yield Contributors(question=question)))
        independent = yield from independent_within(
            question, able, self._limits, self._settings, quarters=LARGEST_QUARTERS
        )
        marginal = np.arange(len(able)) < len(tests[0])
        constant = marginal & (able < max(self._settings.fewest, 1))
        return np.where(constant, self._constant, independent)

    def _limits(self, weights: FloatVector) -> FloatVector:
        """How far the sum of w z may lie from 0, shape (B,)."""
        from scipy.special import chdtri

        square = on_grid(np.atleast_1d(chdtri(1.0, self._settings.spec.alpha)))
        limits: FloatVector = np.sqrt(square * weights)
        return limits
