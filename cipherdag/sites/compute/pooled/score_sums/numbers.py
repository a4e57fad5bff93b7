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

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatArray, FloatVector, IndexArray
from cipherdag.sites.compute.device import PROCESSOR, Device, batch_bytes, placed
from cipherdag.statistics.array_functions import (
    Array,
    at_least,
    floats,
    functions_of,
    host,
    least_squares,
    like,
)
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
"""Of the tests that a processor does together: they stay in its cache."""
BYTES_PER_VALUE = 64
"""On a card: of a value, its square, and what is made of both."""


class RegressionScores(NamedTuple):
    """U (m,), their covariances (m, m), and rows less coefficients, of one test."""

    scores: FloatVector
    covariance: FloatArray
    rows: float


class NumberScores:
    """Score tests of numbers given numbers at one site.

    Args:
        column: Values of one variable, float64 of shape (n,), NaN where missing.
        device: Where to compute.
    """

    def __init__(self, column: Callable[[int], FloatVector], device: Device) -> None:
        self._column, self._device = column, device
        self._standardised: dict[int, FloatVector] = {}
        self._placed: dict[int, Array] = {}

    def answer(self, tests: IndexArray) -> ScoreMoments:
        """U, V, and rows less coefficients of tests (x, y, s1, ...), shape (B,) each; 0: not done.

        Args:
            tests: Positions of numbers, shape (B, 2 + k).
        """
        moments = np.zeros((3, len(tests)))
        if not len(tests):
            return moments[0], moments[1], moments[2]
        variables, at = np.unique(tests, return_inverse=True)
        each = [self._on_device(variable) for variable in variables.tolist()]
        xp = functions_of(each[0])
        values = xp.stack(each)
        missing = xp.isnan(values)
        gaps = host(missing.any(axis=1))
        at = at.reshape(tests.shape)
        most = max(self._most // (2 * tests.shape[1] * max(values.shape[1], 1)), 1)
        for first in range(0, len(tests), most):
            part = slice(first, first + most)
            chosen = like(at[part], values)
            block = values[chosen]
            if gaps[at[part]].any():
                complete = ~missing[chosen].any(axis=1)
                block = xp.where(complete[:, None], block, 0.0)
            else:
                complete = like(np.ones((1, values.shape[1]), dtype=bool), values)
            moments[:, part] = self._moments(block, complete)
        return moments[0], moments[1], moments[2]

    @property
    def _most(self) -> int:
        """Values that are computed with at a time."""
        if self._device == PROCESSOR:
            return CHUNK_VALUES
        return batch_bytes(self._device) // BYTES_PER_VALUE

    def _on_device(self, variable: int) -> Array:
        if variable not in self._placed:
            self._placed[variable] = placed(self.standard(variable), self._device)
        return self._placed[variable]

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

    def _moments(self, block: Array, complete: Array) -> FloatArray:
        """Scores, variances and residual degrees of freedom of tests of one size, shape (3, B).

        Args:
            block: Values of x, y and S, 0 where incomplete, shape (B, 2 + k, n).
            complete: Which rows count, shape (B, n) or (1, n).
        """
        count = np.broadcast_to(host(complete.sum(axis=1)), len(block)).astype(np.float64)
        given = block.shape[1] - 2
        moments = np.zeros((3, len(block)))
        curved = (count >= ROWS_PER_SQUARE * (2 * given + 2)) & (given > 0)
        for chosen, square in ((curved, True), (~curved, False)):
            if chosen.any():
                these = like(np.flatnonzero(chosen), block)
                part = block[these]
                if square:
                    part = functions_of(part).concatenate([part, part[:, 2:] ** 2], axis=1)
                where = complete if len(complete) == 1 else complete[these]
                left, rest = _residuals(part, where, like(count[chosen], block))
                moments[:, chosen] = host(_products(left, rest, where))
        return moments


def _residuals(block: Array, complete: Array, count: Array) -> tuple[Array, Array]:
    """Residuals of the first two given the others, (B, 2, n), and rows less coefficients.

    Both are 0 where the others leave nothing.

    Args:
        block: Values, shape (B, 2 + k, n).
        complete: Which rows count, shape (B, n) or (1, n).
        count: How many they are, shape (B,).
    """
    xp = functions_of(block)
    mean = block.sum(axis=2) / at_least(count, 1.0)[:, None]
    block = (block - mean[:, :, None]) * complete[:, None]
    size = xp.sqrt((block * block).sum(axis=2))
    block /= xp.where(size > 0.0, size, 1.0)[:, :, None]
    both, given = block[:, :2], block[:, 2:]
    rest = count - 1.0
    if given.shape[1]:
        among = given @ given.swapaxes(1, 2)
        values, vectors = xp.linalg.eigh(among)
        positive = values > LEAST_REST
        inverse = (
            vectors * xp.where(positive, 1.0 / xp.where(positive, values, 1.0), 0.0)[:, None]
        ) @ (vectors.swapaxes(1, 2))
        slopes = (both @ given.swapaxes(1, 2)) @ inverse
        both = both - slopes @ given
        rest = rest - positive.sum(axis=1)
    left = (both * both).sum(axis=2)
    done = (left > LEAST_REST).all(axis=1) & (rest >= FEWEST_REST)
    return both * done[:, None, None] * complete[:, None], xp.where(done, rest, 0.0)


def residual_scores(nuisance: Array, both: Array) -> RegressionScores | None:
    """The test of two numbers given any columns; None where S leaves too little of one.

    Args:
        nuisance: Regressors, a constant among them, shape (n, k).
        both: The numbers, shape (n, 2).
    """
    slopes, rank = least_squares(nuisance, both)
    left = both - nuisance @ slopes
    total = ((both - both.mean(axis=0)) ** 2).sum(axis=0)
    rest = float(len(both) - rank)
    if rest < FEWEST_REST or ((left**2).sum(axis=0) <= LEAST_REST * total).any():
        return None
    everywhere = like(np.ones((1, len(both)), dtype=bool), left)
    score, variance, _ = host(_products(left.T[None], like(np.array([rest]), left), everywhere))
    return RegressionScores(score, variance[:, None], rest)


def _products(residuals: Array, rest: Array, complete: Array) -> Array:
    """U, V and rows less coefficients, shape (3, B)."""
    first, second = (clipped_residuals(residuals[:, side], rest, complete) for side in (0, 1))
    xp, product = functions_of(first), first * second
    scale = floats(complete.sum(axis=1)) / xp.where(rest > 0.0, rest, 1.0)
    variance = xp.maximum((product * product).sum(axis=1) * scale, LEAST_VARIANCE * rest)
    return xp.stack([product.sum(axis=1), variance, rest])


def clipped_residuals(residuals: Array, rest: Array, complete: Array) -> Array:
    """Clipped residuals with about mean 0, whose squares add up to about ``rest``.

    Args:
        residuals: Shape (B, n), 0 in rows that do not count.
        rest: Rows less coefficients, shape (B,).
        complete: Which rows count, shape (B, n) or (1, n).

    Returns:
        Shape (B, n).
    """
    xp = functions_of(residuals)

    def standard(values: Array) -> Array:
        size = xp.sqrt((values * values).sum(axis=1) / at_least(rest, 1.0))
        return values / xp.where(size > 0.0, size, 1.0)[:, None]

    clipped = xp.clip(standard(residuals), -CLIP, CLIP)
    # skewed numbers are clipped on one side, and products of means would add up
    mean = clipped.sum(axis=1) / at_least(complete.sum(axis=1), 1)
    return xp.clip(standard((clipped - mean[:, None]) * complete), -FURTHEST, FURTHEST)
