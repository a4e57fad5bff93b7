"""What every multinomial logistic model at a site shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatMatrix = NDArray[np.float64]

LARGEST_LOGIT = 30.0


def information(design: FloatMatrix, chance: FloatMatrix) -> FloatMatrix:
    """Minus the second derivative of the log likelihood by the coefficients.

    Args:
        design: Columns, shape (n, d).
        chance: Of every category but 0, shape (n, c).

    Returns:
        Shape (c, d, c, d).
    """
    count, columns = chance.shape[1], design.shape[1]
    found = np.zeros((count, columns, count, columns))
    for first in range(count):
        for second in range(first, count):
            share = float(first == second) - chance[:, second]
            block = (design * (chance[:, first] * share)[:, None]).T @ design
            found[first, :, second, :] = block
            found[second, :, first, :] = block.T
    return found
