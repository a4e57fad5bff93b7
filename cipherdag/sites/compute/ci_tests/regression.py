"""Likelihood ratios of nested regressions test the columns of one site, whatever their types."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.sites.compute.ci_tests.ci_test import (
    CachedCITest,
    ColumnData,
    TestBatch,
    computes,
    half,
    not_done,
)
from cipherdag.sites.compute.device import DEFAULT_MEMORY, PROCESSOR, Device, resolve_device
from cipherdag.sites.compute.models.design import Expansion
from cipherdag.sites.compute.models.steps import site_fit, whole_step
from cipherdag.statistics.contingency import chi_square_tail
from cipherdag.statistics.regression_fits import FEWEST_PER_COEFFICIENT, Fit, likelihood_ratio
from cipherdag.statistics.regression_models import Regression, nested_models, too_large


@computes("regression")
class RegressionTest(CachedCITest):
    """Likelihood ratios of nested regressions test the conditional independence of any columns.

    `likelihood_ratio` defines the statistic, which is the dependence, too. Rows with a missing
    value in one of a test's variables are left out of that test. A test with more than 4096
    coefficients is not done: its number of rows is 0.

    With fewer than ``fewest`` rows per coefficient a test is not done either.
    """

    def __init__(
        self,
        categories: tuple[int, ...],
        column: Callable[[int], NDArray[np.float64]],
        ordered: tuple[int, ...] = (),
        *,
        fewest: float = FEWEST_PER_COEFFICIENT,
        device: Device = PROCESSOR,
    ) -> None:
        super().__init__(len(categories), cache_bytes=half(DEFAULT_MEMORY))
        self._categories, self._ordered = categories, frozenset(ordered)
        self._fewest = fewest
        self._expand = Expansion.of_site(categories, column, device)
        self._fits: dict[Regression, tuple[Fit, int]] = {}

    @classmethod
    def of_table(cls, table: ColumnData, spec: CITestSpec, name: str, device: str) -> Self:
        del name
        numbers = table.numbers()
        return cls(
            table.cardinalities,
            lambda v: numbers[:, v],
            table.ordered,
            fewest=spec.min_rows_per_cell,
            device=resolve_device(device),
        )

    def _compute(self, tests: TestBatch) -> FloatMatrix:
        outcomes = not_done(np.zeros(len(tests), dtype=np.int64))
        for test, row in enumerate(np.column_stack([tests.x, tests.y, tests.given]).tolist()):
            left_out = self._expand.incomplete(row)
            small, large = nested_models(
                row, self._categories, left_out=left_out, ordered=self._ordered
            )
            if too_large(large, self._categories):
                continue
            (before, _), (after, rows) = self._fit(small), self._fit(large)
            ratio, dof = likelihood_ratio(before, after, self._categories, fewest=self._fewest)
            outcomes[test, 1] = outcomes[test, 3] = ratio
            outcomes[test, 2], outcomes[test, 4] = dof, rows
        done = ~np.isnan(outcomes[:, 1])
        outcomes[done, 0] = chi_square_tail(outcomes[done, 1], outcomes[done, 2])
        return outcomes

    def _fit(self, model: Regression) -> tuple[Fit, int]:
        """Fits a regression and counts its rows; cached, because tests share smaller models."""
        if model not in self._fits:
            categories = self._categories[model.response]
            step = partial(whole_step, self._expand, model, categories=categories)
            fit = site_fit(model, self._categories, step, near=self._near(model))
            self._fits[model] = fit, self._expand.complete(model)
        return self._fits[model]

    def _near(self, model: Regression) -> Fit | None:
        """Returns the fit without the last predictor, to start from; None if it has other rows."""
        used = (model.response, *model.predictors, *model.complete_in)
        discrete = self._categories[model.response] > 0
        if not discrete or not model.predictors or self._expand.incomplete(used):
            return None
        return self._fit(replace(model, predictors=model.predictors[:-1]))[0]
