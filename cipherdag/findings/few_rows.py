"""Graphs of more columns than rows can tell of: what a report warns of first.

Leaks:
    Nothing new: how many rows there are was opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cipherdag.pages.numerals import counted

DETAIL = "rows"
"""Where a conclusion's details have the rows of all sites together."""
FEWEST_PER_COLUMN = 2


def few_rows_detail(rows: int) -> dict[str, int]:
    """The entry of a conclusion's details, by name; none where nobody knows the rows."""
    return {DETAIL: rows} if rows else {}


def few_rows_warnings(details: Mapping[str, Any], columns: int) -> tuple[str, ...]:
    """What makes a graph of so many columns doubtful, in a sentence."""
    rows = details.get(DETAIL, 0)
    if not rows or rows >= FEWEST_PER_COLUMN * columns:
        return ()
    fewer = "more columns than rows" if rows < columns else "hardly more rows than columns"
    said = (
        f"There are {fewer}: {counted(rows, 'row')} of all sites for {counted(columns, 'column')}. "
        "So many pairs look dependent by chance that most edges may be none. Ask of fewer columns, "
        "or of more rows; bootstrap=50 shows which edges other rows would have, too."
    )
    return (said,)
