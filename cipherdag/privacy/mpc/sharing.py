"""A site's vector in three parts, so that no two roles have any site's numbers.

    vector = first + dealt + rest      every word modulo the 2^k of its ring

The first part follows from a seed that goes to the first holder, the second from a seed that goes
to the dealer and its twin, and the rest goes to the second holder. Everybody who carries the sum
of the sites' vectors on carries it without the dealt parts.

Leaks:
    Any two of the parts say nothing; all three are the vector. The commitment says nothing of a
    seed that was drawn at random.
"""

from __future__ import annotations

import hashlib

import numpy as np

from cipherdag.arrays import IntegerVector, WordVector
from cipherdag.errors import BoundExceededError, ParameterError
from cipherdag.predicates import Predicates
from cipherdag.privacy.keys.keyed import same_digest, transcript
from cipherdag.privacy.keys.pairkeys import KEY_BYTES, encode_position, expand
from cipherdag.privacy.keystream import Keystream
from cipherdag.privacy.mpc.batch import Batch
from cipherdag.privacy.mpc.words import RandomBytes
from cipherdag.privacy.secrecy import Secret

_PART = b"part of a vector"


class Parts(Secret):
    """The three parts of one site's vector.

    Attributes:
        first: Seed of the first holder's part.
        dealt: Seed of the dealer's and its twin's.
        rest: The second holder's, packed.
    """

    __slots__ = ("dealt", "first", "rest")

    def __init__(self, first: bytes, dealt: bytes, rest: bytes) -> None:
        self.first = first
        self.dealt = dealt
        self.rest = rest

    @property
    def secret_size(self) -> int:
        """Number of bytes of all three parts."""
        return len(self.first) + len(self.dealt) + len(self.rest)


def split_vector(batch: Batch, values: IntegerVector, random_bytes: RandomBytes) -> Parts:
    """The parts of a site's vector.

    Values are whole numbers, shape (words,). A caller keeps each within what its rows can say, so
    that the sums of all sites keep their bounds.

    Raises:
        ParameterError: There is not one whole number for every word.
        BoundExceededError: A number is beyond what the sum over all sites may reach.
    """
    check_words(values, batch.predicates)
    first, dealt = random_bytes(KEY_BYTES), random_bytes(KEY_BYTES)
    rest = values.view(np.uint64) - part_words(batch, first) - part_words(batch, dealt)
    return Parts(first, dealt, batch.vector.pack(rest))


def check_words(values: IntegerVector, predicates: Predicates) -> None:
    """Refuse a site's vector that does not fit what is asked of the sums.

    Raises:
        ParameterError: There is not one whole number for every word.
        BoundExceededError: A number is beyond what the sum over all sites may reach.
    """
    if values.dtype != np.int64 or values.shape != predicates.lowest.shape:
        raise ParameterError("a site's vector has one whole number for every word of the batch")
    if (values < predicates.lowest).any() or (values > predicates.highest).any():
        raise BoundExceededError("a number of this site is beyond what all sites may add up to")


def part_words(batch: Batch, seed: bytes) -> WordVector:
    """The part that follows from a seed, uniform words, shape (words,)."""
    key = expand(seed, _PART, batch.digest)
    return Keystream(key).words(batch.predicates.n_words)


def commitment(batch: Batch, site: int, seed: bytes) -> bytes:
    """A site's commitment to its seed for the dealer and the twin, 32 bytes."""
    parts = batch.digest, encode_position(site), seed
    return hashlib.sha256(transcript(b"cipherdag dealt part", *parts)).digest()


def commits_to(said: bytes, batch: Batch, site: int, seed: bytes) -> bool:
    """Whether a commitment is that of a seed."""
    return same_digest(said, commitment(batch, site, seed))
