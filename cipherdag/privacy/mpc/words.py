"""Words of a ring modulo 2**k as they travel: the least whole bytes, little-endian, and no more.

Leaks:
    Nothing: pure encoding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cipherdag.arrays import WordVector
from cipherdag.errors import MalformedMessageError

RandomBytes = Callable[[int], bytes]
WORD_BYTES = 8


def word_bytes(width: int) -> int:
    """Bytes of a word of so many bits."""
    return -(-width // 8)


def low_bits(width: int) -> np.uint64:
    """What reduces a word modulo ``2**width``, 1 to 64 bits."""
    return np.uint64((1 << width) - 1)


def pack_words(words: WordVector, width: int) -> bytes:
    """The words modulo ``2**width``, one after the other."""
    reduced = (words & low_bits(width)).astype("<u8", copy=False)
    columns = reduced.view(np.uint8).reshape(-1, WORD_BYTES)[:, : word_bytes(width)]
    return columns.tobytes()


def unpack_words(packed: bytes, count: int, width: int) -> WordVector:
    """Undo `pack_words`.

    Raises:
        MalformedMessageError: There are more or fewer words, or one is not reduced.
    """
    length = word_bytes(width)
    if len(packed) != count * length:
        raise MalformedMessageError("words of secure tests are cut short or too long")
    columns = np.zeros((count, WORD_BYTES), dtype=np.uint8)
    columns[:, :length] = np.frombuffer(packed, dtype=np.uint8).reshape(count, length)
    words = columns.view("<u8").reshape(count).astype(np.uint64, copy=False)
    if (words > low_bits(width)).any():
        raise MalformedMessageError("a word of secure tests is not reduced")
    return words
