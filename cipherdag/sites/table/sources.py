"""The sources that a site's table may come from: a closed register.

A source costs a file that opens it and an entry here; its package is imported once it is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from cipherdag.errors import UnreadableDataError
from cipherdag.sites.table.cells import RawTable
from cipherdag.sites.table.file_description import FileDescription

Opened = AbstractContextManager[RawTable]

_HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of file that a table is read from.

    Attributes:
        words: What help and errors call it.
        open: Opens a file of its kind, whose rows are read while the context lasts.
        reads: The keys of a `FileDescription` that it reads, beside those of every source.
        suffix: The end of its name, in any case, where that tells the kind.
        magic: The bytes that tell the kind otherwise.
        place: Where they stand.
        endings: Of names that promise this kind.
    """

    words: str
    open: Callable[[Path, FileDescription], Opened]
    reads: tuple[str, ...] = ()
    suffix: str = ""
    magic: bytes = b""
    place: int = 0
    endings: tuple[str, ...] = ()


def _csv(path: Path, description: FileDescription) -> Opened:
    from cipherdag.sites.table.csv_file import open_csv

    return open_csv(path, description)


def _excel(path: Path, description: FileDescription) -> Opened:
    from cipherdag.sites.table.excel_file import open_excel

    return open_excel(path, description)


def _stata(path: Path, _description: FileDescription) -> Opened:
    from cipherdag.sites.table.stata_file import open_stata

    return open_stata(path)


def _parquet(path: Path, _description: FileDescription) -> Opened:
    from cipherdag.sites.table.parquet_file import open_parquet

    return open_parquet(path)


def _duckdb(path: Path, _description: FileDescription) -> Opened:
    from cipherdag.sites.table.duckdb_file import open_duckdb

    return open_duckdb(path)


def _described(path: Path, _description: FileDescription) -> Opened:
    from cipherdag.sites.table.database import DatabaseSource
    from cipherdag.sites.table.duckdb_file import open_duckdb
    from cipherdag.sites.table.sql import open_sql

    source = DatabaseSource.load(path)
    if source.dialect != "duckdb":
        return open_sql(source)
    return open_duckdb(
        source.database_file, table=source.table, columns=source.columns, query=source.query
    )


_CSV = Source("CSV", _csv, reads=("delimiter", "encoding", "skip_rows"))
SOURCES = (
    _CSV,
    Source(
        "Excel (.xlsx)",
        _excel,
        reads=("sheet", "skip_rows"),
        magic=b"PK\x03\x04",
        endings=(".xlsx", ".xlsm"),
    ),
    Source("Stata (.dta)", _stata, suffix=".dta"),
    Source("Parquet", _parquet, magic=b"PAR1", endings=(".parquet",)),
    Source("DuckDB", _duckdb, magic=b"DUCK", place=8, endings=(".duckdb",)),
    Source("a .toml that names a database or describes a file", _described, suffix=".toml"),
)
READABLE = ", ".join(own.words for own in SOURCES[:-1]) + f", or {SOURCES[-1].words}"
"""What a site's table may be, in words."""

_ELSEWHERE = "Stata (.dta), CSV UTF-8 or Excel (.xlsx)."
_NO_TABLES = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (
        "this is an Excel workbook of the kind before 2007 (.xls), or one with a password",
        "Open it and save it as .xlsx, or as CSV UTF-8.",
    ),
    b"$FL2": ("this is an SPSS file", f"Save it in SPSS as {_ELSEWHERE}"),
    b"$FL3": ("this is an SPSS file", f"Save it in SPSS as {_ELSEWHERE}"),
    b"\0" * 12 + b"\xc2\xea\x81\x60": ("this is a SAS file", f"Save it in SAS as {_ELSEWHERE}"),
    b"HEADER RECORD*******LIB": ("this is a SAS file", f"Save it in SAS as {_ELSEWHERE}"),
    b"%PDF": ("this is a PDF document", "Export the table itself as CSV."),
    b"<": ("this is HTML or XML, whatever its name says", "Export the table as CSV or .xlsx."),
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
        if source.suffix and path.suffix.lower() == source.suffix:
            return source
    head = b""
    if path.is_file():  # a pipe could be read only once
        with path.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
    told = (own for own in SOURCES if own.magic and head[own.place :].startswith(own.magic))
    own: Source | None = next(told, None)
    for magic, (what, remedy) in _NO_TABLES.items():
        # the checksum that a DuckDB file begins with may look like one
        if own is None and head.startswith(magic):
            raise UnreadableDataError(what, remedy=remedy.format(name=path.name))
    source = own or _CSV
    ending = path.suffix.lower()
    claimed = next((own for own in SOURCES if ending in own.endings), source)
    if claimed is not source and path.is_file():
        raise UnreadableDataError(
            f"the name ends in {path.suffix}, but this is no file of {claimed.words}",
            remedy="Give it the name of what it is, or export it anew.",
        )
    return source
