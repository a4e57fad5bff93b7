"""qNML scores discrete families by differences of one number per set of variables.

A family's score is F(child and parents) - F(parents), less the penalty of a structure prior per
parent. F of a set depends on the counts of its table and the number of cells alone, so that
equivalent graphs have the same score to the last bit. F is an integer on a grid: its sums are the
same in any order. Larger is better.

Sources: Silander, Leppä-aho, Jääsaari and Roos, AISTATS 2018 (qNML); Szpankowski and Weinberger,
IEEE Transactions on Information Theory 58 (2012), for its constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.statistics.reproducible import logarithm, logarithm_of

SUM_BITS = 61  # bits of a sum over the cells of a table
MOST_BITS = 40


def grid_bits(rows: int) -> int:
    """Choose the bits below one of the grid on which scores of tables of ``rows`` fit 64 bits."""
    largest = 4.0 * rows * math.log2(rows + 2)
    return min(SUM_BITS - math.ceil(math.log2(largest)), MOST_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScore:
    """A `SetScore` computes scores of sets of variables over a number of rows.

    The grid has ``bits`` bits below one (see `grid_bits`). ``penalised`` says whether the score has
    qNML's penalty for a table's number of cells; else it is the log likelihood.
    """

    rows: int
    bits: int = MOST_BITS
    penalised: bool = True

    @property
    def plain(self) -> SetScore:
        """The log likelihood without a penalty, of the same rows on the same grid."""
        return replace(self, penalised=False)

    @property
    def of_nothing(self) -> int:
        """The score F of the empty set, whose table is one cell with all rows."""
        return int(self.of_tables(np.array([self.rows]), np.array([1]), np.ones(1))[0])

    def of_tables(self, counts: IndexArray, sizes: IndexArray, cells: FloatVector) -> IndexArray:
        """Compute the scores F of tables, cells one after the other, on the grid, shape (B,).

        ``sizes`` are the tables' lengths in ``counts``; ``cells`` count occurring categories only.
        """
        full = counts > 0
        numbers = counts[full].astype(np.float64)
        whole = np.zeros(len(counts), dtype=np.int64)
        whole[full] = self.on_grid(numbers * logarithm(numbers))
        sums: IndexArray = np.add.reduceat(whole, np.cumsum(sizes) - sizes)
        return sums + self.of_shape(cells)

    def on_grid(self, numbers: FloatVector) -> IndexArray:
        """Round numbers to the grid, in units of it."""
        return np.rint(np.ldexp(numbers, self.bits)).astype(np.int64)

    def of_shape(self, cells: FloatVector) -> IndexArray:
        """Compute the score's term that depends on the number of cells alone, on the grid."""
        if not self.penalised:
            return np.zeros(len(cells), dtype=np.int64)
        return self.on_grid(-multinomial_regret(self.rows, cells))


def multinomial_regret(rows: int, cells: FloatVector) -> FloatVector:
    """Approximate the logarithm of the multinomial NML's normalising constant, shape (B,).

    Szpankowski and Weinberger's expansion holds for few and for many cells per row.
    """
    ratio = cells / max(rows, 1.0)
    half = 0.5 + 0.5 * np.sqrt(1.0 + 4.0 / ratio)
    regret: FloatVector = rows * (
        logarithm(ratio) + (ratio + 2.0) * logarithm(half) - 1.0 / half
    ) - 0.5 * logarithm(half + 2.0 / ratio)
    return np.where(cells > 1.0, regret, 0.0)


def least_consistent_prior(variables: int, rows: int) -> float:
    """The extended BIC's cost of a parent beyond that of BIC, gamma ln(p), in nats.

    The extended BIC selects consistently for gamma > 1 - ln(n) / (2 ln(p)). At this limit a parent
    costs ln(p) - ln(n) / 2, and nothing where n rows are at least the square of p variables.

    Source: Chen and Chen, Biometrika 95 (2008) 759-771.
    """
    return max(logarithm_of(variables) - 0.5 * logarithm_of(max(rows, 1)), 0.0)
