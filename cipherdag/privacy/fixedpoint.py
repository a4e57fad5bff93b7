"""Real answers as residues that add up, and back: the one place where rounding happens.

A value x of a segment becomes the integer ``rint(x * 2**resolution_bits)``. Where the sum over the
cohort does not fit one residue, the integer travels as residues modulo several moduli. The sum of
the integers is therefore exact, and the aggregate bit-identical under every protection.

The residues of one modulus form a plane: all values first, small ones several to a word
(`Packing`), then those that need a second modulus, and so on. Every row of 4096 words of a plane
starts with a head: a check word, and room for tags that show the sites that a sum is theirs
(`homomorphic_mac`). A check word is zero at every site; in a sum in which a share is missing,
foreign or garbled it is random.

Leaks:
    The sum of the integers, and nothing else; of a comparison only whether it is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, WordVector
from cipherdag.errors import AggregateRangeError, BoundExceededError, ParameterError, ShareError
from cipherdag.privacy.aggregation import Aggregate, Declaration, Segment
from cipherdag.privacy.homomorphic_mac import ROW_WORDS, head_words
from cipherdag.privacy.residues import (
    Draw,
    Moduli,
    Packing,
    from_whole,
    impossible,
    pack,
    recombine,
    system_words,
    to_signed,
    uniform,
    unpack,
)

Scalar = TypeVar("Scalar", bound=np.generic)

DIGEST_BYTES = 32
MAX_RESOLUTION_BITS = 512
MAX_TOTAL = 1 << 106
"""Largest sum in units of its grid that every protection can carry: all have one limit."""

_INT64_LIMIT = 1 << 63


def plane_lengths(declaration: Declaration, moduli: Moduli) -> tuple[int, ...]:
    """Number of words in the plane of each modulus, heads included.

    A function of public parameters only. Raises ParameterError where the declaration is impossible,
    or too large for the moduli.
    """
    return _Layout.of(declaration, moduli).plane_lengths


def encode(
    answer: FloatVector,
    declaration: Declaration,
    moduli: Moduli,
    *,
    random_words: Draw = system_words,
) -> WordVector:
    """An answer as residues, plane after plane.

    The answer has shape (declaration.length,), float64, finite, within its bounds, else a
    BoundExceededError without the value; 0 or 1 in comparison segments, whose nonzero words come
    from ``random_words``. Words have shape (sum(plane_lengths(declaration, moduli)),), each below
    its plane's modulus; heads are zero. Raises ParameterError as `plane_lengths`.
    """
    layout = _Layout.of(declaration, moduli)
    _check(answer, declaration)
    whole = np.rint(answer * layout.per_value([2.0**bits for bits in layout.bits], np.float64))
    planes: list[WordVector] = []
    for position, modulus in enumerate(moduli):
        words = from_whole(layout.longer(whole, position), modulus, wide=layout.wide)
        if position == 0 and any(layout.compared):
            # every comparison draws a word, so that the time taken does not tell the answers
            compared = layout.per_value(layout.compared, np.bool_)
            words[compared] *= uniform(random_words, int(compared.sum()), modulus, nonzero=True)
        if position == 0:
            words = pack(words, layout.packings, modulus)
        planes.append(_with_heads(words, layout.plane_lengths[position], head_words(modulus)))
    return np.concatenate(planes)


def decode(content: bytes, declaration: Declaration, moduli: Moduli) -> Aggregate:
    """The aggregate that summed words stand for.

    The content has the sums of all sites' words, reduced, as `words_to_bytes` yields them. Raises
    ShareError where the sum has another length than declared, and AggregateRangeError where a check
    word is not zero, a word not reduced, or a sum is one that the cohort cannot produce.
    """
    layout = _Layout.of(declaration, moduli)
    planes = _planes(content, layout, moduli)
    planes[0] = unpack(planes[0], layout.packings, moduli[0], declaration.cohort_size)
    values = _values(planes, layout, moduli)
    return Aggregate(values=values, content=content)


def _planes(content: bytes, layout: _Layout, moduli: Moduli) -> list[WordVector]:
    words = words_from_bytes(content, sum(layout.plane_lengths))
    planes = []
    for plane, modulus in zip(
        np.split(words, np.cumsum(layout.plane_lengths)[:-1]), moduli, strict=True
    ):
        if plane[::ROW_WORDS].any() or (plane > np.uint64(modulus - 1)).any():
            raise AggregateRangeError("the sum is not one of the shares it claims to cover")
        planes.append(_without_heads(plane, head_words(modulus)))
    return planes


def words_from_bytes(content: bytes, count: int) -> WordVector:
    """Words of shape (count,), 8 little-endian bytes each; raises ShareError at another length."""
    if len(content) != 8 * count:
        raise ShareError(f"cut short or too long: {len(content)} bytes instead of {8 * count}")
    return np.frombuffer(content, dtype="<u8").astype(np.uint64, copy=False)


def words_to_bytes(words: WordVector) -> bytes:
    """Words as 8 little-endian bytes each."""
    return words.astype("<u8", copy=False).tobytes()


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of a declaration's values in planes; all but the last two are given per segment.

    ``totals`` and ``least`` bound sums over the cohort in units of the grid, ``counts`` says how
    many residues a value has, and ``wide`` whether one site's integer may reach 2**63.
    """

    lengths: tuple[int, ...]
    compared: tuple[bool, ...]
    bits: tuple[int, ...]
    totals: tuple[int, ...]
    least: tuple[int, ...]
    counts: tuple[int, ...]
    packings: tuple[Packing, ...]
    wide: bool
    plane_lengths: tuple[int, ...]

    @classmethod
    def of(cls, declaration: Declaration, moduli: Moduli) -> _Layout:
        if len(declaration.digest) != DIGEST_BYTES or declaration.cohort_size < 1:
            raise ParameterError("a declaration needs a 32-byte digest and at least one site")
        segments = declaration.segments
        bounds = [_whole_bound(segment) for segment in segments]
        totals = tuple(declaration.cohort_size * bound for bound in bounds)
        counts = tuple(_residues_needed(total, moduli) for total in totals)
        lengths = tuple(segment.length for segment in segments)
        packings = tuple(
            _packing(segment, declaration.cohort_size, bound, count, moduli[0])
            for segment, bound, count in zip(segments, bounds, counts, strict=True)
        )
        whole = [
            sum(n for n, count in zip(lengths, counts, strict=True) if count > position)
            for position in range(1, len(moduli))
        ]
        values = [sum(packing.words for packing in packings), *whole]
        heads = [head_words(modulus) for modulus in moduli]
        rows = [-(-n // (ROW_WORDS - head)) for n, head in zip(values, heads, strict=True)]
        rows[0] = max(rows[0], 1)
        return cls(
            lengths=lengths,
            compared=tuple(segment.comparison for segment in segments),
            bits=tuple(0 if s.comparison else s.resolution_bits for s in segments),
            totals=totals,
            least=tuple(
                -total if segment.signed else 0
                for segment, total in zip(segments, totals, strict=True)
            ),
            counts=counts,
            packings=packings,
            wide=max(bounds, default=0) >= _INT64_LIMIT,
            plane_lengths=tuple(
                n + row * head for n, row, head in zip(values, rows, heads, strict=True)
            ),
        )

    def longer(self, values: FloatVector, count: int) -> FloatVector:
        """Returns the values that need more than ``count`` residues."""
        chosen = [n_planes > count for n_planes in self.counts]
        return values if all(chosen) else values[self.per_value(chosen, np.bool_)]

    def per_value(self, per_segment: Sequence[object], kind: type[Scalar]) -> NDArray[Scalar]:
        """Every segment's entry repeated over its values."""
        return np.repeat(np.array(per_segment, dtype=kind), self.lengths)


def _whole_bound(segment: Segment) -> int:
    """Largest integer that stands for a value of the segment; raises ParameterError."""
    bound, bits = segment.bound, segment.resolution_bits
    if segment.length < 0 or not 0.0 <= bound < math.inf or not 0 <= bits <= MAX_RESOLUTION_BITS:
        raise ParameterError(
            "a segment needs a length >= 0, a finite bound >= 0 and a resolution of "
            f"0..{MAX_RESOLUTION_BITS} bits"
        )
    if segment.comparison:
        return 1
    numerator, denominator = float(bound).as_integer_ratio()
    return -(-(numerator << bits) // denominator)


def _packing(segment: Segment, n_sites: int, bound: int, count: int, modulus: int) -> Packing:
    """Values of one residue share words; a comparison, or a larger value, has a word alone.

    The base is twice the number of possible sums, so that most impossible sums are noticed.
    """
    lowest = -bound if segment.signed else 0
    alone = count > 1 or segment.comparison
    base = modulus if alone else 2 * (n_sites * (bound - lowest) + 1)
    return Packing.of(segment.length, base, lowest, modulus)


def _residues_needed(total: int, moduli: Moduli) -> int:
    for count in range(1, len(moduli) + 1):
        if total <= MAX_TOTAL and 2 * total < math.prod(moduli[:count]):
            return count
    raise ParameterError(
        "a segment's bound and resolution are too large to sum over the cohort",
        remedy="Declare a smaller bound or a coarser resolution.",
    )


def _check(answer: FloatVector, declaration: Declaration) -> None:
    if answer.shape != (declaration.length,) or answer.dtype != np.float64:
        raise BoundExceededError("the answer is not a float64 vector of the declared length")
    start = 0
    for position, segment in enumerate(declaration.segments):
        values = answer[start : start + segment.length]
        start += segment.length
        if segment.comparison:
            allowed = (values == 0.0) | (values == 1.0)
        else:
            # a value slightly below 0 that rounds to 0 is allowed
            lowest = -segment.bound if segment.signed else -(2.0 ** -(segment.resolution_bits + 1))
            allowed = (lowest <= values) & (values <= segment.bound)
        if not allowed.all():
            raise BoundExceededError(
                f"segment {position} of the answer has a value that is not finite or lies "
                "outside the declared bound"
            )


def _with_heads(words: WordVector, length: int, head: int) -> WordVector:
    plane = np.zeros(length, dtype=np.uint64)
    for row, start in enumerate(range(0, words.size, ROW_WORDS - head)):
        part = words[start : start + ROW_WORDS - head]
        plane[row * ROW_WORDS + head :][: part.size] = part
    return plane


def _without_heads(plane: WordVector, head: int) -> WordVector:
    starts = range(0, plane.size, ROW_WORDS)
    rows = (plane[start + head : start + ROW_WORDS] for start in starts)
    return np.concatenate([plane[:0], *rows])


def _values(planes: list[WordVector], layout: _Layout, moduli: Moduli) -> FloatVector:
    """Signed sums of all values, within their range and divided by their grid."""
    counts = layout.per_value(layout.counts, np.int64)
    compared = layout.per_value(layout.compared, np.bool_)
    signed = to_signed(planes[0], moduli[0])
    most, least = (
        layout.per_value(
            [n if count == 1 else 0 for n, count in zip(limits, layout.counts, strict=True)],
            np.int64,
        )
        for limits in (layout.totals, layout.least)
    )
    outside = ((signed > most) | (signed < least)) & (counts == 1) & ~compared
    sums = np.where(compared, planes[0] != 0, signed.astype(np.float64))
    for count in sorted(set(layout.counts) - {1}):
        chosen = counts == count
        parts = [plane[counts[counts > k] == count] for k, plane in enumerate(planes[:count])]
        whole = recombine(parts, moduli[:count])
        above = whole > layout.per_value(layout.totals, np.object_)[chosen]
        outside[chosen] = above | (whole < layout.per_value(layout.least, np.object_)[chosen])
        sums[chosen] = whole.astype(np.float64)
    if outside.any():
        segment = np.repeat(np.arange(len(layout.lengths)), layout.lengths)[outside.argmax()]
        raise AggregateRangeError(impossible(int(segment)))
    return sums * layout.per_value([2.0**-bits for bits in layout.bits], np.float64)
