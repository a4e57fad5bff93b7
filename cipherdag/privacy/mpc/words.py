"""Integers modulo 2**k: how they are packed, and how a party evaluates a test on its shares.

Every word travels as the least whole bytes of its ring, little-endian. Quadratic forms are
computed modulo 2**64, which is a homomorphism to any smaller ring.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from cipherdag.arrays import IntegerVector, WordVector
from cipherdag.errors import MalformedMessageError
from cipherdag.predicates import Predicates
from cipherdag.privacy.keys.keyed import transcript

RandomBytes = Callable[[int], bytes]
WORD_BYTES = 8
_ALL_BITS = np.uint64((1 << 64) - 1)


def low_bits(widths: IntegerVector) -> WordVector:
    """The masks that reduce words modulo ``2**width``, 1 to 64 bits each, shape as ``widths``."""
    return _ALL_BITS >> (64 - widths).view(np.uint64)


class WordPacking:
    """Words of a ring each as they travel, one after the other.

    The rings have 1 to 64 bits, shape (words,); all words together take ``n_bytes``.
    """

    __slots__ = ("_low", "_used", "n_bytes")

    def __init__(self, widths: IntegerVector) -> None:
        self._low = low_bits(widths)
        lengths = -(-widths // 8)
        self._used = np.flatnonzero(np.arange(WORD_BYTES) < lengths[:, None])
        self.n_bytes = self._used.size

    def pack(self, words: WordVector) -> bytes:
        """The words, each modulo its ``2**width``."""
        reduced = (words & self._low).astype("<u8", copy=False)
        return reduced.view(np.uint8)[self._used].tobytes()

    def unpack(self, packed: bytes) -> WordVector:
        """Undo `pack`.

        Raises:
            MalformedMessageError: There are more or fewer words, or one is not reduced.
        """
        if len(packed) != self.n_bytes:
            raise MalformedMessageError("words of secure tests are cut short or too long")
        content = np.zeros(self._low.size * WORD_BYTES, dtype=np.uint8)
        content[self._used] = np.frombuffer(packed, dtype=np.uint8)
        words = content.view("<u8").astype(np.uint64, copy=False)
        if (words > self._low).any():
            raise MalformedMessageError("a word of secure tests is not reduced")
        return words


def predicates_digest(predicates: Predicates) -> bytes:
    """SHA-256 over all of them."""
    return hashlib.sha256(transcript(b"cipherdag predicates", *predicates.packed)).digest()


def form_values(predicates: Predicates, words: WordVector) -> WordVector:
    """Every form without its constant, modulo 2**64, shape (comparisons,)."""
    quadratic = predicates.quadratic
    products = words[quadratic[:, 1]] * words[quadratic[:, 2]]
    return product_values(predicates, products) + linear_values(predicates, words)


def product_values(predicates: Predicates, products: WordVector) -> WordVector:
    """The quadratic terms of every form from their products, modulo 2**64."""
    quadratic = predicates.quadratic
    return predicates.added_up(quadratic, quadratic[:, -1].view(np.uint64) * products)


def linear_values(predicates: Predicates, words: WordVector) -> WordVector:
    """The linear terms of every form, modulo 2**64, shape (comparisons,)."""
    linear = predicates.linear
    return predicates.added_up(linear, linear[:, -1].view(np.uint64) * words[linear[:, 1]])
