"""A site's half of an effect's estimate: its rows' estimating functions, which leave in sums only.

Sources: Stefanski and Boos, The American Statistician 56 (2002) 29-38 (stacked estimating
functions); Robins, Rotnitzky and Zhao, JASA 89 (1994) 846-866 (augmented weighting); Hajek's ratio
for weighted means (Lunceford and Davidian, Statistics in Medicine 23 (2004) 2937-2960).

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.questions.estimation.effect_sums import OVERLAP, TREATMENT, EffectSums
from cipherdag.sites.compute.pooled.blur import Blur
from cipherdag.sites.compute.pooled.described import merged
from cipherdag.sites.compute.pooled.expansion import Expansion
from cipherdag.sites.compute.pooled.multinomial import bounded_logits, by_pieces, information
from cipherdag.sites.compute.pooled.own_effects import own_effect
from cipherdag.sites.compute.pooled.refutation.drawn_rows import Rows, drawn_answer, nothing
from cipherdag.sites.compute.pooled.refutation.left_out import left_out_answer
from cipherdag.sites.compute.pooled.site_effects import (
    centred,
    constants_put,
    constants_taken,
    profile_step,
    with_own_constants,
)
from cipherdag.sites.compute.pooled.site_regressions import model_step
from cipherdag.statistics.regression_models import Regression

LEAST_WEIGHT = 0.5
"""Below that of one row."""
LARGEST_SHARE = 0.9
"""Of its own fitted outcome that a row is taken to draw; what is left over is 0 at 1."""


@dataclass(frozen=True, slots=True)
class _Arm:
    """What the rows add to the mean of an arm.

    Attributes:
        arm: Which.
        used: Which rows are of the arm, 0 or 1, shape (n,).
        weight: 1 over the propensity in these, else 0, shape (n,).
        slope: What a row's weight changes by with the logits of the treatment, shape (n, arms - 1).
        fitted: Outcome of the arm's model, shape (n,).
        change: What that changes by with its linear combination, shape (n,).
    """

    arm: int
    used: FloatVector
    weight: FloatVector
    slope: FloatMatrix
    fitted: FloatVector
    change: FloatVector


def effect_answer(
    question: EffectSums,
    codes: NDArray[np.integer] | None,
    values: NDArray[np.float64] | None,
    *,
    least: int,
    blur: Blur,
) -> FloatVector:
    """The answer to `EffectSums`.

    Args:
        question: Stage and coefficients.
        codes: Codes, shape (n, p), negative where missing; None if no variable is discrete. In the
            stage ``missing`` those of all rows of the site.
        values: Numbers, shape (n, p), NaN where missing; None if no variable is continuous.
        least: Smallest count that may leave; where that is more than 1, rows that miss any value
            are left out, so that two questions are of the same ones.
        blur: That of the site's rows, by which it changes them, and where small counts may not
            leave moves the effect that they tell alone.
    """
    if question.stage == "missing":
        return left_out_answer(question, codes, values, least=least, blur=blur)
    rows = Rows(codes, values)
    if values is not None and least > 1:
        numbers = [v for v in range(values.shape[1]) if not question.categories[v]]
        rows = rows.take(np.flatnonzero(~np.isnan(values[:, numbers]).any(axis=1)))
    if least > 1 and rows.fewest(question) < least:
        return nothing(question)
    if least > 1 and question.site_effect:
        # exact sums within three sites have one solution in whole numbers: their counts
        rows = replace(rows, weights=blur.weights(rows.count))

    def answer(own: EffectSums, changed: Rows = rows) -> FloatVector:
        return _Answer(own, changed, least).answer()

    if question.stage == "apart":
        return own_effect(question, answer, blur if least > 1 else None)
    if question.drawn:
        return drawn_answer(question, rows, blur, answer=answer, least=least)
    return answer(question)


class _Answer:
    def __init__(self, question: EffectSums, rows: Rows, least: int) -> None:
        def column(variable: int) -> FloatVector:
            return rows.column(question, variable)

        self._question, self._least = question, least
        origins, units = question.origin_array(), question.unit_array()
        expand = Expansion(question.categories, origins, units, column)
        predictors, named = question.regression(0).predictors, question.named
        self._design, self._arm = expand.rows(Regression(question.treatment, predictors, named))
        _, self._outcome = expand.rows(Regression(question.outcome, (), named))
        if not question.categories[question.treatment]:
            self._arm = np.zeros(len(self._outcome))
        self._column = column
        self._complete = ~np.logical_or.reduce([np.isnan(column(v)) for v in named])
        weights = None if rows.weights is None else rows.weights[self._complete]
        if weights is not None:
            weights = weights * (len(weights) / max(float(weights.sum()), 1.0))
        self._weights = np.ones(len(self._outcome)) if weights is None else weights
        if question.site_effect and question.linear:
            self._design, self._outcome = centred(self._design, self._outcome, weights)
        self._coefficients = question.by_model()
        if question.site_effect and question.stage in ("means", "spread"):
            self._coefficients = {m: self._at_site(m, c) for m, c in self._coefficients.items()}

    def _at_site(self, model: int, coefficients: FloatVector) -> FloatVector:
        """Coefficients of a model with the site's own constants."""
        question = self._question
        used, response, categories = self._response(model)
        if question.linear or not used.any():
            return coefficients
        shaped = coefficients.reshape(question.outputs(model), -1)
        found = with_own_constants(
            self._design[used], response[used], shaped, categories, self._weights[used]
        )
        return found.ravel()

    def _response(self, model: int) -> tuple[BoolVector, FloatVector, int]:
        """Rows, response, and categories of it, of a model."""
        question = self._question
        every = np.ones(len(self._arm), dtype=bool)
        if model == TREATMENT:
            return every, self._arm, question.arms
        if question.linear:
            return every, self._outcome, 0
        return self._arm == model, self._outcome, question.categories[question.outcome]

    def answer(self) -> FloatVector:
        question = self._question
        rows = [float((self._arm == a).any()) for a in range(question.arms)]
        if question.site_effect and not (min(rows) and self._compared.any()):
            return nothing(question)
        stages = {"models": self._steps, "means": self._means, "spread": self._spread}
        sums = stages[question.stage]() if question.stage in stages else np.zeros(0)
        return np.concatenate([sums, [1.0], rows])

    @cached_property
    def _cells(self) -> tuple[IndexArray, FloatMatrix]:
        """Of every row its stratum; and the weights of rows by stratum and arm."""
        question, place = self._question, np.zeros(len(self._arm))
        for v in question.adjust:
            place = place * question.categories[v] + self._column(v)[self._complete]
        strata, own = np.unique(place, return_inverse=True)
        by_arm = (own * question.arms + self._arm).astype(np.int64)
        found = np.bincount(by_arm, self._weights, len(strata) * question.arms)
        return own.astype(np.int64), found.reshape(-1, question.arms).astype(np.float64)

    @cached_property
    def _compared(self) -> FloatVector:
        """Which rows count: of strata those where every arm has rows at the site, shape (n,)."""
        if not self._question.stratified:
            return np.ones(len(self._arm))
        own, weights = self._cells
        return np.asarray(weights.min(axis=1) > 0.0, dtype=np.float64)[own]

    def _steps(self) -> FloatVector:
        """Value, gradient and Hessian of every model that is stepped."""
        found = [np.zeros(0)]
        for model, own in self._coefficients.items():
            used, response, categories = self._response(model)
            rows, seen, weights = self._design[used], response[used], self._weights[used]
            if self._question.site_effect and categories:
                found.append(profile_step(rows, seen, own, categories, weights))
                continue
            if self._question.site_effect and not self._question.linear:
                rows, seen = centred(rows, seen, weights)
            found.append(model_step(rows, seen, own, categories, ordered=False))
        return np.concatenate(found)

    def _means(self) -> FloatVector:
        found = []
        for a in range(self._question.arms):
            own = self._arms[a]
            numerator, denominator = self._ratio(own)
            sums = [numerator, denominator, own.weight, own.weight**2]
            counted = [self._weights @ part for part in sums]
            found += [[own.used.sum(), *counted], *self._derivatives(own)]
        return np.concatenate([*found, self._overlap()])

    def _derivatives(self, own: _Arm) -> list[FloatVector]:
        """Of numerators by the outcome's coefficients, of both by those of the treatment."""
        by_outcome, *by_treatment = self._slopes(own)
        if not self._question.site_effect:
            return [by_outcome, *by_treatment]
        if len(by_outcome):
            by_outcome = constants_taken(by_outcome, self._square(own.arm), 1)
        outputs = self._question.arms - 1
        return [
            by_outcome,
            *(constants_taken(x, self._square(TREATMENT), outputs) for x in by_treatment),
        ]

    def _slopes(self, own: _Arm) -> list[FloatVector]:
        """The same as if the site's constants did not follow the other coefficients."""
        question, residual = self._question, self._outcome - own.fitted
        by_fit = (1.0 - own.weight) * own.change if question.estimator == "aipw" else own.change
        fitted = 0 in question.needed
        found = [(self._weights * by_fit) @ self._design if fitted else np.zeros(0)]
        if TREATMENT in question.needed:
            weighted = question.estimator == "ipw"
            rest = self._outcome if weighted else residual
            factors = (rest * self._weights, self._weights * float(weighted))
            found += [((own.slope * x[:, None]).T @ self._design).ravel() for x in factors]
        return found

    def _square(self, model: int) -> FloatMatrix:
        """Minus the Hessian of a model's likelihood at the site, constants and all."""
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

    def _spread(self) -> FloatVector:
        moved = self._linear_moves() if self._question.linear else self._moves()
        products = moved.T @ moved
        return np.concatenate([moved.sum(axis=0), products[np.triu_indices(len(products))]])

    def _linear_moves(self) -> FloatMatrix:
        """What every row moves each coefficient by, shape (n, estimates)."""
        design, inverse = self._design, self._question.inverse(0)
        level = np.zeros(len(design))
        if self._question.site_effect:
            # the constant's place is that of all sites' one
            inverse[0, 0], level = 0.0, self._weights / max(float(self._weights.sum()), 1.0)
        share = np.clip(level + ((design @ inverse) * design).sum(axis=1), 0.0, LARGEST_SHARE)
        residual = (self._outcome - design @ self._coefficients[0]) / (1.0 - share)
        return (self._design @ self._question.influences().T) * residual[:, None]

    def _moves(self) -> FloatMatrix:
        """What every row moves the mean of each arm by, times its denominator, shape (n, arms)."""
        question, found = self._question, []
        for a, influence in enumerate(question.influences()):
            own = self._arms[a]
            numerator, denominator = self._ratio(own)
            moved = numerator - influence[0] * denominator
            fitted, treated = self._scores(own, influence[0], influence[1:])
            if question.estimator != "ipw":
                residual = own.used * (self._outcome - own.fitted)
                pull = self._design @ fitted if len(fitted) else np.zeros(len(residual))
                share = self._leverage(own)
                moved = moved + residual * (pull + share / (1.0 - share) * (pull + own.weight))
            if len(treated):
                moved = moved + self._treatment_scores(treated)
            found.append(moved * self._weights)
        return np.column_stack(found)

    def _leverage(self, own: _Arm) -> FloatVector:
        """How far each row's outcome draws its own fitted one, in the rows of an arm, shape (n,).

        Source: MacKinnon and White, Journal of Econometrics 29 (1985) 305-325 (HC3).
        """
        question, strength = self._question, self._weights * own.used * own.change
        if question.stratified:
            of, by_arm = self._cells
            share = self._weights * own.used / np.maximum(by_arm[of, own.arm], LEAST_WEIGHT)
            return np.asarray(np.clip(share, 0.0, LARGEST_SHARE))
        design, inverse = self._design, question.inverse(own.arm)
        total = float(strength.sum())
        level = 0.0
        if question.site_effect and total > 0.0:
            design, level = design - strength @ design / total, 1.0 / total
        share = strength * (level + ((design @ inverse) * design).sum(axis=1))
        return np.asarray(np.clip(share, 0.0, LARGEST_SHARE))

    def _scores(
        self, own: _Arm, mean: float, weights: FloatVector
    ) -> tuple[FloatVector, FloatVector]:
        """Weights of the scores of the arm's outcome and of the treatment, with constants'."""
        question = self._question
        fitted, treated = np.split(weights, [question.size(0) if 0 in question.needed else 0])
        if question.site_effect and not question.stratified:
            slope, *by_treatment = self._slopes(own)
            if len(fitted):
                fitted = constants_put(fitted, slope, self._square(own.arm), 1)
            if by_treatment:
                slope = by_treatment[0] - mean * by_treatment[1]
                square = self._square(TREATMENT)
                treated = constants_put(treated, slope, square, question.arms - 1)
        return fitted, treated

    def _treatment_scores(self, weights: FloatVector) -> FloatVector:
        """The weighted scores of the treatment's model, shape (n,)."""
        by_output = self._design @ weights.reshape(self._question.arms - 1, -1).T
        levels = np.arange(1, self._question.arms)
        seen = (self._arm[:, None] == levels).astype(np.float64)
        return ((seen - self._propensities[:, 1:]) * by_output).sum(axis=1)

    @cached_property
    def _arms(self) -> list[_Arm]:
        return [self._of_arm(arm) for arm in range(self._question.arms)]

    def _of_arm(self, arm: int) -> _Arm:
        question, rows = self._question, len(self._arm)
        used = (self._arm == arm).astype(np.float64)
        weight, slope = np.zeros(rows), np.zeros((rows, question.arms - 1))
        if TREATMENT in question.needed:
            chance = self._propensities
            least = question.truncate
            kept = np.clip(chance[:, arm], least, 1.0 - least)
            weight = used / kept
            own = (np.arange(1, question.arms) == arm) - chance[:, 1:]
            slope = -(weight * (kept == chance[:, arm]))[:, None] * own
        fitted, change = np.zeros(rows), np.ones(rows)
        if question.stratified:
            of, by_arm = self._cells
            total = np.bincount(of, self._weights * used * self._outcome, len(by_arm))
            share = np.where(self._compared > 0.0, by_arm[of, arm], np.inf)
            fitted, weight = total[of] / share, used * by_arm.sum(axis=1)[of] / share
        elif arm in question.needed:
            fitted = self._design @ self._coefficients[arm]
            if question.categories[question.outcome]:
                fitted = 0.5 + 0.5 * np.tanh(bounded_logits(fitted) / 2.0)
                change = fitted * (1.0 - fitted)
        return _Arm(arm, used, weight, slope, fitted, change)

    def _ratio(self, own: _Arm) -> tuple[FloatVector, FloatVector]:
        """Numerator and denominator of every row, shape (n,)."""
        if self._question.estimator == "ipw":
            return own.weight * self._outcome, own.weight
        return own.fitted + own.weight * (self._outcome - own.fitted), self._compared

    @cached_property
    def _propensities(self) -> FloatMatrix:
        """Of every arm, shape (n, arms)."""
        own = self._coefficients[TREATMENT].reshape(self._question.arms - 1, -1)
        logits = bounded_logits(self._design @ own.T)
        whole = np.column_stack([np.zeros(len(logits)), logits])
        weights = np.exp(whole - whole.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def _overlap(self) -> FloatVector:
        """Counts of propensities, shape (bins,); those of an arm that are not told are no few rows.

        How many rows an arm has is told beside them, so that what is hidden follows together.
        """
        counts = np.zeros(self._question.bins)
        if counts.size:
            chance = self._propensities
            for category, arm in np.ndindex(counts.shape[:2]):
                own = chance[self._arm == arm, category + 1]
                bins = np.searchsorted(OVERLAP, own, side="right") - 1
                found = np.bincount(bins, minlength=len(OVERLAP))
                counts[category, arm] = merged(found, self._least)
        return counts.ravel()
