"""The one primitive: answers in, protected shares out, and only their sum comes back.

Every protection has the same verbs. A site holds a ``SiteAggregation`` (it owns the keys) and
the coordinator a ``CoordinatorAggregation`` (it owns none):

    setup      the site's object is built from the keys agreed with its cohort
    share      site          answer        -> bytes that may leave
    combine    coordinator   all shares    -> bytes that stand for the sum
    open       coordinator, or under BFV a site then the coordinator: combined -> Aggregate

Between share and open the sites release the seeds of the masks that do not cancel by themselves:
`unmask`, and `recover` for a site that left in between. A sum covers all sites asked, or none.

Leaks:
    The coordinator learns the aggregate and nothing else; see each protection for its assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """What a share is for.

    Attributes:
        digest: Digest of the whole question, 32 bytes.
        cohort_size: Number of sites asked, at most.
        segments: The values of an answer.
        participants: Positions of the sites asked, ascending; all of the cohort when empty.
        threshold: How many sites together can recover the self mask of one that left; 0 where
            none ever can.
    """

    digest: bytes
    cohort_size: int
    segments: tuple[Segment, ...]
    participants: tuple[int, ...] = ()
    threshold: int = 0

    @property
    def sites(self) -> tuple[int, ...]:
        """Positions of the sites asked, ascending."""
        return self.participants or tuple(range(self.cohort_size))

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

    def escrow(self, declaration: Declaration) -> tuple[bytes, ...]:
        """A sealed piece of this round's self mask for every other site asked, in their order.

        None at all where ``declaration.threshold`` is 0, or nothing is masked.
        """

    def unmask(self, declaration: Declaration) -> bytes:
        """The seed of this round's self mask, which the sum needs of every site."""

    def recover(self, vanished: int, piece: bytes, declaration: Declaration) -> bytes:
        """This site's piece of the self mask of a site that left before it could unmask."""

    def open(self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """Open the sum; refused by protections the coordinator opens."""


class CoordinatorAggregation(Protocol):
    """The coordinator's side of one protection; it holds no key."""

    @property
    def opened_by_site(self) -> bool:
        """Whether ``combine`` yields a ciphertext that a site has to open first."""

    def check(self, share: bytes, declaration: Declaration) -> None:
        """Raise ShareError for a share that is cut short or of foreign parameters."""

    def combine(self, shares: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """Add the shares of all sites asked, given by position."""

    def rebuild(self, pieces: Mapping[int, bytes], declaration: Declaration) -> bytes:
        """The seed of a site that left, from the pieces that others recovered."""

    def open(
        self, combined: bytes, seeds: Mapping[int, bytes], declaration: Declaration
    ) -> Aggregate:
        """Read the sum over the sites asked, whose seeds are given by position."""
