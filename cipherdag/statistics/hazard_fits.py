"""Fitting a Cox model step by step from sums over sites.

With a hazard of each site's own, sites add value, gradient and Hessian of their own partial
likelihoods. With one hazard of all, they add the sums over rows at risk in bins of time, of which
`partial_likelihood` makes the same of all rows together.

Source: Cox, JRSS B 34 (1972) 187-220; ties as in Efron, JASA 72 (1977) 557-565, or Breslow,
Biometrics 30 (1974) 89-99.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector
from cipherdag.statistics.regression_fits import HALVINGS, ROUNDING, STEPS, newton_step, step_parts
from cipherdag.statistics.reproducible import dot, logarithm

CONVERGED = 1e-16
"""Gain of a step, as a share of the likelihood: deviations, taken before the last, to 1e-6."""
LARGEST = 12.0
"""Of a coefficient, in common units: beyond, the likelihood rises without end."""
STILL_MOVING = 0.1
"""Of a coefficient's last move, in common units: at a maximum it is far below."""


@dataclass(slots=True)
class HazardFit:
    """A Cox model on its way to the maximum, of m coefficients.

    Attributes:
        coefficients: The last accepted ones, shape (m,).
        value: Logarithm of the partial likelihood there.
        null: The same where all coefficients are 0.
        deviations: Standard deviations of the coefficients; 0 where one is not determined.
        endless: Of which coefficients the likelihood rises without end, shape (m,).
        rank: How many coefficients the rows determine.
        finished: Whether no step is left.
    """

    coefficients: FloatVector
    value: float = -np.inf
    null: float = -np.inf
    deviations: FloatVector = field(default_factory=lambda: np.zeros(0))
    endless: BoolVector = field(default_factory=lambda: np.zeros(0, dtype=bool))
    rank: int = 0
    finished: bool = False
    _move: FloatVector | None = None
    _share: float = 1.0
    _left: int = STEPS

    @property
    def proposed(self) -> FloatVector:
        """The coefficients to ask about."""
        if self._move is None:
            return self.coefficients
        return self.coefficients + self._share * self._move

    def hear(self, value: float, gradient: FloatVector, hessian: FloatMatrix) -> None:
        """Take in the sums at `proposed`."""
        if self._move is None:
            self.null = value
        elif value < self.value - ROUNDING * (1.0 + abs(self.value)):
            if self._share > 0.5**HALVINGS:
                self._share /= 2.0
                return
            self._left = 1  # as good as it gets
        self.coefficients, self.value, self._left = self.proposed, value, self._left - 1
        move, self.rank = newton_step(hessian, gradient)
        gain = dot(gradient, move) / 2.0
        far = bool((abs(self.coefficients + move) > LARGEST).any())
        if far or gain <= CONVERGED * (1.0 + abs(value)) or self._left == 0:
            self._finish(move, gain, hessian)
        self._move, self._share = move, 1.0

    def _finish(self, move: FloatVector, gain: float, hessian: FloatMatrix) -> None:
        self.endless = (abs(self.coefficients + move) > LARGEST) | (abs(move) > STILL_MOVING)
        if not self.endless.any():
            self.coefficients, self.value = self.coefficients + move, self.value + max(gain, 0.0)
        own = [newton_step(hessian, unit)[0] @ unit for unit in np.eye(len(move))]
        self.deviations = np.sqrt(np.maximum(own, 0.0))
        self.finished = True


@dataclass(frozen=True, slots=True, eq=False)
class RiskSums:
    """Sums by bin of time over all sites, of rows with weights w = exp(x b) and columns x.

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
    """Logarithm of the partial likelihood, its gradient, and minus its Hessian."""
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
