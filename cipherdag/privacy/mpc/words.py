"""Words of a ring modulo 2**k: as they travel, and the forms that tests take of them in shares.

Words travel as the least whole bytes, little-endian. Forms are computed modulo 2**64, which is a
homomorphism to any smaller ring, so a party computes them of its shares.

Leaks:
    Nothing: pure encoding and arithmetic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from cipherdag.arrays import IntegerMatrix, WordVector
from cipherdag.errors import MalformedMessageError
from cipherdag.predicates import Predicates
from cipherdag.privacy.keys.keyed import transcript

RandomBytes = Callable[[int], bytes]
WORD_BYTES = 8


def word_bytes(width: int) -> int:
    """Bytes of a word of so many bits."""
    return -(-width // 8)


def low_bits(width: int) -> np.uint64:
    """The bit mask that reduces a word modulo ``2**width``, 1 to 64 bits."""
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


def predicates_digest(predicates: Predicates) -> bytes:
    """SHA-256 over all of them."""
    return hashlib.sha256(transcript(b"cipherdag predicates", *predicates.packed)).digest()


def form_values(predicates: Predicates, words: WordVector) -> WordVector:
    """Every form without its constant, modulo 2**64, shape (comparisons,)."""
    quadratic = predicates.quadratic
    products = words[quadratic[:, 1]] * words[quadratic[:, 2]]
    return summed(predicates, quadratic, products) + linear_values(predicates, words)


def linear_values(predicates: Predicates, words: WordVector) -> WordVector:
    """The linear terms of every form, modulo 2**64, shape (comparisons,)."""
    return summed(predicates, predicates.linear, words[predicates.linear[:, 1]])


def summed(predicates: Predicates, terms: IntegerMatrix, factors: WordVector) -> WordVector:
    """Coefficients times factors of some terms, added up by comparison, modulo 2**64."""
    total = np.zeros(predicates.n_comparisons, dtype=np.uint64)
    if len(terms):
        owner = terms[:, 0]
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        total[owner[first]] = np.add.reduceat(terms[:, -1].view(np.uint64) * factors, first)
    return total
