"""P-values of partial correlations, their adjustment for multiple tests, and normal scores.

Partial correlations follow from second moments: sites use the moments of their rows, and a
coordinator those summed over the sites; both compute the same by the same functions.

Sources: Fisher, Metron 1 (1921) 3-32; Kalisch and Buehlmann, JMLR 8 (2007), section 2.2.2; Wilson
and Hilferty, PNAS 17 (1931) 684-688: the cube root of a chi-square variate by its degrees of
freedom is nearly normal (unlike p-values, scores of strong dependences do not underflow); Holm,
Scandinavian Journal of Statistics 6 (1979) 65-70; Benjamini and Hochberg, JRSS B 57 (1995) 289-300.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.statistics.array_functions import Array, floats, functions_of

WIDTH = 1.959963984540054  # half of a 95 % interval, in standard deviations
Correction = Literal["holm", "benjamini-hochberg"]
# A variable of which less than this share of the variance is left is a linear combination of the
# conditioning set: rounding, about 1e-16, would decide the correlation of the rest.
PIVOT_TOLERANCE = 1e-10
LARGEST_CORRELATION = float(np.nextafter(1.0, 0.0))


def normal_scores(statistic: FloatVector, dof: FloatVector) -> FloatVector:
    """Compute normal scores of chi-squares, shape (B,), at least 0; 0 where dof is 0."""
    informed = dof > 0
    freedom = np.where(informed, dof, 1.0)
    root = np.cbrt(np.maximum(statistic, 0.0) / freedom)
    score = (root - (1.0 - 2.0 / (9.0 * freedom))) / np.sqrt(2.0 / (9.0 * freedom))
    return np.where(informed, np.maximum(score, 0.0), 0.0)


def corrected(p_values: FloatVector, by: Correction, among: int = 0) -> FloatVector:
    """Adjust p-values for multiple tests, shape (n,).

    A test that was not done has NaN, keeps it, and is not counted. ``holm`` bounds the family-wise
    error rate under any dependence between the tests; ``benjamini-hochberg`` the false discovery
    rate of independent tests. If selected from ``among`` tests, the others are not rejected.
    """
    adjusted = np.full(len(p_values), np.nan)
    done = np.flatnonzero(~np.isnan(p_values))
    order = done[np.argsort(p_values[done], kind="stable")]
    ranks, count = np.arange(len(order), dtype=np.float64), max(len(order), among)
    if by == "holm":
        raised = np.maximum.accumulate(p_values[order] * (count - ranks))
    else:
        scaled = p_values[order] * (count / (ranks + 1.0))
        raised = np.minimum.accumulate(scaled[::-1])[::-1]
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted


@dataclass(frozen=True, slots=True)
class FisherZ:
    """A `FisherZ` holds two-sided p-values, sqrt(n - |S| - 3) atanh(r), and r, shape (B,) each.

    They are NaN where no test was done, and r lies strictly within -1 and 1.
    """

    p_value: FloatVector
    statistic: FloatVector
    correlation: FloatVector


def fisher_z(correlation: FloatVector, rows: IndexArray, size: int) -> FisherZ:
    """Test correlations, (B,), by Fisher's z, except where rows - size - 3 <= 0 or they are NaN."""
    from scipy.special import erfc

    spread = rows - size - 3
    done = spread > 0
    r = np.where(done, np.clip(correlation, -LARGEST_CORRELATION, LARGEST_CORRELATION), np.nan)
    statistic = np.sqrt(np.where(done, spread, 1)) * np.arctanh(r)
    return FisherZ(erfc(np.abs(statistic) / np.sqrt(2.0)), statistic, r)


def partial_correlation(entries: Array) -> Array:
    """Compute partial correlations of the last two variables given the others, (B,) of (k, k, B).

    They lie in [-1, 1] up to rounding; NaN where a pivot is at most `PIVOT_TOLERANCE`.
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
    """Scale centred second moments (G, k, k) to correlations; NaN at constant columns."""
    xp, diagonal = functions_of(moments), np.arange(moments.shape[1])
    squares = moments[:, diagonal, diagonal]
    varies = squares > rows[:, None] * least_deviation**2
    deviation = xp.sqrt(xp.where(varies, squares, np.nan))
    matrices = xp.clip(moments / (deviation[:, :, None] * deviation[:, None, :]), -1.0, 1.0)
    matrices[:, diagonal, diagonal] = floats(xp.where(varies, 1.0, np.nan))
    return matrices
