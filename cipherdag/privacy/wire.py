"""How messages travel: strict structs in canonical msgpack, digests, and compressed sums.

Leaks:
    A keyed digest shows nothing without its key; equal digests under one key show equal parts.
"""

import hashlib
import hmac
import zlib
from typing import Final, TypeVar

import msgspec

from cipherdag.errors import MalformedMessageError, ParameterError


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=False):
    """The parent of every message body, which is strictly decoded."""


BodyType = TypeVar("BodyType", bound=Body)


def encode(body: Body) -> bytes:
    """Canonical msgpack of a body: equal bodies give equal bytes."""
    return msgspec.msgpack.encode(body, order="deterministic")


def decode(body: bytes, kind: type[BodyType], most: int | None = None) -> BodyType:
    """Decode strictly, or raise MalformedMessageError, which quotes no content."""
    named = getattr(kind, "__name__", kind)  # a union of messages has none
    if most is not None and len(body) > most:
        raise MalformedMessageError(f"the bytes are too many for a {named}")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError):
        raise MalformedMessageError(f"the bytes are not a valid {named}") from None


MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
"""Limit of one message to a site, or of one reply; a longer one is refused unread."""

MAX_OPERATION_BYTES: Final = 64  # limit of the name of a message's operation


def digest(purpose: bytes, *parts: bytes) -> bytes:
    """SHA-256 over length-prefixed parts under a purpose: 32 bytes."""
    state = hashlib.sha256(b"cipherdag digest")
    for part in (purpose, *parts):
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def pack(content: bytes) -> bytes:
    """Compresses an opened sum for its way back to the sites; most of its bytes are zero."""
    return zlib.compress(content, level=1)


def unpack(packed: bytes, length: int, *, exactly: bool = True) -> bytes:
    """Undo `pack`; raises MalformedMessageError unless it has this length, or at most this one."""
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(packed, length + 1)
    except zlib.error:
        content = b""
    fits = len(content) == length or (not exactly and len(content) < length)
    if not fits or not reader.eof or reader.unused_data:
        raise MalformedMessageError("what was opened last is cut short or too long")
    return content


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
