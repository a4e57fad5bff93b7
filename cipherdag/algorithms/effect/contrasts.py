"""From means of arms and their covariances to effects on several scales, with intervals.

Source: the delta method, on logarithms for ratios (Agresti, Categorical Data Analysis, 3.1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.findings.effect import Contrast
from cipherdag.statistics.reproducible import dot, exponential_of, logarithm_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cipherdag.findings.effect import Scale
    from cipherdag.questions.question import FloatVector
    from cipherdag.statistics.regression_fits import FloatMatrix

QUANTILE = 1.959963984540054
"""Of the normal distribution, at 97.5 %."""
FEWEST_SPARE = 4.0
"""Degrees of freedom from which the expansion of t's quantile is right to 0.3 %."""


def quantile(spare: float) -> float:
    """Of Student's t with so many degrees of freedom, at 97.5 %.

    Single operations in a fixed order, as every site has to find the same.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    x, near = QUANTILE, 1.0 / max(spare, FEWEST_SPARE)
    square = x * x
    terms = (
        (square + 1.0) / 4.0,
        ((5.0 * square + 16.0) * square + 3.0) / 96.0,
        (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
    )
    return x * (1.0 + near * (terms[0] + near * (terms[1] + near * terms[2])))


def spare_of(weights: FloatVector, variances: FloatVector, spare: FloatVector) -> float:
    """Degrees of freedom of a weighted sum of means (Satterthwaite, Biometrics 2 (1946) 110)."""
    parts = (weights * weights * variances).tolist()
    below = math.fsum(own * own / rows for own, rows in zip(parts, spare.tolist(), strict=True))
    whole = math.fsum(parts)
    return whole * whole / below if below > 0.0 else math.inf


def differences(
    values: FloatVector, covariance: FloatMatrix, reference: int | None, spare: FloatVector
) -> Iterator[Contrast]:
    """Every arm less the reference; of coefficients, where there is none, each by itself.

    Args:
        values: Means of arms, or coefficients, shape (k,).
        covariance: Shape (k, k).
        reference: The arm that others are compared with; None of a number's coefficient.
        spare: Degrees of freedom of each variance, shape (k,).
    """
    for arm in range(len(values)):
        if arm == reference:
            continue
        weights = np.zeros(len(values))
        weights[arm] = 1.0
        if reference is not None:
            weights[reference] = -1.0
        error = _error(weights, covariance)
        change = dot(weights, values)
        width = quantile(spare_of(weights, covariance.diagonal(), spare)) * error
        low, high = change - width, change + width
        yield Contrast(
            arm=None if reference is None else arm,
            scale="difference", estimate=change, error=error, low=low, high=high,
        )  # fmt: skip


def ratios(
    values: FloatVector, covariance: FloatMatrix, reference: int, spare: FloatVector
) -> Iterator[Contrast]:
    """Ratios of shares and of odds against the reference; none where a share is 0 or 1."""
    inside = [0.0 < value < 1.0 for value in values.tolist()]
    scales: tuple[Scale, ...] = ("ratio", "odds ratio")
    for scale in scales:
        for arm in range(len(values)):
            if arm != reference and inside[arm] and inside[reference]:
                yield _ratio(scale, values, covariance, (arm, reference), spare)


def _ratio(
    scale: Scale,
    values: FloatVector,
    covariance: FloatMatrix,
    pair: tuple[int, int],
    spare: FloatVector,
) -> Contrast:
    """By the delta method, on the logarithm."""
    change, weights = 0.0, np.zeros(len(values))
    for own, sign in zip(pair, (1.0, -1.0), strict=True):
        share = float(values[own])
        odds = 1.0 - share if scale == "odds ratio" else 1.0
        change += sign * logarithm_of(share / odds)
        weights[own] = sign / (share * odds)
    error = _error(weights, covariance)
    width = quantile(spare_of(weights, covariance.diagonal(), spare)) * error
    ends = [exponential_of(change + own * width) for own in (0.0, -1.0, 1.0)]
    return Contrast(
        arm=pair[0], scale=scale, estimate=ends[0], error=error, low=ends[1], high=ends[2]
    )


def _error(weights: FloatVector, covariance: FloatMatrix) -> float:
    """The standard error of a weighted sum of estimates."""
    moved = [dot(weights, row) for row in covariance]
    return math.sqrt(max(dot(weights, np.array(moved)), 0.0))
