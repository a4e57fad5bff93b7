"""What every question is made of: arrays, and the layout of its answer."""

from __future__ import annotations

import math
from itertools import chain, combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

FloatVector = NDArray[np.float64]
IndexArray = NDArray[np.int64]
BoolMatrix = NDArray[np.bool_]

MAX_VARIABLES = 10_000


class Encoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``length`` values within ``bound``, on a grid of ``2**-resolution_bits``.

    With ``comparison`` the values are 0 or 1 and the sum only tells whether any site has 1.
    """

    length: int
    bound: float
    resolution_bits: int = 0
    comparison: bool = False


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
