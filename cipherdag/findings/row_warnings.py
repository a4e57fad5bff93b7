"""Warnings about rows: more columns than rows can tell of, and rows left out for missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cipherdag.pages.numerals import counted, first_of

ROWS, INCOMPLETE = "rows", "incomplete_columns"
"""Where a finding's details have the rows of all sites together, and the incomplete columns."""
FEWEST_PER_COLUMN = 2


def few_rows_detail(rows: int) -> dict[str, int]:
    """The entry of a finding's details, by name; none where nobody knows the rows."""
    return {ROWS: rows} if rows else {}


def few_rows_warnings(details: Mapping[str, Any], columns: int) -> tuple[str, ...]:
    """The warning that there are too few rows for a graph of so many columns."""
    rows = details.get(ROWS, 0)
    if not rows or rows >= FEWEST_PER_COLUMN * columns:
        return ()
    fewer = "more columns than rows" if rows < columns else "hardly more rows than columns"
    warning = (
        f"There are {fewer}: {counted(rows, 'row')} of all sites for {counted(columns, 'column')}. "
        "So many pairs look dependent by chance that most edges may be none. Ask of fewer columns, "
        "or of more rows; bootstrap=50 shows which edges other rows would have, too."
    )
    return (warning,)


def incomplete_detail(incomplete: Sequence[int], names: Sequence[str]) -> dict[str, list[str]]:
    """The entry of a finding's details, by name; none where no row is left out for them."""
    return {INCOMPLETE: [names[v] for v in incomplete]} if incomplete else {}


def scores_warnings(details: Mapping[str, Any]) -> tuple[str, ...]:
    """The warning that scores leave out rows, where a finding's details say so."""
    if not (columns := details.get(INCOMPLETE)):
        return ()
    warning = (
        f"Some sites miss values of {first_of(columns)}. Scores are of "
        "the rows that miss no value of any column, and the penalty counts all rows; every site's "
        "log says how many it left out."
    )
    return (warning,)
