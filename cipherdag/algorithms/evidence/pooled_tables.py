"""The table test of the pooled data, from contingency tables summed over the sites."""

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
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.within_sites import ScoreTests, category_sizes
from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.graphs.edge_evidence import Effect
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.encodings import by_block, pack_blocks, require_possible
from cipherdag.questions.gather import gather
from cipherdag.questions.pooled_data import MAX_CELLS, ColumnKinds, SmallCells, Tables
from cipherdag.questions.question import Question
from cipherdag.statistics.contingency import TableShape, TableStatistic, buckets

Asking = Generator[Question, FloatVector, None]

Kind = TypeVar("Kind", SmallCells, Tables)

BATCH_CELLS = 2**20
FALLEN_BACK = ["too large: within sites", "withheld: within sites"]
WAYS = ["too few rows: none", *FALLEN_BACK, "pooled"]
"""How a test is done, as the n_tests_by_method says."""


def open_tables(
    kinds: ColumnKinds, settings: EvidenceSettings
) -> Generator[Question, FloatVector, TableTests]:
    """Ask for the counts of every variable alone; one round, or two where a site restricts counts.

    Leaks:
        The counts of every variable over all sites.
    """
    tables = PooledTables(kinds, max_rows=settings.max_rows)
    alone = np.arange(len(kinds.categories))[:, None]
    yield from tables.settle([alone])
    yield from tables.ask([alone])
    levels = kinds.categories.copy()
    for variable in np.flatnonzero(tables.known(alone)).tolist():
        counts = tables.alone(variable)
        levels[variable] = max(int(np.flatnonzero(counts).max(initial=0)) + 1, 1)
    sizes = yield from category_sizes(kinds, settings)
    alpha = settings.spec.alpha
    fallback = ScoreTests(kinds, settings, sizes, bits=False, alpha=alpha)
    return TableTests(tables, levels, settings.spec, fallback, max_cells=settings.max_cells)


class PooledTables:
    """Tables of the pooled data by set of variables, each asked for once.

    Args:
        kinds: The columns, all discrete.
        max_rows: Declared bound of a site's rows.
    """

    def __init__(self, kinds: ColumnKinds, *, max_rows: int) -> None:
        self.kinds = kinds
        self._categories = tuple(kinds.categories.tolist())
        self._max_rows = max_rows
        self._places: dict[bytes, int] = {}
        self._counts = np.zeros(1, dtype=np.int64)  # the first is that of cells outside a table
        self._withheld: set[bytes] = set()
        self._settled: set[bytes] = set()

    def cells(self, sets: IndexArray) -> FloatVector:
        """Number of cells of the table of every set, shape (B,)."""
        return self.kinds.categories[sets].astype(np.float64).prod(axis=1)

    def known(self, sets: IndexArray) -> BoolVector:
        """Whether the table of every set was given, shape (B,)."""
        return np.array([key in self._places for key in _keys(sets)], dtype=bool)

    def withheld(self, sets: IndexArray) -> BoolVector:
        """Whether some site withholds the table of every settled set, shape (B,)."""
        return np.array([key in self._withheld for key in _keys(sets)], dtype=bool)

    def alone(self, variable: int) -> IndexArray:
        """Counts of a known variable's categories."""
        return self.table(np.array([variable]))

    def table(self, variables: IndexArray) -> IndexArray:
        """The known table of a set, one axis for each of its variables, which ascend."""
        (place,) = (self._places[key] for key in _keys(variables[None]))
        sides = self.kinds.categories[variables]
        return self._counts[place : place + int(sides.prod())].reshape(sides)

    def of_tests(self, tests: IndexArray, shape: TableShape) -> IndexArray:
        """Tables of tests (x, y, S) whose sets are known: shape (configurations, x, y, B).

        Args:
            tests: Positions, shape (B, 2 + l).
            shape: A shape that holds all of them; cells outside a table are 0.
        """
        order = np.argsort(tests, axis=1)
        sets = np.take_along_axis(tests, order, axis=1)
        sides = self.kinds.categories[sets]
        after = np.cumprod(sides[:, ::-1], axis=1)[:, ::-1]
        strides = np.empty_like(tests)
        np.put_along_axis(strides, order, after // sides, axis=1)
        sides = self.kinds.categories[tests]
        index = np.array([self._places[key] for key in _keys(sets)])[None]
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

    def settle(self, sets: Sequence[IndexArray]) -> Asking:
        """Learn which sets some site withholds; at most one round, none without restrictions.

        Nothing is asked of a set a second time, whether or not its table was asked for meanwhile.

        A table that is larger than any site counts is withheld by all.

        Args:
            sets: Ascending positions by size from 1, shape (B_k, k).
        """
        if not self.kinds.restricted:
            return
        for own in sets:
            self._withheld.update(_keys(own[self.cells(own) > MAX_CELLS]))
        new = [self._new(own, self._settled) for own in sets]
        for piece in batches(new, [np.ones(len(own)) for own in new]):
            withheld = yield self._about(SmallCells, piece)
            for own, refused in zip(piece, by_block(piece, withheld > 0), strict=True):
                self._settled.update(_keys(own))
                self._withheld.update(_keys(own[refused]))

    def ask(self, sets: Sequence[IndexArray]) -> Asking:
        """Ask for the tables of settled sets; a round per `MAX_VALUES_PER_ROUND` cells.

        Raises:
            AggregateRangeError: A table counts more rows than there are.
        """
        new = [self._new(own, self._places) for own in sets]
        for piece in batches(new, [self.cells(own) for own in new]):
            question = self._about(Tables, piece)
            sums = yield question
            place = len(self._counts)
            self._counts = np.append(self._counts, sums.astype(np.int64))
            cells = np.concatenate([self.cells(own) for own in piece]).astype(np.int64)
            after = np.cumsum(cells)
            most = np.add.reduceat(self._counts[place:], after - cells).max()
            require_possible(question.label, "too many rows", holds=most <= self.kinds.rows)
            keys = [key for own in piece for key in _keys(own)]
            self._places.update(zip(keys, (place + after - cells).tolist(), strict=True))

    def _about(self, kind: type[Kind], sets: Sequence[IndexArray]) -> Kind:
        counts, members = pack_blocks(sets)
        return kind(
            categories=self._categories, counts=counts, members=members, max_rows=self._max_rows
        )

    def _new(self, sets: IndexArray, asked: Container[bytes]) -> IndexArray:
        """The distinct sets that were neither asked about nor withheld."""
        distinct = np.unique(sets, axis=0)
        fresh = [k not in asked and k not in self._withheld for k in _keys(distinct)]
        return distinct[np.array(fresh, dtype=bool)]


class TableTests(CachedFederatedCITest):
    """G2 or Pearson's chi-square of pooled tables, the same to the last bit as on pooled rows.

    A test that no number of rows could make reliable is not asked for. One whose table has a count
    that some site withholds, or more than ``max_cells`` cells, is done by ``stratified`` with its
    sums opened, and tallied.

    Leaks:
        The table of the pooled data of every set asked for, by position; where sites restrict
        small counts, of which other sets some site withholds its table.

    Args:
        tables: Where tables come from.
        levels: Levels of every variable in the pooled data, shape (p,).
        spec: The test.
        fallback: Tests what tables cannot.
        max_cells: Largest table asked for.
    """

    def __init__(
        self,
        tables: PooledTables,
        levels: IndexArray,
        spec: CITestSpec,
        fallback: ScoreTests,
        *,
        max_cells: int,
    ) -> None:
        super().__init__(tables.kinds)
        self._tables = tables
        self._levels = levels
        self._spec = spec
        self._fallback: ScoreTests = fallback
        self._max_cells = max_cells
        known = tables.known(np.arange(len(levels))[:, None])
        self._unvarying = np.array(
            [ok and (tables.alone(v) > 0).sum() <= 1 for v, ok in enumerate(known.tolist())]
        )
        self._statistic = _statistic(spec, tables.kinds.rows, int(levels.max(initial=1)))

    def skipped_tests(self, triplets: IndexArray) -> BoolVector:
        """See `CachedFederatedCITest.skipped_tests`; a pooled table leaves no test undone."""
        return self._fallback.skipped_tests(triplets)

    def effect(self, test: Sequence[int]) -> Effect | None:
        """The common odds ratio of two variables of two categories, or the fallback's."""
        row = np.array([test], dtype=np.int64)
        if not self._tables.known(np.sort(row, axis=1))[0]:
            return self._fallback.effect(test)
        sides = self._tables.kinds.categories[row[0]]
        if (sides[:2] != 2).any():  # noqa: PLR2004
            return None
        shape = TableShape(int(sides[2:].prod()), *sides[:2].tolist())
        return mantel_haenszel(self._tables.of_tests(row, shape)[..., 0].astype(np.float64))

    def _ask(self, tests: Tests) -> PValues:
        """A round per `MAX_VALUES_PER_ROUND`, and one before where a site restricts counts."""
        sets = [np.sort(rows, axis=1) for rows in tests]
        hopeful = [self._reliable(rows, self._tables.kinds.rows) for rows in tests]
        large = [self._tables.cells(own) > self._max_cells for own in sets]
        wanted = [own[ok & ~big] for own, ok, big in zip(sets, hopeful, large, strict=True)]
        by_size = [np.zeros((0, 1), dtype=np.int64), *wanted]
        yield from self._tables.settle(by_size)
        # of every test the first way that holds
        ways = [
            np.select([~ok, big, self._tables.withheld(own)], WAYS[:-1], WAYS[-1])
            for own, ok, big in zip(sets, hopeful, large, strict=True)
        ]
        left = [rows[np.isin(way, FALLEN_BACK)] for rows, way in zip(tests, ways, strict=True)]
        self.n_tests_by_method["pooled"] += 0  # said even where there is none
        self.n_tests_by_method.update(np.concatenate(ways).tolist())
        _, others = yield from gather([self._tables.ask(by_size), self._fallback.p_values(left)])
        assert others is not None, "the fallback returns p-values"
        p_values = []
        for rows, way, other in zip(tests, ways, others, strict=True):
            own = np.full(len(rows), np.nan)
            own[np.isin(way, FALLEN_BACK)] = other
            own[way == "pooled"] = self._pooled(rows[way == "pooled"])
            p_values.append(own)
        constant = (ways[0] == "pooled") & self._unvarying[tests[0]].any(axis=1) & (p_values[0] > 0)
        self.record_constant_pairs(tests[0][constant], "pooled")
        return p_values

    def _reliable(self, rows: IndexArray, counted: int | IndexArray) -> BoolVector:
        """Whether so many rows suffice, by the rule that the sites' own tests follow."""
        levels = self._levels[rows].astype(np.float64).prod(axis=1)
        return (counted > 0) & (counted / levels >= self._spec.min_rows_per_cell)

    def _pooled(self, rows: IndexArray) -> FloatVector:
        """p-values of tests whose tables are known, in batches of one shape."""
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
        import torch

        from cipherdag.statistics.contingency import Margins, chi_square_tail

        counts = torch.from_numpy(self._tables.of_tests(rows, shape))
        margins = Margins.of(counts)
        fixed = self._statistic.dense(counts, margins).numpy()
        statistic = np.maximum(fixed / self._statistic.scale, 0.0)
        if self._spec.dof == "adjusted":
            dof = margins.dof().numpy().astype(np.float64)
        else:
            levels = self._levels[rows].astype(np.float64)
            dof = (levels[:, 0] - 1) * (levels[:, 1] - 1) * levels[:, 2:].prod(axis=1)
        reliable = self._reliable(rows, counts.sum(dim=(0, 1, 2)).numpy())
        return np.where(reliable, chi_square_tail(statistic, dof), np.nan)


def _statistic(spec: CITestSpec, rows: int, levels: int) -> TableStatistic:
    import torch

    from cipherdag.statistics.contingency import GSquared, PearsonChiSquare

    if spec.name == "pearson":
        return PearsonChiSquare(rows, levels)
    return GSquared(rows, torch.device("cpu"))


def _keys(sets: IndexArray) -> list[bytes]:
    packed = np.ascontiguousarray(sets, dtype="<u2")
    return packed.view(f"V{2 * packed.shape[1]}")[:, 0].tolist()
