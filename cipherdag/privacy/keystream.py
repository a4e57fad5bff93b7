"""Streams of uniform words from a key, to mask answers with.

AES-256 in counter mode (NIST SP 800-38A). A stream goes on over planes, of one modulus each; one
whose key serves many questions starts each at a counter that nobody without the key can foresee.

Leaks:
    Nothing to whoever lacks the seed: the words look uniform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from cipherdag.arrays import WordMatrix, WordVector
from cipherdag.privacy.residues import Moduli, add, shift_to, subtract, total, uniform
from cipherdag.privacy.secrecy import Secret

COUNTER_BYTES = 16  # length of the counter that a stream starts at
CHUNK_WORDS = 1 << 18
"""Words of all streams together masked at a time, so that they stay in the processor's cache."""

_FROM_ZERO = CTR(bytes(COUNTER_BYTES))


class Keystream(Secret):
    """A stream of uniform words, from counter zero on."""

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(AES(key), _FROM_ZERO).encryptor()

    def restarted(self, counter: bytes) -> Keystream:
        """This same stream, moved to a counter of 16 bytes, which the caller never uses again."""
        self._encryptor.reset_nonce(counter)
        return self

    def words(self, count: int) -> WordVector:
        """The next words of the stream, shape (count,)."""
        return next_words([self], count)[0]

    def residues(self, count: int, modulus: int) -> WordVector:
        """The next uniform residues, shape (count,); two calls yield what one for both would."""
        return uniform(self.words, count, modulus)

    def write(self, zeros: bytes, into: memoryview) -> None:
        """Write the next bytes of the stream, which is what zeros encrypt to: as many as these."""
        self._encryptor.update_into(zeros, into)


def next_words(streams: Sequence[Keystream], count: int) -> WordMatrix:
    """The next words of every stream, shape (streams, count)."""
    zeros = bytes(8 * count)
    drawn = np.empty((len(streams), count), dtype="<u8")
    for stream, row in zip(streams, drawn.view(np.uint8), strict=True):
        stream.write(zeros, row.data)
    return drawn.astype(np.uint64, copy=False)


def apply_masks(
    words: WordVector,
    plane_lengths: Sequence[int],
    moduli: Moduli,
    *,
    added: Sequence[Keystream],
    subtracted: Sequence[Keystream],
) -> None:
    """Add and subtract streams in place.

    Words are residues, plane after plane, each plane with its length and modulus. To whoever lacks
    the key of one stream every word is uniform, whatever it was.
    """
    start = 0
    for length, modulus in zip(plane_lengths, moduli, strict=True):
        plane = words[start : start + length]
        start += length
        for streams, apply in ((added, add), (subtracted, subtract)):
            if length and streams:
                _apply(plane, streams, apply, modulus)


def _apply(
    words: WordVector,
    streams: Sequence[Keystream],
    apply: Callable[[WordVector, WordVector, int], None],
    modulus: int,
) -> None:
    size = max(CHUNK_WORDS // len(streams), 1)
    for first in range(0, words.size, size):
        chunk = words[first : first + size]
        apply(chunk, total(_residues(streams, chunk.size, modulus), modulus), modulus)


def _residues(streams: Sequence[Keystream], count: int, modulus: int) -> WordMatrix:
    """The next uniform residues of every stream, shape (streams, count)."""
    drawn = next_words(streams, count)
    drawn >>= shift_to(modulus)
    if drawn.max(initial=0) >= modulus:  # rare: words that are no residue are replaced
        beyond = drawn > np.uint64(modulus - 1)
        for row in np.flatnonzero(beyond.any(axis=1)).tolist():
            accepted = drawn[row, ~beyond[row]]
            more = streams[row].residues(count - accepted.size, modulus)
            drawn[row] = np.concatenate([accepted, more])
    return drawn
