"""How a site's file is written, where it is not written as the study's own files are.

In ``site.toml`` the table ``[source]`` says it of the site's data; for a command a ``.toml`` file
says it, which stands wherever a data file can stand:

    file = "patients.csv"
    delimiter = ";"
    decimal = ","
    encoding = "cp1252"

It is a site's own affair, so that the sites' files may differ while they share one schema.
"""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from cipherdag.errors import UnreadableDataError
from cipherdag.sites.strict_toml import convert, parse
from cipherdag.sites.table.names import normalise_name
from cipherdag.sites.table.notations import Notation

_MAX_BYTES = 64 * 1024
ANY_SOURCE: Final = ("decimal", "thousands", "date_format", "skip_unnamed", "rename")
_REMEDY = "Correct [source] of site.toml, or the .toml that describes the file."
_DECIMALS = (".", ",")
_THOUSANDS = ("", ".", ",", " ", "'")


class FileDescription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not as usual in a file.

    Attributes:
        delimiter: What separates the columns of a CSV file: one character.
        encoding: Of its text, as Python names it: "cp1252", "latin-1", "utf-16".
        skip_rows: Rows above the header.
        sheet: The sheet of a workbook; may be left out where there is one only.
        decimal: What stands before decimals: "." or ",".
        thousands: What groups digits in threes: ".", ",", " " or "'"; nothing if empty.
        date_format: Of dates, such as "%d.%m.%Y"; ISO 8601 (2024-05-31) if empty.
        skip_unnamed: Leave out columns without a name: row numbers, or trailing delimiters.
        rename: From a column's name in the file to its name in the schema.

    Raises:
        UnreadableDataError: A value is out of its range.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    skip_rows: int = 0
    sheet: str = ""
    decimal: str = "."
    thousands: str = ""
    date_format: str = ""
    skip_unnamed: bool = False
    rename: dict[str, str] = {}

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise UnreadableDataError(fault, remedy=_REMEDY)

    @property
    def notation(self) -> Notation:
        """How the file writes numbers and dates."""
        return Notation(self.decimal, self.thousands, self.date_format)

    @property
    def codec(self) -> str:
        """The encoding's name in Python; a byte-order mark of UTF-8 is no part of the text."""
        name = codecs.lookup(self.encoding).name
        return "utf-8-sig" if name == "utf-8" else name

    def unread(self, read: tuple[str, ...]) -> str:
        """The first key that says something and is none of those ``read``, or ""."""
        for key in self.__struct_fields__:
            if key not in read and getattr(self, key) != getattr(AS_USUAL, key):
                return key
        return ""

    def names(self, found: tuple[str, ...]) -> tuple[str, ...]:
        """Column names as the schema has them; all are normalised.

        Raises:
            UnreadableDataError: A column to be renamed is not there.
        """
        renamed = {normalise_name(own): normalise_name(new) for own, new in self.rename.items()}
        for own in renamed:
            if own not in found:
                raise UnreadableDataError(
                    f"rename names the column '{own}', which the file lacks",
                    remedy="Correct `rename`: from the name in the file to that in the schema.",
                )
        return tuple(renamed.get(name, name) for name in found)

    def dumps(self) -> str:
        """What is not as usual, as the TOML table ``[source]``; empty if nothing is."""
        lines = []
        for key in self.__struct_fields__:
            value = getattr(self, key)
            if value == getattr(AS_USUAL, key):
                continue
            if isinstance(value, dict):
                pairs = (f"{_toml(own)} = {_toml(new)}" for own, new in value.items())
                lines.append(f"{key} = {{ {', '.join(pairs)} }}")
            else:
                lines.append(f"{key} = {_toml(value)}")
        return "\n".join(["", "[source]", *lines, ""]) if lines else ""

    def _fault(self) -> str:
        # strptime takes years of two digits from 1969 to 2068, and births are before that
        two_digits = "%y" in self.date_format or "%D" in self.date_format
        rules = (
            (len(self.delimiter) != 1 or self.delimiter in '"\r\n', "delimiter is one character"),
            (not _is_text_encoding(self.encoding), f"'{self.encoding}' is no encoding of text"),
            (self.skip_rows < 0, "skip_rows is not negative"),
            (self.decimal not in _DECIMALS, 'decimal is "." or ","'),
            (self.thousands not in _THOUSANDS, "thousands is a point, comma, space or apostrophe"),
            (self.decimal == self.thousands, "decimal and thousands are the same"),
            (two_digits, "a year of two digits may be of either century"),
        )
        return next((fault for broken, fault in rules if broken), "")


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_text_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
        return isinstance("".encode(name), bytes) and isinstance(b"".decode(name), str)
    except (LookupError, ValueError):
        return False


AS_USUAL = FileDescription()


@dataclass(frozen=True, slots=True)
class DescribedFile:
    """A file, and how it is written."""

    path: Path
    description: FileDescription

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """The file that a ``.toml`` describes; None where it names no file.

        Raises:
            UnreadableDataError: A key is unknown or a value not valid.
        """
        try:
            with path.open("rb") as opened:
                table = parse(opened.read(_MAX_BYTES))
        except ValueError:
            return None
        named = table.pop("file", None)
        if not isinstance(named, str):
            return None
        try:
            return cls(path.parent / named, convert(table, FileDescription))
        except ValueError as error:
            raise UnreadableDataError(str(error), file=str(path), remedy=_REMEDY) from None
        except UnreadableDataError as error:
            error.file = str(path)
            raise
