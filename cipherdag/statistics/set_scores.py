"""BIC, BDeu and qNML score discrete families by differences of one number per set of variables.

A family's score is F(child and parents) - F(parents), less the penalty of a structure prior per
parent, since the scores of a table depend on its cells and on how many there are. Equivalent graphs
so have the same score to the last bit. F is an integer on a grid, so that its sums are the same in
any order; larger is better.

Sources: Schwarz, Annals of Statistics 6 (1978) 461-464; Heckerman, Geiger and Chickering, Machine
Learning 20 (1995) 197-243 (BDeu); Silander, Leppä-aho, Jääsaari and Roos, AISTATS 2018 (qNML);
Szpankowski and Weinberger, IEEE Transactions on Information Theory 58 (2012), for its constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.statistics.reproducible import log_gamma, logarithm, logarithm_of

ScoreName = Literal["bic", "bdeu", "qnml"]
SUM_BITS = 61
"""Bits of a sum over the cells of a table."""
MOST_BITS = 40


def grid_bits(rows: int) -> int:
    """Choose the bits below one of the grid on which scores of so many rows are 64-bit integers."""
    largest = 4.0 * rows * math.log2(rows + 2)
    return min(SUM_BITS - math.ceil(math.log2(largest)), MOST_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScore:
    """A `SetScore` computes ``bic``, ``bdeu`` or ``qnml`` of sets of variables of so many rows.

    A free parameter costs ``penalty`` times ln(n) / 2 in ``bic``; ``prior_rows`` is the equivalent
    sample size of ``bdeu``. The grid has so many bits below one; see `grid_bits`.
    """

    name: ScoreName
    rows: int
    penalty: float = 1.0
    prior_rows: float = 1.0
    bits: int = MOST_BITS

    @property
    def plain(self) -> SetScore:
        """The log likelihood without a penalty, of the same rows on the same grid."""
        return replace(self, name="bic", penalty=0.0)

    @property
    def of_nothing(self) -> int:
        """The score F of the empty set, whose table is one cell with all rows."""
        return int(self.of_tables(np.array([self.rows]), np.array([1]), np.ones(1))[0])

    def of_tables(self, counts: IndexArray, sizes: IndexArray, cells: FloatVector) -> IndexArray:
        """Compute the scores F of tables, cells one after the other, on the grid, shape (B,).

        Of ``cells`` each table has so many by the categories that occur.
        """
        full = counts > 0
        numbers = counts[full].astype(np.float64)
        if self.name == "bdeu":
            prior = self.prior_rows / cells
            before = log_gamma(prior)
            owner = np.repeat(np.arange(len(sizes)), sizes)[full]
            terms = log_gamma(numbers + prior[owner]) - before[owner]
        else:
            terms = numbers * logarithm(numbers)
        whole = np.zeros(len(counts), dtype=np.int64)
        whole[full] = self.on_grid(terms)
        sums: IndexArray = np.add.reduceat(whole, np.cumsum(sizes) - sizes)
        return sums + self.of_shape(cells)

    def on_grid(self, numbers: FloatVector) -> IndexArray:
        """Round numbers to the grid, in units of it."""
        return np.rint(np.ldexp(numbers, self.bits)).astype(np.int64)

    def of_shape(self, cells: FloatVector) -> IndexArray:
        """Compute the score's term that depends on the number of cells alone, on the grid."""
        cost = np.zeros(len(cells))
        if self.name == "bic":
            log_rows = logarithm_of(max(self.rows, 1))
            cost = -0.5 * self.penalty * log_rows * (cells - 1.0)
        elif self.name == "qnml":
            cost = -multinomial_regret(self.rows, cells)
        return self.on_grid(cost)


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
