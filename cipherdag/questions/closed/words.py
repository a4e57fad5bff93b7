"""What questions of verdicts are made of: whole numbers on a grid, and one bit a test."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import ParameterError
from cipherdag.questions.encodings import Encoding

SUM_BITS = 35
"""Bits of a sum at most: longer ones turn no verdict, and make keys longer."""


def on_grid(values: FloatVector, bits: int, largest: int) -> IndexArray:
    """Values in steps of ``2**-bits``, none larger than ``largest`` in size."""
    steps = np.rint(np.ldexp(values, bits))
    return np.clip(steps, -largest, largest).astype(np.int64)


def one_bit_each(count: int) -> tuple[Encoding, ...]:
    """The encoding of so many verdicts."""
    return (Encoding(length=count, bound=1.0, verdict=True),)


def finest(
    largest: Callable[[int], int], n_sites: int, otherwise: str, *, most: int = SUM_BITS - 1
) -> tuple[int, int]:
    """A site's largest amount on the finest grid whose sums have `SUM_BITS` bits, and the grid.

    Args:
        largest: What it is on a grid of ``2**-bits``.
        n_sites: How many sites there are.
        otherwise: What to say where no grid is coarse enough.
        most: Bits of the grid at most.

    Raises:
        ParameterError: No grid is coarse enough.
    """
    for bits in range(most, -1, -1):
        own = largest(bits)
        if own * n_sites < 1 << SUM_BITS - 1:
            return own, bits
    raise ParameterError(otherwise)
