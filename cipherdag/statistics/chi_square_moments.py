"""Pearson's chi-square of sparse tables, made comparable to a chi-square by its exact moments.

Given the margins and independence, all tables of n rows are known, and with them mean and variance
of Pearson's chi-square. Times (n - 1) / n its mean is the degrees of freedom, however few rows
there are. Its variance is not twice that: less in small tables, and many times as much where
categories are rare.

Sources: Haldane, Biometrika 31 (1940) 346-355; Dawson, Applied Statistics 3 (1954) 222-233;
Satterthwaite, Biometrics Bulletin 2 (1946) 110-114.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.arrays import FloatVector

if TYPE_CHECKING:
    import torch

    Side = tuple[torch.Tensor, torch.Tensor]


LEAST_TAIL = 1e-300
"""Chi-squares of a smaller tail differ as the statistics do."""


def conditional_variances(totals: torch.Tensor, x: Side, y: Side) -> torch.Tensor:
    """Variances of Pearson's chi-square times (n - 1) / n given the margins, as ``totals``.

    Args:
        totals: Rows n of every table, any shape.
        x: How many rows of a table are not empty, and the sum of n / count over these, as
            ``totals`` each.
        y: The same of its columns.
    """
    n = totals.double()
    one, two, three = ((n - less).clamp_(min=1.0) for less in (1.0, 2.0, 3.0))

    def spread(levels: torch.Tensor, shares: torch.Tensor) -> Side:
        """What even margins have, and what uneven ones add."""
        uneven = (shares - levels * levels) / two
        return (levels - 1) * (n - levels) / one - uneven, uneven

    (even_x, uneven_x), (even_y, uneven_y) = spread(*x), spread(*y)
    even = even_x * even_y * (2.0 * one * one / (n.clamp(min=1.0) * three))
    return even + uneven_x * uneven_y * (n - 1.0)


def moment_matched(statistic: FloatVector, dof: FloatVector, variance: FloatVector) -> FloatVector:
    """The chi-square with ``dof`` degrees of freedom that is as unlikely, shape (B,).

    A statistic whose variance is not 2 dof is compared to a multiple of a chi-square that has its
    moments, of 2 dof at most. With a larger variance the less significant of this and of the usual
    comparison counts: most rare counts are 0, where a multiple of a chi-square has its peak, and
    sums of many such statistics would be too large.

    Args:
        statistic: Statistics of mean ``dof``, shape (B,).
        dof: Degrees of freedom, shape (B,).
        variance: Variances of the statistics, shape (B,).
    """
    half = np.maximum(dof, 1.0) / 2.0
    # 2 dof² / variance over two, at most dof: above twice the usual one is for single rows
    shape = 2.0 * half * half / np.maximum(variance / 2.0, half)
    # with a larger variance no tail up to the mean is above the usual one
    moved = np.flatnonzero((dof > 0) & ((shape > half) | (statistic > dof)))
    found = statistic.copy()
    found[moved] = 2.0 * _as_unlikely(statistic[moved] / 2.0, half[moved], shape[moved])
    return found


def _as_unlikely(value: FloatVector, half: FloatVector, shape: FloatVector) -> FloatVector:
    """Gamma variates of shape ``half`` for such of other shapes and the same mean, shape (B,)."""
    from scipy.special import gammaincc, gammainccinv

    ratio = shape / half
    tail = gammaincc(shape, value * ratio)
    far = np.flatnonzero(tail < LEAST_TAIL)
    beyond = np.zeros(len(value))
    beyond[far] = value[far] - gammainccinv(shape[far], LEAST_TAIL) / ratio[far]
    found = gammainccinv(half, np.maximum(tail, LEAST_TAIL)) + beyond
    return np.where(ratio < 1.0, np.minimum(found, value), found)
