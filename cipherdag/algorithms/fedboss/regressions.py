"""Regressions of one variable on others that gain or lose one at a time, by the sweep operator.

A correlation matrix swept on k of p variables holds the regressions of all others on these k, and
the residual covariances. A `Regression` keeps of it the rows of its variable and of the k, and the
diagonal; to add or remove a variable takes O(k p) operations.

Source: Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33 (1979).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.graphs.dags import members

LEAST_VARIANCE = 1e-10
"""A standardised variable with at most this variance given others is determined by them."""


@dataclass(slots=True)
class Regression:
    """A variable regressed on others.

    Attributes:
        given: Bit mask of the others.
        swept: The others that were swept on: not determined by those before them, shape (k,).
        rows: Rows of the swept matrix, shape (k + 1, p): first the variable's covariances with all,
            given the others, then the rows of ``swept``. Columns of ``swept`` hold coefficients,
            and in the rows of ``swept`` minus the inverse of their correlation matrix.
        variances: The diagonal of the swept matrix, shape (p,): variances given the others; for
            ``swept`` minus the diagonal of the inverse.
    """

    given: int
    swept: IndexArray
    rows: FloatMatrix
    variances: FloatVector

    @classmethod
    def alone(cls, matrix: FloatMatrix, v: int) -> Regression:
        """Regress variable v on no other variable."""
        return cls(0, np.empty(0, dtype=np.intp), matrix[v : v + 1], np.ones(len(matrix)))

    @property
    def covariances(self) -> FloatVector:
        """Of the variable with all, given the others, shape (p,)."""
        return self.rows[0]

    def on(self, matrix: FloatMatrix, v: int, given: int) -> Regression:
        """Regress the same variable v on the variables of the mask ``given``."""
        regression = self
        lost = self.given & ~given
        if lost and len(self.swept) < self.given.bit_count():
            # variables that a lost one determined now have to be swept on
            regression, lost = Regression.alone(matrix, v), 0
        for s in members(lost):
            regression = regression.reduced(s)
        for u in members(given & ~regression.given):
            regression = regression.extended(matrix, u)
        return regression

    def extended(self, matrix: FloatMatrix, u: int) -> Regression:
        """Regress on one more variable, u."""
        row, k, coefficients = matrix[u], len(self.swept), self.rows[:, u]
        if k:
            # one row after the other, so that every processor rounds alike
            row = row - np.add.reduce(row[self.swept][:, None] * self.rows[1:])
            row[self.swept] = coefficients[1:]
        pivot, given = row.item(u), self.given | 1 << u
        if not pivot > LEAST_VARIANCE:
            return Regression(given, self.swept, self.rows, self.variances)
        scaled = row / pivot
        rows, swept = np.empty((k + 2, len(row))), np.empty(k + 1, dtype=np.intp)
        others = rows[:-1]
        np.multiply(coefficients[:, None], scaled, out=others)
        np.subtract(self.rows, others, out=others)
        np.divide(coefficients, pivot, out=others[:, u])
        rows[-1], rows[-1, u] = scaled, -1.0 / pivot
        swept[:k], swept[k] = self.swept, u
        variances = self.variances - scaled * row
        variances[u] = -1.0 / pivot
        return Regression(given, swept, rows, variances)

    def reduced(self, s: int) -> Regression:
        """Regress without the variable s, which was swept on."""
        left = self.swept != s
        row = self.rows[1 + left.argmin()]
        pivot = row.item(s)
        scaled = row / pivot
        rows = self.rows[np.concatenate(((True,), left))]
        coefficients = rows[:, s].copy()
        rows -= coefficients[:, None] * scaled
        rows[:, s] = -coefficients / pivot
        variances = self.variances - scaled * row
        variances[s] = -1.0 / pivot
        return Regression(self.given ^ 1 << s, self.swept[left], rows, variances)
