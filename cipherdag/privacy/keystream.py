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

from cipherdag.privacy.keys.pairkeys import expand_each
from cipherdag.privacy.residues import Moduli, add, shift_to, subtract, uniform
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from cipherdag.privacy.aggregation import WordVector

    WordMatrix = NDArray[np.uint64]

CHUNK_WORDS = 1 << 15
"""Words of all streams together masked at a time, so that they stay in the processor's cache."""

_KEY_BYTES = 32
_FROM_ZERO = CTR(bytes(16))


class Keystream(Secret):
    """A stream of uniform words; it starts at counter zero, so a key serves one stream only."""

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(AES(key), _FROM_ZERO).encryptor()

    @property
    def secret_size(self) -> int:
        """Of the key."""
        return _KEY_BYTES

    def words(self, count: int) -> WordVector:
        """The next words of the stream, shape (count,)."""
        found: WordVector = next_words([self], count)[0]
        return found

    def residues(self, count: int, modulus: int) -> WordVector:
        """The next uniform residues, shape (count,), however the calls are cut."""
        return uniform(self.words, count, modulus)

    def encrypted(self, zeros: bytes) -> bytes:
        """The next bytes of the stream, as many as there are zeros."""
        return self._encryptor.update(zeros)


def next_words(streams: Sequence[Keystream], count: int) -> WordMatrix:
    """The next words of every stream, shape (streams, count)."""
    zeros = bytes(8 * count)
    drawn = b"".join([stream.encrypted(zeros) for stream in streams])
    words = np.frombuffer(drawn, dtype="<u8").astype(np.uint64, copy=False)
    return words.reshape(len(streams), count)


def apply_masks(
    words: WordVector,
    plane_lengths: Sequence[int],
    moduli: Moduli,
    *,
    added: Sequence[bytes],
    subtracted: Sequence[bytes],
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
    start = 0
    for plane, (length, modulus) in enumerate(zip(plane_lengths, moduli, strict=True)):
        own = words[start : start + length]
        start += length
        for seeds, apply in ((added, add), (subtracted, subtract)):
            if length and seeds:
                _apply(own, _streams(seeds, plane), apply, modulus)


def _streams(seeds: Sequence[bytes], plane: int) -> list[Keystream]:
    return [Keystream(key) for key in expand_each(seeds, b"plane", plane.to_bytes(4, "big"))]


def _apply(
    words: WordVector,
    streams: Sequence[Keystream],
    apply: Callable[[WordVector, WordVector, int], None],
    modulus: int,
) -> None:
    """Add or subtract the sum of all streams."""
    size = max(CHUNK_WORDS // len(streams), 1)
    for first in range(0, words.size, size):
        chunk = words[first : first + size]
        total = _residues(streams, chunk.size, modulus)
        while len(total) > 1:
            half = len(total) // 2
            add(total[:half], total[-half:], modulus)
            total = total[:-half]
        apply(chunk, total[0], modulus)


def _residues(streams: Sequence[Keystream], count: int, modulus: int) -> WordMatrix:
    """The next uniform residues of every stream, shape (streams, count)."""
    drawn = next_words(streams, count) >> shift_to(modulus)
    if drawn.max(initial=0) >= modulus:  # hardly ever: a stream that is refused words goes on
        beyond = drawn > np.uint64(modulus - 1)
        for row in np.flatnonzero(beyond.any(axis=1)).tolist():
            kept = drawn[row, ~beyond[row]]
            more = streams[row].residues(count - kept.size, modulus)
            drawn[row] = np.concatenate([kept, more])
    return drawn
