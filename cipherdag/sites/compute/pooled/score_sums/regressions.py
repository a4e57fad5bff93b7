"""Scores of categories and numbers together: a site's own regression of each test.

The response is fitted on S by the site's own Newton steps, and the other variable is scored. Two
numbers have their residuals multiplied (`residual_scores`). Variances of a categorical response are
those of its likelihood, times n / (n - k) for n rows and k coefficients. Squares of the numbers in
S are regressors too where the site has enough rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.questions.scores.score_sums import MOST_SCORE, score_shape
from cipherdag.sites.compute.device import Device
from cipherdag.sites.compute.pooled.regression.design import Expansion
from cipherdag.sites.compute.pooled.regression.steps import model_step, site_fit
from cipherdag.sites.compute.pooled.score_sums.numbers import ROWS_PER_SQUARE
from cipherdag.sites.compute.pooled.score_sums.residuals import RegressionScores, residual_scores
from cipherdag.statistics.array_functions import Array, functions_of, quantiles
from cipherdag.statistics.newton import step_parts
from cipherdag.statistics.regression_fits import LEAST_REST, Fit
from cipherdag.statistics.regression_models import (
    Regression,
    column_count,
    outputs,
    predictor_columns,
)

FENCE = 3.0
"""Interquartile ranges beyond the quartiles at which a scored number is clipped (Tukey, 1977)."""
FEWEST_EVENTS = 2
"""Rows of the rarest category of a response per coefficient of S."""


class SiteRegressions:
    """Score tests over one site's columns; null fits are cached, as tests share them.

    Args:
        categories: Number of categories of every variable, 0 for a number.
        column: Codes or values of one variable, float64 of shape (n,), NaN where missing.
        standard: Values of a number in deviations from its mean.
        device: Where to compute.
    """

    def __init__(
        self,
        categories: tuple[int, ...],
        column: Callable[[int], FloatVector],
        standard: Callable[[int], FloatVector],
        device: Device,
    ) -> None:
        self._p = p = len(categories)
        # the squares of numbers come after the variables
        self._categories = (*categories, *(0,) * p)

        def values(variable: int) -> FloatVector:
            if variable < p:
                return column(variable)
            return standard(variable - p) ** 2

        self._expand = Expansion.of_site(self._categories, values, device)
        self._fits: dict[Regression, Fit] = {}

    def scores(self, model: Regression) -> RegressionScores | None:
        """The scores of a test; None where the site cannot do it.

        Args:
            model: Its last predictor is scored.
        """
        size = math.prod(score_shape(model, self._categories))
        model = self._curved(model)
        design, response = self._expand.rows(model)
        tested = model.predictors[-1]
        width = predictor_columns(self._categories[tested])
        xp, last = functions_of(design), design.shape[1] - width
        nuisance, other = design[:, :last], design[:, last:]
        rest = float(len(response) - nuisance.shape[1])
        if size == 0 or rest < 1.0:
            return None
        if not self._categories[tested]:
            other = _standardised(other)
        if not other.any():
            return None
        if not self._categories[model.response]:
            return residual_scores(nuisance, xp.column_stack([response, other]))
        fit = self._fit(model, nuisance, response)
        if fit.degenerate or fit.limiting_rows < FEWEST_EVENTS * nuisance.shape[1]:
            return None
        scores, covariance = self._of_categories(model, fit, (nuisance, other), response)
        return RegressionScores(scores, covariance * (len(response) / rest), rest)

    def moments(
        self, model: Regression, test: RegressionScores, n_rows: int
    ) -> tuple[FloatVector, float, float]:
        """Scores of all components, shape (K,), a first category's among them, a, and f.

        Several are weighted: as in `table_moments`, by their variances.

        Args:
            model: Of the test.
            test: What `scores` has made of it.
            n_rows: Rows of all sites.
        """
        each: FloatMatrix = np.ones((1, 1))
        for side in score_shape(model, self._categories):
            # the first category's score is the others' sum, negated
            contrast = (
                np.vstack([-np.ones(side - 1), np.eye(side - 1)]) if side > 1 else np.eye(side)
            )
            each = np.kron(each, contrast).astype(np.float64)
        scores, covariances = each @ test.scores, each @ test.covariance @ each.T
        variances, share = np.maximum(covariances.diagonal(), 0.0), test.rows / n_rows
        if len(scores) == 1:
            return scores, float(variances[0]), 0.0
        weights = 1.0 / np.maximum(variances / share, 1.0)
        scale, most = np.sqrt(weights), MOST_SCORE * share * math.sqrt(n_rows)
        squared = float(((scale[:, None] * covariances * scale) ** 2).sum())
        rare = float((weights**2 * variances).sum()) * share
        mean = float((weights * variances).sum())
        return np.clip(scale * scores, -most, most), mean, math.sqrt(squared + rare / 2.0)

    def _fit(self, model: Regression, nuisance: Array, response: Array) -> Fit:
        """The fit of the response on S, over the rows of the test."""
        tested = model.predictors[-1]
        gaps = (tested,) if self._expand.incomplete([tested]) else ()
        null = replace(model, predictors=model.predictors[:-1], complete_in=gaps)
        if null not in self._fits:
            categories = self._categories[model.response]
            step = partial(
                model_step, nuisance, response, categories=categories, ordered=null.ordered
            )
            self._fits[null] = site_fit(null, self._categories, step)
        return self._fits[null]

    def _curved(self, model: Regression) -> Regression:
        """The model with the squares of the numbers in S, if there are rows enough for them."""
        *given, tested = model.predictors
        squares = [self._p + v for v in given if not self._categories[v]]
        curved = replace(model, predictors=(*given, *squares, tested))
        columns = column_count(curved, self._categories)
        enough = self._expand.complete(model) >= ROWS_PER_SQUARE * columns
        return curved if squares and enough else model

    def _of_categories(
        self,
        model: Regression,
        fit: Fit,
        designs: tuple[Array, Array],
        response: Array,
    ) -> tuple[FloatVector, FloatMatrix]:
        """Scores of coefficients that are 0, and their covariances given those of S."""
        nuisance, other = designs
        categories = self._categories[model.response]
        zeros = np.zeros(other.shape[1])
        if model.ordered:
            coefficients = np.concatenate([fit.coefficients, zeros])
            tested = np.arange(len(coefficients)) >= len(fit.coefficients)
        else:
            by_output = fit.coefficients.reshape(outputs(categories), -1)
            coefficients = np.column_stack([by_output, np.tile(zeros, (len(by_output), 1))]).ravel()
            columns = np.arange(nuisance.shape[1] + len(zeros)) >= nuisance.shape[1]
            tested = np.tile(columns, len(by_output))
        step = model_step(
            functions_of(nuisance).column_stack([nuisance, other]),
            response,
            coefficients,
            categories,
            ordered=model.ordered,
        )
        _, gradient, hessian = step_parts(step, len(coefficients))
        return _efficient(gradient, hessian, tested)


def _standardised(other: Array) -> Array:
    """A scored number, clipped and in deviations; 0 where it does not vary, shape (n, 1)."""
    other = _within_fences(other)
    centred = other - other.mean(axis=0)
    spread = math.sqrt(float((centred**2).mean()))
    largest = float(abs(other).max())
    scaled = centred / max(spread, float(np.finfo(np.float64).tiny))
    return scaled if spread > LEAST_REST * largest else functions_of(other).zeros_like(other)


def _within_fences(values: Array) -> Array:
    """Numbers, shape (n, k), n > 0, clipped at Tukey's fences; where quartiles are one, none is."""
    xp, (low, high) = functions_of(values), quantiles(values, (0.25, 0.75))
    reach = xp.where(high > low, FENCE * (high - low), np.inf)
    return xp.clip(values, low - reach, high + reach)


def _efficient(
    gradient: FloatVector, hessian: FloatMatrix, tested: NDArray[np.bool_]
) -> tuple[FloatVector, FloatMatrix]:
    """Scores of some coefficients and their covariances, given those of the others."""
    across = hessian[np.ix_(tested, ~tested)]
    among = np.linalg.pinv(hessian[np.ix_(~tested, ~tested)], hermitian=True)
    variance = hessian[np.ix_(tested, tested)]
    covariance = variance - across @ among @ across.T
    positive = covariance.diagonal() > LEAST_REST * variance.diagonal()
    scores = gradient[tested] - across @ (among @ gradient[~tested])
    return np.where(positive, scores, 0.0), np.where(np.outer(positive, positive), covariance, 0.0)
