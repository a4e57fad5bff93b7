"""Distributed comparison functions: two keys whose outputs add up to [x < alpha] modulo 2.

Boyle, Chandran, Gilboa, Gupta, Ishai, Kumar and Rathee, "Function secret sharing for mixed-mode
and fixed-point secure computation", EUROCRYPT 2021 (ePrint 2020/1392), Figure 3, with outputs in
Z_2 and early termination (Boyle, Gilboa and Ishai, "Function secret sharing: improvements and
extensions", CCS 2016): a tree ends 7 levels early, in a block of 128 outputs.

A seed is a block whose three lowest bits are zero. Its left child is hashed from the seed, its
right child from the seed with bit 0 set, its block of outputs from the seed with bit 1 set; of a
child's hash, bit 0 is the control bit t, bit 1 the output v, and the rest the seed. A correction
is a block too: that of t to the left, of t to the right and of v in bits 0 to 2, then the seed's.

Leaks:
    One key shows the number of levels. What it yields at any x says nothing of alpha: the other
    key's seeds are unknown to its holder, 125 bits each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cipherdag.privacy.aggregation import WordVector
    from cipherdag.privacy.comparison.blockhash import BlockHash, Blocks

LEAF_BITS = 7
FLAGS = np.uint64(7)
"""The bits of a block that a seed leaves free."""

_ONE, _TWO = np.uint64(1), np.uint64(2)
_LEAF = np.uint64(2)
_WORD_BITS = 64
_CHUNK = 16384
"""Points evaluated at a time, so that their seeds stay in the processor's cache."""


def levels(bits: int) -> int:
    """How many corrections a key over points of so many bits has."""
    return max(0, bits - LEAF_BITS)


def deal_tree(
    hashed: BlockHash, alphas: WordVector, bits: int, roots: Blocks
) -> tuple[Blocks, Blocks]:
    """What both keys have in common, for every comparison.

    Args:
        hashed: The hash of this batch.
        alphas: The secret bounds, below ``2**bits``, shape (count,).
        bits: Bits of a point, 1 to 64.
        roots: The two holders' secret root seeds, uniform, shape (2, count, 2).

    Returns:
        The corrections, shape (levels, count, 2), and those of the outputs, shape (count, 2).

    Leaks:
        Nothing to a holder of one of the roots.
    """
    count = alphas.size
    corrections = np.empty((levels(bits), count, 2), dtype=np.uint64)
    seeds, own = roots, np.zeros((2, count), dtype=np.uint64)
    own[1] = 1
    value = np.zeros(count, dtype=np.uint64)
    for level, correction in enumerate(corrections):
        right = (alphas >> np.uint64(bits - 1 - level)) & _ONE
        kept, lost = hashed(seeds, right), hashed(seeds, right ^ _ONE)
        of_kept, of_lost = kept[0, :, 0] ^ kept[1, :, 0], lost[0, :, 0] ^ lost[1, :, 0]
        output = (of_lost >> _ONE & _ONE) ^ value ^ right
        value ^= (of_kept >> _ONE & _ONE) ^ output
        correction[:, 0] = of_lost & ~FLAGS | output << _TWO
        # the control bits differ on alpha's path, and nowhere else
        correction[:, 0] |= (of_kept & _ONE ^ _ONE) << right | (of_lost & _ONE) << (right ^ _ONE)
        np.bitwise_xor(lost[0, :, 1], lost[1, :, 1], out=correction[:, 1])
        seeds, own = corrected(kept, own, correction, right)
    leaves = hashed(seeds, _LEAF)
    outputs = leaves[0] ^ leaves[1] ^ _outputs(alphas, value, bits)
    return corrections, outputs & ~unused_outputs(bits)


def evaluate_tree(
    hashed: BlockHash,
    roots: Blocks,
    corrections: Blocks,
    outputs: Blocks,
    points: WordVector,
    *,
    second: bool,
    bits: int,
) -> WordVector:
    """One holder's share of [point < alpha], for several points of every comparison.

    Args:
        hashed: The hash of this batch.
        roots: This holder's root seeds, shape (count, 2).
        corrections: As `deal_tree` yields them.
        outputs: As `deal_tree` yields them.
        points: Public points below ``2**bits``, shape (points a comparison, count).
        second: Whether this is the holder of the second root.
        bits: Bits of a point.

    Returns:
        Zeros and ones, shape as ``points``.

    Leaks:
        Nothing.
    """
    shares = np.empty(points.shape, dtype=np.uint64)
    width = max(1, _CHUNK // max(1, len(points)))
    for first in range(0, points.shape[1], width):
        some = slice(first, first + width)
        shares[:, some] = _evaluated(
            hashed, roots[some], corrections[:, some], outputs[some], points[:, some], second, bits
        )
    return shares


def unused_outputs(bits: int) -> Blocks:
    """The bits of a block of outputs that no point of so many bits reads, shape (2,)."""
    used = (1 << (1 << min(bits, LEAF_BITS))) - 1
    word = (1 << _WORD_BITS) - 1
    return np.array([~used & word, ~(used >> _WORD_BITS) & word], dtype=np.uint64)


def _evaluated(
    hashed: BlockHash,
    roots: Blocks,
    corrections: Blocks,
    outputs: Blocks,
    points: WordVector,
    second: bool,
    bits: int,
) -> WordVector:
    seeds = np.broadcast_to(roots, (*points.shape, 2))
    own = np.full(points.shape, int(second), dtype=np.uint64)
    shares = np.zeros(points.shape, dtype=np.uint64)
    for level, correction in enumerate(corrections):
        right = (points >> np.uint64(bits - 1 - level)) & _ONE
        child = hashed(seeds, right)
        shares ^= (child[..., 0] >> _ONE) ^ (own & (correction[:, 0] >> _TWO))
        seeds, own = corrected(child, own, correction, right)
    leaves = hashed(seeds, _LEAF)
    upper = (points & np.uint64(_WORD_BITS)).astype(bool)
    word = np.where(upper, leaves[..., 1], leaves[..., 0])
    word ^= where_set(own, np.where(upper, outputs[:, 1], outputs[:, 0]))
    shares ^= word >> (points & np.uint64(_WORD_BITS - 1))
    return shares & _ONE


def corrected(
    children: Blocks, own: WordVector, correction: Blocks, right: WordVector
) -> tuple[Blocks, WordVector]:
    """The seeds, in place, and control bits of the children taken."""
    flags = (children[..., 0] ^ own & (correction[:, 0] >> right)) & _ONE
    # word by word: numpy is slow at rows of two
    for word in range(correction.shape[1]):
        children[..., word] ^= where_set(own, correction[:, word])
    children[..., 0] &= ~FLAGS
    return children, flags


def where_set(flags: WordVector, words: WordVector) -> WordVector:
    """The words whose flag is 1, and 0 for the others."""
    return (np.uint64(0) - flags) & words


def _outputs(alphas: WordVector, value: WordVector, bits: int) -> Blocks:
    """Of every comparison, which points of alpha's block are below alpha, xor the path's value."""
    below = alphas & np.uint64((1 << min(bits, LEAF_BITS)) - 1)
    words = np.empty((alphas.size, 2), dtype=np.uint64)
    words[:, 0] = _ones(np.minimum(below, np.uint64(_WORD_BITS)))
    words[:, 1] = _ones(below - np.minimum(below, np.uint64(_WORD_BITS)))
    return words ^ (np.zeros_like(value) - value)[:, None]


def _ones(lengths: WordVector) -> WordVector:
    """Words whose lowest so many bits are set; 0 to 64 of them."""
    # a shift by the whole width is not defined, so it is done in two steps
    half = lengths >> _ONE
    above: WordVector = (~np.uint64(0) << half) << (lengths - half)
    return ~above
