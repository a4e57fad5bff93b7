"""What every logistic model at a site shares."""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import FloatArray

FloatMatrix = FloatArray

LARGEST_LOGIT = 2.0**30
"""Only a hostile question asks about larger ones: a row's likelihood stays in an answer's bound."""


PIECE_ROWS = 512
"""Rows of which one thread makes a product of up to 20 columns.

Of more, libraries for matrices share the work among threads. These wait for each other longer than
they compute where other programs hold the processors, and sums depend on how many they are.
"""


def by_pieces(left: FloatMatrix, right: FloatMatrix) -> FloatMatrix:
    """``left @ right.T`` of shapes (a, n) and (b, n), added up over pieces of the n rows."""
    whole = left.shape[1] // PIECE_ROWS * PIECE_ROWS
    found: FloatMatrix = left[:, whole:] @ right[:, whole:].T
    if whole:
        pieces = _pieces(left, whole) @ _pieces(right, whole).swapaxes(1, 2)
        found += pieces.sum(axis=0)
    return found


def linear_parts(coefficients: FloatMatrix, columns: FloatMatrix) -> FloatMatrix:
    """``coefficients @ columns`` of shapes (c, d) and (d, n), made piece by piece."""
    whole = columns.shape[1] // PIECE_ROWS * PIECE_ROWS
    found = np.empty((len(coefficients), columns.shape[1]))
    np.matmul(coefficients, columns[:, whole:], out=found[:, whole:])
    if whole:
        np.matmul(coefficients, _pieces(columns, whole), out=_pieces(found, whole))
    return found


def _pieces(columns: FloatMatrix, whole: int) -> FloatMatrix:
    """The first ``whole`` of n rows as a view of shape (pieces, columns, rows of each)."""
    return columns[:, :whole].reshape(len(columns), -1, PIECE_ROWS).swapaxes(0, 1)


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
    count, columns = chance.shape[1], design.T
    found = np.zeros((count, len(columns), count, len(columns)))
    for first in range(count):
        for second in range(first, count):
            share = float(first == second) - chance[:, second]
            block = by_pieces(columns * (rows * chance[:, first] * share), columns)
            found[first, :, second, :] = block
            found[second, :, first, :] = block.T
    return found
