"""Questions that describe columns one by one: sums, and counts up to public marks.

Leaks:
    A site that restricts small counts answers of rows that it can tell of: those that it leaves
    out, of a column or of all, are none or at least its ``min_cell_size``, and so are those by
    which they differ from those of other questions (`sites.compute.descriptions.described`).
"""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.disclosure import Quantity, of_any, sums
from cipherdag.questions.encodings import Encoding, moment_encoding
from cipherdag.questions.pooled_data import (
    OnScales,
    check_categories,
    check_cells,
)
from cipherdag.questions.question import Question

MOST_MARKS = 1024


class _Described(OnScales, Question, frozen=True):
    """Columns, and the scales on which a site's numbers may be too large to tell.

    Attributes:
        categories: Number of categories of every variable, 0 for a continuous one, shape (p,).
        origins: Packed 64-bit floats, one per continuous column.
        units: Packed binary exponents, one per continuous column.
        max_rows: Declared bound of a site's rows.
    """

    categories: tuple[int, ...]
    origins: bytes
    units: bytes
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        if not len(self.origins) == len(self.units) == 8 * self.categories.count(0):
            raise ValueError("origins and units must be as many as continuous columns")
        self.check_scales()


class ColumnSums(_Described, frozen=True, tag="column-sums"):
    """Asks for the number of values of each column, and the sum and squares of its numbers.

    The answer has the rows that the site describes; of continuous columns the sums, then the sums
    of squares, in common units from common origins; comparisons: whether the site leaves out rows
    altogether, and of every column whether it leaves out values, whether it has a number beyond
    `LARGEST_DEVIATION` units (then it tells nothing of the column), and whether it draws in values
    that fewer rows than it may tell of would dominate; and how many values each column has.
    """

    discloses = (
        *of_any(Quantity.LEFT_OUT),
        *sums(Quantity.ROWS, Quantity.VALUES, Quantity.SUMS),
    )
    countable = True

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
            Encoding(1 + 3 * p, 1.0, of_any(Quantity.LEFT_OUT), comparison=True),
            Encoding(p, float(self.max_rows), sums(Quantity.VALUES)),
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        numbers = parts[np.array(self.categories) == 0]
        always = np.ones(1 + 3 * len(parts), dtype=bool)
        return np.concatenate([always[:1], numbers, numbers, always, parts])


class ValueCounts(_Described, frozen=True, kw_only=True, tag="value-counts"):
    """Asks for the frequency of each category, and how many numbers lie up to each mark.

    The answer has, variable by variable, the counts of its categories, or of its numbers up to each
    mark; and whether it tells of each column. It is of the rows of `ColumnSums` on the same scales.
    A site that restricts small counts tells a category that few rows have only together with
    others, as what is left of the values; and moves values past a mark, so that between any two
    marks it has either none or enough of them.

    Attributes:
        marks: Packed 64-bit floats, ascending, equally many for every continuous column.
    """

    discloses = (*of_any(Quantity.LEFT_OUT), *sums(Quantity.COUNTS))
    countable = True

    marks: bytes

    def __post_init__(self) -> None:
        super().__post_init__()
        continuous = self.categories.count(0)
        if len(self.marks) % (8 * max(continuous, 1)) or (self.marks and not continuous):
            raise ValueError("continuous columns must have equally many marks")
        marks = self.mark_array()
        if not np.isfinite(marks).all() or (np.diff(marks, axis=1) < 0.0).any():
            raise ValueError("the marks of a column must be finite and ascend")
        if continuous and not 1 <= marks.shape[1] <= MOST_MARKS:
            raise ValueError(f"a continuous column has 1 to {MOST_MARKS} marks")
        check_cells(self.widths().astype(np.float64))

    def mark_array(self) -> FloatVector:
        """The marks of every continuous column, shape (c, M)."""
        packed = np.frombuffer(self.marks, dtype="<f8").astype(np.float64)
        continuous = self.categories.count(0)
        return packed.reshape(continuous, len(packed) // continuous if continuous else 0)

    def widths(self) -> IndexArray:
        """How many counts every variable has, shape (p,)."""
        categories = np.array(self.categories, dtype=np.int64)
        return np.where(categories == 0, self.mark_array().shape[1], categories)

    @property
    def label(self) -> str:
        return f"counts of {len(self.categories)} columns"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Counts, and one comparison of every column."""
        return (
            Encoding(int(self.widths().sum()), float(self.max_rows), sums(Quantity.COUNTS)),
            Encoding(len(self.categories), 1.0, of_any(Quantity.LEFT_OUT), comparison=True),
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        return np.concatenate([np.repeat(parts, self.widths()), parts])
