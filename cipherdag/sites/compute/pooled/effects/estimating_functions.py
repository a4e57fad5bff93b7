"""Estimating functions of the effect estimators, evaluated and summed over one site's rows.

Sources: Stefanski and Boos, The American Statistician 56 (2002) 29-38 (M-estimation); Robins,
Rotnitzky and Zhao, JASA 89 (1994) 846-866 (augmented inverse propensity weighting); Lunceford and
Davidian, Statistics in Medicine 23 (2004) 2937-2960 (Hajek's ratio of weighted means).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.estimation.effect_stages import ArmMeans, ModelSteps, Variance
from cipherdag.questions.estimation.effect_sums import TREATMENT, EffectSums
from cipherdag.sites.compute.pooled.described import suppress_small_counts
from cipherdag.sites.compute.pooled.effects.refuted_rows import EffectRows, no_contribution
from cipherdag.sites.compute.pooled.regression.design import Expansion
from cipherdag.sites.compute.pooled.regression.likelihoods import (
    bounded_logits,
    by_pieces,
    information,
)
from cipherdag.sites.compute.pooled.regression.site_intercepts import (
    centred,
    full_scores,
    profiled_slope,
    with_site_intercepts,
)
from cipherdag.sites.compute.pooled.regression.steps import model_step
from cipherdag.statistics.regression_models import PROPENSITY_EDGES, Regression

LEAST_WEIGHT = 0.5
"""Below that of one row."""
LARGEST_LEVERAGE = 0.9
"""At which a row's leverage is cut: nothing is left of its residual at 1."""


@dataclass(frozen=True, slots=True)
class _Arm:
    """The terms of an arm's mean, sum (m + w (y - m)) / sum d, row by row.

    Attributes:
        arm: Which.
        in_arm: Which rows are of the arm, 0 or 1, shape (n,).
        weight: w, 1 over the propensity in these and else 0, shape (n,).
        slope: Derivative of w by the logits of the treatment, shape (n, arms - 1).
        fitted: m, the outcome of the arm's model, shape (n,).
        change: Derivative of m by its linear combination, shape (n,).
        residual: y - m, shape (n,).
        denominator: d, shape (n,).
    """

    arm: int
    in_arm: FloatVector
    weight: FloatVector
    slope: FloatMatrix
    fitted: FloatVector
    change: FloatVector
    residual: FloatVector
    denominator: FloatVector

    @property
    def numerator(self) -> FloatVector:
        """The sum's terms m + w (y - m), shape (n,)."""
        return self.fitted + self.weight * self.residual


def summed_functions(question: EffectSums, rows: EffectRows, min_cell_size: int) -> FloatVector:
    """The answer of a site's rows to a stage of all rows; zeros where it does not contribute.

    Args:
        question: Stage and coefficients.
        rows: The rows.
        min_cell_size: Smallest count of propensities that may leave, but for 0.
    """
    functions = _EstimatingFunctions(question, rows)
    present = [float((functions.arm == a).any()) for a in range(question.arms)]
    if question.site_effect and not (min(present) and functions.comparable.any()):
        return no_contribution(question)
    sums = np.zeros(0)
    if isinstance(question.stage, ModelSteps):
        sums = functions.steps()
    elif isinstance(question.stage, ArmMeans):
        sums = np.concatenate([*functions.means(), functions.overlap(min_cell_size)])
    elif isinstance(question.stage, Variance):
        sums = functions.variance()
    return np.concatenate([sums, [1.0], present])


class _EstimatingFunctions:
    def __init__(self, question: EffectSums, rows: EffectRows) -> None:
        def column(variable: int) -> FloatVector:
            return rows.column(question, variable)

        self._question, self._column = question, column
        origins, units = question.origin_array(), question.unit_array()
        expand = Expansion(question.categories, origins, units, column)
        predictors, named = question.regression(0).predictors, question.named
        self._design, self.arm = expand.rows(Regression(question.treatment, predictors, named))
        _, self._outcome = expand.rows(Regression(question.outcome, (), named))
        if not question.categories[question.treatment]:
            self.arm = np.zeros(len(self._outcome))
        self._complete = ~np.logical_or.reduce([np.isnan(column(v)) for v in named])
        weights = None if rows.weights is None else rows.weights[self._complete]
        if weights is not None:
            weights = weights * (len(weights) / max(float(weights.sum()), 1.0))
        self._weights = np.ones(len(self._outcome)) if weights is None else weights
        if question.site_effect and question.linear:
            self._design, self._outcome = centred(self._design, self._outcome, weights)
        self._coefficients = question.by_model()
        if question.site_effect and not isinstance(question.stage, ModelSteps):
            self._coefficients = {m: self._at_site(m, c) for m, c in self._coefficients.items()}

    def _at_site(self, model: int, coefficients: FloatVector) -> FloatVector:
        question = self._question
        used, response, categories = self._response(model)
        if question.linear or not used.any():
            return coefficients
        return with_site_intercepts(
            self._design[used],
            response[used],
            coefficients.reshape(question.outputs(model), -1),
            categories,
            self._weights[used],
        ).ravel()

    def _response(self, model: int) -> tuple[BoolVector, FloatVector, int]:
        """The rows, response and number of categories of a model."""
        question = self._question
        every = np.ones(len(self.arm), dtype=bool)
        if model == TREATMENT:
            return every, self.arm, question.arms
        if question.linear:
            return every, self._outcome, 0
        return self.arm == model, self._outcome, question.categories[question.outcome]

    @cached_property
    def _strata(self) -> tuple[IndexArray, FloatMatrix]:
        """The stratum of every row, and the summed weights by stratum and arm."""
        question, cell = self._question, np.zeros(len(self.arm))
        for v in question.adjust:
            cell = cell * question.categories[v] + self._column(v)[self._complete]
        cells, stratum = np.unique(cell, return_inverse=True)
        by_arm = (stratum * question.arms + self.arm).astype(np.int64)
        weights = np.bincount(by_arm, self._weights, len(cells) * question.arms)
        return stratum.astype(np.int64), weights.reshape(-1, question.arms).astype(np.float64)

    @cached_property
    def comparable(self) -> FloatVector:
        """Indicators of rows in strata where the site has rows of every arm, shape (n,)."""
        if not self._question.stratified:
            return np.ones(len(self.arm))
        stratum, weights = self._strata
        return np.asarray(weights.min(axis=1) > 0.0, dtype=np.float64)[stratum]

    def steps(self) -> FloatVector:
        """Log likelihood, score and minus the Hessian of every model that is stepped."""
        sums = [np.zeros(0)]
        for model, coefficients in self._coefficients.items():
            used, response, categories = self._response(model)
            profiled = self._question.site_effect and not self._question.linear
            step = model_step(
                self._design[used], response[used], coefficients, categories,
                site_effect=profiled, weights=self._weights[used],
            )  # fmt: skip
            sums.append(step)
        return np.concatenate(sums)

    def means(self) -> list[FloatVector]:
        """Arm by arm its rows, weighted sums, and derivatives."""
        sums = []
        for terms in self._arms:
            summands = [terms.numerator, terms.denominator, terms.weight, terms.weight**2]
            weighted = [self._weights @ summand for summand in summands]
            sums += [np.array([terms.in_arm.sum(), *weighted]), *self._derivatives(terms)]
        return sums

    def _derivatives(self, terms: _Arm) -> list[FloatVector]:
        """Derivatives of an arm's sums by the outcome's and by the treatment's coefficients."""
        by_outcome, *by_treatment = self._slopes(terms)
        if self._question.site_effect:
            if len(by_outcome):
                by_outcome = profiled_slope(by_outcome, self._information(terms.arm), 1)
            outputs = self._question.arms - 1
            by_treatment = [
                profiled_slope(x, self._information(TREATMENT), outputs) for x in by_treatment
            ]
        return [by_outcome, *by_treatment]

    def _slopes(self, terms: _Arm) -> list[FloatVector]:
        """The derivatives at fixed intercepts of the site."""
        question, slopes = self._question, [np.zeros(0)]
        if 0 in question.needed:
            by_fit = (1.0 - terms.weight) * terms.change
            slopes = [(self._weights * by_fit) @ self._design]
        if TREATMENT in question.needed:
            hajek = float(question.estimator == "ipw")
            for factor in (terms.residual * self._weights, self._weights * hajek):
                slopes.append(((terms.slope * factor[:, None]).T @ self._design).ravel())
        return slopes

    def _information(self, model: int) -> FloatMatrix:
        """Minus the Hessian of a model's log likelihood at the site, intercepts and all."""
        used, _, categories = self._response(model)
        design, weights = self._design[used], self._weights[used]
        if not categories:
            return by_pieces(design.T * weights, design.T)
        if model == TREATMENT:
            chance = self._propensities[:, 1:]
        else:
            chance = self._arms[model].fitted[used, None]
        square = information(design, chance, weights)
        return square.reshape(-1, chance.shape[1] * design.shape[1])

    def variance(self) -> FloatVector:
        """Sums of influence functions, and of their products."""
        influence = self._linear_influence() if self._question.linear else self._influence()
        products = influence.T @ influence
        return np.concatenate([influence.sum(axis=0), products[np.triu_indices(len(products))]])

    def _linear_influence(self) -> FloatMatrix:
        """Influence function of each coefficient, with HC3 residuals, shape (n, estimates)."""
        design, inverse = self._design, self._question.inverse(0)
        level = np.zeros(len(design))
        if self._question.site_effect:
            # the position of the intercept is that of all sites' one
            inverse[0, 0], level = 0.0, self._weights / max(float(self._weights.sum()), 1.0)
        leverage = level + ((design @ inverse) * design).sum(axis=1)
        leverage = np.clip(leverage, 0.0, LARGEST_LEVERAGE)
        residual = (self._outcome - design @ self._coefficients[0]) / (1.0 - leverage)
        return (self._design @ self._question.influences().T) * residual[:, None]

    def _influence(self) -> FloatMatrix:
        """Influence function of each arm's mean times its denominator, shape (n, arms)."""
        question, columns = self._question, []
        for terms, influence in zip(self._arms, question.influences(), strict=True):
            total = terms.numerator - influence[0] * terms.denominator
            fitted, treated = self._scores(terms, influence[0], influence[1:])
            if question.estimator != "ipw":
                residual = terms.in_arm * terms.residual
                pull = self._design @ fitted if len(fitted) else np.zeros(len(residual))
                leverage = self._leverage(terms)
                raised = leverage / (1.0 - leverage) * (pull + terms.weight)
                total = total + residual * (pull + raised)
            if len(treated):
                total = total + self._treatment_scores(treated)
            columns.append(total * self._weights)
        return np.column_stack(columns)

    def _leverage(self, terms: _Arm) -> FloatVector:
        """The leverage of each row's outcome among the rows of an arm, shape (n,).

        Source: MacKinnon and White, Journal of Econometrics 29 (1985) 305-325 (HC3).
        """
        question, strength = self._question, self._weights * terms.in_arm * terms.change
        if question.stratified:
            stratum, by_arm = self._strata
            total = np.maximum(by_arm[stratum, terms.arm], LEAST_WEIGHT)
            share = self._weights * terms.in_arm / total
            return np.asarray(np.clip(share, 0.0, LARGEST_LEVERAGE))
        design, inverse = self._design, question.inverse(terms.arm)
        total, level = float(strength.sum()), 0.0
        if question.site_effect and total > 0.0:
            design, level = design - strength @ design / total, 1.0 / total
        share = strength * (level + ((design @ inverse) * design).sum(axis=1))
        return np.asarray(np.clip(share, 0.0, LARGEST_LEVERAGE))

    def _scores(
        self, terms: _Arm, mean: float, weights: FloatVector
    ) -> tuple[FloatVector, FloatVector]:
        """Weights of the scores of the arm's outcome and of the treatment, intercepts' too."""
        question = self._question
        fitted, treated = np.split(weights, [question.derivatives[0]])
        if question.site_effect and not question.stratified:
            slope, *by_treatment = self._slopes(terms)
            if len(fitted):
                fitted = full_scores(fitted, slope, self._information(terms.arm), 1)
            if by_treatment:
                slope = by_treatment[0] - mean * by_treatment[1]
                square = self._information(TREATMENT)
                treated = full_scores(treated, slope, square, question.arms - 1)
        return fitted, treated

    def _treatment_scores(self, weights: FloatVector) -> FloatVector:
        """The weighted scores of the treatment's model, shape (n,)."""
        by_output = self._design @ weights.reshape(self._question.arms - 1, -1).T
        levels = np.arange(1, self._question.arms)
        treated = (self.arm[:, None] == levels).astype(np.float64)
        return ((treated - self._propensities[:, 1:]) * by_output).sum(axis=1)

    @cached_property
    def _arms(self) -> list[_Arm]:
        return [self._terms(arm) for arm in range(self._question.arms)]

    def _terms(self, arm: int) -> _Arm:
        question, rows = self._question, len(self.arm)
        in_arm = (self.arm == arm).astype(np.float64)
        weight, slope = np.zeros(rows), np.zeros((rows, question.arms - 1))
        fitted, change = np.zeros(rows), np.ones(rows)
        if TREATMENT in question.needed:
            chance, least = self._propensities, question.truncate
            truncated = np.clip(chance[:, arm], least, 1.0 - least)
            weight = in_arm / truncated
            by_logit = (np.arange(1, question.arms) == arm) - chance[:, 1:]
            slope = -(weight * (truncated == chance[:, arm]))[:, None] * by_logit
        if question.stratified:
            stratum, by_arm = self._strata
            total = np.bincount(stratum, self._weights * in_arm * self._outcome, len(by_arm))
            share = np.where(self.comparable > 0.0, by_arm[stratum, arm], np.inf)
            fitted, weight = total[stratum] / share, in_arm * by_arm.sum(axis=1)[stratum] / share
        elif arm in question.needed:
            fitted = self._design @ self._coefficients[arm]
            if question.categories[question.outcome]:
                fitted = 0.5 + 0.5 * np.tanh(bounded_logits(fitted) / 2.0)
                change = fitted * (1.0 - fitted)
        denominator = weight if question.estimator == "ipw" else self.comparable
        residual = self._outcome - fitted
        return _Arm(arm, in_arm, weight, slope, fitted, change, residual, denominator)

    @cached_property
    def _propensities(self) -> FloatMatrix:
        """Multinomial probabilities of the arms, shape (n, arms)."""
        coefficients = self._coefficients[TREATMENT].reshape(self._question.arms - 1, -1)
        logits = bounded_logits(self._design @ coefficients.T)
        every = np.column_stack([np.zeros(len(logits)), logits])
        weights = np.exp(every - every.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def overlap(self, min_cell_size: int) -> FloatVector:
        """Counts of propensities, of which small ones are suppressed, shape (bins,).

        How many rows an arm has is opened too, so that what is suppressed follows together.
        """
        counts = np.zeros(self._question.bins)
        if counts.size:
            for category, arm in np.ndindex(counts.shape[:2]):
                chance = self._propensities[self.arm == arm, category + 1]
                bins = np.searchsorted(PROPENSITY_EDGES, chance, side="right") - 1
                counts[category, arm] = suppress_small_counts(
                    np.bincount(bins, minlength=len(PROPENSITY_EDGES)), min_cell_size
                )
        return counts.ravel()
