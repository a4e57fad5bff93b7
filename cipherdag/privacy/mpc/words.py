"""Integers modulo 2**k: packed, evaluated on shares, and labels that tell the bit of a test.

Every word travels as the least whole bytes of its ring, little-endian. Quadratic forms are
computed modulo 2**64, which is a homomorphism to any smaller ring.

One label a test says 0 or 1, and nobody can turn one into the other. Where s of a test's m
comparisons hold, its label is L + s D modulo 2^64. The dealer draws L and an odd D for each test,
and sends hashes: first that of L, which says 0, then those of L + D to L + m D in ascending order,
which say 1. So the or of the comparisons takes no secure product, and the place of the hash that
fits says nothing of s. A holder would turn 0 into 1 by adding a multiple of D, but has no more than
a share of D: it succeeds with a chance of m^2 / 2^63 at most.

One more label, that of the range, stands for the whole batch. Every form beyond the middle half of
its ring adds its test's D; only the label to which none was added is hashed.

Leaks:
    Hashes of 80 bits under AES say nothing of labels that cannot be guessed. With the label of a
    test and about 2^63 / m trials its D can be found, and with it s.
"""

import hashlib
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, IntegerVector, WordVector
from cipherdag.errors import AggregateRangeError, ForgedSumError, MalformedMessageError
from cipherdag.predicates import Predicates
from cipherdag.privacy.mpc.payloads import BlockHash
from cipherdag.privacy.wire import transcript

RandomBytes = Callable[[int], bytes]
WORD_BYTES = 8
_ALL_BITS = np.uint64((1 << 64) - 1)


def low_bits(widths: IntegerVector) -> WordVector:
    """The masks that reduce words modulo ``2**width``, 1 to 64 bits each, shape as ``widths``."""
    return _ALL_BITS >> (64 - widths).view(np.uint64)


class WordPacking:
    """Words, each of a ring of 1 to 64 bits, as they travel together in ``n_bytes``."""

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
        """Undo `pack`; MalformedMessageError at a wrong number of words, or one not reduced."""
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


HashMatrix = NDArray[np.uint8]

LABEL_HASH_BYTES: Final = 10
_BLOCK_BYTES = 16
_PREFIX_BYTES = 8
_NONE = np.uint64(0)


def hash_labels(hashed: BlockHash, labels: WordVector, places: NDArray[np.intp]) -> HashMatrix:
    """The hash of every label with its place, the number of its test, shape (labels, 10)."""
    hashes = hashed(labels, places.astype(np.uint64), [_NONE])[0].astype("<u8", copy=False)
    return hashes.view(np.uint8).reshape(-1, _BLOCK_BYTES)[:, :LABEL_HASH_BYTES]


def label_list(
    hashed: BlockHash,
    sizes: IntegerVector,
    labels: WordVector,
    steps: WordVector,
    range_label: WordVector,
) -> bytes:
    """The hashes of all labels that mean something, as a dealer sends them.

    ``sizes`` is each test's number of comparisons, ``labels`` its L, ``steps`` its odd D.
    ``range_label`` says that no form of the batch is out of range, shape (1,).
    """
    test = np.repeat(np.arange(sizes.size), sizes + 1)
    first = np.cumsum(sizes + 1) - (sizes + 1)
    holding = (np.arange(test.size) - first[test]).astype(np.uint64)
    hashes = hash_labels(hashed, labels[test] + holding * steps[test], test)
    prefix = np.ascontiguousarray(hashes[:, :_PREFIX_BYTES]).view(">u8").reshape(-1)
    order = np.lexsort((prefix, holding > 0, test))
    last = hash_labels(hashed, range_label, np.array([sizes.size]))
    return hashes[order].tobytes() + last.tobytes()


def read_labels(
    hashed: BlockHash, sizes: IntegerVector, dealt: bytes, labels: WordVector, reached: WordVector
) -> BoolVector:
    """Reads the bits that the opened labels stand for, shape (tests,).

    ``dealt`` is what `label_list` yields, ``reached`` the opened label of the range, shape (1,).
    Raises ForgedSumError where a label means nothing: who dealt, or who held a share, deviated, and
    AggregateRangeError where a sum is out of range, or the dealer or a holder deviated.
    """
    hashes = np.frombuffer(dealt, dtype=np.uint8).reshape(-1, LABEL_HASH_BYTES)
    within = hash_labels(hashed, reached, np.array([sizes.size]))
    test = np.repeat(np.arange(sizes.size), sizes + 1)
    first = np.cumsum(sizes + 1) - (sizes + 1)
    opened = hash_labels(hashed, labels, np.arange(sizes.size))
    fits = (hashes[:-1] == opened[test]).all(axis=1)
    zero = fits[first]
    fits[first] = False
    one: BoolVector = np.logical_or.reduceat(fits, first)
    if (zero == one).any():
        raise ForgedSumError("a label of a secure test is none that was dealt")
    if (within[0] != hashes[-1]).any():
        raise AggregateRangeError("a sum is none that the sites can produce")
    return one
