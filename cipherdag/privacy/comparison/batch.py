"""What a batch of comparison keys is for: everything that is public about it, and bound to it.

Leaks:
    All of it is public.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cipherdag.errors import ComparisonKeyError, ParameterError
from cipherdag.privacy.comparison.blockhash import BlockHash

if TYPE_CHECKING:
    from cipherdag.privacy.aggregation import WordVector

VERSION: Final = 1
COORDINATOR: Final = (1 << 32) - 1
"""Stands for the coordinator, which has no position in the cohort."""

SESSION_DIGEST_BYTES: Final = 32
MODULI: Final = range(2, (1 << 64) + 1)
_LAYOUT = struct.Struct(">BB32sIIIIQI")
HEADER_BYTES: Final = _LAYOUT.size
_HASH_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Comparisons:
    """One batch: who deals it to whom, in which round, over which residues.

    Attributes:
        session: Digest of the session, 32 bytes.
        number: The round.
        dealer: Position of the site that knows what the sums are blinded with.
        holders: Positions of the two that evaluate; `COORDINATOR` for the coordinator.
        modulus: What blinded sums are residues of, 2 to 2**64.
        count: Number of comparisons, at least 1.

    Raises:
        ParameterError: One is out of its range, or dealer and holders are not three parties.
    """

    session: bytes
    number: int
    dealer: int
    holders: tuple[int, int]
    modulus: int
    count: int

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_DIGEST_BYTES:
            raise ParameterError(f"a session's digest has {SESSION_DIGEST_BYTES} bytes")
        if len({self.dealer, *self.holders}) != 1 + len(self.holders):
            raise ParameterError("the dealer and both holders of comparison keys are three parties")
        places = (self.number, self.dealer, *self.holders)
        if not all(0 <= place <= COORDINATOR for place in places):
            raise ParameterError("rounds and positions fit 32 bits")
        if self.modulus not in MODULI:
            raise ParameterError("sums are compared as residues modulo 2 to 2**64")
        if not 1 <= self.count <= COORDINATOR:
            raise ParameterError("there is at least one comparison, and their number fits 32 bits")

    @property
    def bits(self) -> int:
        """Bits of a residue."""
        return (self.modulus - 1).bit_length()

    def difference(self, values: WordVector, less: WordVector | np.uint64) -> WordVector:
        """``values - less`` modulo N, for reduced words."""
        wrapped = values - less
        return wrapped + (values < less) * np.uint64(self.modulus % (1 << 64))

    def header(self, holder: int) -> bytes:
        """What a key of the first (0) or second (1) holder begins with, 62 bytes."""
        return _LAYOUT.pack(
            VERSION,
            holder,
            self.session,
            self.number,
            self.dealer,
            *self.holders,
            self.modulus - 1,
            self.count,
        )

    def check_header(self, data: bytes, holder: int) -> None:
        """Refuse a key for anything else than this batch and this holder.

        Raises:
            ComparisonKeyError: It is cut short, or of another version, session, round, dealer,
                holder, modulus or number of comparisons.
        """
        if len(data) < HEADER_BYTES:
            raise ComparisonKeyError("the comparison key is cut short")
        said = _LAYOUT.unpack_from(data)
        own = _LAYOUT.unpack(self.header(holder))
        # which holder's it is comes last: only a key for the same batch can be the other's
        for place in (0, *range(2, len(own)), 1):
            if said[place] != own[place]:
                raise ComparisonKeyError(f"the comparison key is {_FAULTS[place]}")

    def block_hash(self) -> BlockHash:
        """The hash that both keys are made with; a key of another batch comes to noise under it."""
        bound_to = b"cipherdag comparison" + self.header(0)
        return BlockHash(hashlib.sha256(bound_to).digest()[:_HASH_KEY_BYTES])


_FAULTS: Final = (
    "of another version",
    "that of the other holder",
    "for another session",
    "for another round",
    "of another dealer",
    "for another first holder",
    "for another second holder",
    "for another modulus",
    "for another number of comparisons",
)
