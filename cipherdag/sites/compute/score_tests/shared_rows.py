"""Score tests of numbers over the same rows, by matrix products on blocks of rows.

Coefficients follow from the correlations of the numbers, their curves and products. A residual
that several tests share is computed once: of few rows set by set, of many by one matrix product of
all coefficients and all columns. One pass over the rows is enough, since sums of centred products
follow from sums of raw products. Where centred residuals have to be clipped, there is a second one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import BoolVector, FloatArray, FloatMatrix, FloatVector, IndexArray
from cipherdag.sites.compute.score_tests.basis import Basis, pairs
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
"""If S leaves less than this share of a variance, it is summed over rows, as digits are lost."""
MOST_TOGETHER, MOST_FITTED = 2**17, 2**20
"""Values of residuals that are computed, and regressed, at a time if all rows are held."""
DENSE = 4  # up to this many pairs of residuals per test, the products of all pairs are faster


def shared_moments(columns: Columns, tests: IndexArray, basis: Basis) -> FloatArray:
    """U, V, and rows less coefficients of tests (x, y, s1, ...), (3, B); 0 if not done."""
    keys = position_keys(np.sort(tests[:, 2:], axis=1))
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    width = len(columns.variables)
    codes = which.reshape(-1, 1) * width + tests[:, :2]
    distinct, index = np.unique(codes, return_inverse=True)
    owner, number = np.divmod(distinct, width)
    # sets on which equally many numbers are regressed follow one another
    order = np.argsort(np.bincount(owner)[owner], kind="stable")
    index = np.argsort(order)[index.reshape(-1, 2)]
    by_residual = np.argsort(index[:, 0], kind="stable")
    index, start = index[by_residual], 0
    moments = np.zeros((3, len(tests)))
    sets = tests[first[owner[order]], 2:]
    for groups in _pieces(columns, sets, number[order], owner[order], basis):
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
    """Return distinct values of small whole numbers, ascending, and each number's index in them."""
    present: BoolVector = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=bool)
    present[numbers] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


class _Regressions(NamedTuple):
    """Regressions of d numbers on each of U sets of m regressors.

    Numbers, (U, d), and regressors, (U, m), are positions of columns. Products of the first ones
    may follow, of given ``means``, (U, P), so that slopes have shape (U, d, m + P). Residuals times
    ``scale``, (U, d), have squares that add up to ``rest``, the rows less coefficients. Both are 0
    where S leaves nothing, or too few rows.
    """

    numbers: IndexArray
    regressors: IndexArray
    means: FloatMatrix
    slopes: FloatArray
    scale: FloatMatrix
    rest: FloatMatrix

    def of(self, sets: slice | IndexArray) -> _Regressions:
        """The regressions on some of the sets."""
        return _Regressions(
            self.numbers[sets],
            self.regressors[sets],
            self.means[sets],
            self.slopes[sets],
            self.scale[sets],
            self.rest[sets],
        )


def _pieces(
    columns: Columns, sets: IndexArray, number: IndexArray, owner: IndexArray, basis: Basis
) -> Iterator[list[_Regressions]]:
    """Yield lists of regressions whose residuals are made together: all, or a few if rows are held.

    ``sets``, (E, k), ``number`` and ``owner``, the set's index, have an entry per residual. Sets on
    which equally many numbers are regressed follow one another.
    """
    _, starts, counts = np.unique(owner, return_index=True, return_counts=True)
    counts = counts[np.argsort(starts)]
    made: list[_Regressions] = []
    start = waiting = 0
    width = sets.shape[1] * (1 + basis.curves)
    for count, n_sets in np.column_stack(np.unique(counts, return_counts=True)).tolist():
        # values of a set that are read together
        values = (count + width) * columns.count
        step = n_sets if columns.held is None else max(MOST_FITTED // values, 1)
        few = n_sets if columns.held is None else max(MOST_TOGETHER // values, 1)
        for first in range(0, n_sets, step):
            part = slice(start, start + count * min(step, n_sets - first))
            start, numbers = part.stop, number[part].reshape(-1, count)
            group = _regressions(columns, sets[part][::count], numbers, basis)
            for at in range(0, len(numbers), few):
                made.append(group.of(slice(at, at + few)))
                waiting += made[-1].rest.size * columns.count
                if columns.held is not None and waiting >= MOST_TOGETHER:
                    yield made
                    made, waiting = [], 0
    if made:
        yield made


def _regressions(
    columns: Columns, sets: IndexArray, numbers: IndexArray, basis: Basis
) -> _Regressions:
    """Regressions of numbers, shape (U, d), on sets, shape (U, k)."""
    regressors = columns.regressors(sets, basis)
    left = (columns.deviations > 0.0)[numbers].astype(np.float64)
    slopes, rank = np.zeros((*numbers.shape, 0)), np.zeros(len(sets))
    means: FloatMatrix = np.zeros((len(sets), 0))
    if sets.size:
        among, across = columns.correlations(regressors, numbers)
        scales = columns.scales[regressors]
        if basis.products:
            first, second = pairs(sets.shape[1])
            means = among[:, first, second] * columns.deviations[sets[:, first]]
            means *= columns.deviations[sets[:, second]]
            among, across, scales = _with_products(
                columns, (numbers, regressors, means), (among, across, scales)
            )
        inverse, rank = pseudo_inverse(among)
        slopes = across @ inverse
        left -= (slopes * across).sum(axis=2)
        slopes *= scales[:, None] * columns.deviations[numbers][:, :, None]
    scale = columns.scales[numbers]
    rest = np.broadcast_to(columns.count - 1.0 - rank[:, None], left.shape)
    fits = _Regressions(numbers, regressors, means, slopes, scale, rest)
    near = np.flatnonzero((left < EXACT_REST).any(axis=1))
    if len(near):
        few = fits.of(near)
        left[near] = _Residuals(columns, [few]).mean_squares().reshape(few.rest.shape)
    done = (left > LEAST_REST) & (rest >= FEWEST_REST)
    rest = np.where(done, rest, 0.0)
    scale = scale * np.sqrt(rest / np.where(done, columns.count * left, 1.0))
    return fits._replace(scale=scale, rest=rest)


class _Products(NamedTuple):
    """Distinct products of two numbers: their positions and the products' means, (P,) each."""

    first: IndexArray
    second: IndexArray
    means: FloatVector

    @classmethod
    def of(cls, regressors: IndexArray, means: FloatMatrix) -> tuple[_Products, IndexArray]:
        """Those of sets, regressors (U, m) and means (U, P), and the index of each, (U, P)."""
        sides = np.stack([regressors[:, side] for side in _pairs_of(means.shape[1])])
        (first, second), most = np.sort(sides, axis=0), int(regressors.max(initial=0)) + 1
        codes, at, index = np.unique(first * most + second, return_index=True, return_inverse=True)
        return cls(*np.divmod(codes, most), means.ravel()[at]), index.reshape(means.shape)

    def behind(self, rows: Rows) -> Array:
        """A block of rows, (M, r), and the centred products behind it, (M + P, r)."""
        block, counts = rows
        if not len(self.means):
            return block
        first, second, means = (like(each, block) for each in self)
        made = block[first] * block[second]
        made -= means[:, None]
        if counts is not None:
            made *= counts
        return functions_of(block).concatenate([block, made])


def _pairs_of(n_products: int) -> tuple[IndexArray, IndexArray]:
    """Which numbers of a set make each of its products."""
    return pairs((1 + math.isqrt(1 + 8 * n_products)) // 2 if n_products else 0)


def _design(rows: Rows, regressors: Array, means: Array) -> Array:
    """The regressors of sets over a block of rows, and their centred products, (U, m + P, r)."""
    block, counts = rows
    columns = block[regressors]
    if not means.shape[1]:
        return columns
    first, second = (like(side, block) for side in _pairs_of(means.shape[1]))
    made = columns[:, first] * columns[:, second]
    made -= means[:, :, None]
    if counts is not None:
        made *= counts
    return functions_of(block).concatenate([columns, made], axis=1)


def _with_products(
    columns: Columns,
    positions: tuple[IndexArray, IndexArray, FloatMatrix],
    without: tuple[FloatArray, FloatArray, FloatMatrix],
) -> tuple[FloatArray, FloatArray, FloatMatrix]:
    """Correlations among regressors, and of numbers with them, and scales, with products.

    ``positions`` are those of numbers, (U, d), and of regressors, (U, m), and the products' means.
    """
    numbers, regressors, means = positions
    among, across, scales = without
    width, n_products = regressors.shape[1], means.shape[1]
    if columns.held is None:
        distinct, index = _Products.of(regressors, means)
        total: Array = 0.0
        for rows in columns.blocks(len(distinct.means)):
            every = distinct.behind(rows)
            total = total + every[-len(distinct.means) :] @ every.T
        chosen = np.concatenate([regressors, len(columns.origin) + index, numbers], axis=1)
        covariances = host(total)[index[:, :, None], chosen[:, None]]
    else:
        rows = columns.held
        design = _design(rows, *map(columns.source.placed, (regressors, means)))
        both = design, rows[0][columns.source.placed(numbers)]
        every = functions_of(design).concatenate(both, axis=1)
        covariances = host(design[:, width:] @ every.swapaxes(1, 2))
    covariances = covariances / columns.count
    each = np.arange(n_products)
    variances = covariances[:, each, width + each]
    varies = variances > LEAST_REST**2
    mine = np.where(varies, 1.0 / np.sqrt(np.where(varies, variances, 1.0)), 0.0)
    scales = np.concatenate([scales, mine], axis=1)
    others = np.concatenate([scales, columns.scales[numbers]], axis=1)
    covariances *= mine[:, :, None] * others[:, None]
    with_, square = covariances[:, :, :width], covariances[:, :, width : width + n_products]
    top = np.concatenate([among, with_.swapaxes(1, 2)], axis=2)
    among = np.concatenate([top, np.concatenate([with_, square], axis=2)], axis=1)
    across = np.concatenate(
        [across, covariances[:, :, width + n_products :].swapaxes(1, 2)], axis=2
    )
    return among, across, scales


class _Residuals:
    """The residuals of some regressions, and sums of their clipped products over the rows."""

    def __init__(self, columns: Columns, groups: list[_Regressions]) -> None:
        self._columns, self._groups = columns, groups
        self.rest = np.concatenate([group.rest.ravel() for group in groups])

    def mean_squares(self) -> FloatVector:
        """The mean squares of the residuals before they are clipped, shape (E,)."""
        total = sum(dots(block, block) for block, _ in self._blocks())
        return host(total) / self._columns.count

    def products(self, index: IndexArray) -> tuple[FloatVector, FloatVector]:
        """Sums of the products of each test's two residuals, and of squared products, (B,) each."""
        if len(self._groups) == len(self._groups[0].numbers) == 1:
            (left, first), (right, second) = (distinct_numbers(side) for side in index.T)
            if len(left) * len(right) <= DENSE * len(index):
                total, squares = self._sums(_residual_sums)
                mean, size = self._moments(total, squares)
                score, variance = self._sums(partial(_products_of_all, left, right), mean, size)
                unit = size[index].prod(axis=1)
                return score[first, second] / unit, variance[first, second] / unit**2
        left, right = index.T
        total, squares, ab, aab, abb, aabb = self._sums(partial(_raw_sums, left, right))
        mean, size = self._moments(total, squares)
        if (FURTHEST * size < CLIP + np.abs(mean)).any():
            score, variance = self._sums(partial(_products_of_tests, left, right), mean, size)
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
        """Sums of ``terms`` of clipped residuals; with ``mean``, centred and clipped once more."""
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
        columns, source = self._columns, self._columns.source
        if columns.held is None and self._groups[0].regressors.shape[1]:
            products, slopes = self._joined()
            slopes = source.placed(slopes)
            for rows in columns.blocks(len(self.rest) + len(products.means)):
                yield slopes @ products.behind(rows), rows[1]
            return
        groups = [[*map(source.placed, group[:5])] for group in self._groups]
        for block, counts in columns.blocks(len(self.rest)):
            made = []
            for numbers, regressors, means, slopes, scale in groups:
                part = block[numbers]
                if regressors.shape[1]:
                    part -= slopes @ _design((block, counts), regressors, means)
                part *= scale[:, :, None]
                made.append(part.reshape(-1, part.shape[2]))
            one = len(made) == 1
            yield made[0] if one else functions_of(block).concatenate(made), counts

    def _joined(self) -> tuple[_Products, FloatMatrix]:
        """All products, and coefficients of all columns and products, (E, M + P)."""
        groups, width = self._groups, len(self._columns.origin)
        regressors, means = (np.concatenate([each[part] for each in groups]) for part in (1, 2))
        products, index = _Products.of(regressors, means)
        slopes: FloatMatrix = np.zeros((len(self.rest), width + len(products.means)))
        row = set_ = 0
        for group in groups:
            n_sets, count = group.scale.shape
            chosen = np.arange(row, row + n_sets * count).reshape(n_sets, count)
            at = np.concatenate([group.regressors, width + index[set_ : set_ + n_sets]], axis=1)
            slopes[chosen[:, :, None], at[:, None]] = -group.slopes * group.scale[:, :, None]
            slopes[chosen, group.numbers] += group.scale
            row, set_ = row + n_sets * count, set_ + n_sets
        return products, slopes


def _residual_sums(block: Array) -> tuple[Array, ...]:
    """Residuals and their squares, summed, shape (E,) each."""
    return block.sum(axis=1), dots(block, block)


def _products_of_all(left: IndexArray, right: IndexArray, block: Array) -> tuple[Array, ...]:
    """Products of each residual on the left with each on the right, and the squared products."""
    one, other = block[like(left, block)], block[like(right, block)]
    return one @ other.T, (one * one) @ (other * other).T


def _products_of_tests(left: IndexArray, right: IndexArray, block: Array) -> tuple[Array, ...]:
    """Products of two residuals, and the squared products, shape (B,) each."""
    both = block[like(left, block)] * block[like(right, block)]
    return both.sum(axis=1), dots(both, both)


def _raw_sums(left: IndexArray, right: IndexArray, block: Array) -> tuple[Array, ...]:
    """Sums of a and a^2, of all residuals, and of ab, a^2 b, a b^2 and (ab)^2, of each test."""
    one, other = block[like(left, block)], block[like(right, block)]
    both = one * other
    of_both = both.sum(axis=1), dots(both, one), dots(both, other), dots(both, both)
    return *_residual_sums(block), *of_both
