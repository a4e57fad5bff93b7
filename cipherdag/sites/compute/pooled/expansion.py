"""Designs of regressions: what a site's columns of any type become in them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.regression_steps import column_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from cipherdag.questions.regression_steps import Regression
    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector, IndexArray

    FloatMatrix = NDArray[np.float64]

EVERY_ROW = slice(None)
BLOCK_ROWS = 8192
"""Rows whose designs are made at a time: they stay in a processor's cache."""
ROWS_PER_CELL = 4
"""Of a table of a model's variables, from which on rows that are alike are taken together."""


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
        self._known: dict[int, tuple[FloatMatrix, FloatVector]] = {}
        self._gaps: dict[int, NDArray[np.bool_] | None] = {}

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

    def incomplete(self, variables: Iterable[int]) -> bool:
        """Whether some variable misses a value."""
        return any(self._missing(variable) is not None for variable in variables)

    def rows(self, model: Regression) -> tuple[FloatMatrix, FloatVector]:
        """Design (n', columns) and response (n',) over the rows that are complete."""
        _, response = self._expanded(model.response)
        alone = [self._expanded(v)[0] for v in model.predictors[model.crossed :]]
        design = np.column_stack([*self._crossed(model, len(response)), *alone])
        complete = self._complete(model)
        if complete is None:
            return design, response
        return design[complete], response[complete]

    def blocks(self, model: Regression) -> Iterator[tuple[FloatMatrix, FloatVector]]:
        """What `rows` yields, a block of rows after the other; each design's columns lie together.

        How rows are cut depends on nothing but their number; there is one block at least.
        """
        values = self._values(model.response)
        complete = self._complete(model)
        for start in range(0, max(len(values), 1), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            design, response = self._design(model, block), values[block]
            if complete is not None:
                design, response = design[:, complete[block]], response[complete[block]]
            yield design.T, response

    def patterns(self, model: Regression) -> tuple[FloatMatrix, FloatMatrix] | None:
        """The design of rows that differ, and how often each has every category of the response.

        Of shapes (m, columns) and (m, categories). None where a variable is continuous, or where
        there may be too many such rows to be worth it.
        """
        used = (*model.predictors, model.response)
        sizes = [self._categories[variable] for variable in used]
        cells, complete = math.prod(sizes), self._complete(model)
        if not cells or cells * ROWS_PER_CELL > len(self._values(model.response)):
            return None
        joint = np.zeros((), dtype=np.int64)
        for variable, size in zip(used, sizes, strict=True):
            codes = self._values(variable) if complete is None else self._values(variable)[complete]
            joint = joint * size + codes.astype(np.int64)
        counts = np.bincount(joint, minlength=cells).reshape(-1, sizes[-1])
        left, codes_of = np.flatnonzero(counts.any(axis=1)), {}
        counts = counts[left]
        for variable, size in zip(used[-2::-1], sizes[-2::-1], strict=True):
            left, own = np.divmod(left, size)
            codes_of[variable] = own.astype(np.float64)
        codes_of[model.response] = np.zeros(len(counts))
        distinct = Expansion(self._categories, self._origins, self._units, codes_of.__getitem__)
        design, _ = distinct.rows(replace(model, complete_in=()))
        return design, counts.astype(np.float64)

    def complete(self, model: Regression) -> int:
        """How many rows are complete."""
        complete = self._complete(model)
        return len(self._values(model.response)) if complete is None else int(complete.sum())

    def _complete(self, model: Regression) -> NDArray[np.bool_] | None:
        """Which rows are complete, shape (n,); None if all are."""
        used = (model.response, *model.predictors, *model.complete_in)
        missing = [own for own in map(self._missing, used) if own is not None]
        return ~np.logical_or.reduce(missing) if missing else None

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
            columns = self._expanded(variable)[0].T[:, block]
            start, end = end, end + len(columns)
            design[start:end] = columns
        return design

    def _values(self, variable: int) -> FloatVector:
        """The variable itself, shape (n,): codes, or values in the common unit."""
        return self._expanded(variable)[1]

    def _crossed(self, model: Regression, rows: int, block: slice = EVERY_ROW) -> list[FloatMatrix]:
        """Constant, predictors that interact, and their products, shapes (n, columns)."""
        design = np.ones((rows, 1))
        crossed = model.predictors[: model.crossed]
        for variable in (v for v in crossed if self._categories[v]):
            columns = self._expanded(variable)[0][block]
            products = design[:, :, None] * columns[:, None]
            design = np.column_stack(
                [design, products.reshape(rows, math.prod(products.shape[1:]))]
            )
        slopes = (self._expanded(v)[0][block] * design for v in crossed if not self._categories[v])
        return [design, *slopes]

    def _missing(self, variable: int) -> NDArray[np.bool_] | None:
        """Where a variable is missing, shape (n,); None if nowhere."""
        if variable not in self._gaps:
            own = np.isnan(self._values(variable))
            self._gaps[variable] = own if own.any() else None
        return self._gaps[variable]

    def _expanded(self, variable: int) -> tuple[FloatMatrix, FloatVector]:
        """Columns of a predictor, and the variable itself: codes, or values in the common unit."""
        if variable not in self._known:
            own = self._column(variable)
            if self._categories[variable]:
                levels = np.arange(1, self._categories[variable])
                # each column's rows lie together
                self._known[variable] = ((own == levels[:, None]).astype(np.float64).T, own)
            else:
                scaled = np.ldexp(own - self._origins[variable], -self._units[variable])
                self._known[variable] = (scaled[:, None], scaled)
        return self._known[variable]
