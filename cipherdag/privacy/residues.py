"""Vectors of residues, and whole numbers too large for one residue as several (RNS).

A whole number x with ``2 * |x| < m_0 * m_1 * ...`` is given by its residues modulo the pairwise
coprime m_0, m_1, ... (Chinese remainder theorem), and adding numbers means adding residues. Unlike
digits with carries, the residues of a sum say nothing beyond the sum.

Every modulus is 2**64 or at most 2**56, so that all arithmetic stays inside 64-bit words.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import mul

import numpy as np
from numpy.typing import NDArray

from cipherdag.privacy.aggregation import FloatVector, WordVector

IntegerVector = NDArray[np.int64]
Moduli = tuple[int, ...]
Draw = Callable[[int], WordVector]

WORD = 1 << 64
MAX_MODULUS = 1 << 56
WORD_MODULI: Moduli = (WORD, MAX_MODULUS - 5)
"""What masking and unprotected sums count in: 64-bit words, and a prime below 2**56."""

_WORD_BITS = 64
_SPLIT_BITS = 62


def uniform(draw: Draw, count: int, modulus: int, *, nonzero: bool = False) -> WordVector:
    """Uniform residues by rejection sampling, shape (count,), without bias.

    Args:
        draw: Yields that many uniform 64-bit words; the same words give the same residues.
        count: How many.
        modulus: What they are smaller than.
        nonzero: Whether zero is left out.
    """
    if modulus == WORD and not nonzero:
        return draw(count)
    bits = (modulus - 1).bit_length()
    shift = np.uint64(_WORD_BITS - bits)
    residues = np.empty(count, dtype=np.uint64)
    filled = 0
    while filled < count:
        words = draw(count - filled) >> shift
        accepted = words <= np.uint64(modulus - 1)
        if nonzero:
            accepted &= words != 0
        if not accepted.all():
            words = words[accepted]
        residues[filled : filled + words.size] = words
        filled += words.size
    return residues


def add(total: WordVector, residues: WordVector, modulus: int) -> None:
    """Add residues to a total in place."""
    total += residues
    if modulus != WORD:
        total -= np.where(total >= modulus, np.uint64(modulus), np.uint64(0))


def subtract(total: WordVector, residues: WordVector, modulus: int) -> None:
    """Subtract residues from a total in place."""
    if modulus == WORD:
        total -= residues
    else:
        add(total, np.uint64(modulus) - residues, modulus)


def from_whole(values: FloatVector, modulus: int, *, wide: bool) -> WordVector:
    """Residues of whole numbers held in floats, shape as ``values``.

    Args:
        values: Whole numbers, exact; below 2**63 in size, or below 2**124 if ``wide``.
        modulus: 2**64 or at most 2**56.
        wide: Whether any may reach 2**63.
    """
    if not wide:
        return _from_integers(values.astype(np.int64), modulus)
    high = np.trunc(np.ldexp(values, -_SPLIT_BITS))
    low = values - np.ldexp(high, _SPLIT_BITS)
    total = _from_integers(low.astype(np.int64), modulus)
    scaled = _times(
        _from_integers(high.astype(np.int64), modulus), (1 << _SPLIT_BITS) % modulus, modulus
    )
    add(total, scaled, modulus)
    return total


def to_signed(residues: WordVector, modulus: int) -> IntegerVector:
    """The representatives nearest to zero, shape as ``residues``."""
    signed = residues.view(np.int64)
    if modulus == WORD:
        return signed
    return np.where(signed > modulus // 2, signed - modulus, signed)


def recombine(residues: list[WordVector], moduli: Moduli) -> NDArray[np.object_]:
    """The whole numbers nearest to zero with the given residues, as Python integers.

    Garner's mixed-radix algorithm (Knuth, TAOCP vol. 2, 4.3.2) with digits nearest to zero.
    """
    digits: list[IntegerVector] = []
    for own, modulus in zip(residues, moduli, strict=True):
        rest = own.copy()
        for digit, radix in zip(digits, moduli, strict=False):
            subtract(rest, _from_integers(digit, modulus), modulus)
            rest = _times(rest, pow(radix, -1, modulus), modulus)
        digits.append(to_signed(rest, modulus))
    whole = digits[-1].astype(object)
    for digit, radix in zip(digits[-2::-1], moduli[-2::-1], strict=True):
        whole = whole * radix + digit
    return whole


def capacity(moduli: Moduli) -> int:
    """Number of whole numbers that residues modulo all of them tell apart."""
    return reduce(mul, moduli, 1)


def _from_integers(integers: IntegerVector, modulus: int) -> WordVector:
    if modulus == WORD:
        return integers.view(np.uint64)
    return (integers % modulus).view(np.uint64)


def _times(residues: WordVector, factor: int, modulus: int) -> WordVector:
    if modulus == WORD:
        return residues * np.uint64(factor)
    # the quotient in floating point is off by less than 64, so the wrapped remainder fits 63 bits
    quotient = (residues.astype(np.float64) * (factor / modulus)).astype(np.uint64)
    remainder = residues * np.uint64(factor) - quotient * np.uint64(modulus)
    return _from_integers(remainder.view(np.int64), modulus)
