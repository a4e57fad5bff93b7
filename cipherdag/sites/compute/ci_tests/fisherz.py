"""Fisher's z tests for zero partial correlations of continuous variables, in batches.

The conditioning variables are eliminated one after the other from every test's correlation
matrix, by elementwise operations over the whole batch. An outcome therefore does not depend on
the other tests of its batch or on how much memory there is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.sites.compute.ci_tests.ci_test import (
    CachedCITest,
    ColumnData,
    TestBatch,
    check_numbers,
    computes,
    half,
    not_done,
)
from cipherdag.sites.compute.device import (
    DEFAULT_MEMORY,
    IN_CACHE,
    ROW_BLOCK,
    Device,
    batch_bytes,
    most_elements,
    placed,
    resolve_device,
)
from cipherdag.statistics.array_functions import (
    Array,
    at_least,
    floats,
    full,
    functions_of,
    host,
    like,
)
from cipherdag.statistics.outcome_cache import position_keys
from cipherdag.statistics.p_values import correlation_matrices, fisher_z, partial_correlation

BYTES_PER_ELEMENT = 40
# A column is constant if its deviation is within this many roundings of its largest value.
LEAST_DEVIATION = 64.0 * float(np.finfo(np.float64).eps)
FULL_UP_TO = 4096
"""Columns up to which the full correlation matrix is stored; beyond it its upper triangle is."""
PANEL = 1024
"""Columns whose correlations with all later ones are computed at a time for the triangle."""


@dataclass(frozen=True, slots=True)
class FullMatrices:
    """Correlation matrices of ``side`` rows store every entry, flattened one after another."""

    entries: Array
    side: int

    def among(self, columns: Array, base: Array) -> Array:
        """Gather the correlations among columns, (k, B), from ``base`` on: (k, k, B)."""
        index = columns[:, None] * self.side + (columns + base)
        return self.entries[index]


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """A correlation matrix's diagonal and upper triangle, by rows, flat, (p (p + 1) / 2,).

    ``starts`` has the index of the entry (i, j) less j, for every row i, shape (p,).
    """

    entries: Array
    starts: Array

    def among(self, columns: Array, base: Array) -> Array:
        """Gather the same; there is one matrix only."""
        del base
        xp = functions_of(columns)
        smaller = xp.minimum(columns[:, None], columns)
        index = self.starts[smaller] + xp.maximum(columns[:, None], columns)
        return self.entries[index]


Correlations = FullMatrices | PackedMatrix
"""They give the submatrices that tests need."""


@dataclass(frozen=True, slots=True)
class StandardColumns:
    """A site's raw columns, (n, p), with the scale and origin by which `centred` moves them."""

    values: NDArray[np.float64]
    scale: FloatVector
    origin: FloatVector

    def centred(self, selected: IndexArray) -> Iterator[NDArray[np.float64]]:
        """Yields some columns less their means, a block of rows at a time."""
        mean = np.zeros(len(selected))
        for block in self._blocks(selected):
            mean += block.sum(axis=0) / len(self.values)
        for block in self._blocks(selected):
            yield block - mean

    def _blocks(self, selected: IndexArray) -> Iterator[NDArray[np.float64]]:
        for start in range(0, len(self.values), ROW_BLOCK):
            rows = self.values[start : start + ROW_BLOCK, selected]
            yield rows / self.scale[selected] - self.origin[selected]


def correlations_of(
    columns: StandardColumns, incomplete: BoolVector, device: Device
) -> Correlations:
    """Computes the correlations of complete columns; entries of others are not to be read."""
    complete = np.flatnonzero(~incomplete)
    if len(incomplete) > FULL_UP_TO:
        return _packed(columns, complete, device)
    whole = placed(np.zeros((len(incomplete),) * 2), device)
    moments = full((len(complete),) * 2, 0.0, whole)
    for block in columns.centred(complete):
        centred = placed(block, device)
        moments += centred.T @ centred
    rows = placed(np.array([len(columns.values)]), device)
    positions = placed(complete, device)
    (whole[positions[:, None], positions],) = correlation_matrices(
        moments[None], rows, least_deviation=LEAST_DEVIATION
    )
    return FullMatrices(whole.reshape(-1), len(incomplete))


def _packed(columns: StandardColumns, complete: IndexArray, device: Device) -> PackedMatrix:
    """Computes the upper triangle of the correlation matrix, a panel of columns at a time."""
    side = len(columns.scale)
    row = np.arange(side)
    starts = row * (2 * side - row - 1) // 2
    entries = placed(np.zeros(side * (side + 1) // 2), device)
    squares = full((len(complete),), 0.0, entries)
    for block in columns.centred(complete):
        squares += (placed(block, device) ** 2).sum(axis=0)
    varies, xp = squares > len(columns.values) * LEAST_DEVIATION**2, functions_of(squares)
    deviation = xp.sqrt(xp.where(varies, squares, np.nan))
    for first in range(0, len(complete), PANEL):
        last = min(first + PANEL, len(complete))
        panel = full((last - first, len(complete) - first), 0.0, entries)
        for block in columns.centred(complete[first:]):
            centred = placed(block, device)
            panel += centred[:, : last - first].T @ centred
        panel /= deviation[first:last, None]
        panel /= deviation[first:]
        panel = xp.clip(panel, -1.0, 1.0)
        for k in range(last - first):
            panel[k, k] = xp.where(varies[first + k], 1.0, np.nan)
            at = starts[complete[first + k]] + complete[first + k :]
            entries[like(at, entries)] = panel[k, k:]
    return PackedMatrix(entries, placed(starts, device))


@computes("fisherz")
class FisherZTest(CachedCITest):
    """Fisher's z tests for zero partial correlation over one site's continuous data.

    The statistic is sqrt(n - |S| - 3) atanh(r), r the partial correlation of x and y given S, and
    its p-value is two-sided under the normal distribution. A test is not done, so that its p-value
    is NaN and counts as dependent, if n - |S| - 3 <= 0, or if x, y or a variable of S is constant
    in the rows used, or a linear combination of the others of S. If x and y determine each other
    given S, r is the largest number below 1, so that the statistic stays finite (about 18.7 sqrt(n
    - |S| - 3)) and the p-value is practically 0. The dependence of its evidence is |r|; its degrees
    of freedom are NaN.

    Source: Fisher, Metron 1 (1921) 3-32; Kalisch and Buehlmann, JMLR 8 (2007), section 2.2.2.

    Values have shape (n, p), NaN where missing: such rows are left out of the variable's tests.
    Half of the memory, 256 MiB or a part of a card's free one, bounds a batch, unless one test
    needs more; the other half bounds the cache of outcomes. The correlations come on top: 8 p**2
    bytes, and half as many where variables are more than `FULL_UP_TO`. Raises as `check_numbers`.
    """

    def __init__(
        self, values: NDArray[np.float64], *, device: str = "cpu", memory_bytes: int | None = None
    ) -> None:
        check_numbers(values)
        memory = half(DEFAULT_MEMORY if memory_bytes is None else memory_bytes)
        missing = np.isnan(values)
        self._incomplete: BoolVector = np.any(missing, axis=0)
        complete = not self._incomplete.any()
        # a correlation matrix in memory answers as fast as the cache would
        super().__init__(values.shape[1], cache_bytes=None if complete else memory)
        self._n_rows = len(values)
        self._device = resolve_device(device)
        affordable = half(memory_bytes or batch_bytes(self._device)) // BYTES_PER_ELEMENT
        self._most = most_elements(self._device, affordable, IN_CACHE)
        # subtracting an observed value makes a constant column exactly 0
        scale, origin = _scale_and_origin(values, missing)
        standard = StandardColumns(values, scale, origin)
        self._correlations = correlations_of(standard, self._incomplete, self._device)
        if not complete:
            columns = (values / scale - origin).T
            self._columns = placed(np.nan_to_num(columns, copy=False), self._device)
            self._observed = placed(~missing.T, self._device)

    @classmethod
    def of_table(cls, table: ColumnData, spec: CITestSpec, name: str, device: str) -> Self:
        del spec, name
        return cls(table.scored_numbers(), device=device)

    def _compute(self, tests: TestBatch) -> FloatMatrix:
        # the conditioning set first, which is eliminated from the front
        order = np.column_stack([tests.given, tests.x, tests.y])
        rows = np.full(len(tests), self._n_rows)
        incomplete = self._incomplete[order].any(axis=1)
        if not incomplete.any():
            return _outcomes(self._from_all_rows(order), rows, tests.given.shape[1])
        correlation = np.empty(len(tests))
        correlation[~incomplete] = self._from_all_rows(order[~incomplete])
        correlation[incomplete], rows[incomplete] = self._from_complete_rows(order[incomplete])
        return _outcomes(correlation, rows, tests.given.shape[1])

    def _from_all_rows(self, order: IndexArray) -> FloatVector:
        """Computes partial correlations of complete columns, shape (B,)."""
        return self._partial(self._correlations, np.zeros(len(order), dtype=np.int64), order)

    def _from_complete_rows(self, order: IndexArray) -> tuple[FloatVector, IndexArray]:
        """Computes partial correlations over the complete rows of every test, and their number."""
        size = order.shape[1]
        sorting = np.argsort(order, axis=1)
        sets = np.take_along_axis(order, sorting, axis=1)
        rank = np.argsort(sorting, axis=1)
        _, first, which = np.unique(position_keys(sets), return_index=True, return_inverse=True)
        which = which.ravel()
        correlation = np.empty(len(order))
        rows = np.empty(len(order), dtype=np.int64)
        by_set = np.argsort(which, kind="stable")
        chunk = self._chunk(size**2)
        for start in range(0, len(first), chunk):
            moments, counts = self._moments(sets[first[start : start + chunk]])
            begin, end = np.searchsorted(which[by_set], [start, start + chunk])
            tests = by_set[begin:end]
            group = which[tests] - start
            matrices = correlation_matrices(moments, counts, least_deviation=LEAST_DEVIATION)
            whole = FullMatrices(matrices.reshape(-1), size)
            correlation[tests] = self._partial(whole, group * size**2, rank[tests])
            rows[tests] = host(counts)[group]
        return correlation, rows

    def _moments(self, sets: IndexArray) -> tuple[Array, Array]:
        """Computes centred second moments, (G, k, k), over the complete rows of sets of columns."""
        chunk = self._chunk(sets.shape[1] * self._n_rows)
        parts = [
            self._moments_of_part(placed(sets[start : start + chunk], self._device))
            for start in range(0, len(sets), chunk)
        ]
        moments, rows = zip(*parts, strict=True)
        xp = functions_of(self._columns)
        return xp.concatenate(moments), xp.concatenate(rows)

    def _moments_of_part(self, positions: Array) -> tuple[Array, Array]:
        first, *rest = positions.T
        complete = self._observed[first]
        for column in rest:
            complete &= self._observed[column]
        rows = complete.sum(axis=1)
        weight = floats(complete)[:, None]
        block = self._columns[positions]
        block *= weight
        mean = block.sum(axis=2)[:, :, None] / at_least(rows, 1)[:, None, None]
        block -= mean * weight
        return _products(block), rows

    def _partial(
        self, correlations: Correlations, base: IndexArray, order: IndexArray
    ) -> FloatVector:
        """Computes partial correlations of the last two variables of every test given the others.

        Test b uses the rows order[b] of the matrix that starts at base[b].
        """
        size = order.shape[1]
        result = np.empty(len(order))
        chunk = self._chunk(size**2)
        for start in range(0, len(order), chunk):
            part = slice(start, start + chunk)
            columns, starts = placed(order[part].T, self._device), placed(base[part], self._device)
            result[part] = host(partial_correlation(correlations.among(columns, starts)))
        return result

    def _chunk(self, elements: int) -> int:
        """Returns how many tests of so many numbers each are computed at a time."""
        return max(self._most // elements, 1)


def _products(block: Array) -> Array:
    """Computes the Gram matrix of the rows of each matrix, shape (G, k, k) from (G, k, n)."""
    # row by row: a matrix product may sum in another order when other sets share the block
    products = [(block * block[:, row, None]).sum(axis=2) for row in range(block.shape[1])]
    return functions_of(block).stack(products, 1)


def _outcomes(correlation: FloatVector, rows: IndexArray, size: int) -> FloatMatrix:
    """Computes outcomes from partial correlations given sets of one size, shape (B, N_COLUMNS)."""
    tested = fisher_z(correlation, rows, size)
    outcomes = not_done(rows)
    outcomes[:, 0] = tested.p_value
    outcomes[:, 1] = tested.statistic
    outcomes[:, 3] = np.abs(tested.correlation)
    return outcomes


def _scale_and_origin(
    values: NDArray[np.float64], missing: NDArray[np.bool_]
) -> tuple[FloatVector, FloatVector]:
    """Returns the largest magnitude of every column, and its first observed value in that unit."""
    scale = np.fmax(np.fmax.reduce(values, axis=0), -np.fmin.reduce(values, axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    first = values[np.argmin(missing, axis=0), np.arange(values.shape[1])]
    return scale, np.nan_to_num(first) / scale
