"""Designs of regressions: what a site's columns of any type become in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from cipherdag.questions.regression_steps import Regression
    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector, IndexArray

    FloatMatrix = NDArray[np.float64]


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
        used = (model.response, *model.predictors, *model.complete_in)
        missing = [own for own in map(self._missing, used) if own is not None]
        if not missing:
            return design, response
        complete = ~np.logical_or.reduce(missing)
        return design[complete], response[complete]

    def _crossed(self, model: Regression, rows: int) -> list[FloatMatrix]:
        """Constant, predictors that interact, and their products, shapes (n, columns)."""
        design = np.ones((rows, 1))
        crossed = model.predictors[: model.crossed]
        for variable in (v for v in crossed if self._categories[v]):
            columns = self._expanded(variable)[0]
            products = design[:, :, None] * columns[:, None]
            design = np.column_stack([design, products.reshape(rows, -1)])
        slopes = (self._expanded(v)[0] * design for v in crossed if not self._categories[v])
        return [design, *slopes]

    def _missing(self, variable: int) -> NDArray[np.bool_] | None:
        """Where a variable is missing, shape (n,); None if nowhere."""
        if variable not in self._gaps:
            own = np.isnan(self._expanded(variable)[1])
            self._gaps[variable] = own if own.any() else None
        return self._gaps[variable]

    def _expanded(self, variable: int) -> tuple[FloatMatrix, FloatVector]:
        """Columns of a predictor, and the variable itself: codes, or values in the common unit."""
        if variable not in self._known:
            own = self._column(variable)
            if self._categories[variable]:
                levels = np.arange(1, self._categories[variable])
                self._known[variable] = ((own[:, None] == levels).astype(np.float64), own)
            else:
                scaled = np.ldexp(own - self._origins[variable], -self._units[variable])
                self._known[variable] = (scaled[:, None], scaled)
        return self._known[variable]
