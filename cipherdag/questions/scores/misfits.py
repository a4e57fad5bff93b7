"""The check of a regression's fit: whether residuals still follow one of the numbers given."""

from functools import cached_property

import numpy as np

from cipherdag.arrays import BoolVector, IndexArray
from cipherdag.questions.disclosure import Disclosure, Quantity, bits
from cipherdag.questions.scores.score_sums import MOST_COMPONENTS, RaoSums
from cipherdag.statistics.regression_models import Regression, predictor_columns, too_large

ROWS_PER_BIN, FEWEST_BINS, MOST_BINS = 60, 8, 40
"""Rows of all sites for each bin of a number, and bounds of the bins' number."""
THIRDS = 3
"""Parts of a number, of which every two numbers have cells."""


class Misfits(RaoSums, frozen=True, dict=True, tag="misfit-sums"):
    """Sums of residuals of a number x given S in bins of a number y of S, and in cells with others.

    Each triplet (x, y, S) asks of the regression of x on y and S that score tests make: its basis,
    its clipped residuals. A component is a bin of y, by quantiles of the site, or a cell of the
    second or last third of y with the second or last third of another number of S, or with a
    category but the first. U is the sum of the residuals times what regression on the basis leaves
    of the component's indicator, and V that of the squared products. So the test says dependent
    where the mean of x follows y as the basis cannot. All else is as in `RaoSums`. Of a site whose
    rows are visits all is 0.
    """

    by_patient = False

    def __post_init__(self) -> None:
        RaoSums.__post_init__(self)
        sides = np.concatenate([np.zeros((0, 2), np.int64), *(r[:, :2] for r in self.rows())])
        if np.array(self.categories)[sides].any():
            raise ValueError("fits of numbers along numbers are checked")

    @property
    def label(self) -> str:
        return f"{self.n_tests:,} check{'s' * (self.n_tests > 1)} of fits"

    @cached_property
    def by_table(self) -> BoolVector:
        """None of them, shape (B,)."""
        return np.zeros(self.n_tests, dtype=bool)

    @cached_property
    def of_numbers(self) -> BoolVector:
        """None of them, shape (B,): sites answer all by `models`."""
        return np.zeros(self.n_tests, dtype=bool)

    @cached_property
    def models(self) -> dict[int, Regression]:
        """The regression of each triplet: y comes first, and once more where tests have theirs."""
        tests = [row for block in self.rows() for row in block.tolist()]
        return {test: Regression(x, (y, *s, y)) for test, (x, y, *s) in enumerate(tests)}

    @property
    def bins(self) -> int:
        """Bins of a number."""
        return min(max(self.n_rows // ROWS_PER_BIN, FEWEST_BINS), MOST_BINS)

    @cached_property
    def shapes(self) -> IndexArray:
        """Components, in one column, shape (B, 2); 0 where there are too many for a site."""
        counts = []
        for model in self.models.values():
            others = [self.categories[v] for v in model.predictors[1:-1]]
            cells = sum(predictor_columns(each) if each else THIRDS - 1 for each in others)
            count = self.bins + (THIRDS - 1) * cells
            fits = count <= MOST_COMPONENTS and not too_large(model, self.categories)
            counts.append(count * fits)
        return np.array([(count, 1) for count in counts], dtype=np.int64).reshape(-1, 2)

    def decided(self, level: float) -> tuple[Disclosure, ...]:
        """What a bit at some level says."""
        del level
        return bits(Quantity.CURVED)
