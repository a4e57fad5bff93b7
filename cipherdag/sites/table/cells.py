"""Cells of a source before they are read by a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherdag.sites.table.names import number_text
from cipherdag.sites.table.notations import PLAIN, Notation

CHUNK_ROWS = 4096


@dataclass(frozen=True, slots=True, repr=False)
class TextCells:
    """Cells as text; "" is empty.

    Attributes:
        texts: The cells, or the distinct ones where ``index`` is given.
        index: For every row the position of its cell in ``texts``, shape (rows,).
        boolean: Whether the cells come from truth values and read "True" and "False".
        notation: How they write numbers and dates.
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
        """The same cells as the text that a CSV would hold."""
        distinct, index = np.unique(self.values, return_inverse=True)
        texts = [number_text(float(value)) for value in distinct]
        return TextCells(texts, index.astype(np.int64))


Cells: TypeAlias = TextCells | NumberCells


def below_header(row: int) -> str:
    """How a table without places of its own calls its row, counted from 0."""
    return f"row {row + 1}"


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table whose header has been checked and whose rows are still to be read, once.

    Attributes:
        names: Normalised column names, in file order.
        chunks: Consecutive blocks of rows, each a list with the cells of every column.
        types: What a database or DataFrame declares of every column, None where it does not say;
            empty for a source that declares nothing.
        file: What errors call the table, once it is opened.
        place: What its user calls a row, by its position among all rows that were read.
    """

    names: tuple[str, ...]
    chunks: Iterator[Sequence[Cells]] = field(repr=False)
    types: tuple[ColumnType | None, ...] = ()
    file: str = ""
    place: Callable[[int], str] = field(default=below_header, repr=False)

    def count_rows(self) -> int:
        """Read the remaining rows only to count them."""
        return sum(len(chunk[0]) for chunk in self.chunks)


TypeKind = Literal["boolean", "enum", "text", "number", "other"]


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a database's column, or of an ordered categorical one of a DataFrame.

    Attributes:
        kind: What it means for a study: truth values, one of a list of texts, text, whole or
            decimal numbers, or something that no test can use as it is.
        name: What the source calls it, such as "INTEGER".
        values: The texts of an enumeration, in its own order; empty otherwise.
        ordered: Whether the source says that this order means something.
    """

    kind: TypeKind
    name: str
    values: tuple[str, ...] = ()
    ordered: bool = False
