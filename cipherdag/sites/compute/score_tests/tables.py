"""Scores of categories given categories: differences from independence within a site's strata.

Given its margins, a stratum of n rows has scores with the covariance n^2 / (n - 1) P x Q. P and Q
are the covariances of one row's indicators of the categories of x and of y. Sigma sums this over
strata. It is never formed: only its trace and that of its square are needed.

A score U of categories i and j is multiplied by the root of w = 1 / (N p_i q_j), for N rows of all
sites. p_i and q_j are the means of P_ii and Q_jj over the site's rows, but at least 1 / sqrt(N). So
N p_i q_j, about the expected count of two rare categories, is at least 1. All weights follow from
margins, so that the moments given the margins are exact.

Source: Landis, Heyman and Koch, International Statistical Review 46 (1978) 237-254; Agresti,
Categorical Data Analysis, section 8.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatArray, FloatVector, IndexArray
from cipherdag.questions.scores.score_sums import MOST_SITE_SCORE
from cipherdag.sites.compute.counter import DiscreteColumns
from cipherdag.sites.compute.device import placed
from cipherdag.statistics.array_functions import (
    Array,
    floats,
    functions_of,
    host,
    like,
    maxima,
    segment_sums,
)
from cipherdag.statistics.contingency import TableForms, chi_square_tail, table_forms

AT_ONCE = 1 << 20  # up to this many products of covariances, all tests are done together
LEAST_SITE_VARIANCE = 1.0
"""If no cell's variance is larger, one site's scores are too far from normal for a chi-square."""
MOST_TAIL = 1.0 - 1e-3  # P-values are cut here, as the normal score of 1 is infinite
DENSE_CELLS = 1 << 12
"""A table of at most this many cells is counted whole; of a larger one the strata with rows."""


class Margins(NamedTuple):
    """Numbers of rows by category of x, (m, U), by category of y, (k, U), and by stratum, (U,).

    Of two categories only the first is a component. Strata of a test follow one another.
    """

    x: Array
    y: Array
    total: Array

    @classmethod
    def of(cls, counts: Array, rows: int, columns: int) -> Margins:
        """The margins of tables, (categories of x, of y, U), with ``rows`` x ``columns`` scores."""
        x, y = counts.sum(axis=1), counts.sum(axis=0)
        return cls(x[:rows], y[:columns], x.sum(axis=0))

    @property
    def scale(self) -> Array:
        """What the product of both margins' covariances is multiplied by, shape (U,)."""
        return 1.0 / (self.total * self.total * (self.total - 1.0))


def weighted_moments(
    margins: Margins, sizes: IndexArray, scores: FloatArray, variances: FloatArray, n_rows: int
) -> tuple[FloatArray, FloatVector, FloatVector]:
    """Weighted U, shape (m, k, T), the trace a of Sigma, and f, shape (T,) each.

    f^2 is the trace of Sigma^2, plus half of what fourth cumulants of rare counts add to the
    variance of U' U. Of the latter the site states a part: its share of all sites' rows.

    Each of ``sizes`` is the number of a test's strata; U and V are summed over strata.
    """
    rows = host(segment_sums(margins.total, sizes))
    of_x, of_y = component_weights(margins, sizes, n_rows)
    weights = of_x[:, None] * of_y / n_rows
    weighted = weights * variances
    squared = _squared_covariance(margins, sizes, of_x / n_rows, of_y)
    rare = (weights * weighted).sum(axis=(0, 1)) * (rows / n_rows)
    return np.sqrt(weights) * scores, weighted.sum(axis=(0, 1)), np.sqrt(squared + rare / 2.0)


def component_weights(
    margins: Margins, sizes: IndexArray, n_rows: int
) -> tuple[FloatArray, FloatArray]:
    """One over the mean p (1 - p) of every category of x, (m, T), and of y, (k, T)."""
    rows, least = host(segment_sums(margins.total, sizes)), 1.0 / math.sqrt(n_rows)
    of_x, of_y = (
        1.0 / np.maximum(host(segment_sums(spread, sizes)) / rows, least)
        for spread in (side * (1.0 - side / margins.total) for side in (margins.x, margins.y))
    )
    return of_x, of_y


def _squared_covariance(
    margins: Margins, sizes: IndexArray, of_x: FloatArray, of_y: FloatArray
) -> FloatVector:
    """The trace of Sigma^2 of every test, (T,), by weights of components, (m, T), (k, T)."""
    x, y = _covariances(margins.x, margins.total), _covariances(margins.y, margins.total)
    x *= margins.scale
    of_x, of_y = _of_pairs(of_x), _of_pairs(of_y)
    if len(x) * len(y) * y.shape[1] <= AT_ONCE:
        products = segment_sums(x[:, None] * y, sizes)
        squares = products * products * like(of_x, x)[:, None] * like(of_y, x)
        return host(squares.sum(axis=(0, 1)))
    total, ends = np.zeros(len(sizes)), np.cumsum(sizes)
    for test, (end, size) in enumerate(zip(ends.tolist(), sizes.tolist(), strict=True)):
        strata = slice(end - size, end)
        left = x[:, strata] * like(np.sqrt(of_x[:, test, None]), x)
        right = y[:, strata] * like(np.sqrt(of_y[:, test, None]), x)
        if size * (len(left) + len(right)) < len(left) * len(right):
            # of few strata the products of every two are fewer
            total[test] = float(((left.T @ left) * (right.T @ right)).sum())
        else:
            total[test] = float(((left @ right.T) ** 2).sum())
    return total


def _covariances(margin: Array, total: Array) -> Array:
    """n^2 times the covariances of a side's components, each pair once, (m (m + 1) / 2, U)."""
    i, j, same = (like(index, margin) for index in _pairs(len(margin)))
    covariances = margin[i] * -margin[j]
    covariances[same] += margin * total
    return covariances


def _of_pairs(weights: FloatArray) -> FloatArray:
    """Products of the weights of two components, (m, T), twice of mixed pairs, shape (pairs, T)."""
    i, j, same = _pairs(len(weights))
    both = 2.0 * weights[i] * weights[j]
    both[same] /= 2.0
    return both


@cache
def _pairs(count: int) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Pairs (i, j), i <= j, of components, and the positions of the pairs with i = j."""
    i, j = np.triu_indices(count)
    return i, j, np.flatnonzero(i == j)


Strata = tuple[IndexArray, Array]


class TableMoments(NamedTuple):
    """Sums over a site's strata of B tests of m components each: U, a, f, and rows that vary.

    U, (B, m), is weighted where it has several components; site scores, (2, B), are the site's
    normal score and 1, or 0 where it has none.
    """

    scores: FloatArray
    means: FloatVector
    spreads: FloatVector
    rows: FloatVector
    site_scores: FloatArray


class TableScoreTests:
    """Score tests of one site's categories, from columns with all their categories."""

    def __init__(self, columns: DiscreteColumns) -> None:
        self._columns = columns

    def answer(self, tests: IndexArray, n_rows: int) -> TableMoments:
        """The moments of tests (x, y, s1, ..., sl) of one shape; all sites have ``n_rows`` rows."""
        levels = self._columns.levels
        shape = tuple(int(of_side) for of_side in levels[tests[0, :2]])
        # of two categories the first is the one component
        sides = tuple(1 if each == 2 else each for each in shape)  # noqa: PLR2004
        scores, site_scores = np.zeros((*sides, len(tests))), np.zeros((2, len(tests)))
        means, spreads, rows = np.zeros((3, len(tests)))
        for owner, counts in self._strata(tests, shape):
            margins = Margins.of(counts, *sides)
            values = cells_of(counts, margins)
            first = np.flatnonzero(np.diff(owner, prepend=-1))
            which = owner[first]
            sizes = np.diff(first, append=len(owner))
            summed = segment_sums(values, sizes)
            score, variance = host(summed[:2])
            rows[which] = host(segment_sums(margins.total, sizes))
            if score[..., 0].size > 1:
                weighted = weighted_moments(margins, sizes, score, variance, n_rows)
                scores[..., which], means[which], spreads[which] = weighted
            else:
                scores[..., which], means[which] = score, variance[0, 0]
            given = tests.shape[1] > 2  # noqa: PLR2004
            forms = forms_of(values) if given else forms_of(summed)
            if given:
                forms = TableForms(*(segment_sums(part, sizes) for part in forms))
            site_scores[:, which] = normal_score(*TableForms(*map(host, forms)).scaled())
        return TableMoments(scores.reshape(-1, len(tests)).T, means, spreads, rows, site_scores)

    def _strata(self, tests: IndexArray, shape: tuple[int, ...]) -> Iterator[Strata]:
        """The test of every stratum that varies, (U,), and its counts, (rows, columns, U)."""
        x, y = shape
        cells = self._columns.levels[tests].astype(float).prod(axis=1)
        dense = cells <= max(DENSE_CELLS, self._columns.n_rows)
        positions = np.flatnonzero(dense)
        sets = np.column_stack([tests[positions, 2:], tests[positions, :2]])
        for piece, counts in self._columns.tables_here(sets):
            tables = counts.reshape(-1, x, y)
            owner = np.repeat(
                positions[piece], (cells[positions[piece]] / (x * y)).astype(np.int64)
            )
            yield from _varying(owner, tables)
        for test in np.flatnonzero(~dense).tolist():
            for tables in self._sparse(tests[test], x, y):
                here = placed(tables, self._columns.device)
                yield from _varying(np.full(len(tables), test), here)

    def _sparse(self, test: IndexArray, x: int, y: int) -> Iterator[IndexArray]:
        """Tables of the configurations of S that have rows, of one test."""
        codes, _ = self._columns.codes_and_rows(test)
        stratum = np.unique(codes[:, 2:], axis=0, return_inverse=True)[1].ravel()
        most = int(stratum.max(initial=-1)) + 1
        joint = (stratum * x + codes[:, 0]) * y + codes[:, 1]
        # no stratum is in two pieces, and no test either: its sums are of one piece
        yield np.bincount(joint, minlength=most * x * y).reshape(most, x, y)


def _varying(owner: IndexArray, tables: Array) -> Iterator[Strata]:
    """Yield the strata in which both variables vary, if there are any."""
    varies = (tables.any(axis=2).sum(axis=1) > 1) & (tables.any(axis=1).sum(axis=1) > 1)
    chosen = np.flatnonzero(host(varies))
    if len(chosen):
        yield owner[chosen], floats(tables[like(chosen, tables)].swapaxes(0, 1).swapaxes(1, 2))


def cells_of(counts: Array, margins: Margins) -> Array:
    """Differences, variances and expected counts of components, shape (3, rows, columns, U).

    Of two categories the expected count has r (n - r) / n in place of the first one's count r.
    """
    r, c, n = margins
    # products first: exactly 0 where x or y is constant
    difference = counts[: len(r), : len(c)] - r[:, None] * c / n
    spread_r, spread_c = r * (n - r), c * (n - c)
    of_r, of_c = (
        spread if len(margin) == 1 else margin * n
        for margin, spread in ((r, spread_r), (c, spread_c))
    )
    variance = spread_r[:, None] * spread_c * margins.scale
    expected = of_r[:, None] * of_c * margins.scale
    return functions_of(counts).stack([difference, variance, expected])


def forms_of(values: Array) -> TableForms:
    """Quadratic forms of strata, or of their sums; 0 where no cell varies enough."""
    xp = functions_of(values)
    enough = maxima(values[1], (0, 1)) > LEAST_SITE_VARIANCE
    form, mean, variance = (xp.where(enough, part, 0.0) for part in table_forms(*values))
    return TableForms(form=form, mean=mean, variance=variance)


def normal_score(form: FloatVector, dof: FloatVector) -> FloatArray:
    """Normal score of a chi-square's upper tail, and 1; 0 without degrees of freedom, (2, B)."""
    from scipy.special import ndtri

    done = dof > 0
    p_value = chi_square_tail(form, np.maximum(dof, 1.0 - done))
    score = np.minimum(-ndtri(np.minimum(p_value, MOST_TAIL)), MOST_SITE_SCORE)
    return np.where(done, np.stack([score, done]), 0.0)
