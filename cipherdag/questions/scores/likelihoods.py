"""Question of scores without tables: one log likelihood for every set of variables."""

from cipherdag.arrays import IndexArray
from cipherdag.questions.disclosure import Quantity, rounded
from cipherdag.questions.encodings import Encoding, check_ascending, check_blocks, position_sets
from cipherdag.questions.pooled_data import check_study
from cipherdag.questions.question import Question

LARGEST_PER_ROW = 512
"""Largest size of a set's log likelihood, in nats per row."""
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

    Attributes:
        counts: How many sets have 1, 2, ... variables.
        members: Packed positions, as in `VariableSets`.
    """

    discloses = rounded(Quantity.LIKELIHOODS)
    resamplable = True
    by_patient = True

    n_variables: int
    counts: tuple[int, ...]
    members: bytes
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
