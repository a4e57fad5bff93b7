"""Deterministic noise keyed by a site's secret and a digest of its rows: the cell-key method.

A question that is asked again, in a repeated run too, has the same noise, so the exact number
cannot be found by averaging.

Leaks:
    Nothing: it follows from all rows of the site together and from its key, which stay there.
    Without a key, as in a simulation, whoever guesses all rows can compute it.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray

BLOCK_ROWS = 2**16
VARIANCE_JITTER = 0.1  # largest relative change of a row's weight, or of a variance by one factor


@dataclass(frozen=True, slots=True, repr=False)
class Renamed:
    """A column whose codes are replaced by names before it is digested.

    ``names`` has those of the ``least`` code and of every one above it, int64.
    """

    codes: NDArray[np.integer]
    least: int
    names: NDArray[np.int64]


Digested: TypeAlias = "NDArray[Any] | Renamed | None"

Keyed: TypeAlias = "Callable[[bytes], bytes]"
"""Maps a digest of rows, by a site's key, to the 32 bytes from which numbers are drawn."""


def unkeyed(digest: bytes) -> bytes:
    """No key, as in a simulation: whoever guesses all rows can compute the noise."""
    return digest


def rows_digest(purpose: bytes, *arrays: Digested) -> bytes:
    """SHA-256 of arrays for one purpose: 32 bytes, which stay at the site.

    Codes count as int32, and rows in their order, however memory holds either.
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
    """The smallest code, at most 0, and of each code from it on the first row, n if none has it."""
    least, highest = int(column.min(initial=0)), int(column.max(initial=-1))
    first = np.full(highest - least + 1, len(column))
    for start in reversed(range(0, len(column), BLOCK_ROWS)):
        block = column[start : start + BLOCK_ROWS].astype(np.int64)
        # of the rows that have a code, the last to be written is the first
        first[block[::-1] - least] = np.arange(start, start + len(block))[::-1]
    return least, first


class CellKeys:
    """Uniform numbers that follow from a site's rows and key, whatever the columns' order."""

    def __init__(
        self,
        codes: NDArray[np.integer] | None,
        values: NDArray[np.float64] | None,
        keyed: Keyed = unkeyed,
    ) -> None:
        ranks: list[IndexArray] = []
        met: list[int] = []
        self._columns: list[bytes] = []
        width = next(array.shape[1] for array in (codes, values) if array is not None)
        for variable in range(width):
            parts: list[Digested] = []
            if codes is not None:
                least, first = first_met(codes[:, variable])
                when = first[-least:]
                ranks.append(_ranks(when))
                met.append(int((when < len(codes)).sum()))
                # a category's name is the first row that has it
                parts.append(Renamed(codes[:, variable], least, first))
            if values is not None:
                parts.append(values[:, variable])
            self._columns.append(rows_digest(b"cipherdag column", *parts))
        self._ranks, self._met = _in_rows(ranks), np.array(met, dtype=np.int64)
        ordered = sorted(self._columns)
        self._keyed = keyed
        self._digest = hashlib.sha256(b"cipherdag blur" + b"".join(ordered)).digest()

    def column(self, variable: int) -> bytes:
        """The digest that stands for a variable in a key."""
        return self._columns[variable]

    def met(self, variables: int | IndexArray) -> IndexArray:
        """The number of categories of each variable in the rows, in the shape of ``variables``."""
        return self._met[variables]

    def sign(self, *variables: int) -> float:
        """-1 for each variable of two categories whose first is met second, multiplied; else 1.

        It turns the noise of a number whose sign depends on the order of two categories.
        """
        turned = [v for v in variables if self._met[v] == 2 and self._ranks[v][0] != 0]  # noqa: PLR2004
        return -1.0 if len(turned) % 2 else 1.0

    def ranks(self, variables: int | IndexArray, categories: int) -> IndexArray:
        """The rank of every category by its first row, shape (..., categories)."""
        ranks = self._ranks[variables][..., :categories]
        beyond = np.arange(ranks.shape[-1], categories)
        unmet = np.broadcast_to(beyond, (*ranks.shape[:-1], len(beyond)))
        return np.concatenate([ranks, unmet], axis=-1)

    def __repr__(self) -> str:
        """Without the digest, from which the numbers follow."""
        return "CellKeys()"

    def noise(self, keys: Sequence[bytes], sizes: Sequence[int]) -> tuple[FloatVector, FloatVector]:
        """Noise for the parts of tests; equal keys always have equal noise.

        Factors of variances, (K,), and then as many numbers from -1 to 1 a key as ``sizes`` says.
        """
        state = self._keyed(self._digest) + b"each"
        asked = zip(keys, sizes, strict=True)
        drawn = [hashlib.shake_128(state + key).digest(4 * (2 + size)) for key, size in asked]
        numbers = (np.frombuffer(b"".join(drawn), dtype="<u4") + 0.5) / 2.0**31 - 1.0
        first = np.cumsum([0, *(2 + size for size in sizes)])[:-1]
        spreads = (1.0 + VARIANCE_JITTER * numbers[first[:, None] + np.arange(2)]).prod(axis=1)
        return spreads, np.delete(numbers, np.concatenate([first, first + 1]))

    def weights(self, rows: int) -> FloatVector:
        """Random weights of rows, shape (rows,): weighted sums do not disclose whole counts."""
        return 1.0 + VARIANCE_JITTER * self.uniform(b"row weights", (rows,))

    def uniform(self, about: bytes, shape: tuple[int, ...]) -> FloatVector:
        """Uniform numbers from -1 to 1 for one purpose, of this shape."""
        entropy = hashlib.sha256(self._keyed(self._digest) + about).digest()
        rng = np.random.default_rng(int.from_bytes(entropy, "big"))
        return rng.uniform(-1.0, 1.0, shape)


def _ranks(when: IndexArray) -> IndexArray:
    """The rank of every code by its first row."""
    ranks = np.empty(len(when), dtype=np.int64)
    ranks[np.argsort(when, kind="stable")] = np.arange(len(when))
    return ranks


def _in_rows(ranks: Sequence[IndexArray]) -> IndexArray:
    """Ranks of all variables, (p, widest); a shorter row is continued by its positions."""
    table = np.tile(np.arange(max(map(len, ranks), default=0)), (len(ranks), 1))
    for row, each in zip(table, ranks, strict=True):
        row[: len(each)] = each
    return table
