"""Cox models are fitted by Newton's method from derivatives summed over the sites.

With a baseline hazard per site, sites add value, gradient and Hessian of their partial likelihoods.
With one baseline hazard, they add sums over the rows at risk in bins of time, from which
`partial_likelihood` computes the derivatives of all rows together.

Source: Cox, JRSS B 34 (1972) 187-220; ties as in Efron, JASA 72 (1977) 557-565, or Breslow,
Biometrics 30 (1974) 89-99.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector
from cipherdag.statistics.newton import (
    ESTIMATE_TOLERANCE,
    NewtonAscent,
    newton_step,
    step_parts,
)
from cipherdag.statistics.reproducible import dot, logarithm

LARGEST_LAST_STEP, LARGEST_LOG_RATIO = 0.1, 12.0
"""A last step and a coefficient, in common units, beyond which there is no finite maximum."""


@dataclass(slots=True)
class HazardFit(NewtonAscent):
    """A `HazardFit` is the ascent of the log partial likelihood of a Cox model.

    Attributes:
        null: The log partial likelihood where all coefficients are 0.
        deviations: Standard deviations of the coefficients; 0 where one is not determined.
        separated: Which coefficients have no finite maximum (monotone likelihood), shape (m,).
    """

    tolerance: float = ESTIMATE_TOLERANCE
    null: float = -np.inf
    deviations: FloatVector = field(default_factory=lambda: np.zeros(0))
    separated: BoolVector = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def update(self, value: float, gradient: FloatVector, hessian: FloatMatrix) -> None:
        """Accept the proposed step, or halve it, given the derivatives at `proposed`."""
        if self._step is None:
            self.null = value
        if self.halves(value):
            return
        stalled = self.loses(value)
        step = self.accept(value, gradient, hessian)
        beyond = abs(self.coefficients + step) > LARGEST_LOG_RATIO
        if not (stalled or self.settled or beyond.any()):
            return
        self.separated = beyond | (abs(step) > LARGEST_LAST_STEP)
        if not self.separated.any():
            self.coefficients = self.coefficients + step
            self.value += max(self._gain, 0.0)
        variances = [newton_step(hessian, unit)[0] @ unit for unit in np.eye(len(step))]
        self.deviations = np.sqrt(np.maximum(variances, 0.0))
        self.finished = True


@dataclass(frozen=True, slots=True, eq=False)
class RiskSums:
    """A `RiskSums` holds sums by bin of time of rows with columns x and weights w = exp(x b).

    Attributes:
        events: Rows with the event, shape (B,).
        of_events: Sum of x over all events, shape (m,).
        at_risk: Sums of w, w x and w x x' over the rows at risk, shape (B, step), as `pack_step`
            lays them out.
        tied: The same over the rows with the event, shape (B, step).
    """

    events: FloatVector
    of_events: FloatVector
    at_risk: FloatMatrix
    tied: FloatMatrix


def partial_likelihood(
    sums: RiskSums, coefficients: FloatVector, *, efron: bool
) -> tuple[float, FloatVector, FloatMatrix]:
    """Compute the log partial likelihood of all sites, its gradient, and minus its Hessian."""
    m = len(coefficients)
    value, gradient, hessian = dot(sums.of_events, coefficients), sums.of_events, np.zeros((m, m))
    for events, at_risk, tied in zip(sums.events, sums.at_risk, sums.tied, strict=True):
        if events == 0.0:
            continue
        (s0, s1, s2), (t0, t1, t2) = step_parts(at_risk, m), step_parts(tied, m)
        taken = np.arange(events) / events if efron else np.zeros(int(events))
        inverse = 1.0 / np.maximum(s0 - taken * t0, np.finfo(np.float64).tiny)
        first, second = (_total(inverse * taken**power) for power in (0, 1))
        one, mixed, other = (_total(inverse**2 * taken**power) for power in (0, 1, 2))
        value += _total(logarithm(inverse))
        gradient = gradient - (first * s1 - second * t1)
        across = s1[:, None] * t1
        outer = one * s1[:, None] * s1 - mixed * (across + across.T) + other * t1[:, None] * t1
        hessian = hessian + (first * s2 - second * t2) - outer
    return value, gradient, hessian


def _total(numbers: FloatVector) -> float:
    return math.fsum(numbers.tolist())
