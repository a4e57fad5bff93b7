"""Pairwise masks: both sites of a pair draw the same stream, one adds it, the other subtracts it.

The stream of a round is AES-256 in counter mode (NIST SP 800-38A) under a key that HKDF derives
from the pair key and the question's digest, so that no two questions ever share a mask.

Leaks:
    Nothing to whoever lacks a pair key: the masks look uniform, and cancel in the cohort's sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from cipherdag.errors import CohortError
from cipherdag.privacy.residues import Moduli, add, subtract, uniform
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.privacy.aggregation import WordVector
    from cipherdag.privacy.pairkeys import PairKey

CHUNK_WORDS = 1 << 16
"""Words masked at a time, so that they stay in the processor's cache."""

_KEY_BYTES = 32
_FIRST_COUNTER_BLOCK = bytes(16)


class Keystream(Secret):
    """A stream of uniform words; it starts at counter zero, so a key serves one stream only."""

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(AES(key), CTR(_FIRST_COUNTER_BLOCK)).encryptor()

    @property
    def secret_size(self) -> int:
        """Of the key."""
        return _KEY_BYTES

    def words(self, count: int) -> WordVector:
        """The next words of the stream, shape (count,)."""
        stream = self._encryptor.update(bytes(8 * count))
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)

    def residues(self, count: int, modulus: int) -> WordVector:
        """The next uniform residues, shape (count,), however the calls are cut."""
        return uniform(self.words, count, modulus)


def check_peers(index: int, pair_keys: Mapping[int, PairKey]) -> None:
    """Refuse a site without peers, or whose pair keys are not one for every other position."""
    if not pair_keys or set(pair_keys) | {index} != set(range(len(pair_keys) + 1)):
        raise CohortError("a site needs one pair key for every other site of its cohort")


def add_pair_masks(
    words: WordVector,
    plane_lengths: Sequence[int],
    moduli: Moduli,
    *,
    index: int,
    pair_keys: Mapping[int, PairKey],
    digest: bytes,
) -> None:
    """Mask words in place so that the masks of the whole cohort sum to zero.

    Args:
        words: Residues, plane after plane.
        plane_lengths: Number of words of each plane.
        moduli: Modulus of each plane.
        index: Position of this site in the cohort.
        pair_keys: Key with the site at every other position.
        digest: Digest of the whole question.

    Leaks:
        Nothing: without the pair keys every masked word is uniform, whatever it was before.
    """
    start = 0
    for plane, (length, modulus) in enumerate(zip(plane_lengths, moduli, strict=True)):
        streams = [
            (Keystream(key.derive(b"round", digest, plane.to_bytes(4, "big"))), peer > index)
            for peer, key in pair_keys.items()
        ]
        for first in range(start, start + length, CHUNK_WORDS):
            chunk = words[first : min(first + CHUNK_WORDS, start + length)]
            for stream, added in streams:
                mask = stream.residues(chunk.size, modulus)
                if added:
                    add(chunk, mask, modulus)
                else:
                    subtract(chunk, mask, modulus)
        start += length
