"""Contingency counts of small tables, by bits: 64 rows at a time.

Every level of a variable is a bitmap of the rows that have it. The rows of a cell are what the
bitmaps of its levels have in common, and those of its configuration are made once for all cells
that go on from it. On a processor it is many times as fast as adding up row by row, as long as a
table has few cells.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import IndexArray

Words = NDArray[np.uint64]

ROWS_PER_WORD = 64
MOST_LEVELS = 32
"""Of a variable: with more, bitmaps would take more memory than its codes do."""
CHUNK_WORDS = 2**16
"""Of the cells' bitmaps at a time, so that they stay in the processor's cache."""
BLOCK_WORDS = 256
"""Of one bitmap at a time, at least, where it is longer."""
# measured: what a cell costs beside its words, and what a row of codes costs, in words
WORDS_PER_CELL = 40
WORDS_PER_ROW = 1.4
WORDS_PER_ROW_OF_MANY = 0.7
"""Where a table's rows are so many that they are joined block by block."""
AVAILABLE = hasattr(np, "bitwise_count")
"""From numpy 2 on."""


class Bitmaps:
    """The levels of one data set as bits; those of a variable are made when it is first counted.

    Args:
        columns: Codes, negative where missing, shape (p, n).
        levels: Levels of every variable, shape (p,).
        words_per_row: What a row costs otherwise.
    """

    def __init__(
        self,
        columns: NDArray[np.integer],
        levels: IndexArray,
        words_per_row: float = WORDS_PER_ROW,
    ) -> None:
        self._columns = columns
        self._levels = np.where(levels <= MOST_LEVELS, levels, 0)
        # in front of all stands a bitmap of no row, for levels that only padding has
        self._first = np.cumsum(self._levels) - self._levels + 1
        self._made = np.zeros(len(levels), dtype=bool)
        rows = columns.shape[1]
        self._n_words = -(-rows // ROWS_PER_WORD)
        self._words = np.zeros((1 + self._levels.sum(), self._n_words), dtype=np.uint64)
        most = words_per_row * rows / (self._n_words + WORDS_PER_CELL)
        self._most_cells = min(most, CHUNK_WORDS // BLOCK_WORDS)

    def faster(self, digits: IndexArray, bases: IndexArray) -> NDArray[np.bool_]:
        """Which tables are counted faster here than by codes, shape (B,); see `counts`."""
        few = bases.prod(axis=0) <= self._most_cells
        return np.asarray(few & (self._levels[digits] > 0).all(axis=0))

    def counts(self, digits: IndexArray, bases: IndexArray) -> IndexArray:
        """Counts of B tables, one after the other; the last digit is fastest.

        Args:
            digits: The variable of every digit, shape (k, B).
            bases: How many values every digit has, shape (k, B); those that are no level have no
                row.
        """
        for variable in np.unique(digits[~self._made[digits]]).tolist():
            self._make(variable)
        most = CHUNK_WORDS // min(self._n_words, BLOCK_WORDS)
        filled = np.cumsum(bases.prod(axis=0)) // most
        cuts = [*np.flatnonzero(np.diff(filled, prepend=-1)).tolist(), len(filled)]
        parts = (slice(*ends) for ends in itertools.pairwise(cuts))
        return np.concatenate([self._chunk(digits[:, part], bases[:, part]) for part in parts])

    def _make(self, variable: int) -> None:
        first, column = self._first[variable], self._columns[variable]
        packed = self._words.view(np.uint8)
        for level in range(self._levels[variable]):
            bits = np.packbits(column == level)
            packed[first + level, : len(bits)] = bits
        self._made[variable] = True

    def _chunk(self, digits: IndexArray, bases: IndexArray) -> IndexArray:
        """As `counts`, at once."""
        steps, table = [], np.arange(digits.shape[1])
        for variables, sides in zip(digits, bases, strict=True):
            repeats = sides[table]
            parent, table = np.repeat(np.arange(len(table)), repeats), np.repeat(table, repeats)
            level = np.arange(len(table)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
            variable = variables[table]
            bitmap = np.where(level < self._levels[variable], self._first[variable] + level, 0)
            steps.append((parent, bitmap))
        counts = np.zeros(len(table), dtype=np.int64)
        block = max(CHUNK_WORDS // len(table), BLOCK_WORDS)
        for start in range(0, self._n_words, block):
            counts += _rows_in_common(self._words[:, start : start + block], steps)
        return counts


def _rows_in_common(words: Words, steps: list[tuple[IndexArray, IndexArray]]) -> IndexArray:
    """How many bits the bitmaps on the way to every cell of the last step have in common."""
    (_, bitmap), *rest = steps
    common = words[bitmap]
    for parent, bitmap in rest:
        both = words[bitmap]
        np.bitwise_and(both, common[parent], out=both)
        common = both
    return np.bitwise_count(common).sum(axis=1, dtype=np.int32)
