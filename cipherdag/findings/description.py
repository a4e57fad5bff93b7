"""What is known of the columns of all sites together, each by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from cipherdag.findings.finding import Cells, Column, Finding, Table, aligned, shortened
from cipherdag.graphs.graph import CausalGraph
from cipherdag.pages.numerals import ranged, shown, shown_among

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class ColumnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One column over the rows of all sites, with counts that are exact or in whole units."""

    categories: int  # number of categories; 0 of a column of numbers
    # least number of rows with a value; None where too few sites have enough of them
    n_rows: int | None = msgspec.field(default=None, name="told")
    # about how many other rows there are: one less than a unit fewer, or as many more
    missing: int | None = None
    rounded_to: int = 1  # in how large units counts are known; 1 if they are exact
    # whether a site adds nothing, because it has a number far too large to be added
    beyond: bool = False
    # whether some site draws in numbers so far off that few of its rows, fewer than it may tell of,
    # would make up most of the spread
    drawn: bool = False
    far: bool = False  # whether few numbers of some site lie far beyond all others
    mean: float | None = None  # of the numbers; None of categories, or where not told
    # standard deviation, with n - 1 in the denominator; likewise, or of one value
    deviation: float | None = None
    # at `QUANTILES`, between two marks on a straight line; None beyond the marks
    quantiles: tuple[float | None, ...] = ()
    # least rows of every category; about, as ``missing``, of the first of two
    counts: tuple[int, ...] = ()

    @property
    def values_between(self) -> tuple[int, int]:
        """The least and the most rows with a value."""
        least = self.n_rows or 0
        return least, least + self.rounded_to - 1

    @property
    def missing_between(self) -> tuple[int, int]:
        """The least and the most rows without one."""
        return self._about(self.missing or 0)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The least and the most rows of every category."""
        more = self.rounded_to - 1
        ranges = [(rows, min(rows + more, self.values_between[1])) for rows in self.counts]
        if len(ranges) == 2:  # noqa: PLR2004
            ranges[0] = self._about(self.counts[0])
        return tuple(ranges)

    @property
    def shares(self) -> tuple[tuple[float, float], ...]:
        """The smallest and the largest share of every category that the counts allow.

        They add up: none is larger than what the smallest of all others leave.
        """
        fewest, most = (max(count, 1) for count in self.values_between)
        apiece = [(low / most, min(high / fewest, 1.0)) for low, high in self.ranges]
        lows, highs = (sum(ends) for ends in zip(*apiece, strict=True)) if apiece else (1.0, 1.0)
        if self.rounded_to == 1:
            return tuple(apiece)
        return tuple(
            (max(low, 1.0 - (highs - high)), min(high, 1.0 - (lows - low))) for low, high in apiece
        )

    def _about(self, rows: int) -> tuple[int, int]:
        return max(rows - self.rounded_to + 1, 0), rows + self.rounded_to - 1

    @property
    def constant(self) -> bool:
        """True if all rows have one value."""
        if self.categories:
            return sum(most > 0 for _, most in self.ranges) == 1
        return self.deviation == 0.0

    @property
    def line(self) -> str:
        """The column in one line of a terminal."""
        if self.n_rows is None:
            return "withheld"
        missing = f"{ranged(*self.missing_between)} missing"
        if self.categories:
            return f"{self.categories} categories, {missing}"
        deviation = self.deviation or 0.0
        spread = "-" if self.deviation is None else shown(self.deviation)
        mean, low, middle, high = (
            "-" if number is None else shown_among(number, deviation)
            for number in (self.mean, *self.quantiles[1:4])
        )
        quartiles = f"{low} | {middle} | {high}"
        drawn = " or more, with values drawn in" * self.drawn
        return f"mean {mean}, sd {spread}{drawn}, quartiles about {quartiles}, {missing}"


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
    rounded_to: int = 1

    @property
    def decisions(self) -> bytes:
        return msgspec.json.encode([self.rows, dict(self.columns)], order="sorted")

    @property
    def headline(self) -> str:
        between = ranged(self.rows, self.rows + self.rounded_to - 1)
        if complete := self.details.get("complete_visits"):
            visits, patients = (f"{count:,}" for count in complete)
            return f"{between} visits, of which {visits} miss no value, by {patients} patients,"
        return super().of_patients or f"{between} rows"

    @property
    def of_patients(self) -> str:
        return ""  # the headline says it, beside the range of all rows

    def lines(self, n_sites: int) -> list[str]:
        lines = ["", f"{self.headline} of {n_sites} sites together:"]
        lines += aligned([(name, column.line) for name, column in self.columns.items()])
        shares = [f"{row[0]} {row[1]}: {_share(*row[4:])}" for row in self.cells("categories")]
        return [*lines, *(["", "Shares of categories:", *shortened(shares)] if shares else [])]

    def sections(self, truth: CausalGraph | None) -> dict[str, Any]:
        del truth
        return {"marks": [f"#{share:.0%}".replace("%", " %") for share in QUANTILES]}

    def _column_rows(self) -> Cells:
        return [
            (
                name,
                "categories" if column.categories else "numbers",
                *((None,) * 4 if column.n_rows is None else column.values_between),
                *(() if column.n_rows is None else column.missing_between),
                column.mean,
                column.deviation,
                *(column.quantiles or (None,) * len(QUANTILES)),
            )
            for name, column in self.columns.items()
        ]

    def _category_rows(self) -> Cells:
        return [
            (name, self.dictionary.category(name, code), *column.ranges[code], least, most)
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
                Column("values_at_most", float, "The most of them that there can be."),
                Column("missing", float, "The other rows."),
                Column("missing_at_most", float, "The most of them that there can be."),
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
            "shares, which differ where some site restricts small counts.",
            columns=(
                Column("column", str, "The column of the data."),
                Column("category", str, "The category."),
                Column("rows", int, "The least rows of it."),
                Column("rows_at_most", int, "The most rows of it."),
                Column("share", float, "The least share that the counts allow."),
                Column("share_at_most", float, "The largest share that they allow."),
            ),
            rows=_category_rows,
        ),
    )


def _share(least: float, most: float) -> str:
    return f"{least:.1%}" if least == most else f"{least:.1%} to {most:.1%}"
