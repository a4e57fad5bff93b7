"""Summary statistics of every column from opened sums.

All of it is addition, division and square roots, which every machine rounds alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from msgspec.structs import replace

from cipherdag.algorithms.evidence.pooled_moments import LEAST_DEVIATION
from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.findings.description import QUANTILES, ColumnSummary
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import require_possible, segments

NEAR, FAR = np.arange(-12, 13) / 4.0, np.array([4.0, 5.0, 6.0, 8.0, 16.0])
TICKS = np.concatenate([-FAR[::-1], NEAR, FAR])
"""Where numbers are counted: standard deviations from the mean of all sites, both rounded."""
NEAR_ZERO = 2.0 ** (-np.arange(-4, 69) / 4.0)
"""More marks, as distances from 0 in standard deviations, for columns with many small numbers."""
QUARTERS = 4
"""Steps of the grid of deviations, between powers of two, and of means, in one deviation."""
MORE_DIGITS = 3
"""Digits that are tried at most until a rounded quantile lies between its two marks."""
ROUNDED = 2.0**-40  # of the sum of squares: less is rounding
Quantiles = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Spreads:
    """The values that `ColumnSums` opens, shapes (p,) and (c,) for continuous columns.

    Attributes:
        rows: Rows of all sites; about, where some site restricts small counts.
        values: Values of every column that sums are of; 0 where they are withheld.
        beyond: Whether some site has a number that is too large.
        drawn: Whether some site draws in numbers that few of its rows would dominate.
        far: Whether some site has few numbers far beyond all others.
        mean: Of continuous columns; 0 without values.
        deviation: Their standard deviation; NaN of fewer than two values.
    """

    rows: int
    values: IndexArray
    beyond: BoolVector
    drawn: BoolVector
    far: BoolVector
    mean: FloatVector
    deviation: FloatVector

    @classmethod
    def of(cls, question: ColumnSums, sums: FloatVector) -> Spreads:
        """Means and deviations from sums.

        Raises:
            AggregateRangeError: A column has more values than there are rows, or less spread than
                none.
        """
        label = question.label
        rows, first, second, flags, used = segments(question.encodings, sums)
        require_possible(label, "more values than rows", holds=(used <= rows[0]).all())
        n = np.maximum(used[np.array(question.categories) == 0], 1.0)
        squares = second - first**2 / n
        require_possible(
            label, "less spread than none", holds=(squares >= -ROUNDED * (second + 1.0)).all()
        )
        deviation = np.sqrt(np.maximum(squares, 0.0) / np.maximum(n - 1.0, 1.0))
        deviation = np.where(deviation < LEAST_DEVIATION, 0.0, deviation)
        units, (beyond, drawn, far) = question.unit_array(), flags.reshape(3, -1) > 0
        return cls(
            rows=int(rows[0]),
            values=used.astype(np.int64),
            beyond=beyond,
            drawn=drawn,
            far=far,
            mean=question.origin_array() + np.ldexp(first / n, units),
            deviation=np.where(n > 1.0, np.ldexp(deviation, units), np.nan),
        )

    def marks(self) -> FloatVector:
        """The thresholds at which every continuous column is counted, shape (c, M)."""
        return np.nan_to_num(marks_about(self.mean, np.nan_to_num(self.deviation)))


def marks_about(mean: FloatVector, deviation: FloatVector) -> FloatVector:
    """Marks of columns, shape (c, M): a quarter of the deviation apart, which is rounded itself.

    About zero there are powers of two as well, for columns whose few large numbers make up their
    deviation. Zero, and whole numbers where deviations are whole, lie in the middle between two.
    A few rows more or less do not move marks, but where a mean or a deviation is about to round
    otherwise. So counts of two runs cannot be subtracted at marks that lie close to one another.
    """
    fraction, exponent = np.frexp(deviation)
    rounded = np.ldexp(np.rint(fraction * 2 * QUARTERS) / (2 * QUARTERS), exponent)
    step = rounded / QUARTERS
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.where(step > 0.0, (np.floor(mean / step) + 0.5) * step, mean)
    steps = middle[:, None] + rounded[:, None] * TICKS
    powers = rounded[:, None] * np.concatenate([-NEAR_ZERO, NEAR_ZERO])
    return np.sort(np.column_stack([steps, np.where(powers, powers, middle[:, None])]))


@dataclass(frozen=True, slots=True)
class Summaries:
    """At least so many rows of all sites, in units of which all counts are, and the summaries."""

    rows: int
    unit: int
    columns: tuple[ColumnSummary, ...]


def summaries_of(
    spreads: Spreads,
    categories: Sequence[int],
    rows: int,
    values: IndexArray,
    counts: Sequence[IndexArray],
    quantiles: Mapping[int, Quantiles],
    unit: int = 1,
) -> Summaries:
    """The summary of every column.

    Args:
        spreads: What sums are of, means and deviations.
        categories: How many each column has; 0 of numbers.
        rows: Units of rows.
        values: Units of values of every column, shape (p,).
        counts: Units of rows of every category, by column; none of numbers, or where withheld.
        quantiles: Of numbers, by position.
        unit: How many rows are one.
    """
    numbers, columns = iter(zip(spreads.mean, spreads.deviation, strict=True)), []
    for v, held in enumerate(counts):
        there = spreads.values[v] > 0
        summary = ColumnSummary(
            categories=categories[v],
            n_rows=int(values[v]) * unit if there else None,
            missing=int(rows - values[v]) * unit if there else None,
            rounded_to=unit,
            beyond=bool(spreads.beyond[v]),
            drawn=bool(spreads.drawn[v]),
            far=bool(spreads.far[v]),
            counts=tuple((held * unit).tolist()),
        )
        if not summary.categories:
            mean, deviation = map(float, next(numbers))
            if there:
                least = (mean if deviation == 0.0 else None,) * len(QUANTILES)
                summary = replace(
                    summary,
                    mean=mean,
                    deviation=None if np.isnan(deviation) else deviation,
                    quantiles=quantiles.get(v, least) if deviation else least,
                )
        columns.append(summary)
    return Summaries(rows * unit, unit, tuple(columns))


def exact_summaries(spreads: Spreads, question: ValueCounts, sums: FloatVector) -> Summaries:
    """The summary of every column, where counts are exact.

    Raises:
        AggregateRangeError: The counts of a column contradict each other.
    """
    counts = np.split(segments(question.encodings, sums)[0], np.cumsum(question.widths())[:-1])
    marks, quantiles = iter(question.mark_array()), {}
    for v, (counted, total) in enumerate(zip(counts, spreads.values.tolist(), strict=True)):
        if question.categories[v]:
            require_possible(question.label, "too many", holds=counted.sum() <= total)
            continue
        up_to = np.concatenate([[0.0], counted, [total]])
        require_possible(question.label, "falling counts", holds=(np.diff(up_to) >= 0.0).all())
        quantiles[v] = quantiles_of(next(marks), counted, total)
        counts[v] = counted[:0]
    whole = [counted.astype(np.int64) for counted in counts]
    categories = question.categories
    return summaries_of(spreads, categories, spreads.rows, spreads.values, whole, quantiles)


def quantiles_of(
    marks: FloatVector, up_to: FloatVector, total: float, at: Sequence[float] = QUANTILES
) -> Quantiles:
    """Quantiles from counts up to marks, on straight lines between them; None beyond the marks.

    They are rounded to the power of ten below the distance of the two marks, and to 0 where these
    lie on either side of 0.

    Args:
        marks: Ascending, shape (M,).
        up_to: Values up to each mark, shape (M,).
        total: All values.
        at: Shares of them.
    """
    if total <= 0.0:
        return (None,) * len(at)
    quantiles: list[float | None] = []
    for share in at:
        above = int(np.searchsorted(up_to, share * total))
        if above == len(marks) or (above == 0 and marks[0] < marks[-1]):
            quantiles.append(None)
        elif above == 0:
            quantiles.append(float(marks[0]))
        else:
            part = (share * total - up_to[above - 1]) / (up_to[above] - up_to[above - 1])
            low, high = float(marks[above - 1]), float(marks[above])
            quantiles.append(rounded_between(low + float(part) * (high - low), low, high))
    return tuple(quantiles)


def rounded_between(value: float, low: float, high: float) -> float:
    """A value between two marks, to as many decimal places as their distance allows."""
    if not high > low:
        return value
    if low < 0.0 < high:
        return 0.0
    # a decimal's exponent is the same on every machine, a logarithm is not
    digits = -Decimal(high - low).adjusted()
    near = (round(value, digits + more) for more in range(MORE_DIGITS))
    return next((number for number in near if low <= number <= high), value)
