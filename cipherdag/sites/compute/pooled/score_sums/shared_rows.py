"""Score tests of numbers over the same rows, by matrix products on blocks of rows.

Coefficients follow from the correlations of the numbers and their curves. A residual that several
tests have is made once. Two passes over the rows are left: one for means and sizes of the clipped
residuals, and one for their products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import BoolVector, FloatArray, FloatMatrix, FloatVector, IndexArray
from cipherdag.sites.compute.pooled.score_sums.residuals import (
    CLIP,
    FEWEST_REST,
    FURTHEST,
    LEAST_VARIANCE,
    pseudo_inverse,
)
from cipherdag.sites.compute.pooled.score_sums.standard_columns import (
    CURVES,
    Numbers,
    StandardColumns,
    curves,
)
from cipherdag.statistics.array_functions import (
    Array,
    functions_of,
    host,
    like,
    sparse_rows,
)
from cipherdag.statistics.regression_fits import LEAST_REST

WELL_CENTRED = 1e-5
"""Least variance, in squares of the mean, that squares about another origin tell."""
EXACT_REST = 1e-4
"""Share of the variance from which on correlations tell what S leaves to ten digits."""
DENSE = 4
"""Pairs of residuals a test up to which the products of all pairs are faster than of some."""

Rows = tuple[Array, Array | None]
"""A block of rows, 0 in those that do not count, and which do, shape (r,); None for all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Numbers, and their curves behind them, centred over the rows that have all of them.

    Attributes:
        source: The site's numbers.
        numbers: Those that are columns here.
        variables: Their positions, ascending, shape (k,).
        curved: Whether there are curves.
        complete: Which rows count, where these are computed with, shape (n,); None for all of them.
        count: How many they are.
        origin: The means of all columns, shape (m,).
        deviations: Their standard deviations, 0 of constant ones, shape (m,).
        table: Correlations of these columns and more; variances where there are no regressions.
        index: The columns' places in it, shape (m,).
    """

    source: StandardColumns
    numbers: Numbers
    variables: IndexArray
    curved: bool
    complete: Array | None
    count: int
    origin: FloatVector
    deviations: FloatVector
    table: FloatArray
    index: IndexArray

    @classmethod
    def over(
        cls,
        source: StandardColumns,
        variables: IndexArray,
        complete: BoolVector | None,
        *,
        curved: bool,
        crossed: bool,
    ) -> Columns:
        """The columns over some rows.

        Args:
            source: The site's numbers.
            variables: Positions, ascending, shape (k,).
            complete: Which rows count, shape (n,); None for all of them.
            curved: Whether there are curves.
            crossed: Whether regressions need correlations.
        """
        count = source.rows if complete is None else int(complete.sum())
        rows = None if complete is None else source.placed(complete)
        zeros = np.zeros(len(variables) * (1 + CURVES * curved))
        index = np.arange(len(zeros))
        numbers = source.numbers(variables)
        made = cls(source, numbers, variables, curved, rows, count, zeros, zeros, zeros, index)
        for _ in range(2):
            mean, table = made._moments(crossed=crossed)
            made = replace(made, origin=made.origin + mean)
            variance = table.diagonal() if crossed else table
            # squares far from the mean would lose its digits
            if (variance >= WELL_CENTRED * mean**2).all():
                break
        varies = variance > (LEAST_REST * made.origin) ** 2
        made = replace(made, deviations=np.where(varies, np.sqrt(np.maximum(variance, 0.0)), 0.0))
        if crossed:
            table *= made.scales
            table *= made.scales[:, None]
        return replace(made, table=table)

    def of(self, variables: IndexArray, *, curved: bool) -> Columns:
        """Some of the numbers, with the correlations that are known here."""
        places = np.searchsorted(self.variables, variables)
        columns = self.regressors(places[None], curved=curved)[0]
        return replace(
            self,
            numbers=self.source.numbers(variables),
            variables=variables,
            curved=curved,
            origin=self.origin[columns],
            deviations=self.deviations[columns],
            index=self.index[columns],
        )

    @property
    def scales(self) -> FloatVector:
        """One over the deviations; 0 of constant columns, shape (m,)."""
        varies = self.deviations > 0.0
        return np.where(varies, 1.0 / np.where(varies, self.deviations, 1.0), 0.0)

    def correlations(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """Correlations of columns, of the shape that both have together."""
        return self.table[self.index[rows], self.index[columns]]

    def regressors(self, given: IndexArray, *, curved: bool) -> IndexArray:
        """The columns of sets of numbers, and of their curves, shape (U, m).

        Args:
            given: Numbers by their order here, shape (U, k).
            curved: Whether curves are regressors.
        """
        steps = len(self.variables) * np.arange(1 + CURVES * curved)
        return (given[:, None] + steps[:, None]).reshape(len(given), -1)

    def whole(self, others: int) -> bool:
        """Whether all rows are one block."""
        return self._size(others) >= self.source.rows

    def blocks(self, others: int = 0) -> Iterator[Rows]:
        """Yield blocks of rows, shape (m, r), 0 in those that do not count, and which do.

        Args:
            others: Rows of other arrays that are to fit in a cache too.
        """
        size = self._size(others)
        origin = self.source.placed(self.origin[:, None])
        for start in range(0, self.source.rows, size):
            part = slice(start, start + size)
            block = self.numbers.rows(part)
            xp, counts = functions_of(block), None
            if self.curved:
                block = xp.concatenate([block, curves(block)])
            block -= origin
            if self.complete is not None:
                counts = self.complete[part]
                block = xp.where(counts, block, 0.0)
            yield block, counts

    def _size(self, others: int) -> int:
        return self.source.rows_at_once(len(self.origin) + others)

    def _moments(self, *, crossed: bool) -> tuple[FloatVector, FloatArray]:
        """Means, and covariances or variances alone."""
        total, second = 0.0, 0.0
        for block, _ in self.blocks():
            total = total + block.sum(axis=1)
            second = second + (block @ block.T if crossed else _squares(block))
        mean, products = (host(each) / self.count for each in (total, second))
        products -= np.outer(mean, mean) if crossed else mean**2
        return mean, products


def shared_moments(columns: Columns, tests: IndexArray, *, curved: bool) -> FloatArray:
    """U, V, and rows less coefficients of tests (x, y, s1, ...), shape (3, B); 0: not done.

    Args:
        columns: With curves, if these are to be regressors.
        tests: Numbers by their order there, shape (B, 2 + k).
        curved: Whether curves are regressors.
    """
    sets, which = np.zeros((1, 0), dtype=np.int64), np.zeros(len(tests), dtype=np.int64)
    if tests[:, 2:].size:
        sets, which = np.unique(np.sort(tests[:, 2:], axis=1), axis=0, return_inverse=True)
    width = len(columns.variables)
    codes = which.reshape(-1, 1) * width + tests[:, :2]
    distinct, index = distinct_numbers(codes)
    weighted = _regressions(columns, sets, *np.divmod(distinct, width), curved=curved)
    rest = weighted.rest[index].min(axis=1)
    score, variance = _Residuals(columns, weighted).products(index)
    done = rest > 0.0
    variance = variance * (columns.count / np.where(done, rest, 1.0))
    return np.where(done, [score, np.maximum(variance, LEAST_VARIANCE * rest), rest], 0.0)


def distinct_numbers(numbers: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return the distinct ones ascending, and of each number its index there.

    Args:
        numbers: From 0, none very large, of any shape.
    """
    present: BoolVector = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=bool)
    present[numbers] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


class _Weighted(NamedTuple):
    """Residuals as weighted sums of columns, whose squares add up to ``rest``.

    Attributes:
        positions: Columns, shape (E, 1 + m).
        weights: Theirs, likewise; 0 where S leaves nothing, or too few rows.
        rest: Rows less coefficients, shape (E,); 0 likewise.
    """

    positions: IndexArray
    weights: FloatMatrix
    rest: FloatVector


def _regressions(
    columns: Columns, sets: IndexArray, which: IndexArray, number: IndexArray, *, curved: bool
) -> _Weighted:
    """Residuals of numbers given sets, by the index of both, shape (E,) each."""
    regressors = columns.regressors(sets, curved=curved)[which]
    left = (columns.deviations > 0.0)[number].astype(np.float64)
    weights, rank = np.ones((len(number), 1)), np.zeros(len(number))
    if sets.size:
        among = columns.regressors(sets, curved=curved)
        inverse, ranks = pseudo_inverse(columns.correlations(among[:, :, None], among[:, None]))
        across = columns.correlations(number[:, None], regressors)
        slopes = (across[:, None] @ inverse[which])[:, 0]
        left -= (slopes * across).sum(axis=1)
        weights, rank = np.concatenate([weights, -slopes], axis=1), ranks[which]
    positions = np.concatenate([number[:, None], regressors], axis=1)
    weights = weights * columns.scales[positions]
    rest = columns.count - 1.0 - rank
    near = np.flatnonzero(left < EXACT_REST)
    if len(near):
        few = _Weighted(positions[near], weights[near], rest[near])
        left[near] = _Residuals(columns, few).mean_squares()
    done = (left > LEAST_REST) & (rest >= FEWEST_REST)
    rest = np.where(done, rest, 0.0)
    scale = np.sqrt(rest / np.where(done, columns.count * left, 1.0))
    return _Weighted(positions, weights * scale[:, None], rest)


class _Residuals:
    """Residuals, and what is summed of them once they are clipped."""

    def __init__(self, columns: Columns, weighted: _Weighted) -> None:
        self._columns, self._rest = columns, weighted.rest
        self._weighted = weighted
        self._single: list[Rows] | None = None

    def mean_squares(self) -> FloatVector:
        """Of the residuals as they are, shape (E,)."""
        total = sum(_squares(block) for block, _ in self._blocks())
        return host(total) / self._columns.count

    def products(self, index: IndexArray) -> tuple[FloatVector, FloatVector]:
        """Sums of the products of two residuals, and of the squared products, shape (B,) each.

        Args:
            index: The two of each test, shape (B, 2).
        """
        mean, size = self._moments()
        limit = FURTHEST * size
        beyond = bool((CLIP + np.abs(mean) > limit).any())
        (left, first), (right, second) = (distinct_numbers(side) for side in index.T)
        dense = len(left) * len(right) <= DENSE * len(index)
        if not dense:
            left, right = index.T
        sums: list[Array] = [0.0, 0.0]
        for residuals, counts in self._clipped():
            block = residuals  # which nothing reads again
            block -= like(mean[:, None], block)
            if counts is not None:
                block *= counts
            if beyond:
                reach = like(limit[:, None], block)
                functions_of(block).clip(block, -reach, reach, out=block)
            one, other = block[like(left, block)], block[like(right, block)]
            if dense:
                parts = one @ other.T, (one * one) @ (other * other).T
            else:
                one *= other
                parts = one.sum(axis=1), _squares(one)
            sums = [total + part for total, part in zip(sums, parts, strict=True)]
        score, variance = map(host, sums)
        if dense:
            score, variance = score[first, second], variance[first, second]
        unit = size[index].prod(axis=1)
        return score / unit, variance / unit**2

    def _moments(self) -> tuple[FloatVector, FloatVector]:
        """Mean and size of the clipped residuals, shape (E,) each; size 1 where they are 0."""
        total, squares = 0.0, 0.0
        for block, _ in self._clipped():
            total = total + block.sum(axis=1)
            squares = squares + _squares(block)
        count = self._columns.count
        mean = host(total) / count
        size = np.sqrt(
            np.maximum(host(squares) - count * mean**2, 0.0) / np.maximum(self._rest, 1.0)
        )
        return mean, np.where(size > 0.0, size, 1.0)

    def _clipped(self) -> Iterable[Rows]:
        """Blocks of residuals clipped at `CLIP`; a single one is kept."""
        if self._single is not None:
            return self._single
        clipped = (
            (functions_of(block).clip(block, -CLIP, CLIP, out=block), counts)
            for block, counts in self._blocks()
        )
        if not self._columns.whole(len(self._rest)):
            return clipped
        self._single = list(clipped)
        return self._single

    def _blocks(self) -> Iterator[Rows]:
        """Blocks of residuals, shape (E, r), and which rows count."""
        positions, weights, _ = self._weighted
        matrix = None
        for block, counts in self._columns.blocks(len(weights)):
            if matrix is None:
                matrix = sparse_rows(weights, positions, block)
            yield matrix @ block, counts


def _squares(block: Array) -> Array:
    """The sum of the squares of every row, shape (k,) of (k, n)."""
    return functions_of(block).einsum("ij,ij->i", block, block)
