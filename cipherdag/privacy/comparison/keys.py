"""Is a blinded sum inside a public interval? Keys that let two holders find that bit together.

Interval containment after Boyle et al. (EUROCRYPT 2021, section 4.1), over the residues modulo any
N. A dealer knows the uniform r that a sum T is blinded with, and deals keys of the comparison
function for g = r - 1 mod N. At D = T + r mod N, for a public p,

    [T < p] = [D - p - 1 mod N < g] + [D <= p] + c        modulo 2

where c depends on D and r, not on p: it cancels between the two ends of an interval, and one that
ends with N - 1 is all that does not lie before p. So each holder evaluates its key at two public
points, and nothing that depends on r is left to correct (the paper's correction always comes to
[q = N - 1]). Nor does the dealer need the interval: keys may be dealt before it is known.

Both holders' keys have all but their root seeds in common. That part is sent once, in the clear;
what is sealed for each holder is the 32 bytes that its roots are drawn from, and a digest of all.

Leaks:
    What is sent in the clear says nothing, nor does either holder's key with it, and D; both
    holders' shares add up to the bit. Both keys together say r, so that whoever sees D too has T.
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
from cipherdag.privacy.keys.keyed import same_digest
from cipherdag.privacy.keys.pairkeys import KEY_BYTES
from cipherdag.privacy.keystream import Keystream
from cipherdag.privacy.residues import uniform
from cipherdag.privacy.secrecy import Secret

if TYPE_CHECKING:
    from cipherdag.privacy.aggregation import WordVector
    from cipherdag.privacy.comparison.blockhash import Blocks

_CHECK_BYTES = 32
SECRET_BYTES = HEADER_BYTES + KEY_BYTES + _CHECK_BYTES
"""Length of what is sealed for one holder."""

_WORD_BYTES = 8

BitVector = NDArray[np.bool_]
RandomBytes = Callable[[int], bytes]


class ComparisonKeys(Secret):
    """One holder's keys of a batch; they are evaluated at one blinded sum each, and never again.

    Args:
        secret: What the dealer sealed for this holder.
        common: What it sent in the clear.
        batch: What the keys have to be for.
        holder: Whose they have to be: 0 for the first holder, 1 for the second.

    Raises:
        ComparisonKeyError: They are for another batch or the other holder, have another length,
            were altered, or a bit that no dealer sets is set.

    Attributes:
        batch: What they are for.

    Leaks:
        Nothing.
    """

    __slots__ = ("_corrections", "_holder", "_outputs", "_roots", "_used_for", "batch")

    def __init__(self, secret: bytes, common: bytes, batch: Comparisons, holder: int) -> None:
        batch.check_header(secret, holder)
        if len(secret) != SECRET_BYTES or len(common) != common_bytes(batch):
            raise ComparisonKeyError("the comparison key is cut short or too long")
        seed, check = secret[HEADER_BYTES:-_CHECK_BYTES], secret[-_CHECK_BYTES:]
        if not same_digest(check, _check_of(batch.header(holder), seed, common)):
            raise ComparisonKeyError("the comparison key was altered on its way")
        blocks = from_bytes(common).reshape(levels(batch.bits) + 1, batch.count, 2)
        if (blocks[-1] & unused_outputs(batch.bits)).any():
            raise ComparisonKeyError("the comparison key has bits that no dealer sets")
        self.batch = batch
        self._holder = holder
        self._roots = _roots(seed, batch.count)
        self._corrections, self._outputs = blocks[:-1], blocks[-1]
        self._used_for = b""

    @property
    def secret_size(self) -> int:
        """Of the root seeds."""
        return BLOCK_BYTES * self.batch.count

    def contains(self, blinded: WordVector, low: WordVector, high: WordVector) -> BitVector:
        """This holder's share of whether each sum lies within its intervals, ends included.

        Args:
            blinded: The sums plus what the dealer drew, modulo the batch's modulus, shape (count,).
            low: Public least residues of the intervals, shape (count,), or (intervals, count).
            high: Public largest ones, not below ``low``.

        Returns:
            Bits, shape as ``low``: the exclusive or of both holders' is the verdict.

        Raises:
            SpentKeyError: They were evaluated at other sums or intervals before.
            ParameterError: An argument has another shape or is out of range.

        Leaks:
            The share says nothing without the other holder's.
        """
        self._check(blinded, low, high)
        used_for = hashlib.sha256(np.vstack([blinded, low, high]).tobytes()).digest()
        if self._used_for not in (b"", used_for):
            raise SpentKeyError("the comparison keys were used for other sums or intervals before")
        self._used_for = used_for
        batch, one = self.batch, np.uint64(1)
        last = high == np.uint64(batch.modulus - 1)
        ends = np.stack([low, np.where(last, np.uint64(0), high + one)])
        points = batch.difference(batch.difference(blinded, ends), one)
        shares = evaluate_tree(
            self.batch.block_hash(),
            self._roots,
            self._corrections,
            self._outputs,
            points.reshape(-1, batch.count),
            second=bool(self._holder),
            bits=self.batch.bits,
        )
        shares = shares.reshape(ends.shape).astype(bool)
        share: BitVector = shares[0] ^ shares[1]
        if self._holder == 0:
            share ^= (blinded <= ends[0]) ^ (blinded <= ends[1]) ^ last
        return share

    def _check(self, blinded: WordVector, low: WordVector, high: WordVector) -> None:
        largest = np.uint64(self.batch.modulus - 1)
        for values in (blinded, low, high):
            if values.shape[-1:] != (self.batch.count,) or values.dtype != np.uint64:
                raise ParameterError("there is one word for every comparison")
            if (values > largest).any():
                raise ParameterError("what is compared is reduced modulo the batch's modulus")
        if blinded.ndim != 1 or low.shape != high.shape or (low > high).any():
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


class DealtKeys(Secret):
    """Both holders' keys as they travel, at their dealer.

    Attributes:
        common: Corrections of every level, then of the outputs; blocks of 16 bytes, two
            little-endian words each. Anyone may read it.
        secrets: For each holder a header, 32 bytes of seed and 32 of a digest; sealed for it.
    """

    __slots__ = ("common", "secrets")

    def __init__(self, common: bytes, secrets: tuple[bytes, bytes]) -> None:
        self.common = common
        self.secrets = secrets

    @property
    def secret_size(self) -> int:
        """Of both seeds."""
        return len(self.secrets) * KEY_BYTES


def deal(
    batch: Comparisons, blinds: WordVector, random_bytes: RandomBytes = os.urandom
) -> DealtKeys:
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
    seeds = random_bytes(KEY_BYTES), random_bytes(KEY_BYTES)
    roots = np.stack([_roots(seed, batch.count) for seed in seeds])
    alphas = batch.difference(blinds, np.uint64(1))
    corrections, outputs = deal_tree(batch.block_hash(), alphas, batch.bits, roots)
    common = to_bytes(corrections) + to_bytes(outputs)
    first, second = (
        header + seed + _check_of(header, seed, common)
        for header, seed in zip(map(batch.header, (0, 1)), seeds, strict=True)
    )
    return DealtKeys(common, (first, second))


def common_bytes(batch: Comparisons) -> int:
    """Length of what both holders' keys have in common."""
    return BLOCK_BYTES * (levels(batch.bits) + 1) * batch.count


def _roots(seed: bytes, count: int) -> Blocks:
    """The root seeds of one holder, shape (count, 2)."""
    roots = Keystream(seed).words(2 * count).reshape(count, 2)
    return roots & ~np.array([FLAGS, 0], dtype=np.uint64)


def _check_of(header: bytes, seed: bytes, common: bytes) -> bytes:
    return hashlib.sha256(header + seed + common).digest()
