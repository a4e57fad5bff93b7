"""A site's own constants of a logistic model at their best, by Newton's method.

Coefficients may be asked about at which the rest of the logits differs by thousands, as where a
column separates the categories. The likelihood is then nearly made of straight pieces, on which
Newton's method loses its way. So the rest is first taken a fraction as large, and then doubled step
by step together with the constants, which stay close to the best ones.

Leaks:
    Nothing: the constants stay inside the site.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector

Derivatives = Callable[["FloatVector"], tuple[float, "FloatVector", FloatMatrix]]
"""Log likelihood, gradient and minus the Hessian at some constants."""

NEAR = 8.0
"""Logits that differ by less are no trouble."""
ITERATIONS = 60
CONVERGED = 1e-13
"""Gain of a step, as a share of the likelihood, at which constants are at their best."""
HALVINGS = 30


def best_constants(
    offsets: NDArray[np.float64],
    start: FloatVector,
    derivatives: Callable[[NDArray[np.float64]], Derivatives],
    share: Callable[[FloatVector, FloatVector], float] = lambda _constants, _step: 1.0,
) -> FloatVector:
    """The constants of highest likelihood, shape (c,).

    Args:
        offsets: The rest of the logits, about 0.
        start: Constants that are best without offsets, shape (c,).
        derivatives: Of the likelihood by the constants, for some offsets.
        share: How much of a step at most may be taken from some constants.
    """
    spread = float(np.abs(offsets).max(initial=0.0))
    halved = max(math.ceil(math.log2(spread / NEAR)), 0) if spread > NEAR else 0
    constants = _climb(derivatives(offsets * 0.5**halved), start, share)
    for level in reversed(range(halved)):
        constants = _climb(derivatives(offsets * 0.5**level), 2.0 * constants, share)
    return constants


def _climb(
    derivatives: Derivatives,
    constants: FloatVector,
    share: Callable[[FloatVector, FloatVector], float],
) -> FloatVector:
    value, gradient, information = derivatives(constants)
    for _ in range(ITERATIONS):
        step = np.asarray(np.linalg.lstsq(information, gradient, rcond=None)[0], dtype=np.float64)
        if float(gradient @ step) <= CONVERGED * (1.0 + abs(value)):
            break
        step = step * share(constants, step)
        for _halving in range(HALVINGS):
            moved = derivatives(constants + step)
            if moved[0] >= value:
                constants = constants + step
                value, gradient, information = moved
                break
            step = step / 2.0
        else:
            break
    return constants
