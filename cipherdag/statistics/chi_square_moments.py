"""A weighted sum of squares measures how far a table lies from independence, by two exact moments.

`table_forms` goes cell by cell, where no covariance is inverted. U is by how much a cell differs
from what its margins make expected, V its variance given them; both are sums over strata, and so is
what is expected, E. Of T = sum U^2 / e, with weights e = max(E, 1), the mean given the margins is
sum V / e, whatever the table. The covariances of all cells are at most diag(E) (those of one
stratum are n (diag p - pp') x (diag q - qq'), those of a sum their sum), so that T varies by at
most 2 sum V E / e^2, and by sum V / e^2 more where counts are rare, whose fourth cumulant is that
of Poisson counts. A chi-square of these two moments is T's distribution. Of a single table of many
rows T is Pearson's chi-square, of a cell U^2 / V.

Source: Satterthwaite, Biometrics Bulletin 2 (1946) 110-114.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.statistics.array_functions import Array, at_least, full

LEAST_EXPECTED = 1.0
"""Rows by which the square of a cell is divided at least: rare ones are not all of the sum."""


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
