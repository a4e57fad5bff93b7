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

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.regression_steps import outputs
from cipherdag.sites.compute.pooled.multinomial import bounded_logits, information
from cipherdag.sites.compute.pooled.own_constants import best_constants
from cipherdag.statistics.regression_fits import pack_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector
    from cipherdag.sites.compute.pooled.own_constants import Derivatives

    FloatMatrix = NDArray[np.float64]


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
    design: FloatMatrix, response: FloatVector, coefficients: FloatVector, categories: int
) -> FloatVector:
    """Profile log likelihood, gradient and minus the Hessian's upper triangle.

    Args:
        design: Columns, the constant first, shape (n, d).
        response: Codes 0..categories-1, shape (n,).
        coefficients: Output by output, shape ((categories - 1) d,); those of constants are not
            used.
        categories: Categories of the response.

    Returns:
        As `RegressionSteps` lays it out. In the places of constants, which have no derivative here,
        stand those of a model without coefficients: they count the response's categories.
    """
    count, columns = outputs(categories), design.shape[1]
    beta = coefficients.reshape(count, columns).copy()
    beta[:, 0] = 0.0
    seen = (response[:, None] == np.arange(categories)).astype(np.float64)
    offsets = np.column_stack([np.zeros(len(response)), bounded_logits(design @ beta.T)])
    present = np.flatnonzero(seen.any(axis=0))
    gradient = np.zeros((count, columns))
    hessian = np.zeros((count, columns, count, columns))
    value = 0.0
    if len(present) > 1:
        value, chance = _at_best_intercepts(offsets[:, present], seen[:, present])
        whole = np.zeros_like(seen)
        whole[:, present] = chance
        gradient[:] = (seen - whole)[:, 1:].T @ design
        hessian[:] = _profile_hessian(design, whole, present)
    _count_categories(gradient, hessian, seen)
    square = hessian.reshape(count * columns, -1)
    return pack_step(value, gradient.ravel(), square)


def _at_best_intercepts(offsets: FloatMatrix, seen: FloatMatrix) -> tuple[float, FloatMatrix]:
    """Log likelihood and chances, shape (n, c), at the best intercepts of c present categories."""
    rows = seen.sum(axis=0)

    def derivatives(rest: FloatMatrix) -> Derivatives:
        def at(intercepts: FloatVector) -> tuple[float, FloatVector, FloatMatrix]:
            value, chance = _likelihood(rest + np.append(0.0, intercepts), seen)
            return value, (seen - chance).sum(axis=0)[1:], _information(chance)

        return at

    middle = offsets.mean(axis=0)
    best = best_constants(offsets - middle, np.log(rows[1:] / rows[0]), derivatives)
    return _likelihood(offsets - middle + np.append(0.0, best), seen)


def _likelihood(logits: FloatMatrix, seen: FloatMatrix) -> tuple[float, FloatMatrix]:
    relative = logits - logits.max(axis=1, keepdims=True)
    weights = np.exp(relative)
    total = weights.sum(axis=1, keepdims=True)
    return float((seen * (relative - np.log(total))).sum()), weights / total


def _information(chance: FloatMatrix) -> FloatMatrix:
    """Minus the second derivative by the intercepts of all present categories but the first."""
    own = chance[:, 1:]
    return np.diag(own.sum(axis=0)) - own.T @ own


def _profile_hessian(
    design: FloatMatrix, chance: FloatMatrix, present: NDArray[np.intp]
) -> FloatMatrix:
    """Shape (outputs, d, outputs, d): coefficients, less what the intercepts take up of them."""
    hessian = information(design, chance[:, 1:])
    # the constant in front stands for the intercepts of all present categories but the first
    free = present[1:] - 1
    inner = hessian[free, 0][:, free, 0]
    cross = hessian[:, :, free, 0].reshape(-1, len(free))
    taken = cross @ np.linalg.pinv(inner, hermitian=True) @ cross.T
    hessian -= taken.reshape(hessian.shape)
    return hessian


def _count_categories(gradient: FloatMatrix, hessian: FloatMatrix, seen: FloatMatrix) -> None:
    """Put into the places of the constants what `Fit` reads the categories' rows from."""
    count = len(gradient)
    rows, equal = float(len(seen)), 1.0 / (count + 1)
    hessian[:, 0, :, :] = 0.0
    hessian[:, :, :, 0] = 0.0
    for output in range(count):
        gradient[output, 0] = seen[:, output + 1].sum() - rows * equal
        hessian[output, 0, output, 0] = rows * equal * (1.0 - equal)
