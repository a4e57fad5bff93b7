"""How everything that travels is written: strict structs in canonical msgpack, and their digests.

Leaks:
    Nothing: pure encoding.
"""

from __future__ import annotations

import hashlib
import zlib

from cipherdag.errors import MalformedMessageError
from cipherdag.privacy.bodies import Body, BodyType, decode, encode

__all__ = ["Body", "BodyType", "decode", "digest", "encode", "pack", "unpack"]


def digest(purpose: bytes, *parts: bytes) -> bytes:
    """SHA-256 over length-prefixed parts under a purpose: 32 bytes."""
    state = hashlib.sha256(b"cipherdag digest")
    for part in (purpose, *parts):
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def pack(content: bytes) -> bytes:
    """What was opened, as it travels back to the sites; most bytes of a sum are zero."""
    return zlib.compress(content, level=1)


def unpack(packed: bytes, length: int, *, exactly: bool = True) -> bytes:
    """Undo `pack`; raises MalformedMessageError unless it has just this length, or no more."""
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(packed, length + 1)
    except zlib.error:
        content = b""
    fits = len(content) == length or (not exactly and len(content) < length)
    if not fits or not reader.eof or reader.unused_data:
        raise MalformedMessageError("what was opened last is cut short or too long")
    return content
