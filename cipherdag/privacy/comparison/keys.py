"""Is a blinded sum inside a public interval? Keys that let two holders find that bit together.

Interval containment after Boyle et al. (EUROCRYPT 2021, section 4.1), over the residues modulo any
N. A dealer knows the uniform r that a sum T is blinded with, and deals keys of the comparison
function for g = r - 1 mod N. At D = T + r mod N, for a public p,

    [T < p] = [D - p - 1 mod N < g] + [D <= p] + c        modulo 2

where c depends on D and r, not on p: it cancels between the two ends of an interval, and one that
ends with N - 1 is all that does not lie before p. So each holder evaluates its key at two public
points, and nothing that depends on r is left to correct (the paper's correction always comes to
[q = N - 1]). Nor does the dealer need the interval: keys may be dealt before it is known.

Leaks:
    Each holder alone learns nothing from its key and D; both holders' shares add up to the bit. The
    dealer together with whoever sees D learns T.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cipherdag.errors import ComparisonKeyError, ParameterError, SpentKeyError
from cipherdag.privacy.comparison.batch import HEADER_BYTES, Comparisons
from cipherdag.privacy.comparison.blockhash import BLOCK_BYTES, from_bytes, to_bytes
from cipherdag.privacy.comparison.function import (
    FLAGS,
    deal_tree,
    evaluate_tree,
    levels,
    unused_outputs,
)
from cipherdag.privacy.residues import uniform
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from cipherdag.privacy.aggregation import WordVector
    from cipherdag.privacy.comparison.blockhash import Blocks

_WORD_BYTES = 8

BitVector = NDArray[np.bool_]
RandomBytes = Callable[[int], bytes]


class ComparisonKeys(Secret):
    """One holder's keys of a batch; they are evaluated at one blinded sum each, and never again.

    Args:
        batch: What they are for.
        holder: 0 for the first holder, 1 for the second.
        roots: Its root seeds, shape (count, 2).
        corrections: Shape (levels, count, 2).
        outputs: Shape (count, 2).
    """

    __slots__ = ("_batch", "_corrections", "_holder", "_outputs", "_roots", "_used_for")

    def __init__(
        self, batch: Comparisons, holder: int, roots: Blocks, corrections: Blocks, outputs: Blocks
    ) -> None:
        self._batch = batch
        self._holder = holder
        self._roots = roots
        self._corrections = corrections
        self._outputs = outputs
        self._used_for = b""

    @property
    def secret_size(self) -> int:
        """Bytes of the keys without what is public of them."""
        return encoded_bytes(self._batch) - HEADER_BYTES

    def to_bytes(self) -> bytes:
        """The keys as they travel, sealed for their holder: a header, then key after key.

        A key is its root seed, a correction for every level, and that of the outputs: blocks of 16
        bytes, each two little-endian words.
        """
        blocks = np.concatenate([self._roots[None], self._corrections, self._outputs[None]])
        return self._batch.header(self._holder) + to_bytes(blocks.swapaxes(0, 1))

    @classmethod
    def from_bytes(cls, data: bytes, batch: Comparisons, holder: int) -> ComparisonKeys:
        """Decode what `to_bytes` made; nothing else is a key.

        Args:
            data: What the dealer sent.
            batch: What the keys have to be for.
            holder: Whose they have to be, 0 or 1.

        Raises:
            ComparisonKeyError: They are for another batch or the other holder, have another length,
                or a bit that is always zero is set.

        Leaks:
            Nothing.
        """
        batch.check_header(data, holder)
        if len(data) != encoded_bytes(batch):
            raise ComparisonKeyError("the comparison key is cut short or too long")
        keys = from_bytes(data[HEADER_BYTES:]).reshape(batch.count, -1, 2)
        roots, outputs = keys[:, 0].copy(), keys[:, -1].copy()
        if (roots[:, 0] & FLAGS).any() or (outputs & unused_outputs(batch.bits)).any():
            raise ComparisonKeyError("the comparison key has bits that no dealer sets")
        corrections = np.ascontiguousarray(keys[:, 1:-1].swapaxes(0, 1))
        return cls(batch, holder, roots, corrections, outputs)

    def contains(self, blinded: WordVector, low: WordVector, high: WordVector) -> BitVector:
        """This holder's share of whether each sum lies within its interval, ends included.

        Args:
            blinded: The sums plus what the dealer drew, modulo the batch's modulus, shape (count,).
            low: Public least residues of the intervals, shape (count,).
            high: Public largest ones, not below ``low``.

        Returns:
            Bits, shape (count,): the exclusive or of both holders' is the verdict.

        Raises:
            SpentKeyError: They were evaluated at other sums or intervals before.
            ParameterError: An argument has another shape or is out of range.

        Leaks:
            The share says nothing without the other holder's.
        """
        self._check(blinded, low, high)
        used_for = hashlib.sha256(np.concatenate([blinded, low, high]).tobytes()).digest()
        if self._used_for not in (b"", used_for):
            raise SpentKeyError("the comparison keys were used for other sums or intervals before")
        self._used_for = used_for
        modulus, one = self._batch.modulus, np.uint64(1)
        last = high == np.uint64(modulus - 1)
        ends = np.stack([low, np.where(last, np.uint64(0), high + one)])
        shares = evaluate_tree(
            self._batch.block_hash(),
            self._roots,
            self._corrections,
            self._outputs,
            _difference(_difference(blinded, ends, modulus), one, modulus),
            second=bool(self._holder),
            bits=self._batch.bits,
        ).astype(bool)
        share: BitVector = shares[0] ^ shares[1]
        if self._holder == 0:
            share ^= (blinded <= ends[0]) ^ (blinded <= ends[1]) ^ last
        return share

    def _check(self, blinded: WordVector, low: WordVector, high: WordVector) -> None:
        largest = np.uint64(self._batch.modulus - 1)
        for values in (blinded, low, high):
            if values.shape != (self._batch.count,) or values.dtype != np.uint64:
                raise ParameterError("there is one word for every comparison")
            if (values > largest).any():
                raise ParameterError("what is compared is reduced modulo the batch's modulus")
        if (low > high).any():
            raise ParameterError("an interval ends where it begins or later")


def draw_blinds(batch: Comparisons, random_bytes: RandomBytes = os.urandom) -> WordVector:
    """What a dealer adds to its summands: uniform residues, shape (count,).

    Args:
        batch: What for.
        random_bytes: Yields that many bytes; the operating system's random source.

    Leaks:
        A sum that one of them was added to is uniform; whoever knows it too has the sum.
    """

    def words(count: int) -> WordVector:
        drawn = np.frombuffer(random_bytes(_WORD_BYTES * count), dtype="<u8")
        return drawn.astype(np.uint64, copy=False)

    return uniform(words, batch.count, batch.modulus)


def deal(
    batch: Comparisons, blinds: WordVector, random_bytes: RandomBytes = os.urandom
) -> tuple[ComparisonKeys, ComparisonKeys]:
    """The keys of both holders, at the dealer.

    Args:
        batch: What they are for.
        blinds: What the dealer added to its summands, as `draw_blinds` yields them; never used
            for another batch.
        random_bytes: Yields that many bytes; the operating system's random source.

    Raises:
        ParameterError: There is not one reduced word for every comparison.

    Leaks:
        One holder's keys say nothing of the blinds; both holders' together say all.
    """
    if blinds.shape != (batch.count,) or (blinds > np.uint64(batch.modulus - 1)).any():
        raise ParameterError("there is one reduced word for every comparison")
    roots = from_bytes(random_bytes(2 * BLOCK_BYTES * batch.count)).reshape(2, batch.count, 2)
    roots = roots & ~np.array([FLAGS, 0], dtype=np.uint64)
    alphas = _difference(blinds, np.uint64(1), batch.modulus)
    common = deal_tree(batch.block_hash(), alphas, batch.bits, roots)
    return ComparisonKeys(batch, 0, roots[0], *common), ComparisonKeys(batch, 1, roots[1], *common)


def encoded_bytes(batch: Comparisons) -> int:
    """Length of one holder's keys as they travel."""
    return HEADER_BYTES + BLOCK_BYTES * (levels(batch.bits) + 2) * batch.count


def _difference(values: WordVector, less: WordVector | np.uint64, modulus: int) -> WordVector:
    """``values - less`` for residues of any modulus up to 2**64."""
    wrapped = values - less
    return wrapped + (values < less) * np.uint64(modulus % (1 << 64))
