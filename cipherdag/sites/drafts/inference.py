"""A first schema from data, for the user to look through; nothing else ever guesses a type."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import (
    DataError,
    ExtraColumnError,
    MissingColumnError,
    SchemaError,
    UnreadableDataError,
)
from cipherdag.sites.drafts.infinite_cells import refuse_infinite
from cipherdag.sites.drafts.suspicions import (
    Suspicion,
    suspicious_categories,
    suspicious_dates,
    suspicious_numbers,
)
from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.cells import TextCells
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.column_reader import is_other_number, stands_for_missing
from cipherdag.sites.table.names import (
    hidden_character,
    is_integer_text,
    is_plain_number,
    normalise_value,
)
from cipherdag.sites.table.reading import check_row_count, open_table
from cipherdag.sites.table.site_table import UNMEASURED

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from cipherdag.sites.drafts.tally import Numbers
    from cipherdag.sites.table.cells import ColumnType, RawTable
    from cipherdag.sites.table.reading import TableSource

_FEW_VALUES = 12
_MOST_TEXTS = 100
_FEWEST_ROWS_PER_TEXT = 10
_IDENTIFIER = ' No two rows agree: if this is an identifier, set kind = "ignore".'
_FEWEST_ROWS_TO_SHOW = 5
_MOSTLY = 0.8
_MISSING_WORDS = frozenset({"na", "n/a", "#n/a", "nan", "null", "none", "?", "."})


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed columns, and which of them hold one value only or none."""

    columns: tuple[Column, ...]
    constant: frozenset[str]


def infer_columns(
    sources: Sequence[TableSource] | Mapping[str, TableSource], *, overlapping: bool = False
) -> Draft:
    """Guess the columns of one or several tables that have the same, and say why in comments.

    The rules, for the values of all tables together:

    - no value, or one value only: ignored, since it carries no information;
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
    rows = 0
    by_site = [*sources.items()] if isinstance(sources, Mapping) else [("", own) for own in sources]
    for site, source in by_site:
        with _of_site(site), open_table(source) as table:
            known = () if overlapping else tuple(tallies)
            read = _count_table(table, tallies, hidden)
            if known:
                _check_same_columns(table, known, read, first=by_site[0][0])
            rows += read
            for error in hidden.values():
                error.site = error.site or site or None
            for name, own in zip(table.names, table.types, strict=bool(table.types)):
                if own is not None:
                    declared[name] = _agreed(name, declared.get(name, own), own)
    _refuse_hidden(hidden, tallies, rows)
    columns, constant = [], set()
    for name, tally in tallies.items():
        numbers = None if name in declared else tally.numbers(_FEW_VALUES + 1)
        if numbers is not None:
            columns.append(_of_numbers(name, numbers, rows))
            continue
        values = tally.values()
        refuse_infinite(name, values, tuple(_words(values)), by_site)
        columns.append(_looked_at(name, values, rows, declared.get(name)))
        if len(values.keys() - {""}) <= 1:
            constant.add(name)
    return Draft(tuple(columns), frozenset(constant))


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
    column = _many_numbers(name, (), note, whole=numbers.whole, unique=unique)
    return _noted(column, map(str, suspicious_numbers(numbers.distinct, numbers.counts)))


def _looked_at(name: str, values: Counter[str], rows: int, declared: ColumnType | None) -> Column:
    """The guess, with what looks like a mistake in its comment."""
    column = _guess(name, values, rows, declared)
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
        others = [text for text in odd if not stands_for_missing(text)]
        found += [_odd_cells(others)] * (0 < len(others) < len(numbers))
    return found


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
    own = [tallies.setdefault(name, ColumnTally()) for name in table.names]
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
        if any(map(hidden_character, values)) and not _is_free_text(values, rows):
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


def _guess(name: str, counter: Counter[str], rows: int, declared: ColumnType | None) -> Column:
    values = counter.copy()
    gap = "Some values are missing. " if values.pop("", 0) else ""
    words = _words(values)
    others = [value for value in values if value not in words]
    if len(values) <= 1:
        held = "one value only" if values else "no value"
        note = f"{gap}Ignored: the column holds {held}, which carries no information."
        return Column(name, "ignore", comment=note)
    if declared is not None and (declared.kind != "number" or all(map(is_plain_number, values))):
        return _guess_declared(name, declared, sorted(values), gap, rows)
    if others and all(map(is_plain_number, others)):
        marked = f"{_listed(words)} is taken as missing. " if words else ""
        return _guess_numbers(name, others, tuple(words), gap + marked, unique=len(others) == rows)
    if _mostly_numbers(values, others):
        return Column(name, "continuous", missing=tuple(words), comment=f"{gap}Numbers.")
    return _guess_texts(name, sorted(values), gap, rows)


def _words(values: Iterable[str]) -> list[str]:
    return sorted(value for value in values if value.lower() in _MISSING_WORDS)


def _mostly_numbers(values: Counter[str], others: Sequence[str]) -> bool:
    """Whether many different numbers, of whatever notation, leave little room for other cells."""
    numbers = [own for own in others if is_plain_number(own) or is_other_number(own)]
    rows = sum(values[own] for own in others)
    told = sum(values[own] for own in numbers)
    return len(numbers) > _FEW_VALUES and told >= _MOSTLY * rows


def _guess_declared(
    name: str, declared: ColumnType, values: list[str], note: str, rows: int
) -> Column:
    """The column that a database's own type stands for; ``values`` has at least two."""
    if declared.ordered:
        return _in_order(name, declared, values, note)
    note = f"{note}{declared.name} in the database."
    if declared.kind == "number":
        if len(values) <= _FEW_VALUES and all(map(is_integer_text, values)):
            codes = ", ".join(f'"{value}"' for value in sorted(values, key=int))
            note += f' If it holds codes, set kind = "discrete" and categories = [{codes}].'
        elif len(values) == rows and all(map(is_integer_text, values)):
            note += _IDENTIFIER
        return Column(name, "continuous", comment=note)
    if declared.kind == "text":
        return _guess_texts(name, values, note + " ", rows)
    if declared.kind in ("boolean", "enum"):
        listed = tuple(map(normalise_value, declared.values))
        categories = (*listed, *(value for value in values if value not in listed))
        if declared.kind == "enum":
            note += " If the order of `categories` means something, set ordered = true."
        return Column(name, "discrete", categories=categories, comment=note)
    note += " Ignored: neither a number nor a category; no value of it is written."
    return Column(name, "ignore", comment=note)


def _in_order(name: str, declared: ColumnType, values: list[str], note: str) -> Column:
    listed = tuple(map(normalise_value, declared.values))
    others = [value for value in values if value not in listed]
    if others:
        raise SchemaError(
            f"{len(others)} values, such as '{others[0]}', have no place in the order that another "
            "table gives the categories",
            column=name,
            remedy="Give the column the same ordered categories in every table.",
        )
    note = f"{note}{declared.name}: `categories` are in its order."
    return Column(name, "discrete", categories=listed, ordered=True, comment=note)


def _guess_numbers(
    name: str, numbers: list[str], missing: tuple[str, ...], note: str, *, unique: bool
) -> Column:
    whole = all(map(is_integer_text, numbers))
    if not whole or len(numbers) > _FEW_VALUES:
        return _many_numbers(name, missing, note, whole=whole, unique=unique)
    if len(numbers) == 1:
        note += "Ignored: the column holds one value only, which carries no information."
        return Column(name, "ignore", missing=missing, comment=note)
    note += f"At most {_FEW_VALUES} different whole numbers."
    categories = tuple(sorted(numbers, key=int))
    return Column(name, "discrete", categories=categories, missing=missing, comment=note)


def _many_numbers(
    name: str, missing: tuple[str, ...], note: str, *, whole: bool, unique: bool
) -> Column:
    """Numbers that are no categories, whole or not, no two rows alike or some."""
    if not whole:
        note += "Numbers."
    else:
        note += f"Whole numbers, more than {_FEW_VALUES} different ones."
        note += _IDENTIFIER if unique else ""
    return Column(name, "continuous", missing=missing, comment=note)


def _is_free_text(texts: Collection[str], rows: int) -> bool:
    """Whether texts look like identifiers or free text: too many, or few rows for each."""
    rare = len(texts) > _FEW_VALUES and rows < _FEWEST_ROWS_PER_TEXT * len(texts)
    return rare or len(texts) > _MOST_TEXTS


def _guess_texts(name: str, texts: list[str], note: str, rows: int) -> Column:
    if _is_free_text(texts, rows):
        note += "Ignored: this looks like an identifier or free text; no value of it is written."
        return Column(name, "ignore", comment=note)
    return Column(name, "discrete", categories=tuple(texts), comment=f"{note}Text.")


def _listed(words: Sequence[str]) -> str:
    return " or ".join(f"'{word}'" for word in words)
