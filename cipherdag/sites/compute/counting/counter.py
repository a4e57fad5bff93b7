"""Counts the contingency tables of many small sets of discrete variables at once.

All counts are integers and do not depend on the method: bitmaps where a table has few cells,
one-hot matrix products, packed mixed-radix codes, or sorting where it has far more cells than rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from cipherdag.arrays import IndexArray
from cipherdag.sites.compute.counting import bitmaps
from cipherdag.sites.compute.counting.joint_codes import joint_counts
from cipherdag.sites.compute.device import ON_ONE_THREAD, most_elements
from cipherdag.sites.table.rows.stored import CODE_TYPES, code_type
from cipherdag.statistics.array_functions import Array, host
from cipherdag.statistics.contingency import SparseTable, TableShape

MISSING = -(2**28)  # below every code of a table, and far from the end of int32
MAX_CELLS = 2**24  # of one table; padding at most doubles each of its three sides
MAX_CODE = 2**31 - 1
PIECE_CELLS = 2**20  # counted at a time on a processor
BYTES_PER_TABLE_CELL = 256  # on a card: the count, and what scores are made of
BYTES_PER_CODE = 12
BYTES_PER_WORD = 32
BYTES_PER_LEVEL = 16  # of one row's one-hot codes
EXACT_IN_FLOAT32 = 2**24
WORD = 64


@dataclass(frozen=True, slots=True)
class PairCounts:
    """The counts of all pairs of levels of some variables are blocks of one matrix.

    Attributes:
        matrix: Shape (K + 1, K + 1), the last row and column zero.
        first: Index of each variable's first level, shape (p,); arbitrary for the others.
    """

    matrix: torch.Tensor
    first: torch.Tensor


class DiscreteColumns:
    """Stores the codes of one data set by columns on a device and counts their tables.

    Args:
        codes: Codes, shape (n, p); negative where missing.
        device: Device that counts.
        memory_bytes: Bound on the memory of counting at a time, unless one table needs more.
        levels: Fewest levels of every variable, shape (p,).

    Attributes:
        levels: Highest code + 1 of every variable, at least 1 or the given number, shape (p,).
        n_rows: Number of rows, n.
    """

    def __init__(
        self,
        codes: NDArray[np.integer],
        device: torch.device,
        *,
        memory_bytes: int,
        levels: IndexArray | None = None,
    ) -> None:
        self.device = device
        self._memory = memory_bytes
        on_card = max(memory_bytes // BYTES_PER_TABLE_CELL, PIECE_CELLS)
        self._piece_cells = PIECE_CELLS if device.type == "cpu" else on_card
        self.n_rows = len(codes)
        least = 1 if levels is None else np.maximum(levels, 1)
        self.levels: IndexArray = np.maximum(
            codes.max(axis=0, initial=-1).astype(np.int64) + 1, least
        )
        columns = _in_columns(codes)
        gaps = any((column < 0).any() for column in columns)
        self._words = _pack_rows(columns).to(device) if gaps else None
        self._columns = torch.from_numpy(columns).to(device)
        self._many = device.type == "cpu" and self.n_rows > ON_ONE_THREAD
        self._bitmaps: bitmaps.Bitmaps | None = None
        if device.type == "cpu" and bitmaps.AVAILABLE and self.n_rows:
            cost = bitmaps.WORDS_PER_ROW_OF_MANY if self._many else bitmaps.WORDS_PER_ROW
            self._bitmaps = bitmaps.Bitmaps(columns, self.levels, cost)

    def complete_rows(self, positions: IndexArray) -> IndexArray:
        """Counts the rows without a missing value among some variables, shape (B,).

        Args:
            positions: The variables of every test, shape (B, k).
        """
        rows = np.full(len(positions), self.n_rows)
        if self._words is None:
            return rows
        chunk = self.chunk(self._words.shape[1], bytes_per_element=BYTES_PER_WORD)
        for start in range(0, len(positions), chunk):
            first, *rest = self._on_device(positions[start : start + chunk].T)
            words = self._words.index_select(0, first)
            for column in rest:
                words &= self._words.index_select(0, column)
            rows[start : start + chunk] = _popcount(words).sum(dim=1).cpu().numpy()
        return rows

    def complete_codes(self, positions: IndexArray) -> IndexArray:
        """Returns the codes of the rows without a missing value among some variables, (n', k)."""
        codes = self._columns[torch.from_numpy(positions).to(self.device)].cpu().numpy().T
        return codes[(codes >= 0).all(axis=1)].astype(np.int64)

    def tables(
        self, x: IndexArray, y: IndexArray, given: IndexArray, shape: TableShape
    ) -> torch.Tensor:
        """Counts B tables, shape (configurations, rows, columns, B).

        Args:
            x: Positions of the row variables, shape (B,).
            y: Positions of the column variables, shape (B,).
            given: Positions of the conditioning sets, shape (B, l).
            shape: A shape that holds all tables.
        """
        # the variables in the order of their digits, and the base of each digit
        digits = np.vstack([given.T, x, y])
        sides = np.tile([[shape.rows], [shape.columns]], len(x))
        bases = np.vstack([self.levels[given.T], sides])
        counts = self._counts(digits, bases, np.full(len(x), shape.cells)).view(len(x), -1)
        return counts.T.reshape(shape.configurations, shape.rows, shape.columns, len(x))

    def whole_tables(self, sets: IndexArray) -> Iterator[tuple[slice, IndexArray]]:
        """Yields what `tables_here` does, as numpy has it."""
        for piece, counts in self.tables_here(sets):
            yield piece, host(counts)

    def tables_here(self, sets: IndexArray) -> Iterator[tuple[slice, Array]]:
        """Yields slices of C sets with the counts of their tables, one after the other.

        On a card the counts stay there.

        Args:
            sets: Positions, shape (C, k), k at least 1; of a table the last variable is fastest.
        """
        bases = self.levels[sets.T]
        cells = bases.prod(axis=0)
        starts = np.flatnonzero(np.diff(np.cumsum(cells) // self._piece_cells, prepend=-1))
        for start, stop in itertools.pairwise([*starts.tolist(), len(sets)]):
            piece = slice(start, stop)
            counts = self._once if self._many else self._counts
            tables = counts(sets[piece].T, bases[:, piece], cells[piece])
            yield piece, tables.numpy() if self.device.type == "cpu" else tables

    def _once(self, digits: IndexArray, bases: IndexArray, cells: IndexArray) -> torch.Tensor:
        """Counts as `_counts`, but tables of the same variables in several orders only once.

        Tests of the same variables differ in the pair that is tested given the others.
        """
        order = np.argsort(digits, axis=0)
        sets, set_of = np.unique(
            np.take_along_axis(digits, order, axis=0), axis=1, return_inverse=True
        )
        if sets.shape[1] == digits.shape[1]:
            return self._counts(digits, bases, cells)
        sides = self.levels[sets]
        sizes, set_of = sides.prod(axis=0), set_of.ravel()
        counted = self._counts(sets, sides, sizes)
        # stride of a digit in the order that is counted
        steps = sizes // np.cumprod(sides, axis=0)
        steps = np.take_along_axis(steps[:, set_of], np.argsort(order, axis=0), axis=0)
        remainder = np.arange(cells.sum()) - np.repeat(np.cumsum(cells) - cells, cells)
        cell = np.repeat((np.cumsum(sizes) - sizes)[set_of], cells)
        for base, step in zip(bases[::-1], steps[::-1], strict=True):
            remainder, digit = np.divmod(remainder, np.repeat(base, cells))
            cell += digit * np.repeat(step, cells)
        return counted[torch.from_numpy(cell)]

    def _counts(self, digits: IndexArray, bases: IndexArray, cells: IndexArray) -> torch.Tensor:
        """Counts B tables, one after the other, of variables and bases per digit (k, B)."""
        if self._bitmaps is None or not (few := self._bitmaps.faster(digits, bases)).any():
            return self._by_codes(digits, bases, cells)
        counted = self._bitmaps.counts(digits[:, few], bases[:, few])
        used = bases.prod(axis=0)
        if few.all() and (used == cells).all():
            return torch.from_numpy(counted)
        counts = np.zeros(cells.sum(), dtype=np.int64)
        within = np.arange(len(counts)) - np.repeat(np.cumsum(cells) - cells, cells)
        counts[np.repeat(few, cells) & (within < np.repeat(used, cells))] = counted
        by_codes = self._by_codes(digits[:, ~few], bases[:, ~few], cells[~few])
        counts[np.repeat(~few, cells)] = by_codes.numpy()
        return torch.from_numpy(counts)

    def _by_codes(self, digits: IndexArray, bases: IndexArray, cells: IndexArray) -> torch.Tensor:
        """Counts as `_counts`, by the joint code of every row."""
        if self._many:
            return self._one_by_one(digits, bases, cells)
        of_digit, of_base = self._on_device(digits), self._on_device(bases).to(torch.int32)
        chunk = self.chunk(self.n_rows, bytes_per_element=BYTES_PER_CODE)
        parts = []
        start = 0
        while start < len(cells):
            # as many tables as one int32 index can address
            fitting = int(np.searchsorted(np.cumsum(cells[start : start + chunk] + 1), MAX_CODE))
            stop = start + max(fitting, 1)
            part = slice(start, stop)
            parts.append(self._count(of_digit[:, part], of_base[:, part, None], cells[part]))
            start = stop
        return torch.cat(parts) if parts else of_digit.new_zeros(0)

    def _one_by_one(self, digits: IndexArray, bases: IndexArray, cells: IndexArray) -> torch.Tensor:
        """Counts as `_by_codes`, one table at a time, for many rows."""
        columns = self._columns.numpy()
        observed = None if self._words is None else self._words.numpy().view(np.uint8)
        counts = [
            joint_counts(columns, *table, observed)
            for table in zip(digits.T.tolist(), bases.T.tolist(), cells.tolist(), strict=True)
        ]
        return torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.int64), *counts]))

    def chunk(self, elements: int, *, bytes_per_element: int) -> int:
        """Returns how many tests of so many elements each are computed at a time."""
        most = most_elements(self.device, self._memory // bytes_per_element, ON_ONE_THREAD)
        return max(most // max(elements, 1), 1)

    def pair_counts(self, variables: IndexArray) -> PairCounts:
        """Counts all pairs of levels by one product of one-hot codes.

        Args:
            variables: Distinct positions.
        """
        levels = self.levels[variables]
        total = int(levels.sum())
        first = np.zeros(len(self.levels), dtype=np.int64)
        first[variables] = np.cumsum(levels) - levels
        exact = torch.float32 if self.n_rows < EXACT_IN_FLOAT32 else torch.float64
        matrix = torch.zeros((total + 1, total + 1), dtype=exact, device=self.device)
        block = max(self._memory // (BYTES_PER_LEVEL * (total + 1)), 1)
        level = torch.arange(int(levels.max()), device=self.device)[:, None]
        for start in range(0, self.n_rows, block):
            columns = self._columns[:, start : start + block]
            one_hot = matrix.new_empty((total + 1, columns.shape[1]))
            one_hot[total] = 0
            for variable, count in zip(variables.tolist(), levels.tolist(), strict=True):
                start_level = first[variable]
                one_hot[start_level : start_level + count] = columns[variable] == level[:count]
            matrix.addmm_(one_hot, one_hot.T)
        return PairCounts(matrix, torch.from_numpy(first).to(self.device))

    def tables_of_pairs(
        self, pairs: PairCounts, x: IndexArray, y: IndexArray, shape: TableShape
    ) -> torch.Tensor:
        """Returns the tables of empty conditioning sets, as `tables`, from `pair_counts`."""
        side = len(pairs.matrix)
        of_x, of_y = self._on_device(np.stack([x, y]))
        levels = self._on_device(self.levels)

        def level_index(variables: torch.Tensor, padded: int) -> torch.Tensor:
            level = torch.arange(padded, device=self.device)[:, None]
            inside = level < levels.index_select(0, variables)
            return torch.where(inside, pairs.first.index_select(0, variables) + level, side - 1)

        index = level_index(of_x, shape.rows)[:, None] * side + level_index(of_y, shape.columns)
        counts = pairs.matrix.view(-1).index_select(0, index.view(-1)).long()
        return counts.view(1, shape.rows, shape.columns, len(x))

    def sparse_table(self, x: int, y: int, given: IndexArray) -> SparseTable:
        """Counts the non-empty cells of one table by sorting, for many more cells than rows.

        Args:
            x: Position.
            y: Position.
            given: Positions, shape (l,).
        """
        columns = self._columns[torch.from_numpy(np.array([x, y, *given])).to(self.device)].long()
        of_x, of_y, *of_given = columns[:, (columns >= 0).all(dim=0)]
        config = torch.zeros_like(of_x)
        for position, column in zip(given.tolist(), of_given, strict=True):
            packed = config * int(self.levels[position]) + column
            config = torch.unique(packed, return_inverse=True)[1]
        slice_totals = torch.bincount(config)
        in_x, x_config, x_margins = _margin(config, of_x, int(self.levels[x]))
        in_y, y_config, y_margins = _margin(config, of_y, int(self.levels[y]))
        cells, counts = torch.unique(in_x * len(y_margins) + in_y, return_counts=True)
        cell_x, cell_y = cells // len(y_margins), cells % len(y_margins)
        return SparseTable(
            cells=counts,
            x_margin=x_margins[cell_x],
            y_margin=y_margins[cell_y],
            slice_total=slice_totals[x_config[cell_x]],
            x_margins=x_margins,
            y_margins=y_margins,
            slice_totals=slice_totals,
            x_levels=torch.bincount(x_config),
            y_levels=torch.bincount(y_config),
        )

    def _count(
        self, digits: torch.Tensor, radices: torch.Tensor, cells: IndexArray
    ) -> torch.Tensor:
        """Counts as `_counts`, by mixed-radix codes of all rows; radices int32, (k, B, 1)."""
        first, *rest = digits.unbind()
        code = self._mark_missing(self._wide(first))
        for digit, radix in zip(rest, radices.unbind()[1:], strict=True):
            code = self._mark_missing(self._wide(digit).addcmul_(code, radix))
        # incomplete rows carry the code -1 and go to one more cell in front of each table
        extra = 0 if self._words is None else 1
        widths = cells + extra
        ends = np.cumsum(widths)
        starts = self._on_device((ends - cells).astype(np.int32))
        code.add_(starts[:, None])
        counts = torch.bincount(code.view(-1), minlength=int(ends[-1]))
        if not extra:
            return counts
        of_complete_rows = torch.ones_like(counts, dtype=torch.bool)
        of_complete_rows[starts.long() - 1] = False
        return counts[of_complete_rows]

    def _wide(self, variables: torch.Tensor) -> torch.Tensor:
        """Widens the codes that are to be joined, int32 of shape (B, n)."""
        codes = self._columns.index_select(0, variables).to(torch.int32)
        return codes if self._words is None else codes.masked_fill_(codes < 0, MISSING)

    def _mark_missing(self, code: torch.Tensor) -> torch.Tensor:
        """Sets the codes of incomplete rows to -1, so that later digits leave them negative."""
        return code if self._words is None else code.clamp_(min=-1)

    def _on_device(self, positions: IndexArray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(positions)).to(self.device)


def _margin(
    config: torch.Tensor, column: torch.Tensor, levels: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers the margins (column, S): each row's, and configuration and count of each."""
    values, margin, counts = torch.unique(
        config * levels + column, return_inverse=True, return_counts=True
    )
    return margin, values // levels, counts


def _in_columns(codes: NDArray[np.integer]) -> NDArray[np.integer]:
    """Returns the codes by columns, shape (p, n), in the types of a site's table."""
    if codes.dtype in CODE_TYPES and codes.flags.f_contiguous and codes.flags.writeable:
        return codes.T
    kind = code_type(int(codes.max(initial=0)) + 1)
    columns = np.empty(codes.T.shape, dtype=kind)
    for column, whole in zip(columns, codes.T, strict=True):
        np.maximum(whole, -1, out=column, casting="unsafe")
    return columns


def _pack_rows(columns: NDArray[np.integer]) -> torch.Tensor:
    """Packs the rows in which each variable is observed into bits, int64 of shape (p, words)."""
    padded = np.zeros((len(columns), -(-columns.shape[1] // WORD) * 8), dtype=np.uint8)
    for bits, column in zip(padded, columns, strict=True):
        packed = np.packbits(column >= 0)
        bits[: len(packed)] = packed
    return torch.from_numpy(padded.view(np.int64))


def _popcount(words: torch.Tensor) -> torch.Tensor:
    """Counts the set bits of 64-bit words (Warren, Hacker's Delight, section 5-1)."""
    words = (words & 0x5555555555555555) + ((words >> 1) & 0x5555555555555555)
    words = (words & 0x3333333333333333) + ((words >> 2) & 0x3333333333333333)
    words = (words + (words >> 4)) & 0x0F0F0F0F0F0F0F0F
    for shift in (8, 16, 32):
        words = words + (words >> shift)
    return words & 0x7F
