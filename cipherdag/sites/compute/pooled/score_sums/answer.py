"""A site's answer to the score test, of columns of any type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.scores.score_sums import Scores, ScoreSums
from cipherdag.sites.compute.device import Device
from cipherdag.sites.compute.pooled.score_sums.numbers import NumberScores
from cipherdag.sites.compute.pooled.score_sums.regressions import SiteRegressions
from cipherdag.sites.compute.pooled.score_sums.residuals import RegressionScores
from cipherdag.sites.compute.pooled.score_sums.tables import TableScoreTests, normal_score

if TYPE_CHECKING:
    from cipherdag.sites.compute.counting.counter import DiscreteColumns


LEAST_RANK = 1e-9
"""Share of the largest eigenvalue below which an eigenvalue of a covariance matrix counts as 0."""


class SiteScores:
    """Score tests over one site's rows.

    Args:
        categories: Number of categories of every variable, 0 for a number.
        column: Codes or values of one variable, float64 of shape (n,), NaN where missing.
        counted: The codes as they are counted; None where all columns are numbers.
        device: Where to compute.
    """

    def __init__(
        self,
        categories: tuple[int, ...],
        column: Callable[[int], FloatVector],
        counted: Callable[[], DiscreteColumns],
        device: Device,
    ) -> None:
        self._counted = counted
        self._numbers = NumberScores(column, device)
        self._make = partial(SiteRegressions, categories, column, self._numbers.standard, device)

    @cached_property
    def _regressions(self) -> SiteRegressions:
        """Of tests of categories and numbers together: these read all columns."""
        return self._make()

    def answer(self, question: ScoreSums) -> FloatVector:
        """The site's scores and their moments as the question lays them out."""
        sizes = question.sizes
        # f of all tests first, and in the end of those of several components
        sums = Scores(np.zeros(int(sizes.sum())), *np.zeros((5, question.n_tests)))
        start = np.cumsum(sizes) - sizes
        first = 0
        for rows in question.rows():
            tests = first + np.arange(len(rows))
            first += len(rows)
            numbers = question.of_numbers[tests]
            self._by_table(question, rows, tests, start, sums)
            self._of_numbers(rows[numbers], tests[numbers], start, sums)
        for test, model in question.models.items():
            if sizes[test]:
                scores = self._regressions.scores(model)
                if scores is not None:
                    at = slice(start[test], start[test] + sizes[test])
                    moments = self._regressions.moments(model, scores, question.n_rows)
                    sums.scores[at], sums.means[test], sums.spreads[test] = moments
                    sums.rows[test] = scores.rows
                    form, rank = _form(scores)
                    site_score = normal_score(np.array([form]), np.array([rank]))
                    sums.site_scores[test], sums.sites[test] = site_score[:, 0]
        return question.pack(sums._replace(spreads=sums.spreads[question.several]))

    def _by_table(
        self,
        question: ScoreSums,
        rows: IndexArray,
        numbers: IndexArray,
        start: IndexArray,
        sums: Scores,
    ) -> None:
        """Fill in the tests of categorical x and y whose conditioning sets have one size."""
        mine = question.by_table[numbers] & (question.sizes[numbers] > 0)
        levels = np.array(question.categories, dtype=np.int64)[rows[:, :2]]
        for shape in sorted({*map(tuple, levels[mine].tolist())}):
            chosen = np.flatnonzero(mine & (levels == shape).all(axis=1))
            tests = numbers[chosen]
            moments = TableScoreTests(self._counted()).answer(rows[chosen], question.n_rows)
            sums.scores[start[tests][:, None] + np.arange(moments.scores.shape[1])] = moments.scores
            sums.means[tests], sums.spreads[tests] = moments.means, moments.spreads
            sums.rows[tests] = moments.rows
            sums.site_scores[tests], sums.sites[tests] = moments.site_scores

    def _of_numbers(
        self, rows: IndexArray, tests: IndexArray, start: IndexArray, sums: Scores
    ) -> None:
        """Fill in the tests of numbers whose conditioning sets have one size."""
        score, variance, rest = self._numbers.answer(rows)
        sums.scores[start[tests]], sums.means[tests], sums.rows[tests] = score, variance, rest
        done = rest > 0
        form: FloatVector = np.where(done, score**2 / np.where(done, variance, 1.0), 0.0)
        sums.site_scores[tests], sums.sites[tests] = normal_score(form, done.astype(np.float64))


def _form(test: RegressionScores) -> tuple[float, float]:
    """The score statistic U' V^+ U (pseudo-inverse), and the rank of V."""
    values, vectors = np.linalg.eigh(test.covariance)
    positive = values > LEAST_RANK * max(float(values[-1]), 0.0)
    along = vectors.T @ test.scores
    form = float((along[positive] ** 2 / values[positive]).sum())
    return form, float(positive.sum())
