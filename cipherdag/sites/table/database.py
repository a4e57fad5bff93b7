"""The database that holds a site's table: a ``.toml`` file beside the site's other files.

    address = "postgresql://reader@db.hospital.example/warehouse"
    credentials = "warehouse.secret"      # user and password; readable by its owner alone
    table = "public.patients"             # or: query = "SELECT age, sex FROM ..."
    columns = ["age", "sex"]              # of the table; all of them if absent

In place of a table, ``omop = "study.toml"`` names what a study reads from an OMOP database, and
``cdm`` the database's schema with its tables.

Leaks:
    Nothing leaves the site. The password stands in the credentials file alone: no address, error,
    log record or ``repr`` holds it.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, unquote

import msgspec

from cipherdag.errors import DatabaseAddressError, DatabaseCredentialsError
from cipherdag.privacy.secrecy import Secret, open_to_others
from cipherdag.sites.strict_toml import convert, parse
from cipherdag.sites.table.omop import MAX_BYTES, OmopTable

IN_FILES = ("duckdb", "sqlite")  # without a server, so without user and password
NO_ADDRESS = 'the address is none such as "postgresql://user@host/database"'
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\+[A-Za-z0-9_]+)?://")
_SECRET_WORD = re.compile("pass(?!file$)|pwd|secret|token", re.IGNORECASE)  # a file is no secret
_WHOLE_ADDRESS = "odbc_connect"  # an option that holds options of its own


class _Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    password: str
    user: str = ""


@dataclass(slots=True, repr=False, eq=False)
class Credentials(Secret):
    """A user and a password of a database, read from a file of their own."""

    user: str
    password: str

    @classmethod
    def load(cls, path: Path, *, file: str) -> Self:
        """Read TOML with the keys ``password`` and, if need be, ``user``, for a source file.

        DatabaseCredentialsError where it cannot be read, is open to other users, or is not valid.
        """
        try:
            with path.open("rb") as opened:
                status = os.fstat(opened.fileno())  # of what is read, not of what the name is now
                if open_to_others(status.st_mode):
                    raise DatabaseCredentialsError(
                        f"the credentials file {path} is open to other users",
                        file=file,
                        remedy=f"Run `chmod 600 {path}`; if others could read it, have the "
                        "password changed.",
                    )
                login = convert(parse(opened.read(MAX_BYTES)), _Login)
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            raise DatabaseCredentialsError(
                f"the credentials file {path} cannot be read: {reason}", file=file
            ) from None
        except ValueError:
            raise DatabaseCredentialsError(
                f"the credentials file {path} is not UTF-8 text of two lines such as "
                'user = "..." and password = "..."',
                file=file,
            ) from None
        return cls(login.user, login.password)


class DatabaseSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a database, or what a query gives; DatabaseAddressError for an odd address."""

    path: Path  # the ``.toml`` file; relative names of files are relative to its folder
    # as SQLAlchemy writes it, without a password: "postgresql://user@host/database", or, of a file
    # that holds a database, "duckdb:///file"
    address: str
    # the file that holds user and password; None if the database asks for none
    credentials: Path | None = None
    table: str = ""  # name of a table or view, with its schema before a dot if need be
    columns: tuple[str, ...] = ()  # its columns to read; all of them if empty
    query: str = ""  # SQL that gives the table, in place of ``table``; it is run as it stands
    # the file of what is read from an OMOP database, in place of ``table``; the schema ``cdm`` has
    # its tables, or the usual one
    omop: Path | None = None
    cdm: str = ""

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise DatabaseAddressError(fault, file=str(self.path))

    @property
    def dialect(self) -> str:
        """The kind of database, such as "postgresql"."""
        return self.address.partition(":")[0].partition("+")[0].lower()

    @property
    def database_file(self) -> Path:
        """The file that holds the database, for a dialect of `IN_FILES`."""
        name = unquote(self.address.partition(":///")[2].partition("?")[0])
        return self.path.parent / name

    def secret(self) -> Credentials | None:
        """User and password, if the source names a file of these; raises as `Credentials.load`."""
        if self.credentials is None:
            return None
        return Credentials.load(self.credentials, file=str(self.path))

    @classmethod
    def load(cls, path: Path, *, preview: bool = False) -> Self:
        """Read the ``.toml`` file that names a database, and write the query of an OMOP study.

        With ``preview`` it is the query of `OmopTable.preview`. DatabaseAddressError where the file
        cannot be read or is not valid; it never quotes the file, where a password may stand by
        mistake. DatabaseDriverError where SQLAlchemy, which writes the query, is not installed.
        """
        try:
            with path.open("rb") as opened:
                table = _parsed(opened.read(MAX_BYTES))
            for key in ("credentials", "omop"):
                named = table.get(key)
                if named and isinstance(named, str):
                    table[key] = path.parent / named
            source = convert(table, cls, path=path)
            return source.of_omop(preview=preview) if source.omop or preview else source
        except OSError as error:
            reason = f"cannot be read: {error.strerror or 'it cannot be opened'}"
        except ValueError as error:
            reason = str(error)
        raise DatabaseAddressError(reason, file=str(path))

    def of_omop(self, *, preview: bool) -> Self:
        """The source with the query of its OMOP study; ValueError where it has none.

        DatabaseAddressError speaks of the study's file where that cannot be read.
        """
        if self.omop is None:
            raise ValueError("it names no OMOP study, as omop = FILE does")
        try:
            study = OmopTable.load(self.omop)
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error)
            raise DatabaseAddressError(
                f"the OMOP study that {self.path.name} names cannot be read: {said}",
                file=str(self.omop),
                remedy=f"Write it as docs/howto/use-omop.md shows, or correct omop in {self.path}.",
            ) from None
        query = (study.preview if preview else study.sql)(self.dialect, self.cdm)
        return msgspec.structs.replace(self, omop=None, cdm="", query=query)

    def _fault(self) -> str:
        kind, in_file = self.dialect, self.dialect in IN_FILES
        rules = (
            (not _ADDRESS.match(self.address), NO_ADDRESS),
            (
                _holds_password(self.address),
                "a password stands in the address; it belongs in the credentials file",
            ),
            (
                sum(map(bool, (self.table, self.query, self.omop))) != 1,
                "name either a table, or a query, or the omop file of a study",
            ),
            (
                bool(self.columns) and not self.table,
                "columns belong to a table; let the query choose its own",
            ),
            (bool(self.cdm) and self.omop is None, "cdm is the schema of an omop study's tables"),
            (
                in_file and self.credentials is not None,
                f"a file of {kind} has no user and no password",
            ),
            (
                in_file and not self.address.partition(":///")[2],
                f'the address names no file, as "{kind}:///name" does',
            ),
        )
        return next((fault for broken, fault in rules if broken), "")


def selection(source: str, columns: list[str]) -> str:
    """The query for columns of a table, all of them quoted already; every column if none."""
    return f"SELECT {', '.join(columns) or '*'} FROM {source}"  # noqa: S608 - quoted names only


def _holds_password(address: str) -> bool:
    """True if a password seems to stand before the host or among the options."""
    rest = address.partition("://")[2]
    before, _, options = rest.partition("?")
    if ":" in before.partition("/")[0].rpartition("@")[0]:
        return True
    return any(
        _SECRET_WORD.search(value if name == _WHOLE_ADDRESS else name)
        for name, value in parse_qsl(options, keep_blank_values=True)
    )


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        return parse(content)
    except ValueError as error:  # without what it may quote
        raise ValueError(str(error).partition(":")[0]) from None
