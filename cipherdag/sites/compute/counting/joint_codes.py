"""Contingency counts of one table over many rows: joint codes, some rows at a time.

A joint code has the smallest type that holds it, digit by digit: most of the work is done on bytes,
and nothing as long as the rows is made.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import IndexArray
from cipherdag.sites.table.rows.stored import code_type

BLOCK_ROWS = 2**17
"""At least, a multiple of 8: measured, what is done to a block stays in the processor's cache."""


def joint_counts(
    columns: NDArray[np.integer],
    variables: list[int],
    bases: list[int],
    cells: int,
    observed: NDArray[np.uint8] | None,
) -> IndexArray:
    """Counts of a table, the last variable fastest, shape (cells,).

    Args:
        columns: Codes of all variables, shape (p, n); negative where missing.
        variables: Those of the table.
        bases: Of each, more than its highest code.
        cells: The bases' product at least.
        observed: Bits of the rows in which each variable is observed, shape (p, bytes); None where
            nothing is missing.
    """
    counts = np.zeros(cells + 1, dtype=np.int64)
    complete = None if observed is None else np.bitwise_and.reduce(observed[variables], axis=0)
    # adding up the counts of a block costs as much as some of its rows
    step = max(BLOCK_ROWS, -(-cells // 8) * 8)
    for start in range(0, columns.shape[1], step):
        rows = [columns[variable, start : start + step] for variable in variables]
        code = _joint(rows, bases).astype(code_type(cells), copy=False)
        if complete is not None:
            bits = complete[start // 8 : (start + step) // 8]
            code[np.unpackbits(bits, count=len(code)) == 0] = cells
        # torch's, of so many rows, wakes threads that wait longer than numpy counts
        counts += np.bincount(code, minlength=cells + 1)
    return counts[:cells]


def _joint(columns: list[NDArray[np.integer]], bases: list[int]) -> NDArray[np.integer]:
    """One code for every row, shape (rows,); any where a column misses a value."""
    code, size = columns[0].copy(), bases[0]
    for column, base in zip(columns[1:], bases[1:], strict=True):
        size *= base
        kind = code_type(size)
        code = code.astype(kind, copy=False)
        np.multiply(code, kind.type(base), out=code)
        np.add(code, column, out=code, casting="unsafe")
    return code
