"""Panels that an algorithm can add to the report of its runs: each is data, its template draws it.

A result carries panels in ``panels``; the report shows them in order, after the finding. Their
numbers stand in the result's ``details`` too, hence in ``result.json``. A new kind of panel is a
frozen type in a file of its own with the name of its template, and one more member of `Panel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cipherdag.errors import ParameterError
from cipherdag.findings.panels.curves import Curves
from cipherdag.findings.panels.forest import Forest
from cipherdag.findings.panels.heat_map import HeatMap


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePanel:
    """A panel of rows and columns: words and numbers that need no picture.

    Attributes:
        title: Heading of the panel.
        note: What it shows, in one or two sentences; the table's caption.
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


Panel = Curves | Forest | HeatMap | TablePanel
