"""Cells of a source before they are read by a schema."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from cipherdag.sites.table.file_description import PLAIN, FileDescription, Notation
from cipherdag.sites.table.names import LARGEST_EXACT, number_text

CHUNK_ROWS = 4096
TypeKind = Literal["boolean", "enum", "text", "number", "other"]
NO_SINGLE_VALUE = "(no single value)"
_NUMBERS = (int, float, Decimal)
_Plain = dt.date | dt.time | dt.timedelta | UUID


@dataclass(frozen=True, slots=True, repr=False)
class TextCells:
    """Cells as text, "" where empty; an index, shape (rows,), points into distinct texts.

    Truth values read "True" and "False".
    """

    texts: Sequence[str]
    index: NDArray[np.int64] | None = None
    boolean: bool = False
    notation: Notation = PLAIN

    def __len__(self) -> int:
        return len(self.texts if self.index is None else self.index)

    def at(self, row: int) -> str:
        """The cell of one row."""
        return self.texts[row if self.index is None else self.index[row]]

    def as_text(self) -> TextCells:
        """The cells themselves."""
        return self


@dataclass(frozen=True, slots=True, repr=False)
class NumberCells:
    """Cells as numbers of shape (rows,); NaN is empty."""

    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)

    def as_text(self) -> TextCells:
        """The cells as the text that a CSV would hold."""
        distinct, index = np.unique(self.values, return_inverse=True)
        texts = [number_text(float(value)) for value in distinct]
        return TextCells(texts, index.astype(np.int64))


Cells: TypeAlias = TextCells | NumberCells


def below_header(row: int) -> str:
    """The name of a row, counted from 0, in a table that has no numbering of its own."""
    return f"row {row + 1}"


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table whose header has been checked and whose rows are still to be read, once."""

    names: tuple[str, ...]  # normalised column names, in file order
    # consecutive blocks of rows, each a list with the cells of every column
    chunks: Iterator[Sequence[Cells]] = field(repr=False)
    # what a database or DataFrame declares of every column, if anything
    types: tuple[ColumnType | None, ...] = ()
    file: str = ""  # what errors call the table, once it is opened
    # what numbers of some columns are multiplied by, by name
    factors: Mapping[str, float] = field(default_factory=dict)
    left_out: Sequence[str] = ()  # how many rows of what kind are left out, once all are read
    # names a row as its user sees it, from its position among the rows read
    location_of: Callable[[int], str] = field(default=below_header, repr=False)

    def count_rows(self) -> int:
        """Read the remaining rows only to count them."""
        return sum(len(chunk[0]) for chunk in self.chunks)


OpenTable = AbstractContextManager[RawTable]


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of file that a table is read from."""

    words: str  # what help and errors call it
    # opens a file of its kind, whose rows are read while the context lasts; raises OSError,
    # UnreadableDataError where it is none such, or EmptyDataError without a header
    open: Callable[[Path, FileDescription], OpenTable]
    reads: tuple[str, ...] = ()  # the keys of a `FileDescription` that this source alone reads
    suffix: str = ""  # the end of its name, in any case, where that tells the kind
    magic: bytes = b""  # the bytes that tell the kind otherwise, at ``offset`` in the file
    offset: int = 0
    endings: tuple[str, ...] = ()  # endings of names that promise this kind


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a database's column, or of an ordered categorical one of a DataFrame.

    ``kind`` is what it means for a study, ``name`` what the source calls it, such as "INTEGER".
    ``values`` are the texts of an enumeration, in its own order, which means something if
    ``ordered``.
    """

    kind: TypeKind
    name: str
    values: tuple[str, ...] = ()
    ordered: bool = False


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
