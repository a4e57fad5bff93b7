"""What a coordinator asks for the site-stratified test of categories: sums over sites by stratum.

A stratum is one configuration of the conditioning set; at each site it is a table of its own, so
that sites whose distributions differ are never compared with one another. Where sums stay closed
(`TableCells`), strata are added up at the sites, and cells are compared one by one.

Source: Mantel and Haenszel, JNCI 22 (1959) 719-748; Landis, Heyman and Koch, International
Statistical Review 46 (1978) 237-254; Agresti, Categorical Data Analysis, section 8.4.

Leaks:
    Every site and whoever carries the messages see which triplets are tested, by position. The
    coordinator sees the sums over the sites that `StratifiedTables` lists, per stratum, or those
    that `TableCells` does, per cell.
"""

from __future__ import annotations

from dataclasses import dataclass
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
"""Of a site's own test: its chi-square and its degrees of freedom."""
OWN_SCALE = 0.125
"""What both are multiplied by, so that no chi-square that matters is beyond the bound."""
COARSE_BITS = 4
"""Of differences and variances that are opened: finer ones tell the counts that they are of."""
SPREAD = 0.1
"""By up to which share a site moves a variance, twice, anew for every table."""
JOLT = 0.25
"""Of a difference's standard deviation, how far a site moves it, times numbers from -1 to 1."""
VARIANCE_BITS = 8
"""Of the grid of variances: a finer one tells more of the margins, and changes hardly a verdict."""


@dataclass(frozen=True, slots=True)
class Strata:
    """Where the strata of all triplets stand in an answer, triplet by triplet.

    Attributes:
        sides: Configurations of S, and categories of x and of y, of every triplet, shape (B, 3).
        first: First stratum of every triplet, shape (B,).
        owner: Triplet of every stratum, shape (U,).
        widths: How many values every stratum has, shape (U,).
        starts: First value of every stratum, shape (U,).
        shapes: Categories of x and of y that occur together, shape (K, 2).
        shape_of: Which of the shapes every stratum has, shape (U,).
    """

    sides: IndexArray
    first: IndexArray
    owner: IndexArray
    widths: IndexArray
    starts: IndexArray
    shapes: IndexArray
    shape_of: IndexArray

    @classmethod
    def of(cls, sides: IndexArray) -> Strata:
        """Those of triplets with these sides."""
        owner = np.repeat(np.arange(len(sides)), sides[:, 0])
        widths = stratum_values(sides)[owner]
        shapes, shape_of = np.unique(sides[:, 1:], axis=0, return_inverse=True)
        return cls(
            sides=sides,
            first=np.cumsum(sides[:, 0]) - sides[:, 0],
            owner=owner,
            widths=widths,
            starts=np.cumsum(widths) - widths,
            shapes=shapes,
            shape_of=shape_of.ravel()[owner],
        )

    @property
    def n_values(self) -> int:
        """Of all strata."""
        return int(self.widths.sum())


class StratifiedTables(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, tag="stratified-tables"
):
    """How far the table of x and y lies from independence in every configuration of S.

    Of the site's n rows that are complete in the test and have the configuration, with counts r of
    the categories of x, c of those of y, and O of both, the answer has, but for the last category
    of each: O - r c' / n, row by row, and the upper triangle of n diag r - r r' times that of n
    diag c - c c', by n**2 (n - 1): the distinct covariances of the former, given r and c. Zero
    throughout where x or y has one category only, and where n is below 2 or the site's
    ``min_cell_size``. Then, for every triplet, the site's own test: the chi-square of its
    differences of all configurations together, an eighth of it, and of its degrees of freedom, to a
    sixteenth of one; less where counts are rare, and both 0 where nothing varies enough there. Sums
    over the sites of the former see an association that the sites have alike, of the latter also
    one that is every site's own. Last, for every triplet, the differences and covariances of all
    its configurations together, which are opened where no configuration is (`enough`).

    Where `Covered` leaves strata out since too few sites have anything to say of them, a site adds
    its own of these to the one of the same triplet that varies most there and that enough have.

    Leaks:
        The coordinator learns, per configuration, both summed over the sites: how many more rows
        lie in every cell than independence at each site would have, and the variances, to a
        sixteenth. For two categories each these are two numbers. A site that restricts small counts
        blurs both (`SPREAD`, `JOLT`), anew for every table: from exact ones, or with a factor for
        every variable, the tests of one run over three sites have one solution, which is every
        site's margins and tables of two variables. So they tell about how large these are where
        sites are few: of 200 rows to two or three, the more tests the nearer. Per triplet, the sums
        of the sites' own chi-squares and degrees of freedom; where too few sites have any
        configuration in common, but enough have one each, only the former two, of all
        configurations together.

    Attributes:
        categories: Number of categories of every variable, shape (p,).
        counts: How many triplets have |S| = 0, 1, 2, ...
        members: Packed positions as in `WeightedEvidence`.
        max_rows: Declared bound of a site's rows.
    """

    leaves: ClassVar[str] = "by how much counts differ from independence, by configuration"

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

    @cached_property
    def strata(self) -> Strata:
        """Of all triplets; their own tests come after them."""
        own = np.array(self.categories, dtype=np.int64)
        parts = [
            np.column_stack([own[rows[:, 2:]].prod(axis=1), own[rows[:, :2]]])
            for rows in self.rows()
        ]
        return Strata.of(np.concatenate([np.zeros((0, 3), dtype=np.int64), *parts]))

    def wholes(self, values: FloatVector) -> FloatVector:
        """The sums of every triplet's strata, one triplet after the other, from their values."""
        strata = self.strata
        widths = stratum_values(strata.sides)
        first = np.cumsum(widths) - widths
        value = np.arange(len(values)) - np.repeat(strata.starts, strata.widths)
        place = np.repeat(first[strata.owner], strata.widths) + value
        sums = np.bincount(place, weights=values, minlength=int(widths.sum()))
        return np.asarray(sums, dtype=np.float64)

    @cached_property
    def widths(self) -> IndexArray:
        """How many values every part has: strata, triplet by triplet, own tests, and wholes."""
        own = np.full(sum(self.counts), OWN_VALUES)
        return np.concatenate([self.strata.widths, own, stratum_values(self.strata.sides)])

    @property
    def n_parts(self) -> int:
        """Number of strata of all triplets, and of own tests and wholes, one of each a triplet."""
        return len(self.widths)

    def enough(self, able: BoolVector) -> BoolVector:
        """Which parts are opened if able sites are enough for some, shape (number of parts,).

        A whole is opened where no stratum of its triplet is: beside one it would tell the others.
        """
        strata, n_tests = self.strata, len(self.strata.first)
        some = np.bincount(strata.owner[able[: len(strata.owner)]], minlength=n_tests) > 0
        chosen = able.copy()
        chosen[len(able) - n_tests :] &= ~some
        return chosen

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"strata of {sum(self.counts)} tests, |S| <= {len(self.counts) - 1}"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """All values of all parts."""
        return self.of_parts(np.ones(self.n_parts, dtype=bool))

    def of_parts(self, chosen: BoolVector) -> tuple[Encoding, ...]:
        """The values of some parts: the most is a quarter of the rows, of two even categories."""
        return (
            Encoding(
                length=int(self.widths[chosen].sum()),
                bound=self.max_rows / 4.0,
                resolution_bits=COARSE_BITS,
                signed=True,
            ),
        )

    def where(self, chosen: BoolVector) -> BoolVector:
        """Which values of an answer are those of some parts, shape (number of values,)."""
        return np.repeat(chosen, self.widths)

    def merged(self, answer: FloatVector, chosen: BoolVector) -> FloatVector:
        """The values of some parts; a triplet's other strata are added to that of most variance.

        That is the site's own, told from its counts alone: of a column and a coarser one, whose
        strata are the same in another order, no difference is left. Where no chosen stratum varies
        at the site, it says nothing of the others either.
        """
        strata = self.strata
        starts, widths, of_strata = strata.starts, strata.widths, chosen[: len(strata.owner)]
        if not len(widths):
            return answer
        values = answer[: strata.n_values]
        largest = self._largest(values, of_strata)[strata.owner]
        target = np.where(of_strata, np.arange(len(of_strata)), largest)
        place = np.arange(len(values)) + np.repeat(starts[target] - starts, widths)
        kept = np.repeat(target >= 0, widths)
        found = np.bincount(place[kept], weights=values[kept], minlength=len(values))
        return np.concatenate([found, answer[len(values) :]])[self.where(chosen)]

    def _largest(self, values: FloatVector, chosen: BoolVector) -> IndexArray:
        """The first chosen stratum of most variance of every triplet, shape (B,); -1: none varies.

        Covariances alone tell, which the margins of a table give.
        """
        strata = self.strata
        differences = (strata.shapes - 1).prod(axis=1)[strata.shape_of]
        first = np.repeat(strata.starts + differences, strata.widths)
        variances = np.where(np.arange(len(values)) >= first, np.abs(values), 0.0)
        size = np.where(chosen, np.add.reduceat(variances, strata.starts), 0.0)
        most = np.maximum.reduceat(size, strata.first)
        best = np.flatnonzero((size == most[strata.owner]) & (size > 0.0))
        largest = np.full(len(strata.first), -1)
        largest[strata.owner[best[::-1]]] = best[::-1]
        return largest

    def informative(self, answer: FloatVector) -> BoolVector:
        """Which parts an answer says something of, shape (number of parts,)."""
        widths = self.widths
        if not len(widths):
            return np.zeros(0, dtype=bool)
        found: BoolVector = np.logical_or.reduceat(answer != 0.0, np.cumsum(widths) - widths)
        return found


def stratum_values(sides: IndexArray) -> IndexArray:
    """How many values each stratum of triplets has: differences, and distinct covariances.

    Args:
        sides: Configurations, categories of x and of y, shape (B, 3).
    """
    a, b = sides[:, 1] - 1, sides[:, 2] - 1
    values: IndexArray = a * b + (a * (a + 1) // 2) * (b * (b + 1) // 2)
    return values


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
