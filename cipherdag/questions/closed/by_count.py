"""Sets of sums that verdicts are true of: for every number of sites the amounts that decide.

A site's number is how often it contributes (0 or 1), times a width, plus its amount; so the sum of
all sites' numbers has how many contribute and their amount in it, side by side. A verdict is true
of a public set of such sums, and of none where too few contribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cipherdag.questions.encodings import Encoding, FloatVector, IndexArray

if TYPE_CHECKING:
    from collections.abc import Iterable

SUM_BITS = 35
LARGEST_SUM = (1 << SUM_BITS) - (1 << 16)
"""Largest sum that a verdict is found on, whatever the protection; 35 bits."""

Sets = tuple[IndexArray, IndexArray, IndexArray]
"""Least and largest sums of intervals, shape (intervals, B); the largest sum of all, shape (B,)."""


class ByCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The amounts that a verdict is true of, by how many sites contribute.

    Attributes:
        low: Least amounts for 0, 1, ..., N sites; above ``high`` where it is true of none.
        high: Largest ones.
        largest: Largest amount of one site.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    largest: int

    def __post_init__(self) -> None:
        ends = zip(self.low, self.high, strict=True)
        holds = all(low >= 0 and high <= k * self.largest for k, (low, high) in enumerate(ends))
        if len(self.low) < 2 or self.largest < 0 or not holds or self.fewest < 1:  # noqa: PLR2004
            raise ValueError("amounts lie in what so many sites can have, of one site at least")
        if self.n_sites * self.bound > LARGEST_SUM:
            raise ValueError(f"sums that verdicts are found on are at most {LARGEST_SUM}")

    @property
    def n_sites(self) -> int:
        """How many sites may contribute, N."""
        return len(self.low) - 1

    @property
    def fewest(self) -> int:
        """How many sites contribute at least where it is true; N + 1 where it never is."""
        there = (k for k in range(len(self.low)) if self.low[k] <= self.high[k])
        return next(there, len(self.low))

    @property
    def bound(self) -> int:
        """Largest number of one site."""
        return self.width + self.largest

    @property
    def width(self) -> int:
        """What every site that contributes adds to a sum beside its amount."""
        return self.n_sites * self.largest + 1

    def numbers(self, contributes: FloatVector, amount: FloatVector) -> FloatVector:
        """A site's numbers, from 0 or 1 and its amounts, whole and at most ``largest``."""
        return np.where(contributes > 0, self.width + amount, 0.0)

    def sets(self, length: int, n_sites: int) -> Sets:
        """The same set for ``length`` sums, over so many sites."""
        some = range(min(self.n_sites, n_sites) + 1)
        low = np.array([k * self.width + self.low[k] for k in some], dtype=np.int64)
        high = np.array([k * self.width + self.high[k] for k in some], dtype=np.int64)
        there = low <= high
        most = np.full(length, n_sites * self.bound, dtype=np.int64)
        return _rows(low[there], length), _rows(high[there], length), most


def joined(parts: Iterable[Sets]) -> Sets:
    """The sets of several questions, one after the other; none of them overlap."""
    own = list(parts)
    widest = max(len(low) for low, _, _ in own)
    low = [np.pad(low, ((0, widest - len(low)), (0, 0)), constant_values=1) for low, _, _ in own]
    high = [np.pad(high, ((0, widest - len(high)), (0, 0))) for _, high, _ in own]
    most = [most for _, _, most in own]
    return np.concatenate(low, axis=1), np.concatenate(high, axis=1), np.concatenate(most)


def compared(length: int, own: ByCount) -> Encoding:
    """So many numbers of which a verdict is found each."""
    return Encoding(length=length, bound=float(own.bound), verdict=True)


def _rows(values: IndexArray, length: int) -> IndexArray:
    return np.broadcast_to(values[:, None], (len(values), length))
