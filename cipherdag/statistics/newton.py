"""Newton's method with step halving maximises log likelihoods whose derivatives sites add up.

A step that loses value is halved. The ascent ends where the next step gains too little, as a share
of the value, or after 40 steps.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.statistics.reproducible import LEAST_PIVOT, dot, product, solve

STEPS = 40
HALVINGS = 12
ROUNDING = 1e-11  # loss of a step, as a share of the value, that rounding explains
TEST_TOLERANCE = 1e-8
"""Gain, as a share of the value, below which a test needs no further round.

Near a maximum the next gain is the square of it; where categories are separated, a third of it.
"""
ESTIMATE_TOLERANCE = 1e-16
"""Gain for estimates: coefficients err by about 1e-8 standard errors, standard errors by 1e-6."""


@dataclass(slots=True)
class NewtonAscent:
    """A `NewtonAscent` is the state of Newton's method with step halving."""

    coefficients: FloatVector  # the last accepted ones, shape (m,)
    tolerance: float = TEST_TOLERANCE  # gain of a step, as a share of the value, at which it ends
    value: float = -np.inf  # of the function there
    rank: int = 0  # number of directions that the data determine
    information: FloatMatrix | None = None  # minus the last Hessian, where steps are taken
    finished: bool = False  # whether no step is left
    _step: FloatVector | None = None
    _share: float = 1.0
    _largest_share: float = 1.0
    _gain: float = 0.0
    _left: int = STEPS

    @property
    def proposed(self) -> FloatVector:
        """The coefficients at which the next derivatives are needed."""
        if self._step is None:
            return self.coefficients
        return self.coefficients + self._share * self._step

    @property
    def settled(self) -> bool:
        """Whether the next step gains too little, or no step is left."""
        return self._gain <= self.tolerance * (1.0 + abs(self.value)) or self._left == 0

    def loses(self, value: float) -> bool:
        """Return whether a value at `proposed` is below the last one by more than rounding."""
        return value < self.value - ROUNDING * (1.0 + abs(self.value))

    def halves(self, value: float) -> bool:
        """Halve the step if it loses value and was not halved too often; return whether it was."""
        if not (self.loses(value) and self._share > self._largest_share * 0.5**HALVINGS):
            return False
        self._share /= 2.0
        return True

    def shorten(self, share: float) -> None:
        """Begin with this share of the step, before any halving."""
        self._share = self._largest_share = share

    def accept(
        self,
        value: float,
        gradient: FloatVector,
        hessian: FloatMatrix,
        directions: FloatMatrix | None = None,
    ) -> FloatVector:
        """Accept the proposed step; compute and return the next one, along ``directions``."""
        if directions is not None:
            gradient = product(directions.T, gradient[:, None])[:, 0]
            hessian = product(product(directions.T, hessian), directions)
        self.coefficients, self.value, self.information = self.proposed, value, hessian
        step, self.rank = newton_step(hessian, gradient)
        self._gain, self._left = dot(gradient, step) / 2.0, self._left - 1
        self.shorten(1.0)
        self._step = step if directions is None else product(directions, step[:, None])[:, 0]
        return self._step


def newton_step(hessian: FloatMatrix, gradient: FloatVector) -> tuple[FloatVector, int]:
    """Compute Newton's step in the directions that the data determine, and their number."""
    scale = np.sqrt(np.maximum(hessian.diagonal(), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    scaled = hessian / (scale[:, None] * scale)
    step, rank = solve(scaled, gradient / scale, least=LEAST_PIVOT)
    return step / scale, rank


def step_parts(step: FloatVector, count: int) -> tuple[float, FloatVector, FloatMatrix]:
    """Unpack value, gradient, and the symmetric Hessian from what `pack_step` packed."""
    hessian = np.zeros((count, count))
    hessian[_upper(count)] = step[1 + count :]
    return float(step[0]), step[1 : 1 + count], hessian + np.triu(hessian, k=1).T


def pack_step(value: float, gradient: FloatVector, hessian: FloatMatrix) -> FloatVector:
    """Pack value, gradient and the Hessian's upper triangle by rows into one vector."""
    return np.concatenate([[value], gradient, hessian[_upper(len(hessian))]])


def _upper(count: int) -> NDArray[np.bool_]:
    return ~np.tri(count, k=-1, dtype=bool)
