"""Questions that describe columns one by one: sums, and counts up to public marks.

Leaks:
    Where some site restricts small counts, only their totals over sites are opened, in whole units.
    The number of values in its sums then differs by whole steps from a number of rows that is
    opened anyway, and so tells no exact count (`sites.compute.descriptions.described`).
"""

from typing import ClassVar

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.disclosure import Disclosure, Quantity, in_units, of_any, sums
from cipherdag.questions.encodings import Encoding, OnScales, moment_encoding, unpack_floats
from cipherdag.questions.pooled_data import check_categories, check_cells
from cipherdag.questions.question import Question

MOST_MARKS = 1024


class _Described(OnScales, Question, frozen=True):
    """Base of questions about single columns, whose numbers are on common scales."""

    categories: tuple[int, ...]
    # packed 64-bit floats, one per continuous column, that are taken off its numbers
    origins: bytes
    units: bytes  # packed binary exponents of what the numbers are then divided by, likewise
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        if not len(self.origins) == len(self.units) == 8 * self.categories.count(0):
            raise ValueError("origins and units must be as many as continuous columns")
        self.check_scales()


class ColumnSums(_Described, frozen=True, tag="column-sums"):
    """Asks for the number of values of each column, and the sum and squares of its numbers.

    The answer has the number of rows, then the sums of continuous columns and their sums of
    squares, in common units from common origins. Three comparisons per column say whether the site
    has a number beyond `LARGEST_DEVIATION` units (then it tells nothing of the column), winsorises
    values since a few rows would dominate the sums, and has a few values far beyond all others.
    Last comes the number of values of each column. A site that restricts small counts leaves out
    some rows and values, or counts some twice, so that no number of them shows a small count.
    """

    discloses = (*of_any(Quantity.LEFT_OUT), *sums(Quantity.ROWS, Quantity.VALUES, Quantity.SUMS))
    countable = True
    by_patient = True

    @property
    def label(self) -> str:
        return f"sums of {len(self.categories)} columns"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """The segments of the class, in order; sums on the grid that `Moments` has."""
        p, numbers = len(self.categories), self.categories.count(0)
        return (
            Encoding(1, float(self.max_rows), sums(Quantity.ROWS)),
            moment_encoding(numbers, self.max_rows, sums(Quantity.SUMS)),
            moment_encoding(numbers, self.max_rows, sums(Quantity.SUMS), signed=False),
            Encoding(3 * p, 1.0, of_any(Quantity.LEFT_OUT), comparison=True),
            Encoding(p, float(self.max_rows), sums(Quantity.VALUES)),
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        numbers = parts[np.array(self.categories) == 0]
        always = np.ones(3 * len(parts), dtype=bool)
        return np.concatenate([[True], numbers, numbers, always, parts])


class ValueCounts(_Described, frozen=True, kw_only=True, tag="value-counts"):
    """Asks for the frequency of each category, and how many numbers lie up to each mark.

    The answer has, variable by variable, the counts of its categories, or of its numbers up to each
    mark; and whether the site answers for each column. A site that restricts small counts refuses
    to, and answers `RoundedTotals` of them: of its rows, of the values of each column, and of these
    counts. The first of two categories is left out there, and is taken as the rest of the values:
    rounded, it would tell together with the other two numbers what rounding cut off.
    """

    discloses = (*of_any(Quantity.LEFT_OUT), *sums(Quantity.COUNTS))
    rounded: ClassVar[tuple[Disclosure, ...]] = in_units(
        Quantity.ROWS, Quantity.VALUES, Quantity.COUNTS
    )
    countable = True
    by_patient = True

    marks: bytes  # packed 64-bit floats, equally many for every continuous column that is counted
    omitted: tuple[int, ...] = ()  # positions of columns that are not counted, ascending

    def __post_init__(self) -> None:
        super().__post_init__()
        if [*self.omitted] != sorted({*self.omitted} & {*range(len(self.categories))}):
            raise ValueError("columns that are not counted must ascend, and be some of the columns")
        continuous = self._n_marked
        if len(self.marks) % (8 * max(continuous, 1)) or (self.marks and not continuous):
            raise ValueError("continuous columns must have equally many marks")
        marks = self.mark_array()
        if not np.isfinite(marks).all():
            raise ValueError("the marks of a column must be finite")
        if marks.shape[1] > MOST_MARKS:
            raise ValueError(f"a continuous column has at most {MOST_MARKS} marks")
        check_cells(np.maximum(self.widths(), 1).astype(np.float64))

    @property
    def _n_marked(self) -> int:
        return sum(not self.categories[v] for v in self.counted.tolist())

    @property
    def counted(self) -> IndexArray:
        """Positions of the columns that are counted, ascending."""
        return np.setdiff1d(np.arange(len(self.categories)), self.omitted)

    def mark_array(self) -> FloatVector:
        """The marks of every continuous column that is counted, shape (c, M)."""
        packed = unpack_floats(self.marks)
        continuous = self._n_marked
        return packed.reshape(continuous, len(packed) // continuous if continuous else 0)

    def widths(self) -> IndexArray:
        """How many counts every variable has, shape (p,)."""
        sides, widths = np.array(self.categories), np.zeros(len(self.categories), dtype=np.int64)
        counted = self.counted
        widths[counted] = np.where(sides == 0, self.mark_array().shape[1], sides)[counted]
        return widths

    def in_units(self) -> BoolVector:
        """Which counts are rounded, (sum of widths,): all but the first of two categories."""
        widths = self.widths()
        pairs = (np.array(self.categories) == 2) & (widths > 0)  # noqa: PLR2004
        asked = np.ones(widths.sum(), dtype=bool)
        asked[(np.cumsum(widths) - widths)[pairs]] = False
        return asked

    @property
    def n_counts(self) -> int:
        """How many counts are rounded: of rows, of each column's values, then `in_units`."""
        return 1 + len(self.counted) + int(self.in_units().sum())

    def of_units(self, floors: IndexArray) -> tuple[int, IndexArray, list[IndexArray]]:
        """The ``floors``, (n_counts,), as units of rows, of columns' values, and of their counts.

        The values have shape (p,); the first of two categories has what the second leaves of them.
        """
        asked, counted = self.in_units(), self.counted
        values, counts = (
            np.zeros((len(self.categories),), np.int64),
            np.zeros(asked.shape, np.int64),
        )
        values[counted], counts[asked] = np.split(floors[1:], [len(counted)])
        parts = np.split(counts, np.cumsum(self.widths())[:-1])
        for part, sides, total in zip(parts, self.categories, values.tolist(), strict=True):
            if sides == 2:  # noqa: PLR2004
                part[:1] = total - part[1:]
        return int(floors[0]), values, parts

    @property
    def label(self) -> str:
        return f"counts of {len(self.categories)} columns"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return (
            Encoding(int(self.widths().sum()), float(self.max_rows), sums(Quantity.COUNTS)),
            Encoding(len(self.categories), 1.0, of_any(Quantity.LEFT_OUT), comparison=True),
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        return np.concatenate([np.repeat(parts, self.widths()), parts])
