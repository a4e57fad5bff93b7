"""Constants and helpers shared by the two implementations of kernel tests.

`kernel_factors` computes with low-rank factors on a CPU, and `kernel_matrices` with full kernel
matrices on an accelerator.

Source: Zhang, Peters, Janzing and Schoelkopf, UAI 2011, and the authors' program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np

from cipherdag.arrays import FloatMatrix, IndexArray

RIDGE = 1e-3
"""Ridge penalty (epsilon in the paper) of the kernel ridge regression on Z."""
SCALE_OF_Z = 0.5
"""Factor by which Z is scaled in the kernel of x and Z together."""
WIDTHS = {"marginal": (0.8, 0.5, 0.3), "conditional": (1.2, 0.7, 0.4)}
"""Bandwidths in standard deviations for fewer than 200, fewer than 1200, and more rows."""
WIDTH_ROWS = (200, 1200)


class KernelMoments(Protocol):
    """Interface: computes test statistics and their null moments from one table's kernel matrices.

    Without Z, sum(K_x * K_y) has mean tr(K_x) tr(K_y) / n and variance 2 |K_x|^2 |K_y|^2 / n^2, of
    centred kernel matrices. Given Z, with P the elementwise product of R K_x R and R K_y R, sum(P)
    has mean tr(P) and variance 2 |P|^2. Norms are Frobenius norms (Zhang et al., section 3.4).
    """

    def moments(self, order: IndexArray) -> FloatMatrix:
        """Computes statistics and their means and variances under independence, shape (3, B).

        Args:
            order: Tests (x, y, z1, ..., zl) of the table's columns, shape (B, 2 + l).
        """


def inverse_square_width(kind: Literal["marginal", "conditional"], n_rows: int) -> float:
    """Returns 1 / w^2, with w the kernel bandwidth for ``n_rows`` rows."""
    return float(WIDTHS[kind][int(np.searchsorted(WIDTH_ROWS, n_rows, side="right"))] ** -2)


def tiles(pairs: IndexArray, side: int) -> Iterator[IndexArray]:
    """Yields the indices of the pairs in each tile.

    Args:
        pairs: Pairs (x, y), shape (B, 2).
        side: Most values of x, and of y, in one tile.
    """
    _, tile = np.unique(pairs // max(side, 1), axis=0, return_inverse=True)
    tile = tile.ravel()
    for number in range(int(tile.max()) + 1):
        yield np.flatnonzero(tile == number)
