"""Threshold test on sums of scores: one bit per test and level is opened, and no sum.

A site answers in words, which are whole steps of a public grid: the scores of all tests, then level
by level each test's part of the threshold, then each test's normal score at this site alone, and
last a 1 for each test that has such a score.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.predicates import Predicates
from cipherdag.questions.disclosure import LARGEST_USUAL_LEVEL, Disclosure, Quantity, bits, joined
from cipherdag.questions.scores.score_sums import (
    MOST_SCORE,
    MOST_SITE_SCORE,
    MOST_VARIANCE,
    Misfits,
    RaoSums,
)
from cipherdag.questions.scores.score_test import (
    form_level,
    form_threshold,
    most_of_threshold,
    rare_constant,
    site_line,
    site_threshold,
)
from cipherdag.questions.verdicts import Verdicts

SCORE_BITS, FORM_BITS, SITE_BITS = 2, 5, 4
"""Fractional bits of what is compared: scores in rows, weighted scores, sites' own scores."""
FINE_ROWS = 1 << 24  # of all sites; with more of them the grid of scores in rows is coarser
MOST_LEVELS = 16  # levels at which one sum is compared
LEAST_LEVEL = 1e-12  # below it the normal law of a score holds no longer


class RaoBits(Verdicts, frozen=True, dict=True, tag="score-bits"):
    """Asks whether each test rejects independence over all sites; no sum is opened.

    The answer has a bit for every test at the first level, then at the next, and so on. It ends
    with a bit for each of the first ``able`` tests: whether any site's rows can inform it at all.

    Leaks:
        A bit may rest on one site's rows, where x and y vary at no other.
    """

    discloses = bits(
        *(Quantity.DECISION, Quantity.ABLE, Quantity.LENIENT, Quantity.LEVELS, Quantity.CURVED)
    )
    by_patient = True

    question: RaoSums | Misfits
    levels: tuple[float, ...]  # levels of every test, descending; none where only ``able`` is asked
    able: int = 0  # how many tests, from the first on, are also asked whether they can be done

    def __post_init__(self) -> None:
        falling = sorted(set(self.levels), reverse=True) == list(self.levels)
        if not (0 if self.able else 1) <= len(self.levels) <= MOST_LEVELS or not falling:
            raise ValueError(f"there are 1 to {MOST_LEVELS} levels, which fall")
        if not all(LEAST_LEVEL <= level < 1.0 for level in self.levels):
            raise ValueError(f"levels lie between {LEAST_LEVEL:g} and 1")
        if not 0 <= self.able <= self.question.n_tests:
            raise ValueError("there are as many tests as are asked whether they can be done")

    @property
    def label(self) -> str:
        several, first = len(self.levels) > 1, self._compared[0]
        at = f", at {len(self.levels)} levels" if several else f", at level {first:g}"
        return f"{self.question.label}{at if several or first > LARGEST_USUAL_LEVEL else ''}"

    @property
    def _bits(self) -> tuple[Disclosure, ...]:
        able = bits(*(Quantity.ABLE,) * bool(self.able))
        if len(self.levels) > 1:
            return joined(bits(Quantity.LEVELS), able)
        return joined(*map(self.question.decided, self.levels), able)

    @property
    def n_verdicts(self) -> int:
        """One bit per level and test, and one for each of the ``able`` first tests."""
        return len(self.levels) * self.question.n_tests + self.able

    @property
    def n_comparisons(self) -> int:
        """At most one of the form and one of sites' scores per bit, and one per ``able`` test."""
        return 2 * len(self.levels) * self.question.n_tests + self.able

    def words(self, answer: FloatVector) -> IndexArray:
        """The words of a site from its answer, shape (words,), in the order of the module's text.

        Parts are rounded up, as the small ones of rare categories would else vanish at every site.
        """
        sums = self.question.read(answer)
        spreads = self.question.spreads(sums)
        parts = [form_threshold(sums.means, spreads, form_level(each)) for each in self._compared]
        steps = [
            np.rint(np.ldexp(sums.scores, self._grid[self.question.owner])),
            *(np.ceil(np.ldexp(part, 2 * self._grid)) for part in parts),
            np.rint(np.ldexp(sums.site_scores, SITE_BITS)),
            sums.sites,
        ]
        return np.clip(np.concatenate(steps), *self._bounds(1)).astype(np.int64)

    def predicates(self, n_sites: int) -> Predicates:
        """The tests as comparisons of sums over ``n_sites`` sites.

        A test rejects where its form, the sum of its squared scores, exceeds the sum of the parts,
        or where the sum of the sites' scores exceeds `site_line` at their number.
        """
        question, n_levels = self.question, len(self._compared)
        scored, n_scores = question.sizes > 0, int(question.sizes.sum())
        n_tests, score = len(scored), np.arange(n_scores)
        sizes = np.where(scored, 2, 1)
        per_level = int(sizes.sum())
        # positions of comparisons at the first level, and of words
        form = np.cumsum(sizes) - sizes
        line = form[scored] + 1
        by_site = n_scores + n_levels * n_tests + np.flatnonzero(scored)
        quadratic, linear, constants = [], [], []
        for number, level in enumerate(self.levels):
            constant = np.zeros(per_level, dtype=np.int64)
            constant[form] = -self._constants(form_level(level), n_sites)
            at_zero, slope = np.ldexp(site_line(site_threshold(level), n_sites), 2 * SITE_BITS)
            constant[line] = -math.ceil(at_zero)
            constants.append(constant)
            forms, lines = form + number * per_level, line + number * per_level
            part = n_scores + number * n_tests + np.arange(n_tests)
            quadratic.append(np.column_stack([forms[question.owner], score, score, score * 0 + 1]))
            linear += [
                np.column_stack([forms, part, np.full_like(part, -1)])[scored],
                np.column_stack([lines, by_site, np.full_like(lines, 1 << SITE_BITS)]),
                np.column_stack([lines, n_tests + by_site, np.full_like(lines, -math.ceil(slope))]),
            ]
        if self.able:
            # whether any site's part of the first level's threshold is above 0
            able, beyond = np.arange(self.able), len(self.levels) * per_level
            linear.append(np.column_stack([beyond + able, n_scores + able, able * 0 + 1]))
            constants.append(np.zeros(self.able, dtype=np.int64))
        return Predicates(
            *self._bounds(n_sites),
            np.concatenate([*[sizes] * len(self.levels), np.ones(self.able, dtype=np.int64)]),
            _in_order([np.zeros((0, 4), dtype=np.int64), *quadratic]),
            _in_order(linear),
            np.concatenate(constants),
        )

    @property
    def _compared(self) -> tuple[float, ...]:
        """The levels that sites compute parts of thresholds for; ``able`` alone needs one, too."""
        return self.levels or (LARGEST_USUAL_LEVEL,)

    @cached_property
    def _grid(self) -> IndexArray:
        """Bits of the grid of a test's scores, shape (B,)."""
        coarser = max(self.question.n_rows.bit_length() - FINE_ROWS.bit_length(), 0)
        return np.where(self.question.sizes > 1, FORM_BITS, SCORE_BITS - coarser)

    def _constants(self, level: float, n_sites: int) -> FloatVector:
        """What each threshold has on top of the sites' parts, on the parts' grid, shape (B,).

        A test of one component gets `rare_constant`. With several, rounding of every site's scores
        has a variance of 1 / 12; the part of these variances is added as if of one more site.
        """
        sizes, rounding = self.question.sizes.astype(np.float64), n_sites / 12.0
        rounded = form_threshold(sizes * rounding, sizes**0.5 * rounding, level)
        rare = np.ldexp(rare_constant(level), 2 * self._grid)
        return np.ceil(np.where(sizes > 1, rounded, rare)).astype(np.int64)

    def _bounds(self, n_sites: int) -> tuple[IndexArray, IndexArray]:
        """Least and largest sum of every word over ``n_sites`` sites; with 1, of a site's word."""
        question, n_rows = self.question, float(self.question.n_rows)
        several, table = question.sizes > 1, question.by_table
        in_rows = np.where(table, n_rows / 4.0 + 1.0, n_rows)
        scores = np.where(several, MOST_SCORE * question.root, in_rows)
        variances = np.where(table, n_rows / 8.0 + 1.0, MOST_VARIANCE * n_rows)
        means = np.where(several, question.sizes * question.root, variances) * question.visits
        most = np.ceil(np.ldexp(scores, self._grid))[question.owner]
        parts = [
            most_of_threshold(means, n_sites, form_level(each), question.visits)
            for each in self._compared
        ]
        one = np.ones(question.n_tests)
        site = n_sites * math.ldexp(MOST_SITE_SCORE, SITE_BITS) * one
        most_part = np.ceil(np.ldexp(parts, 2 * self._grid)).ravel() + n_sites
        highest = [most, most_part, site, n_sites * one]
        lowest = [-most, 0.0 * most_part, -site, 0.0 * one]
        return np.concatenate(lowest).astype(np.int64), np.concatenate(highest).astype(np.int64)


def _in_order(terms: Sequence[IndexArray]) -> IndexArray:
    """Terms, sorted by comparison and then by words."""
    joined_terms = np.concatenate(terms)
    return joined_terms[np.lexsort(joined_terms[:, -2::-1].T)]
