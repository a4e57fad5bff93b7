"""What is odd about columns, before anything is learnt from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cipherdag.findings.description import ColumnSummary, Description
from cipherdag.findings.doubts import DIFFERING
from cipherdag.pages.numerals import shown

NEARLY_EMPTY = 0.05
"""Share of rows with a value below which a column tells next to nothing."""
MOSTLY_FULL = 0.5
RARE = 0.01
"""Share of rows below which a category is called rare."""
NARROW = 0.2
"""Middle half of the numbers, in standard deviations, below which some lie far off: 1.35 of a
normal distribution, 0.2 where one in fifty is a hundred times as large."""


def remarks(description: Description) -> tuple[tuple[str, str], ...]:
    """Columns, each with one thing that is odd about it; in the order of the columns."""
    differing = {row["variable"]: row for row in description.details.get(DIFFERING, ())}
    return tuple(
        (name, said)
        for name, summary in description.columns.items()
        for said in (
            *_of_column(summary, description.rows),
            *_between_sites(differing.get(name, {})),
        )
    )


def _of_column(summary: ColumnSummary, rows: int) -> Iterator[str]:
    if summary.beyond:
        yield (
            "a site has a number so large that its column cannot be added: a typing error, or "
            "another unit?"
        )
    if summary.far:
        yield (
            "a few values of a site lie ten times as far from its middle as all others: typing "
            "errors, or another unit?"
        )
    if summary.n_rows is None:
        yield "withheld: too few sites have enough values"
        return
    share = summary.n_rows / max(rows, 1)
    if share < NEARLY_EMPTY:
        yield f"nearly empty: {share:.1%} of the rows tell a value"
    elif share < MOSTLY_FULL:
        yield f"only {share:.0%} of the rows tell a value"
    if summary.constant:
        many = "" if summary.categories else ", or values too near each other beside their size"
        yield f"one value only{many}"
    yield from _of_categories(summary) if summary.categories else _of_numbers(summary)


def _of_categories(summary: ColumnSummary) -> Iterator[str]:
    if never := sum(most == 0 for _, most in summary.ranges):
        yield f"{never} of its {summary.categories} categories never occur"
    if rare := sum(0.0 < most < RARE for _, most in summary.shares):
        yield f"{rare} of its {summary.categories} categories have less than {RARE:.0%} of the rows"


def _of_numbers(summary: ColumnSummary) -> Iterator[str]:
    low, high = summary.quantiles[1], summary.quantiles[3]
    if not summary.deviation or low is None or high is None:
        return
    if high - low < NARROW * summary.deviation:
        yield (
            f"half of the numbers lie within {shown(high - low)} of each other, beside a standard "
            f"deviation of {shown(summary.deviation)}: some lie far off"
        )


def _between_sites(difference: Mapping[str, Any]) -> Iterator[str]:
    if difference.get("coded"):
        yield "some site has one value far from all others, again and again: a missing value?"
    if difference.get("differs"):
        p_value = shown(difference["p_value"])
        yield f"distributed differently at the sites, beyond chance (p = {p_value})"
