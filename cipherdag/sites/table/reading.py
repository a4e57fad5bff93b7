"""A site's table read into cells, from the sources that one may come from: a closed register.

A new source takes a file that opens and declares it, and a line here; the libraries that it needs
are imported once a table of this source is opened.
Nothing is guessed: a header that repeats a name, hides a character or leaves a name empty is
refused instead of being mended.
"""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from cipherdag.errors import (
    DuplicateNameError,
    EmptyDataError,
    TooFewRowsError,
    UnreadableDataError,
)
from cipherdag.sites.table.cells import Cells, OpenTable, RawTable, Source, TextCells
from cipherdag.sites.table.csv_file import CSV
from cipherdag.sites.table.data_frame import frame_table
from cipherdag.sites.table.database import DatabaseSource
from cipherdag.sites.table.duckdb_file import open_duckdb
from cipherdag.sites.table.file_description import (
    ANY_SOURCE,
    AS_USUAL,
    DECLARED,
    DescribedFile,
    FileDescription,
)
from cipherdag.sites.table.names import first_repeat, hidden_character, visible
from cipherdag.sites.table.omop import Preview
from cipherdag.sites.table.redcap_rows import rows_of_unit
from cipherdag.sites.table.sql import open_sql

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

_HEAD_BYTES = 64
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
TableSource: TypeAlias = Union[str, os.PathLike[str], DescribedFile, "IntoFrame"]
PROGRESS_S = 5.0
_LEAST_ROWS = 2
log = logging.getLogger("cipherdag.reading")


def omop_preview(path: Path) -> list[Preview]:
    """How much an OMOP database has for each column of a study; for the site's eyes alone.

    UnreadableDataError as for the table itself, or where the file describes no OMOP study.
    """
    with _opened(DatabaseSource.load(path, preview=True)) as table:
        rows = [
            [cells.as_text().at(row) for cells in chunk]
            for chunk in table.chunks
            for row in range(len(chunk[0]))
        ]
    return [Preview(name, *(int(float(each)) for each in counts)) for name, *counts in rows]


def _opened(source: DatabaseSource) -> OpenTable:
    if source.dialect != "duckdb":
        return open_sql(source)
    return open_duckdb(
        source.database_file, table=source.table, columns=source.columns, query=source.query
    )


_FILES = ("csv_file", "excel_file", "data_frame", "duckdb_file")
_DATABASE = Source(
    "a .toml that names a database or describes a file",
    lambda path, _: _opened(DatabaseSource.load(path)),
    suffix=".toml",
)
SOURCES = (
    *(
        source
        for file in _FILES
        for source in vars(import_module(f"cipherdag.sites.table.{file}")).values()
        if isinstance(source, Source)
    ),
    _DATABASE,
)
READABLE = ", ".join(source.words for source in SOURCES[:-1]) + f", or {SOURCES[-1].words}"
"""The sources of a table, in words."""


def source_of(path: Path) -> Source:
    """The source that a file is of, by its name or its first bytes; a CSV where neither tells.

    OSError where the file cannot be read, UnreadableDataError where its kind holds no table.
    """
    for source in SOURCES:
        if source.suffix and path.suffix.lower() == source.suffix:
            return source
    head = b""
    if path.is_file():  # a pipe could be read only once
        with path.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
    magical = (each for each in SOURCES if each.magic)
    matching = next((s for s in magical if head[s.offset :].startswith(s.magic)), None)
    for magic, (what, remedy) in _NO_TABLES.items():
        # the checksum that a DuckDB file begins with may look like one
        if matching is None and head.startswith(magic):
            raise UnreadableDataError(what, remedy=remedy.format(name=path.name))
    source, ending = matching or CSV, path.suffix.lower()
    claimed = next((each for each in SOURCES if ending in each.endings), source)
    if claimed is not source and path.is_file():
        raise UnreadableDataError(
            f"the name ends in {path.suffix}, but this is no file of {claimed.words}",
            remedy="Give it the name of what it is, or export it anew.",
        )
    return source


@contextmanager
def open_table(source: TableSource, *, site: str | None = None) -> Iterator[RawTable]:
    """Open a table and check its header; the rows are read while the context lasts.

    The source is the path of a file of `SOURCES`, a described file, or a frame that narwhals reads,
    such as a DataFrame of pandas, whose index is not read, or polars, or a pyarrow Table. ``site``
    is for errors. Long readings say every few seconds how far they are, in the log
    ``cipherdag.reading``.

    Raises:
        UnreadableDataError: The file does not exist or is no such table, or a name is empty or
            holds an invisible character; its leaves below `DatabaseError` for databases.
        EmptyDataError: The file has no header.
        DuplicateNameError: Two names are equal after normalisation.
    """
    file = "DataFrame"
    try:
        if isinstance(source, str | os.PathLike | DescribedFile):
            described = _described(source)
            file = str(described.path)
            with _open_file(described) as table:
                _check_header(table)
                yield replace(table, file=file, chunks=_telling(table, file))
        else:
            table = frame_table(source)
            _check_header(table)
            yield replace(table, file=file, location_of=lambda row: f"row {row + 1} (.iloc[{row}])")
    except (UnreadableDataError, EmptyDataError, DuplicateNameError) as error:
        error.file, error.site = error.file or file, site
        raise


def _described(source: str | os.PathLike[str] | DescribedFile) -> DescribedFile:
    """The file and its description; a .toml may name another file and describe that."""
    described = (
        source if isinstance(source, DescribedFile) else DescribedFile(Path(source), AS_USUAL)
    )
    if described.path.suffix != ".toml":
        return described
    try:
        inner = DescribedFile.load(described.path)
    except OSError:
        return described  # whoever opens it next says why
    if inner is None:
        return described
    both = inner.description.renamed_by(described.description)
    if both is None:
        raise UnreadableDataError("two descriptions are given", remedy="Leave one of them out.")
    return replace(inner, description=both)


@contextmanager
def _open_file(described: DescribedFile) -> Iterator[RawTable]:
    with ExitStack() as stack:
        try:
            source = source_of(described.path)
            key = described.description.unread((*source.reads, *ANY_SOURCE))
            if key:
                raise UnreadableDataError(
                    f"{key} says nothing about {source.words}",
                    remedy=f"Remove {key} {DECLARED}, or from the .toml of the file.",
                )
            table = stack.enter_context(source.open(described.path, described.description))
        except OSError as error:
            raise UnreadableDataError(
                f"cannot be read: {error.strerror or 'it cannot be opened'}",
                remedy=f"Give {READABLE}.",
            ) from error
        yield _as_described(table, described.description)


def _as_described(table: RawTable, description: FileDescription) -> RawTable:
    """The table with the names of the schema, its cells with the notation of the file."""
    if description == AS_USUAL:
        return table
    if description.rows_of:
        table = rows_of_unit(table, description.rows_of, description.events)
    positions = [
        position
        for position, name in enumerate(table.names)
        if name or not description.skip_unnamed
    ]
    notation = description.notation

    def noted(cells: Cells) -> Cells:
        return replace(cells, notation=notation) if isinstance(cells, TextCells) else cells

    return replace(
        table,
        names=description.names(tuple(table.names[position] for position in positions)),
        types=tuple(table.types[position] for position in positions) if table.types else (),
        factors=description.multiply,
        chunks=([noted(chunk[position]) for position in positions] for chunk in table.chunks),
    )


def _telling(table: RawTable, file: str) -> Iterator[Sequence[Cells]]:
    """The table's blocks, with a line in the log wherever the reading takes long."""
    rows, said = 0, time.monotonic()
    for chunk in table.chunks:
        rows += len(chunk[0])
        if time.monotonic() - said >= PROGRESS_S:
            said = time.monotonic()
            log.info("%s: %d rows read, going on", file, rows)
        yield chunk


def check_row_count(rows: int, *, file: str, site: str | None) -> None:
    """Raise where a table has no row (EmptyDataError) or only one (TooFewRowsError)."""
    if rows == 0:
        raise EmptyDataError("there is a header but no row of data", file=file, rows=0, site=site)
    if rows < _LEAST_ROWS:
        raise TooFewRowsError("one row is too few for any test", file=file, rows=rows, site=site)


def _check_header(table: RawTable) -> None:
    for position, name in enumerate(table.names, start=1):
        hidden = hidden_character(name)
        if name and hidden is None:
            continue
        what = f"has the invisible character {hidden}" if name else "is empty"
        error = UnreadableDataError(
            f"the name of column {position} {what}",
            column=visible(name),
            rows=table.count_rows(),
            remedy="Give every column a visible name; leave out row names, indices and delimiters "
            f"at the end of rows on export, or declare skip_unnamed = true {DECLARED}.",
        )
        error.declaration = () if name else (("skip_unnamed", True),)
        raise error
    repeat = first_repeat(table.names)
    if repeat is not None:
        first, second = repeat
        raise DuplicateNameError(
            f"columns {first + 1} and {second + 1} have the same name",
            column=table.names[first],
            rows=table.count_rows(),
            remedy="Rename one of the two at every site; if the file has no header line, add one.",
        )
