"""Questions that describe columns one by one: sums, and counts up to public marks.

Leaks:
    A site that restricts small counts leaves out no row or value, or at least ``min_cell_size`` of
    them. The rows of two questions differ by none or by as many, too
    (`sites.compute.descriptions.described`).
"""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.disclosure import Quantity, of_any, sums
from cipherdag.questions.encodings import Encoding, OnScales, moment_encoding
from cipherdag.questions.pooled_data import (
    check_categories,
    check_cells,
)
from cipherdag.questions.question import Question

MOST_MARKS = 1024


class _Described(OnScales, Question, frozen=True):
    """Base of questions about single columns, whose numbers are on common scales.

    Attributes:
        categories: Number of categories of every variable, 0 for a continuous one, shape (p,).
        origins: Packed 64-bit floats, one per continuous column, that are taken off its numbers.
        units: Packed binary exponents of what the numbers are then divided by, likewise.
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

    The answer has the rows that the site describes, then the sums of continuous columns and their
    sums of squares, in common units from common origins. A comparison says whether the site leaves
    out rows. Three more per column say whether it leaves out values, has a number beyond
    `LARGEST_DEVIATION` units (then it tells nothing of the column), and winsorises values that
    too few rows would dominate. Last comes the number of values of each column.
    """

    discloses = (
        *of_any(Quantity.LEFT_OUT),
        *sums(Quantity.ROWS, Quantity.VALUES, Quantity.SUMS),
    )
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
    mark; and whether the site answers for each column. Rows are those of `ColumnSums` on the same
    scales. A site that restricts small counts reports a rare category only together with others,
    as the remainder of the values. It also moves values past a mark, so that none or enough of
    them lie between any two marks.

    Attributes:
        marks: Packed 64-bit floats, ascending, equally many for every continuous column.
    """

    discloses = (*of_any(Quantity.LEFT_OUT), *sums(Quantity.COUNTS))
    countable = True
    by_patient = True

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
