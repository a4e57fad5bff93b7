"""Reading a table of a DuckDB file, which is opened read-only; no other file can be opened by it.

Leaks:
    Nothing: DuckDB may open no other file and load nothing over the network.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cipherdag.errors import (
    DatabaseDriverError,
    DatabaseError,
    DatabaseQueryError,
    DatabaseUnreachableError,
)
from cipherdag.sites.table.cells import (
    CHUNK_ROWS,
    Cells,
    ColumnType,
    RawTable,
    Source,
    TypeKind,
    row_blocks,
)
from cipherdag.sites.table.data_frame import BATCH_ROWS, arrow_cells
from cipherdag.sites.table.database import selection
from cipherdag.sites.table.names import normalise_name

_SHUT: dict[str, str | bool | int | float | list[str]] = {"enable_external_access": "false"}
_TABLES = """
SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal
UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL
"""
_KINDS: dict[str, TypeKind] = {"boolean": "boolean", "enum": "enum", "varchar": "text"}
_NUMBERS = (
    "tinyint", "smallint", "integer", "bigint", "hugeint",
    "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    "float", "double", "decimal",
)  # fmt: skip
_SAME_IN_ARROW = frozenset(_NUMBERS) - {"hugeint", "uhugeint", "decimal"} | {
    "boolean",
    "enum",
    "varchar",
}
_KINDS |= dict.fromkeys(_NUMBERS, "number")


@contextmanager
def open_duckdb(
    path: Path, *, table: str = "", columns: Sequence[str] = (), query: str = ""
) -> Iterator[RawTable]:
    """Open a table of a DuckDB file; the rows are read in blocks while the context lasts.

    A table may be left out where the file has one only; without ``columns`` all of them are read.
    ``query`` is SQL that gives the table in its place. Raises as `open_sql`, and
    DatabaseUnreachableError where another program writes the file, or it is no DuckDB file.
    """
    try:
        import duckdb
    except ImportError:
        raise DatabaseDriverError(
            "DuckDB files need duckdb, which is not installed",
            remedy="Run `pip install 'cipherdag[duckdb]'`, or export the table as CSV.",
        ) from None
    try:
        # the driver's own words about data are not passed on: they may quote a cell
        connection = duckdb.connect(str(path), read_only=True, config=_SHUT)
    except duckdb.Error as error:
        raise DatabaseUnreachableError(
            f"{path} cannot be opened: {_first_words(error)}",
            remedy="Name a DuckDB file that no other program is writing.",
        ) from None
    with connection:
        try:
            chosen = query or _selection(connection, path.name, table, columns)
            described = connection.sql(chosen)
            if described is None:
                raise DatabaseQueryError("the query gives no table")
            names = tuple(normalise_name(name) for name in described.columns)
            types = tuple(_column_type(each) for each in described.types)
            yield RawTable(names, _blocks(connection, chosen, described), types)
        except duckdb.Error as error:
            raise _failure(error) from None


def _selection(connection: Any, file: str, table: str, columns: Sequence[str]) -> str:
    """The query for a table, or for the only one of the file."""
    tables = connection.execute(_TABLES).fetchall()
    if table:
        *schema, name = table.split(".", 1)
        parts = [*schema, name]
    elif len(tables) == 1:
        parts = list(tables[0])
    else:
        raise DatabaseQueryError(
            f"the file holds {len(tables)} tables, and none is named",
            remedy=f'Write a .toml with address = "duckdb:///{file}" and table.',
        )
    return selection(".".join(map(_quoted, parts)), [_quoted(column) for column in columns])


def _blocks(connection: Any, query: str, described: Any) -> Iterator[list[Cells]]:
    """The rows, by Arrow if it is there and writes these types alike, else one by one."""
    if not all(each.id in _SAME_IN_ARROW for each in described.types) or not find_spec("pyarrow"):
        connection.execute(query)
        return row_blocks(iter(lambda: connection.fetchmany(CHUNK_ROWS), []))
    reader = getattr(described, "to_arrow_reader", None) or described.fetch_arrow_reader
    return _batches(reader)


def _batches(reader: Callable[[int], Any]) -> Iterator[list[Cells]]:
    import pyarrow as pa

    try:
        for batch in reader(BATCH_ROWS):
            yield [arrow_cells(column) for column in batch.columns]
    except (pa.ArrowException, OSError) as error:  # their words may quote a cell
        raise DatabaseError(f"DuckDB stops the reading: {type(error).__name__}") from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _column_type(declared: Any) -> ColumnType:
    if declared.id == "enum":
        return ColumnType("enum", "ENUM", tuple(declared.children[0][1]))
    return ColumnType(_KINDS.get(declared.id, "other"), str(declared))


def _failure(error: Exception) -> DatabaseError:
    """The error class for what DuckDB raises while it plans or reads."""
    import duckdb

    planning = (
        duckdb.CatalogException | duckdb.BinderException | duckdb.ParserException
        | duckdb.PermissionException | duckdb.SyntaxException
    )  # fmt: skip
    if isinstance(error, planning):  # said of the query, before any row was read
        return DatabaseQueryError(_first_words(error))
    return DatabaseError(f"DuckDB stops the reading: {type(error).__name__}")


def _first_words(error: Exception) -> str:
    return " ".join(str(error).split("\n\n")[0].split())


DUCKDB = Source(
    "DuckDB", lambda path, _: open_duckdb(path), magic=b"DUCK", offset=8, endings=(".duckdb",)
)
