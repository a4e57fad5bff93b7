"""The estimators of Effect over many runs at once, by numpy alone, with an indicator of every site.

Nothing here is of the package: `effect_sites.py` holds both against one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS = 30
TRUNCATED, MOST_CUT = 0.01, 0.1
FEWEST_SPARE = 4.0
FAR, STILL = 20.0, 1e-3
SLOPES = 2
LARGEST_SHARE = 0.9
WAY = np.array([-1.0, 1.0])


@dataclass(frozen=True, slots=True)
class Batch:
    """Means of both arms in R runs.

    Attributes:
        means: Shape (R, 2).
        covariance: By the sandwich of the stacked functions, residuals over one less their
            leverage, shape (R, 2, 2).
        worth: Of how many rows' squares the variances are as certain, shape (R, 2).
        refused: Whether the treatment's model has no finite maximum, weights are cut, or rows are
            too few, shape (R,).
    """

    means: NDArray
    covariance: NDArray
    worth: NDArray
    refused: NDArray

    def intervals(self, coefficients: int) -> tuple[NDArray, NDArray, NDArray]:
        """Differences, their standard errors, and half the width of intervals, shape (R,) each."""
        from scipy import stats

        spare = np.maximum(self.worth - coefficients, FEWEST_SPARE)
        errors = np.sqrt(self.covariance @ WAY @ WAY)
        larger = np.sqrt(self.worth / spare)
        wide = self.covariance * larger[:, :, None] * larger[:, None]
        own = wide[:, [0, 1], [0, 1]]
        freedom = own.sum(axis=1) ** 2 / (own**2 / spare).sum(axis=1)
        width = stats.t.ppf(0.975, freedom) * np.sqrt(wide @ WAY @ WAY)
        return self.means @ WAY, errors, width


def logistic(y: NDArray, x: NDArray, used: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Coefficients, shape (R, k), of y (R, n) on x (R, n, k) over some rows, and minus Hessians.

    And whether slopes, which follow the sites' indicators, have no finite maximum, shape (R,).
    """
    found = np.zeros((len(x), x.shape[2]))
    ridge = 1e-9 * np.eye(x.shape[2])
    for _ in range(STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip((x @ found[..., None])[..., 0], -40, 40)))
        hessian = square(x, used * chance * (1.0 - chance)) + ridge
        gradient = ((used * (y - chance))[:, None] @ x)[:, 0]
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        found += np.clip(step, -3.0, 3.0)
        if np.abs(step).max() < 1e-10:
            break
    moving = np.abs(step[:, -SLOPES:]).max(axis=1) > STILL
    return found, hessian, moving | (np.abs(found[:, -SLOPES:]).max(axis=1) > FAR)


def linear(y: NDArray, x: NDArray, used: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """The same of a linear model."""
    hessian = square(x, used) + 1e-9 * np.eye(x.shape[2])
    found = np.linalg.solve(hessian, ((used * y)[:, None] @ x)[:, 0][..., None])[..., 0]
    return found, hessian, np.zeros(len(x), dtype=bool)


def square(x: NDArray, weights: NDArray) -> NDArray:
    """Sums of products of columns, shape (R, k, k)."""
    return np.swapaxes(x * weights[..., None], 1, 2) @ x


def batch(x: NDArray, t: NDArray, y: NDArray, estimator: str, *, binary: bool) -> Batch:
    """Estimates over runs.

    Args:
        x: What is adjusted for, with an indicator of every site, shape (R, n, k).
        t: Whether a row is treated, shape (R, n).
        y: Outcome, likewise.
        estimator: ``aipw``, ``ipw`` or ``regression``.
        binary: Whether the outcome has two categories.
    """
    gamma, treated, astray = logistic(t, x, np.ones_like(t))
    chance = 1.0 / (1.0 + np.exp(-(x @ gamma[..., None])[..., 0]))
    cut = ((chance < TRUNCATED) | (chance > 1.0 - TRUNCATED)).mean(axis=1) > MOST_CUT
    refused = astray & (estimator != "regression")
    refused |= cut & (estimator == "ipw")
    means, moved, worth = [], [], []
    for arm in (0, 1):
        used, own = (t, chance) if arm else (1.0 - t, 1.0 - chance)
        kept = np.clip(own, TRUNCATED, 1.0 - TRUNCATED)
        weight = used / kept
        slope = -weight * (kept == own) * (1.0 - own) * (1.0 if arm else -1.0)
        size = weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1)
        if estimator == "ipw":
            divisor = weight.sum(axis=1)
            mean = (weight * y).sum(axis=1) / divisor
            psi, by_t = weight * (y - mean[:, None]), slope * (y - mean[:, None])
        else:
            weight, slope = (weight, slope) if estimator == "aipw" else (0.0 * own, 0.0 * own)
            size = size if estimator == "aipw" else used.sum(axis=1) / 2.0
            fitted, change, square_of, astray = outcome(y, x, used, binary=binary)
            refused |= astray
            mean, divisor = (fitted + weight * (y - fitted)).mean(axis=1), x.shape[1]
            by_t = slope * (y - fitted)
            of_y = (((1.0 - weight) * change)[:, None] @ x)[:, 0]
            pull = used * (x @ np.linalg.solve(square_of, of_y[..., None]))[..., 0] + weight
            share = change * used * ((x @ np.linalg.inv(square_of)) * x).sum(axis=2)
            residual = (y - fitted) / (1.0 - np.minimum(share, LARGEST_SHARE))
            psi = fitted - mean[:, None] + residual * pull
        if estimator != "regression":
            scores = np.linalg.solve(treated, (by_t[:, None] @ x)[:, 0][..., None])
            psi = psi + (t - chance) * (x @ scores)[..., 0]
        means.append(mean)
        moved.append((psi.T / divisor).T)
        worth.append(size * 2.0 * np.minimum(mean, 1.0 - mean) if binary else size)
    both = np.stack(moved, axis=1)
    worth = np.stack(worth, axis=1)
    refused |= worth.min(axis=1) - x.shape[2] < FEWEST_SPARE
    return Batch(np.stack(means, axis=1), both @ np.swapaxes(both, 1, 2), worth, refused)


def outcome(y: NDArray, x: NDArray, used: NDArray, *, binary: bool) -> tuple[NDArray, ...]:
    """What is fitted, how that changes with its linear part, minus the Hessian, and a doubt."""
    beta, hessian, astray = (logistic if binary else linear)(y, x, used)
    fitted = (x @ beta[..., None])[..., 0]
    if not binary:
        return fitted, np.ones_like(fitted), hessian, astray
    fitted = 1.0 / (1.0 + np.exp(-np.clip(fitted, -40, 40)))
    return fitted, fitted * (1.0 - fitted), hessian, astray


def one_line(x: NDArray, t: NDArray, y: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """The coefficient of the treatment by least squares, as `Batch.intervals` has differences."""
    from scipy import stats

    x = np.concatenate([x, t[..., None]], axis=2)
    beta, hessian, _ = linear(y, x, np.ones_like(t))
    inverse = np.linalg.inv(hessian)
    share = ((x @ inverse) * x).sum(axis=2)
    residual = (y - (x @ beta[..., None])[..., 0]) / (1.0 - np.minimum(share, LARGEST_SHARE))
    errors = np.sqrt((((x @ inverse[:, :, -1:])[..., 0] * residual) ** 2).sum(axis=1))
    freedom = x.shape[1] - x.shape[2]
    return beta[:, -1], errors, errors * stats.t.ppf(0.975, freedom)
