"""The score test of x and y given S, asked of any columns: scores and their null variances.

Categories are compared within the configurations of S at each site (Cochran, Mantel and Haenszel).
Where numbers are among the columns, each site fits its own regression of one of x and y on S, and
scores the other one (Rao). What differs between sites is a nuisance that stays at each site.

`ScoreBits` asks whether each test says dependent, and opens nothing else; `ScoreSums` alone opens
the sums.

Source: `cipherdag.questions.score_test`; Rao, Mathematical Proceedings of the Cambridge
Philosophical Society 44 (1948) 50-57; White, Econometrica 48 (1980) 817-838.

Leaks:
    Every site and whoever carries the messages see which triplets are tested, by position. See each
    question for what is opened.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec
import numpy as np

from cipherdag.predicates import Predicates
from cipherdag.questions.closed.words import one_bit_each
from cipherdag.questions.encodings import (
    Encoding,
    FloatVector,
    IndexArray,
    segments,
    unpack_blocks,
)
from cipherdag.questions.pooled_data import check_categories
from cipherdag.questions.regression_steps import (
    Regression,
    check_ordered,
    outputs,
    predictor_columns,
    too_large,
)
from cipherdag.questions.score_test import Components, Thresholds, components_of, site_line
from cipherdag.questions.weighted_evidence import check_triplets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from cipherdag.questions.encodings import BoolVector

MOST_COMPONENTS = 4096
"""Of one test; a larger table is not tested."""
MOST_VARIANCE = 16.0
"""Of a score, per row, at most: residuals are clipped."""
SUM_BITS = 10
"""Of the grid of scores and variances that are opened: a single row adds much more."""
SCORE_BITS, VARIANCE_BITS, SITE_BITS, TRACE_BITS = 2, 4, 4, 10
"""Of the grids of what is compared: scores in rows, variances, sites' scores, trace weights."""
MOST_SITE_SCORE = 8.0
"""A site's own normal score beyond which more changes no verdict."""
LARGEST_FORM = 1 << 58
"""What no form of a trace reaches; its weights are rounded more coarsely where it would."""
FIRST_SIZE = 3
"""Exponent of the least number of rows that a category's size is compared with."""


class Scores(NamedTuple):
    """The parts of an answer to `ScoreSums`.

    Attributes:
        scores: U of every component, shape (K,).
        variances: V, likewise.
        site_scores: The normal score of each test at the site by itself, shape (B,).
        sites: 1 where there is one, likewise.
        rows: Rows less coefficients that the test has, likewise; 0 where it is not done.
    """

    scores: FloatVector
    variances: FloatVector
    site_scores: FloatVector
    sites: FloatVector
    rows: FloatVector


class ScoreSums(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, tag="score-sums"
):
    """Scores and null variances of tests of x and y given S, within each site.

    Where all columns of a test are categories, a component is a cell: of the site's n rows of a
    configuration of S, r of a category of x and c of one of y, U is O - r c / n for the count O of
    both, and V is r (n - r) c (n - c) / (n^2 (n - 1)), added up over configurations. Elsewhere one
    of x and y is the response of a regression on S (`scored_model`), and U is the score of each of
    its categories with each of the other one's; V is its variance given the estimates. Of two
    numbers U is the sum of the products of their standardised, clipped residuals given S, and V
    that of the squared products. Of two categories the first alone has components; a response in
    an order, or a number, has one.

    Leaks:
        Where sums are opened, the coordinator learns per component the sums of U and V over the
        sites, per test the sum of the sites' own normal scores, how many have one, and the rows
        less coefficients. Small counts follow from them; `ScoreBits` opens none of it.

    Attributes:
        categories: Number of categories of every variable, 0 for a number, shape (p,).
        counts: How many triplets have |S| = 0, 1, 2, ...
        members: Packed positions as in `WeightedEvidence`.
        max_rows: Declared bound of a site's rows.
        ordered: Positions of variables with three or more categories in an order, ascending.
    """

    leaves: ClassVar[str] = "how far variables are from independence within sites"

    categories: tuple[int, ...]
    counts: tuple[int, ...]
    members: bytes
    max_rows: int = 1 << 20
    ordered: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        check_ordered(self.ordered, self.categories)
        check_triplets(self.counts, self.members, len(self.categories), self.max_rows)

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"{self.n_tests} tests, |S| <= {len(self.counts) - 1}"

    @property
    def n_tests(self) -> int:
        """Number of triplets, B."""
        return sum(self.counts)

    def rows(self) -> list[IndexArray]:
        """The triplets by size of S: positions of shape (B_l, 2 + l)."""
        blocks = unpack_blocks(self.counts, self.members, narrowest=2)
        return [block.astype(np.int64) for block in blocks]

    @cached_property
    def by_table(self) -> BoolVector:
        """Which triplets are of categories alone, shape (B,)."""
        discrete = np.array(self.categories) > 0
        each = [discrete[rows].all(axis=1) for rows in self.rows()]
        found: BoolVector = np.concatenate([np.zeros(0, dtype=bool), *each])
        return found

    @cached_property
    def models(self) -> dict[int, Regression]:
        """The regression of each triplet that is not by table, whose last predictor is scored."""
        ordered = frozenset(self.ordered)
        tests = (row for block in self.rows() for row in block.tolist())
        return {
            place: scored_model(row, self.categories, ordered)
            for place, row in enumerate(tests)
            if not self.by_table[place]
        }

    @cached_property
    def pairs(self) -> IndexArray:
        """The variables whose categories are the rows and columns of components, shape (B, 2)."""
        empty = np.zeros((0, 2), dtype=np.int64)
        found: IndexArray = np.concatenate([empty, *(rows[:, :2] for rows in self.rows())])
        for place, model in self.models.items():
            found[place] = model.response, model.predictors[-1]
        return found

    @cached_property
    def shapes(self) -> IndexArray:
        """Rows and columns of components, shape (B, 2); 0 where a table is too large."""
        sides = np.array(self.categories, dtype=np.int64)
        found = np.where(sides == 2, 1, np.maximum(sides, 1))[self.pairs]  # noqa: PLR2004
        for place, model in self.models.items():
            found[place] = score_shape(model, self.categories)
        found[found.prod(axis=1) > MOST_COMPONENTS] = 0
        return found

    @cached_property
    def sizes(self) -> IndexArray:
        """Components of every test, shape (B,)."""
        found: IndexArray = self.shapes.prod(axis=1)
        return found

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """The parts of `Scores`, in order."""
        count, rows = int(self.sizes.sum()), float(self.max_rows)
        site = Encoding(
            length=self.n_tests, bound=MOST_SITE_SCORE, resolution_bits=SUM_BITS, signed=True
        )
        most = MOST_VARIANCE * rows
        return (
            Encoding(length=count, bound=rows, resolution_bits=SUM_BITS, signed=True),
            Encoding(length=count, bound=most, resolution_bits=SUM_BITS),
            site,
            Encoding(length=self.n_tests, bound=1.0),
            Encoding(length=self.n_tests, bound=rows),
        )

    def where(self, tests: BoolVector) -> BoolVector:
        """Which values of an answer are about these tests, shape (values,)."""
        each = np.repeat(tests, self.sizes)
        return np.concatenate([each, each, tests, tests, tests])

    def parts(self, answer: FloatVector) -> Scores:
        """An answer, or a sum of answers, in its parts."""
        return Scores(*segments(self.encodings, answer))

    def components(self, sizes: FloatVector, rows: int) -> Components:
        """What is public about the components.

        Args:
            sizes: About how many rows each category has, shape (sum of categories,).
            rows: Rows of all sites.
        """
        # of the smallest size a category may have no row: as one of few a trace allows for more
        sizes = np.where(sizes < 1 << FIRST_SIZE, 1.0, sizes)
        of_variable = np.split(sizes, np.cumsum(self.categories)[:-1])

        def shares(variable: int, side: int) -> FloatVector:
            own = of_variable[variable]
            known: FloatVector = own / own.sum() if side > 1 or len(own) == 2 else own[:0]  # noqa: PLR2004
            return known[:side]

        done = self.sizes > 0
        layouts = np.column_stack([self.pairs, self.shapes])[done].tolist()
        shapes = [(shares(x, rows_), shares(y, columns)) for x, y, rows_, columns in layouts]
        found = components_of(shapes, float(max(rows, 1)))
        dof = np.zeros(self.n_tests)
        dof[done] = found.dof
        return Components(self.sizes, found.expected, dof, found.alone)


class ScoreBits(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True, tag="score-bits"
):
    """Does each test say dependent, over all sites together? Nothing else is opened.

    Leaks:
        One bit a test, to everybody, under the assumptions of `cipherdag.privacy.mpc`. A bit may
        rest on one site's rows, where x and y vary at no other.

    Attributes:
        question: The tests.
        alpha: The level of every test.
        rows: Rows of all sites.
        sizes: About how many rows each category has over all sites, packed exponents of two, one
            byte each.
    """

    leaves: ClassVar[str] = "whether a test over all sites together says dependent"

    question: ScoreSums
    alpha: float
    rows: int
    sizes: bytes

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise ValueError("alpha must lie between 0 and 1")
        if not 1 <= self.rows < 1 << 40:
            raise ValueError("there are rows, and fewer than 2**40")
        exponents = np.frombuffer(self.sizes, dtype=np.uint8)
        if len(exponents) != sum(self.question.categories) or (exponents > 40).any():  # noqa: PLR2004
            raise ValueError("every category has a size, an exponent of two up to 40")

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return self.question.label

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """One bit per test."""
        return one_bit_each(self.question.n_tests)

    @cached_property
    def components(self) -> Components:
        """What is public about the components."""
        return self.question.components(self._category_rows, self.rows)

    @cached_property
    def thresholds(self) -> Thresholds:
        """What scores are compared with."""
        return Thresholds.at(self.alpha, self.components)

    def words(self, answer: FloatVector) -> IndexArray:
        """A site's whole numbers from its answer: U, z^2 V, its own scores, and 1 for each.

        V is rounded up: where categories are rare, each site would round off all of it.
        """
        scores, variances, site_scores, sites, _ = self.question.parts(answer)
        squared = self.thresholds.squared[self.components.owner]
        steps = np.concatenate(
            [
                np.ldexp(scores, SCORE_BITS),
                np.ceil(np.ldexp(squared * variances, VARIANCE_BITS)),
                np.ldexp(site_scores, SITE_BITS),
                sites,
            ]
        )
        lowest, highest = self._bounds(1)
        words: IndexArray = np.clip(np.rint(steps).astype(np.int64), lowest, highest)
        return words

    def predicates(self, n_sites: int) -> Predicates:
        """The tests as comparisons of sums over so many sites."""
        tests, found = self.components, self.thresholds
        owner, count, n_tests = tests.owner, len(tests.expected), len(tests.sizes)
        constant, slope = np.ldexp(site_line(found.site, n_sites), 2 * SITE_BITS).tolist()
        done = tests.sizes > 0
        n_alone = tests.n_alone
        sizes = np.where(done, n_alone + tests.several + 1, 1)
        first = np.cumsum(sizes) - sizes
        each = np.flatnonzero(tests.alone)
        place = np.arange(len(each)) - np.repeat(np.cumsum(n_alone) - n_alone, n_alone)
        constants = np.zeros(sizes.sum(), dtype=np.int64)
        at = first[owner[each]] + place
        least = np.ldexp(found.constant[owner[each]], 2 * SCORE_BITS)
        constants[at] = -np.ceil(least).astype(np.int64)
        weights = self._trace_weights(self._bounds(n_sites)[1])
        traced = np.flatnonzero(tests.several[owner])
        of_trace = (first + n_alone)[owner[traced]]
        ratio = np.ldexp(found.quantile / found.squared, TRACE_BITS)[owner[traced]]
        against = np.maximum(np.rint(ratio * weights[traced]), 1.0).astype(np.int64)
        scaled = weights[traced] << TRACE_BITS
        quadratic = [
            np.column_stack([at, each, each, np.ones_like(at)]),
            np.column_stack([of_trace, traced, traced, scaled]),
        ]
        linear = [
            np.column_stack([at, count + each, -np.ones_like(at)]),
            np.column_stack([of_trace, count + traced, -against]),
        ]
        with_lines = np.flatnonzero(done)
        line = (first + n_alone + tests.several)[with_lines]
        constants[line] = -math.ceil(constant)
        steep, unit = np.full(len(line), -math.ceil(slope)), np.full(len(line), 1 << SITE_BITS)
        linear += [
            np.column_stack([line, 2 * count + with_lines, unit]),
            np.column_stack([line, 2 * count + n_tests + with_lines, steep]),
        ]
        lowest, highest = self._bounds(n_sites)
        return Predicates(
            lowest, highest, sizes, _in_order(quadratic), _in_order(linear), constants
        )

    @cached_property
    def _category_rows(self) -> FloatVector:
        """About how many rows each category has."""
        exponents = np.frombuffer(self.sizes, dtype=np.uint8).astype(np.float64)
        return np.exp2(exponents)

    @cached_property
    def _most_rows(self) -> FloatVector:
        """How many rows the rarest category of each variable, and of each component, has at most.

        Shape (K,): a score of a cell is at most the rows of either category.
        """
        question = self.question
        most = np.minimum(2.0 * self._category_rows, float(self.rows))
        of_variable = np.split(most, np.cumsum(question.categories)[:-1])
        found = [np.zeros(0)]
        known: dict[tuple[int, int, int, int], FloatVector] = {}
        tests = np.column_stack([question.pairs, question.shapes])
        for test, table in zip(map(tuple, tests.tolist()), question.by_table, strict=True):
            x, y, rows, columns = test
            if not rows:
                continue
            if test not in known:
                known[test] = np.full(rows * columns, float(self.rows))
                if table:
                    sides = (_side_rows(of_variable[v]) for v in (x, y))
                    known[test] = np.minimum.outer(*sides).ravel()
            found.append(known[test])
        return np.concatenate(found)

    def _bounds(self, n_sites: int) -> tuple[IndexArray, IndexArray]:
        """Least and largest sum of every word over so many sites; of one, what it may say."""
        rows, tests = self._most_rows, self.components
        table = self.question.by_table[tests.owner]
        scores = np.where(table, np.minimum(rows, self.rows / 4.0 + 1.0), rows)
        variances = np.where(
            table, np.minimum(2.0 * rows, self.rows / 8.0 + 1.0), MOST_VARIANCE * rows
        )
        squared = self.thresholds.squared[tests.owner]
        most = np.ceil(np.ldexp(scores, SCORE_BITS))
        widest = np.ceil(np.ldexp(squared * variances, VARIANCE_BITS)) + n_sites
        one = np.ones(len(tests.sizes))
        site = n_sites * math.ldexp(MOST_SITE_SCORE, SITE_BITS)
        zeros = np.zeros(count := len(most)), np.zeros(len(one))
        lowest = np.concatenate([-most, zeros[0], -site * one, zeros[1]])
        highest = np.concatenate([most, widest, site * one, n_sites * one])
        assert len(lowest) == 2 * (count + len(one)), "every word has bounds"
        return lowest.astype(np.int64), highest.astype(np.int64)

    def _trace_weights(self, highest: IndexArray) -> IndexArray:
        """Whole weights of components in their trace, proportional to 1 / e, shape (K,)."""
        tests = self.components
        exponent = np.rint(np.log2(tests.expected)).astype(np.int64)
        largest = np.zeros(len(tests.sizes), dtype=np.int64)
        np.maximum.at(largest, tests.owner, exponent)
        weights = np.exp2(largest[tests.owner] - exponent)
        squares = highest[: len(exponent)].astype(np.float64) ** 2
        form = np.bincount(
            tests.owner, weights=np.ldexp(weights * squares, TRACE_BITS), minlength=len(largest)
        )
        beyond = np.maximum(np.ceil(np.log2(np.maximum(form, 1.0) / LARGEST_FORM)), 0.0)
        whole: IndexArray = np.maximum(weights / np.exp2(beyond)[tests.owner], 1.0).astype(np.int64)
        return whole


class CategoryCounts(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="category-counts"
):
    """How many rows each category of each variable has at the site.

    Leaks:
        Nothing by itself: `CategorySizes` compares the sums, and no other question opens them.

    Attributes:
        categories: Number of categories of every variable, 0 for a number, shape (p,).
        max_rows: Declared bound of a site's rows.
    """

    leaves: ClassVar[str] = "rows of each category"

    categories: tuple[int, ...]
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"sizes of {sum(self.categories)} categories"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """One count per category."""
        return (Encoding(length=sum(self.categories), bound=float(self.max_rows)),)


class CategorySizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="category-sizes"):
    """About how many rows does each category have over all sites? To a power of two, from 8 on.

    Leaks:
        To everybody, per category and power of two from 8 up to the rows of all sites, whether the
        category has as many rows over all sites together.

    Attributes:
        question: The counts.
        rows: Rows of all sites.
    """

    leaves: ClassVar[str] = "about how many rows each category has, to a power of two"

    question: CategoryCounts
    rows: int

    def __post_init__(self) -> None:
        if not 1 <= self.rows < 1 << 40:
            raise ValueError("there are rows, and fewer than 2**40")

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return self.question.label

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """One bit per category and power, powers fastest."""
        count = sum(self.question.categories) * len(self._powers)
        return one_bit_each(count)

    def words(self, answer: FloatVector) -> IndexArray:
        """A site's counts."""
        words: IndexArray = np.minimum(np.rint(answer), self.rows).astype(np.int64)
        return words

    def predicates(self, n_sites: int) -> Predicates:
        """Whether each sum is as large as each power."""
        del n_sites
        powers, count = self._powers, sum(self.question.categories)
        each = np.arange(count * len(powers))
        word = np.repeat(np.arange(count), len(powers))
        return Predicates(
            np.zeros(count, dtype=np.int64),
            np.full(count, self.rows, dtype=np.int64),
            np.ones_like(each),
            np.zeros((0, 4), dtype=np.int64),
            np.column_stack([each, word, np.ones_like(each)]),
            1 - np.tile(powers, count),
        )

    def exponents(self, bits: FloatVector) -> bytes:
        """The largest power that each category's size reaches, as `ScoreBits` has them."""
        powers = len(self._powers)
        reached = bits.reshape(-1, powers).sum(axis=1) if powers else np.zeros(len(bits))
        return (FIRST_SIZE - 1 + reached).astype(np.uint8).tobytes()

    @property
    def _powers(self) -> IndexArray:
        exponents = range(FIRST_SIZE, max(self.rows.bit_length(), FIRST_SIZE + 1))
        powers: IndexArray = np.array([1 << own for own in exponents], dtype=np.int64)
        return powers


def _side_rows(most: FloatVector) -> FloatVector:
    """Most rows of the categories with components; of two, of the rarer one."""
    return most.min(keepdims=True) if len(most) == 2 else most  # noqa: PLR2004


def _in_order(terms: Sequence[IndexArray]) -> IndexArray:
    """Terms by comparison and words."""
    found = np.concatenate(terms)
    order = np.lexsort(found[:, -2::-1].T)
    ordered: IndexArray = found[order]
    return ordered


def scored_model(
    row: Sequence[int],
    categories: Sequence[int],
    ordered: AbstractSet[int],
    *,
    interactions: bool = False,
) -> Regression:
    """The regression of x or y on S and on the other one, its last predictor.

    The response is the one whose three or more categories are in an order (of two the one with more
    categories, which leaves fewer degrees of freedom), then the one with fewer categories, a number
    last; the first if that does not decide.

    Args:
        row: x, y, s1, ..., sl.
        categories: Number of categories of every variable, 0 for a number.
        ordered: Variables with three or more categories in an order.
        interactions: Whether the variables of S interact; see `Regression`.
    """

    def rank(variable: int) -> tuple[int, int]:
        count = categories[variable]
        return (0, -count) if variable in ordered else (1 if count else 2, count)

    x, y, *given = row
    response, other = (y, x) if rank(y) < rank(x) else (x, y)
    crossed = len(given) if interactions else 0
    return Regression(response, (*given, other), (), response in ordered, crossed)


def score_shape(model: Regression, categories: Sequence[int]) -> tuple[int, int]:
    """Components of a model by the response and by its last predictor; 0 where no site fits it."""
    if too_large(model, categories):
        return 0, 0
    of_response = 1 if model.ordered else outputs(categories[model.response])
    of_tested = predictor_columns(categories[model.predictors[-1]])
    rows, columns = (own + (own > 1) for own in (of_response, of_tested))
    return rows, columns
