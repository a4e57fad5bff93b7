"""Reading a table of any SQL database through SQLAlchemy, in blocks and without writing.

PostgreSQL reads in one read-only transaction of isolation level REPEATABLE READ with a cursor at
the server, SQLite opens its file read-only and attaches no other. For other databases the only
safeguard is a transaction that is rolled back: give such a site a user that may only read.

Leaks:
    Nothing leaves the site. A driver's own words are passed on only where they speak of the query,
    before a row was read: elsewhere they may quote a cell.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cipherdag.errors import (
    DatabaseAddressError,
    DatabaseDriverError,
    DatabaseError,
    DatabaseLoginError,
    DatabaseQueryError,
    DatabaseUnreachableError,
)
from cipherdag.sites.table.cells import CHUNK_ROWS, ColumnType, RawTable, TypeKind, row_blocks
from cipherdag.sites.table.database import NO_ADDRESS, DatabaseSource, selection
from cipherdag.sites.table.names import normalise_name
from cipherdag.sites.table.omop import NO_SQLALCHEMY

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

CONNECT_S = 10
# without parameters a % of the query is a %
STREAMED = {"stream_results": True, "max_row_buffer": CHUNK_ROWS, "no_parameters": True}
# a server speaks its own language, and gives no SQLSTATE before there is a connection
_LOGIN_WORDS = ("passwor", "mot de passe", "authenti", "autenti", "access denied", "login failed")
_UNREACHED = {
    "connection refused": "nothing listens there",
    "timeout": f"no connection in {CONNECT_S} s",
    "timed out": f"no connection in {CONNECT_S} s",
    "resolve": "there is no host of this name",
    "translate host name": "there is no host of this name",
    "fatal": "it refuses every connection now",
}
_QUERY_STATES = ("42", "3F")  # syntax error or access rule violation; unknown schema
_LOGIN_STATES = ("28",)
_SQLITE_WORDS = ("no such", "unknown database", "syntax error", "incomplete input")
_PG_KINDS: dict[str, TypeKind] = {"B": "boolean", "E": "enum", "N": "number", "S": "text"}
_PG_TYPES = "SELECT oid, typname, typcategory FROM pg_catalog.pg_type"
_PG_ENUMS = "SELECT enumtypid, enumlabel FROM pg_catalog.pg_enum ORDER BY enumtypid, enumsortorder"


@contextmanager
def open_sql(source: DatabaseSource) -> Iterator[RawTable]:
    """Open a database's table; the rows are read in blocks while the context lasts.

    Raises:
        DatabaseCredentialsError, DatabaseLoginError: As `Credentials.load`, or they are refused.
        DatabaseDriverError: SQLAlchemy or the database's driver is not installed.
        DatabaseUnreachableError: The database does not answer.
        DatabaseQueryError: A table or column is unknown or may not be read, or the query is faulty.
        DatabaseError: The query fails on the data, or the connection ends.
    """
    try:
        from sqlalchemy import exc
    except ImportError:
        raise DatabaseDriverError(NO_SQLALCHEMY) from None
    engine = _engine(source)
    try:
        with _connect(engine, source) as connection:
            try:
                with _table(connection, source) as table:
                    yield table
            except exc.SQLAlchemyError as error:
                raise _failure(error, source) from None
    finally:
        engine.dispose()


def _engine(source: DatabaseSource) -> Engine:
    from sqlalchemy import create_engine, event
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    from sqlalchemy.pool import NullPool

    secret = source.secret()
    try:
        url = _url(source)
        if secret is not None:
            url = url.set(username=secret.user or url.username, password=secret.password)
        ours = {"connect_timeout": CONNECT_S} if source.dialect == "postgresql" else {}
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=ours)
    except NoSuchModuleError:
        raise DatabaseDriverError(
            f"SQLAlchemy knows no database '{source.address.partition(':')[0]}'",
            remedy="Correct the beginning of the address, or install the database's dialect.",
        ) from None
    except ImportError as error:
        raise DatabaseDriverError(f"the driver '{error.name}' is not installed") from None
    except (ArgumentError, ValueError):
        # without SQLAlchemy's words: they may quote the address
        raise DatabaseAddressError(NO_ADDRESS) from None
    if source.dialect == "sqlite":
        event.listen(engine, "connect", _attach_nothing)
    return engine


def _attach_nothing(connection: Any, _: object) -> None:
    """Have SQLite refuse ATTACH, and VACUUM INTO, which would make a file that is not there."""
    from sqlite3 import SQLITE_ATTACH, SQLITE_DENY, SQLITE_OK

    connection.set_authorizer(
        lambda action, *_: SQLITE_DENY if action == SQLITE_ATTACH else SQLITE_OK
    )


def _url(source: DatabaseSource) -> URL:
    from sqlalchemy import make_url

    url = make_url(source.address)
    if source.dialect == "sqlite":
        path = source.database_file
        if not path.is_file():
            raise DatabaseUnreachableError(f"there is no file {path}")
        url = url.set(database=f"file:{quote(str(path.absolute()))}")
        return url.update_query_dict({"mode": "ro", "uri": "true"})
    if url.drivername == "postgresql":  # whatever SQLAlchemy's own choice is
        url = url.set(drivername="postgresql+psycopg")
    return url


@contextmanager
def _connect(engine: Engine, source: DatabaseSource) -> Iterator[Connection]:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        connection = engine.connect()
    except SQLAlchemyError as error:
        raise _refusal(error, source) from None
    with connection:
        if source.dialect == "postgresql":
            connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        yield connection


@contextmanager
def _table(connection: Connection, source: DatabaseSource) -> Iterator[RawTable]:
    types: dict[str, ColumnType] = {}
    query = source.query.strip().rstrip(";")
    if source.table:
        types = _declared(connection, source)
        query = _selection(connection, source)
    with closing(connection.exec_driver_sql(query, execution_options=STREAMED)) as result:
        if not result.returns_rows:
            raise DatabaseQueryError("the query gives no table")
        names = tuple(result.keys())
        if source.query and source.dialect == "postgresql":
            assert result.cursor is not None, "a result with rows has a cursor"
            described = dict(zip(names, result.cursor.description, strict=True))
            types = _postgres_types(connection, described)
        chunks = row_blocks(iter(result.partitions(CHUNK_ROWS)))
        declared = tuple(types.get(name) for name in names)
        yield RawTable(tuple(map(normalise_name, names)), chunks, declared)


def _declared(connection: Connection, source: DatabaseSource) -> dict[str, ColumnType]:
    """The types of a table's columns by name; refuses tables and columns that are not there."""
    from sqlalchemy import inspect
    from sqlalchemy.exc import NoSuchTableError
    from sqlalchemy.types import NullType

    schema, name = _parts(source.table)
    looking = inspect(connection)
    try:
        with warnings.catch_warnings(action="ignore"):  # of types that SQLAlchemy does not know
            columns = looking.get_columns(name, schema=schema)
    except NoSuchTableError:
        others = [*looking.get_table_names(schema), *looking.get_view_names(schema)]
        raise DatabaseQueryError(
            f"there is no table '{source.table}' that this user may read{_suggestion(name, others)}"
        ) from None
    names = [each["name"] for each in columns]
    for column in source.columns:
        if column not in names:
            raise DatabaseQueryError(
                f"the table has no column '{column}'{_suggestion(column, names)}", column=column
            )
    # SQLite says nothing of a view's computed columns
    silent = NullType if source.dialect == "sqlite" else ()
    said = [each for each in columns if not isinstance(each["type"], silent)]
    return {each["name"]: _column_type(each["type"]) for each in said}


def _parts(table: str) -> tuple[str | None, str]:
    schema, dot, name = table.partition(".")
    return (schema, name) if dot else (None, table)


def _suggestion(name: str, others: Sequence[str]) -> str:
    close = get_close_matches(name, others, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _selection(connection: Connection, source: DatabaseSource) -> str:
    quoted = connection.dialect.identifier_preparer.quote_identifier
    schema, name = _parts(source.table)
    whole = ".".join(quoted(part) for part in (schema, name) if part)
    return selection(whole, [quoted(column) for column in source.columns])


def _column_type(declared: Any) -> ColumnType:
    from sqlalchemy import types

    name = type(declared).__name__.upper()
    if isinstance(declared, types.Enum):  # a kind of text, so asked first
        return ColumnType("enum", "ENUM", tuple(map(str, declared.enums)))
    kinds: tuple[tuple[TypeKind, Any], ...] = (
        ("boolean", types.Boolean),
        ("text", types.String),
        ("number", types.Integer | types.Numeric | types.Float),
    )
    fitting = [kind for kind, family in kinds if isinstance(declared, family)]
    return ColumnType(fitting[0] if fitting else "other", name)


def _postgres_types(
    connection: Connection, columns: Mapping[str, Sequence[Any]]
) -> dict[str, ColumnType]:
    """The types of a query's columns, by name, from PostgreSQL's own catalogue."""
    catalogue = {oid: (name, kind) for oid, name, kind in connection.exec_driver_sql(_PG_TYPES)}
    labels: dict[int, list[str]] = {}
    for oid, label in connection.exec_driver_sql(_PG_ENUMS):
        labels.setdefault(oid, []).append(label)
    types = {}
    for column, (_, oid, *_) in columns.items():
        name, category = catalogue.get(oid, ("unknown", ""))
        kind = _PG_KINDS.get(category, "other")
        types[column] = ColumnType(kind, name.upper(), tuple(labels.get(oid, ())))
    return types


def _refusal(error: Exception, source: DatabaseSource) -> DatabaseError:
    """The leaf for a connection that does not come about."""
    from sqlalchemy import make_url

    said = str(getattr(error, "orig", None) or error).lower()
    state = _state(error)
    if state.startswith(_LOGIN_STATES) or any(word in said for word in _LOGIN_WORDS):
        return DatabaseLoginError("the database refuses the user or the password")
    if state == "3D000" or ("database" in said and "does not exist" in said):
        return DatabaseUnreachableError(
            "the server has no database of this name",
            remedy="Correct the name after the last / of the address.",
        )
    why = next((why for word, why in _UNREACHED.items() if word in said), "no connection")
    url = make_url(source.address)
    host = f"{url.host or 'this machine'}" + (f":{url.port}" if url.port else "")
    return DatabaseUnreachableError(f"the database at {host} does not answer: {why}")


def _failure(error: Exception, source: DatabaseSource) -> DatabaseError:
    """The leaf for what goes wrong once there is a connection."""
    orig = getattr(error, "orig", None)
    state, said = _state(error), str(orig or "")
    if state.startswith(_QUERY_STATES):
        words = getattr(getattr(orig, "diag", None), "message_primary", None) or said
        return DatabaseQueryError(words.splitlines()[0])
    if source.dialect == "sqlite" and any(word in said for word in _SQLITE_WORDS):
        return DatabaseQueryError(said.splitlines()[0])
    if source.dialect == "sqlite" and "authoriz" in said:
        return DatabaseQueryError("the query attaches a file; a site reads the one that it names")
    if state == "25006" or "readonly database" in said:
        return DatabaseQueryError("the query writes; a site only reads")
    kind = type(orig or error).__name__ + (f", SQLSTATE {state}" if state else "")
    return DatabaseError(f"the database stops the reading: {kind}")


def _state(error: Exception) -> str:
    """The SQLSTATE of a failure, which tells its kind in every language; empty if unknown."""
    orig = getattr(error, "orig", None)
    return str(getattr(orig, "sqlstate", None) or getattr(orig, "pgcode", None) or "")
