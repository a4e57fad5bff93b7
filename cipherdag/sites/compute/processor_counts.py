"""Contingency tables are counted on a processor by bitmaps of levels, or by joint codes of rows.

Every level of a variable is a bitmap of the rows that have it, 64 rows a word. The rows of a cell
are the intersection of the bitmaps of its levels, and that of a configuration is computed once for
all its cells: many times as fast as row by row, as long as a table has few cells. A joint code has
the smallest integer type that holds it, digit by digit: most operations are on bytes, and no array
is as long as the rows.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import IndexArray
from cipherdag.sites.table.stored_rows import code_type

Words = NDArray[np.uint64]

ROWS_PER_WORD = 64
MOST_LEVELS = 32
"""Levels of a variable: with more, bitmaps would take more memory than its codes do."""
CHUNK_WORDS = 2**16  # words of the cells' bitmaps at a time, so that they fit the processor's cache
BLOCK_WORDS = 256  # fewest words of one bitmap at a time, where it is longer
# measured, in words: the fixed cost of a cell, and the cost of a row of codes
WORDS_PER_CELL = 40
WORDS_PER_ROW = 1.4
WORDS_PER_ROW_OF_MANY = 0.7
"""The cost of a row where rows are many, so that codes are computed block by block."""
AVAILABLE = hasattr(np, "bitwise_count")  # whether numpy counts bits, as from version 2 on
BLOCK_ROWS = 2**17
"""Fewest rows of a block, a multiple of 8: measured, a block fits the processor's cache."""


class Bitmaps:
    """Every level of a variable is a bitmap of its rows, made when the variable is first counted.

    ``words_per_row`` is the cost of a row if tables are counted by codes.
    """

    def __init__(
        self, columns: NDArray[np.integer], levels: IndexArray, words_per_row: float = WORDS_PER_ROW
    ) -> None:
        self._columns = columns
        self._levels = np.where(levels <= MOST_LEVELS, levels, 0)
        # the first bitmap has no row: it serves the levels of padding
        self._first = np.cumsum(self._levels) - self._levels + 1
        self._made = np.zeros(len(levels), dtype=bool)
        rows = columns.shape[1]
        self._n_words = -(-rows // ROWS_PER_WORD)
        self._words = np.zeros((1 + self._levels.sum(), self._n_words), dtype=np.uint64)
        most = words_per_row * rows / (self._n_words + WORDS_PER_CELL)
        self._most_cells = min(most, CHUNK_WORDS // BLOCK_WORDS)

    def faster(self, digits: IndexArray, bases: IndexArray) -> NDArray[np.bool_]:
        """Estimates which tables bitmaps count faster than codes, shape (B,); see `counts`."""
        few = bases.prod(axis=0) <= self._most_cells
        return np.asarray(few & (self._levels[digits] > 0).all(axis=0))

    def counts(self, digits: IndexArray, bases: IndexArray) -> IndexArray:
        """Counts B tables, one after the other, of variables by digit, (k, B); the last is fastest.

        A base may exceed the levels of its variable; cells beyond the levels count 0.
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
        """Counts as `counts`, all tables at once."""
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
    """Counts the bits that the bitmaps of every cell of the last step have in common."""
    (_, bitmap), *rest = steps
    common = words[bitmap]
    for parent, bitmap in rest:
        both = words[bitmap]
        np.bitwise_and(both, common[parent], out=both)
        common = both
    return np.bitwise_count(common).sum(axis=1, dtype=np.int32)


def joint_counts(
    columns: NDArray[np.integer],
    variables: list[int],
    bases: list[int],
    cells: int,
    observed: NDArray[np.uint8] | None,
) -> IndexArray:
    """Counts a table of columns, shape (p, n), the last variable fastest, shape (cells,).

    ``observed`` are bits of the rows in which each variable is observed, (p, bytes); None without
    gaps. ``cells`` is at least the product of the bases.
    """
    counts = np.zeros(cells + 1, dtype=np.int64)
    complete = None if observed is None else np.bitwise_and.reduce(observed[variables], axis=0)
    # adding the counts of a block costs as much as some of its rows
    step = max(BLOCK_ROWS, -(-cells // 8) * 8)
    for start in range(0, columns.shape[1], step):
        rows = [columns[variable, start : start + step] for variable in variables]
        code = _joint(rows, bases).astype(code_type(cells), copy=False)
        if complete is not None:
            bits = complete[start // 8 : (start + step) // 8]
            code[np.unpackbits(bits, count=len(code)) == 0] = cells
        # torch's bincount would start threads, which takes longer than numpy counts
        counts += np.bincount(code, minlength=cells + 1)
    return counts[:cells]


def _joint(columns: list[NDArray[np.integer]], bases: list[int]) -> NDArray[np.integer]:
    """Computes the joint code of every row, shape (rows,); arbitrary where a value is missing."""
    code, size = columns[0].copy(), bases[0]
    for column, base in zip(columns[1:], bases[1:], strict=True):
        size *= base
        kind = code_type(size)
        code = code.astype(kind, copy=False)
        np.multiply(code, kind.type(base), out=code)
        np.add(code, column, out=code, casting="unsafe")
    return code
