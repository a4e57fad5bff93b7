"""CSV text that no spreadsheet computes.

Source: OWASP, "CSV Injection".
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # behind apostrophes, so that one more can be taken off
_EDGES = ("-->", "---")  # marks of edges begin as a formula does, and are none


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, each line ended by a line feed alone, and no text that a spreadsheet computes.

    Text that begins as a formula does gets an apostrophe in front, by which spreadsheets know text.
    """
    text = io.StringIO(newline="")
    lines = ([_shielded(cell) for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _shielded(cell: object) -> object:
    formula = isinstance(cell, str) and _FORMULA.match(cell) and cell not in _EDGES
    return f"'{cell}" if formula else cell


def without_shield(cell: str) -> str:
    """The text that `csv_text` wrote so."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
