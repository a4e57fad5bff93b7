"""d' V^- d and the rank of V for many small covariance matrices at once.

Elimination with the largest remaining variance as pivot: d lies in the range of V, so every
generalised inverse gives the same form (Rao and Mitra, 1971; Goodnight, American Statistician 33
(1979) 149-158). Stopping at a pivot within the tolerance leaves a form of fewer degrees of freedom,
which is chi-square as well.

Of rare counts d is no normal variate: where one of them has the variance v of a Poisson variate,
its square over v has a variance of 2 + 1 / v. What this is beyond 2 is told by the pivots: 1 / v
each, with their geometric mean for v, since the determinant, unlike the pivots, is the same
whichever category of a table is left out.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.questions.encodings import FloatVector, IndexArray

    FloatMatrix = NDArray[np.float64]


def quadratic_forms(
    differences: FloatMatrix, covariances: FloatMatrix, *, tolerance: float
) -> tuple[FloatVector, IndexArray, FloatVector]:
    """The form, the rank, and what rare counts add to the form's variance, shape (B,) each.

    Args:
        differences: d, shape (B, k).
        covariances: V, shape (B, k, k).
        tolerance: A pivot that is not larger is 0.
    """
    # the batch comes last, where numpy's inner loops run
    left, matrix = differences.T.copy(), np.moveaxis(covariances, 0, 2).copy()
    side, every = np.arange(len(left)), np.arange(left.shape[1])
    form, rank = np.zeros(len(every)), np.zeros(len(every), dtype=np.int64)
    volume = np.zeros(len(every))
    for left_over in side[::-1].tolist():
        variances = matrix[side, side]
        at = variances.argmax(axis=0)
        pivot, own = variances[at, every], left[at, every]
        there = pivot > tolerance
        if not there.any():
            break
        safe = np.where(there, pivot, 1.0)
        form += np.where(there, own * own / safe, 0.0)
        rank += there
        volume += np.log(safe)
        if not left_over:
            break
        row = np.take_along_axis(matrix, at[None, None], axis=0)[0]
        factor = np.where(there, row / safe, 0.0)
        left -= factor * own
        matrix -= factor[:, None] * row[None]
        matrix[at[there], at[there], every[there]] = 0.0
    ranks = rank.astype(np.float64)
    return form, rank, ranks * np.exp(-volume / np.maximum(ranks, 1.0))


def chi_square_scale(rank: FloatVector | IndexArray, rare: FloatVector) -> FloatVector:
    """By what a form and its rank are multiplied to have a chi-square's mean and variance.

    Source: Satterthwaite, Biometrics Bulletin 2 (1946) 110-114.

    Args:
        rank: Degrees of freedom, shape (B,).
        rare: What rare counts add to the variance, shape (B,).
    """
    scale: FloatVector = 1.0 / (1.0 + 0.5 * rare / np.maximum(rank, 1.0))
    return scale


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


def upper_triangle(side: int) -> tuple[IndexArray, IndexArray]:
    """Rows and columns of a matrix's upper triangle, row by row; faster than numpy's."""
    rows, columns = np.array([*combinations_with_replacement(range(side), 2)]).reshape(-1, 2).T
    return rows, columns


def _places(side: int) -> IndexArray:
    """Where every entry of a symmetric matrix stands among those of its upper triangle."""
    places = np.zeros((side, side), dtype=np.int64)
    rows, columns = upper_triangle(side)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return places
