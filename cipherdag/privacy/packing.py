"""Several small sums in one word: digits of a base that no sum over the cohort reaches.

A site's number is x with -b <= x <= b, or 0 <= x <= b, and n sites answer. So x + b, or x, is a
digit of any base above 2 n b, or n b, and so is the sum of all sites' digits: adding words adds
digits, and nothing is carried. As many digits share a word as its modulus has room for.

Leaks:
    Nothing: the digits of a sum of words are the sums of the digits, and these the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import WordVector
from cipherdag.errors import AggregateRangeError
from cipherdag.privacy.residues import from_integers, to_signed


@dataclass(frozen=True, slots=True)
class Packing:
    """The layout of one segment's numbers in words: number k + j * words is digit j of word k.

    Attributes:
        length: How many numbers.
        base: More than the largest sum of digits.
        lowest: The least number of a site, at most 0.
        digits: How many share a word, at least 1; one by itself stays the residue that it is.
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
        """The sums over that many sites, residues of shape (length,), of summed words.

        None where a word has more than its digits.
        """
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
    """The sums of all numbers over that many sites, residues.

    Raises:
        AggregateRangeError: A word has more than its digits; names the segment.
    """
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
