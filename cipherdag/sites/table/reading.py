"""Reading a site's table into cells, before any schema is applied.

Nothing is guessed here: a header that repeats a name, hides a character or leaves a name empty is
refused instead of being mended.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from cipherdag.errors import (
    DuplicateNameError,
    EmptyDataError,
    TooFewRowsError,
    UnreadableDataError,
)
from cipherdag.sites.table.cells import Cells, RawTable, TextCells
from cipherdag.sites.table.data_frame import frame_table
from cipherdag.sites.table.file_description import (
    ANY_SOURCE,
    AS_USUAL,
    DescribedFile,
    FileDescription,
)
from cipherdag.sites.table.names import first_repeat, hidden_character, visible
from cipherdag.sites.table.sources import READABLE, source_of

if TYPE_CHECKING:
    import pandas as pd

TableSource: TypeAlias = Union[str, os.PathLike[str], DescribedFile, "pd.DataFrame"]

PROGRESS_S = 5.0
_LEAST_ROWS = 2

log = logging.getLogger("cipherdag.reading")


@contextmanager
def open_table(source: TableSource, *, site: str | None = None) -> Iterator[RawTable]:
    """Open a table and check its header; the rows are read while the context lasts.

    `sources.SOURCES` lists what a file may be. Long readings say every few seconds how far they
    are, in the log ``cipherdag.reading``.

    Args:
        source: Path of the file, a described file, or a DataFrame, whose index is not read.
        site: Name of the site, for errors.

    Raises:
        UnreadableDataError: If the file does not exist or is no such table, or if a name is empty
            or holds an invisible character; its leaves below `DatabaseError` for databases.
        EmptyDataError: If the file has no header.
        DuplicateNameError: If two names are equal after normalisation.
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
            yield replace(table, file=file, place=_frame_row)
    except (UnreadableDataError, EmptyDataError, DuplicateNameError) as error:
        error.file, error.site = error.file or file, site
        raise


def _frame_row(row: int) -> str:
    return f"row {row + 1} (.iloc[{row}])"


def _described(source: str | os.PathLike[str] | DescribedFile) -> DescribedFile:
    """The file and how it is written; a .toml may say so of another file."""
    own = source if isinstance(source, DescribedFile) else DescribedFile(Path(source), AS_USUAL)
    if own.path.suffix != ".toml":
        return own
    try:
        inner = DescribedFile.load(own.path)
    except OSError:
        return own  # whoever opens it next says why
    if inner is None:
        return own
    if own.description != AS_USUAL:
        raise UnreadableDataError("two descriptions are given", remedy="Leave one of them out.")
    return inner


@contextmanager
def _open_file(described: DescribedFile) -> Iterator[RawTable]:
    with ExitStack() as stack:
        try:
            source = source_of(described.path)
            key = described.description.unread((*source.reads, *ANY_SOURCE))
            if key:
                raise UnreadableDataError(
                    f"{key} says nothing about {source.words}",
                    remedy=f"Remove {key} from [source], or from the .toml of the file.",
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
    kept = [place for place, name in enumerate(table.names) if name or not description.skip_unnamed]
    notation = description.notation

    def noted(cells: Cells) -> Cells:
        return replace(cells, notation=notation) if isinstance(cells, TextCells) else cells

    return replace(
        table,
        names=description.names(tuple(table.names[place] for place in kept)),
        types=tuple(table.types[place] for place in kept) if table.types else (),
        chunks=([noted(chunk[place]) for place in kept] for chunk in table.chunks),
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
        raise UnreadableDataError(
            f"the name of column {position} {what}",
            column=visible(name),
            rows=table.count_rows(),
            remedy="Give every column a visible name; leave out row names, indices and delimiters "
            "at the end of rows on export, or declare skip_unnamed = true under [source].",
        )
    repeat = first_repeat(table.names)
    if repeat is not None:
        first, second = repeat
        raise DuplicateNameError(
            f"columns {first + 1} and {second + 1} have the same name",
            column=table.names[first],
            rows=table.count_rows(),
            remedy="Rename one of the two at every site; if the file has no header line, add one.",
        )
