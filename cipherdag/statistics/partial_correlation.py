"""Fisher's z tests partial correlations, which are computed from second moments.

Sites use the moments of their rows, and a coordinator those summed over the sites; both compute
the same by the same functions.

Source: Fisher, Metron 1 (1921) 3-32; Kalisch and Buehlmann, JMLR 8 (2007), section 2.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.statistics.array_functions import Array, floats, functions_of

# A variable of which less than this share of the variance is left is a linear combination of the
# conditioning set: rounding, about 1e-16, would decide the correlation of the rest.
PIVOT_TOLERANCE = 1e-10
LARGEST_CORRELATION = float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True, slots=True)
class FisherZ:
    """A `FisherZ` holds the tests of B partial correlations, shape (B,) each; NaN where not done.

    Attributes:
        p_value: The two-sided p-value under the normal distribution.
        statistic: sqrt(n - |S| - 3) atanh(r).
        correlation: r, the partial correlation, strictly within -1 and 1.
    """

    p_value: FloatVector
    statistic: FloatVector
    correlation: FloatVector


def fisher_z(correlation: FloatVector, rows: IndexArray, size: int) -> FisherZ:
    """Test correlations by Fisher's z, except where rows - size - 3 <= 0 or they are NaN.

    Args:
        correlation: Partial correlations, shape (B,).
        rows: Rows behind each, shape (B,).
        size: Size of the conditioning sets.
    """
    from scipy.special import erfc

    spread = rows - size - 3
    done = spread > 0
    r = np.where(done, np.clip(correlation, -LARGEST_CORRELATION, LARGEST_CORRELATION), np.nan)
    statistic = np.sqrt(np.where(done, spread, 1)) * np.arctanh(r)
    return FisherZ(erfc(np.abs(statistic) / np.sqrt(2.0)), statistic, r)


def partial_correlation(entries: Array) -> Array:
    """Compute the partial correlation of the last two variables given the others, shape (B,).

    Args:
        entries: Correlation matrices with the batch last, shape (k, k, B).

    Returns:
        Partial correlations in [-1, 1] up to rounding; NaN where a pivot is at most
        `PIVOT_TOLERANCE`.
    """
    xp = functions_of(entries)
    smallest = xp.ones_like(entries[0, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(len(entries) - 2):
            pivot, row = entries[0, 0], entries[0, 1:]
            smallest = xp.minimum(smallest, pivot)
            entries = entries[1:, 1:] - row[:, None] * (row / pivot)
        smallest = xp.minimum(smallest, xp.minimum(entries[0, 0], entries[1, 1]))
        correlation = entries[0, 1] / xp.sqrt(entries[0, 0] * entries[1, 1])
    return xp.where(smallest > PIVOT_TOLERANCE, correlation, np.nan)


def correlation_matrices(moments: Array, rows: Array, *, least_deviation: float) -> Array:
    """Scale centred second moments (G, k, k) to correlations; NaN at constant columns.

    Args:
        moments: Sums over the rows of products of deviations, shape (G, k, k).
        rows: Rows behind each matrix, shape (G,).
        least_deviation: A column whose standard deviation is not larger is constant.
    """
    xp, diagonal = functions_of(moments), np.arange(moments.shape[1])
    squares = moments[:, diagonal, diagonal]
    varies = squares > rows[:, None] * least_deviation**2
    deviation = xp.sqrt(xp.where(varies, squares, np.nan))
    matrices = xp.clip(moments / (deviation[:, :, None] * deviation[:, None, :]), -1.0, 1.0)
    matrices[:, diagonal, diagonal] = floats(xp.where(varies, 1.0, np.nan))
    return matrices
