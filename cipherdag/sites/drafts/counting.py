"""A table's values by column, counted as a draft needs them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cipherdag.errors import ExtraColumnError, MissingColumnError, UnreadableDataError
from cipherdag.sites.drafts.guessing import is_free_text
from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.cells import ColumnType, RawTable, TextCells
from cipherdag.sites.table.names import hidden_character, normalise_value
from cipherdag.sites.table.reading import TableSource, check_row_count, open_table
from cipherdag.sites.table.site_table import UNMEASURED


@dataclass(slots=True, repr=False)
class Counted:
    """A table's values by column, the types that a database declares, and hidden characters.

    ``hidden`` has an error for the first cell of a column with an invisible character. It waits
    there, since only a column of categories is refused for it (`refuse_hidden`).
    """

    file: str
    tallies: dict[str, ColumnTally]
    types: dict[str, ColumnType]
    hidden: dict[str, UnreadableDataError] = field(default_factory=dict)
    rows: int = 0


def count_table(source: TableSource) -> Counted:
    """Count a table's values by column.

    Raises:
        DataError: The table cannot be read, or has too few rows.
    """
    with open_table(source) as table:
        kinds = zip(table.names, table.types, strict=bool(table.types))
        counted = Counted(
            table.file,
            {name: ColumnTally() for name in table.names},
            {name: kind for name, kind in kinds if kind is not None},
        )
        for chunk in table.chunks:
            for name, cells in zip(table.names, chunk, strict=True):
                counted.tallies[name].add(cells)
                if isinstance(cells, TextCells):
                    _note_hidden(table, name, cells, counted.rows, counted.hidden)
            counted.rows += len(chunk[0])
    check_row_count(counted.rows, file=counted.file, site=None)
    return counted


def _note_hidden(
    table: RawTable, name: str, cells: TextCells, first: int, hidden: dict[str, UnreadableDataError]
) -> None:
    """Remember the first cell with an invisible character, and where it is."""
    if name in hidden or "".join(cells.texts).isprintable():
        return
    for position, text in enumerate(cells.texts):
        mark = None if text.isprintable() else hidden_character(normalise_value(text))
        if mark is None:
            continue
        row = position if cells.index is None else int((cells.index == position).argmax())
        location = table.location_of(first + row)
        hidden[name] = UnreadableDataError(
            f"the cell in {location} has the invisible character {mark}",
            file=table.file,
            column=name,
            location=location,
            remedy="Find and remove it in the file, or correct the export.",
        )
        return


def refuse_hidden(
    hidden: Mapping[str, UnreadableDataError], tallies: Mapping[str, ColumnTally], rows: int
) -> None:
    """Raise the first of the errors whose column would show its cells as categories."""
    for name, error in hidden.items():
        values = tallies[name].values()
        if any(map(hidden_character, values)) and not is_free_text(values, rows):
            raise error


def check_same_columns(
    counted: Counted, tallies: Mapping[str, ColumnTally], *, first: str, optional: str
) -> None:
    """Refuse a table whose columns are not those of the tables before it, but for ``optional``.

    Raises:
        MissingColumnError: It lacks a column that another has.
        ExtraColumnError: It has one that another lacks.
    """
    other = f"site '{first}'" if first else "another of the files"
    missing, extra = (
        [name for name in there if name not in here and name != optional]
        for there, here in ((tallies, counted.tallies), (counted.tallies, tallies))
    )
    facts: dict[str, Any] = {"file": counted.file, "rows": counted.rows, "remedy": UNMEASURED}
    if missing:
        raise MissingColumnError(f"{other} has this column", column=missing[0], **facts)
    if extra:
        raise ExtraColumnError(f"{other} lacks this column", column=extra[0], **facts)
