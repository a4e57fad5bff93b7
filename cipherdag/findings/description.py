"""What is known of the columns of all sites together, each by itself.

Leaks:
    Nothing new: all of it follows from opened sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
CUT_DETAIL = "rows_left_out"
"""Where the details say whether some site leaves out rows that miss a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSummary:
    """One column over the rows of all sites that tell of it.

    Attributes:
        categories: Number of categories; 0 of a column of numbers.
        told: How many rows that is; None where too few sites have enough to be told of.
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
    told: int | None = None
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
        """Of every category the least and the largest share that the counts allow.

        Where values are left out, nobody knows of which category they are, nor how many they are
        of the rows that seem to miss one.
        """
        hidden = self.missing or 0 if self.at_most else 0
        total = max(sum(self.counts) + self.merged + hidden, 1)
        return tuple((own / total, (own + self.merged + hidden) / total) for own in self.counts)

    @property
    def constant(self) -> bool:
        """Whether all rows have one value."""
        if self.categories:
            return self.merged == 0 and sum(own > 0 for own in self.counts) == 1
        return self.deviation == 0.0


@dataclass(frozen=True, kw_only=True)
class Description:
    """The columns of all sites' rows together.

    Attributes:
        rows: How many rows are described.
        columns: What is known of each column.
        details: What else was found: which columns are distributed differently at the sites, and
            whether some site leaves out rows that miss a value.
    """

    rows: int
    columns: Mapping[str, ColumnSummary]
    details: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def decisions(self) -> bytes:
        """All numbers, in one order: equal descriptions, equal bytes."""
        columns = {name: asdict(own) for name, own in self.columns.items()}
        return msgspec.json.encode([self.rows, columns], order="deterministic")
