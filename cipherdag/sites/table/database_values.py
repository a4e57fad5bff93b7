"""What a source declares of a column, and a database's values as the cells of a CSV."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from uuid import UUID

import numpy as np

from cipherdag.sites.table.cells import Cells, NumberCells, TextCells
from cipherdag.sites.table.names import LARGEST_EXACT, number_text

NO_SINGLE_VALUE = "(no single value)"
_NUMBERS = (int, float, Decimal)
_Plain = dt.date | dt.time | dt.timedelta | UUID


def row_blocks(blocks: Iterator[Sequence[Sequence[object]]]) -> Iterator[list[Cells]]:
    """The cells of every column, for each block of a database's rows."""
    for rows in blocks:
        yield [value_cells(column) for column in zip(*rows, strict=True)]


def value_cells(values: Sequence[object]) -> Cells:
    """One column's values as cells; None and NaN are empty.

    Whole numbers that a float cannot hold stay text, so that no two of them become one. Bytes,
    lists and documents are written as ``NO_SINGLE_VALUE``.
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= set(_NUMBERS):
        numbers = _numbers(values)
        if kinds == {float} or bool((np.abs(numbers[~np.isnan(numbers)]) < LARGEST_EXACT).all()):
            return NumberCells(numbers)
    return TextCells([_text(value) for value in values], boolean=kinds == {bool})


def _numbers(values: Sequence[object]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The values as float64, shape (n,): NaN where there is none, inf where it is too large."""
    numbers = np.full(len(values), np.nan)
    for position, value in enumerate(values):
        if isinstance(value, _NUMBERS):
            try:
                numbers[position] = float(value)
            except OverflowError:
                numbers[position] = math.inf
    return numbers


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, Decimal):
        return "" if value.is_nan() else str(value)
    return str(value) if isinstance(value, str | bool | int | _Plain) else NO_SINGLE_VALUE
