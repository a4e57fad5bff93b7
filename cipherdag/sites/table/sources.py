"""The sources that a site's table may come from: a closed register.

A source costs a file that opens it and an entry here; its package is imported once it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cipherdag.errors import UnreadableDataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cipherdag.sites.table.cells import RawTable

    Opened = AbstractContextManager[RawTable]

_HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of file that a table is read from.

    Attributes:
        words: What help and errors call it.
        open: Opens a file of its kind, whose rows are read while the context lasts.
        suffix: The end of its name, where that tells the kind.
        magic: The bytes that tell the kind otherwise.
        place: Where they stand.
    """

    words: str
    open: Callable[[Path], Opened]
    suffix: str = ""
    magic: bytes = b""
    place: int = 0


def _csv(path: Path) -> Opened:
    from cipherdag.sites.table.csv_file import open_csv

    return open_csv(path)


def _parquet(path: Path) -> Opened:
    from cipherdag.sites.table.parquet_file import open_parquet

    return open_parquet(path)


def _duckdb(path: Path) -> Opened:
    from cipherdag.sites.table.duckdb_file import open_duckdb

    return open_duckdb(path)


def _described(path: Path) -> Opened:
    from cipherdag.sites.table.database import DatabaseSource
    from cipherdag.sites.table.duckdb_file import open_duckdb
    from cipherdag.sites.table.sql import open_sql

    source = DatabaseSource.load(path)
    if source.dialect != "duckdb":
        return open_sql(source)
    return open_duckdb(
        source.database_file, table=source.table, columns=source.columns, query=source.query
    )


_CSV = Source("CSV", _csv)
SOURCES = (
    _CSV,
    Source("Parquet", _parquet, magic=b"PAR1"),
    Source("DuckDB", _duckdb, magic=b"DUCK", place=8),
    Source("a .toml that names a database", _described, suffix=".toml"),
)
READABLE = ", ".join(own.words for own in SOURCES[:-1]) + f", or {SOURCES[-1].words}"
"""What a site's table may be, in words."""

_NO_TABLES = {
    b"PK\x03\x04": (
        "this is a zip archive or an Excel workbook, not a CSV file",
        "Save the sheet as 'CSV UTF-8' and give that file.",
    ),
    b"SQLite format 3\0": (
        "this is an SQLite database, which holds many tables",
        'Write a .toml with address = "sqlite:///{name}" and table.',
    ),
}


def source_of(path: Path) -> Source:
    """The source that a file is of: its name or its first bytes tell, and nothing makes it a CSV.

    Raises:
        OSError: The file cannot be read.
        UnreadableDataError: It is of a kind that holds no table.
    """
    for source in SOURCES:
        if source.suffix and path.suffix == source.suffix:
            return source
    head = b""
    if path.is_file():  # a pipe could be read only once
        with path.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
    for magic, (what, remedy) in _NO_TABLES.items():
        if head.startswith(magic):
            raise UnreadableDataError(what, remedy=remedy.format(name=path.name))
    told = (own for own in SOURCES if own.magic and head[own.place :].startswith(own.magic))
    return next(told, _CSV)
