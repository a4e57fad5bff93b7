"""Reading a CSV, Parquet file, database or DataFrame into cells, before any schema is applied.

Nothing is guessed here: every cell of a CSV stays the text that stands in the file, and a header
that repeats a name, hides a character or leaves a name empty is refused instead of being mended.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import os
import re
import time
import zlib
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, Union, cast

import numpy as np

from cipherdag.errors import (
    DuplicateNameError,
    EmptyDataError,
    TooFewRowsError,
    UnreadableDataError,
)
from cipherdag.sites.table.cells import CHUNK_ROWS, Cells, NumberCells, RawTable, TextCells
from cipherdag.sites.table.names import (
    first_repeat,
    hidden_character,
    normalise_name,
    number_text,
    visible,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from cipherdag.sites.table.cells import ColumnType
    from cipherdag.sites.table.database import DatabaseSource

TableSource: TypeAlias = Union[str, os.PathLike[str], "pd.DataFrame"]

PROGRESS_S = 5.0
_DATABASE_SUFFIX = ".toml"
_LEAST_ROWS = 2
_LARGEST_EXACT = 2**53
_SAVED_INDEX = re.compile("__index_level_[0-9]+__")  # how pandas saves an index without a name
_GZIP_MAGIC = b"\x1f\x8b"
_PARQUET_MAGIC = b"PAR1"
_ZIP_MAGIC = b"PK\x03\x04"
_SQLITE_MAGIC = b"SQLite format 3\0"
_DUCKDB_MAGIC, _DUCKDB_PLACE = b"DUCK", 8

log = logging.getLogger("cipherdag.reading")


@contextmanager
def open_table(source: TableSource, *, site: str | None = None) -> Iterator[RawTable]:
    """Open a table and check its header; the rows are read while the context lasts.

    CSV is UTF-8 (with or without a byte-order mark), comma-separated with one header line; it may
    be gzipped, which the content tells, not the name. Blank lines are skipped. Parquet needs the
    extra ``parquet``; the index that pandas saves without a name is left out. A DuckDB file with
    one table needs the extra ``duckdb``; a ``.toml`` file names a database, see
    `sites.table.database.DatabaseSource`. Long readings say every few seconds how far they are,
    in the log ``cipherdag.reading``.

    Args:
        source: Path of the file, or a DataFrame, whose index is not read.
        site: Name of the site, for errors.

    Raises:
        UnreadableDataError: If the file does not exist or is no such table, or if a name is empty
            or holds an invisible character; its leaves below `DatabaseError` for databases.
        EmptyDataError: If the file has no header.
        DuplicateNameError: If two names are equal after normalisation.
    """
    try:
        if isinstance(source, str | os.PathLike):
            with _open_file(Path(source)) as table:
                _check_header(table)
                yield replace(table, chunks=_telling(table))
        else:
            table = _frame_table(source, "DataFrame")
            _check_header(table)
            yield table
    except (UnreadableDataError, EmptyDataError, DuplicateNameError) as error:
        error.site = site
        raise


def _telling(table: RawTable) -> Iterator[list[Cells]]:
    """The table's blocks, with a line in the log wherever the reading takes long."""
    rows, said = 0, time.monotonic()
    for chunk in table.chunks:
        rows += len(chunk[0])
        if time.monotonic() - said >= PROGRESS_S:
            said = time.monotonic()
            log.info("%s: %d rows read, going on", table.file, rows)
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
        raise UnreadableDataError(
            f"the name of column {position} {what}",
            file=table.file,
            column=visible(name),
            rows=table.count_rows(),
            remedy="Give every column a visible name; leave out row names and indices on export.",
        )
    repeat = first_repeat(table.names)
    if repeat is not None:
        first, second = repeat
        raise DuplicateNameError(
            f"columns {first + 1} and {second + 1} have the same name",
            file=table.file,
            column=table.names[first],
            rows=table.count_rows(),
            remedy="Rename one of the two at every site; if the file has no header line, add one.",
        )


@contextmanager
def _open_file(path: Path) -> Iterator[RawTable]:
    file = str(path)
    if path.suffix == _DATABASE_SUFFIX:
        from cipherdag.sites.table.database import DatabaseSource

        with open_database(DatabaseSource.load(path)) as table:
            yield table
        return
    try:
        raw = path.open("rb")
    except OSError as error:
        reason = error.strerror or "it cannot be opened"
        raise UnreadableDataError(f"cannot be read: {reason}", file=file) from error
    with raw:
        magic = raw.peek(len(_SQLITE_MAGIC))
        if magic.startswith(_PARQUET_MAGIC):
            yield _parquet_table(raw, file)
        elif magic.startswith(_ZIP_MAGIC):
            raise UnreadableDataError(
                "this is a zip archive or an Excel workbook, not a CSV file",
                file=file,
                remedy="Save the sheet as 'CSV UTF-8' and give that file.",
            )
        elif magic[_DUCKDB_PLACE:].startswith(_DUCKDB_MAGIC):
            from cipherdag.sites.table.duckdb_file import open_duckdb

            with open_duckdb(path, file=file) as table:
                yield table
        elif magic.startswith(_SQLITE_MAGIC):
            raise UnreadableDataError(
                "this is an SQLite database, which holds many tables",
                file=file,
                remedy=f'Write a .toml with address = "sqlite:///{path.name}" and table.',
            )
        elif magic.startswith(_GZIP_MAGIC):
            with gzip.GzipFile(fileobj=raw) as unzipped, _open_csv(unzipped, file) as table:
                yield table
        else:
            with _open_csv(raw, file) as table:
                yield table


@contextmanager
def _open_csv(stream: gzip.GzipFile | io.BufferedReader, file: str) -> Iterator[RawTable]:
    # TextIOWrapper reads a GzipFile well; its type only asks for the larger interface
    raw = cast("BinaryIO", stream)
    with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        rows = _csv_rows(text, file)
        header = next(rows, None)
        if header is None:
            raise EmptyDataError("the file is empty", file=file, rows=0)
        if any("\0" in name for name in header):
            raise UnreadableDataError("this is a binary file or UTF-16, not UTF-8 text", file=file)
        if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
            raise UnreadableDataError(
                "the columns are not separated by commas",
                file=file,
                remedy="Export with commas between columns and points in decimal numbers.",
            )
        names = tuple(normalise_name(name) for name in header)
        yield RawTable(file, names, _csv_chunks(rows))


def _csv_chunks(rows: Iterator[list[str]]) -> Iterator[list[Cells]]:
    while block := list(islice(rows, CHUNK_ROWS)):
        yield [TextCells(column) for column in zip(*block, strict=True)]


def _csv_rows(text: io.TextIOWrapper, file: str) -> Iterator[list[str]]:
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
                    file=file,
                    remedy='Give every line the same number of fields; quote "a,b" if it has one.',
                )
            yield row
    except UnicodeDecodeError as error:
        raise UnreadableDataError(
            f"the text after line {reader.line_num} is not UTF-8", file=file
        ) from error
    except csv.Error as error:
        raise UnreadableDataError(f"line {reader.line_num}: {error}", file=file) from error
    except (EOFError, OSError, zlib.error) as error:
        raise UnreadableDataError(
            f"reading stops after line {reader.line_num}: the file is cut short or damaged",
            file=file,
        ) from error


def _parquet_table(raw: io.BufferedReader, file: str) -> RawTable:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UnreadableDataError(
            "Parquet files need pyarrow, which is not installed",
            file=file,
            remedy="Run `pip install 'cipherdag[parquet]'`, or export the table as CSV.",
        ) from error
    try:
        table = pq.ParquetFile(raw).read()
        index = [name for name in table.column_names if _SAVED_INDEX.fullmatch(name)]
        frame = table.drop_columns(index).to_pandas(ignore_metadata=True, integer_object_nulls=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableDataError("this is not a whole Parquet file", file=file) from error
    return _frame_table(frame, file)


def _frame_table(frame: object, file: str) -> RawTable:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        kind = type(frame).__name__
        raise UnreadableDataError(f"{kind} is neither a path nor a pandas DataFrame", file=file)
    if isinstance(frame.columns, pd.MultiIndex):
        raise UnreadableDataError("the columns have more than one level", file=file)
    if frame.shape[1] == 0:
        raise EmptyDataError("there are no columns", file=file, rows=len(frame))
    names = ["" if pd.isna(name) is True else str(name) for name in frame.columns]
    chunks = ([_series_cells(column, file) for _, column in frame.items()] for _ in range(1))
    types = tuple(_declared_order(column) for _, column in frame.items())
    return RawTable(file, tuple(map(normalise_name, names)), chunks, types=types)


def _declared_order(series: pd.Series) -> ColumnType | None:
    import pandas as pd

    from cipherdag.sites.table.cells import ColumnType

    if not isinstance(series.dtype, pd.CategoricalDtype) or not series.dtype.ordered:
        return None
    values = tuple(map(_object_text, series.dtype.categories))
    return ColumnType("enum", "Ordered categorical", values, ordered=True)


def _series_cells(series: pd.Series, file: str) -> Cells:
    import pandas as pd

    kinds = pd.api.types
    numeric = kinds.is_numeric_dtype(series) and not kinds.is_bool_dtype(series)
    if numeric and not kinds.is_complex_dtype(series):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        # larger integers are no longer distinct as floats
        if not (kinds.is_integer_dtype(series) and (np.abs(values) >= _LARGEST_EXACT).any()):
            return NumberCells(values)
    try:
        index, distinct = pd.factorize(series)
    except TypeError as error:
        raise UnreadableDataError(
            "a cell holds a list or another structure",
            file=file,
            column=str(series.name),
            rows=len(series),
            remedy="Give one number or text per cell.",
        ) from error
    boolean = all(isinstance(value, bool | np.bool_) for value in distinct)
    rows = index.astype(np.int64) % (len(distinct) + 1)  # -1, a missing value, becomes the last
    return TextCells([*map(_object_text, distinct), ""], rows, boolean=boolean)


def _object_text(value: object) -> str:
    if isinstance(value, float | np.floating):
        return number_text(float(value))
    return str(value)


@contextmanager
def open_database(source: DatabaseSource) -> Iterator[RawTable]:
    """Open a database's table; the rows are read in blocks while the context lasts.

    Raises:
        DatabaseError: Its leaf that names what is wrong.
        EmptyDataError: The table has no columns.
    """
    if source.dialect == "duckdb":
        from cipherdag.sites.table.duckdb_file import open_duckdb

        with open_duckdb(
            source.database_file,
            file=source.file,
            table=source.table,
            columns=source.columns,
            query=source.query,
        ) as table:
            yield table
    else:
        from cipherdag.sites.table.sql import open_sql

        with open_sql(source) as table:
            yield table
