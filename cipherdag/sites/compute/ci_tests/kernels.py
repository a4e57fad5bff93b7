"""What both ways to compute kernel tests share: the authors' choices, and blocks of tests.

Source: Zhang, Peters, Janzing and Schoelkopf, UAI 2011, and the authors' own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np

from cipherdag.arrays import FloatMatrix, IndexArray

RIDGE = 1e-3
"""e of the kernel ridge regression on Z."""
SHARE_OF_Z = 0.5
"""Z enters the kernel of x and Z multiplied by it."""
WIDTHS = {"marginal": (0.8, 0.5, 0.3), "conditional": (1.2, 0.7, 0.4)}
"""Kernel widths in standard deviations for fewer than 200, fewer than 1200, and more rows."""
WIDTH_ROWS = (200, 1200)


class KernelMoments(Protocol):
    """What the statistics of kernel tests over one table are, and are expected to be."""

    def moments(self, order: IndexArray) -> FloatMatrix:
        """Statistics, and their means and variances under independence, shape (3, B).

        Args:
            order: Tests (x, y, z1, ..., zl) of the table's columns, shape (B, 2 + l).
        """


def inverse_square_width(kind: Literal["marginal", "conditional"], n_rows: int) -> float:
    """1 / w^2 of tests over so many rows."""
    return float(WIDTHS[kind][int(np.searchsorted(WIDTH_ROWS, n_rows, side="right"))] ** -2)


def tiles(pairs: IndexArray, side: int) -> Iterator[IndexArray]:
    """Places of pairs (x, y), shape (B, 2), by blocks of at most so many x and so many y."""
    _, tile = np.unique(pairs // max(side, 1), axis=0, return_inverse=True)
    tile = tile.ravel()
    for number in range(int(tile.max()) + 1):
        yield np.flatnonzero(tile == number)
