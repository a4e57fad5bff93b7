"""A first schema from data, for the user to look through; nothing else ever guesses a type."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cipherdag.errors import DataError, SchemaError, UnreadableDataError
from cipherdag.sites.drafts.counting import (
    Counted,
    check_same_columns,
    count_table,
    refuse_hidden,
)
from cipherdag.sites.drafts.documents.declarations import NOTHING, Declaration
from cipherdag.sites.drafts.event_times import time_questions
from cipherdag.sites.drafts.guessing import (
    FEW_VALUES,
    as_written,
    guessed,
    many_numbers,
    missing_words,
    refuse_infinite,
    with_missing,
)
from cipherdag.sites.drafts.identifiers import WholeNumbers, without_identifier
from cipherdag.sites.drafts.patients_of import by_patients
from cipherdag.sites.drafts.related_columns import related_columns
from cipherdag.sites.drafts.repeated_keys import key_question, possible_keys
from cipherdag.sites.drafts.suspicions import with_looks
from cipherdag.sites.drafts.table_suspicions import (
    COPIES,
    readable_tables,
    row_suspicions,
    same_rows,
)
from cipherdag.sites.drafts.tally import (
    ColumnTally,
    Held,
    Numbers,
    Values,
    held_by,
    without_constant,
    without_lacked,
)
from cipherdag.sites.drafts.withholding import (
    FEWEST_ROWS,
    refuse_documents,
    refuse_values_as_names,
    shareable,
)
from cipherdag.sites.table.cells import ColumnType
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.file_description import DescribedFile, FileDescription
from cipherdag.sites.table.names import is_plain_number
from cipherdag.sites.table.reading import TableSource
from cipherdag.sites.table.schema import Schema

_WRITTEN = "At a real site copy its table as [source] into site.toml."


@dataclass(frozen=True, slots=True)
class Draft:
    """Columns guessed from the values of all tables together, and what is to know of these.

    ``constant`` ones hold one value or none. A run over these very tables does not stop at one that
    is ``runnable``; the ``shared`` hold no value of few rows. ``few`` are the numbers, ascending,
    of continuous columns with at most 12 different ones; ``lacked`` the tables, from 1, that lack a
    column; ``written`` how files are written that nobody described, by name; ``values`` how many
    rows hold each value of a column, or patients where these may be too few.
    """

    columns: tuple[Column, ...]
    constant: frozenset[str]
    runnable: tuple[Column, ...] = field(compare=False)
    shared: tuple[Column, ...] = field(compare=False)
    few: Mapping[str, tuple[str, ...]] = field(compare=False, default_factory=dict)
    lacked: Mapping[str, tuple[int, ...]] = field(compare=False, default_factory=dict)
    written: Mapping[str, FileDescription] = field(compare=False, default_factory=dict)
    values: Mapping[str, Values] = field(compare=False, default_factory=dict, repr=False)


Sources = Sequence[TableSource] | Mapping[str, TableSource]


def infer_columns(
    sources: Sources,
    *,
    overlapping: bool = False,
    patient: str = "",
    fewest: int = 0,
    declared: Declaration = NOTHING,
) -> Draft:
    """Guess the columns of one or several tables that have the same, and say why in comments.

    The rules, for the values of all tables together:

    - no value, or one value only: ignored, since it carries no information; where that holds of
      some tables only, see `without_constant`;
    - numbers, apart from "NA", "N/A", "#N/A", "NaN", "null", "none", "?" and "." in any case,
      which are then declared as missing: discrete where they are at most 12 different whole
      numbers, otherwise continuous; "007" is a code, hence text;
    - text: what such a column of numbers takes as missing is missing there, too, unless it leaves
      one category only or is "none";
    - whole numbers that seem to identify rows: ignored; see `identifiers`;
    - numbers with a few words among them, or written in another notation: continuous, so that
      reading them names the first such cell;
    - text: discrete, unless it has more than 100 different values, or more than 12 that hold fewer
      than 10 rows each on average: that looks like an identifier or free text, is ignored, and
      none of its values is written.

    Categories are sorted: whole numbers by size, words for false before those for true, as an event
    is the second of two, and texts by code point. Numbers one of which is infinite are refused.

    Where a database declares a column's type, that decides instead: numbers are continuous, truth
    values and enumerations discrete with all their values, text as above; dates, bytes and
    documents are ignored. An ordered categorical column of a DataFrame or Parquet file is discrete
    and ordered, with all its categories; nothing else is taken as ordered.

    What looks like a mistake stands in the comments behind "LOOK:"; see `suspicions`.
    Tables may differ in columns if ``overlapping``, and any may lack ``patient``. No ``shared`` one
    has rarer categories than ``fewest`` rows; see `withholding`. A column that is ``declared`` is
    so, with all categories of its document; see `declarations`.

    Raises:
        DataError: The leaf that names what is wrong with a table.
        SchemaError: If tables put the categories of an ordered column in different orders or have
            values besides them.
    """
    by_site = [*sources.items()] if isinstance(sources, Mapping) else [("", s) for s in sources]
    data = _gathered(by_site, declared, patient, fewest, overlapping=overlapping)
    stated = declared.of(data.tallies)
    hidden = {name: error for name, error in data.hidden.items() if name not in stated}
    refuse_hidden(hidden, data.tallies, data.rows)
    guesses, held = _guesses(data, by_site, stated), data.held
    columns = [with_looks(column, values, 0) for column, values in guesses]
    runnable = tuple(without_constant(column, held[column.name]) for column in columns)
    patients = by_patients([source for _, source in by_site], runnable, data.tallies, fewest)
    guesses = [(column, patients.get(column.name, values)) for column, values in guesses]
    few = {each.name: _few_numbers(each, data.tallies[each.name]) for each in columns}
    every = {*range(1, len(by_site) + 1)}
    lacking = {name: every - {each.number for each in tables} for name, tables in held.items()}
    return Draft(
        tuple(columns),
        frozenset(column.name for column, values in guesses if _is_constant(column, values)),
        runnable,
        tuple(
            without_constant(_shareable(*each, fewest, stated), held[each[0].name])
            for each in guesses
        ),
        {name: numbers for name, numbers in few.items() if numbers},
        {name: tuple(sorted(numbers)) for name, numbers in lacking.items() if numbers},
        data.written,
        {column.name: values for column, values in guesses},
    )


@dataclass(slots=True, repr=False)
class _Gathered:
    """The values of all tables together, by column, and what is to know of these."""

    tallies: dict[str, ColumnTally] = field(default_factory=dict)
    declared: dict[str, ColumnType] = field(default_factory=dict)
    hidden: dict[str, UnreadableDataError] = field(default_factory=dict)
    held: dict[str, list[Held]] = field(default_factory=dict)
    whole: dict[str, list[WholeNumbers | None]] = field(default_factory=dict)
    written: dict[str, FileDescription] = field(default_factory=dict)
    rows: int = 0

    def add(self, counted: Counted, number: int, site: str) -> None:
        """Join the values of a table, the ``number``-th."""
        for name, tally in counted.tallies.items():
            self.whole.setdefault(name, []).append(WholeNumbers.of(tally))
            self.tallies.setdefault(name, ColumnTally()).join(tally)
            self.held.setdefault(name, []).append(held_by(tally, number))
        self.rows += counted.rows
        for name, error in counted.hidden.items():
            error.site = error.site or site or None
            self.hidden.setdefault(name, error)
        for name, kind in counted.types.items():
            self.declared[name] = _agreed(name, self.declared.get(name, kind), kind)


def _gathered(
    by_site: list[tuple[str, TableSource]],
    declared: Declaration,
    patient: str,
    fewest: int,
    *,
    overlapping: bool,
) -> _Gathered:
    """All tables counted; those of ``by_site`` that nobody described are described in it."""
    data = _Gathered()
    for number, (site, given) in enumerate(by_site, start=1):
        with _of_site(site):
            source, counted = as_written(given, count_table, lambda each: each.tallies.values())
            if fewest and isinstance(source, (str, os.PathLike, DescribedFile)):
                refuse_values_as_names(counted.tallies, counted.file)
            refuse_documents(counted.tallies, counted.file)
            declared.check_source(counted.types, counted.file)
            if data.tallies and not overlapping:
                check_same_columns(counted, data.tallies, first=by_site[0][0], optional=patient)
        by_site[number - 1] = site, source
        if isinstance(source, DescribedFile) and given is not source:
            _note_written(source, data.written)
        data.add(counted, number, site)
    return data


def _few_numbers(column: Column, tally: ColumnTally) -> tuple[str, ...]:
    """The numbers of a continuous column, ascending, where at most 12 differ; else empty."""
    if column.kind != "continuous":
        return ()
    texts = tally.few_values(FEW_VALUES + 1 + len(column.missing)) or frozenset()
    numbers = texts - {"", *column.missing}
    few = len(numbers) <= FEW_VALUES and all(map(is_plain_number, numbers))
    return tuple(sorted(numbers, key=float)) if few else ()


def _guesses(
    data: _Gathered, by_site: Sequence[tuple[str, TableSource]], stated: Mapping[str, Column]
) -> list[tuple[Column, Values]]:
    """Every column as it is stated, or as its counted values stand for it, with these."""
    declared = data.declared
    guesses: list[tuple[Column, Values]] = []
    for name, tally in data.tallies.items():
        numbers = None if name in declared else tally.numbers(FEW_VALUES + 1)
        if name in stated:
            guesses.append((stated[name], tally.values() if numbers is None else numbers))
            continue
        if numbers is not None:
            note = "Some values are missing. " if numbers.gaps else ""
            guesses.append((many_numbers(name, (), note, whole=numbers.whole), numbers))
            continue
        values = tally.values()
        refuse_infinite(name, values, tuple(missing_words(values)), by_site)
        guesses.append((guessed(name, values, data.rows, declared.get(name)), values))
    guesses = [
        (each if each.name in stated else without_identifier(each, data.whole[each.name]), values)
        for each, values in guesses
    ]
    others = [column for column, _ in guesses if column.name not in stated]
    words = frozenset(word for column in others for word in column.missing)
    return [
        (column, values)
        if isinstance(values, Numbers) or column.name in stated
        else (with_missing(column, words), values)
        for column, values in guesses
    ]


def _is_constant(column: Column, values: Values) -> bool:
    return not isinstance(values, Numbers) and len(values.keys() - {"", *column.missing}) <= 1


def _shareable(column: Column, values: Values, fewest: int, stated: Collection[str]) -> Column:
    """The column for a draft that leaves, with what looks like a mistake in it."""
    if column.name in stated and column.kind == "ignore":
        return column
    if fewest and column.name not in stated and not isinstance(values, Numbers):
        column = shareable(column, values, fewest)
    return with_looks(column, values, fewest)


def infer_schema(
    sources: TableSource | Sequence[TableSource],
    *,
    min_cell_size: int = FEWEST_ROWS,
    declared: Declaration = NOTHING,
) -> Schema:
    """A first schema for one table, or a list of them, for the user to look through and edit.

    `infer_columns` has the rules of columns. It holds no category of less than ``min_cell_size``
    rows, no date, identifier or free text, and takes a category such as "unknown" for missing; 0
    does not, for a draft that stays. Relations are declared that hold in every row of all
    tables, and a comment says behind "LOOK:" what is odd about the rows of some. Where the tables
    cannot be read by the draft before a person has looked at it, it says so instead. What documents
    declared of columns is taken as it stands; with these no table is needed.

    Raises:
        DataError: See `infer_columns`; or the first row holds values in place of names.
        SchemaError: If there is no table, or no column carries information.
    """
    if isinstance(sources, str) or not isinstance(sources, Sequence):
        sources = [sources]
    if declared and not sources:
        return declared.schema()
    draft = infer_columns(sources, overlapping=True, fewest=min_cell_size, declared=declared)
    called = [_called(source, number) for number, source in enumerate(sources, start=1)]
    runnable, shared = (
        tuple(without_lacked(column, draft.lacked, called) for column in columns)
        for columns in (draft.runnable, draft.shared)
    )
    takes_part, left = (
        {column.kind for column in each} - {"ignore"} for each in (runnable, shared)
    )
    if takes_part and not left:
        raise SchemaError(
            f"no column has numbers, or a category that {min_cell_size} rows hold",
            remedy="Draft from more rows. Or give --min-cell-size 0, in Python min_cell_size=0, "
            "for a draft that stays with you.",
        )
    drafted = declared.completed(Schema(shared, sources=draft.written))
    made = declared.completed(looked_through(drafted, runnable, sources))
    said = (declared.comment, declared.absent({*draft.values}), made.comment)
    return replace(made, comment=" ".join(filter(None, said)))


def looked_through(
    schema: Schema, runnable: Sequence[Column], sources: Sequence[TableSource]
) -> Schema:
    """The draft with relations between its columns, questions, and what is odd about rows.

    Args:
        schema: The draft.
        runnable: Its columns as all values of the tables can be read by them.
        sources: The tables.
    """
    looks = [f"LOOK: is each file written as [sources] says? {_WRITTEN}"] if schema.sources else []
    schema = _asking(schema, time_questions(schema.columns))
    tables, unread, error = readable_tables(schema, runnable, sources)
    if error is not None:
        looks.append(
            "LOOK: rows, and columns that follow from others, were not looked at, since the data "
            f"cannot be read by this draft yet ({error.summary}). `cipherdag site check` does."
        )
        return replace(schema, comment=" ".join(looks))
    if unread:
        looks.append(
            f"LOOK: rows were looked at without {' and '.join(map(repr, unread))}, since not all "
            "of their cells are numbers yet."
        )
    called = [_called(source, number) for number, source in enumerate(sources, start=1)]
    rows = [each for table in tables for each in row_suspicions(table)]
    rows = [each for each in rows if not unread or each.kind != COPIES]  # a number may differ
    rows += same_rows([*zip(called, tables, strict=True)])
    odd = dict.fromkeys([*looks, *(f"LOOK: {each}" for each in rows)])
    keys = (
        key_question(source, table, possible_keys(schema))
        for source, table in zip(sources, tables, strict=True)
    )
    schema = _asking(schema, {names[0]: str(question) for names, question in filter(None, keys)})
    return replace(schema, relations=related_columns(*tables), comment=" ".join(odd))


def _asking(schema: Schema, said: Mapping[str, str]) -> Schema:
    """The draft with a question to some of its columns."""
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


def _agreed(name: str, first: ColumnType, second: ColumnType) -> ColumnType:
    """The declared type that two tables share: an order where one has it, else the first."""
    if first.ordered and second.ordered and first.values != second.values:
        raise SchemaError(
            "two tables have other ordered categories, or another order of them",
            column=name,
            remedy="Give the column the same ordered categories in every table.",
        )
    return second if second.ordered else first


def _note_written(file: DescribedFile, written: dict[str, FileDescription]) -> None:
    """Remember how a file is written, by its name."""
    name = file.path.name
    if written.setdefault(name, file.description) != file.description:
        raise UnreadableDataError(
            f"two files are called {name}, and are written in different ways",
            file=str(file.path),
            remedy="Give them different names.",
        )
