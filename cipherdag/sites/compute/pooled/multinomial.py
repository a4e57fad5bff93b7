"""What every logistic model at a site shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    FloatMatrix = FloatArray

LARGEST_LOGIT = 2.0**30
"""Only a hostile question asks about larger ones: a row's likelihood stays in an answer's bound."""


def bounded_logits(logits: FloatArray) -> FloatArray:
    """The same, of any shape, but for what only a hostile question asks about."""
    if np.abs(logits).max(initial=0.0) <= LARGEST_LOGIT:
        return logits
    return np.clip(np.nan_to_num(logits), -LARGEST_LOGIT, LARGEST_LOGIT)


def information(
    design: FloatMatrix, chance: FloatMatrix, rows: FloatArray | float = 1.0
) -> FloatMatrix:
    """Minus the second derivative of the log likelihood by the coefficients.

    Args:
        design: Columns, shape (n, d).
        chance: Of every category but 0, shape (n, c).
        rows: How often every row is there, shape (n,), or the same for all.

    Returns:
        Shape (c, d, c, d).
    """
    count, columns = chance.shape[1], design.shape[1]
    found = np.zeros((count, columns, count, columns))
    for first in range(count):
        for second in range(first, count):
            share = float(first == second) - chance[:, second]
            block = (design * (rows * chance[:, first] * share)[:, None]).T @ design
            found[first, :, second, :] = block
            found[second, :, first, :] = block.T
    return found
