"""Questions of the pooled data's tests: kinds of columns, contingency tables, and moments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.combined_evidence import MAX_ROWS_LIMIT
from cipherdag.questions.disclosure import Quantity, coarse, of_any, rounded, sums
from cipherdag.questions.encodings import (
    LARGEST_UNIT,
    MAX_VARIABLES,
    Encoding,
    OnScales,
    check_ascending,
    check_blocks,
    mean_of,
    moment_encoding,
    position_sets,
    require_possible,
    segments,
)
from cipherdag.questions.question import KINDS_ALONE, PATIENTS_COUNTED, Question, tag_of

MAX_CATEGORIES, MAX_CELLS = 1 << 20, 1 << 24
"""Most categories of a column, and most cells of one table, that any site counts."""
LOCATION_EXPONENT, LOCATION_BITS, SPREAD_BITS = 100, 50, 20
LARGEST_LOCATION, LARGEST_SPREAD = 1024.0, 2048.0
FEWEST_ORDERED = 3  # fewest categories whose order matters
_FLAGS = Quantity.MISSING, Quantity.RESTRICTED


class Columns(Question, frozen=True, tag="columns"):
    """Asks for the types of the columns, and for hints of where their numbers lie.

    The answer has: 1, and the site's rows; the number of categories of every variable, 0 for a
    continuous one; of every continuous one a hint of location, ``asinh(2**100 mean)``, then the
    binary logarithm of its standard deviation, and 1 for it; where the deviation is 0, the
    logarithm of its largest value instead, and 1 for that. Comparisons follow: what `ColumnKinds`
    says of missing values, small counts and, where asked, ``order`` and ``few``.

    The hints (``marks``) only choose a common unit and origin for `Moments`, so their means may be
    rough (`cipherdag.sites.compute.descriptions.location_scale_hints`). A site that restricts small
    counts answers 0 where it has too few rows, or values of a column, to disclose.

    Attributes:
        order: Whether to say which variables have categories in an order.
        few: Whether to say which variables have numbers of few values that tell small counts.
        marks: Whether to answer the hints of continuous variables; else nothing is said of values.
        every: Whether the rows bound all sums: incomplete ones then count, and few as the minimum.
        visits: Most rows of a patient at any site; above 1 patients are counted, too.
    """

    discloses = (
        *of_any(*_FLAGS, Quantity.ORDERED, Quantity.FEW_VALUES),
        *sums(Quantity.ROWS, Quantity.PATIENTS, Quantity.CATEGORIES, Quantity.SITES),
        *rounded(Quantity.LOCATIONS),
    )
    resamplable = True
    countable = True
    opens_without_parts = True
    by_patient = True

    n_variables: int
    max_rows: int = 1 << 20
    order: bool = False
    few: bool = False
    marks: bool = True
    every: bool = False
    visits: int = 1

    def __post_init__(self) -> None:
        check_study(self.n_variables, self.max_rows)

    @property
    def label(self) -> str:
        return f"kinds of {self.n_variables} variables{', and where numbers lie' * self.marks}"

    @property
    def recorded_as(self) -> frozenset[str]:
        counted = [PATIENTS_COUNTED] * (self.visits > 1)
        return frozenset({tag_of(type(self)) if self.marks else KINDS_ALONE, *counted})

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        p, each = self.n_variables, self.n_variables * self.marks
        hint = partial(Encoding, each, discloses=rounded(Quantity.LOCATIONS), signed=True)
        location = hint(LARGEST_LOCATION, resolution_bits=LOCATION_BITS)
        spread = hint(LARGEST_SPREAD, resolution_bits=SPREAD_BITS)
        having = Encoding(each, 1.0, sums(Quantity.SITES))
        more = [Quantity.ORDERED] * self.order + [Quantity.FEW_VALUES] * self.few
        return (
            Encoding(2, float(self.max_rows), sums(Quantity.ROWS)),
            *[Encoding(1, float(self.max_rows), sums(Quantity.PATIENTS))] * (self.visits > 1),
            Encoding(p, float(MAX_CATEGORIES), sums(Quantity.CATEGORIES)),
            location,
            spread,
            having,
            spread,
            having,
            Encoding(
                p + 1 + p * (self.order + self.few), 1.0, of_any(*_FLAGS, *more), comparison=True
            ),
        )

    @property
    def n_parts(self) -> int:
        return self.n_variables

    @property
    def needs_count(self) -> bool:
        return False  # marks of a column that one site alone has are coarse

    def contributes(self, answer: FloatVector) -> BoolVector:
        """Variables of which an answer has hints of location and scale."""
        *_, spread, _, size, _ = segments(self.encodings, answer)
        return spread + size > 0

    def value_mask(self, parts: BoolVector) -> BoolVector:
        lengths = [encoding.length for encoding in self.encodings]
        marks = [parts] * 5 * self.marks
        first, last = (np.ones(length, dtype=bool) for length in (sum(lengths[:-6]), lengths[-1]))
        return np.concatenate([first, *marks, last])

    def read(self, sums: FloatVector) -> ColumnKinds:
        """Decode the sums over the sites; AggregateRangeError where they contradict each other."""
        p = self.n_variables
        header, *patients, categories, location = (parts := segments(self.encodings, sums))[:-5]
        *marks, flags = parts[-5:]
        if not self.marks:
            location, *marks = np.zeros((5, p))
        sites, rows = header
        in_order = flags[p + 1 : 1 + p * (1 + self.order)] > 0
        few = flags[1 + p * (1 + self.order) :] > 0
        require_possible(self.label, "no site answered", holds=sites >= 1)
        same = (categories % sites == 0).all()
        require_possible(self.label, "sites differ in categories", holds=same)
        kinds = ColumnKinds(
            rows=int(rows),
            categories=(categories / sites).astype(np.int64),
            location=np.nan_to_num(mean_of(location, marks[1] + marks[3])),
            spread=mean_of(*marks[:2]),
            size=mean_of(*marks[2:]),
            incomplete=flags[:p] > 0,
            restricted=bool(flags[p] > 0),
            ordered=in_order if self.order else np.zeros(p, dtype=bool),
            few=few if self.few else np.zeros(p, dtype=bool),
            patients=int(sum(map(np.sum, patients))),
            visits=self.visits,
            complete=bool(flags[p] and categories.any()) and not self.every,
        )
        self._check(kinds)
        return kinds

    def _check(self, kinds: ColumnKinds) -> None:
        most, in_order = kinds.categories.max(), kinds.categories[kinds.ordered]
        require_possible(self.label, "too many categories", holds=most <= MAX_CATEGORIES)
        require_possible(
            self.label, "an order of two categories", holds=(in_order >= FEWEST_ORDERED).all()
        )
        marks = np.nan_to_num(np.concatenate([kinds.spread, kinds.size]))
        with np.errstate(over="ignore"):
            near = np.isfinite(np.sinh(kinds.location)).all() and (abs(marks) <= LARGEST_UNIT).all()
        require_possible(self.label, "values that are no numbers", holds=near)


@dataclass(frozen=True, slots=True)
class ColumnKinds:
    """Types and hints of location and scale of the columns over all sites, arrays of shape (p,)."""

    rows: int  # rows of all sites
    categories: IndexArray  # number of categories; 0 for a continuous variable
    location: FloatVector  # mean hint of location
    spread: FloatVector  # mean binary logarithm of the standard deviation; NaN where none has any
    size: FloatVector  # that of the largest value at sites without a spread; NaN if all are 0
    incomplete: BoolVector  # whether some site misses a value
    restricted: bool  # whether some site restricts small counts
    ordered: BoolVector  # whether three or more categories have an order; False if not asked
    few: BoolVector  # whether numbers of few values tell counts some site restricts; as ``ordered``
    patients: int = 0  # whose rows they are; 0 where every row is a person
    visits: int = 1  # most rows of a patient at any site
    complete: bool = False  # whether rows that miss a value are not counted

    @property
    def repeats(self) -> bool:
        """Whether some patient has two rows."""
        return 0 < self.patients < self.rows

    @property
    def of_patients(self) -> dict[str, list[int]]:
        """Rows and patients as details of a finding; none where every row is a person."""
        which = "complete_visits" if self.complete else "visits"
        return {which: [self.rows, self.patients]} if self.patients else {}


class VariableSets(Question, frozen=True):
    """Base of questions about contingency tables of sets of variables."""

    categories: tuple[int, ...]  # number of categories of every variable, shape (p,)
    counts: tuple[int, ...]  # how many sets have 1, 2, ... variables
    # packed positions, two bytes each, ascending within a set: the sets of one variable, then those
    # of two, and so on
    members: bytes
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        p = len(self.categories)
        check_blocks(self.counts, self.members, 1, most=p, n_variables=p)
        for rows in self.sets():
            check_ascending(rows)
        check_cells(self.cells())

    def sets(self) -> list[IndexArray]:
        """The sets by size from 1: positions of shape (B_k, k)."""
        return position_sets(self.counts, self.members, narrowest=1)

    def cells(self) -> FloatVector:
        """Number of cells of every table, shape (sum of counts,)."""
        sides = np.array(self.categories, dtype=np.float64)
        # floating point: the product of many categories may exceed every integer type
        return np.concatenate([np.zeros(0), *(sides[rows].prod(axis=1) for rows in self.sets())])


class SmallCells(VariableSets, frozen=True, tag="small-cells"):
    """Asks whether the table of each set has counts below the site's ``min_cell_size``.

    The answer is a comparison per set: 1 where the table has a count that is not 0 and below the
    site's ``min_cell_size``.
    """

    discloses = of_any(Quantity.SMALL_COUNTS)
    resamplable = True

    @property
    def label(self) -> str:
        return f"small counts in {sum(self.counts)} tables"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return (Encoding(sum(self.counts), 1.0, self.discloses, comparison=True),)


class Tables(VariableSets, frozen=True, tag="tables"):
    """The contingency table of each set over the site's rows that are complete in it.

    The answer has the counts of every table, the last variable's categories fastest. A site
    refuses a table with a count below its ``min_cell_size``, whatever was asked before.
    """

    discloses = sums(Quantity.TABLES)
    resamplable = True

    @property
    def label(self) -> str:
        return f"{sum(self.counts)} tables of up to {len(self.counts)} variables"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        cells = int(self.cells().sum())
        return (Encoding(cells, float(self.max_rows), self.discloses),)


class Moments(OnScales, Question, frozen=True, tag="moments"):
    """Sums of the columns, in common units from common origins, and of their products.

    Where rows are visits, each counts as much less as rows of a patient are alike, and rows are the
    sum of these weights, a whole number; columns are ``centred`` then.
    The answer has the site's rows, the sums, and the products of columns i <= j row by row. Where
    ``centred``, it also has the rows times the binary logarithm of every column's variance.

    Leaks:
        Exact sums of squares of 0 and 1 tell the counts of three sites. Sites that restrict small
        counts weigh rows at random where ``centred``, and else give no column of few values.
    """

    discloses = (
        *sums(Quantity.ROWS, Quantity.MOMENTS),
        *coarse(Quantity.WITHIN, Quantity.VARIANCES),
    )
    resamplable = True
    by_patient = True

    n_variables: int
    variables: bytes  # packed positions of the columns, ascending; no site misses a value in them
    origins: bytes  # packed 64-bit floats, one per column
    units: bytes  # packed binary exponents, one per column
    max_rows: int = 1 << 20
    centred: bool = False  # whether each site takes its own means off first: the sums are 0 then
    # a byte for every column, 1 where each site also divides by its own standard deviation, so that
    # the squares add up to the rows; empty for none
    standardised: bytes = b""

    def __post_init__(self) -> None:
        check_study(self.n_variables, self.max_rows)
        if len(self.variables) % 8 or not len(self.variables) == len(self.origins) == len(
            self.units
        ):
            raise ValueError("columns, origins and units must be equally many")
        positions = self.positions()
        if positions.size and not (
            positions[0] >= 0
            and positions[-1] < self.n_variables
            and (positions[1:] > positions[:-1]).all()
        ):
            raise ValueError("columns must be ascending positions")
        self.check_scales()
        flags = self.standardised
        if len(flags) not in (0, len(positions) * self.centred) or set(flags) - {0, 1}:
            raise ValueError("columns are standardised where they are centred, or are not")

    def positions(self) -> IndexArray:
        """Positions of the columns, shape (c,)."""
        return np.frombuffer(self.variables, dtype="<i8").astype(np.int64)

    @property
    def label(self) -> str:
        return f"moments of {len(self.variables) // 8} variables"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Rows, sums, products; a grid on which 256 sites' sums still fit every protection."""
        columns = len(self.variables) // 8
        opened = coarse(Quantity.WITHIN) if self.centred else sums(Quantity.MOMENTS)
        products = moment_encoding(columns + columns * (columns + 1) // 2, self.max_rows, opened)
        logarithms = Encoding(
            columns * self.centred,
            float(self.max_rows) * LARGEST_SPREAD,
            coarse(Quantity.VARIANCES),
            resolution_bits=SPREAD_BITS,
            signed=True,
        )
        rows = Encoding(1, float(self.max_rows), sums(Quantity.ROWS))
        return rows, products, logarithms


def check_study(n_variables: int, max_rows: int) -> None:
    """Raise ValueError unless both the number of variables and ``max_rows`` are in range."""
    if not 1 <= n_variables <= MAX_VARIABLES:
        raise ValueError(f"a study has 1 to {MAX_VARIABLES} variables")
    if not 2 <= max_rows <= MAX_ROWS_LIMIT:  # noqa: PLR2004
        raise ValueError(f"max_rows must lie in 2..{MAX_ROWS_LIMIT}")


def check_categories(categories: tuple[int, ...], max_rows: int) -> None:
    """Raise ValueError unless the numbers of categories and ``max_rows`` are in range."""
    check_study(len(categories), max_rows)
    if not all(0 <= count <= MAX_CATEGORIES for count in categories):
        raise ValueError("a variable must have 0 to 2**20 categories")


def check_cells(cells: FloatVector) -> None:
    """Raise ValueError unless every table has cells, and not too many, shape (B,)."""
    if cells.size and not (cells.min() >= 1 and cells.max() <= MAX_CELLS):
        raise ValueError(f"a table must have 1 to {MAX_CELLS} cells")
