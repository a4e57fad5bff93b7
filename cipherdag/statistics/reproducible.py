"""Linear algebra with the same bits on every processor.

Every site goes through a plan's program for itself, and asks what it comes to: numbers in questions
have to agree to the last bit. A library's products, factors and logarithms do not: they add in the
order that a processor's vectors suggest. Here are single operations of IEEE 754 in a fixed order.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cipherdag.questions.encodings import FloatVector

FloatMatrix = NDArray[np.float64]

GRID_BITS = 30


def dot(one: FloatVector, other: FloatVector) -> float:
    """The sum of products, each rounded, and once more at the end."""
    return math.fsum((one * other).tolist())


def product(left: FloatMatrix, right: FloatMatrix) -> FloatMatrix:
    """The matrix product, shape (n, k), of (n, m) and (m, k)."""
    total = np.zeros((left.shape[0], right.shape[1]))
    for inner in range(left.shape[1]):
        total += left[:, inner, None] * right[inner]
    return total


def on_grid(numbers: FloatVector, bits: int = GRID_BITS) -> FloatVector:
    """Multiples of 2**-bits: what a library's functions round otherwise elsewhere is gone."""
    return np.asarray(np.ldexp(np.rint(np.ldexp(numbers, bits)), -bits))


def solve(matrix: FloatMatrix, right: FloatVector, *, least: float) -> tuple[FloatVector, int]:
    """A solution of a positive semidefinite system, and the rank.

    By Gauss-Jordan elimination with the largest diagonal element first; it ends where that is not
    above ``least``, and the unknowns that are left are 0.

    Args:
        matrix: Symmetric, with a diagonal of ones or zeros, shape (m, m).
        right: The right-hand side, shape (m,).
        least: What is left of a column that is a linear combination of others.
    """
    matrix, right = matrix.copy(), right.copy()
    left = np.ones(len(right), dtype=bool)
    for rank in range(len(right)):
        pivots = np.where(left, matrix.diagonal(), -np.inf)
        own = int(pivots.argmax())
        if not pivots[own] > least:
            return np.where(left, 0.0, right), rank
        row, value, column = (
            matrix[own] / pivots[own],
            right[own] / pivots[own],
            matrix[:, own].copy(),
        )
        column[own] = 0.0
        matrix -= column[:, None] * row
        right -= column * value
        matrix[own], right[own], left[own] = row, value, False
    return right, len(right)
