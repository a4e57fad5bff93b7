"""CSV files, plain or gzipped: every cell stays the text that stands in the file."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, cast

from cipherdag.errors import EmptyDataError, UnreadableDataError
from cipherdag.sites.table.cells import CHUNK_ROWS, Cells, RawTable, TextCells
from cipherdag.sites.table.names import normalise_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_csv(path: Path) -> Iterator[RawTable]:
    """Open a CSV file and read its header; the rows are read while the context lasts.

    It is UTF-8 (with or without a byte-order mark), comma-separated with one header line; it may be
    gzipped, which the content tells, not the name. Blank lines are skipped.

    Raises:
        OSError: The file cannot be opened.
        UnreadableDataError: It is no such text.
        EmptyDataError: It has no header.
    """
    with path.open("rb") as opened:
        zipped = opened.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
        # TextIOWrapper reads a GzipFile well; its type only asks for the larger interface
        raw = cast("BinaryIO", gzip.GzipFile(fileobj=opened) if zipped else opened)
        with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            rows = _rows(text)
            yield RawTable(_names(next(rows, None)), _chunks(rows))


def _names(header: list[str] | None) -> tuple[str, ...]:
    if header is None:
        raise EmptyDataError("the file is empty", rows=0)
    if any("\0" in name for name in header):
        raise UnreadableDataError("this is a binary file or UTF-16, not UTF-8 text")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        raise UnreadableDataError(
            "the columns are not separated by commas",
            remedy="Export with commas between columns and points in decimal numbers.",
        )
    return tuple(map(normalise_name, header))


def _chunks(rows: Iterator[list[str]]) -> Iterator[list[Cells]]:
    while block := list(islice(rows, CHUNK_ROWS)):
        yield [TextCells(column) for column in zip(*block, strict=True)]


def _rows(text: io.TextIOWrapper) -> Iterator[list[str]]:
    """Every non-blank line as fields, the header first, all of the header's length."""
    reader = csv.reader(text, strict=True)
    width = 0
    try:
        for row in reader:
            if not row:
                continue
            width = width or len(row)
            if len(row) != width:
                raise UnreadableDataError(
                    f"line {reader.line_num} has {len(row)} fields but the header has {width}",
                    remedy='Give every line the same number of fields; quote "a,b" if it has one.',
                )
            yield row
    except UnicodeDecodeError as error:
        raise UnreadableDataError(f"the text after line {reader.line_num} is not UTF-8") from error
    except csv.Error as error:
        raise UnreadableDataError(f"line {reader.line_num}: {error}") from error
    except (EOFError, OSError, zlib.error) as error:
        raise UnreadableDataError(
            f"reading stops after line {reader.line_num}: the file is cut short or damaged"
        ) from error
