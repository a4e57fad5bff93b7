"""G2 and Pearson's chi-square test the pooled data by contingency tables summed over the sites."""

from __future__ import annotations

from collections.abc import Container, Generator, Sequence
from typing import TypeVar

import numpy as np

from cipherdag.algorithms.evidence.effects import mantel_haenszel
from cipherdag.algorithms.evidence.federated_test import (
    CachedFederatedCITest,
    PValues,
    Tests,
    batches,
)
from cipherdag.algorithms.evidence.options import EvidenceSettings, Method
from cipherdag.algorithms.evidence.within_sites import RaoTests
from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.encodings import by_block, pack_blocks, require_possible
from cipherdag.questions.gather import gather
from cipherdag.questions.pooled_data import MAX_CELLS, ColumnKinds, SmallCells, Tables
from cipherdag.questions.question import Question
from cipherdag.statistics.contingency import TableShape, TableStatistic, buckets

Asking = Generator[Question, FloatVector, None]

Kind = TypeVar("Kind", SmallCells, Tables)

BATCH_CELLS = 2**20
FALLBACK_METHODS = [Method.TOO_LARGE, Method.WITHHELD]
METHODS = [Method.TOO_FEW_ROWS, *FALLBACK_METHODS, Method.POOLED]


def open_tables(
    kinds: ColumnKinds, settings: EvidenceSettings
) -> Generator[Question, FloatVector, TableTests]:
    """Ask for the counts of every single variable: one round, or two under restrictions."""
    tables = PooledTables(kinds, max_rows=settings.max_rows)
    single = np.arange(len(kinds.categories))[:, None]
    yield from tables.find_withheld([single])
    yield from tables.ask([single])
    levels = kinds.categories.copy()
    for variable in np.flatnonzero(tables.available(single)).tolist():
        counts = tables.marginal(variable)
        levels[variable] = max(int(np.flatnonzero(counts).max(initial=0)) + 1, 1)
    return TableTests(tables, levels, settings)


class PooledTables:
    """Stores the pooled contingency tables of discrete columns by set; each is asked once."""

    def __init__(self, kinds: ColumnKinds, *, max_rows: int) -> None:
        self.kinds = kinds
        self._categories = tuple(kinds.categories.tolist())
        self._max_rows = max_rows
        self._offsets: dict[bytes, int] = {}
        self._counts = np.zeros(1, dtype=np.int64)  # the first is the count of padding cells
        self._withheld: set[bytes] = set()
        self._checked: set[bytes] = set()

    def cells(self, sets: IndexArray) -> FloatVector:
        """Count the cells of the table of every set, shape (B,)."""
        return self.kinds.categories[sets].astype(np.float64).prod(axis=1)

    def available(self, sets: IndexArray) -> BoolVector:
        """Return whether the table of every set was opened, shape (B,)."""
        return np.array([key in self._offsets for key in _keys(sets)], dtype=bool)

    def withheld(self, sets: IndexArray) -> BoolVector:
        """Return whether some site withholds the table of every set that `find_withheld` had."""
        return np.array([key in self._withheld for key in _keys(sets)], dtype=bool)

    def marginal(self, variable: int) -> IndexArray:
        """Return the counts of a variable's categories, which were opened."""
        return self.table(np.array([variable]))

    def table(self, variables: IndexArray) -> IndexArray:
        """Return the opened table of a set, with an axis for each of its ascending variables."""
        (offset,) = (self._offsets[key] for key in _keys(variables[None]))
        sides = self.kinds.categories[variables]
        return self._counts[offset : offset + int(sides.prod())].reshape(sides)

    def of_tests(self, tests: IndexArray, shape: TableShape) -> IndexArray:
        """Return the opened tables of tests (x, y, S), shape (configurations, x, y, B).

        ``shape`` holds all of these; padding cells are 0.
        """
        order = np.argsort(tests, axis=1)
        sets = np.take_along_axis(tests, order, axis=1)
        sides = self.kinds.categories[sets]
        after = np.cumprod(sides[:, ::-1], axis=1)[:, ::-1]
        strides = np.empty_like(tests)
        np.put_along_axis(strides, order, after // sides, axis=1)
        sides = self.kinds.categories[tests]
        index = np.array([self._offsets[key] for key in _keys(sets)])[None]
        configuration = np.arange(shape.configurations)[:, None]
        for member in range(2, tests.shape[1]):
            configuration, digit = np.divmod(configuration, sides[:, member])
            index = index + digit * strides[:, member]
        inside = np.broadcast_to(configuration == 0, (shape.configurations, len(tests)))
        index = np.where(inside, index, 0)[:, None, None]
        inside = inside[:, None, None]
        for axis, levels in enumerate((shape.rows, shape.columns)):
            level = np.arange(levels).reshape((-1, 1, 1) if axis == 0 else (-1, 1))
            inside = inside & (level < sides[:, axis])
            index = index + level * strides[:, axis]
        return self._counts[np.where(inside, index, 0)]

    def find_withheld(self, sets: Sequence[IndexArray]) -> Asking:
        """Ask which tables some site withholds: at most one round, none without restrictions.

        No set is asked about twice, whether or not its table was asked for in between. A table that
        is larger than any site counts is withheld by all. Sets are ascending positions by size from
        1, shape (B_k, k).
        """
        if not self.kinds.restricted:
            return
        for block in sets:
            self._withheld.update(_keys(block[self.cells(block) > MAX_CELLS]))
        new = [self._new(block, self._checked) for block in sets]
        for piece in batches(new, [np.ones(len(block)) for block in new]):
            withheld = yield self._about(SmallCells, piece)
            for block, refused in zip(piece, by_block(piece, withheld > 0), strict=True):
                self._checked.update(_keys(block))
                self._withheld.update(_keys(block[refused]))

    def ask(self, sets: Sequence[IndexArray]) -> Asking:
        """Ask for the tables of sets that `find_withheld` had, in a round per 2,000,000 cells.

        AggregateRangeError where a table counts more rows than there are.
        """
        new = [self._new(block, self._offsets) for block in sets]
        for piece in batches(new, [self.cells(block) for block in new]):
            question = self._about(Tables, piece)
            sums = yield question
            offset = len(self._counts)
            self._counts = np.append(self._counts, sums.astype(np.int64))
            cells = np.concatenate([self.cells(block) for block in piece]).astype(np.int64)
            after = np.cumsum(cells)
            most = np.add.reduceat(self._counts[offset:], after - cells).max()
            require_possible(question.label, "too many rows", holds=most <= self.kinds.rows)
            keys = [key for block in piece for key in _keys(block)]
            self._offsets.update(zip(keys, (offset + after - cells).tolist(), strict=True))

    def _about(self, kind: type[Kind], sets: Sequence[IndexArray]) -> Kind:
        counts, members = pack_blocks(sets)
        return kind(
            categories=self._categories, counts=counts, members=members, max_rows=self._max_rows
        )

    def _new(self, sets: IndexArray, asked: Container[bytes]) -> IndexArray:
        """Return the distinct sets that were neither asked about nor withheld."""
        distinct = np.unique(sets, axis=0)
        fresh = [k not in asked and k not in self._withheld for k in _keys(distinct)]
        return distinct[np.array(fresh, dtype=bool)]


class TableTests(CachedFederatedCITest):
    """`TableTests` tests pooled tables, bit for bit as a test of the pooled rows would.

    A test for which all rows together are too few is not asked for. A test whose table has a count
    that some site withholds, or more than ``max_cells`` cells, is done by ``stratified`` with its
    sums opened, and counted as such. ``levels`` are those of every variable in the pooled data,
    shape (p,).
    """

    def __init__(
        self, tables: PooledTables, levels: IndexArray, settings: EvidenceSettings
    ) -> None:
        super().__init__(settings, tables.kinds)
        self._tables = tables
        self._levels = levels
        self._spec = spec = settings.spec
        self._fallback: RaoTests = RaoTests(tables.kinds, settings, bits=False)
        available = tables.available(np.arange(len(levels))[:, None]).tolist()
        self._unvarying = np.array(
            [ok and (tables.marginal(v) > 0).sum() <= 1 for v, ok in enumerate(available)]
        )
        self._statistic = _statistic(spec, tables.kinds.rows, int(levels.max(initial=1)))

    def effect(self, test: Sequence[int]) -> EffectSize | None:
        """Return the common odds ratio of two variables of two categories, or the fallback's."""
        row = np.array([test], dtype=np.int64)
        if not self._tables.available(np.sort(row, axis=1))[0]:
            return self._fallback.effect(test)
        sides = self._tables.kinds.categories[row[0]]
        if (sides[:2] != 2).any():  # noqa: PLR2004
            return None
        shape = TableShape(int(sides[2:].prod()), *sides[:2].tolist())
        return mantel_haenszel(self._tables.of_tests(row, shape)[..., 0].astype(np.float64))

    def _ask(self, tests: Tests) -> PValues:
        """Ask in a round per `MAX_VALUES_PER_ROUND`, after one where a site restricts counts."""
        sets = [np.sort(rows, axis=1) for rows in tests]
        possible = [self._reliable(rows, self._tables.kinds.rows) for rows in tests]
        large = [self._tables.cells(block) > self._settings.max_cells for block in sets]
        wanted = [block[ok & ~big] for block, ok, big in zip(sets, possible, large, strict=True)]
        by_size = [np.zeros((0, 1), dtype=np.int64), *wanted]
        yield from self._tables.find_withheld(by_size)
        # the first condition that holds decides
        methods = [
            np.select([~ok, big, self._tables.withheld(block)], METHODS[:-1], METHODS[-1])
            for block, ok, big in zip(sets, possible, large, strict=True)
        ]
        fallen_back = [np.isin(method, FALLBACK_METHODS) for method in methods]
        left = [rows[chosen] for rows, chosen in zip(tests, fallen_back, strict=True)]
        self.tally[Method.POOLED] += 0  # named even where there is none
        self.tally.update(np.concatenate(methods).tolist())
        _, others = yield from gather([self._tables.ask(by_size), self._fallback.p_values(left)])
        assert others is not None, "the fallback returns p-values"
        p_values = []
        for rows, method, chosen, other in zip(tests, methods, fallen_back, others, strict=True):
            p_value = np.full(len(rows), np.nan)
            p_value[chosen] = other
            p_value[method == Method.POOLED] = self._pooled(rows[method == Method.POOLED])
            p_values.append(p_value)
        constant = self._unvarying[tests[0]].any(axis=1) & (p_values[0] > 0)
        constant &= methods[0] == Method.POOLED
        self.record_constant_pairs(tests[0][constant], Method.POOLED)
        return p_values

    def _reliable(self, rows: IndexArray, counted: int | IndexArray) -> BoolVector:
        """Return whether the counted rows suffice, by the rule of the sites' tests."""
        levels = self._levels[rows].astype(np.float64).prod(axis=1)
        return (counted > 0) & (counted / levels >= self._spec.min_rows_per_cell)

    def _pooled(self, rows: IndexArray) -> FloatVector:
        """Compute the p-values of tests whose tables were opened, in batches of one shape."""
        sides = self._tables.kinds.categories[rows]
        # the variable with more categories gives the rows, so that fewer shapes occur
        flip = sides[:, 0] < sides[:, 1]
        rows = np.where(flip[:, None], rows[:, [1, 0, *range(2, rows.shape[1])]], rows)
        sides = self._tables.kinds.categories[rows]
        sides = np.column_stack([sides[:, 2:].prod(axis=1), sides[:, :2]])
        p_value = np.full(len(rows), np.nan)
        for bucket, shape in buckets(sides):
            step = max(BATCH_CELLS // shape.cells, 1)
            for start in range(0, len(bucket), step):
                part = bucket[start : start + step]
                p_value[part] = self._of_shape(rows[part], shape)
        return p_value

    def _of_shape(self, rows: IndexArray, shape: TableShape) -> FloatVector:
        from cipherdag.statistics.contingency import Margins, chi_square_tail

        counts = self._tables.of_tests(rows, shape)
        margins = Margins.of(counts)
        fixed = self._statistic.dense(counts, margins)
        statistic = np.maximum(fixed / self._statistic.scale, 0.0)
        if self._spec.dof == "adjusted":
            dof = margins.dof().astype(np.float64)
        else:
            levels = self._levels[rows].astype(np.float64)
            dof = (levels[:, 0] - 1) * (levels[:, 1] - 1) * levels[:, 2:].prod(axis=1)
        reliable = self._reliable(rows, counts.sum(axis=(0, 1, 2)))
        return np.where(reliable, chi_square_tail(statistic, dof), np.nan)


def _statistic(spec: CITestSpec, rows: int, levels: int) -> TableStatistic:
    from cipherdag.statistics.contingency import GSquared, PearsonChiSquare

    if spec.name == "pearson":
        return PearsonChiSquare(rows, levels)
    return GSquared(rows, np.zeros(0))


def _keys(sets: IndexArray) -> list[bytes]:
    packed = np.ascontiguousarray(sets, dtype="<u2")
    return packed.view(f"V{2 * packed.shape[1]}")[:, 0].tolist()
