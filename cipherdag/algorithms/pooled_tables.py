"""The table test of the pooled data, from contingency tables summed over the sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.evidence import (
    ROUND_VALUES,
    CombinedTests,
    PValues,
    RememberedTests,
    Tests,
)
from cipherdag.algorithms.pooling import SmallCells, Tables, pack_sets
from cipherdag.protocol.lockstep import lockstep

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from cipherdag.algorithms.combining import Combination
    from cipherdag.algorithms.contingency import TableStatistic
    from cipherdag.algorithms.pooling import BoolVector, ColumnKinds
    from cipherdag.algorithms.questions import CITestSpec, FloatVector, IndexArray, Question

    Asking = Generator[Question, FloatVector, None]

FALLBACK: Combination = "statistic"
BATCH_CELLS = 2**22


def open_tables(
    kinds: ColumnKinds, spec: CITestSpec, *, max_cells: int, max_rows: int
) -> Generator[Question, FloatVector, TableTests]:
    """Ask for the counts of every variable alone; one round, or two where a site restricts counts.

    Leaks:
        The counts of every variable over all sites.
    """
    tables = PooledTables(kinds, max_rows=max_rows)
    alone = np.arange(len(kinds.categories))[:, None]
    yield from tables.learn([alone])
    levels = kinds.categories.copy()
    for variable in np.flatnonzero(tables.known(alone)).tolist():
        counts = tables.take(alone[[variable]])[0]
        levels[variable] = max(int(np.flatnonzero(counts).max(initial=0)) + 1, 1)
    fallback = CombinedTests(FALLBACK, spec, n_variables=len(kinds.categories), max_rows=max_rows)
    return TableTests(tables, levels, spec, fallback, max_cells=max_cells)


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
        self._tables: dict[bytes, IndexArray] = {}
        self._withheld: set[bytes] = set()

    def cells(self, sets: IndexArray) -> FloatVector:
        """Number of cells of the table of every set, shape (B,)."""
        cells: FloatVector = self.kinds.categories[sets].astype(np.float64).prod(axis=1)
        return cells

    def known(self, sets: IndexArray) -> BoolVector:
        """Whether the table of every set was given, shape (B,)."""
        return np.array([key in self._tables for key in _keys(sets)], dtype=bool)

    def withheld(self, sets: IndexArray) -> BoolVector:
        """Whether some site withholds the table of every settled set, shape (B,)."""
        return np.array([key in self._withheld for key in _keys(sets)], dtype=bool)

    def take(self, sets: IndexArray) -> IndexArray:
        """Tables of known sets with equally many cells, shape (B, cells)."""
        return np.stack([self._tables[key] for key in _keys(sets)])

    def settle(self, sets: Sequence[IndexArray]) -> Asking:
        """Learn which sets some site withholds; at most one round, none without restrictions.

        Args:
            sets: Ascending positions by size from 1, shape (B_k, k).
        """
        if not self.kinds.restricted:
            return
        new = [self._new(own) for own in sets]
        for piece in _slices(new, [np.ones(len(own)) for own in new]):
            counts, members = pack_sets(piece)
            withheld = yield SmallCells(
                categories=self._categories,
                counts=counts,
                members=members,
                max_rows=self._max_rows,
            )
            start = 0
            for own in piece:
                refused = own[withheld[start : start + len(own)] > 0]
                self._withheld.update(_keys(refused))
                start += len(own)

    def learn(self, sets: Sequence[IndexArray]) -> Asking:
        """Settle, then ask for the tables of the sets that no site withholds."""
        yield from self.settle(sets)
        yield from self.ask(sets)

    def ask(self, sets: Sequence[IndexArray]) -> Asking:
        """Ask for the tables of settled sets; one round, and one more per `ROUND_VALUES` cells."""
        new = [self._new(own) for own in sets]
        for piece in _slices(new, [self.cells(own) for own in new]):
            counts, members = pack_sets(piece)
            sums = yield Tables(
                categories=self._categories,
                counts=counts,
                members=members,
                max_rows=self._max_rows,
            )
            whole = sums.astype(np.int64)
            start = 0
            for own in piece:
                for key, cells in zip(_keys(own), self.cells(own).tolist(), strict=True):
                    self._tables[key] = whole[start : start + int(cells)]
                    start += int(cells)

    def _new(self, sets: IndexArray) -> IndexArray:
        """The distinct sets that are neither known nor withheld."""
        distinct = np.unique(sets, axis=0)
        fresh = [k not in self._tables and k not in self._withheld for k in _keys(distinct)]
        new: IndexArray = distinct[np.array(fresh, dtype=bool)]
        return new


class TableTests(RememberedTests):
    """G2 or Pearson's chi-square of pooled tables, the same to the last bit as on pooled rows.

    A test that no number of rows could make reliable is not asked for. One whose table has more
    than ``max_cells`` cells, or a count that some site withholds, falls back to ``statistic``; both
    are tallied.

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
        fallback: CombinedTests,
        *,
        max_cells: int,
    ) -> None:
        super().__init__()
        self._tables = tables
        self._levels = levels
        self._spec = spec
        self._fallback = fallback
        self._max_cells = max_cells
        self._statistic = _statistic(spec, tables.kinds.rows, int(levels.max(initial=1)))

    def _ask(self, tests: Tests) -> PValues:
        """One round, or two where a site restricts counts; one more per `ROUND_VALUES` values."""
        sets = [np.sort(rows, axis=1) for rows in tests]
        hopeful = [self._reliable(rows, self._tables.kinds.rows) for rows in tests]
        large = [self._tables.cells(own) > self._max_cells for own in sets]
        wanted = [own[ok & ~big] for own, ok, big in zip(sets, hopeful, large, strict=True)]
        by_size = [np.zeros((0, 1), dtype=np.int64), *wanted]
        yield from self._tables.settle(by_size)
        withheld = [
            ok & ~big & self._tables.withheld(own)
            for own, ok, big in zip(sets, hopeful, large, strict=True)
        ]
        left = [
            rows[(ok & big) | out]
            for rows, ok, big, out in zip(tests, hopeful, large, withheld, strict=True)
        ]
        self._count(tests, hopeful, large, withheld)
        _, others = yield from lockstep([self._tables.ask(by_size), self._fallback.p_values(left)])
        assert others is not None, "the fallback returns p-values"
        p_values = []
        for rows, ok, big, out, other in zip(tests, hopeful, large, withheld, others, strict=True):
            own = np.full(len(rows), np.nan)
            own[(ok & big) | out] = other
            pooled = np.flatnonzero(ok & ~big & ~out)
            own[pooled] = self._pooled(rows[pooled])
            p_values.append(own)
        return p_values

    def _count(
        self,
        tests: Tests,
        hopeful: list[BoolVector],
        large: list[BoolVector],
        withheld: list[BoolVector],
    ) -> None:
        too_large = sum(int((ok & big).sum()) for ok, big in zip(hopeful, large, strict=True))
        refused = sum(int(out.sum()) for out in withheld)
        hopeless = sum(int((~ok).sum()) for ok in hopeful)
        total = sum(len(rows) for rows in tests)
        self.tally["pooled"] += total - too_large - refused - hopeless
        for way, count in (
            ("too few rows: none", hopeless),
            ("too large: statistic", too_large),
            ("withheld: statistic", refused),
        ):
            if count:
                self.tally[way] += count

    def _reliable(self, rows: IndexArray, counted: int | IndexArray) -> BoolVector:
        """Whether so many rows suffice, by the rule that the sites' own tests follow."""
        levels = self._levels[rows].astype(np.float64).prod(axis=1)
        enough: BoolVector = (counted > 0) & (counted / levels >= self._spec.min_rows_per_cell)
        return enough

    def _pooled(self, rows: IndexArray) -> FloatVector:
        """p-values of tests whose tables are known, in groups of one layout."""
        order = np.argsort(rows, axis=1)
        sides = self._tables.kinds.categories[np.sort(rows, axis=1)]
        layout = np.column_stack([order, sides])
        p_value = np.full(len(rows), np.nan)
        _, first, which = np.unique(layout, axis=0, return_index=True, return_inverse=True)
        for number, example in enumerate(first.tolist()):
            index = np.flatnonzero(which.ravel() == number)
            # where x, y and S stand in the sorted set
            places = np.argsort(order[example])
            shape = sides[example]
            step = max(BATCH_CELLS // int(shape.prod()), 1)
            for start in range(0, len(index), step):
                part = index[start : start + step]
                p_value[part] = self._of_layout(rows[part], places, shape)
        return p_value

    def _of_layout(self, rows: IndexArray, places: IndexArray, shape: IndexArray) -> FloatVector:
        import torch

        from cipherdag.algorithms.contingency import Margins, chi_square_tail

        tables = self._tables.take(np.sort(rows, axis=1)).reshape(-1, *shape.tolist())
        x, y, *given = (places + 1).tolist()
        turned = tables.transpose(*given, x, y, 0)
        turned = turned.reshape(-1, *turned.shape[-3:])
        counts = torch.from_numpy(np.ascontiguousarray(turned))
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

    from cipherdag.algorithms.contingency import GSquared, PearsonChiSquare

    if spec.name == "pearson":
        return PearsonChiSquare(rows, levels)
    return GSquared(rows, torch.device("cpu"))


def _keys(sets: IndexArray) -> list[bytes]:
    packed = np.ascontiguousarray(sets, dtype="<u2")
    return [row.tobytes() for row in packed]


def _slices(
    sets: Sequence[IndexArray], values: Sequence[FloatVector]
) -> Generator[list[IndexArray], None, None]:
    """Sets cut into rounds of about `ROUND_VALUES`; ``values`` of every set."""
    ends = np.cumsum([0, *(len(own) for own in sets)])
    if not ends[-1]:
        return
    before = np.cumsum(np.concatenate(values)) - np.concatenate(values)
    number = (before // ROUND_VALUES).astype(np.int64)
    for turn in np.unique(number).tolist():
        yield [
            own[number[first:last] == turn]
            for own, first, last in zip(sets, ends[:-1], ends[1:], strict=True)
        ]
