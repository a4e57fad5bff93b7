"""Question of site heterogeneity: shares of every variable's values, with noise.

A site answers its share x / n of rows as the angle t = asin sqrt((x + 3/8) / (n + 3/4)), whose
variance is 1 / w with w = 4 n + 2 whatever the share. If all sites have one share, the sum of
w t**2 less (sum of w t)**2 / sum of w is chi-square, with a degree of freedom per site but one.

Source: Anscombe, Biometrika 35 (1948) 246-254; Cochran, Biometrics 10 (1954) 101-129.
"""

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.disclosure import Quantity, noisy, of_any, sums
from cipherdag.questions.encodings import (
    Encoding,
    OnScales,
    check_blocks,
    finest_grid,
    position_sets,
)
from cipherdag.questions.pooled_data import check_categories, check_cells
from cipherdag.questions.question import Question

MARKS = (-16.0, -4.0, -2.0, -1.0, -0.5, -0.125, 0.0, 0.125, 0.5, 1.0, 2.0, 4.0, 16.0)
"""Where a number's distribution is looked at: units from the common origin of its column."""
ANGLE_NOISE_SE = 1.0  # most that a site adds to an angle before it tells it, in standard errors


class SiteDifferences(OnScales, Question, frozen=True, tag="site-differences"):
    """Asks for the shares of every variable's values, in every configuration of others.

    Shares of a discrete variable are those of its categories (of two, of the first); of a
    continuous one, of the values up to each of `MARKS`. In every configuration, called a stratum,
    the site's n rows that are complete in the set give w t, and w t**2, of every share; to each
    angle t is first added what nobody can foretell, up to its standard error either way. Then come,
    of every stratum, a comparison: whether a number has one value far from all others again and
    again, given nothing; 1; and w. Zero throughout where n is below 2 or the site's
    ``min_cell_size``. Where it misses fewer numbers than that, it leaves out as many more as hide
    how few.

    Leaks:
        Exact angles would give every site's counts away: two sums have few solutions in whole
        numbers. Blurred ones have no exact solution; who knows all sites' parts but one has about
        that site's count c of a share, to about the root of c either way, be it below its
        ``min_cell_size``. Given others, the rows of strata that were left out, all together, follow
        by subtraction.
    """

    discloses = (
        *of_any(Quantity.CODES),
        *sums(Quantity.SITES, Quantity.COMPARED_ROWS),
        *noisy(Quantity.SHARES),
    )
    countable = True

    categories: tuple[int, ...]
    origins: bytes  # packed 64-bit floats: about where each continuous column lies, shape (p,)
    units: bytes  # packed binary exponents: about how far it spreads, shape (p,)
    # how many sets have 0, 1, 2, ... variables that are given.
    counts: tuple[int, ...]
    # packed positions, two bytes each: the variable, then those given, ascending and discrete; sets
    # of fewer given variables first
    members: bytes
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        p = len(self.categories)
        check_categories(self.categories, self.max_rows)
        if len(self.origins) != 8 * p or len(self.units) != 8 * p:
            raise ValueError("origins or units do not have the length of the study")
        self.check_scales()
        check_blocks(self.counts, self.members, 1, most=p, n_variables=p)
        for rows in self.sets():
            self._check_sets(rows)

    def _check_sets(self, rows: IndexArray) -> None:
        given, sides = rows[:, 1:], np.array(self.categories, dtype=np.float64)
        if (given[:, 1:] <= given[:, :-1]).any() or (given == rows[:, :1]).any():
            raise ValueError("given variables must ascend, and be others than the compared one")
        if (sides[rows[:, 0]] == 1).any():
            raise ValueError("a variable of one category has no shares")
        # a given continuous variable has no configurations
        check_cells(sides[given].prod(axis=1) * np.maximum(sides[rows[:, 0]], len(MARKS)))

    def sets(self) -> list[IndexArray]:
        """The sets by how many variables are given: positions of shape (B_l, 1 + l)."""
        return position_sets(self.counts, self.members, narrowest=1)

    def sides(self) -> IndexArray:
        """Strata of every set, and shares of each of them, shape (B, 2)."""
        sides = np.array(self.categories, dtype=np.int64)
        parts = [
            np.column_stack([sides[rows[:, 1:]].prod(axis=1), shares_of(sides[rows[:, 0]])])
            for rows in self.sets()
        ]
        return np.concatenate([np.zeros((0, 2), dtype=np.int64), *parts])

    def widths(self) -> IndexArray:
        """How many shares every stratum has, set by set, shape (number of strata,)."""
        sides = self.sides()
        return np.repeat(sides[:, 1], sides[:, 0])

    def marks(self) -> FloatVector:
        """The values up to which continuous variables are counted, ascending, shape (p, 13)."""
        with np.errstate(over="ignore"):
            steps = np.ldexp(np.array(MARKS), self.unit_array()[:, None])
            return self.origin_array()[:, None] + steps

    @property
    def label(self) -> str:
        given = len(self.counts) > 1
        return f"differences between sites, {sum(self.counts)} variables" + " given others" * given

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """All w t; all w t**2; of every stratum the comparison, 1, and w. t is at most pi / 2."""
        widths = self.widths()
        most = 16.0 * (self.max_rows + 1)
        share = Encoding(
            int(widths.sum()), most, noisy(Quantity.SHARES), resolution_bits=finest_grid(most)
        )
        return (
            share,
            share,
            Encoding(len(widths), 1.0, of_any(Quantity.CODES), comparison=True),
            Encoding(len(widths), 1.0, sums(Quantity.SITES)),
            Encoding(len(widths), most, sums(Quantity.COMPARED_ROWS)),
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        shares = np.repeat(parts, self.widths())
        return np.concatenate([shares, shares, parts, parts, parts])


def shares_of(categories: IndexArray) -> IndexArray:
    """How many shares a variable of so many categories has; 0 for a continuous one."""
    of_categories = np.where(categories == 2, 1, categories)  # noqa: PLR2004
    return np.where(categories == 0, len(MARKS), of_categories)
