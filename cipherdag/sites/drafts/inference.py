"""A first schema from data, for the user to look through; nothing else ever guesses a type."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cipherdag.errors import (
    DataError,
    ExtraColumnError,
    MissingColumnError,
    SchemaError,
    UnreadableDataError,
)
from cipherdag.sites.drafts.guessing import (
    FEW_VALUES,
    as_written,
    guessed,
    is_free_text,
    many_numbers,
    missing_words,
    refuse_infinite,
    with_missing,
)
from cipherdag.sites.drafts.related_columns import related_columns
from cipherdag.sites.drafts.repeated_keys import key_suspicions, possible_keys
from cipherdag.sites.drafts.suspicions import column_suspicions, suspicious_numbers
from cipherdag.sites.drafts.table_suspicions import row_suspicions
from cipherdag.sites.drafts.tally import (
    ColumnTally,
    Held,
    Numbers,
    held_by,
    without_constant,
    without_lacked,
)
from cipherdag.sites.table.cells import ColumnType, RawTable, TextCells
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.file_description import DescribedFile, FileDescription
from cipherdag.sites.table.names import hidden_character, is_plain_number, normalise_value
from cipherdag.sites.table.reading import TableSource, check_row_count, open_table
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import UNMEASURED, SiteTable, load_table

_FEWEST_ROWS_TO_SHOW = 5
_WRITTEN = "At a real site copy its table as [source] into site.toml."


@dataclass(frozen=True, slots=True)
class Draft:
    """Columns guessed from the values of all tables together, and what is to know of these.

    ``constant`` ones hold one value or none. A run over these very tables does not stop at one that
    is ``runnable``. ``few`` are the numbers, ascending, of continuous columns with at most 12
    different ones; ``lacked`` the tables, from 1, that lack a column; ``written`` how files are
    written that nobody described, by name.
    """

    columns: tuple[Column, ...]
    constant: frozenset[str]
    runnable: tuple[Column, ...] = field(compare=False)
    few: Mapping[str, tuple[str, ...]] = field(compare=False, default_factory=dict)
    lacked: Mapping[str, tuple[int, ...]] = field(compare=False, default_factory=dict)
    written: Mapping[str, FileDescription] = field(compare=False, default_factory=dict)


Sources = Sequence[TableSource] | Mapping[str, TableSource]


def infer_columns(sources: Sources, *, overlapping: bool = False, patient: str = "") -> Draft:
    """Guess the columns of one or several tables that have the same, and say why in comments.

    The rules, for the values of all tables together:

    - no value, or one value only: ignored, since it carries no information; where that holds of
      some tables only, see `without_constant`;
    - numbers, apart from "NA", "N/A", "#N/A", "NaN", "null", "none", "?" and "." in any case,
      which are then declared as missing: discrete where they are at most 12 different whole
      numbers, otherwise continuous; "007" is a code, hence text;
    - text: what such a column of numbers takes as missing is missing there, too, unless it leaves
      one category only or is "none";
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

    Tables may have different columns where they are ``overlapping``, and any may lack ``patient``.

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
    written: dict[str, FileDescription] = {}
    for number, (site, given) in enumerate(by_site, start=1):
        with _of_site(site):
            source, counted = as_written(given, _counted, lambda each: each.tallies.values())
            if tallies and not overlapping:
                _check_same_columns(counted, tallies, first=by_site[0][0], but=patient)
        by_site[number - 1] = site, source
        if isinstance(source, DescribedFile) and given is not source:
            _note_written(source, written)
        for name, tally in counted.tallies.items():
            tallies.setdefault(name, ColumnTally()).join(tally)
            held.setdefault(name, []).append(held_by(tally, number))
        rows += counted.rows
        for name, error in counted.hidden.items():
            error.site = error.site or site or None
            hidden.setdefault(name, error)
        for name, kind in counted.types.items():
            declared[name] = _agreed(name, declared.get(name, kind), kind)
    _refuse_hidden(hidden, tallies, rows)
    columns, constant = _columns(tallies, declared, rows, by_site)
    runnable = (without_constant(column, held[column.name]) for column in columns)
    few = {column.name: _few_numbers(column, tallies[column.name]) for column in columns}
    few = {name: numbers for name, numbers in few.items() if numbers}
    every = frozenset(range(1, len(by_site) + 1))
    lacking = {name: every - {each.number for each in tables} for name, tables in held.items()}
    lacked = {name: tuple(sorted(numbers)) for name, numbers in lacking.items() if numbers}
    return Draft(tuple(columns), frozenset(constant), tuple(runnable), few, lacked, written)


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
    columns, values_of, constant = [], {}, set()
    for name, tally in tallies.items():
        numbers = None if name in declared else tally.numbers(FEW_VALUES + 1)
        if numbers is not None:
            columns.append(_drafted_numbers(name, numbers, rows))
            continue
        values = values_of[name] = tally.values()
        refuse_infinite(name, values, tuple(missing_words(values)), by_site)
        columns.append(guessed(name, values, rows, declared.get(name)))
    words = frozenset(word for column in columns for word in column.missing)
    for position, column in enumerate(columns):
        if (counted := values_of.get(column.name)) is None:
            continue
        marked = with_missing(column, words)
        if len(counted.keys() - {"", *marked.missing}) <= 1:
            constant.add(column.name)
        seen = "".join(f" LOOK: {remark}" for remark in _looked_at(marked, counted))
        columns[position] = replace(marked, comment=f"{marked.comment}{seen}".strip())
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
    draft = infer_columns(sources, overlapping=True)
    called = [_called(source, number) for number, source in enumerate(sources, start=1)]
    columns = (without_lacked(column, draft.lacked, called) for column in draft.runnable)
    schema = Schema(tuple(columns), sources=draft.written)
    looks = [f"LOOK: is each file written as [sources] says? {_WRITTEN}"] if draft.written else []
    try:
        tables = [load_table(source, schema) for source in sources]
    except DataError as error:
        comment = (
            "LOOK: rows, and columns that follow from others, were not looked at, since the data "
            f"cannot be read by this draft yet ({error.summary}). `cipherdag site check` does."
        )
        return replace(schema, comment=" ".join([*looks, comment]))
    rows = (f"LOOK: {each}" for table in tables for each in row_suspicions(table))
    odd = dict.fromkeys([*looks, *rows])
    schema = _with_keys(schema, sources, tables)
    return replace(schema, relations=related_columns(*tables), comment=" ".join(odd))


def _with_keys(
    schema: Schema, sources: Sequence[TableSource], tables: Sequence[SiteTable]
) -> Schema:
    """The draft with the question whether a column says whose visit a row is."""
    said: dict[str, str] = {}
    for source, table in zip(sources, tables, strict=True):
        said |= {
            name: str(each) for name, each in key_suspicions(source, table, possible_keys(schema))
        }
    columns = (
        replace(column, comment=f"{column.comment} LOOK: {said[column.name]}".strip())
        if column.name in said
        else column
        for column in schema.columns
    )
    return replace(schema, columns=tuple(columns))


def _called(source: TableSource, number: int) -> str:
    """What a draft calls a table: a file by its name."""
    path = source.path if isinstance(source, DescribedFile) else source
    return Path(path).name if isinstance(path, str | os.PathLike) else f"table {number}"


@contextmanager
def _of_site(site: str) -> Iterator[None]:
    """Names the site in what is wrong with its table."""
    try:
        yield
    except DataError as error:
        error.site = error.site or site or None
        raise


def _looked_at(column: Column, values: Counter[str]) -> Iterator[str]:
    """What looks like a mistake in a column, from how often each value occurs in it."""
    yield from map(str, column_suspicions(column, values))
    held = [values[category] for category in column.categories if values[category]]
    if column.kind == "discrete" and min(held, default=0) < _FEWEST_ROWS_TO_SHOW:
        yield "Few rows hold some category: see that it names nobody before this leaves."


def _drafted_numbers(name: str, numbers: Numbers, rows: int) -> Column:
    """The drafted column of many different numbers without any text."""
    note = "Some values are missing. " if numbers.gaps else ""
    unique = len(numbers.distinct) == rows
    column = many_numbers(name, (), note, whole=numbers.whole, unique=unique)
    seen = suspicious_numbers(numbers.distinct, numbers.counts)
    looks = "".join(f" LOOK: {each}" for each in seen)
    return replace(column, comment=f"{column.comment}{looks}".strip())


def _agreed(name: str, first: ColumnType, second: ColumnType) -> ColumnType:
    """The declared type that two tables share: an order where one has it, else the first."""
    if first.ordered and second.ordered and first.values != second.values:
        raise SchemaError(
            "two tables have other ordered categories, or another order of them",
            column=name,
            remedy="Give the column the same ordered categories in every table.",
        )
    return second if second.ordered else first


@dataclass(slots=True, repr=False)
class _Counted:
    """A table's values by column, what a database declares of these, and hidden characters.

    The first cell with one makes an error, raised only where the cell would be a category.
    """

    file: str
    tallies: dict[str, ColumnTally]
    types: dict[str, ColumnType]
    hidden: dict[str, UnreadableDataError] = field(default_factory=dict)
    rows: int = 0


def _counted(source: TableSource) -> _Counted:
    """Count a table's values by column."""
    with open_table(source) as table:
        kinds = zip(table.names, table.types, strict=bool(table.types))
        counted = _Counted(
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


def _note_written(file: DescribedFile, written: dict[str, FileDescription]) -> None:
    """Remember how a file is written, by its name."""
    name = file.path.name
    if written.setdefault(name, file.description) != file.description:
        raise UnreadableDataError(
            f"two files are called {name}, and are written in different ways",
            file=str(file.path),
            remedy="Give them different names.",
        )


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


def _refuse_hidden(
    hidden: Mapping[str, UnreadableDataError], tallies: Mapping[str, ColumnTally], rows: int
) -> None:
    for name, error in hidden.items():
        values = tallies[name].values()
        if any(map(hidden_character, values)) and not is_free_text(values, rows):
            raise error


def _check_same_columns(
    counted: _Counted, tallies: Mapping[str, ColumnTally], *, first: str, but: str
) -> None:
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
