"""The one primitive: answers in, protected shares out, and only their sum comes back.

Every protection has the same four verbs. A site holds a ``SiteAggregation`` (it owns the keys) and
the coordinator a ``CoordinatorAggregation`` (it owns none):

    setup      the site's object is built from the keys agreed with its cohort
    share      site          answer        -> bytes that may leave
    combine    coordinator   all shares    -> bytes that stand for the sum
    open       coordinator, or under BFV a site then the coordinator: combined -> Aggregate

Leaks:
    The coordinator learns the aggregate and nothing else; see each protection for its assumptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatVector = NDArray[np.float64]
WordVector = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of values of one kind inside an answer; all of it is public.

    Attributes:
        length: Number of values.
        bound: Largest absolute value a site may answer; larger is refused, never clipped.
        resolution_bits: The grid is ``2**-resolution_bits``; 0 for whole numbers.
        comparison: The answer is 0 or 1 and only "does any site have 1?" is learnt.
    """

    length: int
    bound: float
    resolution_bits: int = 0
    comparison: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a share is for: the digest of the whole question, the cohort's size, the segments."""

    digest: bytes
    cohort_size: int
    segments: tuple[Segment, ...]

    @property
    def length(self) -> int:
        """Number of values in an answer."""
        return sum(segment.length for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Sums over the cohort, ``values`` of shape (length,); 0.0 or 1.0 in comparison segments."""

    values: FloatVector = field(repr=False)


class SiteAggregation(Protocol):
    """A site's side of one protection, holding the keys of one session."""

    @property
    def modulus(self) -> int:
        """Sums are taken modulo this."""

    def share(self, answer: FloatVector, declaration: Declaration) -> bytes:
        """Protect one answer of shape (declaration.length,)."""

    def open(self, combined: bytes, declaration: Declaration) -> bytes:
        """Open the sum of the whole cohort; refused by protections the coordinator opens."""


class CoordinatorAggregation(Protocol):
    """The coordinator's side of one protection; it holds no key."""

    @property
    def opened_by_site(self) -> bool:
        """Whether ``combine`` yields a ciphertext that a site has to open first."""

    def combine(self, shares: Sequence[bytes], declaration: Declaration) -> bytes:
        """Add the shares of the whole cohort, in any order."""

    def open(self, combined: bytes, declaration: Declaration) -> Aggregate:
        """Read the sum, after a site has opened it where ``opened_by_site``."""
