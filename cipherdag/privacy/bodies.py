"""Bodies of messages: frozen structs in canonical msgpack, strictly decoded.

Leaks:
    Nothing: pure encoding.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from cipherdag.errors import MalformedMessageError


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=False):
    """What every message body has in common: strict decoding."""


BodyType = TypeVar("BodyType", bound=Body)


def encode(body: Body) -> bytes:
    """Canonical msgpack of a body: equal bodies give equal bytes."""
    return msgspec.msgpack.encode(body, order="deterministic")


def decode(body: bytes, kind: type[BodyType], most: int | None = None) -> BodyType:
    """Decode strictly, without quoting any content in an error.

    Args:
        body: What came.
        kind: What it has to be.
        most: Bytes at most, where the caller knows.

    Raises:
        MalformedMessageError: The bytes are none of this kind, or too many.
    """
    if most is not None and len(body) > most:
        raise MalformedMessageError(f"the bytes are too many for a {kind.__name__}")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError):
        raise MalformedMessageError(f"the bytes are not a valid {kind.__name__}") from None
