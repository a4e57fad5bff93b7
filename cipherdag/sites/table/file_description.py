"""Describes how a site's file is written, where this differs from the study's notation.

In ``site.toml`` the table ``[source]`` says it of the site's data; for a command a ``.toml`` file
says it, which stands wherever a data file can stand:

    file = "patients.csv"
    delimiter = ";" decimal = ","

A draft of a schema describes files of a name in ``[sources."patients.csv"]``. The study's notation
has a decimal point, no thousands separator and dates as ISO 8601 writes them (2024-05-31, with a
time of the day if need be). Another one is declared; a draft proposes one, and a person reads it.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Self

import msgspec

from cipherdag.errors import UnreadableDataError
from cipherdag.sites.strict_toml import convert, parse
from cipherdag.sites.table.names import normalise_name

_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?Z?"
)
_RULE = re.compile(r"(days|weeks|years) since ([0-9]{4}-[0-9]{2}-[0-9]{2})")
_DAYS: Final = {"days": 1.0, "weeks": 7.0, "years": 365.2425}  # of the Gregorian calendar
_DAY_S = 86400.0
_SPACES = " \u00a0\u202f"
NO_NUMBER = "\0"
"""Stands for a cell that is no number in its file's notation, though it looks like one."""
_MAX_BYTES = 64 * 1024
ANY_SOURCE: Final = (
    *("decimal", "thousands", "date_format", "skip_unnamed", "rename", "multiply"),
    *("rows_of", "events"),
)
DECLARED = 'under [source] of site.toml or [sources."FILE"] of schema.toml'
"""Where keys of a description are declared; FILE stands for the file's name."""
_REMEDY = "Correct [source] of site.toml, or the .toml that describes the file."
_FACTORS = "the factors of multiply are positive numbers"
_DECIMALS = (".", ",")
_THOUSANDS = ("", ".", ",", " ", "'")


@dataclass(frozen=True, slots=True)
class Notation:
    """The notation of numbers and dates in a file.

    A ``decimal`` is "." or ","; ``thousands`` groups digits in threes, such as a space. Dates are
    as ``datetime.strptime`` has ``date_format``, or ISO 8601 if it is empty.
    """

    decimal: str = "."
    thousands: str = ""
    date_format: str = ""

    @property
    def plain(self) -> bool:
        """True if its numbers have the notation of the study."""
        return self.decimal == "." and not self.thousands

    def categories(self, texts: Sequence[str]) -> Sequence[str]:
        """The cells with every number in the study's notation, and all else as it stands."""
        if self.plain:
            return texts
        return [self._numeral(text) or text for text in texts]

    def numerals(self, texts: Sequence[str], missing: AbstractSet[str]) -> Sequence[str]:
        """The cells of a column of numbers: ``NO_NUMBER`` for one of another notation.

        What is declared as ``missing``, trimmed, stays as it is.
        """
        if self.plain:
            return texts
        other = re.compile(r"[0-9.,\s'+-]*[.,][0-9.,\s'+-]*")
        numerals = []
        for text in texts:
            numeral = self._numeral(text)
            odd = numeral is None and other.fullmatch(text) and normalise_name(text) not in missing
            numerals.append(NO_NUMBER if odd else numeral or text)
        return numerals

    def date(self, text: str) -> datetime | None:
        """The moment that a trimmed cell writes, without a time zone, or None."""
        try:
            if self.date_format:
                return datetime.strptime(text, self.date_format).replace(tzinfo=None)  # noqa: DTZ007 - hospitals write local time
            if _ISO.fullmatch(text) is None:
                return None
            return datetime.fromisoformat(text.removesuffix("Z"))
        except ValueError:
            return None

    def number(self, text: str) -> float | None:
        """The number that a cell writes, or None."""
        numeral = self._numeral(text)
        return None if numeral is None else float(numeral)

    def _numeral(self, text: str) -> str | None:
        group = f"[{_SPACES}]" if self.thousands == " " else re.escape(self.thousands)
        grouped = rf"[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|" if self.thousands else ""
        mark = re.escape(self.decimal)
        number = rf"([+-]?)((?:{grouped}[0-9]+)?)(?:{mark}([0-9]*))?((?:[eE][+-]?[0-9]+)?)"
        match = re.fullmatch(number, normalise_name(text))
        if match is None or not (match[2] or match[3]):
            return None
        whole = re.sub("[^0-9]", "", match[2])
        part = f".{match[3]}" if match[3] else ""
        return f"{match[1]}{whole or '0'}{part}{match[4]}"


PLAIN = Notation()


@dataclass(frozen=True, slots=True)
class DateRule:
    """How dates become days, weeks, or years of 365.2425 days since an origin, which is 0."""

    unit: str
    origin: datetime

    @classmethod
    def parse(cls, text: str) -> DateRule | None:
        """The rule that a text writes, or None."""
        match = _RULE.fullmatch(text)
        origin = PLAIN.date(match[2]) if match else None
        return cls(match[1], origin) if match and origin else None

    def number(self, moment: datetime) -> float:
        """The date as a number in the rule's unit; hours are fractions of a day."""
        return (moment - self.origin).total_seconds() / _DAY_S / _DAYS[self.unit]


class FileDescription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The format of a file where it differs from the default; UnreadableDataError if impossible."""

    delimiter: str = ","  # what separates the columns of a CSV file: one character
    encoding: str = "utf-8"  # of its text, as Python names it: "cp1252", "latin-1", "utf-16"
    skip_rows: int = 0  # rows above the header
    sheet: str = ""  # the sheet of a workbook; may be left out where there is one only
    decimal: str = "."  # what stands before decimals: "." or ","
    thousands: str = ""  # what groups digits in threes: ".", ",", " " or "'"; nothing if empty
    date_format: str = ""  # of dates, such as "%d.%m.%Y"; ISO 8601 (2024-05-31) if empty
    skip_unnamed: bool = False  # leave out columns without a name: row numbers, trailing delimiters
    rename: dict[str, str] = {}  # from a column's name in the file to its name in the schema
    # by how much the numbers of a column, by its name in the schema, but for dates and marks of
    # missing values, are multiplied: from the unit of the file to that of the study
    multiply: dict[str, float] = {}
    # of an export of REDCap, the repeating instrument or event whose rows are taken, or "records"
    rows_of: str = ""  # see `redcap_rows`
    events: tuple[str, ...] = ()  # whose fields each row carries, where a REDCap project has events

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise UnreadableDataError(fault, remedy=_REMEDY)

    @property
    def notation(self) -> Notation:
        """The notation of numbers and dates in the file."""
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

    def names(self, header: tuple[str, ...]) -> tuple[str, ...]:
        """Column names as the schema has them; all are normalised.

        UnreadableDataError where a column to be renamed is not there.
        """
        renamed = {normalise_name(each): normalise_name(new) for each, new in self.rename.items()}
        for old in renamed:
            if old not in header:
                raise UnreadableDataError(
                    f"rename names the column '{old}', which the file lacks",
                    remedy="Correct `rename`: from the name in the file to that in the schema.",
                )
        return tuple(renamed.get(name, name) for name in header)

    def renamed_by(self, other: FileDescription) -> FileDescription | None:
        """This, then the other's renaming and factors; None if the other says anything else."""
        if other != FileDescription(rename=other.rename, multiply=other.multiply):
            return None
        named = {*self.rename.values()}
        rename = {old: other.rename.get(new, new) for old, new in self.rename.items()}
        rename |= {old: new for old, new in other.rename.items() if old not in named}
        factors = {other.rename.get(name, name): times for name, times in self.multiply.items()}
        multiply = {name: times * factors.get(name, 1.0) for name, times in other.multiply.items()}
        return msgspec.structs.replace(self, rename=rename, multiply=factors | multiply)

    def lines(self) -> list[str]:
        """The settings that differ from the default as lines of TOML."""
        lines = []
        for key in self.__struct_fields__:
            value = getattr(self, key)
            if value == getattr(AS_USUAL, key):
                continue
            if isinstance(value, dict):
                lines += [f"{key}.{_toml(each)} = {_toml(new)}" for each, new in value.items()]
            else:
                lines.append(f"{key} = {_toml(value)}")
        return lines

    def dumps(self) -> str:
        """The settings that differ from the default as the TOML table ``[source]``, or ""."""
        lines = self.lines()
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
            (not all(0.0 < factor < math.inf for factor in self.multiply.values()), _FACTORS),
            (bool(self.events) and not self.rows_of, "events belong to rows_of"),
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


def undeclared(what: str, file: str, **keys: str | int | bool) -> UnreadableDataError:
    """The error for a file that can be read once these keys of `FileDescription` are declared."""
    said = " and ".join(f"{key} = {_toml(value)}" for key, value in keys.items())
    where = DECLARED.replace("FILE", file)
    error = UnreadableDataError(
        what, remedy=f"Declare {said} {where}, as drafts of `cipherdag schema infer` do."
    )
    error.declaration = tuple(keys.items())
    return error


@dataclass(frozen=True, slots=True)
class DescribedFile:
    """A file, and how it is written."""

    path: Path
    description: FileDescription = AS_USUAL

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """The file that a ``.toml`` describes, or None; UnreadableDataError for an odd key."""
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
