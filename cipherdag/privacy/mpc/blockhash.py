"""A hash of 16-byte blocks from one AES key that everybody knows, for many blocks at a time.

    H(x) = pi(sigma(x)) xor sigma(x),    sigma(left | right) = (left xor right) | left

where pi is AES-128. For a uniform x that nobody knows, H(x), H(x xor 1), ... look uniform and
independent (Guo, Katz, Wang and Yu, "Efficient and secure multiparty computation from fixed-key
block ciphers", IEEE S&P 2020, section 7). The key is a public one for every batch of
comparisons, so that work spent on one batch is of no use against another (Guo, Katz, Wang, Weng and
Yu, "Better concrete security for half-gates garbling", CRYPTO 2020).

Leaks:
    Nothing of a uniform block to whoever sees hashes of it alone.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from cipherdag.arrays import WordVector

Blocks = NDArray[np.uint64]
"""Blocks of 16 bytes as their two little-endian words, shape (..., 2)."""


class BlockHash:
    """The hash under one key.

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
        found = np.empty(mixed.size + 2, dtype="<u8")
        self._cipher.update_into(mixed.data.cast("B"), found.data.cast("B"))
        permuted = found[: mixed.size].reshape(blocks.shape)
        permuted ^= mixed
        return permuted.astype(np.uint64, copy=False)
