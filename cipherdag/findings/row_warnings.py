"""Warnings about rows: more columns than rows can tell of, and rows left out for missing values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cipherdag.pages.numerals import counted, first_of

FEWEST_PER_COLUMN = 2


def row_details(rows: int, incomplete: Sequence[str] = ()) -> dict[str, Any]:
    """The entries of a finding's details; none where nobody knows the rows, or all have values.

    Args:
        rows: Those of all sites together; 0 if not known.
        incomplete: The columns of which some rows are left out.
    """
    known: dict[str, Any] = {"incomplete_columns": list(incomplete)} if incomplete else {}
    return known | ({"rows": rows} if rows else {})


def row_warnings(details: Mapping[str, Any], columns: int) -> Iterator[str]:
    """That there are too few rows for a graph of so many columns, or that scores leave out some."""
    rows = details.get("rows", 0)
    if 0 < rows < FEWEST_PER_COLUMN * columns:
        fewer = "more columns than rows" if rows < columns else "hardly more rows than columns"
        yield (
            f"There are {fewer}: {counted(rows, 'row')} of all sites for "
            f"{counted(columns, 'column')}. So many pairs look dependent by chance that most edges "
            "may be none. Ask of fewer columns, or of more rows; bootstrap=50 shows which edges "
            "other rows would have, too."
        )
    if incomplete := details.get("incomplete_columns"):
        yield (
            f"Some sites miss values of {first_of(incomplete)}. Scores are of "
            "the rows that miss no value of any column, and the penalty counts all rows; every "
            "site's log says how many it left out."
        )
