"""Numbers over the same rows as columns: centred, their correlations, and blocks of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cipherdag.arrays import BoolVector, FloatArray, FloatVector, IndexArray
from cipherdag.sites.compute.pooled.score_sums.standard_columns import (
    CURVES,
    Numbers,
    StandardColumns,
    curves,
)
from cipherdag.statistics.array_functions import Array, functions_of, host, like
from cipherdag.statistics.regression_fits import LEAST_REST

WELL_CENTRED = 1e-5
"""Least variance, in squares of the mean, that squares about another origin tell."""

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
        scales: One over these; 0 of constant columns, shape (m,).
        table: Correlations of these columns and more; variances alone where they are not kept.
        index: The columns' places in it, shape (m,).
        held: All rows, where they are few; else None.
    """

    source: StandardColumns
    numbers: Numbers
    variables: IndexArray
    curved: bool
    complete: Array | None
    count: int
    origin: FloatVector
    deviations: FloatVector
    scales: FloatVector
    table: FloatArray
    index: IndexArray
    held: Rows | None = None

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
        over = source, numbers, variables, curved, rows, count
        made = cls(*over, zeros, zeros, zeros, zeros, index)
        for _ in range(2):
            mean, table = made._moments(crossed=crossed)
            made = replace(made, origin=made.origin + mean)
            variance = table.diagonal() if crossed else table
            # squares far from the mean would lose its digits
            if (variance >= WELL_CENTRED * mean**2).all():
                break
        varies = variance > (LEAST_REST * made.origin) ** 2
        deviations = np.where(varies, np.sqrt(np.maximum(variance, 0.0)), 0.0)
        scales = np.where(varies, 1.0 / np.where(varies, deviations, 1.0), 0.0)
        made = replace(made, deviations=deviations, scales=scales)
        if crossed:
            table *= made.scales
            table *= made.scales[:, None]
        held = next(made.blocks()) if source.whole(len(zeros)) else None
        return replace(made, table=table, held=held)

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
            scales=self.scales[columns],
            index=self.index[columns],
        )

    def correlations(
        self, regressors: IndexArray, numbers: IndexArray
    ) -> tuple[FloatArray, FloatArray]:
        """Correlations of regressors among them, (U, m, m), and with numbers, (U, d, m)."""
        if self.table.ndim > 1 or self.held is None:
            places, others = self.index[regressors], self.index[numbers]
            among = self.table[places[:, :, None], places[:, None]]
            return among, self.table[others[:, :, None], places[:, None]]
        block, _ = self.held
        given = block[like(regressors, block)]
        turned, scales = given.swapaxes(1, 2), self.scales[regressors][:, None]
        among = host(given @ turned) * (scales * scales.swapaxes(1, 2) / self.count)
        across = host(block[like(numbers, block)] @ turned)
        return among, across * (scales * self.scales[numbers][:, :, None] / self.count)

    def regressors(self, given: IndexArray, *, curved: bool) -> IndexArray:
        """The columns of sets of numbers, and of their curves, shape (U, m).

        Args:
            given: Numbers by their order here, shape (U, k).
            curved: Whether curves are regressors.
        """
        steps = len(self.variables) * np.arange(1 + CURVES * curved)
        return (given[:, None] + steps[:, None]).reshape(len(given), -1)

    def blocks(self, others: int = 0) -> Iterator[Rows]:
        """Yield blocks of rows, shape (m, r), 0 in those that do not count, and which do.

        Args:
            others: Rows of other arrays that are to fit in a cache too.
        """
        if self.held is not None:
            yield self.held
            return
        size = self.source.rows_at_once(len(self.origin) + others)
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

    def _moments(self, *, crossed: bool) -> tuple[FloatVector, FloatArray]:
        """Means, and covariances or variances alone."""
        total, second = 0.0, 0.0
        for block, _ in self.blocks():
            total = total + block.sum(axis=1)
            second = second + (block @ block.T if crossed else dots(block, block))
        mean, products = (host(each) / self.count for each in (total, second))
        products -= np.outer(mean, mean) if crossed else mean**2
        return mean, products


def dots(first: Array, second: Array) -> Array:
    """The sums of the products of two arrays' rows, shape (k,) of (k, n)."""
    return functions_of(first).einsum("ij,ij->i", first, second)
