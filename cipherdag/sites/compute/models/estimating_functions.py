"""Estimating functions of the effect estimators, evaluated and summed over one site's rows.

Sources: Stefanski and Boos, The American Statistician 56 (2002) 29-38 (M-estimation); Robins,
Rotnitzky and Zhao, JASA 89 (1994) 846-866 (augmented inverse propensity weighting); Lunceford and
Davidian, Statistics in Medicine 23 (2004) 2937-2960 (Hajek's ratio of weighted means).
"""

import math
from collections.abc import Collection
from functools import cache, cached_property

import numpy as np

from cipherdag.arrays import FloatArray, FloatMatrix, FloatVector, IntegerVector
from cipherdag.questions.estimation.effect_stages import ArmMeans, ModelSteps, Variance
from cipherdag.questions.estimation.effect_sums import TREATMENT, EffectSums
from cipherdag.sites.compute.descriptions.described import suppress_small_counts
from cipherdag.sites.compute.device import Device, placed
from cipherdag.sites.compute.models.arm_terms import ArmTerms
from cipherdag.sites.compute.models.design import Expansion
from cipherdag.sites.compute.models.likelihoods import bounded_logits, by_pieces, information
from cipherdag.sites.compute.models.scores_below import scores_below
from cipherdag.sites.compute.models.site_intercepts import (
    centred,
    full_scores,
    profiled_slope,
    with_site_intercepts,
)
from cipherdag.sites.compute.models.steps import fit_alone, model_step
from cipherdag.sites.compute.rows import Rows
from cipherdag.statistics.array_functions import (
    Array,
    at_least,
    floats,
    full,
    functions_of,
    host,
    indices,
    like,
    maxima,
)
from cipherdag.statistics.newton import ESTIMATE_TOLERANCE
from cipherdag.statistics.regression_fits import Fit
from cipherdag.statistics.regression_models import PROPENSITY_EDGES, Regression

LEAST_WEIGHT = 0.5
"""The least weight of a stratum's arm by which is divided; the weight of any row is larger."""
LARGEST_LEVERAGE = 0.9  # a row's leverage is cut here: at 1 nothing would be left of its residual


def summed_functions(
    question: EffectSums, rows: Rows, min_cell_size: int, device: Device
) -> FloatVector:
    """The answer of a site's rows to a stage of all rows; zeros where it does not contribute."""
    functions = _EstimatingFunctions(question, rows, device)
    present = [float((functions.arm == a).any()) for a in range(question.arms)]
    if question.site_effect and not (min(present) and bool(functions.comparable.any())):
        return np.zeros(question.n_values)
    sums = np.zeros(0)
    if isinstance(question.stage, ModelSteps):
        sums = functions.steps()
    elif isinstance(question.stage, ArmMeans):
        sums = np.concatenate([*functions.means(), *functions.overlap(min_cell_size)])
    elif isinstance(question.stage, Variance):
        sums = functions.variance()
    return np.concatenate([sums, [1.0], present])


class _EstimatingFunctions:
    def __init__(
        self, question: EffectSums, rows: Rows, device: Device, *, alone: bool = True
    ) -> None:
        @cache
        def column(variable: int) -> FloatVector:
            return rows.column(variable)

        self._question = question
        origins, units = question.origin_array(), question.unit_array()
        expand = Expansion(question.categories, origins, units, column, device)
        predictors, named = question.regression(0).predictors, question.named
        self._design, self.arm = expand.rows(Regression(question.treatment, predictors, named))
        _, self._outcome = expand.rows(Regression(question.outcome, (), named))
        if not question.categories[question.treatment]:
            self.arm = self._constant(0.0)
        complete = rows.complete(named)
        self._adjusted = (placed(column(v)[complete], device) for v in question.adjust)
        self._patients = None if rows.patients is None else rows.patients[complete]
        weights = None if rows.weights is None else placed(rows.weights[complete], device)
        if weights is not None:
            weights = weights * (len(weights) / max(float(weights.sum()), 1.0))
        self._weights = self._constant(1.0) if weights is None else weights
        if question.site_effect and question.linear:
            self._design, self._outcome = centred(self._design, self._outcome, weights)
        self._coefficients = question.by_model()
        self._alone: dict[int, FloatVector] = {}
        self._shared: _EstimatingFunctions | None = None
        if question.site_effect and not isinstance(question.stage, ModelSteps):
            self._coefficients = {m: self._at_site(m, c) for m, c in self._coefficients.items()}
            if alone and not question.linear:
                self._fit_alone()
                if self._alone and isinstance(question.stage, Variance):
                    self._shared = _EstimatingFunctions(question, rows, device, alone=False)

    def _constant(self, value: float) -> Array:
        return full((len(self._outcome),), value, self._outcome)

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

    def _fit_alone(self) -> None:
        """Put coefficients of these rows alone in place of those that all sites share."""
        question = self._question
        for model in question.needed:
            used, response, categories = self._response(model)
            fit = Fit(
                np.zeros(question.size(model)), tolerance=ESTIMATE_TOLERANCE,
                model=question.regression(model), discrete=categories > 0,
            )  # fmt: skip
            if fit_alone(fit, self._design[used], response[used], categories, self._weights[used]):
                self._alone[model] = fit.coefficients
        self._coefficients = self._coefficients | self._alone

    def _response(self, model: int) -> tuple[Array, Array, int]:
        """The rows, response and number of categories of a model."""
        question = self._question
        every = self._constant(1.0) > 0.0
        if model == TREATMENT:
            return every, self.arm, question.arms
        if question.linear:
            return every, self._outcome, 0
        return self.arm == model, self._outcome, question.categories[question.outcome]

    @cached_property
    def _strata(self) -> tuple[Array, Array]:
        """The stratum of every row, and the summed weights by stratum and arm."""
        question, cell = self._question, self._constant(0.0)
        xp = functions_of(cell)
        for v, column in zip(question.adjust, self._adjusted, strict=True):
            cell = cell * question.categories[v] + column
        cells, stratum = xp.unique(cell, return_inverse=True)
        by_arm = indices(stratum * question.arms + self.arm)
        weights = xp.bincount(by_arm, self._weights, len(cells) * question.arms)
        return indices(stratum), floats(weights.reshape(-1, question.arms))

    @cached_property
    def comparable(self) -> Array:
        """Indicators of rows in strata where the site has rows of every arm, shape (n,)."""
        if not self._question.stratified:
            return self._constant(1.0)
        stratum, weights = self._strata
        return floats(functions_of(weights).amin(weights, 1) > 0.0)[stratum]

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
            weighted = [float(self._weights @ summand) for summand in summands]
            rows = float(terms.in_arm.sum())
            sums += [np.array([rows, *weighted]), *self._derivatives(terms)]
        return sums

    def _derivatives(self, terms: ArmTerms) -> list[FloatVector]:
        """Derivatives of an arm's sums by the outcome's and by the treatment's coefficients."""
        by_outcome, *by_treatment = self._slopes(terms)
        if self._question.site_effect:
            if len(by_outcome):
                by_outcome = self._profiled(terms.arm, by_outcome)
            by_treatment = [self._profiled(TREATMENT, each) for each in by_treatment]
        return [by_outcome, *by_treatment]

    def _profiled(self, model: int, slope: FloatVector) -> FloatVector:
        if model in self._alone:
            return np.zeros_like(slope)
        return profiled_slope(slope, self._information(model), self._question.outputs(model))

    def _slopes(self, terms: ArmTerms) -> list[FloatVector]:
        """The derivatives at fixed intercepts of the site."""
        question, slopes = self._question, [np.zeros(0)]
        if 0 in question.needed:
            by_fit = (1.0 - terms.weight) * terms.change
            slopes = [host((self._weights * by_fit) @ self._design)]
        if TREATMENT in question.needed:
            hajek = float(question.estimator == "ipw")
            for factor in (terms.residual * self._weights, self._weights * hajek):
                slopes.append(host((terms.slope * factor[:, None]).T @ self._design).ravel())
        return slopes

    def _information(self, model: int) -> FloatMatrix:
        """Minus the Hessian of a model's log likelihood at the site, intercepts and all."""
        used, _, categories = self._response(model)
        design, weights = self._design[used], self._weights[used]
        if not categories:
            return host(by_pieces(design.T * weights, design.T))
        if model == TREATMENT:
            chance = self._propensities[:, 1:]
        else:
            chance = self._arms[model].fitted[used, None]
        square: FloatMatrix = host(information(design, chance, weights))
        return square.reshape(-1, chance.shape[1] * design.shape[1])

    def variance(self) -> FloatVector:
        """Sums of influence functions, and of their products."""
        influence = self._linear_influence() if self._question.linear else self._influence()
        products = host(influence.T @ influence)
        if self._patients is not None and len(self._patients):
            # rows of a patient resemble one another; factor as `score_tests.patients` has it
            whole = np.zeros((int(self._patients.max()) + 1, influence.shape[1]))
            np.add.at(whole, self._patients, host(influence))
            m = len(np.unique(self._patients))
            if m < len(self._patients):
                products = whole.T @ whole * (m / max(m - 1.0, 1.0))
        upper = products[np.triu_indices(len(products))]
        return np.concatenate([host(influence.sum(axis=0)), upper])

    def _linear_influence(self) -> Array:
        """Influence function of each coefficient, with HC3 residuals, shape (n, estimates)."""
        design, inverse = self._design, self._question.inverse(0)
        level = self._constant(0.0)
        if self._question.site_effect:
            # the position of the intercept is that of all sites' one
            inverse[0, 0], level = 0.0, self._weights / max(float(self._weights.sum()), 1.0)
        leverage = level + ((design @ self._like(inverse)) * design).sum(axis=1)
        leverage = functions_of(leverage).clip(leverage, 0.0, LARGEST_LEVERAGE)
        fitted = design @ self._like(self._coefficients[0])
        residual = (self._outcome - fitted) / (1.0 - leverage)
        return (design @ self._like(self._question.influences().T)) * residual[:, None]

    def _like(self, values: FloatArray | IntegerVector) -> Array:
        return like(values, self._design)

    def _influence(self) -> Array:
        """Influence function of each arm's mean times its denominator, shape (n, arms)."""
        question, columns = self._question, []
        for terms, influence in zip(self._arms, question.influences(), strict=True):
            total = terms.numerator - influence[0] * terms.denominator
            fitted, treated = self._scores(terms, influence[0], influence[1:])
            if question.estimator != "ipw":
                residual = terms.in_arm * terms.residual
                pull = self._design @ self._like(fitted) if len(fitted) else self._constant(0.0)
                leverage = self._leverage(terms)
                raised = leverage / (1.0 - leverage) * (pull + terms.weight)
                total = total + residual * (pull + raised)
            if len(treated):
                total = total + self._treatment_scores(treated)
            if self._shared is not None:
                total = total + self._shared.scores_of(self._alone, terms.arm, influence[1:])
            columns.append(total * self._weights)
        return functions_of(self._design).column_stack(columns)

    def _leverage(self, terms: ArmTerms) -> Array:
        """The leverage of each row's outcome among the rows of an arm, shape (n,).

        Source: MacKinnon and White, Journal of Econometrics 29 (1985) 305-325 (HC3).
        """
        question, strength = self._question, self._weights * terms.in_arm * terms.change
        xp = functions_of(strength)
        if question.stratified:
            stratum, by_arm = self._strata
            total = at_least(by_arm[stratum, terms.arm], LEAST_WEIGHT)
            return xp.clip(self._weights * terms.in_arm / total, 0.0, LARGEST_LEVERAGE)
        design, inverse, level = self._design, question.inverse(terms.arm), 0.0
        total = float(strength.sum())
        if terms.arm in self._alone:
            inner = np.linalg.pinv(self._information(terms.arm), hermitian=True)
            inverse = np.asarray(inner, dtype=np.float64)
        elif question.site_effect and total > 0.0:
            design, level = design - strength @ design / total, 1.0 / total
        share = strength * (level + ((design @ self._like(inverse)) * design).sum(axis=1))
        return xp.clip(share, 0.0, LARGEST_LEVERAGE)

    def _scores(
        self, terms: ArmTerms, mean: float, weights: FloatVector
    ) -> tuple[FloatVector, FloatVector]:
        """Weights of the scores of the outcome's and the treatment's model, with intercepts."""
        question = self._question
        fitted, treated = np.split(weights, [question.derivatives[0]])
        if question.site_effect and not question.stratified:
            slope, *by_treatment = self._slopes(terms)
            if len(fitted):
                fitted = self._full(terms.arm, fitted, slope)
            if by_treatment:
                slope = by_treatment[0] - mean * by_treatment[1]
                treated = self._full(TREATMENT, treated, slope)
        return fitted, treated

    def _full(self, model: int, weights: FloatVector, slope: FloatVector) -> FloatVector:
        """`full_scores` of a model, whose coefficients are all the site's if it is fitted alone."""
        count = len(slope) if model in self._alone else self._question.outputs(model)
        return full_scores(weights, slope, self._information(model), count)

    def _treatment_scores(self, weights: FloatVector) -> Array:
        """The weighted scores of the treatment's model, shape (n,)."""
        by_output = self._design @ self._like(weights.reshape(self._question.arms - 1, -1).T)
        treated = floats(self.arm[:, None] == self._like(np.arange(1, self._question.arms)))
        return ((treated - self._propensities[:, 1:]) * by_output).sum(axis=1)

    def scores_of(self, models: Collection[int], arm: int, weights: FloatVector) -> Array:
        """What the site's rows add to what other sites take from these models, shape (n,)."""
        fitted, treated = np.split(weights, [self._question.derivatives[0]])
        total = self._constant(0.0)
        if arm in models and fitted.any():
            terms, every = self._arms[arm], self._full(arm, fitted, np.zeros_like(fitted))
            total = total + terms.in_arm * terms.residual * (self._design @ self._like(every))
        if TREATMENT in models and treated.any():
            every = self._full(TREATMENT, treated, np.zeros_like(treated))
            total = total + self._treatment_scores(every)
        return total

    @cached_property
    def _arms(self) -> list[ArmTerms]:
        return [self._terms(arm) for arm in range(self._question.arms)]

    def _terms(self, arm: int) -> ArmTerms:
        question, xp = self._question, functions_of(self.arm)
        in_arm = floats(self.arm == arm)
        weight, fitted, change = (self._constant(value) for value in (0.0, 0.0, 1.0))
        slope = full((len(in_arm), question.arms - 1), 0.0, in_arm)
        if TREATMENT in question.needed:
            chance, least = self._propensities, question.truncate
            truncated = xp.clip(chance[:, arm], least, 1.0 - least)
            weight = in_arm / truncated
            by_logit = self._like((np.arange(1, question.arms) == arm) * 1.0) - chance[:, 1:]
            slope = -(weight * (truncated == chance[:, arm]))[:, None] * by_logit
        if question.stratified:
            stratum, by_arm = self._strata
            total = xp.bincount(stratum, self._weights * in_arm * self._outcome, len(by_arm))
            share = xp.where(self.comparable > 0.0, by_arm[stratum, arm], np.inf)
            fitted, weight = total[stratum] / share, in_arm * by_arm.sum(axis=1)[stratum] / share
        elif arm in question.needed:
            fitted = self._design @ self._like(self._coefficients[arm])
            if question.categories[question.outcome]:
                fitted = 0.5 + 0.5 * xp.tanh(bounded_logits(fitted) / 2.0)
                change = fitted * (1.0 - fitted)
        denominator = weight if question.estimator == "ipw" else self.comparable
        residual = self._outcome - fitted
        return ArmTerms(arm, in_arm, weight, slope, fitted, change, residual, denominator)

    @cached_property
    def _propensities(self) -> Array:
        """Multinomial probabilities of the arms, shape (n, arms)."""
        coefficients = self._coefficients[TREATMENT].reshape(self._question.arms - 1, -1)
        logits = bounded_logits(self._design @ self._like(coefficients.T))
        xp = functions_of(logits)
        every = xp.column_stack([self._constant(0.0), logits])
        weights = xp.exp(every - maxima(every, 1)[:, None])
        return weights / weights.sum(axis=1)[:, None]

    def overlap(self, min_cell_size: int) -> tuple[FloatVector, FloatVector]:
        """Counts of propensities, of which small ones are suppressed, (bins,), and scores.

        The number of an arm's rows is disclosed too, so the total of suppressed counts follows.
        """
        counts = np.zeros(self._question.bins)
        if self._patients is not None:  # counts and scores of rows, and no patient's rows are few
            return counts.ravel(), np.zeros(2 * math.prod(self._question.compared))
        if counts.size:
            for category, arm in np.ndindex(counts.shape[:2]):
                chance = self._propensities[self.arm == arm, category + 1]
                xp, edges = functions_of(chance), self._like(np.array(PROPENSITY_EDGES))
                bins = xp.searchsorted(edges, chance, side="right") - 1
                counted = host(xp.bincount(bins, minlength=len(PROPENSITY_EDGES)))
                counts[category, arm] = suppress_small_counts(counted, min_cell_size)
        scores = np.zeros(0)
        if math.prod(self._question.compared):
            square, chance = self._information(TREATMENT), self._propensities
            of = self._design, self.arm, chance[:, 1:], self._weights
            scores = scores_below(self._question, *of, square, min_cell_size)
        return counts.ravel(), scores
