"""Distributed comparison functions whose outputs add up to a secret word, or to 0.

Boyle, Chandran, Gilboa, Gupta, Ishai, Kumar and Rathee, "Function secret sharing for mixed-mode
and fixed-point secure computation", EUROCRYPT 2021 (ePrint 2020/1392), Figure 3, with outputs in
Z_2^64: both keys yield words that add up to

    payload * ([x < alpha] xor turned)        modulo 2**64

so that a holder who does not know the payload cannot turn 0 into it, or it into 0. ``turned`` says
on which side of alpha the payload lies; neither key shows it. A tree ends 2 levels early, in four
words of outputs (early termination: Boyle, Gilboa and Ishai, CCS 2016).

Of a seed, which has its three lowest bits free, the children are hashed with tweaks 0 and 1, the
words that both directions yield with tweak 2, and the four outputs with tweaks 4 and 5. Of a
child's hash, bit 0 is the control bit. A correction is a block, of the control bit to the left in
bit 0 and to the right in bit 1, and a word for what is yielded.

Leaks:
    One key shows the number of levels. What it yields at any x, and at any number of them, says
    nothing of alpha, the payload or the side: the other key's seeds are unknown to its holder, 125
    bits each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from cipherdag.arrays import WordMatrix, WordVector
from cipherdag.privacy.mpc.words import WORD_BYTES

Blocks = NDArray[np.uint64]
"""Blocks of 16 bytes as their two little-endian words, shape (..., 2)."""


class BlockHash:
    """A hash of 16-byte blocks from one AES key that everybody knows, for many blocks at a time.

        H(x) = pi(sigma(x)) xor sigma(x),    sigma(left | right) = (left xor right) | left

    where pi is AES-128. For a uniform x that nobody knows, H(x), H(x xor 1), ... look uniform and
    independent (Guo, Katz, Wang and Yu, "Efficient and secure multiparty computation from fixed-key
    block ciphers", IEEE S&P 2020, section 7). The key is a public one for every batch of
    comparisons, so that work spent on one batch is of no use against another (Guo, Katz, Wang, Weng
    and Yu, "Better concrete security for half-gates garbling", CRYPTO 2020).

    Args:
        key: 16 bytes, public.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        # a permutation of single blocks is what is wanted here, nothing is encrypted
        self._cipher = Cipher(AES(key), ECB()).encryptor()  # noqa: S305

    def __call__(self, blocks: Blocks, tweak: WordVector | np.uint64) -> Blocks:
        """The hash of every block with a tweak, shape as ``blocks``.

        Args:
            blocks: Of any shape.
            tweak: Bits of the first word to set, of all blocks or of each, shape (...).
        """
        mixed = np.empty(blocks.shape, dtype="<u8")
        np.bitwise_or(blocks[..., 0], tweak, out=mixed[..., 1])
        np.bitwise_xor(mixed[..., 1], blocks[..., 1], out=mixed[..., 0])
        # the cipher wants room for a block more, less one byte
        buffer = np.empty(mixed.size + 2, dtype="<u8")
        self._cipher.update_into(mixed.data.cast("B"), buffer.data.cast("B"))
        permuted = buffer[: mixed.size].reshape(blocks.shape)
        permuted ^= mixed
        return permuted.astype(np.uint64, copy=False)


FLAGS = np.uint64(7)
"""The bits of a block that a seed leaves free."""
LEAF_BITS = 2
LEAVES = 1 << LEAF_BITS
LEVEL_BYTES = 3 * WORD_BYTES
"""Length of a level of one key: a block and a word."""

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_VALUES, _LOWER, _UPPER = np.uint64(2), np.uint64(4), np.uint64(5)
_CHUNK = 4096
"""Comparisons dealt or evaluated at a time, so that their seeds stay in the processor's cache."""


class PayloadKeys(NamedTuple):
    """The corrections and outputs that both keys of some comparisons have in common.

    Attributes:
        corrections: Blocks, shape (levels, count, 2).
        values: Words, shape (levels, count).
        outputs: Words, shape (count, 4).
    """

    corrections: Blocks
    values: WordMatrix
    outputs: WordMatrix

    def part(self, some: slice) -> PayloadKeys:
        """The keys of some comparisons."""
        return PayloadKeys(self.corrections[:, some], self.values[:, some], self.outputs[some])


def levels(bits: int) -> int:
    """Number of corrections in a key over points of so many bits, at least 2."""
    return bits - LEAF_BITS


def key_bytes(bits: int, count: int) -> int:
    """Length of what both keys of so many comparisons have in common."""
    return count * (levels(bits) * LEVEL_BYTES + LEAVES * WORD_BYTES)


def empty_keys(bits: int, count: int) -> PayloadKeys:
    """Room for what both keys have in common."""
    return PayloadKeys(
        np.empty((levels(bits), count, 2), dtype=np.uint64),
        np.empty((levels(bits), count), dtype=np.uint64),
        np.empty((count, LEAVES), dtype=np.uint64),
    )


def deal_payloads(
    hashed: BlockHash,
    alphas: WordVector,
    bits: int,
    roots: Blocks,
    payloads: WordVector,
    turned: WordVector,
) -> PayloadKeys:
    """Deals the parts that both keys have in common, for every comparison.

    Args:
        hashed: The hash of this batch.
        alphas: The secret bounds, below ``2**bits``, shape (count,).
        bits: Bits of a point, 2 to 63.
        roots: The two holders' secret root seeds, uniform, shape (2, count, 2).
        payloads: What the outputs add up to on one side, shape (count,).
        turned: 0 where that side is below alpha, 1 where it is not, shape (count,).

    Leaks:
        Nothing to a holder of one of the roots.
    """
    keys = empty_keys(bits, alphas.size)
    for first in range(0, alphas.size, _CHUNK):
        some = slice(first, first + _CHUNK)
        _deal(
            hashed, alphas[some], bits, roots[:, some], payloads[some], turned[some],
            keys.part(some),
        )  # fmt: skip
    return keys


def evaluate_payloads(
    hashed: BlockHash,
    roots: Blocks,
    keys: PayloadKeys,
    points: WordMatrix,
    *,
    second: bool,
    bits: int,
) -> WordMatrix:
    """One holder's words at several points of every comparison, shape as ``points``.

    Args:
        hashed: The hash of this batch.
        roots: This holder's root seeds, shape (count, 2).
        keys: As `deal_payloads` yields them.
        points: Public points below ``2**bits``, shape (points a comparison, count).
        second: Whether this is the holder of the second root.
        bits: Bits of a point.

    Leaks:
        Nothing.
    """
    shares = np.empty(points.shape, dtype=np.uint64)
    for first in range(0, points.shape[1], _CHUNK):
        some = slice(first, first + _CHUNK)
        shares[:, some] = _evaluated(
            hashed, roots[some], keys.part(some), points[:, some], second, bits
        )
    return _ZERO - shares if second else shares


def _deal(
    hashed: BlockHash,
    alphas: WordVector,
    bits: int,
    roots: Blocks,
    payloads: WordVector,
    turned: WordVector,
    keys: PayloadKeys,
) -> None:
    seeds, control = roots, np.zeros((2, alphas.size), dtype=np.uint64)
    control[1] = 1
    path = np.zeros(alphas.size, dtype=np.uint64)  # what both outputs add up to on alpha's path
    for level, (correction, value) in enumerate(zip(keys.corrections, keys.values, strict=True)):
        right = (alphas >> np.uint64(bits - 1 - level)) & _ONE
        chosen, lost = hashed(seeds, right), hashed(seeds, right ^ _ONE)
        yielded = hashed(seeds, _VALUES)
        of_kept, of_lost = _directions(yielded, right)
        minus = control[1]
        wanted = where_set(right ^ turned, payloads)
        value[:] = _signed(wanted - path - of_lost[0] + of_lost[1], minus)
        path += of_kept[0] - of_kept[1] + _signed(value, minus)
        bits_kept, bits_lost = chosen[0, :, 0] ^ chosen[1, :, 0], lost[0, :, 0] ^ lost[1, :, 0]
        # the control bits differ on alpha's path, and nowhere else
        correction[:, 0] = bits_lost & ~FLAGS
        correction[:, 0] |= (bits_kept & _ONE ^ _ONE) << right | (bits_lost & _ONE) << (
            right ^ _ONE
        )
        np.bitwise_xor(lost[0, :, 1], lost[1, :, 1], out=correction[:, 1])
        seeds, control = corrected(chosen, control, correction, right)
    below = alphas & np.uint64(LEAVES - 1)
    inside = (np.arange(LEAVES, dtype=np.uint64) < below[:, None]).astype(np.uint64)
    wanted = where_set(inside ^ turned[:, None], payloads[:, None])
    leaves = _leaves(hashed, seeds)
    outputs = wanted - path[:, None] - leaves[0] + leaves[1]
    keys.outputs[:] = _signed(outputs, control[1][:, None])


def _evaluated(
    hashed: BlockHash,
    roots: Blocks,
    keys: PayloadKeys,
    points: WordMatrix,
    second: bool,
    bits: int,
) -> WordMatrix:
    seeds = np.broadcast_to(roots, (*points.shape, 2))
    control = np.full(points.shape, int(second), dtype=np.uint64)
    shares: WordMatrix = np.zeros(points.shape, dtype=np.uint64)
    for level, (correction, value) in enumerate(zip(keys.corrections, keys.values, strict=True)):
        right = (points >> np.uint64(bits - 1 - level)) & _ONE
        shares += _taken(hashed(seeds, _VALUES), right) + where_set(control, value)
        seeds, control = corrected(hashed(seeds, right), control, correction, right)
    leaf = points & np.uint64(LEAVES - 1)
    # a hash has two of the four words
    shares += _taken(hashed(seeds, np.where(leaf > _ONE, _UPPER, _LOWER)), leaf & _ONE)
    chosen = keys.outputs[np.arange(points.shape[1]), leaf.astype(np.intp)]
    shares += where_set(control, chosen)
    return shares


def _directions(yielded: Blocks, right: WordVector) -> tuple[WordMatrix, WordMatrix]:
    """Both holders' words for alpha's direction, and for the other one, shape (2, count)."""
    turn = right.astype(bool)
    left_word, right_word = yielded[..., 0], yielded[..., 1]
    return np.where(turn, right_word, left_word), np.where(turn, left_word, right_word)


def _taken(blocks: Blocks, second: WordVector) -> WordVector:
    """The first or second word of every block."""
    return np.where(second.astype(bool), blocks[..., 1], blocks[..., 0])


def _leaves(hashed: BlockHash, seeds: Blocks) -> WordMatrix:
    """The four words of every seed, shape (..., 4)."""
    return np.concatenate([hashed(seeds, _LOWER), hashed(seeds, _UPPER)], axis=-1)


def _signed(words: WordVector, minus: WordVector) -> WordVector:
    """The words, negated where a flag is 1."""
    mask: WordVector = _ZERO - minus
    return (words ^ mask) - mask


def corrected(
    children: Blocks, control: WordVector, correction: Blocks, right: WordVector
) -> tuple[Blocks, WordVector]:
    """The seeds, in place, and control bits of the children taken."""
    flags = (children[..., 0] ^ control & (correction[:, 0] >> right)) & _ONE
    # word by word: numpy is slow at rows of two
    for word in range(correction.shape[1]):
        children[..., word] ^= where_set(control, correction[:, word])
    children[..., 0] &= ~FLAGS
    return children, flags


def where_set(flags: WordVector, words: WordVector) -> WordVector:
    """The words whose flag is 1, and 0 for the others."""
    return (np.uint64(0) - flags) & words
