"""A site's log likelihoods of sets of columns, for scores that need no tables.

Sources: Miller, "Note on the bias of information estimates" (1955), for tables; of correlations,
E ln(1 - R**2) is about -k / n for k predictors that explain nothing.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.sites.compute.counter import DiscreteColumns
from cipherdag.sites.compute.device import PROCESSOR, Device, batch_bytes, placed
from cipherdag.sites.compute.patients import design_effect, standard_columns
from cipherdag.sites.compute.rows import Rows, log_left_out
from cipherdag.statistics.array_functions import (
    Array,
    at_least,
    floats,
    functions_of,
    host,
    like,
    repeated,
    segment_sums,
)

LEAST_DETERMINANT = -23.0
"""Least log determinant per variable: of less, the others determine the variable."""
DIAGONAL_RIDGE = 1e-9
"""Added to variances of 1 where categories may determine each other; larger than rounding."""
BATCH, BATCH_ON_CARD = 2**12, 2**16  # sets whose determinants are computed at a time


class SetLikelihoods:
    """Log likelihoods of sets of columns, corrected for what chance alone explains.

    A set's categories have their contingency table. Its continuous columns are normal with one
    covariance matrix, about means to which every category adds its part: main effects alone.

    Rows that miss a value are left out, which the log says unless rows were ``drawn``.
    """

    def __init__(self, rows: Rows, device: Device, *, drawn: bool = False) -> None:
        self._categories = categories = np.array(rows.categories, dtype=np.int64)
        complete = rows.complete(range(len(categories)))
        self._rows = int(complete.sum())
        if not drawn:
            log_left_out(len(complete), self._rows)
        codes = None if rows.codes is None else rows.codes[complete]
        if codes is not None:
            self._tables = DiscreteColumns(
                codes, device, memory_bytes=batch_bytes(device) // 2, levels=categories
            )
        values = None if rows.values is None else rows.values[complete]
        if values is not None:
            values = np.where(categories > 0, 0.0, values)
            self._numbers = NumberLikelihoods(codes, values, categories, device)
        self._design_effect = 1.0
        if rows.patients is not None and self._rows:
            columns = design_columns(codes, values, categories)
            of_column = np.repeat(np.arange(len(columns)), [each.shape[1] for each in columns])
            standard = standard_columns(np.concatenate(columns, axis=1))
            self._design_effect = design_effect(standard, of_column, rows.patients[complete])

    def answer(self, sets: Sequence[IndexArray], discount: int) -> FloatVector:
        """Log likelihood of each set, of positions by size (B_k, k); see `LogLikelihoods`.

        Where rows are visits it is divided by their design effect, so that chance explains as much.
        """
        of_rows, each = self._design_effect, discount * self._design_effect
        return np.concatenate(
            [np.zeros(0), *(self._of_sets(rows, each) / of_rows for rows in sets if len(rows))]
        )

    def _of_sets(self, rows: IndexArray, discount: float) -> FloatVector:
        discrete = self._categories[rows] > 0
        tables = discrete.sum(axis=1)
        total = np.zeros(len(rows))
        for count in np.unique(tables).tolist():
            of_count = np.flatnonzero(tables == count)
            block, tabled = rows[of_count], discrete[of_count]
            if count:
                total[of_count] += self._of_tables(block[tabled].reshape(-1, count), discount)
            if count < rows.shape[1]:
                numbers = block[~tabled].reshape(len(block), -1)
                given = block[tabled].reshape(len(block), -1)
                total[of_count] += self._numbers.given(numbers, given, discount)
        return total

    def _of_tables(self, rows: IndexArray, discount: float) -> FloatVector:
        sizes = self._categories[rows].prod(axis=1)
        return np.concatenate(
            [
                of_tables(counts, sizes[piece], discount)
                for piece, counts in self._tables.tables_here(rows)
            ]
        )


class NumberLikelihoods:
    """Log likelihoods of numbers given categories, in multivariate regressions of whole rows."""

    def __init__(
        self,
        codes: NDArray[np.integer] | None,
        values: NDArray[np.float64],
        categories: IndexArray,
        device: Device,
    ) -> None:
        self._rows = len(values)
        design = design_columns(codes, values, categories)
        self._widths = np.array([columns.shape[1] for columns in design])
        self._starts = np.cumsum(self._widths) - self._widths
        # with the ridge, categories that determine each other cancel in a difference of logs
        diagonal = 1.0 if codes is None else 1.0 + DIAGONAL_RIDGE
        correlations = _correlations(placed(np.concatenate(design, axis=1), device))
        np.fill_diagonal(correlations, diagonal)
        self._correlations = placed(correlations, device)
        self._batch = BATCH if device == PROCESSOR else BATCH_ON_CARD

    def given(self, numbers: IndexArray, categories: IndexArray, discount: float) -> FloatVector:
        """Log likelihoods of numbers, (B, k), given categories, less the discount, shape (B,).

        They are -n / 2 times the log determinants of the residual correlations.
        """
        indicators = self._widths[categories].sum(axis=1)
        size = numbers.shape[1]
        total = np.zeros(len(numbers))
        for width in np.unique(indicators).tolist():
            of_width = np.flatnonzero(indicators == width)
            predictors = self._columns(categories[of_width], width)
            joint = np.concatenate([self._starts[numbers[of_width]], predictors], axis=1)
            explained = self._log_determinants(joint) - self._log_determinants(predictors)
            parameters = size * (size - 1) / 2.0 + size * width
            enough = self._rows > size + width
            chance = discount * parameters / 2.0 if enough else 0.0
            explained = np.clip(explained, LEAST_DETERMINANT * size, 0.0)
            total[of_width] = -0.5 * self._rows * explained - chance
        return total

    def _columns(self, categories: IndexArray, width: int) -> IndexArray:
        """Columns of the indicators of some sets of categories, shape (B, width)."""
        columns = [
            [
                column
                for v in row
                for column in range(self._starts[v], self._starts[v] + self._widths[v])
            ]
            for row in categories.tolist()
        ]
        return np.array(columns, dtype=np.int64).reshape(len(categories), width)

    def _log_determinants(self, columns: IndexArray) -> FloatVector:
        """Log determinants of the correlations of each set of columns, shape (B,)."""
        batches = [np.zeros(0)]
        for start in range(0, len(columns), self._batch):
            batch = like(columns[start : start + self._batch], self._correlations)
            matrices = self._correlations[batch[:, :, None], batch[:, None]]
            batches.append(host(functions_of(matrices).linalg.slogdet(matrices)[1]))
        return np.concatenate(batches)


def of_tables(counts: Array, sizes: IndexArray, discount: float) -> FloatVector:
    """Log likelihoods of tables, cells one after the other, corrected for chance, (B,)."""
    numbers, xp = floats(counts), functions_of(counts)
    rows = at_least(segment_sums(numbers, sizes), 1.0)
    terms = numbers * xp.log(at_least(numbers, 1.0) / repeated(rows, sizes))
    filled = host(segment_sums(floats(counts > 0), sizes))
    chance = discount * np.maximum(filled - 1.0, 0.0) / 2.0
    return host(segment_sums(terms, sizes)) - chance


def design_columns(
    codes: NDArray[np.integer] | None, values: NDArray[np.float64] | None, categories: IndexArray
) -> list[NDArray[np.float64]]:
    """Each column of numbers, or one of 0 and 1 for every category that occurs but the first."""
    columns = []
    for v, levels in enumerate(categories.tolist()):
        if levels and codes is not None:
            column = (codes[:, [v]] == np.unique(codes[:, v])[1:]).astype(np.float64)
        else:
            assert values is not None, "a column of numbers has values"
            column = values[:, [v]]
        columns.append(column)
    return columns


def _correlations(values: Array) -> FloatMatrix:
    """Correlations but for the diagonal, shape (p, p); 0 with a column that does not vary."""
    xp = functions_of(values)
    centred = values - values.mean(axis=0) if len(values) else values
    deviation = xp.sqrt((centred**2).sum(axis=0))
    varies = deviation > 0.0
    scaled = xp.where(varies, centred / xp.where(varies, deviation, 1.0), 0.0)
    matrix: FloatMatrix = host(scaled.T @ scaled)
    return matrix
