"""G2 and Pearson's chi-square test the conditional independence of discrete variables.

Statistics are summed as fixed-point integers, whose sums do not depend on their order. So an
outcome is the same to the last bit whichever tests share its batch, and however much memory there
is. Nor does the order of x and y, or of the conditioning set, change it.
"""

import math
from collections.abc import Iterator
from typing import Literal, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.errors import ParameterError
from cipherdag.questions.ci_tests import CITestSpec, Constant, DegreesOfFreedom
from cipherdag.sites.compute.ci_tests.ci_test import (
    CachedCITest,
    ColumnData,
    TestBatch,
    computes,
    half,
    not_done,
)
from cipherdag.sites.compute.counter import MAX_CELLS, MAX_CODE, DiscreteColumns
from cipherdag.sites.compute.device import DEFAULT_MEMORY, batch_bytes, placed, resolve_device
from cipherdag.sites.compute.noise import Renamed, first_met, rows_digest
from cipherdag.statistics.array_functions import Array, host
from cipherdag.statistics.contingency import (
    GSquared,
    Margins,
    PearsonChiSquare,
    TableStatistic,
    buckets,
    chi_square_tail,
)

Statistic = Literal["g2", "pearson"]

# beyond this many cells per row sorting the rows is faster than a table
SPARSE_CELLS_PER_ROW = 32
BYTES_PER_CELL = 64


@computes("g2", "pearson")
class DiscreteTest(CachedCITest):
    """G2 or Pearson's chi-square tests conditional independence over one site's discrete data.

    The statistic, which is the dependence of its evidence too, is summed over the configurations of
    the conditioning set. A test is done only if rows / (levels of x, y and the set multiplied)
    reaches ``min_rows_per_cell``; otherwise its p-value is NaN, which counts as dependent. The
    adjusted degrees of freedom are the sum over configurations of (rows - 1)(columns - 1), counting
    rows and columns of that configuration's table that are not empty; ``plain`` ones are (r - 1)(c
    - 1) times the levels of the set. Without degrees of freedom the p-value is 1, but NaN where the
    set has a variable that partitions the rows as x or y does: given it, x or y is constant. If
    ``constant`` is ``untestable``, it is NaN wherever x or y has one value only.

    Source: FedPC (its published G2 routine) for reliability and adjusted degrees of freedom;
    Agresti, Categorical Data Analysis, section 3.2, for the statistics.

    Codes have shape (n, p), negative where missing: such rows are left out of the variable's tests.
    A variable has as many levels as its highest code in these rows + 1. Half of the memory is for a
    batch, half for the cache. ParameterError where codes are not an integer matrix with a row and a
    column, or a code or another parameter is out of its range.
    """

    def __init__(
        self,
        codes: NDArray[np.integer],
        *,
        statistic: Statistic = "g2",
        dof: DegreesOfFreedom = "adjusted",
        min_rows_per_cell: float = 5.0,
        constant: Constant = "independent",
        device: str = "cpu",
        memory_bytes: int | None = None,
    ) -> None:
        _check(codes, statistic, dof, min_rows_per_cell)
        memory = DEFAULT_MEMORY if memory_bytes is None else memory_bytes
        where = resolve_device(device)
        super().__init__(codes.shape[1], cache_bytes=half(memory))
        self._memory = half(memory_bytes or batch_bytes(where))
        self._columns = DiscreteColumns(codes, where, memory_bytes=self._memory)
        self._adjusted = dof == "adjusted"
        self._min_rows_per_cell = min_rows_per_cell
        self._testable = _varies(codes) if constant == "untestable" else None
        self._copied = _copied(codes)
        n_rows = self._columns.n_rows
        self._statistic: TableStatistic = (
            GSquared(n_rows, placed(np.zeros(0), where))
            if statistic == "g2"
            else PearsonChiSquare(n_rows, int(self._columns.levels.max()))
        )

    @classmethod
    def of_table(cls, table: ColumnData, spec: CITestSpec, name: str, device: str) -> Self:
        assert table.codes is not None, "a discrete table has codes"
        return cls(
            table.codes,
            statistic=cast("Statistic", name),
            dof=spec.dof,
            min_rows_per_cell=spec.min_rows_per_cell,
            constant=spec.constant,
            device=device,
        )

    def _compute(self, tests: TestBatch) -> FloatMatrix:
        positions = np.column_stack([tests.x, tests.y, tests.given])
        rows = self._columns.complete_rows(positions)
        # floating point: the product of many levels may exceed every integer type
        levels = self._columns.levels[positions].astype(np.float64)
        done = np.flatnonzero((rows > 0) & (rows / levels.prod(axis=1) >= self._min_rows_per_cell))
        outcomes = not_done(rows)
        if done.size == 0:
            return outcomes
        statistic, dof = self._statistics(tests.take(done), levels[done])
        if not self._adjusted:
            dof = (levels[done, 0] - 1) * (levels[done, 1] - 1) * levels[done, 2:].prod(axis=1)
        outcomes[done, 0] = chi_square_tail(statistic, dof)
        outcomes[done, 1] = outcomes[done, 3] = statistic
        outcomes[done, 2] = dof
        if self._testable is not None:
            outcomes[~(self._testable[tests.x] & self._testable[tests.y]), 0] = np.nan
        for side in (tests.x, tests.y):
            copies = self._copied[tests.given] == self._copied[side][:, None]
            outcomes[copies.any(axis=1), 0] = np.nan
        return outcomes

    def _statistics(self, tests: TestBatch, levels: FloatMatrix) -> tuple[FloatVector, FloatVector]:
        """Computes statistics and adjusted degrees of freedom of all tests, shape (B,) each."""
        fixed = np.zeros(len(tests), dtype=np.int64)
        dof = np.zeros(len(tests), dtype=np.int64)
        cells = levels.prod(axis=1)
        affordable = min(self._memory // BYTES_PER_CELL, MAX_CELLS)
        sparse = cells > min(SPARSE_CELLS_PER_ROW * self._columns.n_rows, affordable)
        for test in np.flatnonzero(sparse).tolist():
            table = self._columns.sparse_table(
                int(tests.x[test]), int(tests.y[test]), tests.given[test]
            )
            fixed[test] = self._statistic.sparse(table)
            dof[test] = table.dof()
        for index, tables in self._dense_tables(tests, levels, np.flatnonzero(~sparse)):
            margins = Margins.of(tables)
            fixed[index] = host(self._statistic.dense(tables, margins))
            dof[index] = host(margins.dof())
        return np.maximum(fixed / self._statistic.scale, 0.0), dof.astype(np.float64)

    def _dense_tables(
        self, tests: TestBatch, levels: FloatMatrix, dense: IndexArray
    ) -> Iterator[tuple[IndexArray, Array]]:
        """Counts the tables of the dense tests in chunks of one shape, with their indices."""
        if dense.size == 0:
            return
        # the variable with more levels gives the rows, so that fewer shapes occur
        flip = levels[:, 0] < levels[:, 1]
        x, y = np.where(flip, tests.y, tests.x), np.where(flip, tests.x, tests.y)
        sides = np.column_stack(
            [levels[:, 2:].prod(axis=1), levels[:, :2].max(axis=1), levels[:, :2].min(axis=1)]
        )
        for bucket, shape in buckets(sides[dense].astype(np.int64)):
            chunk = self._columns.chunk(shape.cells, bytes_per_element=BYTES_PER_CELL)
            for start in range(0, len(bucket), chunk):
                index = dense[bucket[start : start + chunk]]
                yield index, self._columns.tables(x[index], y[index], tests.given[index], shape)


def _check(codes: NDArray[np.integer], statistic: str, dof: str, min_rows_per_cell: float) -> None:
    if codes.ndim != 2 or 0 in codes.shape or codes.dtype.kind not in "iu":  # noqa: PLR2004
        raise ParameterError("codes must be an integer matrix with at least one row and column")
    if codes.max() > MAX_CODE - 1:
        raise ParameterError("a code is larger than 2**31 - 2")
    if statistic not in get_args(Statistic):
        raise ParameterError(f"statistic must be one of {', '.join(get_args(Statistic))}")
    if dof not in get_args(DegreesOfFreedom):
        raise ParameterError("dof must be 'adjusted' or 'plain'")
    if not 0.0 <= min_rows_per_cell < math.inf:
        raise ParameterError("min_rows_per_cell must be a finite number >= 0")


def _varies(codes: NDArray[np.integer]) -> BoolVector:
    """Tells which variables have at least two values in the rows, shape (p,)."""
    met = ((column, column.max()) for column in codes.T)
    return np.array(
        [((column >= 0) & (column < highest)).any() for column, highest in met], dtype=bool
    )


def _copied(codes: NDArray[np.integer]) -> IndexArray:
    """Finds the first variable that partitions the rows as each variable does, shape (p,)."""
    first: dict[bytes, int] = {}
    representative = np.arange(codes.shape[1])
    for variable in np.flatnonzero(_varies(codes)).tolist():
        column = codes[:, variable]
        if column.max() > len(column):
            levels, column = np.unique(np.maximum(column, -1), return_inverse=True)
            column = column.ravel() - (levels[0] < 0)
        least, names = first_met(column)
        # levels are named by their first row, missing values by -1
        names[:-least] = -1
        digest = rows_digest(b"cipherdag copied column", Renamed(column, least, names))
        representative[variable] = first.setdefault(digest, variable)
    return representative
