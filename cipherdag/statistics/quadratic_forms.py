"""d' V^- d and the rank of V for many small covariance matrices at once.

Elimination with the largest remaining variance as pivot: d lies in the range of V, so every
generalised inverse gives the same form (Rao and Mitra, 1971; Goodnight, American Statistician 33
(1979) 149-158). Stopping at a pivot within the tolerance leaves a form of fewer degrees of freedom,
which is chi-square as well.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.questions.encodings import FloatVector, IndexArray

    FloatMatrix = NDArray[np.float64]


def quadratic_forms(
    differences: FloatMatrix, covariances: FloatMatrix, *, tolerance: float
) -> tuple[FloatVector, IndexArray]:
    """The form and the rank of every pair, shape (B,) each.

    Args:
        differences: d, shape (B, k).
        covariances: V, shape (B, k, k).
        tolerance: A pivot that is not larger is 0.
    """
    left, matrix = differences.copy(), covariances.copy()
    every = np.arange(len(left))
    form, rank = np.zeros(len(left)), np.zeros(len(left), dtype=np.int64)
    for _ in range(left.shape[1]):
        variances = np.diagonal(matrix, axis1=1, axis2=2)
        at = variances.argmax(axis=1)
        pivot, own = variances[every, at].copy(), left[every, at]
        there = pivot > tolerance
        if not there.any():
            break
        safe = np.where(there, pivot, 1.0)
        form += np.where(there, own * own / safe, 0.0)
        rank += there
        row = matrix[every, at]
        factor = np.where(there[:, None], row / safe[:, None], 0.0)
        left -= factor * own[:, None]
        matrix -= factor[:, :, None] * row[:, None, :]
        matrix[every[there], at[there], at[there]] = 0.0
    return form, rank


def kronecker_matrices(values: FloatMatrix, a: int, b: int) -> FloatMatrix:
    """Sums of Kronecker products of symmetric matrices, shape (B, ab, ab).

    Args:
        values: Their distinct entries: of every entry of the first's upper triangle, row by row,
            those of the second's, shape (B, a (a + 1) / 2 * b (b + 1) / 2).
        a: Side of the first matrices.
        b: Side of the second.
    """
    place = _places(a)[:, None, :, None] * (b * (b + 1) // 2) + _places(b)[None, :, None, :]
    return values[:, place.reshape(a * b, a * b)]


def _places(side: int) -> IndexArray:
    """Where every entry of a symmetric matrix stands among those of its upper triangle."""
    places = np.zeros((side, side), dtype=np.int64)
    rows, columns = np.triu_indices(side)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return places
