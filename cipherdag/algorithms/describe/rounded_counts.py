"""Summaries of columns from counts of all sites that are disclosed in whole units alone.

Quantiles are not interpolated between counts, of which there would be many: for each of them the
mark is looked for at which the values up to it reach a whole number of units.

Leaks:
    Of the numbers up to a mark whether they are so many units; of all other counts how many units.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from msgspec.structs import replace

from cipherdag.algorithms.describe.summaries import (
    Quantiles,
    Spreads,
    Summaries,
    rounded_between,
    summaries_of,
)
from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.findings.description import QUANTILES
from cipherdag.questions.comparison import fewest_parts, secure_min
from cipherdag.questions.descriptions import ValueCounts
from cipherdag.questions.encodings import pack_integers, require_possible
from cipherdag.questions.estimation.rounded_totals import CellSizes, RoundedTotals, rounded_totals
from cipherdag.questions.question import Question
from cipherdag.questions.verdicts import MOST_VERDICTS

FINER = 7
"""Parts of the distance of two marks; an odd number, so that zero lies within one."""
MOST_CUTS = 12
"""Parts that a round cuts the marks into at most."""


def rounded_summaries(
    spreads: Spreads, question: ValueCounts, n_sites: int
) -> Generator[Question, FloatVector, Summaries]:
    """Ask for counts of every column that enough sites have, in whole units.

    Args:
        spreads: What sums are of, means and deviations.
        question: The counts, with marks of every continuous column.
        n_sites: How many sites are asked.

    Returns:
        After a round for the unit, and as many as counts and quantiles take, six or so.

    Raises:
        AggregateRangeError: The counts of a column contradict each other.
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
) -> Generator[Question, FloatVector, dict[int, Quantiles]]:
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
