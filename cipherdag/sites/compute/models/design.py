"""Design matrices of regressions on a site's columns of any type."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.sites.compute.device import PROCESSOR, Device, batch_bytes, placed
from cipherdag.sites.compute.models.compressed_rows import CompressedRows
from cipherdag.statistics.array_functions import (
    Array,
    empty,
    floats,
    full,
    functions_of,
    in_units,
    like,
)
from cipherdag.statistics.regression_models import Regression, column_count

EVERY_ROW = slice(None)
BLOCK_ROWS = 8192  # rows whose designs are made at a time on a processor: they stay in its cache
BYTES_PER_ENTRY = 64  # memory on a card for an entry of a design and the arrays computed from it
FEWEST_OF_ALL, FEWEST_IN_GROUP = 128, 4
"""Rows of an average group, by all discrete variables or by a model's, to compress rows at all."""
FIXED_COLUMNS, MOST_VALUES = 3, 2**22
"""Columns of `CompressedRows` besides its numbers, and the most values of all that are cached."""


class Expansion:
    """Cache of the design columns of p predictors.

    ``categories``, (p,), is 0 for a continuous variable, which is read in its unit, as (number -
    origin) / 2**unit. ``column`` gives the n codes or numbers of a variable, NaN where missing.
    """

    def __init__(
        self,
        categories: tuple[int, ...],
        origins: FloatVector,
        units: IndexArray,
        column: Callable[[int], NDArray[np.float64]],
        device: Device = PROCESSOR,
    ) -> None:
        self._device = device
        self._categories = categories
        self._origins, self._units = origins, units
        self._column = column
        self._scaled: dict[int, Array] = {}
        self._columns: dict[int, Array] = {}
        self._gaps: dict[int, Array | None] = {}
        self._compressed: dict[
            tuple[tuple[int, ...], frozenset[int], int], CompressedRows | None
        ] = {}

    @classmethod
    def of_site(
        cls,
        categories: tuple[int, ...],
        column: Callable[[int], NDArray[np.float64]],
        device: Device = PROCESSOR,
    ) -> Expansion:
        """An expansion in units that the site chooses from its numbers."""
        origins, units = np.zeros(len(categories)), np.zeros(len(categories), dtype=np.int64)
        for variable in (v for v, count in enumerate(categories) if count == 0):
            values = column(variable)
            present = values[~np.isnan(values)]
            if len(present):
                origins[variable] = present[0]
                units[variable] = np.frexp(float(np.abs(present - present[0]).max()))[1]
        return cls(categories, origins, units, column, device)

    @classmethod
    def of_question(
        cls,
        question: RegressionSteps,
        column: Callable[[int], NDArray[np.float64]],
        device: Device = PROCESSOR,
    ) -> Expansion:
        """An expansion in the common units of a question."""
        units = question.origin_array(), question.unit_array()
        return cls(question.categories, *units, column, device)

    def incomplete(self, variables: Iterable[int]) -> bool:
        """Whether some variable has a missing value."""
        return any(self._missing(variable) is not None for variable in variables)

    def rows(self, model: Regression) -> tuple[Array, Array]:
        """Design (n', columns) and response (n',) over the rows that are complete."""
        response = self._values(model.response)
        alone = [self._expanded(v) for v in model.predictors[model.crossed :]]
        design = functions_of(response).column_stack([*self._crossed(model, len(response)), *alone])
        complete = self.complete_rows(model)
        return design[complete], response[complete]

    def blocks(self, model: Regression) -> Iterator[tuple[Array, Array]]:
        """Yield what `rows` returns block by block; the columns of each design are contiguous.

        The blocks, one at least, depend only on the number of rows; on a card on free memory too.
        """
        values = self._values(model.response)
        complete = self._complete(self._used(model))
        size = self._block_rows(model)
        for start in range(0, max(len(values), 1), size):
            block = slice(start, start + size)
            design, response = self._design(model, block), values[block]
            if complete is not None:
                design, response = design[:, complete[block]], response[complete[block]]
            yield design.T, response

    def compressed(self, model: Regression) -> CompressedRows | None:
        """The complete rows in groups with equal values of the model's discrete variables.

        Groups by all discrete variables serve every model. None on a card, or with too few rows.
        """
        if self._device != PROCESSOR:
            return None
        gaps = frozenset(v for v in self._used(model) if self._missing(v) is not None)
        rows = None
        if not gaps:
            every, _ = self.by_type(range(len(self._categories)))
            whole = [v for v in every if self._missing(v) is None]
            rows = self._grouped(whole, gaps, FEWEST_OF_ALL)
        if rows is None and self._categories[model.response]:
            named, _ = self.by_type((model.response, *model.predictors))
            rows = self._grouped(named, gaps, FEWEST_IN_GROUP)
        return rows

    def forget_columns(self) -> None:
        """Drop cached columns of all rows, but neither compressed rows nor values on a card."""
        if self._device == PROCESSOR:
            self._scaled.clear()
        self._columns.clear()

    def by_type(self, variables: Iterable[int]) -> tuple[list[int], list[int]]:
        """The discrete and the continuous ones of some variables, ascending."""
        named = sorted(variables)
        numbers = [v for v in named if not self._categories[v]]
        return [v for v in named if self._categories[v]], numbers

    def by_pattern(self, model: Regression, codes: FloatMatrix) -> FloatMatrix:
        """Each pattern's columns, as coefficients of 1 and of k numbers, (m, 1 + k, columns).

        ``codes``, (m, discrete predictors), are those of each pattern, predictors ascending.
        """
        discrete, numbers = self.by_type(model.predictors)
        indicators = {
            v: column[:, None] == np.arange(1, self._categories[v])
            for v, column in zip(discrete, codes.T, strict=True)
        }
        columns = column_count(model, self._categories)
        design = np.zeros((len(codes), 1 + len(numbers), columns))
        alone = constant = np.ones((len(codes), 1))
        for variable in (v for v in model.predictors[: model.crossed] if v in indicators):
            products = constant[:, :, None] * indicators[variable][:, None]
            constant = np.column_stack([constant, products.reshape(len(codes), -1)])
        crossed = [v for v in model.predictors[: model.crossed] if v not in indicators]
        parts = [(constant, 0), *((constant, 1 + numbers.index(v)) for v in crossed)]
        for variable in model.predictors[model.crossed :]:
            number = (alone, 1 + numbers.index(variable)) if variable in numbers else None
            parts.append(number or (indicators[variable], 0))
        end = 0
        for part, slope in parts:
            start, end = end, end + part.shape[1]
            design[:, slope, start:end] = part
        return design

    def _grouped(
        self, variables: list[int], gaps: frozenset[int], fewest: int
    ) -> CompressedRows | None:
        """Rows that miss none of ``gaps``, in groups of at least ``fewest`` rows on average."""
        key = tuple(variables), gaps, fewest
        if key not in self._compressed:
            complete = self._complete(gaps)
            present = EVERY_ROW if complete is None else complete
            rows = len(self._values(0)[present])
            sizes = [self._categories[v] for v in variables]
            values = rows * (FIXED_COLUMNS + self._categories.count(0))
            if self._compressed and (len(self._compressed) + 1) * values > MOST_VALUES:
                del self._compressed[next(iter(self._compressed))]
            self._compressed[key] = CompressedRows.of(
                variables, sizes, lambda v: self._values(v)[present], rows, fewest=fewest
            )
        return self._compressed[key]

    def complete(self, model: Regression) -> int:
        """How many rows are complete."""
        complete = self._complete(self._used(model))
        return len(self._values(model.response)) if complete is None else int(complete.sum())

    def complete_rows(self, model: Regression) -> Array | slice:
        """Which rows are complete, as an index."""
        complete = self._complete(self._used(model))
        return EVERY_ROW if complete is None else complete

    def _block_rows(self, model: Regression) -> int:
        if self._device == PROCESSOR:
            return BLOCK_ROWS
        bytes_per_row = BYTES_PER_ENTRY * column_count(model, self._categories)
        return max(batch_bytes(self._device) // bytes_per_row, BLOCK_ROWS)

    def _complete(self, variables: Iterable[int]) -> Array | None:
        """Indicators of rows that miss none of some variables, shape (n,); None for all rows."""
        missing = [gaps for gaps in map(self._missing, variables) if gaps is not None]
        return ~functools.reduce(operator.or_, missing) if missing else None

    def _used(self, model: Regression) -> tuple[int, ...]:
        return (model.response, *model.predictors, *model.complete_in)

    def _design(self, model: Regression, block: slice) -> Array:
        """The columns of a block of rows, shape (columns, n')."""
        response = self._values(model.response)[block]
        rows = len(response)
        design = empty((column_count(model, self._categories), rows), response)
        end = 1
        if model.crossed:
            crossed = functions_of(response).column_stack(self._crossed(model, rows, block)).T
            end = len(crossed)
            design[:end] = crossed
        else:
            design[0] = 1.0
        for variable in model.predictors[model.crossed :]:
            columns = self._expanded(variable).T[:, block]
            start, end = end, end + len(columns)
            design[start:end] = columns
        return design

    def _values(self, variable: int) -> Array:
        """The variable itself, shape (n,): codes, or values in the common unit."""
        if variable not in self._scaled:
            column = placed(self._column(variable), self._device)
            if not self._categories[variable]:
                column = in_units(column - self._origins[variable], self._units[variable])
            self._scaled[variable] = column
        return self._scaled[variable]

    def _crossed(self, model: Regression, rows: int, block: slice = EVERY_ROW) -> list[Array]:
        """Constant, predictors that interact, and their products, shapes (n, columns)."""
        response = self._values(model.response)
        design, xp = full((rows, 1), 1.0, response), functions_of(response)
        crossed = model.predictors[: model.crossed]
        for variable in (v for v in crossed if self._categories[v]):
            columns = self._expanded(variable)[block]
            products = design[:, :, None] * columns[:, None]
            design = xp.column_stack(
                [design, products.reshape(rows, math.prod(products.shape[1:]))]
            )
        slopes = (self._expanded(v)[block] * design for v in crossed if not self._categories[v])
        return [design, *slopes]

    def _missing(self, variable: int) -> Array | None:
        """Indicators of rows that miss a variable, shape (n,); None if none does."""
        if variable not in self._gaps:
            values = self._values(variable)
            gaps = functions_of(values).isnan(values)
            self._gaps[variable] = gaps if gaps.any() else None
        return self._gaps[variable]

    def _expanded(self, variable: int) -> Array:
        """Design columns of a predictor, shape (n, columns), each contiguous."""
        if variable not in self._columns:
            values, categories = self._values(variable), self._categories[variable]
            levels = like(np.arange(1, categories)[:, None], values)
            columns = floats(values == levels) if categories else values[None]
            self._columns[variable] = columns.T
        return self._columns[variable]
