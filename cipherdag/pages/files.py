"""Files written whole or not at all, unambiguous JSON, and CSV that no spreadsheet computes.

Source: OWASP, "CSV Injection".
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec

_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # apostrophes too, so that one more can be taken off
_EDGES = ("-->", "---")  # marks of edges begin as a formula does, but are none


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, each line ended by a line feed alone, and no text that a spreadsheet computes.

    Text that begins as a formula does gets an apostrophe in front, by which spreadsheets know text.
    """
    text = io.StringIO(newline="")
    lines = ([_shielded(cell) for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _shielded(cell: object) -> object:
    formula = isinstance(cell, str) and _FORMULA.match(cell) and cell not in _EDGES
    return f"'{cell}" if formula else cell


def without_shield(cell: str) -> str:
    """The cell without the apostrophe that `csv_text` put before it, if any."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def replace_file(path: str | Path, content: str | bytes, *, mode: int = 0o600) -> None:
    """Write a temporary file and rename it, so that a full disk leaves the old content.

    A link is followed; a device or a pipe is written directly. The mode, less the system's umask,
    says who may read and write it; by default only its owner. Raises OSError where it cannot be
    written.
    """
    data = content.encode() if isinstance(content, str) else content
    target = Path(path)
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    target = target.resolve()
    temporary = target.with_name(f".cipherdag-{secrets.token_hex(8)}")  # no other file's name
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


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
    """A value as a JSON text for every reader; raises ValueError at a number that is not finite."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def _named_once(pairs: Sequence[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is named twice")
