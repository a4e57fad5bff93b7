"""What is asked of tables whose cells are compared and not opened: how much each cell varies.

Of two categories one cell says what both do, since rows and columns of differences add up to 0; so
a table of 2 by 2 has one cell here, one of 3 by 2 three, one of 3 by 3 nine.

Leaks:
    Every site and whoever carries the messages see which triplets are tested, by position. Of every
    cell the sum over the sites of its variances, which the margins of their tables give.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import msgspec
import numpy as np

from cipherdag.questions.encodings import Encoding, IndexArray, finest_grid
from cipherdag.questions.stratified import StratifiedTables

VARIANCE_BITS = 8
"""Of the grid of variances: a finer one would tell more of the margins, and decide no verdict."""


class TableCells(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, tag="table-cells"
):
    """How much the count of every cell varies where x and y are independent given S.

    Of the site's n rows of a configuration of S, r of them of a category of x, c of one of y: r (n
    - r) c (n - c) / (n**2 (n - 1)), added up over the configurations. Cells come row by row,
    triplet by triplet; after them there is 1 for every triplet of which any cell varies at the
    site, else 0, which serves to count such sites. Of a variable with two categories the first
    alone has cells. With ``differences`` the answer begins with how many more rows each cell has
    than O = r c / n, added up likewise.

    Leaks:
        The coordinator learns, per cell, the sum of the variances over the sites. Of differences,
        which are never opened, see `CellVerdicts`.

    Attributes:
        tables: Of which triplets. Strata leave out the rows that they do there.
        differences: Whether differences are answered, too.
    """

    leaves: ClassVar[str] = "how much counts vary where variables are independent"

    tables: StratifiedTables
    differences: bool = False

    @property
    def max_rows(self) -> int:
        """Declared bound of a site's rows."""
        return self.tables.max_rows

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"cells of {self.n_tests} tests, |S| <= {len(self.tables.counts) - 1}"

    @property
    def n_tests(self) -> int:
        """Number of triplets, B."""
        return sum(self.tables.counts)

    @cached_property
    def sides(self) -> IndexArray:
        """How many rows and columns of every triplet's table have cells, shape (B, 2)."""
        return cell_sides(self.tables.strata.sides[:, 1:])

    @cached_property
    def owner(self) -> IndexArray:
        """The triplet of every cell, shape (K,)."""
        return np.repeat(np.arange(self.n_tests), self.sides.prod(axis=1))

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Differences, if asked for; variances, and which triplets vary."""
        cells, rows = len(self.owner), float(self.max_rows)
        variances = Encoding(length=cells + self.n_tests, bound=rows, resolution_bits=VARIANCE_BITS)
        if not self.differences:
            return (variances,)
        bits = finest_grid(self.max_rows)
        return (
            Encoding(length=cells, bound=rows / 4.0, resolution_bits=bits, signed=True),
            variances,
        )


def cell_sides(categories: IndexArray) -> IndexArray:
    """How many categories have cells: of two the first alone, shape as given."""
    sides: IndexArray = np.where(categories == 2, 1, categories)  # noqa: PLR2004
    return sides
