"""The result of a run that described the columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cipherdag.findings.description import QUANTILES, ColumnSummary, Description
from cipherdag.pages.numerals import shown, shown_beside
from cipherdag.pages.sheets import csv_text
from cipherdag.results.run import Run, category_names, shortened

if TYPE_CHECKING:
    import pandas as pd


MARKS = tuple(f"q{share * 100:02.0f}" for share in QUANTILES)
COLUMNS = ("column", "kind", "values", "missing", "at_most", "mean", "sd", *MARKS)
CATEGORIES = ("column", "category", "rows", "share", "share_at_most")


@dataclass(frozen=True, kw_only=True, repr=False)
class DescriptionResult(Description, Run):
    """The columns of all sites' rows together, what left each site, and what it cost.

    Its fields are those of `Description` and `Run`.
    """

    kind: ClassVar[str] = "description"
    template: ClassVar[str] = "description_run.html.j2"
    of_causes: ClassVar[bool] = False

    __repr__ = Run.__repr__

    def _repr_html_(self) -> str:
        """The tables in a notebook."""
        tables = "".join(own.to_html(index=False) for own in (self.table, self.categories))
        return f"<p>{escape(self._headline)}</p>{tables}"

    @property
    def _counted(self) -> str:
        return f"{self.rows} rows"

    @property
    def table(self) -> pd.DataFrame:
        """One row per column of the data.

        Columns ``column``, ``kind`` (numbers or categories), ``values`` (rows that tell one; NaN
        where too few sites have enough), ``missing`` (the other rows), ``at_most`` (whether some of
        these may have a value that a site leaves out), ``mean``, ``sd``, and quantiles ``q05`` to
        ``q95``; NaN where there is none.
        """
        import pandas as pd

        numbers = dict.fromkeys(("values", "missing", "mean", "sd", *MARKS), "float64")
        return pd.DataFrame(self.column_rows(), columns=list(COLUMNS)).astype(numbers)

    @property
    def categories(self) -> pd.DataFrame:
        """One row per category: ``column``, ``category``, ``rows``, ``share``, ``share_at_most``.

        ``rows`` are those that sites tell of the category by itself. Its share of the values, of
        all rows described, lies between ``share`` and ``share_at_most``: these differ where some
        site tells of categories together only, or leaves out values of the column.
        """
        import pandas as pd

        return pd.DataFrame(self.category_rows(), columns=list(CATEGORIES))

    def column_rows(self) -> list[tuple[Any, ...]]:
        """The rows of `table`; None where there is no number."""
        return [
            (
                name,
                "categories" if own.categories else "numbers",
                own.told,
                own.missing,
                own.at_most,
                own.mean,
                own.deviation,
                *(own.quantiles or (None,) * len(QUANTILES)),
            )
            for name, own in self.columns.items()
        ]

    def category_rows(self) -> list[tuple[str, str, int, float, float]]:
        """The rows of `categories`; of a column that is not told of there are none."""
        named = self._category_names()
        return [
            (name, named[name][code], own.counts[code], least, most)
            for name, own in self.columns.items()
            if own.told is not None
            for code, (least, most) in enumerate(own.shares)
        ]

    def _category_names(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the categories by column."""
        return {
            name: category_names(self.schema, name, own.categories)
            for name, own in self.columns.items()
        }

    def _found(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "columns": {name: asdict(own) for name, own in self.columns.items()},
            "details": dict(self.details),
        }

    @classmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "rows": report["rows"],
            "columns": msgspec.convert(report["columns"], dict[str, ColumnSummary]),
            "details": report["details"],
        }

    def _summary(self) -> list[str]:
        lines = ["", f"{self.rows:,} rows of {len(self.sites)} sites together:"]
        wide = max(map(len, self.columns))
        lines += shortened([f"{name:{wide}}  {told(own)}" for name, own in self.columns.items()])
        shares = [f"{own[0]} {own[1]}: {_share(*own[3:])}" for own in self.category_rows()]
        return [*lines, *(["", "Shares of categories:", *shortened(shares)] if shares else [])]

    def _sections(self) -> dict[str, Any]:
        return {"remarks": (), "own_limits": [], "marks": QUANTILES}

    def _tables(self) -> dict[str, str]:
        return {
            "columns.csv": csv_text([COLUMNS, *self.column_rows()]),
            "categories.csv": csv_text([CATEGORIES, *self.category_rows()]),
        }


def told(own: ColumnSummary) -> str:
    """A column in one line of a terminal."""
    if own.told is None:
        return "not told of"
    missing = f"{own.missing:,} missing"
    if own.at_most:
        missing = f"at most {missing} or left out"
    if own.categories:
        return f"{own.categories} categories, {missing}"
    spread = "-" if own.deviation is None else shown(own.deviation)
    beside = own.deviation or 0.0
    low, middle, high = ("-" if q is None else shown_beside(q, beside) for q in own.quantiles[1:4])
    mean = "-" if own.mean is None else shown_beside(own.mean, beside)
    return f"mean {mean}, sd {spread}, quartiles about {low} | {middle} | {high}, {missing}"


def _share(least: float, most: float) -> str:
    return f"{least:.1%}" if least == most else f"{least:.1%} to {most:.1%}"
