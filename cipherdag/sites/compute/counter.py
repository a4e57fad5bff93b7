"""Counts the contingency tables of many small sets of discrete variables at once.

All counts are integers and do not depend on the method: bitmaps where a table has few cells,
packed mixed-radix codes, or sorting where it has far more cells than rows.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, IndexArray
from cipherdag.sites.compute.device import IN_CACHE, PROCESSOR, Device, most_elements, placed
from cipherdag.sites.compute.processor_counts import (
    AVAILABLE,
    WORDS_PER_ROW,
    WORDS_PER_ROW_OF_MANY,
    Bitmaps,
    joint_counts,
)
from cipherdag.sites.table.stored_rows import CODE_TYPES, code_type
from cipherdag.statistics.array_functions import Array, functions_of, host, indices, like, of_type
from cipherdag.statistics.contingency import SparseTable, TableShape

MAX_CELLS = 2**24  # of one table; padding at most doubles each of its three sides
MAX_CODE = 2**31 - 1  # one more than the largest code of a column
PIECE_CELLS = 2**20  # counted at a time on a processor
BYTES_PER_TABLE_CELL = 256  # on a card: the count, and the arrays that score tests make of it
BYTES_PER_CODE = 16
BYTES_PER_WORD = 32
WORD = 64  # rows of a word of bits


class DiscreteColumns:
    """Stores codes, (n, p), by columns on a device and counts their tables.

    Each step of counting takes ``memory_bytes`` at most, unless one table needs more.

    Attributes:
        levels: Highest code + 1 of every variable, at least 1 or the given number, shape (p,).
        n_rows: Number of rows, n.
    """

    def __init__(
        self,
        codes: NDArray[np.integer],
        device: Device,
        *,
        memory_bytes: int,
        levels: IndexArray | None = None,
    ) -> None:
        self.device = device
        self._memory = memory_bytes
        on_card = max(memory_bytes // BYTES_PER_TABLE_CELL, PIECE_CELLS)
        self._piece_cells = PIECE_CELLS if device == PROCESSOR else on_card
        self.n_rows = len(codes)
        least = 1 if levels is None else np.maximum(levels, 1)
        self.levels: IndexArray = np.maximum(
            codes.max(axis=0, initial=-1).astype(np.int64) + 1, least
        )
        columns = _in_columns(codes)
        gaps = any((column < 0).any() for column in columns)
        self._words = placed(_pack_rows(columns), device) if gaps else None
        self._columns: Array = placed(columns, device)
        self._many = device == PROCESSOR and self.n_rows > IN_CACHE
        self._bitmaps: Bitmaps | None = None
        if device == PROCESSOR and AVAILABLE and self.n_rows:
            cost = WORDS_PER_ROW_OF_MANY if self._many else WORDS_PER_ROW
            self._bitmaps = Bitmaps(columns, self.levels, cost)

    def complete_rows(self, positions: IndexArray) -> IndexArray:
        """Counts, for each of B tests, the rows that miss none of its variables, (B, k)."""
        rows = np.full(len(positions), self.n_rows)
        if self._words is None:
            return rows
        chunk = self.chunk(self._words.shape[1], bytes_per_element=BYTES_PER_WORD)
        for start in range(0, len(positions), chunk):
            first, *rest = like(positions[start : start + chunk].T, self._words)
            words = self._words[first]
            for column in rest:
                words &= self._words[column]
            rows[start : start + chunk] = host(_popcount(words).sum(axis=1))
        return rows

    def codes_and_rows(self, positions: IndexArray) -> tuple[IndexArray, BoolVector]:
        """Returns the codes, (n', k), of rows that miss none of some variables, and which, (n,)."""
        codes = host(self._columns[like(positions, self._columns)]).T
        complete: BoolVector = np.asarray((codes >= 0).all(axis=1))
        return codes[complete].astype(np.int64), complete

    def tables(self, x: IndexArray, y: IndexArray, given: IndexArray, shape: TableShape) -> Array:
        """Counts tables, (configurations, rows, columns, B), of x and y, (B,), given (B, l)."""
        # the variables in the order of their digits, and the base of each digit
        digits = np.vstack([given.T, x, y])
        sides = np.tile([[shape.rows], [shape.columns]], len(x))
        bases = np.vstack([self.levels[given.T], sides])
        counts = self._counts(digits, bases, np.full(len(x), shape.cells)).reshape(len(x), -1)
        return counts.T.reshape(shape.configurations, shape.rows, shape.columns, len(x))

    def whole_tables(self, sets: IndexArray) -> Iterator[tuple[slice, IndexArray]]:
        """Yields what `tables_here` does, as numpy arrays."""
        for piece, counts in self.tables_here(sets):
            yield piece, host(counts)

    def tables_here(self, sets: IndexArray) -> Iterator[tuple[slice, Array]]:
        """Yields slices of C sets, (C, k), with the counts of their tables, flat and in a row.

        The last variable of a set varies fastest; on a card the counts stay there.
        """
        bases = self.levels[sets.T]
        cells = bases.prod(axis=0)
        starts = np.flatnonzero(np.diff(np.cumsum(cells) // self._piece_cells, prepend=-1))
        for start, stop in itertools.pairwise([*starts.tolist(), len(sets)]):
            piece = slice(start, stop)
            counts = self._set_counts if self._many else self._counts
            yield piece, counts(sets[piece].T, bases[:, piece], cells[piece])

    def _set_counts(self, digits: IndexArray, bases: IndexArray, cells: IndexArray) -> Array:
        """Counts as `_counts`, but counts a set only once if it occurs in several orders."""
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
        return counted[cell]

    def _counts(self, digits: IndexArray, bases: IndexArray, cells: IndexArray) -> Array:
        """Counts B tables, flat, by variables and bases of digits, (k, B), padded to ``cells``."""
        if self._bitmaps is None or not (few := self._bitmaps.faster(digits, bases)).any():
            return self._by_codes(digits, bases, cells)
        counted = self._bitmaps.counts(digits[:, few], bases[:, few])
        used = bases.prod(axis=0)
        if few.all() and (used == cells).all():
            return counted
        counts = np.zeros(cells.sum(), dtype=np.int64)
        within = np.arange(len(counts)) - np.repeat(np.cumsum(cells) - cells, cells)
        counts[np.repeat(few, cells) & (within < np.repeat(used, cells))] = counted
        by_codes = self._by_codes(digits[:, ~few], bases[:, ~few], cells[~few])
        counts[np.repeat(~few, cells)] = by_codes
        return counts

    def _by_codes(self, digits: IndexArray, bases: IndexArray, cells: IndexArray) -> Array:
        """Counts as `_counts`, by the joint code of every row."""
        if self._many:
            return self._one_by_one(digits, bases, cells)
        chunk = self.chunk(self.n_rows, bytes_per_element=BYTES_PER_CODE)
        parts = [
            self._count(*(array[..., start : start + chunk] for array in (digits, bases, cells)))
            for start in range(0, len(cells), chunk)
        ]
        none = like(np.zeros(0, dtype=np.int64), self._columns)
        return functions_of(none).concatenate([none, *parts])

    def _one_by_one(self, digits: IndexArray, bases: IndexArray, cells: IndexArray) -> Array:
        """Counts as `_by_codes`, one table at a time, for many rows."""
        observed = None if self._words is None else self._words.view(np.uint8)
        counts = [
            joint_counts(self._columns, *table, observed)
            for table in zip(digits.T.tolist(), bases.T.tolist(), cells.tolist(), strict=True)
        ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *counts])

    def chunk(self, elements: int, *, bytes_per_element: int) -> int:
        """Returns how many tests, each of ``elements`` elements, are computed at a time."""
        most = most_elements(self.device, self._memory // bytes_per_element, IN_CACHE)
        return max(most // max(elements, 1), 1)

    def sparse_table(self, x: int, y: int, given: IndexArray) -> SparseTable:
        """Counts the non-empty cells of one table by sorting, for many more cells than rows."""
        positions, xp = np.array([x, y, *given]), functions_of(self._columns)
        columns = indices(self._columns[like(positions, self._columns)])
        of_x, of_y, *of_given = columns[:, (columns >= 0).all(axis=0)]
        config = xp.zeros_like(of_x)
        for position, column in zip(given.tolist(), of_given, strict=True):
            packed = config * int(self.levels[position]) + column
            config = xp.unique(packed, return_inverse=True)[1]
        slice_totals = xp.bincount(config)
        in_x, x_slices, x_margins = _margin(config, of_x, int(self.levels[x]))
        in_y, y_slices, y_margins = _margin(config, of_y, int(self.levels[y]))
        cells, counts = xp.unique(in_x * len(y_margins) + in_y, return_counts=True)
        cell_x, cell_y = cells // len(y_margins), cells % len(y_margins)
        return SparseTable(
            cells=counts,
            x_margin=x_margins[cell_x],
            y_margin=y_margins[cell_y],
            slice_total=slice_totals[x_slices[cell_x]],
            x_margins=x_margins,
            y_margins=y_margins,
            slice_totals=slice_totals,
            x_slices=x_slices,
            y_slices=y_slices,
        )

    def _count(self, digits: IndexArray, bases: IndexArray, cells: IndexArray) -> Array:
        """Counts as `_counts`, by mixed-radix codes of all rows, in a type that holds them."""
        kind, total = code_type(int(cells.max())).name, int(cells.sum())
        first, *rest = like(digits, self._columns)
        code = self._columns[first]
        missing = None if self._words is None else code < 0
        code = of_type(code, kind)
        for digit, radix in zip(rest, of_type(like(bases[1:, :, None], code), kind), strict=True):
            column = self._columns[digit]
            code *= radix
            code += column
            if missing is not None:
                missing |= column < 0
        code = code + like(np.cumsum(cells) - cells, code)[:, None]
        if missing is not None:  # incomplete rows go to one more cell
            code[missing] = total
        return functions_of(code).bincount(code.reshape(-1), minlength=total + 1)[:total]


def _margin(config: Array, column: Array, levels: int) -> tuple[Array, Array, Array]:
    """Returns each row's non-empty cell of ``column`` by S, and the cells' strata and counts."""
    values, margin, counts = functions_of(config).unique(
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


def _pack_rows(columns: NDArray[np.integer]) -> IndexArray:
    """Packs one bit a row, 1 where the variable is observed, into int64 of shape (p, words)."""
    padded = np.zeros((len(columns), -(-columns.shape[1] // WORD) * 8), dtype=np.uint8)
    for bits, column in zip(padded, columns, strict=True):
        packed = np.packbits(column >= 0)
        bits[: len(packed)] = packed
    return padded.view(np.int64)


def _popcount(words: Array) -> Array:
    """Counts the set bits of 64-bit words (Warren, Hacker's Delight, section 5-1)."""
    words = (words & 0x5555555555555555) + ((words >> 1) & 0x5555555555555555)
    words = (words & 0x3333333333333333) + ((words >> 2) & 0x3333333333333333)
    words = (words + (words >> 4)) & 0x0F0F0F0F0F0F0F0F
    for shift in (8, 16, 32):
        words = words + (words >> shift)
    return words & 0x7F
