"""From the cells of one column to codes, values or marks; the first bad cell is remembered."""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cipherdag.errors import DataError, NotNumericError, UnknownCategoryError
from cipherdag.sites.table.cells import Cells, NumberCells, TextCells
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.file_description import DECLARED, Notation
from cipherdag.sites.table.names import (
    nearest,
    normalise_name,
    normalise_value,
    parse_number,
    parse_numbers,
)

CodeArray = NDArray[np.integer]
ValueArray = NDArray[np.float64]

MISSING_CODE = -1
_UNKNOWN_CODE = -2
_SHOWN_LENGTH = 40
_SEPARATOR = ";"
_TRUTH_VALUES = {"True": "1", "False": "0"}
_MISSING_WORDS = frozenset(
    ("na", "n/a", "#n/a", "n.a.", "nan", "null", "none", "nil", "nd", "n.d.", "unknown", "missing")
) | frozenset(
    ("unk", "unbekannt", "k.a.", "inconnu", "inconnue", "desconocido", "?", ".", "-", "--", "*")
)
_MISSING_WORDS |= frozenset(
    ("unbek.", "keine angabe", "nr", "n.r.", "non renseigné", "s/d", "sin datos", "n/d", "ns/nc")
)
_NUMERAL = r"[+-]?[0-9]+(?:[.,][0-9]+)?"
_LOOKS_OF_NUMBERS = 5  # the first hints below
_DAY_FIRST = f'for dates such as 31.05.2024 also date_format = "%d.%m.%Y" {DECLARED}'
_HINTS = (
    (
        r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?",
        f"This may be a thousand or a decimal: declare decimal and thousands {DECLARED}.",
    ),
    (
        r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})*(?:,[0-9]*)?",
        f'Write decimal points, or declare decimal = "," (and thousands = ".") {DECLARED}.',
    ),
    (
        r"[+-]?[0-9]{1,3}(?:[ \u00a0\u202f'][0-9]{3})+(?:[.,][0-9]+)?",
        f'Declare the thousands separator, such as thousands = " ", {DECLARED}.',
    ),
    (r"[−–][0-9.,]+", "Write the minus sign as a hyphen: -1."),  # noqa: RUF001 - as files have it
    (r"[0-9.,+-]+ ?%", "Remove the percent sign; every site writes the same unit."),
    (r"[<>≤≥~]=? ?[0-9.,]+", "A limit is no number: decide with the study what stands for it."),
    (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}.*",
        f'Declare date = "days since 2000-01-01" in schema.toml; {_DAY_FIRST}.',
    ),
    (
        r"[+-]?inf(inity)?",
        "Correct the cell: it is often a division by zero; or declare it under missing.",
    ),
    (rf"{_NUMERAL}e[+-]?[0-9]+", "Correct the cell, or declare it under missing: it is too large."),
    (rf"{_NUMERAL} ?[A-Za-zµμ°].*", "Write the number alone; its unit stands in schema.toml."),
)


_NOTATIONS = re.compile("|".join(look for look, _ in _HINTS[:_LOOKS_OF_NUMBERS]))


def is_other_number(text: str) -> bool:
    """True if a trimmed cell looks like a number in another notation: "1.234,5" or "12 %"."""
    return _NOTATIONS.fullmatch(text) is not None


def stands_for_missing(word: str) -> bool:
    """True if a word often stands for a missing value."""
    return word.casefold() in _MISSING_WORDS


class _CategoryCodes(dict[str, int]):
    """From a cell's text to its code; grows by every spelling that is met."""

    def __init__(self, column: Column) -> None:
        super().__init__()
        self._codes = dict.fromkeys(("", *column.missing), MISSING_CODE)
        self._codes |= {value: code for code, value in enumerate(column.categories)}
        for category, spellings in column.synonyms:
            self._codes |= dict.fromkeys(spellings, self._codes[category])

    def __missing__(self, text: str) -> int:
        code = self._codes.get(normalise_value(text), _UNKNOWN_CODE)
        self[text] = code
        return code


class ColumnReader:
    """Turns one column's cells into codes or values, and remembers the first bad cell."""

    def __init__(self, column: Column, position: int, *, factor: float = 1.0) -> None:
        self.column = column
        self.position = position
        self._factor = factor
        self._codes = _CategoryCodes(column)
        self._missing = frozenset(column.missing)
        markers = [parse_number(marker) for marker in column.missing]
        self._markers = np.array([number for number in markers if number is not None])
        self._edges = np.array(column.edges)
        self._date_rule = column.date_rule
        self._rows = 0
        self._fault: tuple[int, str] | None = None
        self._implausible: tuple[int, float] | None = None

    def read(self, cells: Cells) -> CodeArray | ValueArray:
        """Codes of a discrete or binned column, values of a continuous one, shape (rows,)."""
        first = self._rows
        self._rows += len(cells)
        if self.column.kind == "discrete":
            return self._read_categories(cells, first)
        values = self._read_numbers(cells, first)
        if self.column.kind == "continuous":
            return values
        codes = np.searchsorted(self._edges, values, side="left").astype(np.int32)
        codes[np.isnan(values)] = MISSING_CODE
        return codes

    def raise_fault(self, location_of: Callable[[int], str]) -> None:
        """Raise the error for the first bad cell, if there was one; it names the cell's row."""
        if self._fault is not None:
            row, text = self._fault
            raise self._error(text, location_of(row))
        if self._implausible is not None:
            row, number = self._implausible
            low, high = self.column.plausible
            unit = f" {self.column.unit}" if self.column.unit else ""
            raise NotNumericError(
                f"{number:.6g} in {location_of(row)} is not between {low:g} and {high:g}{unit}",
                column=self.column.name,
                location=location_of(row),
                remedy="Correct the cell or its unit, declare it as missing, or widen plausible in "
                "schema.toml.",
            )

    def _error(self, text: str, location: str) -> DataError:
        name = self.column.name
        if self.column.kind == "discrete":
            count = self.column.cardinality
            message = f"{_cell(text, location)} is none of {count} categories"
            near, remedy = nearest(normalise_value(text), self.column.categories), ""
            if near is not None:
                shown = _shown(text.strip())
                message += f"; the nearest is '{near}'"
                remedy = (
                    f'If they are one, write synonyms = {{ "{near}" = ["{shown}"] }} for the '
                    "column in schema.toml, or correct the file."
                )
            remedy = _if_missing(text) or remedy
            return UnknownCategoryError(message, column=name, location=location, remedy=remedy)
        what = "no date" if self._date_rule else "no finite number"
        message = f"{_cell(text, location)} is {what}"
        return NotNumericError(
            message, column=name, location=location, remedy=self._number_remedy(text)
        )

    def _number_remedy(self, text: str) -> str:
        """The remedy for a cell that is no number, by its look."""
        if self._date_rule:
            return f'Write 2024-05-31, or declare date_format = "%d.%m.%Y" {DECLARED}.'
        trimmed = normalise_name(text)
        hints = (hint for look, hint in _HINTS if re.fullmatch(look, trimmed, re.IGNORECASE))
        return next(hints, _if_missing(text))

    def _read_categories(self, cells: Cells, first: int) -> CodeArray:
        cells = cells.as_text()
        texts = cells.notation.categories(cells.texts)
        if cells.boolean and _TRUTH_VALUES.keys().isdisjoint(self._listed()):
            texts = [_TRUTH_VALUES.get(text, text) for text in texts]
        codes = np.fromiter(map(self._codes.__getitem__, texts), np.int32, len(texts))
        codes = codes if cells.index is None else codes[cells.index]
        unknown = codes == _UNKNOWN_CODE
        if self._fault is None and unknown.any():
            row = int(unknown.argmax())
            self._fault = (first + row, cells.at(row))
        return codes

    def _listed(self) -> set[str]:
        """Every text that the schema lists for the column."""
        synonyms = (text for _, texts in self.column.synonyms for text in texts)
        return {*self.column.categories, *synonyms}

    def _read_numbers(self, cells: Cells, first: int) -> ValueArray:
        if self._date_rule is not None:
            values, bad = self._parse_dates(cells.as_text())
        elif isinstance(cells, TextCells):
            values, bad = self._parse(cells)
        else:
            values = cells.values.copy()
            infinite = np.isinf(values)
            bad = int(infinite.argmax()) if infinite.any() else -1
        if bad >= 0 and self._fault is None:
            self._fault = (first + bad, self._text(cells, bad))
        values[np.isin(values, self._markers)] = np.nan
        if self._factor != 1.0 and self._date_rule is None:
            values *= self._factor
        self._note_implausible(values, first)
        return values

    def _text(self, cells: Cells, row: int) -> str:
        if isinstance(cells, NumberCells) and np.isinf(cells.values[row]):
            return str(cells.values[row])
        return cells.as_text().at(row)

    def _note_implausible(self, values: ValueArray, first: int) -> None:
        if not self.column.plausible or self._implausible is not None:
            return
        low, high = self.column.plausible
        outside = (values < low) | (values > high)
        if outside.any():
            row = int(outside.argmax())
            self._implausible = (first + row, float(values[row]))

    def _parse(self, cells: TextCells) -> tuple[ValueArray, int]:
        texts = cells.texts
        if cells.boolean:
            texts = [_TRUTH_VALUES.get(text, text) for text in texts]
        values, bad = parse_numbers(cells.notation.numerals(texts, self._missing), self._missing)
        return _by_row(cells, values, bad)

    def _parse_dates(self, cells: TextCells) -> tuple[ValueArray, int]:
        dates = {text: self._date(text, cells.notation) for text in dict.fromkeys(cells.texts)}
        bad = next((row for row, text in enumerate(cells.texts) if dates[text] is None), -1)
        values = np.array([dates[text] for text in cells.texts], dtype=np.float64)  # None is NaN
        return _by_row(cells, values, bad)

    def _date(self, text: str, notation: Notation) -> float | None:
        """A date as a number; NaN where it is missing, None where the cell is no date."""
        trimmed = normalise_name(text)
        if trimmed == "" or trimmed in self._missing:
            return float("nan")
        moment = notation.date(trimmed)
        if moment is None or self._date_rule is None:
            return None
        return self._date_rule.number(moment)


class MarksReader:
    """Turns the cells that name interventions into marks and remembers the first bad one."""

    def __init__(self, column: Column, position: int, names: tuple[str, ...]) -> None:
        self.position = position
        self.blocks: list[NDArray[np.bool_]] = []
        self._column = column
        self._positions = {normalise_value(name): index for index, name in enumerate(names)}
        self._width = len(names)
        self._none = frozenset(("", *column.missing))
        self._rows = 0
        self._fault: tuple[int, str] | None = None

    def read(self, cells: Cells) -> None:
        """Append the marks of a block, bool of shape (rows, p)."""
        cells = cells.as_text()
        marks = np.zeros((len(cells.texts), self._width), dtype=bool)
        bad: list[int] = []
        for row, text in enumerate(cells.texts):
            positions = self._named(text)
            if positions is None:
                bad.append(row)
            else:
                marks[row, positions] = True
        index = np.arange(len(marks)) if cells.index is None else cells.index
        faults = np.flatnonzero(np.isin(index, bad))
        if len(faults) and self._fault is None:
            row = int(faults[0])
            self._fault = (self._rows + row, cells.at(row))
        self._rows += len(index)
        self.blocks.append(marks[index])

    def raise_fault(self, location_of: Callable[[int], str]) -> None:
        """Raise the error for the first bad cell, if there was one."""
        if self._fault is None:
            return
        row, text = self._fault
        raise UnknownCategoryError(
            f"{_cell(text, location_of(row))} names an intervention on no variable of the study",
            column=self._column.name,
            location=location_of(row),
            remedy="Name variables of the schema, several separated by ';', or declare the text "
            "in `missing` if it stands for no intervention.",
        )

    def _named(self, text: str) -> list[int] | None:
        """The positions of the variables that a cell names; None where one is unknown."""
        whole = normalise_value(text)
        if whole in self._none:
            return []
        parts = [whole] if whole in self._positions else whole.split(_SEPARATOR)
        positions = [self._positions.get(normalise_value(part)) for part in parts]
        complete = [position for position in positions if position is not None]
        return complete if len(complete) == len(positions) else None


def _by_row(cells: TextCells, values: ValueArray, bad: int) -> tuple[ValueArray, int]:
    """Values of distinct cells as values of rows, and the first row of the bad cell."""
    if cells.index is None:
        return values, bad
    return values[cells.index], int((cells.index == bad).argmax()) if bad >= 0 else -1


def _if_missing(text: str) -> str:
    """The remedy for a word that often stands for a missing value, or ""."""
    word = normalise_name(text)
    if not stands_for_missing(word):
        return ""
    return f'If it stands for a missing value, write missing = ["{word}"] in schema.toml.'


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "..."


def _cell(text: str, location: str) -> str:
    return f"{_shown(text)!r} in {location}"
