"""Vectors of residues, and whole numbers too large for one residue as several (RNS).

A whole number x with ``2 * |x| < m_0 * m_1 * ...`` is given by its residues modulo the pairwise
coprime m_0, m_1, ... (Chinese remainder theorem), and adding numbers means adding residues. The
residues of a sum say nothing beyond the sum. Every modulus is at most 2**56, so that all arithmetic
stays inside 64-bit words.

Several small sums share a word (`Packing`), as digits of a base that no sum over the cohort
reaches. A site's number is x with -b <= x <= b, or 0 <= x <= b, and n sites answer. So x + b, or x,
is a digit of any base above 2 n b, or n b, and so is the sum of all sites' digits: nothing is
carried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IntegerVector, WordMatrix, WordVector
from cipherdag.errors import AggregateRangeError
from cipherdag.privacy.secrecy import fresh_bytes

Moduli = tuple[int, ...]
Draw = Callable[[int], WordVector]

MAX_MODULUS = 1 << 56
WORD_MODULI: Moduli = (MAX_MODULUS - 5, MAX_MODULUS - 27)
"""What masking and unprotected sums count in: the two largest primes below 2**56."""

_WORD_BITS = 64
_ROWS_IN_A_WORD = 1 << 8
_SPLIT_BITS = 62
_HALF_BITS = 28


def system_words(count: int) -> WordVector:
    """Uniform 64-bit words from the operating system's random source, shape (count,)."""
    return np.frombuffer(fresh_bytes(8 * count), dtype=np.uint64)


def uniform(draw: Draw, count: int, modulus: int, *, nonzero: bool = False) -> WordVector:
    """Uniform residues by rejection, shape (count,), of 64-bit words that ``draw`` yields."""
    shift = shift_to(modulus)
    residues = np.empty(0, dtype=np.uint64)
    while residues.size < count:
        words = draw(count - residues.size) >> shift
        accepted = words <= np.uint64(modulus - 1)
        if nonzero:
            accepted &= words != 0
        if not accepted.all():
            words = words[accepted]
        residues = np.concatenate([residues, words]) if residues.size else words
    return residues


def shift_to(modulus: int) -> np.uint64:
    """Number of bits to drop from a word, so that the rest is hardly beyond the modulus."""
    return np.uint64(_WORD_BITS - (modulus - 1).bit_length())


def add(total: WordVector, residues: WordVector, modulus: int) -> None:
    """Add residues to a total in place."""
    total += residues
    # what is below the modulus already wraps round to something larger
    np.minimum(total, total - np.uint64(modulus), out=total)


def subtract(total: WordVector, residues: WordVector, modulus: int) -> None:
    """Subtract residues from a total in place."""
    add(total, np.uint64(modulus) - residues, modulus)


def total(residues: WordMatrix, modulus: int) -> WordVector:
    """The sum of all rows of residues, of shape (rows, count)."""
    summed = np.zeros(residues.shape[1], dtype=np.uint64)
    for first in range(0, len(residues), _ROWS_IN_A_WORD):
        part = residues[first : first + _ROWS_IN_A_WORD].sum(axis=0)
        add(summed, part - _whole(part, modulus), modulus)
    return summed


def multiply(residues: WordVector, factors: WordVector | int, modulus: int) -> WordVector:
    """Products of residues, shape as ``residues``; ``factors`` one for each, or one for all."""
    return from_integers(_products(residues, factors, modulus), modulus)


def inner(residues: WordVector, factors: WordVector, modulus: int) -> int:
    """The residue of the sum of all products; at most 2**28 of them."""
    products = _products(residues, factors, modulus)
    high, low = products >> _HALF_BITS, products & ((1 << _HALF_BITS) - 1)
    return ((int(high.sum()) << _HALF_BITS) + int(low.sum())) % modulus


def from_whole(values: FloatVector, modulus: int, *, wide: bool) -> WordVector:
    """Residues of whole numbers held in floats, shape as ``values``.

    They are exact, below 2**63 in size, or below 2**124 if ``wide``; the modulus is 2**56 at most.
    """
    if not wide:
        return from_integers(values.astype(np.int64), modulus)
    high = np.trunc(np.ldexp(values, -_SPLIT_BITS))
    low = values - np.ldexp(high, _SPLIT_BITS)
    total = from_integers(low.astype(np.int64), modulus)
    scaled = multiply(
        from_integers(high.astype(np.int64), modulus), (1 << _SPLIT_BITS) % modulus, modulus
    )
    add(total, scaled, modulus)
    return total


def from_integers(integers: IntegerVector, modulus: int) -> WordVector:
    """Residues of integers, shape as ``integers``."""
    return (integers - _whole(integers, modulus)).view(np.uint64)


def to_signed(residues: WordVector, modulus: int) -> IntegerVector:
    """The representatives nearest to zero, shape as ``residues``."""
    signed = residues.view(np.int64)
    return np.where(signed > modulus // 2, signed - modulus, signed)


def recombine(residues: list[WordVector], moduli: Moduli) -> NDArray[np.object_]:
    """The whole numbers nearest to zero with the given residues, as Python integers.

    Garner's mixed-radix algorithm (Knuth, TAOCP vol. 2, 4.3.2) with digits nearest to zero.
    """
    digits: list[IntegerVector] = []
    for plane, modulus in zip(residues, moduli, strict=True):
        rest = plane.copy()
        for digit, radix in zip(digits, moduli, strict=False):
            subtract(rest, from_integers(digit, modulus), modulus)
            rest = multiply(rest, pow(radix, -1, modulus), modulus)
        digits.append(to_signed(rest, modulus))
    whole = digits[-1].astype(object)
    for digit, radix in zip(digits[-2::-1], moduli[-2::-1], strict=True):
        whole = whole * radix + digit
    return whole


def _products(residues: WordVector, factors: WordVector | int, modulus: int) -> IntegerVector:
    """Products of residues, each less than 64 moduli from its residue."""
    # the quotient in floating point is off by less than 64, so the wrapped rest fits 63 bits
    inverted = residues.astype(np.float64) / modulus
    quotient = (inverted * np.asarray(factors, dtype=np.float64)).astype(np.uint64)
    rest = residues * np.asarray(factors, dtype=np.uint64) - quotient * np.uint64(modulus)
    return rest.view(np.int64)


def _whole(numbers: IntegerVector | WordVector, modulus: int) -> IntegerVector | WordVector:
    """The largest multiple of the modulus not above each number; numpy's ``%`` is slower."""
    return numbers // numbers.dtype.type(modulus) * numbers.dtype.type(modulus)


@dataclass(frozen=True, slots=True)
class Packing:
    """The layout of one segment's numbers in words: number k + j * words is digit j of word k.

    ``base`` is more than the largest sum of digits, ``lowest`` the least number of a site, at most
    0. ``digits`` share a word, at least 1; one by itself stays the residue that it is.
    """

    length: int
    base: int
    lowest: int
    digits: int

    @classmethod
    def of(cls, length: int, base: int, lowest: int, modulus: int) -> Packing:
        """The most digits that a residue of a modulus has room for."""
        digits, room = 1, modulus // max(base, 2)
        while digits < length and (room := room // max(base, 2)):
            digits += 1
        return cls(length, base, lowest, digits)

    @property
    def words(self) -> int:
        """Number of words."""
        return -(-self.length // self.digits)

    def pack(self, residues: WordVector, modulus: int) -> WordVector:
        """The words, shape (words,), of one site's numbers, residues of shape (length,)."""
        if self.digits == 1:
            return residues
        raised = (to_signed(residues, modulus) - self.lowest).view(np.uint64)
        packed = np.zeros(self.words, dtype=np.uint64)
        for first in reversed(range(0, self.length, self.words)):
            digit = raised[first : first + self.words]
            packed *= np.uint64(self.base)
            packed[: digit.size] += digit
        return packed

    def unpack(self, words: WordVector, modulus: int, n_sites: int) -> WordVector | None:
        """The sums over that many sites, residues; None at a word too large."""
        if self.digits == 1:
            return words
        values, rest, beyond = np.empty(self.length, dtype=np.uint64), words, False
        for first in range(0, self.length, self.words):
            digits, higher = values[first : first + self.words], rest // np.uint64(self.base)
            digit = rest - higher * np.uint64(self.base)
            digits[:], rest = digit[: digits.size], higher
            beyond |= bool(digit[digits.size :].any())
        if beyond or rest.any():
            return None
        return from_integers(values.view(np.int64) + n_sites * self.lowest, modulus)


def pack(residues: WordVector, packings: Sequence[Packing], modulus: int) -> WordVector:
    """The words of one site's numbers, segment after segment."""
    # the last part is empty, which is all there is of no segments
    parts = np.split(residues, np.cumsum([packing.length for packing in packings]))
    return np.concatenate(
        [packing.pack(part, modulus) for packing, part in zip(packings, parts, strict=False)]
        + parts[-1:]
    )


def unpack(
    words: WordVector, packings: Sequence[Packing], modulus: int, n_sites: int
) -> WordVector:
    """The sums over that many sites; AggregateRangeError names where a word has more."""
    parts = np.split(words, np.cumsum([packing.words for packing in packings]))
    values = parts[-1:]
    for segment, (packing, part) in enumerate(zip(packings, parts, strict=False)):
        sums = packing.unpack(part, modulus, n_sites)
        if sums is None:
            raise AggregateRangeError(impossible(segment))
        values.insert(-1, sums)
    return np.concatenate(values)


def impossible(segment: int) -> str:
    """The message of an error about a sum beyond what honest sites add up to."""
    return f"segment {segment} of the sum has a value that the cohort cannot produce"
