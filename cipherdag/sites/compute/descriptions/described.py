"""Descriptive statistics of a site under the threshold rule: disclosed rows and counts.

A nonzero number of rows below ``min_cell_size`` must not follow from what is disclosed, nor by
subtraction: of a column's disclosed rows from all that are described, of these from the rows
without any missing value, which contingency tables are of, or of two counts from one another.
Of two columns it may follow: each is disclosed by itself. Numbers that fewer than ``min_cell_size``
rows would dominate, by squared distances from the median, are winsorised before they are added or
counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.errors import MalformedMessageError, PolicyRefusedError
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import LARGEST_DEVIATION
from cipherdag.sites.compute.descriptions.location_scale_hints import winsorise
from cipherdag.sites.compute.rows import Rows


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The disclosed numbers of a column, as they are and from the common origin in common units.

    There are none where one is ``beyond``; where ``drawn``, some were winsorised.
    """

    values: FloatVector
    scaled: FloatVector
    beyond: bool
    drawn: bool


class DescribedColumns:
    """One site's columns, each with the rows that the threshold rule discloses.

    Args:
        rows: All rows of the site.
        min_cell_size: Smallest nonzero count that may be disclosed.
    """

    def __init__(self, rows: Rows, *, min_cell_size: int) -> None:
        self._categories = np.array(rows.categories, dtype=np.int64)
        self._min_cell_size = min_cell_size
        self._disclosed: dict[int, BoolVector] = {}
        complete = rows.complete(rows.filled)
        # tables of other questions are of complete rows where small counts are restricted
        other_tables = rows.codes is not None and min_cell_size > 1 and bool(complete.any())
        self._whole = not (other_tables and _few(int((~complete).sum()), min_cell_size))
        if not self._whole:
            rows, complete = rows.take(complete), complete[complete]
        self._rows, self._complete = rows, complete if other_tables else None

    @property
    def rows(self) -> int:
        """The number of rows that are described."""
        return len(self._rows)

    def column(self, variable: int) -> FloatVector:
        """Codes or numbers of the rows described, NaN where missing or withheld."""
        return np.where(self._disclosed_rows(variable), self._rows.column(variable), np.nan)

    def answer(self, question: ColumnSums | ValueCounts) -> FloatVector:
        """The site's answer.

        Raises:
            MalformedMessageError: The question is about other columns than the site has.
            PolicyRefusedError: The site holds fewer rows than it may tell of.
        """
        if question.categories != tuple(self._categories.tolist()):
            raise MalformedMessageError("a description of other columns than the site's schema has")
        if self.rows < self._min_cell_size:
            raise PolicyRefusedError("the site holds fewer rows than its min_cell_size")
        return self._sums(question) if isinstance(question, ColumnSums) else self._counts(question)

    def _sums(self, question: ColumnSums) -> FloatVector:
        disclosed = [self._disclosed_rows(v) for v in range(len(self._categories))]
        used = np.array([column.sum() for column in disclosed], dtype=np.float64)
        present = np.array([(~np.isnan(self._rows.column(v))).sum() for v in range(len(disclosed))])
        numbers = self._numbers(question)
        sums = [(column.scaled.sum(), (column.scaled**2).sum()) for column in numbers.values()]
        beyond, drawn = np.zeros((2, len(disclosed)), dtype=bool)
        for v, column in numbers.items():
            beyond[v], drawn[v] = column.beyond, column.drawn
        head, cut = np.array([self.rows]), np.array([not self._whole])
        flags = cut, used < present, beyond, drawn
        used[beyond] = 0.0
        return np.concatenate([head, *np.reshape(sums, (-1, 2)).T, *flags, used], dtype=np.float64)

    def _counts(self, question: ValueCounts) -> FloatVector:
        parts: list[IndexArray] = []
        tells, marks = np.zeros(len(self._categories)), iter(question.mark_array())
        numbers = self._numbers(question)
        for v, categories in enumerate(self._categories.tolist()):
            if categories:
                codes = self._rows.column(v)[self._disclosed_rows(v)].astype(np.int64)
                parts.append(
                    suppress_small_counts(
                        np.bincount(codes, minlength=categories), self._min_cell_size
                    )
                )
                tells[v] = len(codes) > 0
            else:
                values = numbers[v].values
                up_to = np.searchsorted(np.sort(values), next(marks), side="right")
                parts.append(snap_to_safe_counts(up_to, len(values), self._min_cell_size))
                tells[v] = len(values) > 0
        return np.concatenate([*parts, tells], dtype=np.float64)

    def _numbers(self, question: ColumnSums | ValueCounts) -> dict[int, _Numbers]:
        """The disclosed numbers of every continuous column, by its position."""
        numbers = {}
        scales = zip(question.origin_array(), question.unit_array(), strict=True)
        for v, (origin, unit) in zip(np.flatnonzero(self._categories == 0), scales, strict=True):
            values = self._rows.column(int(v))[self._disclosed_rows(int(v))]
            near = winsorise(values, self._min_cell_size) if len(values) else values
            drawn = near is not values
            with np.errstate(over="ignore"):
                scaled = np.ldexp(near - origin, -unit)
            beyond = bool((np.abs(scaled) > LARGEST_DEVIATION).any())
            if beyond:
                near = scaled = np.zeros(0)
            numbers[int(v)] = _Numbers(near, scaled, beyond=beyond, drawn=drawn)
        return numbers

    def _disclosed_rows(self, variable: int) -> BoolVector:
        """The rows of which a column is disclosed, shape (rows,)."""
        if variable not in self._disclosed:
            self._disclosed[variable] = self._most(variable)
        return self._disclosed[variable]

    def _most(self, variable: int) -> BoolVector:
        """The largest disclosable set of rows: almost all, the complete ones, or none."""
        present: BoolVector = ~np.isnan(self._rows.column(variable))
        if self._min_cell_size <= 1 or (
            self._complete is None and self._min_cell_size <= present.sum() == self.rows
        ):
            return present
        candidates = [self._almost_all(variable, present)]
        candidates += [] if self._complete is None else [self._complete & present]
        return next(filter(self._may_disclose, candidates), np.zeros_like(present))

    def _almost_all(self, variable: int, present: BoolVector) -> BoolVector:
        """All values without rare categories and, by complementary suppression, further rows."""
        further = present if self._complete is None else present & ~self._complete
        rows = present & ~self._rare_rows(variable, further)
        left = self.rows - int(rows.sum())
        if not _few(left, self._min_cell_size):
            return rows
        rows &= ~_spread(self._rows.column(variable), further & rows, self._min_cell_size - left)
        return rows & ~self._rare_rows(variable, further & rows)

    def _rare_rows(self, variable: int, further: BoolVector) -> BoolVector:
        """The incomplete rows whose category has fewer than ``min_cell_size`` of these."""
        rare: BoolVector = np.zeros_like(further)
        if self._complete is not None and (categories := self._categories[variable]):
            codes = self._rows.column(variable)[further].astype(np.int64)
            counts = np.bincount(codes, minlength=categories)
            rare[further] = counts[codes] < self._min_cell_size
        return rare

    def _may_disclose(self, rows: BoolVector) -> bool:
        disclosed, min_cell_size = int(rows.sum()), self._min_cell_size
        further = 0 if self._complete is None else int((rows & ~self._complete).sum())
        return (
            disclosed >= min_cell_size
            and not _few(self.rows - disclosed, min_cell_size)
            and not _few(further, min_cell_size)
        )


def suppress_small_counts(counts: IndexArray, min_cell_size: int) -> IndexArray:
    """Suppress small counts of categories, and a further one that would follow, shape (K,).

    Together the suppressed categories have 0 rows, or at least ``min_cell_size``: where the small
    ones have fewer, the smallest of the others is suppressed too (complementary suppression).
    """
    hidden = (counts > 0) & (counts < min_cell_size)
    if _few(int(counts[hidden].sum()), min_cell_size):
        others = np.flatnonzero(counts >= min_cell_size)
        hidden[others[np.argsort(counts[others], kind="stable")[:1]]] = True
    return np.where(hidden, 0, counts)


def snap_to_safe_counts(up_to: IndexArray, total: int, min_cell_size: int) -> IndexArray:
    """Counts up to marks, shape (M,), between which lie 0 or ``min_cell_size`` values, ends too.

    Counts that are far enough from one another stay, the others become the nearest of these.
    """
    if min_cell_size <= 1 or total == 0:
        return up_to
    safe = [0]
    for count in up_to.tolist():
        if count - safe[-1] >= min_cell_size and total - count >= min_cell_size:
            safe.append(count)
    ends = np.array([*safe, total])
    above = np.searchsorted(ends, up_to)
    below = np.maximum(above - 1, 0)
    return np.where(ends[above] - up_to < up_to - ends[below], ends[above], ends[below])


def _spread(values: FloatVector, spare: BoolVector, count: int) -> BoolVector:
    """So many of the spare rows, evenly from the smallest value to the largest; all if too few."""
    order = np.flatnonzero(spare)[np.argsort(values[spare], kind="stable")]
    left = np.zeros_like(spare)
    left[order[(2 * np.arange(count) + 1) * len(order) // (2 * count)] if len(order) else []] = True
    return left


def _few(count: int, min_cell_size: int) -> bool:
    return 0 < count < min_cell_size
