"""A first schema from data, for the user to look through; nothing else ever guesses a type."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.errors import (
    ExtraColumnError,
    MissingColumnError,
    NotNumericError,
    SchemaError,
    UnreadableDataError,
)
from cipherdag.sites.drafts.suspicions import (
    Suspicion,
    suspicious_categories,
    suspicious_dates,
    suspicious_numbers,
)
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
    from collections.abc import Collection, Sequence

    from cipherdag.sites.table.cells import Cells, ColumnType, RawTable, TextCells
    from cipherdag.sites.table.reading import TableSource

_FEW_VALUES = 12
_MOST_TEXTS = 100
_FEWEST_ROWS_PER_TEXT = 10
_IDENTIFIER = ' No two rows agree: if this is an identifier, set kind = "ignore".'
_FEWEST_ROWS_TO_SHOW = 5
_MOSTLY = 0.8
_MISSING_WORDS = frozenset({"na", "n/a", "#n/a", "nan", "null", "none", "?", "."})
_INFINITE = frozenset({"inf", "-inf", "+inf", "infinity", "-infinity", "+infinity"})


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed columns, and which of them hold one value only or none."""

    columns: tuple[Column, ...]
    constant: frozenset[str]


def infer_columns(sources: Sequence[TableSource], *, overlapping: bool = False) -> Draft:
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
        sources: At least one path or DataFrame.
        overlapping: Whether tables may have different columns.

    Raises:
        DataError: The leaf that names what is wrong with a table.
        SchemaError: If tables put the categories of an ordered column in different orders or have
            values besides them.
    """
    counts: dict[str, Counter[str]] = {}
    declared: dict[str, ColumnType] = {}
    hidden: dict[str, UnreadableDataError] = {}
    rows = 0
    for source in sources:
        with open_table(source) as table:
            known = () if overlapping else tuple(counts)
            read = _count_table(table, counts, hidden)
            if known:
                _check_same_columns(table, known, read)
            rows += read
            for name, own in zip(table.names, table.types, strict=bool(table.types)):
                if own is not None:
                    declared[name] = _agreed(name, declared.get(name, own), own)
    normal = {name: _normal(own) for name, own in counts.items()}
    for name, error in hidden.items():
        if any(map(hidden_character, normal[name])) and not _is_free_text(normal[name], rows):
            raise error
    return Draft(
        tuple(_looked_at(name, own, rows, declared.get(name)) for name, own in normal.items()),
        frozenset(name for name, own in normal.items() if len(own.keys() - {""}) <= 1),
    )


def _normal(counter: Counter[str]) -> Counter[str]:
    values: Counter[str] = Counter()
    for text, times in counter.items():
        values[normalise_value(text)] += times
    return values


def _looked_at(name: str, values: Counter[str], rows: int, declared: ColumnType | None) -> Column:
    """The guess, with what looks like a mistake in its comment."""
    column = _guess(name, values, rows, declared)
    seen = [str(own) for own in _suspicions(column, values)]
    held = [values[own] for own in column.categories if values[own]]
    if column.kind == "discrete" and min(held, default=0) < _FEWEST_ROWS_TO_SHOW:
        seen.append("Few rows hold some category: see that it names nobody before this leaves.")
    said = "".join(f" LOOK: {own}" for own in seen)
    return replace(column, comment=f"{column.comment}{said}".strip())


def _suspicions(column: Column, values: Counter[str]) -> list[Suspicion]:
    texts = [value for value in values if value and value not in column.missing]
    if column.kind == "ignore":
        return suspicious_dates(texts) if len(texts) > 1 else []
    numbers = {float(text): values[text] for text in texts if is_plain_number(text)}
    distinct = np.array(sorted(numbers))
    counts = np.array([numbers[value] for value in sorted(numbers)], dtype=np.int64)
    odd = [text for text in texts if not is_plain_number(text)]
    found = suspicious_numbers(distinct, counts)
    if column.kind == "continuous" and odd:
        found.append(_odd_cells(odd))
    if column.kind == "discrete":
        found += suspicious_categories(column.categories) + suspicious_dates(texts)
        found += [_odd_cells(odd)] * (0 < len(odd) < len(numbers))
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
    table: RawTable, counts: dict[str, Counter[str]], hidden: dict[str, UnreadableDataError]
) -> int:
    """Add a table's values to ``counts`` by column, and return its number of rows.

    The first cell of a column with an invisible character makes an error, to be raised only where
    the cell would be a category.
    """
    counters = [Counter[str]() for _ in table.names]
    rows = 0
    for chunk in table.chunks:
        for name, counter, cells in zip(table.names, counters, chunk, strict=True):
            _count(cells, counter)
            _note_hidden(table, name, cells.as_text(), rows, hidden)
        rows += len(chunk[0])
    check_row_count(rows, file=table.file, site=None)
    for name, counter in zip(table.names, counters, strict=True):
        counts.setdefault(name, Counter()).update(counter)
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


def _check_same_columns(table: RawTable, names: tuple[str, ...], rows: int) -> None:
    for name in names:
        if name not in table.names:
            raise MissingColumnError(
                "another of the files has this column",
                file=table.file,
                column=name,
                rows=rows,
                remedy=UNMEASURED,
            )
    for name in table.names:
        if name not in names:
            raise ExtraColumnError(
                "another of the files lacks this column",
                file=table.file,
                column=name,
                rows=rows,
                remedy=UNMEASURED,
            )


def _count(cells: Cells, counter: Counter[str]) -> None:
    cells = cells.as_text()
    texts = cells.notation.categories(cells.texts)
    if cells.index is None:
        counter.update(texts)
        return
    repeats = np.bincount(cells.index, minlength=len(texts))
    for text, times in zip(texts, repeats.tolist(), strict=True):
        counter[text] += times


def _guess(name: str, counter: Counter[str], rows: int, declared: ColumnType | None) -> Column:
    values = counter.copy()
    gap = "Some values are missing. " if values.pop("", 0) else ""
    words = sorted(value for value in values if value.lower() in _MISSING_WORDS)
    others = [value for value in values if value not in words]
    _refuse_infinite(name, others)
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
    if words:
        gap += f"If {_listed(words)} means a missing value, move it to `missing`. "
    return _guess_texts(name, sorted(values), gap, rows)


def _refuse_infinite(name: str, values: Sequence[str]) -> None:
    """Refuse numbers one of which is infinite, rather than take them all for texts."""
    infinite = [value for value in values if value.lower() in _INFINITE]
    finite = [value for value in values if is_plain_number(value)]
    if infinite and len(infinite) + len(finite) == len(values):
        raise NotNumericError(
            f"the column holds '{infinite[0]}', which is no finite number",
            column=name,
            remedy="Leave the field empty where the value is missing, or correct it.",
        )


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
    if not all(map(is_integer_text, numbers)):
        return Column(name, "continuous", missing=missing, comment=f"{note}Numbers.")
    if len(numbers) == 1:
        note += "Ignored: the column holds one value only, which carries no information."
        return Column(name, "ignore", missing=missing, comment=note)
    if len(numbers) > _FEW_VALUES:
        note += f"Whole numbers, more than {_FEW_VALUES} different ones."
        if unique:
            note += _IDENTIFIER
        return Column(name, "continuous", missing=missing, comment=note)
    note += f"At most {_FEW_VALUES} different whole numbers."
    categories = tuple(sorted(numbers, key=int))
    return Column(name, "discrete", categories=categories, missing=missing, comment=note)


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
