"""Joint codes count one contingency table over many rows, a block of rows at a time.

A joint code has the smallest integer type that holds it, digit by digit: most operations are on
bytes, and no array is as long as the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import IndexArray
from cipherdag.sites.table.rows.stored import code_type

BLOCK_ROWS = 2**17
"""Fewest rows of a block, a multiple of 8: measured, a block fits the processor's cache."""


def joint_counts(
    columns: NDArray[np.integer],
    variables: list[int],
    bases: list[int],
    cells: int,
    observed: NDArray[np.uint8] | None,
) -> IndexArray:
    """Counts a table, the last variable fastest, shape (cells,).

    Args:
        columns: Codes of all variables, shape (p, n); negative where missing.
        variables: Variables of the table.
        bases: Number of values of each, more than its highest code.
        cells: Number of cells, at least the product of the bases.
        observed: Bits of the rows in which each variable is observed, shape (p, bytes); None where
            nothing is missing.
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
