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
TRUNCATED = 0.01


@dataclass(frozen=True, slots=True)
class Batch:
    """Means of both arms in R runs.

    Attributes:
        means: Shape (R, 2).
        covariance: By the sandwich of the stacked functions, shape (R, 2, 2).
        worth: Rows of the arms, or of how many equal weights theirs are worth, shape (R, 2).
        astray: Whether a model of a category has no finite maximum, shape (R,).
    """

    means: NDArray
    covariance: NDArray
    worth: NDArray
    astray: NDArray


def logistic(y: NDArray, x: NDArray, used: NDArray) -> tuple[NDArray, NDArray]:
    """Coefficients, shape (R, k), of y (R, n) on x (R, n, k) over some rows, and minus Hessians."""
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
    return found, hessian


def linear(y: NDArray, x: NDArray, used: NDArray) -> tuple[NDArray, NDArray]:
    """The same of a linear model."""
    hessian = square(x, used) + 1e-9 * np.eye(x.shape[2])
    return np.linalg.solve(hessian, ((used * y)[:, None] @ x)[:, 0][..., None])[..., 0], hessian


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
    gamma, treated = logistic(t, x, np.ones_like(t))
    chance = 1.0 / (1.0 + np.exp(-(x @ gamma[..., None])[..., 0]))
    astray = np.abs(gamma).max(axis=1) > 15.0
    means, moved, worth = [], [], []
    for arm in (0, 1):
        used, own = (t, chance) if arm else (1.0 - t, 1.0 - chance)
        kept = np.clip(own, TRUNCATED, 1.0 - TRUNCATED)
        weight = used / kept
        slope = -weight * (kept == own) * (1.0 - own) * (1.0 if arm else -1.0)
        beta, outcome = (logistic if binary else linear)(y, x, used)
        fitted = (x @ beta[..., None])[..., 0]
        change = np.ones_like(fitted)
        if binary:
            fitted = 1.0 / (1.0 + np.exp(-np.clip(fitted, -40, 40)))
            change = fitted * (1.0 - fitted)
            astray |= np.abs(beta).max(axis=1) > 12.0
        if estimator == "ipw":
            mean = (weight * y).sum(axis=1) / weight.sum(axis=1)
            psi = weight * (y - mean[:, None])
            divisor = weight.sum(axis=1)
            by_t = slope * (y - mean[:, None])
        else:
            weighted = weight if estimator == "aipw" else np.zeros_like(weight)
            whole = fitted + weighted * (y - fitted)
            mean, divisor = whole.mean(axis=1), np.full(len(x), x.shape[1])
            psi = whole - mean[:, None]
            by_t = slope * (y - fitted)
            of_y = (((1.0 - weighted) * change)[:, None] @ x)[:, 0]
            scores = np.linalg.solve(outcome, of_y[..., None])
            psi = psi + used * (y - fitted) * (x @ scores)[..., 0]
        if estimator != "regression":
            scores = np.linalg.solve(treated, (by_t[:, None] @ x)[:, 0][..., None])
            psi = psi + (t - chance) * (x @ scores)[..., 0]
        means.append(mean)
        moved.append(psi / divisor[:, None])
        sizes = used.sum(axis=1) if estimator == "regression" else (
            weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1)
        )
        worth.append(sizes)
    both = np.stack(moved, axis=1)
    return Batch(
        np.stack(means, axis=1), both @ np.swapaxes(both, 1, 2), np.stack(worth, axis=1), astray
    )
