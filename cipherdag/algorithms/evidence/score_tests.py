"""Tests of categories and numbers together, from scores of every site's own regressions.

The sites' scores U and their covariances V add up; U' V^- U is chi-square where x and y are
independent given S at every site. Levels, slopes and spreads may be every site's own. It is the
test of Cochran, Mantel and Haenszel where numbers stand in the place of configurations.

Source: `WithinScores`.

Leaks:
    Of every test how many sites do it; of those that at least ``fewest`` do, what `WithinScores`
    says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.evidence.source import PValues, RememberedTests, Tests, by_slices
from cipherdag.algorithms.evidence.stratified_forms import LEAST_VARIANCE, ROUNDING
from cipherdag.questions.coverage import Contributors, opened_where
from cipherdag.questions.encodings import by_block, pack_blocks, require_possible, segments
from cipherdag.questions.scores.within_scores import WithinScores, score_count, tested_model
from cipherdag.statistics.contingency import chi_square_tail
from cipherdag.statistics.effects import (
    ONE_STEP_ODDS,
    ONE_STEP_PER_DEVIATION,
    of_correlation,
    one_step,
)
from cipherdag.statistics.normal_scores import normal_scores
from cipherdag.statistics.quadratic_forms import (
    chi_square_scale,
    kronecker_matrices,
    quadratic_forms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from numpy.typing import NDArray

    from cipherdag.algorithms.evidence.kind import EvidenceSettings
    from cipherdag.graphs.edge_evidence import Effect
    from cipherdag.questions.encodings import BoolVector
    from cipherdag.questions.pooled_data import ColumnKinds
    from cipherdag.questions.question import FloatVector, IndexArray, Question

    FloatMatrix = NDArray[np.float64]

SCORES = "scores within sites"


class ScoreTests(RememberedTests):
    """Evidence from scores of columns of any type.

    A test that too few sites do is not done, and counts as dependent; given nothing it counts as
    independent, since x or y does not vary enough at the others.

    Leaks:
        See the module.

    Args:
        kinds: The columns.
        settings: How tests are done.
    """

    def __init__(self, kinds: ColumnKinds, settings: EvidenceSettings) -> None:
        super().__init__(settings=settings)
        self._settings = settings
        self._categories = tuple(kinds.categories.tolist())
        self._model = partial(
            tested_model,
            categories=self._categories,
            ordered=frozenset(np.flatnonzero(kinds.ordered).tolist()),
            interactions=settings.interactions,
        )
        self._about = scores_of(kinds, settings)

    def _ask(self, tests: Tests) -> PValues:
        """Two rounds, the first to count who does a test, and two more per `ROUND_VALUES`."""
        self.tally[SCORES] += sum(map(len, tests))
        return (yield from by_slices(tests, [self._values(rows) for rows in tests], self._piece))

    def _values(self, rows: IndexArray) -> FloatVector:
        """How many values each test asks for, shape (B,)."""
        models = (self._model(row) for row in rows.tolist())
        sides = np.array([score_count(own, self._categories) for own in models], dtype=np.float64)
        values: FloatVector = sides * (sides + 3.0) / 2.0 + 1.0
        return values

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        """p-values of the tests of one or two rounds."""
        question, fewest = self._about(tests), self._settings.fewest
        if fewest <= 1:
            sums = yield question
            able = (segments(question.encodings, sums)[-1] > 0).astype(np.float64)
        else:
            able = np.rint((yield Contributors(question=question)))
            sums = yield from opened_where(question, able >= fewest)
        p_value, scores = self._tested(question, sums, tests)
        marginal = np.arange(len(p_value)) < len(tests[0])
        self.keep_strengths(np.sort(tests[0], axis=1), scores[: len(tests[0])])
        for rows, own in zip(tests, by_block(tests, np.isnan(p_value) & (able > 0)), strict=True):
            self.leave_undone(rows[own])
        constant = marginal & (able < max(fewest, 1))
        return self.settle_constant(tests[0], p_value, constant, SCORES)

    def _tested(
        self, question: WithinScores, sums: FloatVector, tests: list[IndexArray]
    ) -> tuple[FloatVector, FloatVector]:
        """p-values and normal scores, shape (B,) each; what is known of effects is kept."""
        scores, triangles, weights = segments(question.encodings, sums)
        form, rank, rare = np.zeros((3, len(weights)))
        for own, differences, covariances in _batches(question, scores, triangles):
            least = np.diagonal(covariances, axis1=1, axis2=2).min(initial=0.0)
            require_possible(question.label, "a negative variance", holds=least >= -ROUNDING)
            form[own], rank[own], rare[own] = quadratic_forms(
                differences, covariances, tolerance=LEAST_VARIANCE
            )
        scale = chi_square_scale(rank, rare)
        p_value = chi_square_tail(form * scale, rank * scale)
        estimates = _estimates(question, sums, done=rank > 0)
        p_value = np.where(rank > 0, p_value, np.nan)
        self.keep_estimates(tests, estimates, p_value)
        return p_value, normal_scores(form, rank)

    def effect(self, test: Sequence[int]) -> Effect | None:
        """A partial correlation of numbers, a one-step odds ratio where two categories respond."""
        known, model = self.estimate(test), self._model(test)
        if known is None:
            return None
        if not self._categories[model.response]:
            return of_correlation(*known)
        by_category = self._categories[model.predictors[-1]] > 0
        return one_step(*known, ONE_STEP_ODDS if by_category else ONE_STEP_PER_DEVIATION)


def scores_of(
    kinds: ColumnKinds, settings: EvidenceSettings
) -> Callable[[list[IndexArray]], WithinScores]:
    """Makes the question of tests by size of S."""

    def about(tests: list[IndexArray]) -> WithinScores:
        counts, members = pack_blocks(tests)
        return WithinScores(
            categories=tuple(kinds.categories.tolist()),
            counts=counts,
            members=members,
            max_rows=settings.max_rows,
            ordered=tuple(np.flatnonzero(kinds.ordered).tolist()),
            interactions=settings.interactions,
        )

    return about


def _batches(
    question: WithinScores, scores: FloatVector, triangles: FloatVector
) -> Iterator[tuple[IndexArray, FloatMatrix, FloatMatrix]]:
    """Tests of equally many scores: which, (U,), their scores (U, m), covariances (U, m, m)."""
    sizes = question.sides * (question.sides + 1) // 2
    starts, firsts = np.cumsum(question.sides) - question.sides, np.cumsum(sizes) - sizes
    for side in np.unique(question.sides[question.sides > 0]).tolist():
        own = np.flatnonzero(question.sides == side)
        values = triangles[firsts[own][:, None] + np.arange(sizes[own[0]])]
        differences = scores[starts[own][:, None] + np.arange(side)]
        yield own, differences, kronecker_matrices(values, side, 1)


def _estimates(question: WithinScores, sums: FloatVector, *, done: BoolVector) -> FloatMatrix:
    """A number with a sign and its deviation, shape (B, 2); NaN where there is none.

    Of a linear response atanh of the partial correlation, of two categories the one-step logarithm
    of the odds ratio.
    """
    single = np.flatnonzero(done & (question.sides == 1))
    place = np.searchsorted(question.owner, single)
    score, variance = (own[place] for own in question.moments(sums))
    weight = segments(question.encodings, sums)[-1][single]
    linear = np.array([question.categories[question.models[k].response] == 0 for k in single])
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = score / np.sqrt(variance * weight)
        atanh = np.arctanh(np.clip(correlation, -1.0, 1.0))
        found = np.full((len(done), 2), np.nan)
        found[single, 0] = np.where(linear, atanh, score / variance)
        found[single, 1] = 1.0 / np.sqrt(np.where(linear, weight, variance))
    return found
