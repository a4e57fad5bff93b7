"""A site's half of `WithinScores`: its own fit of every test, and the scores and covariances there.

Given S the scores of a response that is linear are those of its residuals in units of their own
spread; that of every other response is fitted by its own Newton steps. Covariances are exact in
mean for linear responses, and for the others times n / (n - k) for n rows and k coefficients, as
the hypergeometric variance is where S is empty.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.regression_steps import outputs, predictor_columns
from cipherdag.questions.scores.within_scores import WithinScores, score_count
from cipherdag.sites.compute.pooled.blur import jolted
from cipherdag.sites.compute.pooled.expansion import Expansion
from cipherdag.sites.compute.pooled.site_regressions import model_step, own_fit
from cipherdag.statistics.regression_fits import FEWEST_PER_COEFFICIENT, step_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from cipherdag.questions.regression_steps import Regression
    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector, IndexArray
    from cipherdag.sites.compute.pooled.blur import Blur
    from cipherdag.statistics.regression_fits import Fit

    FloatMatrix = NDArray[np.float64]

LEAST_REST = 1e-9
"""Of the variance of z: what S leaves of it; less is none."""
FENCE = 3.0
"""Ranges between the quartiles that a number may lie beyond them: one row shall not be the sum."""


class OwnScores:
    """Score tests over one site's columns; fits are kept, as tests share them.

    Args:
        categories: Number of categories of every variable, 0 for a continuous one.
        column: Codes or values of one variable, float64 of shape (n,), NaN where missing.
        least: Fewest rows of a category of x or y; fewer count with the category beside it.
        within: As ``column``, of all rows that these are drawn from.
        blur: What moves scores and covariances; None: nothing does.
    """

    def __init__(
        self,
        categories: tuple[int, ...],
        column: Callable[[int], NDArray[np.float64]],
        *,
        least: int,
        within: Callable[[int], NDArray[np.float64]],
        blur: Blur | None,
    ) -> None:
        self._categories, self._least, self._within = categories, least, within
        self._blur = blur
        self._expand = Expansion.of_site(categories, column)
        self._fits: dict[Regression, Fit] = {}

    def answer(self, question: WithinScores) -> FloatVector:
        """Scores, covariances and weights of all triplets, as the question lays them out."""
        found = [self._blurred(model) for model in question.models]
        if not found:
            return np.zeros(0)
        upper = [covariance[np.triu_indices(len(covariance))] for _, covariance, _ in found]
        weights = np.array([weight for *_, weight in found])
        return np.concatenate([*(scores for scores, *_ in found), *upper, weights])

    def _blurred(self, model: Regression) -> tuple[FloatVector, FloatMatrix, float]:
        """As `_scores`, moved as `stratified_answer` moves differences and variances."""
        scores, covariance, weight = self._scores(model)
        if self._blur is None or not covariance.any():
            return scores, covariance, weight
        first, *given = (self._blur.column(v) for v in (model.response, *model.predictors[:-1]))
        key = b"".join([first, self._blur.column(model.predictors[-1]), *sorted(given)])
        (spread,), drawn = self._blur.moves([key], [len(scores)])
        named = [v for v in (model.response, model.predictors[-1]) if self._categories[v]]
        drawn = self._blur.sign(*named) * drawn
        values, vectors = np.linalg.eigh(covariance)
        values = np.where(values > LEAST_REST * values[-1], values, 0.0)
        moved = vectors @ (np.sqrt(values) * drawn)
        scores = np.where(covariance.diagonal() > 0.0, jolted(scores, moved), 0.0)
        return scores, covariance * spread, weight

    def _scores(self, model: Regression) -> tuple[FloatVector, FloatMatrix, float]:
        """Scores (m,), covariances (m, m) and rows less coefficients; 0 where not done."""
        m = score_count(model, self._categories)
        nothing = np.zeros(m), np.zeros((m, m)), 0.0
        design, response = self._expand.rows(model)
        tested = model.predictors[-1]
        width = predictor_columns(self._categories[tested])
        nuisance, other = np.hsplit(design, [design.shape[1] - width])
        if len(response) < max(self._least, FEWEST_PER_COEFFICIENT * design.shape[1]):
            return nothing
        other = self._tested(other, tested)
        if m == 0 or not other.any():
            return nothing
        small = replace(model, predictors=model.predictors[:-1], complete_in=(tested,))
        if not self._expand.incomplete([tested]):
            small = replace(small, complete_in=())
        categories = self._categories[model.response]
        if categories:
            response = self._joined(response, model.response)
        if small not in self._fits:
            ordered = small.ordered
            step = partial(model_step, nuisance, response, categories=categories, ordered=ordered)
            self._fits[small] = own_fit(small, self._categories, step)
        fit = self._fits[small]
        if fit.undone or fit.scarce < FEWEST_PER_COEFFICIENT * design.shape[1]:
            return nothing
        rest = float(len(response) - nuisance.shape[1])
        if not categories:
            return (*_linear(nuisance, other, response, rest), rest)
        scores, covariance = self._discrete(model, fit, (nuisance, other), response)
        return scores, covariance * (len(response) / rest), rest

    def _tested(self, other: FloatMatrix, tested: int) -> FloatMatrix:
        """What is tested: indicators of categories that are not rare, or a standardised number."""
        if categories := self._categories[tested]:
            codes = self._joined(other @ np.arange(1.0, categories), tested)
            indicators: FloatMatrix = np.equal.outer(codes, np.arange(1.0, categories)) * 1.0
            return indicators
        other = within_fences(other)
        centred = other - other.mean(axis=0)
        spread = float(np.sqrt((centred**2).mean()))
        largest = float(np.abs(other).max())
        scaled: FloatMatrix = centred / max(spread, float(np.finfo(np.float64).tiny))
        return scaled if spread > LEAST_REST * largest else np.zeros_like(other)

    def _joined(self, codes: FloatVector, variable: int) -> FloatVector:
        """Codes in which every category has no rows or enough: rare ones join the one below."""
        categories, whole = self._categories[variable], self._within(variable)
        counts = np.bincount(codes.astype(np.int64), minlength=categories)
        drawn_from = np.bincount(whole[~np.isnan(whole)].astype(np.int64), minlength=categories)
        into = joined(np.minimum(counts, drawn_from), self._least)
        found: FloatVector = into[codes.astype(np.int64)].astype(np.float64)
        return found

    def _discrete(
        self,
        model: Regression,
        fit: Fit,
        designs: tuple[FloatMatrix, FloatMatrix],
        response: FloatVector,
    ) -> tuple[FloatVector, FloatMatrix]:
        """Scores of z where its coefficients are 0, and their covariances given those of S."""
        nuisance, other = designs
        categories = self._categories[model.response]
        zeros = np.zeros(other.shape[1])
        if model.ordered:
            coefficients = np.concatenate([fit.coefficients, zeros])
            tested = np.arange(len(coefficients)) >= len(fit.coefficients)
        else:
            by_output = fit.coefficients.reshape(outputs(categories), -1)
            coefficients = np.column_stack([by_output, np.tile(zeros, (len(by_output), 1))]).ravel()
            places = np.arange(nuisance.shape[1] + len(zeros)) >= nuisance.shape[1]
            tested = np.tile(places, len(by_output))
        step = model_step(
            np.column_stack([nuisance, other]),
            response,
            coefficients,
            categories,
            ordered=model.ordered,
        )
        _, gradient, hessian = step_parts(step, len(coefficients))
        return _efficient(gradient, hessian, tested)


def within_fences(values: FloatMatrix) -> FloatMatrix:
    """Numbers of which those far out (Tukey, 1977) are drawn in to the fences, column by column.

    Which rows are alike in x given S is not changed by it, and sums of few large values are no
    normal variates. Where the quartiles are one number there are no fences.

    Args:
        values: Shape (n, k), n > 0.
    """
    low, high = np.quantile(values, (0.25, 0.75), axis=0)
    reach = np.where(high > low, FENCE * (high - low), np.inf)
    drawn: FloatMatrix = np.clip(values, low - reach, high + reach)
    return drawn


def _linear(
    nuisance: FloatMatrix, other: FloatMatrix, response: FloatVector, rest: float
) -> tuple[FloatVector, FloatMatrix]:
    """Scores of a linear response in units of its residuals' spread, and their covariances."""
    both = np.column_stack([other, response])
    left = both - nuisance @ np.linalg.lstsq(nuisance, both, rcond=None)[0]
    residual, z = left[:, -1], left[:, :-1]
    spread = np.sqrt(residual @ residual / rest)
    covariance = z.T @ z
    kept = covariance.diagonal() > LEAST_REST * (other**2).sum(axis=0)
    scores = np.where(kept, z.T @ residual / spread, 0.0)
    return scores, np.where(np.outer(kept, kept), covariance, 0.0)


def _efficient(
    gradient: FloatVector, hessian: FloatMatrix, tested: NDArray[np.bool_]
) -> tuple[FloatVector, FloatMatrix]:
    """Scores of some coefficients and their covariances, given those of the others."""
    across = hessian[np.ix_(tested, ~tested)]
    among = np.linalg.pinv(hessian[np.ix_(~tested, ~tested)], hermitian=True)
    own = hessian[np.ix_(tested, tested)]
    covariance = own - across @ among @ across.T
    kept = covariance.diagonal() > LEAST_REST * own.diagonal()
    scores = gradient[tested] - across @ (among @ gradient[~tested])
    return np.where(kept, scores, 0.0), np.where(np.outer(kept, kept), covariance, 0.0)


def joined(counts: IndexArray, least: int) -> IndexArray:
    """Which category every one counts with: a rare one joins the one below, the lowest that above.

    Args:
        counts: Rows of every category.
        least: Fewest rows of one that counts by itself.
    """
    left, into = counts.copy(), np.arange(len(counts))
    for code in range(len(counts) - 1, 0, -1):
        if 0 < left[code] < least:
            left[code - 1] += left[code]
            left[code] = 0
            into[into == code] = code - 1
    above = np.flatnonzero(left[1:]) + 1
    if 0 < left[0] < least and len(above):
        into[into == 0] = above[0]
    return into
