"""What every question is made of: the layout of its answer, and the test that the sites use."""

from __future__ import annotations

import math
from itertools import chain, combinations
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from cipherdag.questions.ci_tests import CI_TESTS

FloatVector = NDArray[np.float64]
IndexArray = NDArray[np.int64]
BoolMatrix = NDArray[np.bool_]

MAX_VARIABLES = 10_000
FEWEST_KERNEL_ROWS = 10
MOST_KERNEL_ROWS = 20_000
"""A kernel matrix of more rows takes more than 3 GB."""


class Encoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``length`` values within ``bound``, on a grid of ``2**-resolution_bits``.

    With ``comparison`` the values are 0 or 1 and the sum only tells whether any site has 1.
    """

    length: int
    bound: float
    resolution_bits: int = 0
    comparison: bool = False


class CITestSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which conditional-independence test the sites use.

    Attributes:
        alpha: Independent iff p > alpha.
        name: One of `CI_TESTS`.
        dof: Degrees of freedom of the table tests, ``adjusted`` for empty margins or ``plain``.
        min_rows_per_cell: Below it a table test is unreliable and counts as dependent.
        constant: A variable with one value only at a site counts there as ``independent`` of all
            others by a table test (p = 1), or is ``untestable`` as it is for the other tests.
        kernel_rows: Most rows of a site that a kernel test looks at, evenly spaced.
    """

    alpha: float
    name: str = "auto"
    dof: Literal["adjusted", "plain"] = "adjusted"
    min_rows_per_cell: float = 5.0
    constant: Literal["independent", "untestable"] = "independent"
    kernel_rows: int = 1000

    def __post_init__(self) -> None:
        if self.name not in CI_TESTS:
            raise ValueError(f"there is no test named {self.name!r}")
        if not 0.0 < self.alpha < 1.0:
            raise ValueError("alpha must lie strictly between 0 and 1")
        if not 0.0 <= self.min_rows_per_cell < math.inf:
            raise ValueError("min_rows_per_cell must be a finite number >= 0")
        if not FEWEST_KERNEL_ROWS <= self.kernel_rows <= MOST_KERNEL_ROWS:
            raise ValueError(f"kernel_rows must lie in {FEWEST_KERNEL_ROWS}..{MOST_KERNEL_ROWS}")


def pack_integers(values: IndexArray) -> bytes:
    """Little-endian 64-bit integers, row by row: how integer arrays travel."""
    return np.ascontiguousarray(values, dtype="<i8").tobytes()


def unpack_integers(packed: bytes, shape: tuple[int, ...]) -> IndexArray:
    """Inverse of `pack_integers`; raises ValueError where the length does not fit ``shape``."""
    if len(packed) != 8 * math.prod(shape):
        raise ValueError("a packed array does not have the length its shape implies")
    return np.frombuffer(packed, dtype="<i8").astype(np.int64).reshape(shape)


def subsets(n: int, size: int) -> IndexArray:
    """All subsets of 0..n-1 of one size in lexicographic order, shape (comb(n, size), size)."""
    if size == 0:
        return np.zeros((1, 0), dtype=np.int64)
    flat = chain.from_iterable(combinations(range(n), size))
    return np.fromiter(flat, dtype=np.int64, count=math.comb(n, size) * size).reshape(-1, size)
