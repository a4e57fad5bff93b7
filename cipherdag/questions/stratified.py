"""What a coordinator asks for the site-stratified test of categories: sums over sites and strata.

A stratum is one configuration of the conditioning set; at each site it is a table of its own, so
that sites whose distributions differ are never compared with one another. Sites add their strata
up. Where sums stay closed (`TableCells`), cells are compared one by one.

Source: Mantel and Haenszel, JNCI 22 (1959) 719-748; Landis, Heyman and Koch, International
Statistical Review 46 (1978) 237-254; Agresti, Categorical Data Analysis, section 8.4.

Leaks:
    Every site and whoever carries the messages see which triplets are tested, by position. The
    coordinator sees the sums over the sites that `StratifiedTables` lists, per test, or those that
    `TableCells` does, per cell.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import msgspec
import numpy as np

from cipherdag.questions.encodings import (
    BoolVector,
    Encoding,
    FloatVector,
    IndexArray,
    finest_grid,
    unpack_blocks,
)
from cipherdag.questions.pooled_data import check_categories, check_cells
from cipherdag.questions.weighted_evidence import check_triplets

OWN_VALUES = 2
"""Of a site's own test: its score, and 1."""
COARSE_BITS = 4
"""Of likelihoods and regrets that are opened: finer ones tell the counts that they are of."""
CELL_BITS = 10
"""Of differences and variances: what all sites round off is far below what a single row adds."""
SPREAD = 0.1
"""By up to which share a site moves the variances of a test, twice."""
SPREAD_VARIANCE = 2.0 * SPREAD**2 / 3.0
"""Of the factor that these moves come to."""
JOLT = 0.25
"""Of a difference's standard deviation, how far a site moves it, times numbers from -1 to 1."""


class StratifiedTables(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, tag="stratified-tables"
):
    """How far the tables of x and y lie from independence, within the configurations of S.

    Of the site's n rows that are complete in the test and have a configuration, with counts r of
    the categories of x, c of those of y, and O of both, there are, cell by cell: O - r c / n, and
    its variance given r and c, r (n - r) c (n - c) / (n**2 (n - 1)). Of a variable with two
    categories the first alone has cells. A configuration in which x or y has one category only, or
    n is below 2 or the site's ``min_cell_size``, adds nothing. The answer has, triplet by triplet,
    both added up over the configurations, all differences first: its whole.

    Then, for every triplet, the site's own tests: the normal score of the p-value of its whole, and
    where S is not empty of the sums of squares of its configurations, each with a 1 beside; 0 where
    nothing varies enough there. Sums over the sites of wholes see an association that runs through
    all sites and configurations; those of own tests also one that is every site's own, or turns
    from configuration to configuration.

    Leaks:
        The coordinator learns, per triplet, summed over the sites and the configurations: how many
        more rows lie in every cell than independence would have, and the variances, to 2**-10. For
        two categories each these are two numbers. A site that restricts small counts blurs both
        (`SPREAD`, `JOLT`), anew for every table and way of splitting its rows: from exact ones, or
        with a factor for every variable, the tests of one run over three sites have one solution,
        which is every site's margins and tables of two variables. Coarser grids hide no more of
        what is blurred, and make the sums of many small parts wrong. Also the sums of the sites'
        own scores, and of how many sites they are: a score tells how likely a table is given its
        margins, whatever these are, where chi-squares and degrees of freedom told the margins, too.
        Nothing of one configuration is told apart.

    Attributes:
        categories: Number of categories of every variable, shape (p,).
        counts: How many triplets have |S| = 0, 1, 2, ...
        members: Packed positions as in `WeightedEvidence`.
        max_rows: Declared bound of a site's rows.
    """

    leaves: ClassVar[str] = "by how much counts differ from independence"

    categories: tuple[int, ...]
    counts: tuple[int, ...]
    members: bytes
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        check_triplets(self.counts, self.members, len(self.categories), self.max_rows)
        sides = np.array(self.categories, dtype=np.float64)
        for rows in self.rows():
            if rows.size and (sides[rows[:, :2]] < 2.0).any():  # noqa: PLR2004
                raise ValueError("x and y must have two categories at least")
            check_cells(sides[rows].prod(axis=1))

    def rows(self) -> list[IndexArray]:
        """The triplets by size of S: positions of shape (B_l, 2 + l)."""
        blocks = unpack_blocks(self.counts, self.members, narrowest=2)
        return [block.astype(np.int64) for block in blocks]

    @property
    def n_tests(self) -> int:
        """Number of triplets, B."""
        return sum(self.counts)

    @cached_property
    def sides(self) -> IndexArray:
        """Configurations of S, and categories of x and of y, of every triplet, shape (B, 3)."""
        own = np.array(self.categories, dtype=np.int64)
        parts = [
            np.column_stack([own[rows[:, 2:]].prod(axis=1), own[rows[:, :2]]])
            for rows in self.rows()
        ]
        return np.concatenate([np.zeros((0, 3), dtype=np.int64), *parts])

    @cached_property
    def widths(self) -> IndexArray:
        """How many values every part has: wholes, own tests of them, and of configurations."""
        return np.concatenate([whole_values(self.sides), np.full(2 * self.n_tests, OWN_VALUES)])

    @property
    def n_parts(self) -> int:
        """Number of wholes, and of own tests of either kind, one of each a triplet."""
        return 3 * self.n_tests

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"tables of {self.n_tests} tests, |S| <= {len(self.counts) - 1}"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """All values of all parts: the most is a quarter of the rows, of two even categories."""
        return (
            Encoding(
                length=int(self.widths.sum()),
                bound=self.max_rows / 4.0,
                resolution_bits=CELL_BITS,
                signed=True,
            ),
        )

    def where(self, chosen: BoolVector) -> BoolVector:
        """Which values of an answer are those of some parts, shape (number of values,)."""
        return np.repeat(chosen, self.widths)

    def informative(self, answer: FloatVector) -> BoolVector:
        """Which parts an answer says something of, shape (number of parts,)."""
        widths = self.widths
        if not len(widths):
            return np.zeros(0, dtype=bool)
        found: BoolVector = np.logical_or.reduceat(answer != 0.0, np.cumsum(widths) - widths)
        return found


def whole_values(sides: IndexArray) -> IndexArray:
    """How many values the whole of each triplet has: a difference and a variance of every cell.

    Args:
        sides: Configurations, categories of x and of y, shape (B, 3).
    """
    values: IndexArray = 2 * cell_sides(sides[:, 1:]).prod(axis=1)
    return values


class TableCells(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, tag="table-cells"
):
    """How much the count of every cell varies where x and y are independent given S.

    Of the site's n rows of a configuration of S, r of them of a category of x, c of one of y: r (n
    - r) c (n - c) / (n**2 (n - 1)), added up over the configurations. Cells come row by row,
    triplet by triplet; of a variable with two categories the first alone has cells. Then comes for
    every triplet 1 where the site's own test of it has a score, which is compared as the difference
    of a cell is: where S is empty that of all rows, else that of its configurations, as in
    `StratifiedTables`. Last there is 1 for every triplet of which any cell varies at the site, else
    0, which serves to count such sites. With ``differences`` the answer begins with how many more
    rows each cell has than O = r c / n, added up likewise, and the scores.

    Leaks:
        The coordinator learns, per cell, the sum of the variances over the sites, to 2**-10, and
        per triplet how many sites have a score. Of differences and scores, which are never
        opened, see `CellVerdicts`.

    Attributes:
        tables: Of which triplets. Configurations add what they do there.
        differences: Whether differences are answered, too.
    """

    leaves: ClassVar[str] = (
        "how much counts vary where variables are independent, and how many test"
    )

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
        return self.tables.n_tests

    @cached_property
    def sides(self) -> IndexArray:
        """How many rows and columns of every triplet's table have cells, shape (B, 2)."""
        return cell_sides(self.tables.sides[:, 1:])

    @cached_property
    def owner(self) -> IndexArray:
        """The triplet of every cell, and then of every score, shape (K,)."""
        every = np.arange(self.n_tests)
        return np.concatenate([np.repeat(every, self.sides.prod(axis=1)), every])

    @property
    def one_sided(self) -> BoolVector:
        """What is compared to one side only: scores, shape (K,)."""
        return np.arange(len(self.owner)) >= len(self.owner) - self.n_tests

    def with_differences(self) -> TableCells:
        """The same cells, with differences."""
        return TableCells(tables=self.tables, differences=True)

    def of(self, answer: FloatVector) -> FloatVector:
        """The answer to this question from that with differences."""
        return answer if self.differences else answer[len(self.owner) :]

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Differences, if asked for; variances, and which triplets vary."""
        cells, rows = len(self.owner), float(self.max_rows)
        variances = Encoding(length=cells + self.n_tests, bound=rows, resolution_bits=CELL_BITS)
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
