"""Streams of uniform words from a seed, to mask answers with.

A seed of 32 bytes stands for one stream a plane: AES-256 in counter mode (NIST SP 800-38A) under a
key that HKDF expands from the seed and the plane's number.

Leaks:
    Nothing to whoever lacks the seed: the words look uniform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from cipherdag.privacy.keys.pairkeys import expand
from cipherdag.privacy.residues import Moduli, add, subtract, uniform
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cipherdag.privacy.aggregation import WordVector

CHUNK_WORDS = 1 << 14
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


def apply_masks(
    words: WordVector,
    plane_lengths: Sequence[int],
    moduli: Moduli,
    *,
    added: Iterable[bytes],
    subtracted: Iterable[bytes],
) -> None:
    """Add and subtract the streams of seeds in place.

    Args:
        words: Residues, plane after plane.
        plane_lengths: Number of words of each plane.
        moduli: Modulus of each plane.
        added: Seeds, 32 bytes each, of the streams to add.
        subtracted: Seeds of the streams to subtract.

    Leaks:
        Nothing: without one of the seeds every word is uniform, whatever it was before.
    """
    signed = [(seed, add) for seed in added] + [(seed, subtract) for seed in subtracted]
    start = 0
    for plane, (length, modulus) in enumerate(zip(plane_lengths, moduli, strict=True)):
        if not length:
            continue
        number = plane.to_bytes(4, "big")
        streams = [(Keystream(expand(seed, b"plane", number)), apply) for seed, apply in signed]
        for first in range(start, start + length, CHUNK_WORDS):
            chunk = words[first : min(first + CHUNK_WORDS, start + length)]
            for stream, apply in streams:
                apply(chunk, stream.residues(chunk.size, modulus), modulus)
        start += length
