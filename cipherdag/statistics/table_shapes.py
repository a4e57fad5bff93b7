"""Shapes of contingency tables, and batches of tables of different sides in one shape.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import IndexArray

# measured: one more bucket of tables costs as much as this many empty cells
CELLS_PER_BUCKET = 30_000


@dataclass(frozen=True, slots=True)
class TableShape:
    """Common shape of a batch of tables, each padded with empty cells.

    Attributes:
        configurations: Joint levels of the conditioning set.
        rows: Levels of x.
        columns: Levels of y.
    """

    configurations: int
    rows: int
    columns: int

    @property
    def cells(self) -> int:
        """Number of cells of one table."""
        return self.configurations * self.rows * self.columns

    @classmethod
    def holding(cls, sides: IndexArray) -> TableShape:
        """The smallest shape that holds tables of these sides, shape (B, 3)."""
        return cls(*sides.max(axis=0).tolist())


def buckets(sides: IndexArray) -> Iterator[tuple[IndexArray, TableShape]]:
    """Divide tables into buckets of similar shape, few enough and with little padding.

    Args:
        sides: Configurations, rows and columns of every table, shape (B, 3).

    Yields:
        The tables of a bucket, as places in the batch, and the shape that holds them all.
    """
    if not len(sides):
        return
    octave = np.ceil(np.log2(sides)).astype(np.int64) @ np.array([1, 2**5, 2**10])
    order = np.argsort(octave, kind="stable")
    ends = [*(np.flatnonzero(np.diff(octave[order])) + 1).tolist(), len(sides)]
    start = end = 0
    shape = TableShape(0, 0, 0)
    for stop in ends:
        more = TableShape.holding(sides[order[end:stop]])
        both = TableShape.holding(sides[order[start:stop]])
        apart = (end - start) * shape.cells + (stop - end) * more.cells
        if end > start and (stop - start) * both.cells - apart > CELLS_PER_BUCKET:
            yield order[start:end], shape
            start, both = end, more
        end, shape = stop, both
    if end > start:
        yield order[start:end], shape
