"""Is a sum above a public threshold? The interval of residues that says so.

A sum of least..most steps of its grid is, less ``least``, a residue of 0..most - least; those above
a threshold are an interval of residues that does not wrap round.

Leaks:
    Nothing: all of it is public, but the blinded sums, which say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import ParameterError
from cipherdag.privacy.fixedpoint import MAX_RESOLUTION_BITS

if TYPE_CHECKING:
    from cipherdag.privacy.aggregation import FloatVector, WordVector
    from cipherdag.privacy.comparison.keys import BitVector, ComparisonKeys

_BEYOND = 1 << 62
_GRIDS = range(MAX_RESOLUTION_BITS + 1)


@dataclass(frozen=True, slots=True)
class SumRange:
    """The sums that a cohort can produce, in steps of ``2**-resolution_bits``.

    Attributes:
        least: Smallest sum.
        most: Largest sum.
        resolution_bits: The grid.

    Raises:
        ParameterError: There is no such sum, or it is too large.
    """

    least: int
    most: int
    resolution_bits: int = 0

    def __post_init__(self) -> None:
        if not -_BEYOND < self.least <= self.most < _BEYOND or self.resolution_bits not in _GRIDS:
            raise ParameterError("sums that are compared lie within 2**62 steps of a grid")

    def above(
        self, keys: ComparisonKeys, blinded: WordVector, thresholds: FloatVector
    ) -> BitVector:
        """One holder's share of which sums are larger than their thresholds.

        Args:
            keys: The holder's keys.
            blinded: The blinded sums, shape (count,); what is negative counts from the modulus.
            thresholds: Public, in the unit of the sums, shape (count,); one between two steps of
                the grid is as good as the lower step.

        Returns:
            Bits, shape (count,): the exclusive or of both holders' is the verdict.

        Raises:
            ParameterError: A threshold is not a number, or the sums and one more do not fit the
                modulus.
            SpentKeyError: The keys were used for other sums or thresholds before.

        Leaks:
            As `ComparisonKeys.contains`.
        """
        width = self.most - self.least
        if np.isnan(thresholds).any() or width + 2 > keys.batch.modulus:
            raise ParameterError("a threshold is a number, and the sums fit the modulus")
        within = np.clip(thresholds, -_BEYOND, _BEYOND)
        steps = np.clip(np.floor(np.ldexp(within, self.resolution_bits)), -_BEYOND, _BEYOND)
        lowest = steps.astype(np.int64) + 1
        # no sum is above the largest one: the interval is the residue after it
        low = (np.clip(lowest, self.least, self.most + 1) - self.least).astype(np.uint64)
        high = np.maximum(low, np.uint64(width))
        least = np.uint64(self.least % keys.batch.modulus)
        return keys.contains(keys.batch.difference(blinded, least), low, high)
