"""Threshold test on sums of scores: one bit per test and level is opened, and nothing else.

A site's words are its scores, its variances times a public z^2, its own normal scores and whether
it has them, all in whole steps of a public grid. The thresholds are those of
`cipherdag.questions.scores.score_test`, rounded up to the grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.predicates import Predicates
from cipherdag.questions.pooled_data import check_categories
from cipherdag.questions.scores.score_sums import (
    FIRST_SIZE,
    MOST_SITE_SCORE,
    MOST_VARIANCE,
    ScoreSums,
)
from cipherdag.questions.scores.score_test import Components, Thresholds, site_line
from cipherdag.questions.verdicts import Verdicts

SCORE_BITS, VARIANCE_BITS, SITE_BITS, TRACE_BITS = 2, 4, 4, 10
"""Of the grids of what is compared: scores in rows, variances, sites' scores, trace weights."""
LEVEL_BITS = 6
"""Of the grid of z^2 at a further level, relative to that at the first."""
LARGEST_FORM = 1 << 58
"""What no form of a trace reaches; its weights are rounded more coarsely where it would."""
LARGEST_USUAL_LEVEL = 0.1
"""A test at a larger one says so."""
MOST_LEVELS = 16
"""Levels at which one sum is compared."""
LEAST_LEVEL = 1e-12
"""Below it the normal law of a score holds no longer."""


class _Block(NamedTuple):
    """Comparisons of all tests, numbered from 0; fields as those of `Predicates`."""

    sizes: IndexArray
    quadratic: IndexArray
    linear: IndexArray
    constants: IndexArray


class ScoreBits(Verdicts, frozen=True, dict=True, tag="score-bits"):
    """Asks whether each test rejects independence over all sites; nothing else is opened.

    The answer has a bit per level and test, tests fastest; then one more for each of the first
    ``able`` tests: whether any site has rows that are informative about x and y.

    Leaks:
        These bits, to everybody, under the assumptions of `cipherdag.privacy.mpc`. A bit may rest
        on one site's rows, where x and y vary at no other.

    Attributes:
        question: The tests.
        levels: Of every test, descending.
        rows: Rows of all sites.
        sizes: About how many rows each category has over all sites, packed exponents of two, one
            byte each.
        able: Of how many tests, the first ones, to ask whether they can be done.
    """

    leaves = "whether a test over all sites together says dependent, or can be done"

    question: ScoreSums
    levels: tuple[float, ...]
    rows: int
    sizes: bytes
    able: int = 0

    def __post_init__(self) -> None:
        falling = sorted(set(self.levels), reverse=True) == list(self.levels)
        if not 1 <= len(self.levels) <= MOST_LEVELS or not falling:
            raise ValueError(f"there are 1 to {MOST_LEVELS} levels, which fall")
        if not all(LEAST_LEVEL <= level < 1.0 for level in self.levels):
            raise ValueError(f"levels lie between {LEAST_LEVEL:g} and 1")
        if not 1 <= self.rows < 1 << 40:
            raise ValueError("there are rows, and fewer than 2**40")
        exponents = np.frombuffer(self.sizes, dtype=np.uint8)
        if len(exponents) != sum(self.question.categories) or (exponents > 40).any():  # noqa: PLR2004
            raise ValueError("every category has a size, an exponent of two up to 40")
        if not 0 <= self.able <= self.question.n_tests:
            raise ValueError("there are as many tests as are asked whether they can be done")

    @property
    def label(self) -> str:
        several, first = len(self.levels) > 1, self.levels[0]
        at = f", at {len(self.levels)} levels" if several else f", at level {first:g}"
        return f"{self.question.label}{at if several or first > LARGEST_USUAL_LEVEL else ''}"

    @property
    def n_verdicts(self) -> int:
        """One bit per level and test, and per test that may not be able."""
        return len(self.levels) * self.question.n_tests + self.able

    @property
    def n_comparisons(self) -> int:
        """Comparisons of all tests at most."""
        each = int(self.question.sizes.sum()) + 2 * self.question.n_tests
        return len(self.levels) * each + self.able

    @cached_property
    def components(self) -> Components:
        """The public properties of the tests' components."""
        return self.question.components(self._category_rows, self.rows)

    @cached_property
    def thresholds(self) -> tuple[Thresholds, ...]:
        """The thresholds of each level."""
        return tuple(Thresholds.at(level, self.components) for level in self.levels)

    def words(self, answer: FloatVector) -> IndexArray:
        """A site's whole numbers from its answer: U, z^2 V, its own scores, and 1 for each.

        V is rounded up: where categories are rare, each site would round off all of it.
        """
        scores, variances, site_scores, sites, _ = self.question.read(answer)
        squared = self.thresholds[0].squared[self.components.owner]
        steps = np.concatenate(
            [
                np.ldexp(scores, SCORE_BITS),
                np.ceil(np.ldexp(squared * variances, VARIANCE_BITS)),
                np.ldexp(site_scores, SITE_BITS),
                sites,
            ]
        )
        lowest, highest = self._bounds(1)
        return np.clip(np.rint(steps).astype(np.int64), lowest, highest)

    def predicates(self, n_sites: int) -> Predicates:
        """The tests as comparisons of sums over so many sites."""
        lowest, highest = self._bounds(n_sites)
        blocks = [self._at_level(each, n_sites, highest) for each in self.thresholds]
        if self.able:
            blocks.append(self._of_able())
        forms = np.cumsum([0, *(block.sizes.sum() for block in blocks)])[:-1]
        placed = list(zip(blocks, forms, strict=True))
        return Predicates(
            lowest,
            highest,
            np.concatenate([block.sizes for block in blocks]),
            _in_order([block.quadratic + np.array([at, 0, 0, 0]) for block, at in placed]),
            _in_order([block.linear + np.array([at, 0, 0]) for block, at in placed]),
            np.concatenate([block.constants for block in blocks]),
        )

    def _at_level(self, thresholds: Thresholds, n_sites: int, highest: IndexArray) -> _Block:
        """The comparisons of one level; of a test its components, its trace and the sites' own."""
        tests, first_level = self.components, self.thresholds[0]
        owner, count, n_tests = tests.owner, len(tests.expected), len(tests.sizes)
        done, n_alone = tests.sizes > 0, tests.n_alone
        sizes = np.where(done, n_alone + tests.several + 1, 1)
        first = np.cumsum(sizes) - sizes
        constants = np.zeros(sizes.sum(), dtype=np.int64)
        each = np.flatnonzero(tests.alone)
        at = first[owner[each]] + np.arange(len(each))
        at -= np.repeat(np.cumsum(n_alone) - n_alone, n_alone)
        # the words of V are multiplied by z^2 of the first level already
        finer = 0 if thresholds is first_level else LEVEL_BITS
        relative = np.ldexp(thresholds.squared / first_level.squared, finer)[owner[each]]
        least = np.ldexp(thresholds.constant[owner[each]], 2 * SCORE_BITS + finer)
        constants[at] = -np.ceil(least).astype(np.int64)
        weights = self._trace_weights(highest)
        traced = np.flatnonzero(tests.several[owner])
        of_trace = (first + n_alone)[owner[traced]]
        ratio = np.ldexp(thresholds.quantile / first_level.squared, TRACE_BITS)[owner[traced]]
        line = (first + n_alone + tests.several)[done]
        tested = np.flatnonzero(done)
        constant, slope = np.ldexp(site_line(thresholds.site, n_sites), 2 * SITE_BITS).tolist()
        constants[line] = -math.ceil(constant)
        steep, unit = np.full(len(line), -math.ceil(slope)), np.full(len(line), 1 << SITE_BITS)
        return _Block(
            sizes,
            np.concatenate(
                [
                    np.column_stack([at, each, each, np.full_like(at, 1 << finer)]),
                    np.column_stack([of_trace, traced, traced, weights[traced] << TRACE_BITS]),
                ]
            ),
            np.concatenate(
                [
                    np.column_stack([at, count + each, -_at_least_one(relative)]),
                    np.column_stack(
                        [of_trace, count + traced, -_at_least_one(ratio * weights[traced])]
                    ),
                    np.column_stack([line, 2 * count + tested, unit]),
                    np.column_stack([line, 2 * count + n_tests + tested, steep]),
                ]
            ),
            constants,
        )

    def _of_able(self) -> _Block:
        """Whether any variance of a test is above 0."""
        owner, one = self.components.owner, np.ones(self.able, dtype=np.int64)
        component = np.flatnonzero(owner < self.able)
        variance = len(owner) + component
        return _Block(
            one,
            np.zeros((0, 4), dtype=np.int64),
            np.column_stack([owner[component], variance, np.ones_like(component)]),
            0 * one,
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
        most_rows = [np.zeros(0)]
        by_layout: dict[tuple[int, int, int, int], FloatVector] = {}
        tests = np.column_stack([question.pairs, question.shapes])
        for test, table in zip(map(tuple, tests.tolist()), question.by_table, strict=True):
            x, y, rows, columns = test
            if not rows:
                continue
            if test not in by_layout:
                by_layout[test] = np.full(rows * columns, float(self.rows))
                if table:
                    sides = (_side_rows(of_variable[v]) for v in (x, y))
                    by_layout[test] = np.minimum.outer(*sides).ravel()
            most_rows.append(by_layout[test])
        return np.concatenate(most_rows)

    def _bounds(self, n_sites: int) -> tuple[IndexArray, IndexArray]:
        """Least and largest sum of every word over so many sites; of one, what it may say."""
        rows, tests = self._most_rows, self.components
        table = self.question.by_table[tests.owner]
        scores = np.where(table, np.minimum(rows, self.rows / 4.0 + 1.0), rows)
        variances = np.where(
            table, np.minimum(2.0 * rows, self.rows / 8.0 + 1.0), MOST_VARIANCE * rows
        )
        squared = self.thresholds[0].squared[tests.owner]
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
        return np.maximum(weights / np.exp2(beyond)[tests.owner], 1.0).astype(np.int64)


class CategorySizes(Verdicts, frozen=True, tag="category-sizes"):
    """Asks for the size of each category over all sites, to a power of two, from 8 on.

    Leaks:
        To everybody, per category and power of two from 8 up to the rows of all sites, whether the
        category has as many rows over all sites together.

    Attributes:
        categories: Number of categories of every variable, 0 for a number, shape (p,).
        rows: Rows of all sites.
        max_rows: Declared bound of a site's rows.
    """

    leaves = "about how many rows each category has, to a power of two"

    categories: tuple[int, ...]
    rows: int
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        if not 1 <= self.rows < 1 << 40:
            raise ValueError("there are rows, and fewer than 2**40")

    @property
    def label(self) -> str:
        return f"sizes of {sum(self.categories)} categories"

    @property
    def n_verdicts(self) -> int:
        """One bit per category and power, powers fastest."""
        return sum(self.categories) * len(self._powers)

    def words(self, answer: FloatVector) -> IndexArray:
        """A site's counts."""
        return np.minimum(np.rint(answer), self.rows).astype(np.int64)

    def predicates(self, n_sites: int) -> Predicates:
        """Whether each sum is as large as each power."""
        powers, count = self._powers, sum(self.categories)
        each = np.arange(count * len(powers))
        word = np.repeat(np.arange(count), len(powers))
        return Predicates(
            np.zeros(count, dtype=np.int64),
            # beside pooled tables the rows are those without a gap, and counts may exceed them
            np.full(count, n_sites * self.rows, dtype=np.int64),
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
        return np.array([1 << exponent for exponent in exponents], dtype=np.int64)


def _at_least_one(values: FloatVector) -> IndexArray:
    """The nearest whole numbers, none below 1."""
    return np.maximum(np.rint(values), 1.0).astype(np.int64)


def _side_rows(most: FloatVector) -> FloatVector:
    """Most rows of the categories with components; of two, of the rarer one."""
    return most.min(keepdims=True) if len(most) == 2 else most  # noqa: PLR2004


def _in_order(terms: Sequence[IndexArray]) -> IndexArray:
    """Terms by comparison and words."""
    joined_terms = np.concatenate(terms)
    order = np.lexsort(joined_terms[:, -2::-1].T)
    return joined_terms[order]
