"""Designs of regressions: what a site's columns of any type become in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.regression_steps import RegressionSteps
from cipherdag.sites.compute.pooled.alike.rows import AlikeRows
from cipherdag.statistics.regression_models import Regression, column_count

EVERY_ROW = slice(None)
BLOCK_ROWS = 8192
"""Rows whose designs are made at a time: they stay in a processor's cache."""
FEWEST_OF_ALL, FEWEST_IN_GROUP = 128, 4
"""Rows of a group on average, from which on rows that are alike are taken together."""
FIXED_COLUMNS, MOST_VALUES = 3, 2**22
"""Columns of an order beside its numbers, and values that are remembered of all orders."""


class Expansion:
    """Columns of predictors as a model has them; each is made once."""

    def __init__(
        self,
        categories: tuple[int, ...],
        origins: FloatVector,
        units: IndexArray,
        column: Callable[[int], NDArray[np.float64]],
    ) -> None:
        self._categories = categories
        self._origins, self._units = origins, units
        self._column = column
        self._own: dict[int, FloatVector] = {}
        self._known: dict[int, FloatMatrix] = {}
        self._gaps: dict[int, NDArray[np.bool_] | None] = {}
        self._alike: dict[tuple[tuple[int, ...], frozenset[int], int], AlikeRows | None] = {}

    @classmethod
    def of_site(
        cls, categories: tuple[int, ...], column: Callable[[int], NDArray[np.float64]]
    ) -> Expansion:
        """In units of the site's own.

        Args:
            categories: Number of categories of every variable, 0 for a continuous one.
            column: Codes or values of one variable, float64 of shape (n,), NaN where missing.
        """
        origins, units = np.zeros(len(categories)), np.zeros(len(categories), dtype=np.int64)
        for variable in (v for v, count in enumerate(categories) if count == 0):
            own = column(variable)
            present = own[~np.isnan(own)]
            if len(present):
                origins[variable] = present[0]
                units[variable] = np.frexp(float(np.abs(present - present[0]).max()))[1]
        return cls(categories, origins, units, column)

    @classmethod
    def of_question(
        cls, question: RegressionSteps, column: Callable[[int], NDArray[np.float64]]
    ) -> Expansion:
        """In the units that a question has in common."""
        return cls(question.categories, question.origin_array(), question.unit_array(), column)

    def incomplete(self, variables: Iterable[int]) -> bool:
        """Whether some variable misses a value."""
        return any(self._missing(variable) is not None for variable in variables)

    def rows(self, model: Regression) -> tuple[FloatMatrix, FloatVector]:
        """Design (n', columns) and response (n',) over the rows that are complete."""
        response = self._values(model.response)
        alone = [self._expanded(v) for v in model.predictors[model.crossed :]]
        design = np.column_stack([*self._crossed(model, len(response)), *alone])
        complete = self._complete(self._used(model))
        if complete is None:
            return design, response
        return design[complete], response[complete]

    def blocks(self, model: Regression) -> Iterator[tuple[FloatMatrix, FloatVector]]:
        """What `rows` yields, a block of rows after the other; each design's columns lie together.

        How rows are cut depends on nothing but their number; there is one block at least.
        """
        values = self._values(model.response)
        complete = self._complete(self._used(model))
        for start in range(0, max(len(values), 1), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            design, response = self._design(model, block), values[block]
            if complete is not None:
                design, response = design[:, complete[block]], response[complete[block]]
            yield design.T, response

    def alike(self, model: Regression) -> AlikeRows | None:
        """The complete rows in groups that have the same of the model's discrete variables.

        Groups by all discrete variables serve every model. None where they have too few rows.
        """
        gaps = frozenset(v for v in self._used(model) if self._missing(v) is not None)
        found = None
        if not gaps:
            every, _ = self.by_type(range(len(self._categories)))
            whole = [v for v in every if self._missing(v) is None]
            found = self._grouped(whole, gaps, FEWEST_OF_ALL)
        if found is None and self._categories[model.response]:
            own, _ = self.by_type((model.response, *model.predictors))
            found = self._grouped(own, gaps, FEWEST_IN_GROUP)
        return found

    def forget_columns(self) -> None:
        """Keep the order of rows that are alike, but no column as long as all rows."""
        self._own.clear()
        self._known.clear()

    def by_type(self, variables: Iterable[int]) -> tuple[list[int], list[int]]:
        """The discrete and the continuous ones of some variables, ascending."""
        named = sorted(variables)
        numbers = [v for v in named if not self._categories[v]]
        return [v for v in named if self._categories[v]], numbers

    def by_pattern(self, model: Regression, codes: FloatMatrix) -> FloatMatrix:
        """The design as it is linear in 1 and the continuous predictors, shape (m, 1 + k, columns).

        Args:
            model: The model.
            codes: Its discrete predictors by pattern, ascending, shape (m, ...).
        """
        discrete, numbers = self.by_type(model.predictors)
        own = dict(zip(discrete, codes.T, strict=True))
        indicators = {v: own[v][:, None] == np.arange(1, self._categories[v]) for v in own}
        columns = column_count(model, self._categories)
        design = np.zeros((len(codes), 1 + len(numbers), columns))
        alone = constant = np.ones((len(codes), 1))
        for variable in (v for v in model.predictors[: model.crossed] if v in own):
            products = constant[:, :, None] * indicators[variable][:, None]
            constant = np.column_stack([constant, products.reshape(len(codes), -1)])
        crossed = [v for v in model.predictors[: model.crossed] if v not in own]
        parts = [(constant, 0), *((constant, 1 + numbers.index(v)) for v in crossed)]
        for variable in model.predictors[model.crossed :]:
            number = (alone, 1 + numbers.index(variable)) if variable in numbers else None
            parts.append(number or (indicators[variable], 0))
        end = 0
        for part, slope in parts:
            start, end = end, end + part.shape[1]
            design[:, slope, start:end] = part
        return design

    def _grouped(self, variables: list[int], gaps: frozenset[int], fewest: int) -> AlikeRows | None:
        """Rows without these gaps, in groups of ``fewest`` on average at least."""
        key = tuple(variables), gaps, fewest
        if key not in self._alike:
            complete = self._complete(gaps)
            present = EVERY_ROW if complete is None else complete
            rows = len(self._values(0)[present])
            sizes = [self._categories[v] for v in variables]
            values = rows * (FIXED_COLUMNS + self._categories.count(0))
            if self._alike and (len(self._alike) + 1) * values > MOST_VALUES:
                del self._alike[next(iter(self._alike))]
            self._alike[key] = AlikeRows.of(
                variables, sizes, lambda v: self._values(v)[present], rows, fewest=fewest
            )
        return self._alike[key]

    def complete(self, model: Regression) -> int:
        """How many rows are complete."""
        complete = self._complete(self._used(model))
        return len(self._values(model.response)) if complete is None else int(complete.sum())

    def _complete(self, variables: Iterable[int]) -> NDArray[np.bool_] | None:
        """Which rows miss none of some variables, shape (n,); None if all do not."""
        missing = [own for own in map(self._missing, variables) if own is not None]
        return ~np.logical_or.reduce(missing) if missing else None

    def _used(self, model: Regression) -> tuple[int, ...]:
        return (model.response, *model.predictors, *model.complete_in)

    def _design(self, model: Regression, block: slice) -> FloatMatrix:
        """The columns of a block of rows, shape (columns, n')."""
        rows = len(self._values(model.response)[block])
        design = np.empty((column_count(model, self._categories), rows))
        end = 1
        if model.crossed:
            crossed = np.column_stack(self._crossed(model, rows, block)).T
            end = len(crossed)
            design[:end] = crossed
        else:
            design[0] = 1.0
        for variable in model.predictors[model.crossed :]:
            columns = self._expanded(variable).T[:, block]
            start, end = end, end + len(columns)
            design[start:end] = columns
        return design

    def _values(self, variable: int) -> FloatVector:
        """The variable itself, shape (n,): codes, or values in the common unit."""
        if variable not in self._own:
            own = self._column(variable)
            if not self._categories[variable]:
                own = np.ldexp(own - self._origins[variable], -self._units[variable])
            self._own[variable] = own
        return self._own[variable]

    def _crossed(self, model: Regression, rows: int, block: slice = EVERY_ROW) -> list[FloatMatrix]:
        """Constant, predictors that interact, and their products, shapes (n, columns)."""
        design = np.ones((rows, 1))
        crossed = model.predictors[: model.crossed]
        for variable in (v for v in crossed if self._categories[v]):
            columns = self._expanded(variable)[block]
            products = design[:, :, None] * columns[:, None]
            design = np.column_stack(
                [design, products.reshape(rows, math.prod(products.shape[1:]))]
            )
        slopes = (self._expanded(v)[block] * design for v in crossed if not self._categories[v])
        return [design, *slopes]

    def _missing(self, variable: int) -> NDArray[np.bool_] | None:
        """Where a variable is missing, shape (n,); None if nowhere."""
        if variable not in self._gaps:
            own = np.isnan(self._values(variable))
            self._gaps[variable] = own if own.any() else None
        return self._gaps[variable]

    def _expanded(self, variable: int) -> FloatMatrix:
        """Columns of a predictor, shape (n, ...); each column's rows lie together."""
        if variable not in self._known:
            own, categories = self._values(variable), self._categories[variable]
            levels = np.arange(1, categories)[:, None]
            columns = (own == levels).astype(np.float64) if categories else own[None]
            self._known[variable] = columns.T
        return self._known[variable]
