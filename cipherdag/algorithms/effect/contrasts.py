"""From means of arms and their covariances to effects on several scales, with intervals.

Source: the delta method, on logarithms for ratios (Agresti, Categorical Data Analysis, 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.findings.effect import Contrast, Scale
from cipherdag.statistics.reproducible import dot, exponential_of, logarithm_of

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


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """How far k estimates may be off.

    Attributes:
        covariance: Shape (k, k).
        worth: Of how many rows' squares each variance is as certain, shape (k,).
        spare: These less the coefficients that they determine, shape (k,).
    """

    covariance: FloatMatrix
    worth: FloatVector
    spare: FloatVector

    def error(self, weights: FloatVector) -> float:
        """The standard error of a weighted sum of estimates."""
        return _root(weights, self.covariance)

    def width(self, weights: FloatVector) -> float:
        """How far the interval of a weighted sum reaches on either side.

        Variances of few rows are taken larger, by rows over spare ones, and have Student's t with
        degrees of freedom as Satterthwaite has them (Biometrics Bulletin 2 (1946) 110-114).
        """
        larger = np.sqrt(self.worth / self.spare)
        covariance = self.covariance * larger[:, None] * larger
        parts = (weights * weights * covariance.diagonal()).tolist()
        rows = zip(parts, self.spare.tolist(), strict=True)
        below, whole = math.fsum(own * own / spare for own, spare in rows), math.fsum(parts)
        spare = whole * whole / below if below > 0.0 else math.inf
        return quantile(spare) * _root(weights, covariance)


def differences(
    values: FloatVector, uncertainty: Uncertainty, reference: int | None
) -> Iterator[Contrast]:
    """Every arm less the reference; of coefficients, where there is none, each by itself."""
    for arm in range(len(values)):
        if arm == reference:
            continue
        weights = np.zeros(len(values))
        weights[arm] = 1.0
        if reference is not None:
            weights[reference] = -1.0
        change, width = dot(weights, values), uncertainty.width(weights)
        yield Contrast(
            arm=None if reference is None else arm, scale="difference",
            estimate=change, error=uncertainty.error(weights),
            low=change - width, high=change + width,
        )  # fmt: skip


def ratios(values: FloatVector, uncertainty: Uncertainty, reference: int) -> Iterator[Contrast]:
    """Ratios of shares and of odds against the reference; none where a share is 0 or 1."""
    inside = [0.0 < value < 1.0 for value in values.tolist()]
    scales: tuple[Scale, ...] = ("ratio", "odds ratio")
    for scale in scales:
        for arm in range(len(values)):
            if arm != reference and inside[arm] and inside[reference]:
                yield _ratio(scale, values, uncertainty, arm, reference)


def _ratio(
    scale: Scale, values: FloatVector, uncertainty: Uncertainty, arm: int, reference: int
) -> Contrast:
    """By the delta method, on the logarithm."""
    change, weights = 0.0, np.zeros(len(values))
    for own, sign in ((arm, 1.0), (reference, -1.0)):
        share = float(values[own])
        odds = 1.0 - share if scale == "odds ratio" else 1.0
        change += sign * logarithm_of(share / odds)
        weights[own] = sign / (share * odds)
    error, width = uncertainty.error(weights), uncertainty.width(weights)
    ends = [exponential_of(change + own * width) for own in (0.0, -1.0, 1.0)]
    return Contrast(arm=arm, scale=scale, estimate=ends[0], error=error, low=ends[1], high=ends[2])


def _root(weights: FloatVector, covariance: FloatMatrix) -> float:
    """The root of a weighted sum's variance."""
    moved = [dot(weights, row) for row in covariance]
    return math.sqrt(max(dot(weights, np.array(moved)), 0.0))
