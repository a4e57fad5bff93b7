"""Exact conditional moments make Pearson's chi-square of sparse tables comparable to a chi-square.

Given the margins and independence, all tables of n rows are known, and with them mean and variance
of Pearson's chi-square. Times (n - 1) / n its mean is the degrees of freedom, however few rows
there are. Its variance is not twice that: less in small tables, and many times as much where
categories are rare.

Sources: Haldane, Biometrika 31 (1940) 346-355; Dawson, Applied Statistics 3 (1954) 222-233;
Satterthwaite, Biometrics Bulletin 2 (1946) 110-114.

`table_forms` measures instead how far a whole table lies from independence, cell by cell, where no
covariance is inverted. U is by how much a cell differs from what its margins make expected, V its
variance given them; both are sums over strata, and so is what is expected, E. Of T = sum U^2 / e,
with weights e = max(E, 1), the mean given the margins is sum V / e, whatever the table. The
covariances of all cells are at most diag(E) (those of one stratum are n (diag p - pp') x (diag q -
qq'), those of a sum their sum), so that T varies by at most 2 sum V E / e^2, and by sum V / e^2
more where counts are rare, whose fourth cumulant is that of Poisson counts. A chi-square of these
two moments is T's distribution (Satterthwaite). Of a single table of many rows T is Pearson's
chi-square, of a cell U^2 / V.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.statistics.array_functions import Array, at_least, floats, full

Side = tuple[Array, Array]

LEAST_TAIL = 1e-300
"""Chi-squares of a smaller tail differ as the statistics do."""
LEAST_EXPECTED = 1.0
"""Rows by which the square of a cell is divided at least: rare ones are not all of the sum."""


def conditional_variances(totals: Array, x: Side, y: Side) -> Array:
    """Compute the variances of Pearson's chi-square times (n - 1) / n, given the margins.

    Args:
        totals: Rows n of every table, any shape.
        x: How many rows of a table are not empty, and the sum of n / count over these, as
            ``totals`` each.
        y: The same of its columns.

    Returns:
        Of the shape of ``totals``.
    """
    n = floats(totals)
    one, two, three = (at_least(n - less, 1.0) for less in (1.0, 2.0, 3.0))

    def spread(levels: Array, shares: Array) -> Side:
        """Separate the variance under even margins from what uneven margins add to it."""
        uneven = (shares - levels * levels) / two
        return (levels - 1) * (n - levels) / one - uneven, uneven

    (even_x, uneven_x), (even_y, uneven_y) = spread(*x), spread(*y)
    even = even_x * even_y * (2.0 * one * one / (at_least(n, 1.0) * three))
    return even + uneven_x * uneven_y * (n - 1.0)


def moment_matched(statistic: FloatVector, dof: FloatVector, variance: FloatVector) -> FloatVector:
    """Map statistics to chi-squares of ``dof`` degrees of freedom with the same tail, shape (B,).

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
    adjusted = np.flatnonzero((dof > 0) & ((shape > half) | (statistic > dof)))
    matched = statistic.copy()
    matched[adjusted] = 2.0 * _same_tail(statistic[adjusted] / 2.0, half[adjusted], shape[adjusted])
    return matched


def _same_tail(value: FloatVector, half: FloatVector, shape: FloatVector) -> FloatVector:
    """Map gamma variates of some shapes to shape ``half``, with the same mean and upper tail."""
    from scipy.special import gammaincc, gammainccinv

    ratio = shape / half
    tail = gammaincc(shape, value * ratio)
    extreme = np.flatnonzero(tail < LEAST_TAIL)
    excess = np.zeros(len(value))
    excess[extreme] = value[extreme] - gammainccinv(shape[extreme], LEAST_TAIL) / ratio[extreme]
    quantile = gammainccinv(half, np.maximum(tail, LEAST_TAIL)) + excess
    return np.where(ratio < 1.0, np.minimum(quantile, value), quantile)


class TableForms(NamedTuple):
    """A `TableForms` holds sums of squares and their first two conditional moments, shape (B,).

    Attributes:
        form: T.
        mean: Its mean; 0 where nothing varies.
        variance: A bound of its variance.
    """

    form: Array
    mean: Array
    variance: Array

    def scaled(self) -> tuple[FloatVector, FloatVector]:
        """Scale T to a chi-square with its moments; return that and its degrees of freedom.

        Both have shape (B,), and are 0 where nothing varies.
        """
        mean = np.where(self.mean > 0.0, self.mean, 1.0)
        relative = self.variance / (mean * mean)
        dof = np.where(self.mean > 0.0, 2.0 / np.where(relative > 0.0, relative, 1.0), 0.0)
        return self.form * dof / mean, dof


def table_forms(differences: Array, variances: Array, expected: Array) -> TableForms:
    """Sum the weighted squares of all cells, and compute the moments of the sums.

    Args:
        differences: U, shape (rows, columns, B); of two categories one alone.
        variances: V, likewise.
        expected: E, likewise; of a side of which one category is given, times its share of the
            other, so that V is at most E.
    """
    weight = at_least(expected, LEAST_EXPECTED)
    share = variances / weight
    terms = (differences * differences / weight, share, share * (2.0 * expected + 1.0) / weight)
    return TableForms(*(_over_cells(term) for term in terms))


def _over_cells(values: Array) -> Array:
    """Sum over rows and columns in an order that does not depend on how many tables there are."""
    total = full(values.shape[2:], 0.0, values)
    for cell in values.reshape(-1, values.shape[2]):
        total += cell
    return total
