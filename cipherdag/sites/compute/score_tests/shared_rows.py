"""Score tests of numbers over the same rows, by matrix products on blocks of rows.

Coefficients follow from the correlations of the numbers and their curves. A residual that several
tests have is made once, with all others given the same set. One pass over the rows is left, since
products of deviations from means follow from products; two where residuals are clipped once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import BoolVector, FloatArray, FloatMatrix, FloatVector, IndexArray
from cipherdag.sites.compute.score_tests.columns import Columns, Rows, dots
from cipherdag.sites.compute.score_tests.residuals import (
    CLIP,
    FEWEST_REST,
    FURTHEST,
    LEAST_VARIANCE,
    pseudo_inverse,
)
from cipherdag.statistics.array_functions import Array, functions_of, host, like
from cipherdag.statistics.outcome_cache import position_keys
from cipherdag.statistics.regression_fits import LEAST_REST

EXACT_REST = 1e-4
"""Share of the variance from which on correlations tell what S leaves to ten digits."""
MOST_TOGETHER, MOST_FITTED = 2**17, 2**20
"""Values of residuals that are made, and regressed, at a time where all rows are kept."""
DENSE = 4
"""Pairs of residuals a test up to which the products of all pairs are faster than of some."""


def shared_moments(columns: Columns, tests: IndexArray, *, curved: bool) -> FloatArray:
    """U, V, and rows less coefficients of tests (x, y, s1, ...), shape (3, B); 0: not done."""
    keys = position_keys(np.sort(tests[:, 2:], axis=1))
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    width = len(columns.variables)
    codes = which.reshape(-1, 1) * width + tests[:, :2]
    distinct, index = np.unique(codes, return_inverse=True)
    owner, number = np.divmod(distinct, width)
    # sets of as many numbers follow one another
    order = np.argsort(np.bincount(owner)[owner], kind="stable")
    index = np.argsort(order)[index.reshape(-1, 2)]
    by_residual = np.argsort(index[:, 0], kind="stable")
    index, start = index[by_residual], 0
    moments = np.zeros((3, len(tests)))
    sets = tests[first[owner[order]], 2:]
    for groups in _pieces(columns, sets, number[order], owner[order], curved=curved):
        residuals = _Residuals(columns, groups)
        stop = start + len(residuals.rest)
        at = slice(*np.searchsorted(index[:, 0], [start, stop]))
        mine, start = index[at] - start, stop
        rest = residuals.rest[mine].min(axis=1)
        score, variance = residuals.products(mine)
        done = rest > 0.0
        variance = variance * (columns.count / np.where(done, rest, 1.0))
        made = [score, np.maximum(variance, LEAST_VARIANCE * rest), rest]
        moments[:, by_residual[at]] = np.where(done, made, 0.0)
    return moments


def distinct_numbers(numbers: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return the distinct ones of small numbers ascending, and of each number its index there."""
    present: BoolVector = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=bool)
    present[numbers] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


class _Regressions(NamedTuple):
    """Regressions of d numbers on each of U sets, whose residuals' squares add up to ``rest``.

    Numbers are columns, (U, d), regressors (U, m), and slopes, (U, d, m), of the columns as they
    are. Residuals are multiplied by ``scale``; it and ``rest``, rows less coefficients, (U, d), are
    0 where S leaves nothing, or too few rows.
    """

    numbers: IndexArray
    regressors: IndexArray
    slopes: FloatArray
    scale: FloatMatrix
    rest: FloatMatrix

    def of(self, sets: slice | IndexArray) -> _Regressions:
        """Those on some of the sets."""
        return _Regressions(
            self.numbers[sets],
            self.regressors[sets],
            self.slopes[sets],
            self.scale[sets],
            self.rest[sets],
        )


def _pieces(
    columns: Columns, sets: IndexArray, number: IndexArray, owner: IndexArray, *, curved: bool
) -> Iterator[list[_Regressions]]:
    """Yield regressions whose residuals are made together: all, or where all rows are kept a few.

    Sets, (E, k), numbers and the index of each set are by residual; sets of as many numbers follow
    one another.
    """
    _, starts, counts = np.unique(owner, return_index=True, return_counts=True)
    counts = counts[np.argsort(starts)]
    made: list[_Regressions] = []
    start = waiting = 0
    for count, n_sets in np.column_stack(np.unique(counts, return_counts=True)).tolist():
        step = n_sets if columns.held is None else max(MOST_FITTED // (count * columns.count), 1)
        few = n_sets if columns.held is None else max(MOST_TOGETHER // (count * columns.count), 1)
        for first in range(0, n_sets, step):
            part = slice(start, start + count * min(step, n_sets - first))
            start, numbers = part.stop, number[part].reshape(-1, count)
            group = _regressions(columns, sets[part][::count], numbers, curved=curved)
            for at in range(0, len(numbers), few):
                made.append(group.of(slice(at, at + few)))
                waiting += made[-1].rest.size * columns.count
                if columns.held is not None and waiting >= MOST_TOGETHER:
                    yield made
                    made, waiting = [], 0
    if made:
        yield made


def _regressions(
    columns: Columns, sets: IndexArray, numbers: IndexArray, *, curved: bool
) -> _Regressions:
    """Regressions of numbers, shape (U, d), on sets, shape (U, k)."""
    regressors = columns.regressors(sets, curved=curved)
    left = (columns.deviations > 0.0)[numbers].astype(np.float64)
    slopes, rank = np.zeros((*numbers.shape, 0)), np.zeros(len(sets))
    if sets.size:
        among, across = columns.correlations(regressors, numbers)
        inverse, rank = pseudo_inverse(among)
        slopes = across @ inverse
        left -= (slopes * across).sum(axis=2)
        slopes *= columns.scales[regressors][:, None] * columns.deviations[numbers][:, :, None]
    scale = columns.scales[numbers]
    rest = np.broadcast_to(columns.count - 1.0 - rank[:, None], left.shape)
    fits = _Regressions(numbers, regressors, slopes, scale, rest)
    near = np.flatnonzero((left < EXACT_REST).any(axis=1))
    if len(near):
        few = fits.of(near)
        left[near] = _Residuals(columns, [few]).mean_squares().reshape(few.rest.shape)
    done = (left > LEAST_REST) & (rest >= FEWEST_REST)
    rest = np.where(done, rest, 0.0)
    scale = scale * np.sqrt(rest / np.where(done, columns.count * left, 1.0))
    return fits._replace(scale=scale, rest=rest)


class _Residuals:
    """Residuals, and what is summed of them once they are clipped."""

    def __init__(self, columns: Columns, groups: list[_Regressions]) -> None:
        self._columns, self._groups = columns, groups
        self.rest = np.concatenate([group.rest.ravel() for group in groups])

    def mean_squares(self) -> FloatVector:
        """Of the residuals as they are, shape (E,)."""
        total = sum(dots(block, block) for block, _ in self._blocks())
        return host(total) / self._columns.count

    def products(self, index: IndexArray) -> tuple[FloatVector, FloatVector]:
        """Sums of the products of each test's two residuals, and of squared products, (B,) each."""
        if len(self._groups) == len(self._groups[0].numbers) == 1:
            (left, first), (right, second) = (distinct_numbers(side) for side in index.T)
            if len(left) * len(right) <= DENSE * len(index):
                total, squares = self._sums(_of_each)
                mean, size = self._moments(total, squares)
                score, variance = self._sums(partial(_of_all, left, right), mean, size)
                unit = size[index].prod(axis=1)
                return score[first, second] / unit, variance[first, second] / unit**2
        left, right = index.T
        total, squares, ab, aab, abb, aabb = self._sums(partial(_of_raw, left, right))
        mean, size = self._moments(total, squares)
        if (FURTHEST * size < CLIP + np.abs(mean)).any():
            score, variance = self._sums(partial(_of_two, left, right), mean, size)
        else:  # in deviations from the means
            (a, b), (aa, bb), n = mean[index].T, squares[index].T, self._columns.count
            score = ab - n * a * b
            variance = aabb - 2.0 * (b * aab + a * abb) + b * b * aa + a * a * bb
            variance += a * b * (4.0 * ab - 3.0 * n * a * b)
        unit = size[index].prod(axis=1)
        return score / unit, variance / unit**2

    def _moments(self, total: FloatVector, squares: FloatVector) -> tuple[FloatVector, FloatVector]:
        """Mean and size of the clipped residuals, shape (E,) each; size 1 where they are 0."""
        count = self._columns.count
        mean = total / count
        size = np.sqrt(np.maximum(squares - count * mean**2, 0.0) / np.maximum(self.rest, 1.0))
        return mean, np.where(size > 0.0, size, 1.0)

    def _sums(
        self,
        terms: Callable[[Array], tuple[Array, ...]],
        mean: FloatVector | None = None,
        size: FloatVector | None = None,
    ) -> list[FloatArray]:
        """Sums over all rows of terms of clipped residuals, less ``mean``, clipped by ``size``."""
        sums: list[Array] = []
        for residuals, counts in self._blocks():
            xp, block = functions_of(residuals), residuals  # which nothing reads again
            xp.clip(block, -CLIP, CLIP, out=block)
            if mean is not None and size is not None:
                block -= like(mean[:, None], block)
                if counts is not None:
                    block *= counts
                if (FURTHEST * size < CLIP + np.abs(mean)).any():
                    reach = like(FURTHEST * size[:, None], block)
                    xp.clip(block, -reach, reach, out=block)
            parts = terms(block)
            sums = [a + b for a, b in zip(sums, parts, strict=True)] if sums else [*parts]
        return [*map(host, sums)]

    def _blocks(self) -> Iterator[Rows]:
        """Yield blocks of residuals, shape (E, r), and which rows count."""
        source = self._columns.source
        groups = [[*map(source.placed, group[:4])] for group in self._groups]
        for block, counts in self._columns.blocks(len(self.rest)):
            made = []
            for numbers, regressors, slopes, scale in groups:
                part = block[numbers]
                if regressors.shape[1]:
                    part -= slopes @ block[regressors]
                part *= scale[:, :, None]
                made.append(part.reshape(-1, part.shape[2]))
            one = len(made) == 1
            yield made[0] if one else functions_of(block).concatenate(made), counts


def _of_each(block: Array) -> tuple[Array, ...]:
    """Residuals and their squares, summed, shape (E,) each."""
    return block.sum(axis=1), dots(block, block)


def _of_all(left: IndexArray, right: IndexArray, block: Array) -> tuple[Array, ...]:
    """Products of each residual on the left with each on the right, and the squared products."""
    one, other = block[like(left, block)], block[like(right, block)]
    return one @ other.T, (one * one) @ (other * other).T


def _of_two(left: IndexArray, right: IndexArray, block: Array) -> tuple[Array, ...]:
    """Products of two residuals, and the squared products, shape (B,) each."""
    both = block[like(left, block)] * block[like(right, block)]
    return both.sum(axis=1), dots(both, both)


def _of_raw(left: IndexArray, right: IndexArray, block: Array) -> tuple[Array, ...]:
    """What the same follows from, once the means are known; of residuals and of products."""
    one, other = block[like(left, block)], block[like(right, block)]
    both = one * other
    of_both = both.sum(axis=1), dots(both, one), dots(both, other), dots(both, both)
    return *_of_each(block), *of_both
