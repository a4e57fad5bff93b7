"""A table's values by column, counted as a draft needs them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cipherdag.errors import ExtraColumnError, MissingColumnError, UnreadableDataError
from cipherdag.sites.drafts.guessing import is_free_text
from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.cells import ColumnType, RawTable, TextCells
from cipherdag.sites.table.names import hidden_character, normalise_value
from cipherdag.sites.table.reading import TableSource, check_row_count, open_table
from cipherdag.sites.table.site_table import UNMEASURED


@dataclass(slots=True, repr=False)
class Counted:
    """A table's values by column, what a database declares of these, and hidden characters.

    The first cell with one makes an error, raised only where the cell would be a category.
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
    counted: Counted, tallies: Mapping[str, ColumnTally], *, first: str, but: str
) -> None:
    """Refuse a table with other columns than those before it; ``but`` may be lacking.

    Raises:
        MissingColumnError: It lacks a column that another has.
        ExtraColumnError: It has one that another lacks.
    """
    one = f"site '{first}'" if first else "another of the files"
    names, held = ([*each] for each in (tallies, counted.tallies))
    for error, verb, there, here in (
        (MissingColumnError, "has", names, held),
        (ExtraColumnError, "lacks", held, names),
    ):
        for name in there:
            if name not in here and name != but:
                said, file, rows = f"{one} {verb} this column", counted.file, counted.rows
                raise error(said, file=file, column=name, rows=rows, remedy=UNMEASURED)
