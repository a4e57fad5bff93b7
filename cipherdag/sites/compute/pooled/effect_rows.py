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
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.estimation.effect_sums import OVERLAP, TREATMENT
from cipherdag.questions.regression_steps import Regression
from cipherdag.sites.compute.pooled.described import merged
from cipherdag.sites.compute.pooled.expansion import Expansion
from cipherdag.sites.compute.pooled.multinomial import bounded_logits
from cipherdag.sites.compute.pooled.own_effects import own_effect
from cipherdag.sites.compute.pooled.refutation.drawn_rows import Rows, drawn_answer, nothing
from cipherdag.sites.compute.pooled.site_effects import centred
from cipherdag.sites.compute.pooled.site_regressions import model_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.questions.estimation.effect_sums import EffectSums
    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector
    from cipherdag.sites.compute.pooled.blur import Blur

    FloatMatrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Arm:
    """What the rows add to the mean of an arm.

    Attributes:
        used: Which rows are of the arm, 0 or 1, shape (n,).
        weight: 1 over the propensity in these, else 0, shape (n,).
        slope: What a row's weight changes by with the logits of the treatment, shape (n, arms - 1).
        fitted: Outcome of the arm's model, shape (n,).
        change: What that changes by with its linear combination, shape (n,).
    """

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
        codes: Codes, shape (n, p), negative where missing; None if no variable is discrete.
        values: Numbers, shape (n, p), NaN where missing; None if no variable is continuous.
        least: Smallest count that may leave; where that is more than 1, rows that miss any value
            are left out, so that two questions are of the same ones.
        blur: That of the site's rows, by which it changes them, and where small counts may not
            leave moves the effect that they tell alone.
    """
    rows = Rows(codes, values)
    if values is not None and least > 1:
        numbers = [v for v in range(values.shape[1]) if not question.categories[v]]
        rows = rows.take(np.flatnonzero(~np.isnan(values[:, numbers]).any(axis=1)))
    if least > 1 and rows.fewest(question) < least:
        return nothing(question)
    if least > 1 and question.site_effect:
        # exact sums about means of three sites have one solution in whole numbers: their counts
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
        self._coefficients = question.by_model()
        self._column = column
        missing = [np.isnan(column(v)) for v in named]
        self._complete = ~np.logical_or.reduce(missing)
        if question.site_effect:
            weights = rows.weights
            if weights is not None:
                weights = weights[self._complete]
                weights = weights * (len(weights) / max(float(weights.sum()), 1.0))
            self._design, self._outcome = centred(self._design, self._outcome, weights)

    def answer(self) -> FloatVector:
        stages = {
            "models": self._steps, "means": self._means, "spread": self._spread,
            "strata": self._strata,
        }  # fmt: skip
        stage = self._question.stage
        sums = stages[stage]() if stage in stages else np.zeros(0)
        rows = [float((self._arm == a).any()) for a in range(self._question.arms)]
        within = self._cells() > 0.0 if self._question.stratified else np.zeros(0)
        return np.concatenate([sums, [1.0], rows, within])

    def _strata(self) -> FloatVector:
        """Sums and squares of the outcome, then rows, by stratum and arm."""
        own = self._outcome
        return np.concatenate([self._cells(own), self._cells(own * own), self._cells()])

    def _cells(self, weights: FloatVector | None = None) -> FloatVector:
        """Sums of weights, or counts, by stratum and arm, shape (cells,)."""
        codes = [self._column(v)[self._complete] for v in self._question.adjust]
        place = np.zeros(len(self._arm))
        sides = [self._question.categories[v] for v in self._question.adjust]
        for own, side in zip((*codes, self._arm), (*sides, self._question.arms), strict=True):
            place = place * side + own
        found = np.bincount(place.astype(np.int64), weights, self._question.cells)
        return found.astype(np.float64)

    def _steps(self) -> FloatVector:
        """Value, gradient and Hessian of every model that is stepped."""
        question, found = self._question, [np.zeros(0)]
        categories = 0 if question.linear else question.categories[question.outcome]
        for model, own in self._coefficients.items():
            if model == TREATMENT:
                step = model_step(self._design, self._arm, own, question.arms, ordered=False)
            else:
                used = (
                    np.ones(len(self._arm), dtype=bool) if question.linear else self._arm == model
                )
                step = model_step(
                    self._design[used], self._outcome[used], own, categories, ordered=False
                )
            found.append(step)
        return np.concatenate(found)

    def _means(self) -> FloatVector:
        found = []
        for a in range(self._question.arms):
            own = self._of_arm(a)
            numerator, denominator = self._ratio(own)
            sums = [own.used, numerator, denominator, own.weight, own.weight**2]
            found += [[part.sum() for part in sums], *self._derivatives(own)]
        return np.concatenate([*found, self._overlap()])

    def _derivatives(self, own: _Arm) -> list[FloatVector]:
        """Of numerators by the outcome's coefficients, of both by those of the treatment."""
        question, residual = self._question, self._outcome - own.fitted
        by_fit = (1.0 - own.weight) * own.change if question.estimator == "aipw" else own.change
        found = [by_fit @ self._design] if 0 in question.needed else []
        if TREATMENT in question.needed:
            weighted = question.estimator == "ipw"
            rest = self._outcome if weighted else residual
            factors = (rest, np.full(len(rest), float(weighted)))
            found += [((own.slope * x[:, None]).T @ self._design).ravel() for x in factors]
        return found

    def _spread(self) -> FloatVector:
        moved = self._linear_moves() if self._question.linear else self._moves()
        products = moved.T @ moved
        return np.concatenate([moved.sum(axis=0), products[np.triu_indices(len(products))]])

    def _linear_moves(self) -> FloatMatrix:
        """What every row moves each coefficient by, shape (n, estimates)."""
        residual = self._outcome - self._design @ self._coefficients[0]
        found: FloatMatrix = (self._design @ self._question.influences().T) * residual[:, None]
        return found

    def _moves(self) -> FloatMatrix:
        """What every row moves the mean of each arm by, times its denominator, shape (n, arms)."""
        question, found = self._question, []
        for a, influence in enumerate(question.influences()):
            own = self._of_arm(a)
            numerator, denominator = self._ratio(own)
            moved, rest = numerator - influence[0] * denominator, influence[1:]
            if 0 in question.needed:
                scores, rest = np.split(rest, [question.size(0)])
                moved = moved + own.used * (self._outcome - own.fitted) * (self._design @ scores)
            if TREATMENT in question.needed:
                moved = moved + self._treatment_scores(rest)
            found.append(moved)
        return np.column_stack(found)

    def _treatment_scores(self, weights: FloatVector) -> FloatVector:
        """The weighted scores of the treatment's model, shape (n,)."""
        by_output = self._design @ weights.reshape(self._question.arms - 1, -1).T
        levels = np.arange(1, self._question.arms)
        seen = (self._arm[:, None] == levels).astype(np.float64)
        found: FloatVector = ((seen - self._propensities[:, 1:]) * by_output).sum(axis=1)
        return found

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
        fitted, change = np.zeros(rows), np.zeros(rows)
        if arm in question.needed:
            fitted = self._design @ self._coefficients[arm]
            change = np.ones(rows)
            if question.categories[question.outcome]:
                fitted = 0.5 + 0.5 * np.tanh(bounded_logits(fitted) / 2.0)
                change = fitted * (1.0 - fitted)
        return _Arm(used, weight, slope, fitted, change)

    def _ratio(self, own: _Arm) -> tuple[FloatVector, FloatVector]:
        """Numerator and denominator of every row, shape (n,)."""
        if self._question.estimator == "ipw":
            return own.weight * self._outcome, own.weight
        return own.fitted + own.weight * (self._outcome - own.fitted), np.ones(len(own.used))

    @cached_property
    def _propensities(self) -> FloatMatrix:
        """Of every arm, shape (n, arms)."""
        own = self._coefficients[TREATMENT].reshape(self._question.arms - 1, -1)
        logits = bounded_logits(self._design @ own.T)
        whole = np.column_stack([np.zeros(len(logits)), logits])
        weights = np.exp(whole - whole.max(axis=1, keepdims=True))
        found: FloatMatrix = weights / weights.sum(axis=1, keepdims=True)
        return found

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
