"""Keyed digests: equality of names or schemas shown to someone who does not know the key.

Leaks:
    A digest shows nothing without its key; equal digests under one key show equal parts.
"""

from __future__ import annotations

import hmac

from cipherdag.errors import ParameterError

MIN_KEY_BYTES = 16


def transcript(*parts: bytes) -> bytes:
    """All parts, each preceded by its length in 8 bytes: different parts, different bytes."""
    return b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)])


def keyed_digest(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 (RFC 2104) over the length-prefixed parts.

    The key has at least 16 random bytes; number and borders of the parts count. Whoever has the key
    can test guesses, and to all others the 32 bytes say nothing. Raises ParameterError where the
    key is too short to be one.
    """
    if len(key) < MIN_KEY_BYTES:
        raise ParameterError(f"a digest key needs at least {MIN_KEY_BYTES} bytes")
    return hmac.digest(key, transcript(*parts), "sha256")


def same_digest(first: bytes, second: bytes) -> bool:
    """Whether two digests are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(first, second)
