"""Regressions with an intercept of each site's own, which the site takes out before it answers.

Sites differ in level: other machines, other patients. An intercept per site absorbs that, but its
gradient would be one site's own sum. So each site maximises over its own intercepts at the
coefficients that are asked about, and answers the rest: likelihood, gradient and Hessian of the
profile likelihood, which add up over sites to those of the regression with an indicator of every
site.

Source: Murphy and van der Vaart, JASA 95 (2000) 449-465, on profile likelihoods; for linear models
this is the within estimator (Wooldridge, Econometric Analysis, section 10.5).

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.sites.compute.pooled.multinomial import bounded_logits, information
from cipherdag.sites.compute.pooled.own_constants import Derivatives, best_constants
from cipherdag.statistics.regression_fits import pack_step
from cipherdag.statistics.regression_models import outputs

ENDLESS = 1024.0
"""A constant, in logits, of a category that no row of the site has, or that all have."""


def centred(
    design: FloatMatrix, response: FloatVector, weights: FloatVector | None = None
) -> tuple[FloatMatrix, FloatVector]:
    """A linear model's columns less their means at the site, but for the constant in front.

    Args:
        design: Columns, the constant first, shape (n, d).
        response: Shape (n,).
        weights: Of the rows, above 0 and on average 1, if they differ: all is multiplied by their
            roots, so that products are weighted sums.
    """
    if not len(response):
        return design, response
    moved = design - np.average(design, axis=0, weights=weights)
    moved[:, 0] = 1.0
    left = response - np.average(response, weights=weights)
    if weights is None:
        return moved, left
    roots = np.sqrt(weights)
    return moved * roots[:, None], left * roots


def profile_step(
    design: FloatMatrix,
    response: FloatVector,
    coefficients: FloatVector,
    categories: int,
    weights: FloatVector | None = None,
) -> FloatVector:
    """Profile log likelihood, gradient and minus the Hessian's upper triangle.

    Args:
        design: Columns, the constant first, shape (n, d).
        response: Codes 0..categories-1, shape (n,).
        coefficients: Output by output, shape ((categories - 1) d,); those of constants are not
            used.
        categories: Categories of the response.
        weights: Of the rows, if they differ, shape (n,).

    Returns:
        As `RegressionSteps` lays it out. In the places of constants, which have no derivative here,
        stand those of a model without coefficients: they count the response's categories.
    """
    count, columns = outputs(categories), design.shape[1]
    beta = coefficients.reshape(count, columns).copy()
    beta[:, 0] = 0.0
    seen = _weighed(response, categories, weights)
    offsets = np.column_stack([np.zeros(len(response)), bounded_logits(design @ beta.T)])
    present = np.flatnonzero(seen.any(axis=0))
    gradient = np.zeros((count, columns))
    hessian = np.zeros((count, columns, count, columns))
    value = 0.0
    if len(present) > 1:
        moved = offsets[:, present] + _best_intercepts(offsets[:, present], seen[:, present])
        value, chance = _likelihood(moved, seen[:, present])
        whole, rows = np.zeros_like(seen), seen.sum(axis=1)
        whole[:, present] = chance
        gradient[:] = (seen - rows[:, None] * whole)[:, 1:].T @ design
        hessian[:] = _profile_hessian(design, whole, present, rows)
    _count_categories(gradient, hessian, seen)
    square = hessian.reshape(count * columns, -1)
    return pack_step(value, gradient.ravel(), square)


def with_own_constants(
    design: FloatMatrix,
    response: FloatVector,
    coefficients: FloatMatrix,
    categories: int,
    weights: FloatVector,
) -> FloatMatrix:
    """Coefficients with the site's own constants at their best in the places of these.

    Args:
        design: Columns, the constant first, shape (n, d).
        response: Codes, or numbers, shape (n,).
        coefficients: Output by output, shape (outputs, d).
        categories: Of the response; 0 of numbers.
        weights: Of the rows, shape (n,).
    """
    own: FloatMatrix = coefficients.copy()
    own[:, 0] = 0.0
    offsets = bounded_logits(design @ own.T)
    if not categories:
        own[0, 0] = np.average(response - offsets[:, 0], weights=weights)
        return own
    seen = _weighed(response, categories, weights)
    present = np.flatnonzero(seen.any(axis=0))
    found = np.full(categories, -ENDLESS)
    found[present] = _best_intercepts(
        np.column_stack([np.zeros(len(response)), offsets])[:, present], seen[:, present]
    )
    own[:, 0] = np.clip(found[1:] - found[0], -ENDLESS, ENDLESS)
    return own


def _weighed(response: FloatVector, categories: int, weights: FloatVector | None) -> FloatMatrix:
    """What every row adds to each category, shape (n, categories)."""
    rows = np.ones(len(response)) if weights is None else weights
    return np.where(response[:, None] == np.arange(categories), rows[:, None], 0.0)


def _best_intercepts(offsets: FloatMatrix, seen: FloatMatrix) -> FloatVector:
    """The best intercepts of c present categories, that of the first 0, shape (c,)."""
    rows, weights = seen.sum(axis=0), seen.sum(axis=1)

    def derivatives(rest: FloatMatrix) -> Derivatives:
        def at(intercepts: FloatVector) -> tuple[float, FloatVector, FloatMatrix]:
            value, chance = _likelihood(rest + np.append(0.0, intercepts), seen)
            gradient = (seen - weights[:, None] * chance).sum(axis=0)[1:]
            return value, gradient, _information(chance, weights)

        return at

    middle = offsets.mean(axis=0)
    best = best_constants(offsets - middle, np.log(rows[1:] / rows[0]), derivatives)
    return np.append(0.0, best) - middle + middle[0]


def _likelihood(logits: FloatMatrix, seen: FloatMatrix) -> tuple[float, FloatMatrix]:
    relative = logits - logits.max(axis=1, keepdims=True)
    weights = np.exp(relative)
    total = weights.sum(axis=1, keepdims=True)
    return float((seen * (relative - np.log(total))).sum()), weights / total


def _information(chance: FloatMatrix, rows: FloatVector) -> FloatMatrix:
    """Minus the second derivative by the intercepts of all present categories but the first."""
    own = chance[:, 1:]
    weighed: FloatMatrix = own * rows[:, None]
    return np.diag(weighed.sum(axis=0)) - weighed.T @ own


def _profile_hessian(
    design: FloatMatrix, chance: FloatMatrix, present: NDArray[np.intp], rows: FloatVector
) -> FloatMatrix:
    """Shape (outputs, d, outputs, d): coefficients, less what the intercepts take up of them."""
    hessian = information(design, chance[:, 1:], rows)
    # the constant in front stands for the intercepts of all present categories but the first
    free = present[1:] - 1
    inner = hessian[free, 0][:, free, 0]
    cross = hessian[:, :, free, 0].reshape(-1, len(free))
    taken = cross @ np.linalg.pinv(inner, hermitian=True) @ cross.T
    hessian -= taken.reshape(hessian.shape)
    return hessian


def constants_taken(slope: FloatVector, square: FloatMatrix, outputs_of: int) -> FloatVector:
    """Derivatives of a sum over a site's rows where its constants follow the other coefficients.

    Args:
        slope: By all coefficients as if none followed, shape (m,).
        square: Minus the Hessian of the site's likelihood, shape (m, m).
        outputs_of: How many of them are constants, each in front of its output's.
    """
    own, rest = _places(len(slope), outputs_of)
    found = np.zeros(len(slope))
    inner = np.linalg.pinv(square[np.ix_(own, own)], hermitian=True)
    found[rest] = slope[rest] - square[np.ix_(rest, own)] @ (inner @ slope[own])
    return found


def constants_put(
    weights: FloatVector, slope: FloatVector, square: FloatMatrix, outputs_of: int
) -> FloatVector:
    """The weights of the scores of all coefficients, those of the site's constants among them.

    By the inverse of the whole Hessian in blocks.

    Args:
        weights: Of the scores of the other coefficients, over all sites, shape (m,).
        slope: As `constants_taken` takes it.
        square: Likewise.
        outputs_of: Likewise.
    """
    own, rest = _places(len(weights), outputs_of)
    found = weights.copy()
    inner = np.linalg.pinv(square[np.ix_(own, own)], hermitian=True)
    found[own] = inner @ (slope[own] - square[np.ix_(own, rest)] @ weights[rest])
    return found


def _places(length: int, outputs_of: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where constants stand, and where the others do."""
    own = np.arange(0, length, length // outputs_of)
    return own, np.setdiff1d(np.arange(length), own)


def _count_categories(gradient: FloatMatrix, hessian: FloatMatrix, seen: FloatMatrix) -> None:
    """Put into the places of the constants what `Fit` reads the categories' rows from."""
    count = len(gradient)
    rows, equal = float(seen.sum()), 1.0 / (count + 1)
    hessian[:, 0, :, :] = 0.0
    hessian[:, :, :, 0] = 0.0
    for output in range(count):
        gradient[output, 0] = seen[:, output + 1].sum() - rows * equal
        hessian[output, 0, output, 0] = rows * equal * (1.0 - equal)
