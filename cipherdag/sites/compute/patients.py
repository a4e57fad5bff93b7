"""Variances of sums where rows are visits of patients, whose rows resemble one another.

A variance V that takes rows for independent lacks the products of different rows of a patient. O
adds them: m / (m - 1 - k) times the sum over m patients of (sum of u)^2 - sum of u^2, for the terms
u of a sum, row by row, and k coefficients. V + O is cut at 0. Where no patient has two rows, O is
exactly 0. A site whose m - 1 - k is below `FEWEST_LEFT` does not do the test.

Source: Liang and Zeger, Biometrika 73 (1986) 13-22; Cameron and Miller, Journal of Human Resources
50 (2015) 317-372, for the factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray

FEWEST_LEFT = 10
"""Fewest patients less 1 and coefficients of a site that does a test."""


class Repeats(NamedTuple):
    """The rows of a test whose patients have several of them.

    Attributes:
        rows: Positions among the test's rows, those of a patient one after the other, shape (r,).
        first: Where each of these patients begins in ``rows``.
        patients: How many patients the test has, those with one row, too.
    """

    rows: IndexArray
    first: IndexArray
    patients: int

    def enough(self, coefficients: float = 0.0) -> bool:
        """Whether the test is done; without repeats the usual rules decide alone."""
        return not len(self.rows) or self.patients - 1.0 - coefficients >= FEWEST_LEFT

    def factor(self, coefficients: float = 0.0) -> float:
        """The factor m / (m - 1 - k)."""
        return self.patients / max(self.patients - 1.0 - coefficients, 1.0)

    def excess(self, terms: FloatMatrix, coefficients: float = 0.0) -> FloatMatrix:
        """O of the scores and their products, (K, K), from the terms of every row, (n, K)."""
        rows = terms[self.rows]
        whole = np.add.reduceat(rows, self.first) if len(rows) else rows
        return self.factor(coefficients) * (whole.T @ whole - rows.T @ rows)


@dataclass(frozen=True, slots=True)
class Patients:
    """Whose visit each row of a site is: numbers of patients, shape (n,)."""

    of_row: IndexArray

    def repeats(self, complete: BoolVector | None = None) -> Repeats:
        """The patients of a test's rows; of all rows without ``complete``."""
        mine = self.of_row if complete is None else self.of_row[complete]
        _, which, counts = np.unique(mine, return_inverse=True, return_counts=True)
        order, several = np.argsort(which.ravel(), kind="stable"), counts > 1
        ends = np.cumsum(counts[several])
        return Repeats(order[np.repeat(several, counts)], ends - counts[several], len(counts))

    def of_products(
        self, products: FloatMatrix, complete: FloatMatrix, rest: FloatVector
    ) -> tuple[FloatVector, BoolVector]:
        """O of tests of two numbers, and which of them have patients enough, shape (B,) each.

        Args:
            products: Products of the clipped residuals, 0 in incomplete rows, shape (B, n).
            complete: Which rows count, likewise.
            rest: Rows less coefficients, shape (B,).
        """
        order = np.argsort(self.of_row, kind="stable")
        first = np.flatnonzero(np.diff(self.of_row[order], prepend=-1))
        terms = products[:, order]
        whole: FloatMatrix = np.add.reduceat(terms, first, axis=1)
        visits = np.add.reduceat(complete[:, order].astype(np.int64), first, axis=1)
        several, patients = visits > 1, (visits > 0).sum(axis=1)
        left = patients - (complete.sum(axis=1) - rest)
        beyond = np.where(several, whole**2 - np.add.reduceat(terms**2, first, axis=1), 0.0)
        excess = beyond.sum(axis=1) * (patients / np.maximum(left, 1.0))
        return excess, ~several.any(axis=1) | (left >= FEWEST_LEFT)
