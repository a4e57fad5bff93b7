"""Summary statistics of every column from opened sums.

All of it is addition, division and square roots, which every machine rounds alike.

Where counts are disclosed in whole units alone, quantiles are not interpolated between counts, of
which there would be many: for each of them the mark is looked for at which the values up to it
reach a whole number of units.

Leaks:
    Of rounded numbers up to a mark whether they are so many units; of other counts how many units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from msgspec.structs import replace

from cipherdag.algorithms.evidence.pooled_moments import LEAST_DEVIATION
from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.findings.description import QUANTILES, ColumnSummary
from cipherdag.questions.comparison import fewest_parts, secure_min
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import pack_integers, require_possible, segments
from cipherdag.questions.estimation.rounded_totals import CellSizes, RoundedTotals, rounded_totals
from cipherdag.questions.question import Asking, Question
from cipherdag.questions.verdicts import MOST_VERDICTS

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
    """The values that `ColumnSums` opens, shapes (p,) and (c,) for continuous columns."""

    rows: int  # rows of all sites; about, where some site restricts small counts
    values: IndexArray  # values of every column that sums are of; 0 where they are withheld
    beyond: BoolVector  # whether some site has a number that is too large
    drawn: BoolVector  # whether some site draws in numbers that few of its rows would dominate
    far: BoolVector  # whether some site has few numbers far beyond all others
    mean: FloatVector  # of continuous columns; 0 without values
    deviation: FloatVector  # their standard deviation; NaN of fewer than two values

    @classmethod
    def of(cls, question: ColumnSums, sums: FloatVector) -> Spreads:
        """Means and deviations from sums; AggregateRangeError where these are not possible."""
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
    """The summary of every column, from counts in units of so many rows, and quantiles of numbers.

    Counts are by column and category; there are none of numbers, or where they are withheld.
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
    """The summary of every column from exact counts; AggregateRangeError if they contradict."""
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

    ``up_to`` of the ``total`` values lie up to each mark, ascending, shape (M,); ``at`` are shares.
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


FINER = 7
"""Parts of the distance of two marks; an odd number, so that zero lies within one."""
MOST_CUTS = 12
"""Parts that a round cuts the marks into at most."""


def rounded_summaries(spreads: Spreads, question: ValueCounts, n_sites: int) -> Asking[Summaries]:
    """Ask for counts of every column that enough sites have, in whole units.

    After a round for the unit, and as many as counts and quantiles take, six or so.
    AggregateRangeError where the counts of a column contradict each other.
    """
    sizes = CellSizes()
    unit = sizes.largest((yield sizes))
    omitted = tuple(np.flatnonzero(spreads.values == 0).tolist())
    asked = replace(question, marks=b"", omitted=omitted)
    floors = yield from rounded_totals(asked, unit, spreads.rows + n_sites * (2 * unit - 1))
    rows, values, counts = asked.of_units(floors)
    holds = all(
        (held >= 0).all() and held.sum() <= most <= rows
        for held, most in zip(counts, values.tolist(), strict=True)
    )
    require_possible(asked.label, "more values than rows", holds=holds)
    varying = np.array(question.categories) == 0
    varying[varying] = np.nan_to_num(spreads.deviation) > 0.0
    searched = np.flatnonzero(varying & (values > 1))
    quantiles = yield from _quantiles(question, searched, values[searched, None], unit)
    return summaries_of(spreads, question.categories, rows, values, counts, quantiles, unit)


def _quantiles(
    question: ValueCounts, columns: IndexArray, values: IndexArray, unit: int
) -> Asking[dict[int, Quantiles]]:
    """Quantiles of continuous columns of so many units of values, shape (c, 1).

    They lie on straight lines between where the nearest multiples of the unit are reached, but for
    the last one, beyond which there may be no value. They are None where no multiple is near.
    """
    if not len(columns):
        return {}
    numbers = np.flatnonzero(np.array(question.categories) == 0)
    marks = _finer(question.mark_array()[np.searchsorted(numbers, columns)])
    omitted = tuple(np.delete(np.arange(len(question.categories)), columns).tolist())
    ranks = np.array(QUANTILES) * (values + 0.5)  # in units, of which half a one is not known of
    lower = np.clip(ranks, 1, values - 1).astype(np.int64)
    reached = np.stack([lower, np.minimum(lower + 1, values - 1)], axis=1)
    of_column = np.repeat(np.arange(len(marks)), reached[0].size)
    most = min(MOST_CUTS, MOST_VERDICTS // len(of_column) + 1)
    parts = fewest_parts(marks.shape[1] + 1, most)

    def ask(below: IndexArray) -> Question:
        at = marks[of_column[:, None], below - 1].reshape(len(marks), -1)
        packed = np.ascontiguousarray(at, dtype="<f8").tobytes()
        counts = replace(question, marks=packed, omitted=omitted)
        units = pack_integers(np.repeat(reached.ravel() - 1, parts - 1))
        return RoundedTotals(counts, unit, units, comparisons=1, first=1 + len(marks))

    ends = np.full(len(of_column), marks.shape[1])
    at = (yield from secure_min(ask, ends, arity=parts)).reshape(reached.shape)
    middle = np.pad((marks[:, 1:] + marks[:, :-1]) / 2.0, ((0, 0), (1, 1)), constant_values=np.nan)
    low, high = np.take_along_axis(middle[:, None], at, axis=2).swapaxes(0, 1)
    between = low + np.clip(ranks - lower, 0.0, 1.0) * (high - low)
    between[np.rint(np.abs(np.clip(ranks, 1, values - 1) - ranks)) > 0] = np.nan
    return {
        v: tuple(None if np.isnan(number) else _shown(number, about) for number in each)
        for v, each, about in zip(columns.tolist(), between.tolist(), marks, strict=True)
    }


def _finer(marks: FloatMatrix) -> FloatMatrix:
    """`FINER` times as many marks of each column, shape (c, G), alike on every machine."""
    steps = np.diff(marks, axis=1)[:, :, None] * (np.arange(FINER) / FINER)
    between = marks[:, :-1, None] + steps
    return np.column_stack([between.reshape(len(marks), -1), marks[:, -1:]])


def _shown(number: float, marks: FloatVector) -> float:
    """A number with as many decimal places as the distance of the marks about it allows."""
    above = min(max(int(np.searchsorted(marks, number)), 1), len(marks) - 1)
    return rounded_between(number, float(marks[above - 1]), float(marks[above]))
