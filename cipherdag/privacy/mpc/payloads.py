"""Distributed comparison functions whose outputs add up to a secret word, or to 0.

Boyle, Chandran, Gilboa, Gupta, Ishai, Kumar and Rathee, "Function secret sharing for mixed-mode
and fixed-point secure computation", EUROCRYPT 2021 (ePrint 2020/1392), Figure 3, with outputs in
Z_2^64: both keys yield words that add up to

    payload * ([x < alpha] xor turned)        modulo 2**64

so that a holder who does not know the payload cannot turn 0 into it, or it into 0. ``turned`` says
on which side of alpha the payload lies; neither key shows it. A tree ends 2 levels early, in four
words of outputs (early termination: Boyle, Gilboa and Ishai, CCS 2016).

A seed leaves its three lowest bits free for tweaks. Hashed with tweaks 0 and 1 it gives the left
and the right child, with 2 the word that a step to either side adds, with 4 and 5 the four outputs.
Bit 0 of a child's hash is its control bit. A correction is a block, whose bits 0 and 1 correct the
control bits to the left and to the right, and a word that corrects what a step adds.

Comparisons of all sizes descend together: one of n bits joins where n - 2 levels are left. What
both keys have in common stands level by level, from the top. A level has the first words of its
comparisons' blocks, then all second words, then all words that correct what a step adds. After the
last level come all first outputs, then all second, third and fourth ones. Comparisons stand in
descending order of their bits; those with equally many bits keep the order given.

Leaks:
    One key shows the number of levels. What it yields, at any number of points x, says nothing of
    alpha, the payload or the side: its holder does not know the other key's seeds, of 125 bits
    each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from cipherdag.arrays import IndexArray, IntegerVector, WordMatrix, WordVector

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
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        # a permutation of single blocks is what is wanted here, nothing is encrypted
        self._cipher = Cipher(AES(key), ECB()).encryptor()  # noqa: S305

    def __call__(
        self, first: WordMatrix, second: WordMatrix, tweaks: Sequence[WordMatrix | np.uint64]
    ) -> Blocks:
        """The hash of every block, by its words, with tweaks of the first, (tweaks, ..., 2)."""
        mixed = np.empty((len(tweaks), *first.shape, 2), dtype="<u8")
        for tweak, into in zip(tweaks, mixed, strict=True):
            np.bitwise_or(first, tweak, out=into[..., 1])
        np.bitwise_xor(mixed[..., 1], second, out=mixed[..., 0])
        # the cipher wants room for a block more, less one byte
        buffer = np.empty(mixed.size + 2, dtype="<u8")
        self._cipher.update_into(mixed.data.cast("B"), buffer.data.cast("B"))
        permuted = buffer[: mixed.size].reshape(mixed.shape)
        permuted ^= mixed
        return permuted.astype(np.uint64, copy=False)


FLAGS = np.uint64(7)  # the bits of a block that a seed leaves free
LEAF_BITS = 2
LEAVES = 1 << LEAF_BITS
LEVEL_WORDS = 3  # words that one comparison has in a level: a block and a word

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_VALUES, _LOWER, _UPPER = np.uint64(2), np.uint64(4), np.uint64(5)  # tweaks; see above
_CHUNK = 4096
"""Comparisons dealt or evaluated at a time, so that their seeds stay in the processor's cache."""


def key_words(bits: IntegerVector) -> int:
    """Number of words that both keys have in common, from the bits of each comparison's points."""
    return int((LEVEL_WORDS * (bits - LEAF_BITS) + LEAVES).sum())


def deal_payloads(
    hashed: BlockHash,
    bits: IntegerVector,
    alphas: WordVector,
    roots: Blocks,
    payloads: WordVector,
    turned: WordVector,
) -> WordVector:
    """Deals what both keys have in common, for every comparison; see above.

    Points and secret bounds (``alphas``) have 2 to 63 ``bits``. The two holders' root seeds are
    uniform, shape (2, count, 2). Outputs add up to the payload at x < alpha where ``turned`` is 0,
    and at x >= alpha where it is 1.
    """
    words = np.empty(key_words(bits), dtype=np.uint64)
    keys = _Keys.of(words, bits)
    for some, part in keys.chunks():
        _deal(hashed, part, alphas[some], roots[:, some], payloads[some], turned[some])
    return words


def evaluate_payloads(
    hashed: BlockHash,
    bits: IntegerVector,
    roots: Blocks,
    words: WordVector,
    points: WordMatrix,
    *,
    second: bool,
) -> WordMatrix:
    """One holder's words at several points of every comparison, shape as ``points``.

    The words are those of `deal_payloads`, the root seeds this holder's, shape (count, 2). Points
    are public, shape (points a comparison, count).
    """
    shares = np.empty(points.shape, dtype=np.uint64)
    for some, part in _Keys.of(words, bits).chunks():
        shares[:, some] = _evaluated(hashed, part, roots[some], points[:, some], int(second))
    return _ZERO - shares if second else shares


class _Keys(NamedTuple):
    """What both keys of some comparisons have in common, as views of its words.

    ``order`` has the comparisons in descending order of bits. ``levels`` are, from the top, of the
    first of these, which have the level: both words of the block, and what corrects a step's word,
    shape (3, comparisons). ``outputs`` are corrections of the four outputs, shape (4, comparisons).
    """

    order: IndexArray
    levels: tuple[WordMatrix, ...]
    outputs: WordMatrix

    @classmethod
    def of(cls, words: WordVector, bits: IntegerVector) -> _Keys:
        """The keys of comparisons over points of ``bits`` bits each, as views of ``words``."""
        order = np.argsort(-bits, kind="stable")
        left = np.arange(bits.max(initial=LEAF_BITS) - LEAF_BITS, 0, -1)
        taking_part = np.searchsorted(-bits[order], -left - LEAF_BITS, side="right")
        ends = LEVEL_WORDS * np.cumsum(taking_part)
        *levels, outputs = np.split(words, ends) if left.size else [words]
        shaped = tuple(level.reshape(LEVEL_WORDS, -1) for level in levels)
        return cls(order, shaped, outputs.reshape(LEAVES, -1))

    def chunks(self) -> Iterator[tuple[IndexArray, _Keys]]:
        """At most 4096 comparisons at a time: their positions, and their keys."""
        for first in range(0, self.order.size, _CHUNK):
            some = slice(first, first + _CHUNK)
            levels = tuple(level[:, some] for level in self.levels if level.shape[1] > first)
            yield self.order[some], _Keys(self.order[some], levels, self.outputs[:, some])


class _Front:
    """The nodes reached: seeds and control bits, a row a holder or point, shape (rows, count)."""

    __slots__ = ("control", "first", "second")

    def __init__(self, roots: Blocks, control: WordMatrix) -> None:
        self.first, self.second, self.control = roots[..., 0].copy(), roots[..., 1].copy(), control

    def take(self, children: Blocks, level: WordMatrix, right: WordMatrix) -> None:
        """Step to the chosen children, in the comparisons that have this level."""
        count = level.shape[1]
        control = self.control[:, :count]
        taken = _ZERO - control
        turned = taken & level[0]
        np.bitwise_xor(children[..., 0], turned, out=self.first[:, :count])
        self.first[:, :count] &= ~FLAGS
        np.bitwise_xor(children[..., 1], taken & level[1], out=self.second[:, :count])
        turned >>= right
        turned ^= children[..., 0]
        np.bitwise_and(turned, _ONE, out=control)


def _deal(
    hashed: BlockHash,
    keys: _Keys,
    alphas: WordVector,
    roots: Blocks,
    payloads: WordVector,
    turned: WordVector,
) -> None:
    count = alphas.size
    front = _Front(roots, np.repeat(np.array([[0], [1]], dtype=np.uint64), count, axis=1))
    path = np.zeros(count, dtype=np.uint64)  # what both outputs add up to on alpha's path
    for left, level in zip(range(len(keys.levels), 0, -1), keys.levels, strict=True):
        some = level.shape[1]
        right = alphas[:some] >> np.uint64(left - 1 + LEAF_BITS) & _ONE
        chosen, lost, yielded = hashed(
            front.first[:, :some], front.second[:, :some], (right, right ^ _ONE, _VALUES)
        )
        # the control bits differ on alpha's path, and nowhere else
        lose, keep = lost[0] ^ lost[1], chosen[0, :, 0] ^ chosen[1, :, 0] ^ _ONE
        level[0] = lose[:, 0] & ~FLAGS
        level[0] |= (keep & _ONE) << right | (lose[:, 0] & _ONE) << (right ^ _ONE)
        level[1] = lose[:, 1]
        to_left, to_right = (yielded[0] - yielded[1]).T
        turn = right.astype(bool)
        off_path = where_set(right ^ turned[:some], payloads[:some])
        off_path -= np.where(turn, to_left, to_right)
        level[2] = _signed(off_path - path[:some], front.control[1, :some])
        path[:some] = off_path + np.where(turn, to_right, to_left)
        front.take(chosen, level, right)
    inside = np.arange(LEAVES, dtype=np.uint64)[:, None] < alphas % np.uint64(LEAVES)
    wanted = where_set(inside ^ turned, payloads) - path
    leaves = hashed(front.first, front.second, (_LOWER, _UPPER))
    masks = (leaves[:, 1] - leaves[:, 0]).transpose(0, 2, 1).reshape(LEAVES, count)
    keys.outputs[:] = _signed(wanted + masks, front.control[1])


def _evaluated(
    hashed: BlockHash, keys: _Keys, roots: Blocks, points: WordMatrix, control: int
) -> WordMatrix:
    front = _Front(
        np.broadcast_to(roots, (*points.shape, 2)), np.full(points.shape, control, dtype=np.uint64)
    )
    shares = np.zeros(points.shape, dtype=np.uint64)
    for left, level in zip(range(len(keys.levels), 0, -1), keys.levels, strict=True):
        some = level.shape[1]
        right = points[:, :some] >> np.uint64(left - 1 + LEAF_BITS) & _ONE
        children, yielded = hashed(front.first[:, :some], front.second[:, :some], (right, _VALUES))
        shares[:, :some] += _taken(yielded, right)
        shares[:, :some] += where_set(front.control[:, :some], level[2])
        front.take(children, level, right)
    leaf = points % np.uint64(LEAVES)
    # a hash has two of the four words
    half = np.where(leaf > _ONE, _UPPER, _LOWER)
    shares += _taken(hashed(front.first, front.second, [half])[0], leaf & _ONE)
    chosen = np.take_along_axis(keys.outputs, leaf.astype(np.intp), axis=0)
    shares += where_set(front.control, chosen)
    return shares


def _taken(blocks: Blocks, second: WordMatrix) -> WordMatrix:
    """The second word of a block where ``second`` is 1, else the first."""
    return np.where(second.astype(bool), blocks[..., 1], blocks[..., 0])


def _signed(words: WordMatrix, minus: WordVector) -> WordMatrix:
    """The words, negated where a flag is 1."""
    mask: WordVector = _ZERO - minus
    return (words ^ mask) - mask


def where_set(flags: WordMatrix, words: WordMatrix) -> WordMatrix:
    """The words whose flag is 1, and 0 for the others."""
    return (_ZERO - flags) & words
