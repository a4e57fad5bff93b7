"""A first schema from data, for the user to look through; nothing else ever guesses a type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from cipherdag.errors import (
    DataError,
    ExtraColumnError,
    MissingColumnError,
    SchemaError,
    UnreadableDataError,
)
from cipherdag.sites.drafts.guessing import (
    FEW_VALUES,
    guessed,
    is_free_text,
    many_numbers,
    missing_words,
    refuse_infinite,
)
from cipherdag.sites.drafts.relations.search import related_columns
from cipherdag.sites.drafts.suspicions import column_suspicions, suspicious_numbers
from cipherdag.sites.drafts.table_suspicions import row_suspicions
from cipherdag.sites.drafts.tally import ColumnTally, Held, Numbers, held_by, without_constant
from cipherdag.sites.table.cells import ColumnType, RawTable, TextCells
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.names import (
    hidden_character,
    is_plain_number,
    normalise_value,
)
from cipherdag.sites.table.reading import TableSource, check_row_count, open_table
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import UNMEASURED, load_table

_FEWEST_ROWS_TO_SHOW = 5


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed columns.

    Attributes:
        columns: From the values of all tables together.
        constant: Which of them hold one value only or none.
        runnable: The same columns, so that a run over these very tables stops at none that is
            constant in some of them.
        few: The numbers, ascending, of continuous columns that have at most 12 different ones.
    """

    columns: tuple[Column, ...]
    constant: frozenset[str]
    runnable: tuple[Column, ...] = field(compare=False)
    few: Mapping[str, tuple[str, ...]] = field(compare=False, default_factory=dict)


def infer_columns(
    sources: Sequence[TableSource] | Mapping[str, TableSource], *, overlapping: bool = False
) -> Draft:
    """Guess the columns of one or several tables that have the same, and say why in comments.

    The rules, for the values of all tables together:

    - no value, or one value only: ignored, since it carries no information; where that holds of
      some tables only, see `without_constant`;
    - numbers, apart from "NA", "N/A", "#N/A", "NaN", "null", "none", "?" and "." in any case,
      which are then declared as missing: discrete where they are at most 12 different whole
      numbers, otherwise continuous; "007" is a code, hence text;
    - numbers with a few words among them, or written in another notation: continuous, so that
      reading them names the first such cell;
    - text: discrete, unless it has more than 100 different values, or more than 12 that hold fewer
      than 10 rows each on average: that looks like an identifier or free text, is ignored, and
      none of its values is written.

    Categories are sorted, whole numbers by size and texts by code point. Numbers one of which is
    infinite are refused.

    Where a database declares a column's type, that decides instead: numbers are continuous, truth
    values and enumerations discrete with all their values, text as above; dates, bytes and
    documents are ignored. An ordered categorical column of a DataFrame or Parquet file is discrete
    and ordered, with all its categories; nothing else is taken as ordered.

    What looks like a mistake stands in the comments behind "LOOK:"; see `suspicions`.

    Args:
        sources: At least one path or DataFrame; by site, where errors shall name it.
        overlapping: Whether tables may have different columns.

    Raises:
        DataError: The leaf that names what is wrong with a table.
        SchemaError: If tables put the categories of an ordered column in different orders or have
            values besides them.
    """
    tallies: dict[str, ColumnTally] = {}
    declared: dict[str, ColumnType] = {}
    hidden: dict[str, UnreadableDataError] = {}
    held: dict[str, list[Held]] = {}
    rows = 0
    by_site = [*sources.items()] if isinstance(sources, Mapping) else [("", s) for s in sources]
    for number, (site, source) in enumerate(by_site, start=1):
        with _of_site(site), open_table(source) as table:
            expected = () if overlapping else tuple(tallies)
            counted = {name: ColumnTally() for name in table.names}
            read = _count_table(table, counted, hidden)
            for name, tally in counted.items():
                tallies.setdefault(name, ColumnTally()).join(tally)
                held.setdefault(name, []).append(held_by(tally, number))
            if expected:
                _check_same_columns(table, expected, read, first=by_site[0][0])
            rows += read
            for error in hidden.values():
                error.site = error.site or site or None
            for name, kind in zip(table.names, table.types, strict=bool(table.types)):
                if kind is not None:
                    declared[name] = _agreed(name, declared.get(name, kind), kind)
    _refuse_hidden(hidden, tallies, rows)
    columns, constant = _columns(tallies, declared, rows, by_site)
    runnable = (without_constant(column, held[column.name]) for column in columns)
    few = {column.name: _few_numbers(column, tallies[column.name]) for column in columns}
    few = {name: numbers for name, numbers in few.items() if numbers}
    return Draft(tuple(columns), frozenset(constant), tuple(runnable), few)


def _few_numbers(column: Column, tally: ColumnTally) -> tuple[str, ...]:
    """The numbers of a continuous column, ascending, where at most 12 differ; else empty."""
    if column.kind != "continuous":
        return ()
    texts = tally.few_values(FEW_VALUES + 1 + len(column.missing)) or frozenset()
    numbers = texts - {"", *column.missing}
    few = len(numbers) <= FEW_VALUES and all(map(is_plain_number, numbers))
    return tuple(sorted(numbers, key=float)) if few else ()


def _columns(
    tallies: Mapping[str, ColumnTally],
    declared: Mapping[str, ColumnType],
    rows: int,
    by_site: Sequence[tuple[str, TableSource]],
) -> tuple[list[Column], set[str]]:
    """Draft every column from its counted values, and name those of one value only."""
    columns, constant = [], set()
    for name, tally in tallies.items():
        numbers = None if name in declared else tally.numbers(FEW_VALUES + 1)
        if numbers is not None:
            column, seen = _drafted_numbers(name, numbers, rows)
        else:
            values = tally.values()
            refuse_infinite(name, values, tuple(missing_words(values)), by_site)
            column, seen = _drafted(name, values, rows, declared.get(name))
            if len(values.keys() - {"", *column.missing}) <= 1:
                constant.add(name)
        comment = "".join([column.comment, *(f" LOOK: {remark}" for remark in seen)])
        columns.append(replace(column, comment=comment.strip()))
    return columns, constant


def infer_schema(sources: TableSource | Sequence[TableSource]) -> Schema:
    """A first schema for one table, or a list of them, for the user to look through and edit.

    `infer_columns` has the rules of columns. Relations are declared that hold in every row of all
    tables, and a comment says behind "LOOK:" what is odd about the rows of some. Where the tables
    cannot be read by the draft before a person has looked at it, it says so instead.

    Raises:
        DataError: See `infer_columns`.
        SchemaError: If there is no table, or no column carries information.
    """
    if isinstance(sources, str) or not isinstance(sources, Sequence):
        sources = [sources]
    schema = Schema(infer_columns(sources).runnable)
    try:
        tables = [load_table(source, schema) for source in sources]
    except DataError as error:
        comment = (
            "LOOK: rows, and columns that follow from others, were not looked at, since the data "
            f"cannot be read by this draft yet ({error.summary}). `cipherdag site check` does."
        )
        return replace(schema, comment=comment)
    odd = dict.fromkeys(f"LOOK: {each}" for table in tables for each in row_suspicions(table))
    return replace(schema, relations=related_columns(*tables), comment=" ".join(odd))


@contextmanager
def _of_site(site: str) -> Iterator[None]:
    """Names the site in what is wrong with its table."""
    try:
        yield
    except DataError as error:
        error.site = error.site or site or None
        raise


def _drafted(
    name: str, values: Counter[str], rows: int, declared: ColumnType | None
) -> tuple[Column, list[str]]:
    """The column that values stand for, and what looks like a mistake in it."""
    column = guessed(name, values, rows, declared)
    seen = [str(suspicion) for suspicion in column_suspicions(column, values)]
    held = [values[category] for category in column.categories if values[category]]
    if column.kind == "discrete" and min(held, default=0) < _FEWEST_ROWS_TO_SHOW:
        seen.append("Few rows hold some category: see that it names nobody before this leaves.")
    return column, seen


def _drafted_numbers(name: str, numbers: Numbers, rows: int) -> tuple[Column, list[str]]:
    """The drafted column of many different numbers without any text."""
    note = "Some values are missing. " if numbers.gaps else ""
    unique = len(numbers.distinct) == rows
    column = many_numbers(name, (), note, whole=numbers.whole, unique=unique)
    return column, [str(each) for each in suspicious_numbers(numbers.distinct, numbers.counts)]


def _agreed(name: str, first: ColumnType, second: ColumnType) -> ColumnType:
    """The declared type that two tables share: an order where one has it, else the first."""
    if first.ordered and second.ordered and first.values != second.values:
        raise SchemaError(
            "two tables have other ordered categories, or another order of them",
            column=name,
            remedy="Give the column the same ordered categories in every table.",
        )
    return second if second.ordered else first


def _count_table(
    table: RawTable, tallies: dict[str, ColumnTally], hidden: dict[str, UnreadableDataError]
) -> int:
    """Count a table's values by column, and return its number of rows.

    The first cell of a column with an invisible character makes an error, to be raised only where
    the cell would be a category.
    """
    rows = 0
    for chunk in table.chunks:
        for name, cells in zip(table.names, chunk, strict=True):
            tallies[name].add(cells)
            if isinstance(cells, TextCells):
                _note_hidden(table, name, cells, rows, hidden)
        rows += len(chunk[0])
    check_row_count(rows, file=table.file, site=None)
    return rows


def _note_hidden(
    table: RawTable,
    name: str,
    cells: TextCells,
    first: int,
    hidden: dict[str, UnreadableDataError],
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


def _refuse_hidden(
    hidden: Mapping[str, UnreadableDataError], tallies: Mapping[str, ColumnTally], rows: int
) -> None:
    for name, error in hidden.items():
        values = tallies[name].values()
        if any(map(hidden_character, values)) and not is_free_text(values, rows):
            raise error


def _check_same_columns(table: RawTable, names: tuple[str, ...], rows: int, *, first: str) -> None:
    one = f"site '{first}'" if first else "another of the files"
    for error, verb, there, here in (
        (MissingColumnError, "has", names, table.names),
        (ExtraColumnError, "lacks", table.names, names),
    ):
        for name in there:
            if name not in here:
                said = f"{one} {verb} this column"
                raise error(said, file=table.file, column=name, rows=rows, remedy=UNMEASURED)
