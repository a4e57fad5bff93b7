"""Residuals of two numbers as the score test takes them: standardised, clipped, and multiplied.

Residuals of x and of y given S within the site are standardised and clipped at 2.5 deviations, so
that no few rows decide a sum. U is the sum of their products, V that of the squared products: no
model says how the spread of x or y depends on S (White, 1980).

Source: White, Econometrica 48 (1980) 817-838; Huber, Robust Statistics, chapter 7.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatArray, FloatMatrix, FloatVector
from cipherdag.sites.compute.patients import PatientSums
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

CLIP, FURTHEST = 2.5, 4.0
"""Deviations at which residuals are clipped, before and after they are standardised again."""
FEWEST_REST = 10  # fewest rows less coefficients of a site that does a test
LEAST_VARIANCE = 2.0 / 3.0
"""The least V per row that a site states; independent normal numbers have about 1."""

MOST_TRACE = 1e6  # correlations have full rank if the trace of their inverse is below this


ByPatient = Callable[[FloatMatrix, float], PatientSums]
"""What rows of the same patients add to covariances, from terms, (n, K), and coefficients of S."""


class RegressionScores(NamedTuple):
    """U (m,), covariances (m, m), rows less coefficients, and what ``patients`` add."""

    scores: FloatVector
    covariance: FloatArray
    rows: float
    patients: PatientSums | None = None


def residual_scores(
    nuisance: Array, both: Array, patients: ByPatient | None = None
) -> RegressionScores | None:
    """U and V of two numbers, (n, 2), given ``nuisance``, (n, k); None if S leaves too little."""
    slopes, rank = least_squares(nuisance, both)
    left = both - nuisance @ slopes
    total = ((both - both.mean(axis=0)) ** 2).sum(axis=0)
    rest = float(len(both) - rank)
    if rest < FEWEST_REST or ((left**2).sum(axis=0) <= LEAST_REST * total).any():
        return None
    everywhere = like(np.ones((1, len(both)), dtype=bool), left)
    product = row_products(left.T[None], like(np.array([rest]), left), everywhere)
    score, variance, _ = host(products(product, like(np.array([rest]), left), everywhere))
    whose = None if patients is None else patients(host(product).T, len(both) - rest - 1.0)
    return RegressionScores(score, variance[:, None], rest, whose)


def row_products(residuals: Array, rest: Array, complete: Array) -> Array:
    """The products of the two clipped residuals of each test, (B, n) of (B, 2, n)."""
    first, second = (clipped_residuals(residuals[:, side], rest, complete) for side in (0, 1))
    return first * second


def products(product: Array, rest: Array, complete: Array) -> Array:
    """U, V and ``rest`` of B tests, (3, B), from their `row_products`, (B, n)."""
    xp = functions_of(product)
    scale = floats(complete.sum(axis=1)) / xp.where(rest > 0.0, rest, 1.0)
    variance = xp.maximum((product * product).sum(axis=1) * scale, LEAST_VARIANCE * rest)
    return xp.stack([product.sum(axis=1), variance, rest])


def clipped_residuals(residuals: Array, rest: Array, complete: Array) -> Array:
    """Residuals, (B, n), clipped, with about mean 0, whose squares add up to about ``rest``."""
    xp = functions_of(residuals)

    def standard(values: Array) -> Array:
        size = xp.sqrt((values * values).sum(axis=1) / at_least(rest, 1.0))
        return values / xp.where(size > 0.0, size, 1.0)[:, None]

    clipped = xp.clip(standard(residuals), -CLIP, CLIP)
    # skewed numbers are clipped on one side, and products of means would add up
    mean = clipped.sum(axis=1) / at_least(complete.sum(axis=1), 1)
    return xp.clip(standard((clipped - mean[:, None]) * complete), -FURTHEST, FURTHEST)


def pseudo_inverse(correlations: Array) -> tuple[Array, Array]:
    """The inverses of matrices without their eigenvalues of 0, (U, m, m), and ranks, (U,)."""
    xp = functions_of(correlations)
    if isinstance(correlations, np.ndarray):
        # a constant column has no correlations; a variance of 1 gives the rest an inverse
        constant = correlations.diagonal(axis1=1, axis2=2) == 0.0
        inverses = _inverses(correlations + constant[:, :, None] * np.eye(constant.shape[1]))
        if inverses is not None:
            return inverses, (~constant).sum(axis=1)
    values, vectors = xp.linalg.eigh(correlations)
    positive = values > LEAST_REST
    scale = xp.where(positive, 1.0 / xp.where(positive, values, 1.0), 0.0)
    return (vectors * scale[:, None]) @ vectors.swapaxes(1, 2), positive.sum(axis=1)


def _inverses(correlations: FloatArray) -> FloatArray | None:
    """The inverses of matrices all of whose eigenvalues are well above 0; None if some are not."""
    try:
        inverses = np.linalg.inv(correlations).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:  # one of them has no inverse
        return None
    # the sum of an inverse's eigenvalues is above the largest of them
    traces = np.trace(inverses, axis1=1, axis2=2)
    return inverses if (np.abs(traces) < MOST_TRACE).all() else None
