"""Log likelihoods of sets of variables, without tables, and comparisons of their sums."""

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.predicates import MOST_COMPARISONS, Predicates
from cipherdag.questions.disclosure import Quantity, bits, rounded
from cipherdag.questions.encodings import (
    Encoding,
    check_ascending,
    check_blocks,
    position_sets,
    unpack_integers,
)
from cipherdag.questions.pooled_data import check_study
from cipherdag.questions.question import Question
from cipherdag.questions.verdicts import SUM_BITS, Verdicts, on_grid

LARGEST_PER_ROW = 512  # largest size of a set's log likelihood, in nats per row
MOST_MEMBERS = 32
LARGEST_DISCOUNT = 16

COARSE_BITS = 4
"""Fractional bits of likelihoods and regrets that are opened: finer ones would tell counts."""


class LogLikelihoods(Question, frozen=True, tag="likelihoods"):
    """Asks for the log likelihood of the site's rows under each set's maximum-likelihood model.

    Of discrete variables: sum n ln(n / rows) over the cells of the set's table at the site, less
    ``discount`` / 2 for every filled cell but one: a ``discount`` of 1 removes the bias of a sample
    (Miller, 1955), where cells have rows enough. Of continuous ones: -(rows / 2)
    times the log determinant of their correlations, less a quarter of ``discount`` k (k - 1) for k
    variables. Of both kinds: the value of the categories, plus that of the numbers' residual
    correlations after regression on an indicator of every category, less ``discount`` / 2 for every
    coefficient. The rows are those without a missing value in any column. Where they are visits,
    the value is divided by their design effect (`cipherdag.sites.compute.patients`), the discount
    is not.

    A site that restricts small counts refuses: there likelihoods are compared alone
    (`ScoreComparisons`).

    Leaks:
        Exact sums over three sites have one solution in whole numbers: every site's tables.
    """

    discloses = rounded(Quantity.LIKELIHOODS)
    resamplable = True
    by_patient = True

    n_variables: int
    counts: tuple[int, ...]  # how many sets have 1, 2, ... variables
    members: bytes  # packed positions, as in `VariableSets`
    discount: int = 1
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        check_study(self.n_variables, self.max_rows)
        if not 0 <= self.discount <= LARGEST_DISCOUNT:
            raise ValueError(f"discount must lie in 0..{LARGEST_DISCOUNT}")
        p = self.n_variables
        check_blocks(self.counts, self.members, 1, most=min(p, MOST_MEMBERS), n_variables=p)
        for rows in self.sets():
            check_ascending(rows)

    def sets(self) -> list[IndexArray]:
        """The sets by size from 1: positions of shape (B_k, k)."""
        return position_sets(self.counts, self.members, narrowest=1)

    @property
    def label(self) -> str:
        return f"likelihoods of {sum(self.counts)} sets of up to {len(self.counts)} variables"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        bound = float(self.max_rows * LARGEST_PER_ROW)
        length, bits = sum(self.counts), COARSE_BITS
        return (Encoding(length, bound, self.discloses, resolution_bits=bits, signed=True),)


MOST_OF_A_SET = 64  # most times that a comparison counts the likelihood of one set


class ScoreComparisons(Verdicts, frozen=True, tag="score-comparisons"):
    """Asks whether weighted sums of sets' log likelihoods exceed numbers, over all sites.

    A bit for every comparison: ``sum_s coefficient_s L_s + constant > 0``, where L_s is the summed
    log likelihood of set s on a grid of ``2**-grid_bits`` nats. The likelihoods are exact where a
    site restricts small counts, too: none of them leaves the computation.
    """

    discloses = bits(Quantity.HIGHER)
    by_patient = True

    question: LogLikelihoods
    grid_bits: int  # the grid of likelihoods and constants
    largest: int  # largest size of one site's likelihood, on the grid; a larger one is cut to it
    terms: bytes  # rows of comparison, set and coefficient in ascending order, packed, shape (T, 3)
    constants: bytes  # of every comparison, on the grid, packed, shape (B,)

    def __post_init__(self) -> None:
        if not 0 <= self.grid_bits < SUM_BITS or not 0 < self.largest < 1 << SUM_BITS:
            raise ValueError(f"likelihoods and their grid have less than {SUM_BITS} bits")
        if not 1 <= self.n_verdicts <= MOST_COMPARISONS:
            raise ValueError(f"a question has 1 to {MOST_COMPARISONS} comparisons")
        comparison, of_set, coefficient = self.term_array().T
        if ((of_set < 0) | (of_set >= sum(self.question.counts))).any():
            raise ValueError("a comparison names a set that the question does not have")
        if ((comparison < 0) | (comparison >= self.n_verdicts)).any():
            raise ValueError("a term names a comparison that there is not")
        if (np.abs(coefficient) > MOST_OF_A_SET).any() or not coefficient.all():
            raise ValueError(f"coefficients are 1 to {MOST_OF_A_SET}, of either sign")

    @property
    def label(self) -> str:
        return f"{self.n_verdicts:,} comparisons of scores"

    @property
    def n_verdicts(self) -> int:
        return len(self.constants) // 8

    def term_array(self) -> IndexArray:
        """Which sets each comparison is about, and how often, shape (T, 3)."""
        return unpack_integers(self.terms, (len(self.terms) // 24, 3))

    def variables(self) -> list[IndexArray]:
        """The variables of all sets of each comparison, ascending, as one row each."""
        sets = [row for rows in self.question.sets() for row in rows]
        comparison, of_set, _ = self.term_array().T
        ends = np.flatnonzero(np.diff(comparison, append=-1)) + 1
        each = np.split(of_set, ends[:-1])
        return [np.unique(np.concatenate([sets[one] for one in group]))[None] for group in each]

    def words(self, answer: FloatVector) -> IndexArray:
        """A site's likelihoods on the grid, shape (sets,)."""
        return on_grid(answer, self.grid_bits, self.largest)

    def predicates(self, n_sites: int) -> Predicates:
        """One comparison each: a linear form of the likelihoods is above 0."""
        words = np.full(sum(self.question.counts), n_sites * self.largest)
        return Predicates(
            -words,
            words,
            np.ones(self.n_verdicts, dtype=np.int64),
            np.zeros((0, 4), dtype=np.int64),
            self.term_array(),
            unpack_integers(self.constants, (self.n_verdicts,)),
        )
