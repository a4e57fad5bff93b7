"""Shares of verdicts as they travel, and the verdicts that two of them open.

Leaks:
    One share nothing; two shares the verdicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import ShareError

if TYPE_CHECKING:
    from cipherdag.privacy.comparison.keys import BitVector


def pack(share: BitVector) -> bytes:
    """Eight bits a byte, the first one highest; the last byte is filled up with zeros."""
    return np.packbits(share).tobytes()


def unpack(packed: bytes, count: int) -> BitVector:
    """Undo `pack`; raises ShareError for another length, or a filling that is not zero."""
    if len(packed) != -(-count // 8):
        raise ShareError("the share of the verdicts is cut short or too long")
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8)).astype(bool)
    if bits[count:].any():
        raise ShareError("the share of the verdicts has bits beyond the last verdict")
    return bits[:count]


def opened(first: bytes, second: bytes, count: int) -> BitVector:
    """The verdicts that both holders' packed shares stand for, shape (count,).

    Raises:
        ShareError: One has another length, or bits beyond the last verdict.

    Leaks:
        The verdicts.
    """
    return unpack(first, count) ^ unpack(second, count)
