"""Score tests of two numbers given numbers, with heteroscedasticity-consistent variances.

Residuals of x and of y given S within the site are standardised and clipped at 2.5 deviations, so
that no few rows decide a sum. U is the sum of their products, V that of the squared products: no
model says how the spread of x or y depends on S (White, 1980). Squares of S are regressors too
where a site has enough rows.

Source: White, Econometrica 48 (1980) 817-838; Huber, Robust Statistics, chapter 7.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatArray, FloatVector, IndexArray
from cipherdag.statistics.regression_fits import LEAST_REST

ScoreMoments = tuple[FloatVector, FloatVector, FloatVector]
"""Scores U, their null variances V, and rows less coefficients, by test, shape (B,) each."""

CLIP, FURTHEST = 2.5, 4.0
"""Deviations at which residuals are clipped, before and after they are standardised again."""
FEWEST_REST = 10
"""Fewest rows less coefficients of a site that does a test."""
ROWS_PER_SQUARE = 10
"""Rows per coefficient from which squares of S are among them."""
LEAST_VARIANCE = 2.0 / 3.0
"""Of that of normal numbers: the least V that a site states, whatever its rows."""
CHUNK_VALUES = 2**18


class RegressionScores(NamedTuple):
    """U (m,), their covariances (m, m), and rows less coefficients, of one test."""

    scores: FloatVector
    covariance: FloatArray
    rows: float


class NumberScores:
    """Score tests of numbers given numbers at one site.

    Args:
        column: Values of one variable, float64 of shape (n,), NaN where missing.
    """

    def __init__(self, column: Callable[[int], FloatVector]) -> None:
        self._column = column
        self._standardised: dict[int, FloatVector] = {}

    def answer(self, tests: IndexArray) -> ScoreMoments:
        """U, V, and rows less coefficients of tests (x, y, s1, ...), shape (B,) each; 0: not done.

        Args:
            tests: Positions of numbers, shape (B, 2 + k).
        """
        moments = np.zeros((3, len(tests)))
        if not len(tests):
            return moments[0], moments[1], moments[2]
        variables, at = np.unique(tests, return_inverse=True)
        values = np.stack([self.standard(variable) for variable in variables.tolist()])
        missing = np.isnan(values)
        gaps = np.logical_or.reduce(missing, axis=1)
        at = at.reshape(tests.shape)
        for part in self._chunks(at, values.shape[1]):
            block = values[at[part]]
            if gaps[at[part]].any():
                complete = ~np.logical_or.reduce(missing[at[part]], axis=1)
                block = np.where(complete[:, None], block, 0.0)
            else:
                complete = np.ones((1, values.shape[1]), dtype=bool)
            moments[:, part] = self._moments(block, complete)
        return moments[0], moments[1], moments[2]

    def _chunks(self, tests: IndexArray, rows: int) -> Iterator[slice]:
        most = max(CHUNK_VALUES // (2 * tests.shape[1] * max(rows, 1)), 1)
        for first in range(0, len(tests), most):
            yield slice(first, first + most)

    def standard(self, variable: int) -> FloatVector:
        """The values in deviations from their mean, zeros where they are constant."""
        if variable not in self._standardised:
            column = self._column(variable)
            present = column[~np.isnan(column)]
            largest = float(np.abs(present).max(initial=0.0)) or 1.0
            centred = column / largest - (present / largest).mean() if len(present) else column
            spread = float(np.sqrt(np.nanmean(centred**2))) if len(present) else 0.0
            varies = spread > LEAST_REST
            self._standardised[variable] = centred / spread if varies else centred * 0.0
        return self._standardised[variable]

    def _moments(self, block: FloatArray, complete: NDArray[np.bool_]) -> FloatArray:
        """Scores, variances and residual degrees of freedom of tests of one size, shape (3, B).

        Args:
            block: Values of x, y and S, 0 where incomplete, shape (B, 2 + k, n).
            complete: Which rows count, shape (B, n) or (1, n).
        """
        count = np.broadcast_to(complete.sum(axis=1), len(block)).astype(np.float64)
        given = block.shape[1] - 2
        moments = np.zeros((3, len(block)))
        curved = (count >= ROWS_PER_SQUARE * (2 * given + 2)) & (given > 0)
        for chosen, square in ((curved, True), (~curved, False)):
            if chosen.any():
                part = block[chosen]
                if square:
                    part = np.concatenate([part, part[:, 2:] ** 2], axis=1)
                where = complete if len(complete) == 1 else complete[chosen]
                left, rest = _residuals(part, where, count[chosen])
                moments[:, chosen] = _products(left, rest, where)
        return moments


def _residuals(
    block: FloatArray, complete: NDArray[np.bool_], count: FloatVector
) -> tuple[FloatArray, FloatVector]:
    """Residuals of the first two given the others, (B, 2, n), and rows less coefficients.

    Both are 0 where the others leave nothing.

    Args:
        block: Values, shape (B, 2 + k, n).
        complete: Which rows count, shape (B, n) or (1, n).
        count: How many they are, shape (B,).
    """
    mean = block.sum(axis=2) / np.maximum(count, 1.0)[:, None]
    block = (block - mean[:, :, None]) * complete[:, None]
    size = np.sqrt((block * block).sum(axis=2))
    block /= np.where(size > 0.0, size, 1.0)[:, :, None]
    both, given = block[:, :2], block[:, 2:]
    rest = count - 1.0
    if given.shape[1]:
        among = given @ given.transpose(0, 2, 1)
        values, vectors = np.linalg.eigh(among)
        positive = values > LEAST_REST
        inverse = (
            vectors * np.where(positive, 1.0 / np.where(positive, values, 1.0), 0.0)[:, None]
        ) @ (vectors.transpose(0, 2, 1))
        slopes = (both @ given.transpose(0, 2, 1)) @ inverse
        both = both - slopes @ given
        rest = rest - positive.sum(axis=1)
    left = (both * both).sum(axis=2)
    done = (left > LEAST_REST).all(axis=1) & (rest >= FEWEST_REST)
    return both * done[:, None, None] * complete[:, None], np.where(done, rest, 0.0)


def residual_scores(nuisance: FloatArray, both: FloatArray) -> RegressionScores | None:
    """The test of two numbers given any columns; None where S leaves too little of one.

    Args:
        nuisance: Regressors, a constant among them, shape (n, k).
        both: The numbers, shape (n, 2).
    """
    slopes, _, rank, _ = np.linalg.lstsq(nuisance, both, rcond=None)
    left = both - nuisance @ slopes
    total = ((both - both.mean(axis=0)) ** 2).sum(axis=0)
    rest = float(len(both) - rank)
    if rest < FEWEST_REST or ((left**2).sum(axis=0) <= LEAST_REST * total).any():
        return None
    everywhere = np.ones((1, len(both)), dtype=bool)
    score, variance, _ = _products(left.T[None], np.array([rest]), everywhere)
    return RegressionScores(score, variance[:, None], rest)


def _products(residuals: FloatArray, rest: FloatVector, complete: NDArray[np.bool_]) -> FloatArray:
    """U, V and rows less coefficients, shape (3, B)."""
    first, second = (clipped_residuals(residuals[:, side], rest, complete) for side in (0, 1))
    product = first * second
    scale = complete.sum(axis=1) / np.where(rest > 0.0, rest, 1.0)
    variance = np.maximum((product * product).sum(axis=1) * scale, LEAST_VARIANCE * rest)
    return np.stack([product.sum(axis=1), variance, rest])


def clipped_residuals(
    residuals: FloatArray, rest: FloatVector, complete: NDArray[np.bool_]
) -> FloatArray:
    """Clipped residuals with about mean 0, whose squares add up to about ``rest``.

    Args:
        residuals: Shape (B, n), 0 in rows that do not count.
        rest: Rows less coefficients, shape (B,).
        complete: Which rows count, shape (B, n) or (1, n).

    Returns:
        Shape (B, n).
    """

    def standard(values: FloatArray) -> FloatArray:
        size = np.sqrt((values * values).sum(axis=1) / np.maximum(rest, 1.0))
        return values / np.where(size > 0.0, size, 1.0)[:, None]

    clipped = np.clip(standard(residuals), -CLIP, CLIP)
    # skewed numbers are clipped on one side, and products of means would add up
    mean = clipped.sum(axis=1) / np.maximum(complete.sum(axis=1), 1)
    return np.clip(standard((clipped - mean[:, None]) * complete), -FURTHEST, FURTHEST)
