"""JSON in files: read so that a text has one meaning, and written so that anybody can read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar, overload

import msgspec

Kind = TypeVar("Kind")


@overload
def from_json(text: str | bytes) -> Any: ...
@overload
def from_json(text: str | bytes, kind: type[Kind]) -> Kind: ...
@overload
def from_json(text: str | bytes, kind: Any) -> Any: ...
def from_json(text: str | bytes, kind: Any = Any) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: It is no JSON (RFC 8259, so that NaN and Infinity are none), names a key twice
            in one object, is nested too deep or of another type. No value is quoted.
    """
    try:
        value = msgspec.json.decode(text, type=kind)
        json.loads(text, object_pairs_hook=_named_once)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return value


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A value as a JSON text, which every reader of JSON accepts.

    Raises:
        ValueError: A number is not finite.
    """
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def _named_once(pairs: Sequence[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is named twice")
