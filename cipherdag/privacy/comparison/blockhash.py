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

Blocks = NDArray[np.uint64]
"""Blocks of 16 bytes as their two little-endian words, shape (..., 2)."""

BLOCK_BYTES = 16


class BlockHash:
    """The hash under one key.

    Args:
        key: 16 bytes, public.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        # a permutation of single blocks is what is wanted here, nothing is encrypted
        self._cipher = Cipher(AES(key), ECB()).encryptor()  # noqa: S305

    def __call__(self, blocks: Blocks) -> Blocks:
        """The hash of every block, shape as ``blocks``."""
        mixed = np.empty(blocks.shape, dtype=np.uint64)
        np.bitwise_xor(blocks[..., 0], blocks[..., 1], out=mixed[..., 0])
        mixed[..., 1] = blocks[..., 0]
        permuted = from_bytes(self._cipher.update(to_bytes(mixed))).reshape(blocks.shape)
        return permuted ^ mixed


def to_bytes(blocks: Blocks) -> bytes:
    """The blocks one after the other."""
    return blocks.astype("<u8", copy=False).tobytes()


def from_bytes(data: bytes) -> Blocks:
    """Undo `to_bytes`, shape (number of blocks, 2)."""
    words = np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)
    return words.reshape(-1, 2)
