"""Layout of questions and answers: packed arrays, and the segments of an answer."""

import math
from collections.abc import Sequence
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray, PositionRows
from cipherdag.errors import AggregateRangeError
from cipherdag.questions.disclosure import Disclosure

MAX_VARIABLES = 10_000
SIGNED_BITS = 52
"""Bits of a signed value: 256 sites' sums still fit one 64-bit word."""
LARGEST_DEVIATION = 1 << 16  # most units that a value may lie from the common centre of its column
LARGEST_UNIT = 1100
"""Largest binary exponent of a common unit, of either sign: that of any float is smaller."""
MOMENT_BITS = 66
"""Fractional bits of a sum over one declared row; each doubling of the rows takes one away."""


class Encoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``length`` values in 0..``bound``, on a grid of ``2**-resolution_bits``.

    Those that are ``signed`` lie in -``bound``..``bound``. With ``comparison`` the values are 0 or
    1 and the sum only tells whether any site has 1. With ``verdict`` no sum is opened: what
    comes back is 0 or 1 for every test, and a site answers other numbers (`questions.verdicts`).
    ``discloses`` lists all that is opened of the values.
    """

    length: int
    bound: float
    discloses: tuple[Disclosure, ...]
    resolution_bits: int = 0
    comparison: bool = False
    signed: bool = False
    verdict: bool = False


def finest_grid(bound: float) -> int:
    """Fractional bits of the finest grid on which values up to ``bound`` fit `SIGNED_BITS`."""
    return SIGNED_BITS - math.ceil(math.log2(bound))


def segments(encodings: Sequence[Encoding], sums: FloatVector) -> list[FloatVector]:
    """The sums over the sites, cut where the encodings of their question say."""
    return np.split(sums, np.cumsum([encoding.length for encoding in encodings])[:-1])


def require_possible(about: str, what: str, *, holds: object) -> None:
    """Refuse (AggregateRangeError) sums that each lie in their range, but no answers add up to.

    ``about`` is the label of what was asked, ``what`` the impossible thing that they would say.
    """
    if not holds:
        raise AggregateRangeError(f"no answers add up to the sums of '{about}': {what}")


def mean_of(total: FloatVector, count: FloatVector) -> FloatVector:
    """The totals divided by their counts; NaN where a count is 0."""
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def pack_floats(values: NDArray[np.float64]) -> bytes:
    """Little-endian 64-bit floats, row by row: how numbers of questions travel."""
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def unpack_floats(packed: bytes) -> FloatVector:
    """Inverse of `pack_floats`, as one vector."""
    return np.frombuffer(packed, dtype="<f8").astype(np.float64)


def pack_integers(values: IndexArray) -> bytes:
    """Little-endian 64-bit integers, row by row: how integer arrays travel."""
    return np.ascontiguousarray(values, dtype="<i8").tobytes()


def unpack_integers(packed: bytes, shape: tuple[int, ...]) -> IndexArray:
    """Inverse of `pack_integers`; raises ValueError where the length does not fit ``shape``."""
    if len(packed) != 8 * math.prod(shape):
        raise ValueError("a packed array does not have the length its shape implies")
    return np.frombuffer(packed, dtype="<i8").astype(np.int64).reshape(shape)


def pack_blocks(blocks: Sequence[IndexArray | PositionRows]) -> tuple[tuple[int, ...], bytes]:
    """The number of rows of every block but empty last ones, and all positions, two bytes each."""
    counts = [len(block) for block in blocks]
    while counts and counts[-1] == 0:
        counts.pop()
    packed = (np.ascontiguousarray(block, dtype="<u2").tobytes() for block in blocks)
    return tuple(counts), b"".join(packed)


def unpack_blocks(counts: tuple[int, ...], packed: bytes, narrowest: int) -> list[PositionRows]:
    """Inverse of `pack_blocks` for blocks of ``narrowest``, ``narrowest + 1``, ... columns."""
    blocks, start = [], 0
    for width, count in enumerate(counts, start=narrowest):
        block = np.frombuffer(packed, dtype="<u2", count=count * width, offset=2 * start)
        blocks.append(block.astype(np.uint16, copy=False).reshape(count, width))
        start += count * width
    return blocks


def position_sets(counts: tuple[int, ...], packed: bytes, narrowest: int) -> list[IndexArray]:
    """Unpack blocks as `unpack_blocks` does, into 64-bit positions that index arrays."""
    return [block.astype(np.int64) for block in unpack_blocks(counts, packed, narrowest)]


def check_blocks(
    counts: tuple[int, ...], packed: bytes, narrowest: int, *, most: int, n_variables: int
) -> None:
    """Raise ValueError unless these are packed positions of a study, of at most ``most`` blocks."""
    if len(counts) > most or min(counts, default=0) < 0:
        raise ValueError("counts must not be negative, nor a set larger than the study")
    if len(packed) != 2 * sum(n * size for size, n in enumerate(counts, start=narrowest)):
        raise ValueError("the packed sets do not have the length that counts implies")
    for rows in unpack_blocks(counts, packed, narrowest):
        if rows.size and int(rows.max()) >= n_variables:
            raise ValueError("a position lies beyond the variables")


def check_ascending(rows: IndexArray) -> None:
    """Raise ValueError unless the positions of every set ascend, shape (B, k)."""
    if (rows[:, 1:] <= rows[:, :-1]).any():
        raise ValueError("the members of a set must ascend")


def rows_of(families: Sequence[tuple[int, int, Sequence[IndexArray]]]) -> list[IndexArray]:
    """Rows (x, y, s1, ..., sl) by size l from the sets S by size of every family (x, y, sets)."""
    largest = max((len(sets) for _, _, sets in families), default=0)
    blocks = []
    for size in range(largest):
        having = [family for family in families if size < len(family[2])]
        pairs = np.array([family[:2] for family in having], dtype=np.int64)
        lengths = [len(family[2][size]) for family in having]
        given = np.concatenate([family[2][size] for family in having])
        blocks.append(np.column_stack([np.repeat(pairs, lengths, axis=0), given]))
    return blocks


def by_block(blocks: Sequence[IndexArray], values: NDArray[Any]) -> list[NDArray[Any]]:
    """Values of the rows of all blocks, one block after the other, cut as the blocks are."""
    return np.split(values, np.cumsum([len(block) for block in blocks])[:-1])


def by_owner(
    counts: Sequence[Sequence[int]], blocks: Sequence[FloatVector]
) -> list[list[FloatVector]]:
    """Cut blocks, one for each size, into what each owner has: ``counts[owner][size]`` values."""
    pieces = [
        iter(np.split(block, np.cumsum([sizes[size] for sizes in counts if size < len(sizes)])))
        for size, block in enumerate(blocks)
    ]
    return [[next(pieces[size]) for size in range(len(sizes))] for sizes in counts]


def subsets(n: int, size: int) -> IndexArray:
    """All subsets of 0..n-1 of one size in lexicographic order, shape (comb(n, size), size)."""
    if size == 0:
        return np.zeros((1, 0), dtype=np.int64)
    flat = chain.from_iterable(combinations(range(n), size))
    return np.fromiter(flat, dtype=np.int64, count=math.comb(n, size) * size).reshape(-1, size)


def moment_encoding(
    length: int, max_rows: int, discloses: tuple[Disclosure, ...], *, signed: bool = True
) -> Encoding:
    """Encoding of sums of products of two deviations over at most ``max_rows`` rows of a site."""
    return Encoding(
        length,
        float(max_rows) * LARGEST_DEVIATION**2,
        discloses,
        resolution_bits=MOMENT_BITS - math.ceil(math.log2(max_rows)),
        signed=signed,
    )


class OnScales:
    """Base of questions that move columns to common origins and divide them by common units."""

    __slots__ = ()

    if TYPE_CHECKING:
        origins: bytes
        units: bytes

    def origin_array(self) -> FloatVector:
        """The common origin that is subtracted from each column, shape (c,)."""
        return unpack_floats(self.origins)

    def unit_array(self) -> IndexArray:
        """The power of two that each column is then divided by, shape (c,)."""
        return np.frombuffer(self.units, dtype="<i8").astype(np.int64)

    def check_scales(self) -> None:
        """Raise ValueError unless origins are finite and no unit is beyond `LARGEST_UNIT`."""
        origins, units = self.origin_array(), self.unit_array()
        if not np.isfinite(origins).all() or (abs(units) > LARGEST_UNIT).any():
            raise ValueError("origins and units must be finite")
