"""Which sums a verdict is true of, and whether a sum can be one at all.

Leaks:
    Nothing: all of it is public, but the blinded sums, which say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import AggregateRangeError, ParameterError
from cipherdag.privacy.comparison.verdicts import opened

if TYPE_CHECKING:
    from cipherdag.privacy.aggregation import WordVector
    from cipherdag.privacy.comparison.keys import BitVector, ComparisonKeys
    from cipherdag.privacy.residues import IntegerVector


@dataclass(frozen=True, slots=True, eq=False)
class Accepted:
    """The sums that each of some verdicts is true of: a union of intervals that do not overlap.

    Attributes:
        low: Least sums of the intervals, shape (intervals, count); an interval that ends before it
            begins is none.
        high: Their largest sums, shape as ``low``.
        most: The largest sum that the sites asked can produce, shape (count,); the least is 0.

    Raises:
        ParameterError: Shapes differ, an interval has sums that cannot be, or two overlap.
    """

    low: IntegerVector
    high: IntegerVector
    most: IntegerVector

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape or self.low.shape[1:] != self.most.shape:
            raise ParameterError("every verdict has intervals and a largest sum")
        there = self.low <= self.high
        outside = there & ((self.low < 0) | (self.high > self.most))
        ends = np.maximum.accumulate(np.where(there, self.high, -1), axis=0)
        if outside.any() or (there[1:] & (self.low[1:] <= ends[:-1])).any():
            raise ParameterError("intervals ascend, do not overlap, and hold sums that can be")

    def shares(self, keys: ComparisonKeys, blinded: WordVector) -> BitVector:
        """One holder's shares of all verdicts, then of whether each sum can be at all.

        Args:
            keys: The holder's keys.
            blinded: The blinded sums, shape (count,).

        Returns:
            Bits, shape (2 * count,); see `verdicts`.

        Raises:
            SpentKeyError: The keys were used for other sums or verdicts before.
            ParameterError: A sum does not fit the modulus.

        Leaks:
            Nothing without the other holder's.
        """
        if (self.most > keys.batch.modulus - 2).any():
            raise ParameterError("the sums and one more do not fit the modulus")
        there = self.low <= self.high
        low = np.vstack([np.where(there, self.low, 0), np.zeros_like(self.most)])
        high = np.vstack([np.where(there, self.high, 0), self.most])
        bits = keys.contains(blinded, low.astype(np.uint64), high.astype(np.uint64))
        within: BitVector = np.logical_xor.reduce(bits[:-1] & there, axis=0)
        return np.concatenate([within, bits[-1]])

    def verdicts(self, first: bytes, second: bytes) -> BitVector:
        """The verdicts that both holders' packed shares stand for, shape (count,).

        Raises:
            ShareError: One has another length, or bits beyond the last.
            AggregateRangeError: A sum is none that the sites can produce.

        Leaks:
            The verdicts.
        """
        within, possible = np.split(opened(first, second, 2 * self.most.size), 2)
        if not possible.all():
            raise AggregateRangeError(
                "a blinded sum is none that the cohort can produce, or who dealt or held the "
                "comparison keys says so"
            )
        return within
