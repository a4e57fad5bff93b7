"""A first schema from data, for the user to look through; nothing else ever guesses a type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from cipherdag.errors import (
    DataError,
    ExtraColumnError,
    MissingColumnError,
    SchemaError,
    UnreadableDataError,
)
from cipherdag.sites.drafts.constant_columns import Held, held_by, without_constant
from cipherdag.sites.drafts.guessing import (
    FEW_VALUES,
    guessed,
    is_free_text,
    many_numbers,
    missing_words,
)
from cipherdag.sites.drafts.infinite_cells import refuse_infinite
from cipherdag.sites.drafts.suspicions import (
    Suspicion,
    suspicious_categories,
    suspicious_dates,
    suspicious_numbers,
)
from cipherdag.sites.drafts.tally import ColumnTally, Numbers
from cipherdag.sites.table.cells import ColumnType, RawTable, TextCells
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.column_reader import is_other_number, stands_for_missing
from cipherdag.sites.table.names import (
    hidden_character,
    is_plain_number,
    normalise_value,
)
from cipherdag.sites.table.reading import TableSource, check_row_count, open_table
from cipherdag.sites.table.site_table import UNMEASURED

_FEWEST_ROWS_TO_SHOW = 5


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed columns.

    Attributes:
        columns: From the values of all tables together.
        constant: Which of them hold one value only or none.
        runnable: The same columns, so that a run over these very tables stops at none that is
            constant in some of them.
    """

    columns: tuple[Column, ...]
    constant: frozenset[str]
    runnable: tuple[Column, ...] = field(compare=False)


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
    by_site = [*sources.items()] if isinstance(sources, Mapping) else [("", own) for own in sources]
    for number, (site, source) in enumerate(by_site, start=1):
        with _of_site(site), open_table(source) as table:
            known = () if overlapping else tuple(tallies)
            own = {name: ColumnTally() for name in table.names}
            read = _count_table(table, own, hidden)
            for name, tally in own.items():
                tallies.setdefault(name, ColumnTally()).join(tally)
                held.setdefault(name, []).append(held_by(tally, number))
            if known:
                _check_same_columns(table, known, read, first=by_site[0][0])
            rows += read
            for error in hidden.values():
                error.site = error.site or site or None
            for name, kind in zip(table.names, table.types, strict=bool(table.types)):
                if kind is not None:
                    declared[name] = _agreed(name, declared.get(name, kind), kind)
    _refuse_hidden(hidden, tallies, rows)
    columns, constant = [], set()
    for name, tally in tallies.items():
        numbers = None if name in declared else tally.numbers(FEW_VALUES + 1)
        if numbers is not None:
            columns.append(_of_numbers(name, numbers, rows))
            continue
        values = tally.values()
        refuse_infinite(name, values, tuple(missing_words(values)), by_site)
        column = _looked_at(name, values, rows, declared.get(name))
        columns.append(column)
        if len(values.keys() - {"", *column.missing}) <= 1:
            constant.add(name)
    runnable = (without_constant(own, held[own.name]) for own in columns)
    return Draft(tuple(columns), frozenset(constant), tuple(runnable))


@contextmanager
def _of_site(site: str) -> Iterator[None]:
    """Names the site in what is wrong with its table."""
    try:
        yield
    except DataError as error:
        error.site = error.site or site or None
        raise


def _of_numbers(name: str, numbers: Numbers, rows: int) -> Column:
    """As `_looked_at`, of many different numbers that no text stands among."""
    note = "Some values are missing. " if numbers.gaps else ""
    unique = len(numbers.distinct) == rows
    column = many_numbers(name, (), note, whole=numbers.whole, unique=unique)
    return _noted(column, map(str, suspicious_numbers(numbers.distinct, numbers.counts)))


def _looked_at(name: str, values: Counter[str], rows: int, declared: ColumnType | None) -> Column:
    """The guess, with what looks like a mistake in its comment."""
    column = guessed(name, values, rows, declared)
    seen = [str(own) for own in _suspicions(column, values)]
    held = [values[own] for own in column.categories if values[own]]
    if column.kind == "discrete" and min(held, default=0) < _FEWEST_ROWS_TO_SHOW:
        seen.append("Few rows hold some category: see that it names nobody before this leaves.")
    return _noted(column, seen)


def _noted(column: Column, seen: Iterable[str]) -> Column:
    said = "".join(f" LOOK: {own}" for own in seen)
    return replace(column, comment=f"{column.comment}{said}".strip())


def _suspicions(column: Column, values: Counter[str]) -> list[Suspicion]:
    texts = [value for value in values if value and value not in column.missing]
    if column.kind == "ignore":
        return suspicious_dates(texts) if len(texts) > 1 else []
    plain = dict.fromkeys(text for text in texts if is_plain_number(text))
    numbers = {float(text): values[text] for text in plain}
    distinct = np.array(sorted(numbers))
    counts = np.array([numbers[value] for value in sorted(numbers)], dtype=np.int64)
    odd = [text for text in texts if text not in plain]
    found = suspicious_numbers(distinct, counts)
    if column.kind == "continuous" and odd:
        found.append(_odd_cells(odd))
    if column.kind == "discrete":
        found += suspicious_categories(column.categories) + suspicious_dates(texts)
        padded = [text for text in odd if (text.lstrip("0") or "0") in plain]
        found += [_padded(padded)] if padded else []
        others = [text for text in odd if not (text in padded or stands_for_missing(text))]
        found += [_odd_cells(others)] * (0 < len(others) < len(numbers))
    return found


def _padded(texts: Sequence[str]) -> Suspicion:
    """Numbers with zeros before them, which are other categories than the same without."""
    pairs = ", ".join(f'"{text.lstrip("0") or "0"}" = ["{text}"]' for text in sorted(texts))
    return Suspicion(
        "numbers with and without leading zeros",
        f"'{min(texts)}' and '{min(texts).lstrip('0') or '0'}' are two categories here.",
        f"If they mean the same, keep one of them and write synonyms = {{ {pairs} }}.",
    )


def _odd_cells(odd: Sequence[str]) -> Suspicion:
    """Cells that are no numbers, among numbers; a word that may name somebody is not written."""
    known = sorted(text for text in odd if stands_for_missing(text))
    named = f", such as '{known[0]}'" if known else ""
    marks = ", ".join(f'"{own}"' for own in known)
    notation = all(map(is_other_number, odd))
    what = "numbers in another notation" if notation else "words"
    remedy = f"If they mean a missing value, write missing = [{marks or '...'}]; or correct them."
    return Suspicion(
        f"{what} among numbers",
        f"Some rows hold {what} among numbers{named}.",
        "Declare decimal and thousands under [source]." if notation else remedy,
    )


def _agreed(name: str, first: ColumnType, second: ColumnType) -> ColumnType:
    """What two tables declare of a column: an order where one has it, otherwise the first."""
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
    own = [tallies[name] for name in table.names]
    rows = 0
    for chunk in table.chunks:
        for name, tally, cells in zip(table.names, own, chunk, strict=True):
            tally.add(cells)
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
        place = table.place(first + row)
        hidden[name] = UnreadableDataError(
            f"the cell in {place} has the invisible character {mark}",
            file=table.file,
            column=name,
            place=place,
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
    for name in names:
        if name not in table.names:
            raise MissingColumnError(
                f"{one} has this column",
                file=table.file,
                column=name,
                rows=rows,
                remedy=UNMEASURED,
            )
    for name in table.names:
        if name not in names:
            raise ExtraColumnError(
                f"{one} lacks this column",
                file=table.file,
                column=name,
                rows=rows,
                remedy=UNMEASURED,
            )
