"""A table in Markdown, as the documents include it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table, its heading first; a row that is too short ends in empty cells."""
    filled = ([*row, *[""] * (len(columns) - len(row))] for row in rows)
    return [_line(columns), "|" + "---|" * len(columns), *map(_line, filled)]


def _line(cells: Sequence[object]) -> str:
    return "|" + "|".join(f" {cell} " if cell != "" else " " for cell in cells) + "|"
