"""Panels that an algorithm can add to the report of its runs: each is data, its template draws it.

A result carries panels in ``panels``; the report shows them in order, after the finding. Their
numbers stand in the result's ``details`` too, hence in ``result.json``. A new kind of panel is a
frozen type in a file of its own with the name of its template, and one more member of `Panel`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from cipherdag.errors import ParameterError
from cipherdag.findings.axes import Curves, Forest
from cipherdag.pages.numerals import cut, text_width


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePanel:
    """A panel of rows and columns: words and numbers that need no picture.

    Attributes:
        columns: Heading of every column.
        rows: The rows, each with one entry per column; numbers stand to the right.

    Raises:
        ParameterError: A row is longer or shorter than the headings.
    """

    template: ClassVar[str] = "rows"

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ParameterError(f"a row of '{self.title}' does not have one entry per column")


CELL = 26.0
LETTER = 10.0
MOST_NUMBERED = 20  # columns beyond which numbers do not fit into cells
GAP = 6.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry: place, depth of colour between 0 and 1 (None for no entry), and its number."""

    x: float
    y: float
    depth: float | None
    value: float | None
    row: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """A matrix, drawn darker where its entries are larger.

    Raises:
        ParameterError: The entries do not fit the names or the range.
    """

    template: ClassVar[str] = "heat_map"
    cell: ClassVar[float] = CELL

    title: str
    note: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    # entries by row; None where there is nothing to show, such as the diagonal
    values: tuple[tuple[float | None, ...], ...]
    low: float = 0.0  # the entry that is drawn lightest
    high: float = 1.0  # the entry that is drawn darkest, larger than ``low``
    row_label: str = "cause"  # what the rows are, such as "cause"
    column_label: str = "effect"  # what the columns are, such as "effect"

    def __post_init__(self) -> None:
        fits = len(self.values) == len(self.rows) and all(
            len(row) == len(self.columns) for row in self.values
        )
        entries = [value for row in self.values for value in row if value is not None]
        inside = all(self.low <= value <= self.high for value in entries)
        if not (fits and inside and self.low < self.high and math.isfinite(self.high - self.low)):
            raise ParameterError(f"the entries of '{self.title}' do not fit its names or range")

    @property
    def numbered(self) -> bool:
        """True if cells have room for their numbers."""
        return len(self.columns) <= MOST_NUMBERED

    @property
    def left(self) -> float:
        """The x coordinate of the first column."""
        return max((text_width(cut(row)) * LETTER for row in self.rows), default=0.0) + 2 * GAP

    @property
    def top(self) -> float:
        """The y coordinate of the first row; names of columns stand upright above it."""
        return max((text_width(cut(name)) * LETTER for name in self.columns), default=0.0) + 2 * GAP

    @property
    def width(self) -> float:
        """Width of the picture."""
        return self.left + CELL * len(self.columns) + GAP

    @property
    def height(self) -> float:
        """Height of the picture."""
        return self.top + CELL * len(self.rows) + GAP

    def cells(self) -> list[Cell]:
        """Every entry, row by row."""
        span = self.high - self.low
        return [
            Cell(
                x=round(self.left + CELL * j, 1),
                y=round(self.top + CELL * i, 1),
                depth=None if value is None else round((value - self.low) / span, 3),
                value=value,
                row=self.rows[i],
                column=self.columns[j],
            )
            for i, row in enumerate(self.values)
            for j, value in enumerate(row)
        ]


Panel = Curves | Forest | HeatMap | TablePanel
