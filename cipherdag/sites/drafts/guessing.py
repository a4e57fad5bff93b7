"""A column guessed from its values, and how a file is written: the rules of a draft.

What a database declares of a column decides instead. What an error says to declare of a file is
declared, and it is said. A site's file is never read so: there a person declares what a draft
proposes.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cipherdag.errors import DataError, NotNumericError, SchemaError, UnreadableDataError
from cipherdag.sites.drafts.tally import ColumnTally
from cipherdag.sites.table.cells import ColumnType
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.column_reader import ColumnReader, is_other_number
from cipherdag.sites.table.file_description import AS_USUAL, PLAIN, DescribedFile, Notation
from cipherdag.sites.table.names import (
    is_integer_text,
    is_plain_number,
    normalise_name,
    normalise_value,
    sort_categories,
)
from cipherdag.sites.table.reading import TableSource, open_table

FEW_VALUES = 12
_MOST_TEXTS = 100
_FEWEST_ROWS_PER_TEXT = 10
_MOSTLY = 0.8
MISSING_WORDS = frozenset({"na", "n/a", "#n/a", "nan", "null", "none", "?", "."})
_INFINITE = frozenset({"inf", "-inf", "+inf", "infinity", "-infinity", "+infinity"})
_MOST_CELLS = 20_000
"""Different cells of a column that are looked at for their notation."""
_OTHER_MARKS = frozenset(",' \u00a0\u202f")
_NOTATIONS = (
    *(Notation(decimal=",", thousands=mark) for mark in ("", ".", " ", "'")),
    *(Notation(decimal=".", thousands=mark) for mark in (",", " ", "'")),
)


def guessed(name: str, counter: Counter[str], rows: int, declared: ColumnType | None) -> Column:
    """The column that values stand for; see `cipherdag.sites.drafts.inference.infer_columns`."""
    values = counter.copy()
    gap = "Some values are missing. " if values.pop("", 0) else ""
    words = missing_words(values)
    others = [value for value in values if value not in words]
    if declared is not None and declared.kind == "other" and values:
        return _guess_declared(name, declared, sorted(values), gap, rows)
    if len(values) <= 1:
        held = "one value only" if values else "no value"
        note = f"{gap}Ignored: the column holds {held}, which carries no information."
        return Column(name, "ignore", comment=note)
    if declared is not None and (declared.kind != "number" or all(map(is_plain_number, values))):
        return _guess_declared(name, declared, sorted(values), gap, rows)
    if others and all(map(is_plain_number, others)):
        marked = (
            " or ".join(f"'{word}'" for word in words) + " is taken as missing. " if words else ""
        )
        return _guess_numbers(name, others, tuple(words), gap + marked)
    if _mostly_numbers(values, others):
        return Column(name, "continuous", missing=tuple(words), comment=f"{gap}Numbers.")
    return _guess_texts(name, sorted(values), gap, rows)


def missing_words(values: Iterable[str]) -> list[str]:
    """The words among values that are taken as missing where numbers stand."""
    return sorted(value for value in values if value.lower() in MISSING_WORDS)


def with_missing(column: Column, words: AbstractSet[str]) -> Column:
    """The column of texts without the categories that columns of numbers take as missing.

    "none" stays a category, which may mean "no complication"; so do all where one would be left.
    """
    marks = tuple(each for each in column.categories if each in words and each.casefold() != "none")
    left = sort_categories({*column.categories} - {*marks})
    if not marks or column.ordered or len(left) <= 1:
        return column
    said = f"{' or '.join(map(repr, marks))} is taken as missing, as in columns of numbers."
    return replace(
        column, categories=left, missing=marks, comment=f"{column.comment} {said}".strip()
    )


def _mostly_numbers(values: Counter[str], others: Sequence[str]) -> bool:
    """True if nearly all cells are numbers, of whatever notation, and many of them differ."""
    numbers = [other for other in others if is_plain_number(other) or is_other_number(other)]
    rows = sum(values[other] for other in others)
    n_numbers = sum(values[number] for number in numbers)
    return len(numbers) > FEW_VALUES and n_numbers >= _MOSTLY * rows


def _guess_declared(
    name: str, declared: ColumnType, values: list[str], note: str, rows: int
) -> Column:
    """The column that a database's own type stands for; ``values`` has at least two."""
    if declared.ordered:
        return _in_order(name, declared, values, note)
    note = f"{note}{declared.name} in its source."
    if declared.kind == "number":
        if len(values) <= FEW_VALUES and all(map(is_integer_text, values)):
            note += ' If it holds codes, set kind = "discrete", and every code in `categories`.'
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


def _guess_numbers(name: str, numbers: list[str], missing: tuple[str, ...], note: str) -> Column:
    whole = all(map(is_integer_text, numbers))
    if len(set(map(float, numbers))) == 1:
        note += "Ignored: the column holds one value only, which carries no information."
        return Column(name, "ignore", missing=missing, comment=note)
    if not whole or len(numbers) > FEW_VALUES:
        return many_numbers(name, missing, note, whole=whole)
    note += f"At most {FEW_VALUES} different whole numbers."
    categories = tuple(sorted(numbers, key=int))
    return Column(name, "discrete", categories=categories, missing=missing, comment=note)


def many_numbers(name: str, missing: tuple[str, ...], note: str, *, whole: bool) -> Column:
    """Numbers that are no categories, whole or not."""
    what = f"Whole numbers, more than {FEW_VALUES} different ones." if whole else "Numbers."
    return Column(name, "continuous", missing=missing, comment=note + what)


def is_free_text(texts: Collection[str], rows: int) -> bool:
    """True if texts look like identifiers or free text: too many, or few rows for each."""
    rare = len(texts) > FEW_VALUES and rows < _FEWEST_ROWS_PER_TEXT * len(texts)
    return rare or len(texts) > _MOST_TEXTS


def _guess_texts(name: str, texts: list[str], note: str, rows: int) -> Column:
    if is_free_text(texts, rows):
        note += "Ignored: this looks like an identifier or free text; no value of it is written."
        return Column(name, "ignore", comment=note)
    return Column(name, "discrete", categories=sort_categories(texts), comment=f"{note}Text.")


def refuse_infinite(
    name: str,
    values: Collection[str],
    missing: tuple[str, ...],
    sources: Iterable[tuple[str, TableSource]],
) -> None:
    """Refuse numbers one of which is infinite, rather than take them all for texts.

    The tables are read again, by site, to find the cell.

    Raises:
        NotNumericError: One is.
    """
    marks = {*missing, ""}
    infinite = [value for value in values if value.lower() in _INFINITE]
    others = (value for value in values if value not in marks and value not in infinite)
    if not infinite or not all(map(is_plain_number, others)):
        return
    numbers = Column(name, "continuous", missing=missing)
    for site, source in sources:
        _refuse_cell(numbers, site, source)
    raise NotNumericError(
        f"the column holds '{infinite[0]}', which is no finite number",
        column=name,
        remedy="Leave the field empty where the value is missing, or correct it.",
    )


def _refuse_cell(numbers: Column, site: str, source: TableSource) -> None:
    """Refuse the first cell of a table that is no finite number, if there is one."""
    with open_table(source) as table:
        if numbers.name not in table.names:
            return
        reader = ColumnReader(numbers, table.names.index(numbers.name))
        rows = 0
        for chunk in table.chunks:
            rows += len(chunk[0])
            reader.read(chunk[reader.position])
        try:
            reader.raise_fault(table.location_of)
        except DataError as error:
            error.file, error.rows, error.site = table.file, rows, site or None
            raise


Read = TypeVar("Read")
log = logging.getLogger("cipherdag.data")


def as_written(
    source: TableSource,
    read: Callable[[TableSource], Read],
    tallies: Callable[[Read], Iterable[ColumnTally]],
) -> tuple[TableSource, Read]:
    """The table with the description by which it can be read, and what is read of it.

    A file without a description gets what each error says to declare, until none is left, and the
    notation of its numbers where one alone fits. A log line says what was taken.

    Raises:
        UnreadableDataError: It cannot be read with what its errors say to declare.
    """
    if not isinstance(source, str | os.PathLike) or Path(source).suffix == ".toml":
        return source, read(source)
    path, description = Path(source), AS_USUAL
    while True:
        file = DescribedFile(path, description)
        try:
            made = read(file)
            more: dict[str, Any] = notation(tallies(made)) if description.notation == PLAIN else {}
        except UnreadableDataError as error:
            more = dict(error.declaration)
            if not more or any(getattr(description, k) != getattr(AS_USUAL, k) for k in more):
                raise
        if not more:
            break
        description = msgspec.structs.replace(description, **more)
    if description == AS_USUAL:
        return source, made
    said = ", ".join(description.lines())
    log.warning("%s is read with %s; see that this is so", path.name, said)
    return file, made


def notation(tallies: Iterable[ColumnTally]) -> dict[str, str]:
    """The keys of the notation in which a file's numbers are written, empty where it is the usual.

    It is declared only where every column of numbers has it, and where every other notation that
    fits them gives the same numbers: "1,234" may be a thousand or a decimal.
    """
    columns = []
    odd = False
    for tally in tallies:
        texts = [normalise_name(text) for text in islice(tally.texts, _MOST_CELLS)]
        cells = [text for text in texts if text and text.lower() not in MISSING_WORDS]
        if cells and all(is_plain_number(text) or is_other_number(text) for text in cells):
            columns.append(cells)
            odd = odd or any(_OTHER_MARKS.intersection(text) for text in cells)
    if not odd:
        return {}
    numbers = {
        each: [[each.number(cell) for cell in cells] for cells in columns] for each in _NOTATIONS
    }
    readable = [k for k in range(len(columns)) if any(None not in n[k] for n in numbers.values())]
    fitting = {
        each: tuple(number for k in readable for number in n[k])
        for each, n in numbers.items()
        if readable and not any(None in n[k] for k in readable)
    }
    if len({*fitting.values()}) != 1:
        return {}
    one = next(iter(fitting))
    return {"decimal": one.decimal, "thousands": one.thousands}
