"""Descriptive statistics of a site: counts for comparisons, and sums that disclose no small count.

Where the site restricts small counts, its counts enter secure comparisons alone, and are exact
there. The number of values in a sum would be an exact count: compared with a number of rows that is
disclosed anyway, it shows how many values are missing. So the sums are of as many values as that
number, plus or minus multiples of two ``min_cell_size``: some values are left out, or count twice,
evenly from the smallest to the largest. Numbers that fewer than ``min_cell_size`` rows would
dominate, by squared distances from the median, are winsorised before they are added.
"""

import math
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import MalformedMessageError, PolicyRefusedError
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import LARGEST_DEVIATION
from cipherdag.sites.compute.descriptions.location_scale_hints import far_off, winsorise
from cipherdag.sites.compute.rows import Rows

STEP = 2  # a step in multiples of ``min_cell_size``: no step ends where a count is small


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers of a column that are added, as they are and from the common origin in units.

    There are none if one is ``beyond`` the range of sums; ``winsorised`` says that some were, and
    ``far`` that a few lie far from all others.
    """

    values: FloatVector
    scaled: FloatVector
    beyond: bool
    winsorised: bool
    far: bool


class DescribedColumns:
    """One site's columns, with their counts and the values that are added.

    Of all ``rows``; ``min_cell_size`` is the smallest nonzero count that may be disclosed.
    """

    def __init__(self, rows: Rows, *, min_cell_size: int) -> None:
        self._categories = np.array(rows.categories, dtype=np.int64)
        self._min_cell_size = min_cell_size
        self._rows = rows
        # sums of other questions are of complete rows, or of all where there are numbers alone
        public = len(rows) if rows.codes is None else int(rows.complete(rows.filled).sum())
        self._public_rows = public if public >= min_cell_size else 0

    def column(self, variable: int) -> FloatVector:
        """Codes or numbers of a column that are summed; none of them if they are too few."""
        present = self._present(variable)
        n, count = len(present), self._n_summed(len(present))
        if count == n:
            return present
        return np.sort(present)[(2 * np.arange(count) + 1) * n // (2 * max(count, 1))]

    def answer(self, question: ColumnSums | ValueCounts) -> FloatVector:
        """The site's answer.

        MalformedMessageError where the question is about other columns than the site has,
        PolicyRefusedError where it asks for sums of counts, and the site restricts small ones.
        """
        self._check(question)
        if isinstance(question, ColumnSums):
            return self._sums(question)
        if self._min_cell_size > 1:
            raise PolicyRefusedError("counts of columns leave this site rounded only")
        present = [self._present(v) for v in range(len(self._categories))]
        for v, column in self._numbers(question).items():
            present[v] = column.values
        tells = [len(values) > 0 for values in present]
        return np.concatenate([_counts(question, present), tells], dtype=np.float64)

    def totals(self, question: ValueCounts) -> IndexArray:
        """Exact counts, shape (n_counts,), only disclosed in whole units; raises as `answer`."""
        self._check(question)
        present = [self._present(v) for v in range(len(self._categories))]
        values = [len(present[v]) for v in question.counted]
        counts = _counts(question, present)[question.in_units()]
        return np.concatenate([[len(self._rows)], values, counts]).astype(np.int64)

    def _check(self, question: ColumnSums | ValueCounts) -> None:
        if question.categories != tuple(self._categories.tolist()):
            raise MalformedMessageError("a description of other columns than the site's schema has")

    def _sums(self, question: ColumnSums) -> FloatVector:
        used = np.array([len(self.column(v)) for v in range(len(self._categories))], dtype=float)
        numbers = self._numbers(question)
        sums = [(column.scaled.sum(), (column.scaled**2).sum()) for column in numbers.values()]
        flags = np.zeros((3, len(used)), dtype=bool)
        for v, column in numbers.items():
            flags[:, v] = column.beyond, column.winsorised, column.far
        used[flags[0]] = 0.0
        head = [self._n_summed(len(self._rows))]
        return np.concatenate(
            [head, *np.reshape(sums, (-1, 2)).T, flags.ravel(), used], dtype=float
        )

    def _numbers(self, question: ColumnSums | ValueCounts) -> dict[int, _Numbers]:
        """The numbers of every continuous column that are summed, by its position."""
        numbers = {}
        scales = zip(question.origin_array(), question.unit_array(), strict=True)
        for v, (origin, unit) in zip(np.flatnonzero(self._categories == 0), scales, strict=True):
            values = self.column(int(v))
            added = winsorise(values, self._min_cell_size) if len(values) else values
            with np.errstate(over="ignore"):
                scaled = np.ldexp(added - origin, -unit)
            beyond = bool((np.abs(scaled) > LARGEST_DEVIATION).any())
            winsorised, far = added is not values, far_off(values, self._min_cell_size)
            if beyond:
                added = scaled = np.zeros(0)
            numbers[int(v)] = _Numbers(added, scaled, beyond=beyond, winsorised=winsorised, far=far)
        return numbers

    def _present(self, variable: int) -> FloatVector:
        values = self._rows.column(variable)
        return values[~np.isnan(values)]

    def _n_summed(self, values: int) -> int:
        """How many values are summed of a column with this many; 0 if too few."""
        least, surplus = self._min_cell_size, values - self._public_rows
        if least <= 1:
            return values
        enough = least if abs(surplus) < STEP * least else STEP * least
        count = values - int(math.fmod(surplus, STEP * least))
        return count if values >= enough and count >= least else 0


def _counts(question: ValueCounts, present: list[FloatVector]) -> IndexArray:
    """Rows of every category, and numbers up to each mark, of columns without missing values."""
    parts, marks = [np.zeros(0, dtype=np.int64)], iter(question.mark_array())
    for v in question.counted.tolist():
        if categories := question.categories[v]:
            parts.append(np.bincount(present[v].astype(np.int64), minlength=categories))
        else:
            parts.append(np.searchsorted(np.sort(present[v]), next(marks), side="right"))
    return np.concatenate(parts)


def suppress_small_counts(counts: IndexArray, min_cell_size: int) -> IndexArray:
    """Suppress small counts of categories, and a further one that would follow, shape (K,).

    Together the suppressed categories have 0 rows, or at least ``min_cell_size``: where the small
    ones have fewer, the smallest of the others is suppressed too (complementary suppression).
    """
    hidden = (counts > 0) & (counts < min_cell_size)
    if 0 < int(counts[hidden].sum()) < min_cell_size:
        others = np.flatnonzero(counts >= min_cell_size)
        hidden[others[np.argsort(counts[others], kind="stable")[:1]]] = True
    return np.where(hidden, 0, counts)
