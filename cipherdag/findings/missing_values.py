"""Columns that miss values, so that whole rows are left out: what a report warns of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cipherdag.pages.numerals import first_of

DETAIL = "incomplete_columns"
"""Where a conclusion's details list them."""


def incomplete_detail(incomplete: Sequence[int], names: Sequence[str]) -> dict[str, list[str]]:
    """The entry of a conclusion's details, by name; none where no row is left out for them."""
    return {DETAIL: [names[v] for v in incomplete]} if incomplete else {}


def scores_warnings(details: Mapping[str, Any]) -> tuple[str, ...]:
    """What is left out of scores, if a conclusion's details say that rows are."""
    if not (columns := details.get(DETAIL)):
        return ()
    said = (
        f"Some sites miss values of {first_of(columns)}. Scores are of "
        "the rows that miss no value of any column, and the penalty counts all rows; every site's "
        "log says how many it left out."
    )
    return (said,)
