"""CSV files, plain or gzipped: every cell stays the text that stands in the file."""

import csv
import gzip
import io
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, cast

from cipherdag.errors import DamagedFileError, EmptyDataError, UnreadableDataError
from cipherdag.sites.table.cells import CHUNK_ROWS, RawTable, Source, TextCells
from cipherdag.sites.table.file_description import AS_USUAL, DECLARED, FileDescription, undeclared
from cipherdag.sites.table.names import normalise_name

_GZIP_MAGIC = b"\x1f\x8b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 1 << 16
_DELIMITERS: Final = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}


@contextmanager
def open_csv(path: Path, description: FileDescription = AS_USUAL) -> Iterator[RawTable]:
    """Open a CSV file and read its header; the rows are read while the context lasts.

    It is UTF-8 (with or without a byte-order mark), comma-separated with one header line, unless
    described otherwise; it may be gzipped, which the content tells, not the name. Blank lines are
    skipped, and count as rows, as they do in a spreadsheet.
    """
    with path.open("rb") as opened:
        zipped = opened.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
        # TextIOWrapper reads a GzipFile well; its type only asks for the larger interface
        raw = cast("BinaryIO", gzip.GzipFile(fileobj=opened) if zipped else opened)
        if not zipped:
            _check_encoding(opened.peek(_HEAD_BYTES)[:_HEAD_BYTES], description, path)
        with io.TextIOWrapper(raw, encoding=description.codec, newline="") as text:
            rows = _Rows(text, path, description)
            lines = iter(rows)
            names = _names(next(lines, None), description, path)
            blocks = iter(lambda: [*islice(lines, CHUNK_ROWS)], [])
            chunks = (list(map(TextCells, zip(*block, strict=True))) for block in blocks)
            yield RawTable(names, chunks, location_of=rows.location)


def _check_encoding(head: bytes, description: FileDescription, path: Path) -> None:
    """Refuse UTF-16 that is taken for UTF-8, and UTF-8 that is taken for another encoding."""
    codec = description.codec
    if codec == "utf-8-sig":
        if head.startswith(_UTF_16):
            raise undeclared("this is UTF-16, not UTF-8 text", path.name, encoding="utf-16")
        if head.count(0) > len(head) // 4:
            raise _no_text_at_all()
        return
    if codec.startswith("utf"):
        return
    cut = head[: head.rfind(b"\n") + 1] or head
    try:
        text = cut.decode("utf-8")
    except UnicodeDecodeError:
        return
    if not text.isascii():
        raise UnreadableDataError(
            f"this is UTF-8, though {description.encoding} is declared",
            remedy="Leave encoding out: UTF-8 is read without it.",
        )


def _names(header: list[str] | None, description: FileDescription, path: Path) -> tuple[str, ...]:
    if header is None:
        raise EmptyDataError("the file is empty", rows=0)
    if any("\0" in name for name in header):
        raise _no_text_at_all()
    _check_delimiter(header, description, path)
    header[0] = header[0].removeprefix("\ufeff")  # where the encoding names a byte order itself
    return tuple(map(normalise_name, header))


def _no_text_at_all() -> UnreadableDataError:
    return UnreadableDataError(
        "this is a binary file or UTF-16, not UTF-8 text",
        remedy=f'Export it as CSV; if it is UTF-16, declare encoding = "utf-16-le" {DECLARED}.',
    )


def _check_delimiter(header: list[str], description: FileDescription, path: Path) -> None:
    """Refuse a header of one name that another delimiter divides into several."""
    declared = description.delimiter
    whole = declared.join(header)
    if whole.lower().startswith("sep="):
        raise undeclared(
            "the first line is Excel's own and names the delimiter; the header comes after it",
            path.name,
            delimiter=whole[4:5] or declared,
            skip_rows=1,
        )
    other = max((mark for mark in _DELIMITERS if mark != declared), key=whole.count)
    if len(header) > 1 or other not in whole:
        return
    used = _DELIMITERS.get(declared, repr(declared))
    error = undeclared(
        f"the columns are separated by {_DELIMITERS[other]}, not by {used}",
        path.name,
        delimiter=other,
    )
    error.remedy += ' If decimals have commas, add decimal = ",".' if other == ";" else ""
    raise error


class _Rows:
    """Every non-blank row as fields, the header first, all of the header's length."""

    def __init__(self, text: io.TextIOWrapper, path: Path, description: FileDescription) -> None:
        self._reader = csv.reader(text, delimiter=description.delimiter, strict=True)
        self._path = path
        self._description = description
        self._header = 0
        self._read = 0
        self._blank: list[int] = []  # how many rows of data came before each blank one

    def location(self, row: int) -> str:
        """A row of data, counted from 0, as a spreadsheet counts it."""
        return f"row {self._header + 1 + row + bisect_right(self._blank, row)} of the file"

    def __iter__(self) -> Iterator[list[str]]:
        try:
            yield from self._checked()
        except UnicodeDecodeError as error:
            raise self._no_text() from error
        except csv.Error as error:
            raise UnreadableDataError(
                f"line {self._reader.line_num}: {error}",
                remedy='A text that holds a delimiter or a quote stands in quotes: "a ""b"", c".',
            ) from error
        except (EOFError, OSError, zlib.error) as error:
            raise DamagedFileError(
                f"reading stops after line {self._reader.line_num}: "
                "the file is cut short or damaged"
            ) from error

    def _checked(self) -> Iterator[list[str]]:
        width = 0
        for number, row in enumerate(self._reader, start=1):
            if number <= self._description.skip_rows:
                continue
            if not row:
                self._blank.extend([self._read] if width else [])
                continue
            if not width:
                self._header, width = number, len(row)
            elif len(row) != width:
                raise UnreadableDataError(
                    f"{self.location(self._read)} has {len(row)} fields but the header has {width}",
                    remedy=f"Give every row {width} fields; quote a text that holds "
                    f"'{self._description.delimiter}'.",
                )
            else:
                self._read += 1
            yield row

    def _no_text(self) -> UnreadableDataError:
        """The error for text of another encoding, with its line where it can be located."""
        codec = self._description.codec
        name = "UTF-8" if codec == "utf-8-sig" else self._description.encoding
        odd = _odd_byte(self._path) if name == "UTF-8" else ""
        odd = odd or f"the text after line {self._reader.line_num}"
        if name == "UTF-8":  # what Excel calls "CSV" in Western Europe
            error = undeclared(f"{odd} is not {name}", self._path.name, encoding="cp1252")
            error.remedy += " Or save it as UTF-8."
            return error
        remedy = f"Declare its encoding {DECLARED}, or save it as UTF-8."
        return UnreadableDataError(f"{odd} is not {name}", remedy=remedy)


def _odd_byte(path: Path) -> str:
    """The first byte that is no UTF-8, with its line; "" where one cannot look again."""
    if not path.is_file():  # a pipe could be read only once
        return ""
    with path.open("rb") as lines:
        if lines.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            return ""
        for number, line in enumerate(lines, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f"the byte 0x{line[error.start]:02X} in line {number}"
    return ""


CSV = Source("CSV", open_csv, reads=("delimiter", "encoding", "skip_rows"))
