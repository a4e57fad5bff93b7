"""Regressions of one variable on others that gain or lose one at a time, by the sweep operator.

A correlation matrix that is swept on k of p variables has their coefficients for all others, and
what they leave of these. Of that matrix a regression has the rows of its set, the row of its
variable, and the diagonal; one variable more or less changes them in O(k p) operations.

Source: Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33 (1979).

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.graphs.dags import members

LEAST_VARIANCE = 1e-10
"""Of a standardised variable, given others that determine it."""


@dataclass(slots=True)
class Regression:
    """A variable regressed on others.

    Attributes:
        given: Bit mask of the others.
        swept: Those of them that the rest of them do not determine, shape (k,).
        rows: Swept rows of these, shape (k, p).
        covariances: Of the variable with all, given the others, shape (p,); with those swept, the
            coefficients.
        variances: Of all, given the others, shape (p,); of those swept, less than 0: the diagonal
            of their inverse correlation matrix.
    """

    given: int
    swept: IndexArray
    rows: FloatMatrix
    covariances: FloatVector
    variances: FloatVector

    @classmethod
    def alone(cls, matrix: FloatMatrix, v: int) -> Regression:
        """On no other variable."""
        p = len(matrix)
        return cls(0, np.empty(0, dtype=np.intp), np.empty((0, p)), matrix[v], np.ones(p))

    def on(self, matrix: FloatMatrix, v: int, given: int) -> Regression:
        """The same variable v on others."""
        regression = self
        lost = self.given & ~given
        if lost and len(self.swept) < self.given.bit_count():
            # what a lost variable determined is to be swept
            regression, lost = Regression.alone(matrix, v), 0
        for s in members(lost):
            regression = regression.reduced(s)
        for u in members(given & ~regression.given):
            regression = regression.extended(matrix, u)
        return regression

    def extended(self, matrix: FloatMatrix, u: int) -> Regression:
        """On one variable more."""
        row, k = matrix[u], len(self.swept)
        if k:
            coefficients = self.rows[:, u]
            # one row after the other, so that every processor rounds alike
            row = row - np.add.reduce(row[self.swept][:, None] * self.rows)
            row[self.swept] = coefficients
        pivot = row.item(u)
        if not pivot > LEAST_VARIANCE:
            given = self.given | 1 << u
            return Regression(given, self.swept, self.rows, self.covariances, self.variances)
        scaled = row / pivot
        rows, swept = np.empty((k + 1, len(row))), np.empty(k + 1, dtype=np.intp)
        if k:
            others = rows[:k]
            np.multiply(coefficients[:, None], scaled, out=others)
            np.subtract(self.rows, others, out=others)
            np.divide(coefficients, pivot, out=others[:, u])
            swept[:k] = self.swept
        rows[k] = scaled
        rows[k, u], swept[k] = -1.0 / pivot, u
        covariance = self.covariances.item(u)
        return self._swept(u, swept, rows, row, scaled, pivot, covariance / pivot)

    def reduced(self, s: int) -> Regression:
        """On one variable less, which is swept."""
        others = self.swept != s
        row = self.rows[others.argmin()]
        pivot = row.item(s)
        scaled = row / pivot
        rows = self.rows[others]
        coefficients = rows[:, s].copy()
        rows -= coefficients[:, None] * scaled
        rows[:, s] = -coefficients / pivot
        covariance = self.covariances.item(s)
        return self._swept(s, self.swept[others], rows, row, scaled, pivot, -covariance / pivot)

    def _swept(
        self,
        u: int,
        swept: IndexArray,
        rows: FloatMatrix,
        row: FloatVector,
        scaled: FloatVector,
        pivot: float,
        coefficient: float,
    ) -> Regression:
        """The rest of the matrix, swept on u, or no longer."""
        covariances = self.covariances - scaled * self.covariances.item(u)
        covariances[u] = coefficient
        variances = self.variances - scaled * row
        variances[u] = -1.0 / pivot
        return Regression(self.given ^ 1 << u, swept, rows, covariances, variances)
