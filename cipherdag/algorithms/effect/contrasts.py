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


def differences(
    values: FloatVector, covariance: FloatMatrix, reference: int | None
) -> Iterator[Contrast]:
    """Every arm less the reference; of coefficients, where there is none, each by itself."""
    for arm in range(len(values)):
        if arm == reference:
            continue
        weights = np.zeros(len(values))
        weights[arm] = 1.0
        if reference is not None:
            weights[reference] = -1.0
        error = _error(weights, covariance)
        change = dot(weights, values)
        low, high = change - QUANTILE * error, change + QUANTILE * error
        yield Contrast(
            arm=None if reference is None else arm,
            scale="difference", estimate=change, error=error, low=low, high=high,
        )  # fmt: skip


def ratios(values: FloatVector, covariance: FloatMatrix, reference: int) -> Iterator[Contrast]:
    """Ratios of shares and of odds against the reference; none where a share is 0 or 1."""
    inside = [0.0 < value < 1.0 for value in values.tolist()]
    scales: tuple[Scale, ...] = ("ratio", "odds ratio")
    for scale in scales:
        for arm in range(len(values)):
            if arm != reference and inside[arm] and inside[reference]:
                yield _ratio(scale, values, covariance, arm, reference)


def _ratio(
    scale: Scale, values: FloatVector, covariance: FloatMatrix, arm: int, reference: int
) -> Contrast:
    """By the delta method, on the logarithm."""
    change, weights = 0.0, np.zeros(len(values))
    for own, sign in ((arm, 1.0), (reference, -1.0)):
        share = float(values[own])
        odds = 1.0 - share if scale == "odds ratio" else 1.0
        change += sign * logarithm_of(share / odds)
        weights[own] = sign / (share * odds)
    error = _error(weights, covariance)
    ends = [exponential_of(change + own * QUANTILE * error) for own in (0.0, -1.0, 1.0)]
    return Contrast(arm=arm, scale=scale, estimate=ends[0], error=error, low=ends[1], high=ends[2])


def _error(weights: FloatVector, covariance: FloatMatrix) -> float:
    """The standard error of a weighted sum of estimates."""
    moved = [dot(weights, row) for row in covariance]
    return math.sqrt(max(dot(weights, np.array(moved)), 0.0))
