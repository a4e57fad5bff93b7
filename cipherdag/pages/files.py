"""Pages that open offline, files written whole or not at all, JSON, and CSV without formulas.

A page is one file, with its own style and script and no other.

Source: OWASP, "CSV Injection".
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from cipherdag.pages.numerals import moment, probability, shown, size

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

# apostrophes too, so that one more can be taken off; some spreadsheets split cells at semicolons
_BEGINS, _GOES_ON = r"(?:^|(?<=[;\t\r\n]))", r"(?=[' \"]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20])"
_FORMULA, _SHIELD = (re.compile(f"{_BEGINS}{mark}{_GOES_ON}") for mark in ("", "'"))
_EDGES = ("-->", "---")  # marks of edges begin as a formula does, but are none


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, each line ended by a line feed alone, and no text that a spreadsheet computes.

    An apostrophe marks text that begins as a formula, or goes on so where it may be split.
    """
    text = io.StringIO(newline="")
    lines = ([_shielded(cell) for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _shielded(cell: object) -> object:
    return _FORMULA.sub("'", cell) if isinstance(cell, str) and cell not in _EDGES else cell


def without_shield(cell: str) -> str:
    """The cell without the apostrophes that `csv_text` put into it, if any."""
    return _SHIELD.sub("", cell)


def printable(text: str) -> str:
    """Another party's text, which then cannot pass for another line, or steer a terminal."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


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


def render(
    template: str, *, scripts: Sequence[str] = ("page.js", "graph.js"), **content: Any
) -> str:
    """A page; every value is escaped, and a value that is missing is an error.

    Scripts are files in ``templates`` that the page's own script is made of.
    """
    from markupsafe import Markup

    picture, script = _asset("picture.css"), Markup("").join(map(_asset, scripts))
    style = picture + _asset("page.css")
    return (
        _environment()
        .get_template(template)
        .render(
            style=style,
            picture_style=picture,
            script=script,
            style_hash=_integrity(style),
            script_hash=_integrity(script),
            **content,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cipherdag.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"size": size, "shown": shown, "moment": moment, "p": probability}
    environment.tests["number"] = lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool)
    )
    return environment


@cache
def _asset(name: str) -> Markup:
    from markupsafe import Markup

    text = resources.files("cipherdag.pages").joinpath("templates", name).read_text("utf-8")
    return Markup(text)  # noqa: S704  (our own file, the same for every page)


def _integrity(text: str) -> str:
    """What the page's content security policy allows: this text and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
