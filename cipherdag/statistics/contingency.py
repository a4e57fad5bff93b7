"""Contingency tables are tested in batches by G2 or by Pearson's chi-square of their margins.

Sites test tables of their rows, and a coordinator tables summed over the sites, by the same
functions, so that both compute the same to the last bit. Statistics are summed as fixed-point
integers, whose sum does not depend on its order.

`table_forms` measures how far a table, or a sum over strata, lies from independence, by two exact
moments, cell by cell, where no covariance is inverted. U is by how much a cell differs from what
its margins make expected, V its variance given them, and E what is expected, each summed over
strata. Of T = sum U^2 / e, with weights e = max(E, 1), the mean given the margins is sum V / e,
whatever the table. The covariances of all cells are at most diag(E) (those of one stratum are
n (diag p - pp') x (diag q - qq'), those of a sum their sum), so that T's variance is at most
2 sum V E / e^2, and by sum V / e^2 more where counts are rare, whose fourth cumulant is that of
Poisson counts. A scaled chi-square of these two moments approximates T. Of a single table of many
rows T is Pearson's chi-square, of a cell U^2 / V.

Source: Satterthwaite, Biometrics Bulletin 2 (1946) 110-114, for the chi-square of two moments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.statistics.array_functions import (
    Array,
    at_least,
    floats,
    full,
    functions_of,
    host,
    indices,
    like,
)

MOST_TERMS = 2**22
"""Terms of G2 that are cached, 32 MiB; those of larger counts are computed when they occur."""
# measured: one more bucket of tables costs as much as this many empty cells
CELLS_PER_BUCKET = 30_000
LEAST_EXPECTED = 1.0
"""Least divisor of a cell's square, in rows, so that rare cells do not dominate the sum."""


@dataclass(frozen=True, slots=True)
class Margins:
    """A `Margins` object holds sums of B tables over y, over x, and over both, by stratum."""

    x: Array
    y: Array
    slices: Array

    @classmethod
    def of(cls, tables: Array) -> Margins:
        """Compute the margins of tables of shape (configurations, rows, columns, B)."""
        x = tables.sum(axis=2)
        return cls(x=x, y=tables.sum(axis=1), slices=x.sum(axis=1))

    def dof(self) -> Array:
        """Count degrees of freedom without each slice's empty rows and columns, shape (B,)."""
        x_levels = at_least((self.x > 0).sum(axis=1) - 1, 0)
        y_levels = at_least((self.y > 0).sum(axis=1) - 1, 0)
        return (x_levels * y_levels).sum(axis=0)


@dataclass(frozen=True, slots=True)
class SparseTable:
    """A `SparseTable` holds the C non-empty cells of one table and the margins that they lie in.

    ``x_margin``, ``y_margin``, ``slice_total`` are every cell's margins (x, S) and (y, S) and its
    stratum's total, (C,). ``x_margins``, ``y_margins``, ``slice_totals`` have each margin and total
    once; ``x_slices``, ``y_slices`` are the strata of the margins, ascending.
    """

    cells: Array
    x_margin: Array
    y_margin: Array
    slice_total: Array
    x_margins: Array
    y_margins: Array
    slice_totals: Array
    x_slices: Array
    y_slices: Array

    def dof(self) -> int:
        """Count degrees of freedom without the empty rows and columns of every slice."""
        count = functions_of(self.cells).bincount
        return int(((count(self.x_slices) - 1) * (count(self.y_slices) - 1)).sum())


class GSquared:
    """G2 is 2 (sum k ln k - sum r ln r - sum c ln c + sum t ln t) over cells, margins, slices."""

    def __init__(self, n_rows: int, near: Array) -> None:
        (most,) = _k_ln_k(np.array([n_rows])).tolist()
        # four sums, each at most n ln n, stay within 63 bits
        self._unit = 2.0 ** (60 - math.ceil(math.log2(max(most, 1.0))))
        self.scale = self._unit / 2
        counts = np.arange(min(n_rows + 1, MOST_TERMS))
        self._terms = like(self._rounded(counts), near)

    def dense(self, tables: Array, margins: Margins) -> Array:
        """Compute the statistics of tables, (Q, r, c, B), in units of 1 / scale: int64, (B,)."""
        return (self._sum(tables) - self._sum(margins.x) - self._sum(margins.y)) + self._sum(
            margins.slices
        )

    def sparse(self, table: SparseTable) -> int:
        """Compute the statistic of one table."""
        cells, x, y, slices = (
            int(self._of(counts).sum())
            for counts in (table.cells, table.x_margins, table.y_margins, table.slice_totals)
        )
        return cells - x - y + slices

    def _sum(self, counts: Array) -> Array:
        return self._of(counts.reshape(-1)).reshape(-1, counts.shape[-1]).sum(axis=0)

    def _of(self, counts: Array) -> Array:
        """Look up or compute the terms k ln k of counts, shape (C,)."""
        if len(self._terms) < MOST_TERMS:
            return self._terms[counts]
        large = counts >= MOST_TERMS
        terms = self._terms[functions_of(counts).where(large, 0, counts)]
        if bool(large.any()):
            terms[large] = like(self._rounded(host(counts[large])), terms)
        return terms

    def _rounded(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.rint(_k_ln_k(counts) * self._unit).astype(np.int64)


def _k_ln_k(counts: NDArray[np.int64]) -> FloatVector:
    numbers = counts.astype(np.float64)
    return numbers * np.log(np.maximum(numbers, 1.0))


class PearsonChiSquare:
    """Pearson's chi-square is the sum over non-empty cells of k**2 t / (r c), less the rows."""

    def __init__(self, n_rows: int, max_levels: int) -> None:
        # k**2 t / (r c) sums to at most t min(levels) in a slice
        largest = n_rows * min(max(max_levels, 2), max(n_rows, 2))
        self.scale = 2.0 ** (61 - largest.bit_length())

    def dense(self, tables: Array, margins: Margins) -> Array:
        """Compute the statistics of tables, (Q, r, c, B), in units of 1 / scale: int64, (B,)."""
        x, y = margins.x[:, :, None], margins.y[:, None]
        terms = self._terms(tables, x, y, margins.slices[:, None, None])
        return terms.sum(axis=(0, 1, 2)) - margins.slices.sum(axis=0) * int(self.scale)

    def sparse(self, table: SparseTable) -> int:
        """Compute the statistic of one table."""
        terms = self._terms(table.cells, table.x_margin, table.y_margin, table.slice_total)
        return int(terms.sum()) - int(table.cells.sum()) * int(self.scale)

    def _terms(self, cells: Array, x: Array, y: Array, total: Array) -> Array:
        squares = floats(cells)
        squares *= squares
        squares *= total
        squares /= at_least(floats(x) * y, 1.0)
        squares *= self.scale
        return indices(squares.round())


TableStatistic = GSquared | PearsonChiSquare  # each is an integer multiple of ``1 / scale``


def chi_square_tail(statistic: FloatVector, dof: FloatVector) -> FloatVector:
    """Compute the upper tail of the chi-square distribution; 1 without degrees of freedom."""
    # torch.special.gammaincc is off by up to 4e-10
    from scipy.special import erfc, gammaincc

    if (dof == 1).all():  # fifty times as fast
        return np.asarray(erfc(np.sqrt(statistic / 2)))
    return np.where(dof > 0, np.clip(gammaincc(dof / 2, statistic / 2), 0.0, 1.0), 1.0)


@dataclass(frozen=True, slots=True)
class TableShape:
    """A `TableShape` is the common shape of a batch of tables, each padded with empty cells."""

    configurations: int
    rows: int
    columns: int

    @property
    def cells(self) -> int:
        """The number of cells of one table."""
        return self.configurations * self.rows * self.columns

    @classmethod
    def holding(cls, sides: IndexArray) -> TableShape:
        """Return the smallest shape that holds tables of these sides, shape (B, 3)."""
        return cls(*sides.max(axis=0).tolist())


def buckets(sides: IndexArray) -> Iterator[tuple[IndexArray, TableShape]]:
    """Divide tables into buckets of similar shape, few enough and with little padding.

    Of each the indices of its tables in the batch, and the shape that holds them all.
    """
    if not len(sides):
        return
    octave = np.ceil(np.log2(sides)).astype(np.int64) @ np.array([1, 2**5, 2**10])
    order = np.argsort(octave, kind="stable")
    ends = [*(np.flatnonzero(np.diff(octave[order])) + 1).tolist(), len(sides)]
    start = end = 0
    shape = TableShape(0, 0, 0)
    for stop in ends:
        more = TableShape.holding(sides[order[end:stop]])
        both = TableShape.holding(sides[order[start:stop]])
        separate = (end - start) * shape.cells + (stop - end) * more.cells
        if end > start and (stop - start) * both.cells - separate > CELLS_PER_BUCKET:
            yield order[start:end], shape
            start, both = end, more
        end, shape = stop, both
    if end > start:
        yield order[start:end], shape


class TableForms(NamedTuple):
    """A `TableForms` holds T, its mean, 0 where nothing varies, and a variance bound, (B,)."""

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

    Where a side has two categories only the first is given; its ``expected`` counts are times the
    share of the other, so that V is at most E. Each has shape (rows, columns, B).
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
