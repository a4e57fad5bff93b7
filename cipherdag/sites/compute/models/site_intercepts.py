"""Regressions with fixed effects: an intercept of each site, which the site profiles out itself.

Sites differ in level: other machines, other patients. An intercept per site absorbs that, but its
gradient would be one site's sum. So each site maximises over its own intercepts at the coefficients
that are asked about. It answers likelihood, gradient and Hessian of the profile likelihood. Summed
over sites these are the ones of the regression with an indicator of every site.

Source: Murphy and van der Vaart, JASA 95 (2000) 449-465, on profile likelihoods; for linear models
this is the within estimator (Wooldridge, Econometric Analysis, section 10.5).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.sites.compute.models.likelihoods import bounded_logits, information
from cipherdag.statistics.array_functions import (
    Array,
    average,
    full,
    functions_of,
    host,
    like,
    maxima,
)
from cipherdag.statistics.newton import pack_step
from cipherdag.statistics.regression_models import outputs

Derivatives = Callable[[FloatVector], tuple[float, FloatVector, FloatMatrix]]
"""Log likelihood, gradient and minus the Hessian at some intercepts."""

ENDLESS = 1024.0
"""An intercept, in logits, of a category that no row of the site has, or that all have."""
NEAR = 8.0  # offsets of at most this size, in logits, need not be halved
ITERATIONS = 60  # of Newton's method at most
CONVERGED = 1e-13
"""Gain of a step, as a share of the likelihood, at which intercepts are at their best."""
HALVINGS = 30  # of one step at most


def centred(design: Array, response: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """A linear model's columns less their means at the site, but for the constant in front.

    Weights, above 0 and on average 1, multiply by their roots: products are then weighted sums.
    """
    if not len(response):
        return design, response
    within = design - average(design, weights)
    within[:, 0] = 1.0
    rest = response - average(response, weights)
    if weights is None:
        return within, rest
    roots = functions_of(weights).sqrt(weights)
    return within * roots[:, None], rest * roots


def profile_step(
    design: Array,
    response: Array,
    coefficients: FloatVector,
    categories: int,
    weights: Array | None = None,
) -> FloatVector:
    """Profile log likelihood, gradient and minus the Hessian's upper triangle.

    As `RegressionSteps` lays it out; intercepts given are not used. Their positions hold the
    derivatives of a model without coefficients, from which the rows of each category of the
    response follow.
    """
    count, columns = outputs(categories), design.shape[1]
    observed = _weighted(response, categories, weights)
    offsets = _offsets(design, coefficients.reshape(count, columns))
    present, xp = np.flatnonzero(host(observed.any(axis=0))), functions_of(design)
    gradient = np.zeros((count, columns))
    hessian = np.zeros((count, columns, count, columns))
    value = 0.0
    if len(present) > 1:
        these = like(present, design)
        logits, seen = offsets[:, these], observed[:, these]
        logits = logits + like(_best_intercepts(logits, seen), logits)
        value, of_present = _likelihood(logits, seen)
        chance, rows = xp.zeros_like(observed), observed.sum(axis=1)
        chance[:, these] = of_present
        gradient[:] = host((observed - rows[:, None] * chance)[:, 1:].T @ design)
        hessian[:] = _profile_hessian(design, chance, present, rows)
    _count_categories(gradient, hessian, observed)
    square = hessian.reshape(count * columns, -1)
    return pack_step(value, gradient.ravel(), square)


def with_site_intercepts(
    design: Array, response: Array, coefficients: FloatMatrix, categories: int, weights: Array
) -> FloatMatrix:
    """Coefficients, (outputs, d), with the site's best intercepts in place of those given."""
    offsets, at_site = _offsets(design, coefficients), coefficients.copy()
    if not categories:
        at_site[0, 0] = float(average(response - offsets[:, 1], weights))
        return at_site
    observed = _weighted(response, categories, weights)
    present = np.flatnonzero(host(observed.any(axis=0)))
    intercepts, these = np.full(categories, -ENDLESS), like(present, design)
    intercepts[present] = _best_intercepts(offsets[:, these], observed[:, these])
    at_site[:, 0] = np.clip(intercepts[1:] - intercepts[0], -ENDLESS, ENDLESS)
    return at_site


def _offsets(design: Array, coefficients: FloatMatrix) -> Array:
    """Logits without intercepts, of category 0 first, shape (n, 1 + outputs)."""
    slopes = coefficients.copy()
    slopes[:, 0] = 0.0
    logits = bounded_logits(design @ like(slopes.T, design))
    return functions_of(design).column_stack([full((len(design),), 0.0, design), logits])


def _weighted(response: Array, categories: int, weights: Array | None) -> Array:
    """The weight of every row in each category, shape (n, categories)."""
    rows = full((len(response),), 1.0, response) if weights is None else weights
    levels = like(np.arange(categories), response)
    return functions_of(rows).where(response[:, None] == levels, rows[:, None], 0.0)


def _best_intercepts(offsets: Array, observed: Array) -> FloatVector:
    """The best intercepts of c present categories, that of the first 0, shape (c,)."""
    rows, weights = host(observed.sum(axis=0)), observed.sum(axis=1)

    def derivatives(rest: Array) -> Derivatives:
        def at(intercepts: FloatVector) -> tuple[float, FloatVector, FloatMatrix]:
            value, chance = _likelihood(rest + like(np.append(0.0, intercepts), rest), observed)
            gradient = (observed - weights[:, None] * chance).sum(axis=0)[1:]
            weighted = chance[:, 1:] * weights[:, None]
            square = np.diag(host(weighted.sum(axis=0))) - host(weighted.T @ chance[:, 1:])
            return value, host(gradient), square

        return at

    middle = offsets.mean(axis=0)
    best = best_intercepts(offsets - middle, np.log(rows[1:] / rows[0]), derivatives)
    middle = host(middle)
    return np.append(0.0, best) - middle + middle[0]


def _likelihood(logits: Array, observed: Array) -> tuple[float, Array]:
    xp = functions_of(logits)
    relative = logits - maxima(logits, 1)[:, None]
    weights = xp.exp(relative)
    total = weights.sum(axis=1)[:, None]
    return float((observed * (relative - xp.log(total))).sum()), weights / total


def _profile_hessian(
    design: Array, chance: Array, present: NDArray[np.intp], rows: Array
) -> FloatMatrix:
    """Minus the Hessian of the profile likelihood, shape (outputs, d, outputs, d)."""
    hessian: FloatMatrix = host(information(design, chance[:, 1:], rows))
    # the constant in front stands for the intercepts of all present categories but the first
    free = present[1:] - 1
    inner = hessian[free, 0][:, free, 0]
    cross = hessian[:, :, free, 0].reshape(-1, len(free))
    profiled = cross @ np.linalg.pinv(inner, hermitian=True) @ cross.T
    hessian -= profiled.reshape(hessian.shape)
    return hessian


def _count_categories(gradient: FloatMatrix, hessian: FloatMatrix, observed: Array) -> None:
    """Write the categories' counts, which `Fit` reads, into the positions of the intercepts."""
    count = len(gradient)
    rows, equal = float(observed.sum()), 1.0 / (count + 1)
    hessian[:, 0, :, :] = 0.0
    hessian[:, :, :, 0] = 0.0
    for output in range(count):
        gradient[output, 0] = float(observed[:, output + 1].sum()) - rows * equal
        hessian[output, 0, output, 0] = rows * equal * (1.0 - equal)


def profiled_slope(slope: FloatVector, square: FloatMatrix, n_intercepts: int) -> FloatVector:
    """Derivatives of a sum over a site's rows whose intercepts follow the other coefficients.

    ``slope``, (m,), has the derivatives with intercepts held fixed, ``square`` is minus the Hessian
    of the site's likelihood; each of the intercepts stands in front of its output's coefficients.
    """
    at, rest = _split(len(slope), n_intercepts)
    total = np.zeros(len(slope))
    inner = np.linalg.pinv(square[np.ix_(at, at)], hermitian=True)
    total[rest] = slope[rest] - square[np.ix_(rest, at)] @ (inner @ slope[at])
    return total


def full_scores(
    weights: FloatVector, slope: FloatVector, square: FloatMatrix, n_intercepts: int
) -> FloatVector:
    """The weights of the scores of all coefficients, those of the site's intercepts among them.

    They follow from the block inverse of the whole Hessian. ``weights`` are those of the other
    coefficients' scores, over all sites; the other arguments are as in `profiled_slope`.
    """
    at, rest = _split(len(weights), n_intercepts)
    every = weights.copy()
    inner = np.linalg.pinv(square[np.ix_(at, at)], hermitian=True)
    every[at] = inner @ (slope[at] - square[np.ix_(at, rest)] @ weights[rest])
    return every


def _split(length: int, n_intercepts: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of intercepts, and of all others."""
    at = np.arange(0, length, length // n_intercepts)
    return at, np.setdiff1d(np.arange(length), at)


def best_intercepts(
    offsets: Array,
    start: FloatVector,
    derivatives: Callable[[Array], Derivatives],
    share: Callable[[FloatVector, FloatVector], float] = lambda _intercepts, _step: 1.0,
) -> FloatVector:
    """The intercepts, or thresholds, of highest likelihood by Newton's method, shape (c,).

    Coefficients may be asked about at which offsets differ by thousands, as where a column
    separates the categories. The likelihood is then nearly made of straight pieces, on which
    Newton's method diverges. So offsets are first taken a fraction as large, and then doubled step
    by step together with the intercepts, which stay close to the best ones.

    ``start`` is best without offsets; ``share`` bounds the share of a step that is taken.
    """
    spread = float(abs(offsets).max()) if len(offsets) else 0.0
    halved = max(math.ceil(math.log2(spread / NEAR)), 0) if spread > NEAR else 0
    intercepts = _climb(derivatives(offsets * 0.5**halved), start, share)
    for level in reversed(range(halved)):
        intercepts = _climb(derivatives(offsets * 0.5**level), 2.0 * intercepts, share)
    return intercepts


def _climb(
    derivatives: Derivatives,
    intercepts: FloatVector,
    share: Callable[[FloatVector, FloatVector], float],
) -> FloatVector:
    value, gradient, square = derivatives(intercepts)
    for _ in range(ITERATIONS):
        step = np.asarray(np.linalg.lstsq(square, gradient, rcond=None)[0], dtype=np.float64)
        if float(gradient @ step) <= CONVERGED * (1.0 + abs(value)):
            break
        step = step * share(intercepts, step)
        for _halving in range(HALVINGS):
            ahead = derivatives(intercepts + step)
            if ahead[0] >= value:
                intercepts = intercepts + step
                value, gradient, square = ahead
                break
            step = step / 2.0
        else:
            break
    return intercepts
