"""A digest of all rows of a site, from which, with its key, the numbers follow that it draws."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

BLOCK_ROWS = 2**16


@dataclass(frozen=True, slots=True, repr=False)
class Renamed:
    """A column of codes in which every code is called otherwise.

    Attributes:
        codes: Shape (n,).
        least: The smallest code.
        names: What ``least`` and every code above it is called, int64.
    """

    codes: NDArray[np.integer]
    least: int
    names: NDArray[np.int64]


Digested: TypeAlias = "NDArray[Any] | Renamed | None"

Keyed: TypeAlias = "Callable[[bytes], bytes]"
"""From a digest of rows to the 32 bytes that numbers are drawn from, by the key of a site."""


def unkeyed(digest: bytes) -> bytes:
    """No key, as in a simulation: whoever tries the right rows computes what is drawn of them."""
    return digest


def rows_digest(purpose: bytes, *arrays: Digested) -> bytes:
    """SHA-256 of arrays for one purpose: 32 bytes, which stay at the site.

    Codes count as int32, in whichever type they are held, and rows in their order, in whichever
    order memory has them.
    """
    state = hashlib.sha256(purpose)
    for array in arrays:
        for content in row_bytes(array):
            state.update(content)
    return state.digest()


def row_bytes(array: Digested) -> Iterator[bytes | memoryview]:
    """The byte length of an array as 8 bytes, and then its bytes, some rows at a time."""
    content = np.zeros(0) if array is None else array
    held = content.codes if isinstance(content, Renamed) else content
    kind = _counted_as(content)
    yield (held.size * kind.itemsize).to_bytes(8, "big")
    for start in range(0, len(held), BLOCK_ROWS):
        block = held[start : start + BLOCK_ROWS]
        if isinstance(content, Renamed):
            block = content.names[block.astype(np.int64) - content.least]
        yield np.ascontiguousarray(block, dtype=kind).reshape(-1).view(np.uint8).data


def _counted_as(content: NDArray[Any] | Renamed) -> np.dtype[Any]:
    if isinstance(content, Renamed):
        return content.names.dtype
    small = content.dtype.kind == "i" and content.dtype.itemsize < np.dtype(np.int32).itemsize
    return np.dtype(np.int32) if small else content.dtype


def first_met(column: NDArray[np.integer]) -> tuple[int, NDArray[np.int64]]:
    """The smallest code, 0 at most, and of every one from it on the first row, n where none is."""
    least, highest = int(column.min(initial=0)), int(column.max(initial=-1))
    first = np.full(highest - least + 1, len(column))
    for start in reversed(range(0, len(column), BLOCK_ROWS)):
        block = column[start : start + BLOCK_ROWS].astype(np.int64)
        # of the rows that have a code, the last to be written is the first
        first[block[::-1] - least] = np.arange(start, start + len(block))[::-1]
    return least, first
