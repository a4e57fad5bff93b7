"""The score test of x and y given S, asked of any columns: scores and their null variances.

Categories are compared within the strata of S at each site (Cochran, Mantel and Haenszel).
Where numbers are among the columns, each site fits its own regression of one of x and y on S, and
scores the other one (Rao). What differs between sites is a nuisance that stays at each site.

`RaoBits` asks whether each test says dependent, and opens nothing else; `RaoSums` alone opens
the sums. `Misfits` checks the regressions: whether residuals still follow one of the numbers given.

Source: `cipherdag.questions.scores.score_test`; Rao, Mathematical Proceedings of the Cambridge
Philosophical Society 44 (1948) 50-57; White, Econometrica 48 (1980) 817-838.
"""

import math
from collections.abc import Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.ci_tests import tests_of
from cipherdag.questions.combined_evidence import check_triplets
from cipherdag.questions.disclosure import Disclosure, Quantity, bits, decision_at, sums
from cipherdag.questions.encodings import Encoding, position_sets, segments
from cipherdag.questions.pooled_data import check_categories
from cipherdag.questions.question import MOST_VISITS, Question
from cipherdag.questions.regression_steps import check_ordered
from cipherdag.statistics.regression_models import (
    MAX_COEFFICIENTS,
    Regression,
    outputs,
    predictor_columns,
    scored_model,
    too_large,
)

MOST_COMPONENTS = 4096  # of one test; a larger table is not tested
MOST_VARIANCE = 16.0  # of a score, per row: residuals are clipped
MOST_SCORE = 4.0
"""Largest weighted score, in roots of all rows; a site cuts its own to its share of that."""
SUM_BITS = 10
"""Fractional bits of scores and variances that are opened: a single row adds much more."""
MOST_ROWS = 1 << 32  # all sites together have fewer rows
MOST_SITE_SCORE = 8.0  # a site's own normal score beyond which more changes no verdict


class RaoScores(NamedTuple):
    """The parts of an answer to `RaoSums`."""

    scores: FloatVector  # U of every component, shape (K,)
    means: FloatVector  # a of every test, shape (B,): of one component its null variance V
    spreads: FloatVector  # f of every test of several components, shape (T,)
    site_scores: FloatVector  # the normal score of each test at the site by itself, shape (B,)
    sites: FloatVector  # 1 where the site has such a score, likewise
    rows: FloatVector  # rows less coefficients that the test has, likewise; 0 where it is not done


class RaoSums(Question, frozen=True, dict=True, tag="score-sums"):
    """Scores of tests of x and y given S, and moments of their squares, within each site.

    Where all columns of a test are categories, a component is a cell. Of the site's n rows of a
    stratum of S, r have a category of x, c one of y, and O both. U is O - r c / n, and V is
    r (n - r) c (n - c) / (n^2 (n - 1)), each added up over strata. Elsewhere one of x and y is the
    response of a regression on S (`scored_model`). U is then the score of each of its categories
    with each category of the other variable; V is its variance given the estimates. Of two numbers
    U is the sum of the products of their standardised, clipped residuals given S, and V that of the
    squared products. A variable of two categories has components for one of them alone; a response
    in an order, or a number, has one component.

    Where a test has several components, a site divides each score by about the standard deviation
    that the score would have if all rows were at the site. Rare categories then neither vanish
    beside common ones nor outweigh them. a and f are of the divided scores (`score_test`).
    """

    discloses = sums(Quantity.SCORES, Quantity.SITE_SCORES, Quantity.TEST_ROWS, Quantity.SITES)
    resamplable = True
    countable = True
    by_patient = True

    categories: tuple[int, ...]
    counts: tuple[int, ...]  # how many triplets have |S| = 0, 1, 2,
    members: bytes  # packed positions as in `WeightedEvidence`
    n_rows: int  # rows of all sites, at least 1
    max_rows: int = 1 << 20
    # positions of variables with three or more categories in an order, ascending
    ordered: tuple[int, ...] = ()
    # most rows of a patient at any site; 1 where every row is a person. Variances then take a
    # patient's rows together (`cipherdag.sites.compute.score_tests.patients`).
    visits: int = 1

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        check_ordered(self.ordered, self.categories)
        check_triplets(self.counts, self.members, len(self.categories), self.max_rows)
        if not 1 <= self.n_rows < MOST_ROWS:
            raise ValueError("there are rows, and fewer than 2**32")
        if not 1 <= self.visits <= MOST_VISITS:
            raise ValueError(f"a patient has 1 to {MOST_VISITS} rows")

    @property
    def label(self) -> str:
        return tests_of(self.counts)

    @property
    def n_tests(self) -> int:
        return sum(self.counts)

    def rows(self) -> list[IndexArray]:
        """The triplets by size of S: positions of shape (B_l, 2 + l)."""
        return position_sets(self.counts, self.members, narrowest=2)

    @cached_property
    def by_table(self) -> BoolVector:
        """Which triplets are of categories alone, shape (B,)."""
        discrete = np.array(self.categories) > 0
        each = [discrete[rows].all(axis=1) for rows in self.rows()]
        return np.concatenate([np.zeros(0, dtype=bool), *each])

    @cached_property
    def of_numbers(self) -> BoolVector:
        """Which triplets are of numbers alone, and not too many for a site to fit, shape (B,)."""
        discrete = np.array(self.categories) > 0
        blocks = [rows for rows in self.rows() if rows.shape[1] <= MAX_COEFFICIENTS]
        each = [~discrete[rows].any(axis=1) for rows in blocks]
        few = np.concatenate([np.zeros(0, dtype=bool), *each])
        return np.pad(few, (0, self.n_tests - len(few)))

    @cached_property
    def models(self) -> dict[int, Regression]:
        """The regression of each triplet of mixed columns; its last predictor is scored."""
        ordered, mixed = frozenset(self.ordered), np.flatnonzero(~(self.by_table | self.of_numbers))
        tests = [row for block in self.rows() for row in block] if len(mixed) else []
        return {
            test: scored_model(tests[test].tolist(), self.categories, ordered)
            for test in mixed.tolist()
        }

    @cached_property
    def pairs(self) -> IndexArray:
        """The variables whose categories are the rows and columns of components, shape (B, 2)."""
        empty = np.zeros((0, 2), dtype=np.int64)
        pairs: IndexArray = np.concatenate([empty, *(rows[:, :2] for rows in self.rows())])
        for test, model in self.models.items():
            pairs[test] = model.response, model.predictors[-1]
        return pairs

    @cached_property
    def shapes(self) -> IndexArray:
        """Rows and columns of components, shape (B, 2); 0 where a table is too large."""
        sides = np.array(self.categories, dtype=np.int64)
        shapes = np.where(sides == 2, 1, np.maximum(sides, 1))[self.pairs]  # noqa: PLR2004
        for test, model in self.models.items():
            shapes[test] = score_shape(model, self.categories)
        shapes[shapes.prod(axis=1) > MOST_COMPONENTS] = 0
        return shapes

    @cached_property
    def sizes(self) -> IndexArray:
        """Components of every test, shape (B,)."""
        return self.shapes.prod(axis=1)

    @property
    def owner(self) -> IndexArray:
        """The test of every component, shape (K,)."""
        return np.repeat(np.arange(self.n_tests), self.sizes)

    @cached_property
    def several(self) -> IndexArray:
        """The tests of several components, shape (T,)."""
        return np.flatnonzero(self.sizes > 1)

    def decided(self, level: float) -> tuple[Disclosure, ...]:
        """What a bit at some level says."""
        return bits(decision_at(level))

    @property
    def root(self) -> float:
        """The root of the rows of all sites."""
        return math.sqrt(self.n_rows)

    def fits(self, categories: tuple[int, ...], ordered: tuple[int, ...]) -> bool:
        # tests of tables take no notice of an order
        return super().fits(categories, ordered) and {*self.ordered} <= {*ordered}

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Scores; a; f; own scores; rows of each test, and 1 for each own score.

        The last segment says what a site contributes to: tests, and then own tests.
        """
        count, rows = int(self.sizes.sum()), float(self.max_rows)
        score = max(rows, MOST_SCORE * self.root)
        mean = max(MOST_VARIANCE * rows, float(self.sizes.max(initial=1)) * self.root)
        mean *= self.visits
        of_scores = partial(Encoding, discloses=sums(Quantity.SCORES), resolution_bits=SUM_BITS)
        return (
            of_scores(length=count, bound=score, signed=True),
            of_scores(length=self.n_tests, bound=mean),
            of_scores(length=len(self.several), bound=2.0 * mean * self.visits),
            Encoding(
                self.n_tests,
                MOST_SITE_SCORE,
                sums(Quantity.SITE_SCORES),
                resolution_bits=SUM_BITS,
                signed=True,
            ),
            Encoding(2 * self.n_tests, rows, sums(Quantity.TEST_ROWS, Quantity.SITES)),
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        tests, sites = np.split(parts, 2)
        of_scores = np.repeat(tests, self.sizes)
        return np.concatenate([of_scores, tests, tests[self.several], sites, tests, sites])

    def read(self, answer: FloatVector) -> RaoScores:
        """An answer, or a sum of answers, by segment."""
        scores, means, spreads, site_scores, contributed = segments(self.encodings, answer)
        rows, sites = np.split(contributed, 2)
        return RaoScores(scores, means, spreads, site_scores, sites, rows)

    def pack(self, scores: RaoScores) -> FloatVector:
        """Inverse of `read`."""
        return np.concatenate([*scores[:4], scores.rows, scores.sites])

    def spreads(self, scores: RaoScores) -> FloatVector:
        """F of every test, shape (B,): a where there is one component."""
        spreads = scores.means.copy()
        spreads[self.several] = scores.spreads
        return spreads


def score_shape(model: Regression, categories: Sequence[int]) -> tuple[int, int]:
    """Components of a model by the response and by its last predictor; 0 where no site fits it."""
    if too_large(model, categories):
        return 0, 0
    of_response = 1 if model.ordered else outputs(categories[model.response])
    of_tested = predictor_columns(categories[model.predictors[-1]])
    rows, columns = (side + (side > 1) for side in (of_response, of_tested))
    return rows, columns


ROWS_PER_BIN, FEWEST_BINS, MOST_BINS = 60, 8, 40
"""Rows of all sites for each bin of a number, and bounds of the bins' number."""
THIRDS = 3  # parts of a number, of which every two numbers have cells


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
