"""How far a whole table lies from independence, cell by cell: no covariance is inverted.

U is by how much a cell differs from what its margins make expected, V its variance given them; both
are sums over strata, and so is what is expected, E. Of T = sum U^2 / e, with weights e = max(E, 1),
the mean given the margins is sum V / e, whatever the table. The covariances of all cells are at
most diag(E) (those of one stratum are n (diag p - pp') x (diag q - qq'), those of a sum their sum),
so that T varies by at most 2 sum V E / e^2, and by sum V / e^2 more where counts are rare, whose
fourth cumulant is that of Poisson counts. A chi-square of these two moments is T's distribution
(Satterthwaite). Of a single table of many rows T is Pearson's chi-square, of a cell U^2 / V.

Where sites tell V alone, E follows from it: of one stratum V is proportional to p (1 - p) q (1 - q)
for shares p and q that add up to 1.

A dependence in few cells is seen better by the cell that stands out most, as a count does whose
variance is Poisson's (`largest_cell_p`).

Source: Haldane, Biometrika 31 (1940) 346-355; Satterthwaite, Biometrics Bulletin 2 (1946) 110-114;
Šidák, JASA 62 (1967) 626-633.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.questions.encodings import FloatVector

    FloatArray = NDArray[np.float64]

LEAST_EXPECTED = 1.0
"""Rows by which the square of a cell is divided at least: rare ones are not all of the sum."""
HALVINGS = 40


class TableForms(NamedTuple):
    """Sums of squares, and their first two moments given the margins, shape (B,) each.

    Attributes:
        form: T.
        mean: Its mean; 0 where nothing varies.
        variance: A bound of its variance.
    """

    form: FloatVector
    mean: FloatVector
    variance: FloatVector

    def scaled(self, *, beyond: FloatVector | float = 0.0) -> tuple[FloatVector, FloatVector]:
        """The chi-square that it is, and its degrees of freedom, shape (B,) each; 0 of nothing.

        Args:
            beyond: What is to be added to the squared coefficient of variation.
        """
        mean = np.where(self.mean > 0.0, self.mean, 1.0)
        relative = self.variance / (mean * mean) + beyond
        dof = np.where(self.mean > 0.0, 2.0 / np.where(relative > 0.0, relative, 1.0), 0.0)
        return self.form * dof / mean, dof


def table_forms(differences: FloatArray, variances: FloatArray, expected: FloatArray) -> TableForms:
    """The sum of squares of all cells and its moments.

    Args:
        differences: U, shape (rows, columns, B); of two categories one alone.
        variances: V, likewise.
        expected: E, likewise; of a side of which one category is given, times its share of the
            other, so that V is at most E.
    """
    weight = np.maximum(expected, LEAST_EXPECTED)
    share = variances / weight
    over = (differences * differences / weight, share, share * (2.0 * expected + 1.0) / weight)
    return TableForms(*(_over_cells(own) for own in over))


def _over_cells(values: FloatArray) -> FloatVector:
    """Sums over rows and columns, whose last digit does not depend on how many tables there are."""
    total = np.zeros(values.shape[2])
    for own in values.reshape(-1, values.shape[2]):
        total += own
    return total


def expected_of(variances: FloatArray) -> FloatArray:
    """The expected counts of one stratum with these variances, shape (rows, columns, B)."""
    found = variances
    for axis in (0, 1):
        if variances.shape[axis] > 1:
            others = 1.0 - shares_of(variances.sum(axis=1 - axis))
            found = found / np.expand_dims(others, 1 - axis)
    return found


def shares_of(spreads: FloatArray) -> FloatArray:
    """Shares p that add up to 1, with p (1 - p) proportional to ``spreads``.

    Args:
        spreads: At least 0, shape (k, B), k > 1; of two they are equal, and any shares fit.
    """
    if len(spreads) == 2:  # noqa: PLR2004
        return np.full_like(spreads, 0.5)
    largest = spreads.max(axis=0)
    relative = spreads / np.where(largest > 0.0, largest, 1.0)

    def shares(scale: FloatVector, most: NDArray[np.bool_]) -> FloatArray:
        root = np.sqrt(np.clip(1.0 - scale * relative, 0.0, 1.0))
        return (1.0 + np.where(most, root, -root)) / 2.0

    first = np.arange(len(spreads))[:, None] == spreads.argmax(axis=0)
    # one share beyond a half, where shares up to a half do not come to 1
    beyond = shares(np.ones_like(largest), first).sum(axis=0) < 1.0
    low, high = np.zeros_like(largest), np.ones_like(largest)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        above = shares(middle, first & beyond).sum(axis=0) > 1.0
        up = above == beyond
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return shares((low + high) / 2.0, first & beyond)


def largest_cell_p(differences: FloatArray, variances: FloatArray) -> FloatVector:
    """The p-value of the cell that stands out most among all that vary, shape (B,).

    A cell is compared with a Poisson count of its variance, whose upper tail is the longer one, to
    both sides.

    Args:
        differences: U, shape (rows, columns, B).
        variances: V, likewise; a cell without any does not count.
    """
    from scipy.special import gammainc

    varies = variances > 0.0
    variance = np.where(varies, variances, 1.0)
    tail = np.where(varies, 2.0 * gammainc(variance + np.abs(differences), variance), 1.0)
    least = np.minimum(tail.min(axis=(0, 1)), 1.0)
    cells = np.maximum(varies.sum(axis=(0, 1)), 1)
    with np.errstate(divide="ignore"):
        found: FloatVector = -np.expm1(cells * np.log1p(-least))
    return found
