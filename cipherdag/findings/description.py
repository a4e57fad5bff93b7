"""What is known of the columns of all sites together, each by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from cipherdag.findings.finding import Cells, Column, Finding, Table, aligned, shortened
from cipherdag.graphs.graph import CausalGraph
from cipherdag.pages.numerals import shown, shown_among

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
CUT_DETAIL = "rows_left_out"
"""Where the details say whether some site leaves out rows that miss a value."""


class ColumnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One column over the rows of all sites that tell of it.

    Attributes:
        categories: Number of categories; 0 of a column of numbers.
        n_rows: Number of these rows with a value; None where too few sites have enough of them.
        missing: The other rows: those that miss the value, and with ``at_most`` more, which sites
            leave out to keep small counts to themselves.
        at_most: Whether some site does.
        beyond: Whether a site tells nothing, because it has a number far too large to be added.
        drawn: Whether some site draws in numbers so far off that few of its rows, fewer than it may
            tell of, would make up most of the spread.
        mean: Of the numbers; None of categories, or where not told.
        deviation: Standard deviation, with n - 1 in the denominator; likewise, or of one value.
        quantiles: At `QUANTILES`, between two marks on a straight line; None beyond the marks.
        counts: Rows of every category, as far as sites tell it by itself.
        merged: Rows of categories that sites tell together with others only.
    """

    categories: int
    n_rows: int | None = msgspec.field(default=None, name="told")
    missing: int | None = None
    at_most: bool = False
    beyond: bool = False
    drawn: bool = False
    mean: float | None = None
    deviation: float | None = None
    quantiles: tuple[float | None, ...] = ()
    counts: tuple[int, ...] = ()
    merged: int = 0

    @property
    def shares(self) -> tuple[tuple[float, float], ...]:
        """The smallest and the largest share of every category that the counts allow.

        Where values are left out, nobody knows of which category they are, nor how many they are
        of the rows that seem to miss one.
        """
        hidden = self.missing or 0 if self.at_most else 0
        total = max(sum(self.counts) + self.merged + hidden, 1)
        return tuple((rows / total, (rows + self.merged + hidden) / total) for rows in self.counts)

    @property
    def constant(self) -> bool:
        """True if all rows have one value."""
        if self.categories:
            return self.merged == 0 and sum(rows > 0 for rows in self.counts) == 1
        return self.deviation == 0.0

    @property
    def line(self) -> str:
        """The column in one line of a terminal."""
        if self.n_rows is None:
            return "withheld"
        missing = f"{self.missing:,} missing"
        if self.at_most:
            missing = f"at most {missing} or left out"
        if self.categories:
            return f"{self.categories} categories, {missing}"
        deviation = self.deviation or 0.0
        spread = "-" if self.deviation is None else shown(self.deviation)
        mean, low, middle, high = (
            "-" if number is None else shown_among(number, deviation)
            for number in (self.mean, *self.quantiles[1:4])
        )
        quartiles = f"{low} | {middle} | {high}"
        return f"mean {mean}, sd {spread}, quartiles about {quartiles}, {missing}"


@dataclass(frozen=True, kw_only=True)
class Description(Finding):
    """The columns of all sites' rows together."""

    kind: ClassVar[str] = "description"
    template: ClassVar[str] = "description_run.html.j2"
    promise: ClassVar[str] = (
        "for every variable of the study, how its values are distributed over all sites' rows "
        "together."
    )
    causal: ClassVar[bool] = False

    rows: int
    columns: Mapping[str, ColumnSummary]

    @property
    def decisions(self) -> bytes:
        return msgspec.json.encode([self.rows, dict(self.columns)], order="sorted")

    @property
    def headline(self) -> str:
        return f"{self.rows} rows"

    def lines(self, n_sites: int) -> list[str]:
        lines = ["", f"{self.rows:,} rows of {n_sites} sites together:"]
        lines += aligned([(name, column.line) for name, column in self.columns.items()])
        shares = [f"{row[0]} {row[1]}: {_share(*row[3:])}" for row in self.cells("categories")]
        return [*lines, *(["", "Shares of categories:", *shortened(shares)] if shares else [])]

    def sections(self, truth: CausalGraph | None) -> dict[str, Any]:
        del truth
        return {"marks": [f"#{share:.0%}".replace("%", " %") for share in QUANTILES]}

    def _column_rows(self) -> Cells:
        return [
            (
                name,
                "categories" if column.categories else "numbers",
                column.n_rows,
                column.missing,
                column.at_most,
                column.mean,
                column.deviation,
                *(column.quantiles or (None,) * len(QUANTILES)),
            )
            for name, column in self.columns.items()
        ]

    def _category_rows(self) -> Cells:
        return [
            (name, self.dictionary.category(name, code), column.counts[code], least, most)
            for name, column in self.columns.items()
            if column.n_rows is not None
            for code, (least, most) in enumerate(column.shares)
        ]

    tables = (
        Table(
            name="columns",
            doc="One row per column of the data.",
            columns=(
                Column("column", str, "The column of the data."),
                Column("kind", str, "`numbers` or `categories`."),
                Column("values", float, "The rows with a value; NaN where too few sites have any."),
                Column("missing", float, "The other rows."),
                Column("at_most", bool, "Whether some of these may have a value that is left out."),
                Column("mean", float, "The mean of numbers."),
                Column("sd", float, "Their standard deviation, with n - 1 in the denominator."),
                *(
                    Column(f"q{share * 100:02.0f}", float, f"Their {share:.0%} quantile.")
                    for share in QUANTILES
                ),
            ),
            rows=_column_rows,
        ),
        Table(
            name="categories",
            doc="One row per category; its share of the values of all rows lies between the two "
            "shares, which differ where some site tells of categories together only, or leaves "
            "out values of the column.",
            columns=(
                Column("column", str, "The column of the data."),
                Column("category", str, "The category."),
                Column("rows", int, "The rows that sites tell of it by itself."),
                Column("share", float, "The least share that the counts allow."),
                Column("share_at_most", float, "The largest share that they allow."),
            ),
            rows=_category_rows,
        ),
    )


def _share(least: float, most: float) -> str:
    return f"{least:.1%}" if least == most else f"{least:.1%} to {most:.1%}"
