"""From sums of estimating functions to means of arms and effects, with standard errors.

At the root of the estimating functions a row moves an estimate by its own function, plus what its
scores move the fitted models by times what the models move the estimate by; the sum of squares of
that, over the squared denominator, is the variance (the sandwich of the stacked functions).

Sources: Stefanski and Boos, The American Statistician 56 (2002) 29-38; Tsiatis, Semiparametric
Theory and Missing Data (2006), chapters 7 and 13; MacKinnon and White, Journal of
Econometrics 29 (1985) 305-325 (residuals over one less their leverage: HC3).

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.questions.encodings import require_possible, segments
from cipherdag.questions.estimation.effect_sums import PER_ARM, TREATMENT, EffectSums
from cipherdag.statistics.regression_fits import Fit


@dataclass(frozen=True, slots=True)
class Estimates:
    """Means of the arms or coefficients, on the scales of the question.

    Attributes:
        values: Shape (k,).
        divisors: What sums of squares are divided by, once for each of two, shape (k,).
        influence: As `Variance` takes it, shape (k, numbers).
    """

    values: FloatVector
    divisors: FloatVector
    influence: FloatMatrix

    def covariance(self, sums: FloatVector) -> FloatMatrix:
        """Covariances, shape (k, k), from the sums of the stage `Variance`."""
        k = len(self.values)
        products = np.zeros((k, k))
        products[np.triu_indices(k)] = sums[k : k + k * (k + 1) // 2]
        products = products + np.triu(products, k=1).T
        return products / (self.divisors[:, None] * self.divisors)


@dataclass(frozen=True, slots=True)
class Arms:
    """Sums and estimates of the stage `ArmMeans`, by arm.

    Attributes:
        rows: Rows, shape (arms,).
        effective: Of how many equal weights the weights are worth, shape (arms,); 0 without any.
        estimates: Means, and what every row moves them by.
        overlap: Counts of propensities, shape `EffectSums.bins`.
    """

    rows: FloatVector
    effective: FloatVector
    estimates: Estimates
    overlap: FloatVector


def arm_means(question: EffectSums, sums: FloatVector, fits: Mapping[int, Fit]) -> Arms:
    """Means of the arms from the sums of the stage `ArmMeans`.

    Args:
        question: The question.
        sums: Its sums.
        fits: The models at their maxima.

    Raises:
        AggregateRangeError: Sums that no rows have.
    """
    means, overlap, _ = segments(question.encodings, sums)
    values, divisors, influence, sizes = [], [], [], []
    for a, own in enumerate(means.reshape(question.arms, -1)):
        rows, numerator, denominator, weight, squares = own[:PER_ARM].tolist()
        require_possible(question.label, "nothing to divide by", holds=denominator > 0.0)
        mean = numerator / denominator
        sizes.append((rows, weight * weight / squares if squares > 0.0 else 0.0))
        values.append(mean)
        divisors.append(denominator)
        influence.append([mean, *_influence(question, own[PER_ARM:], fits, a, mean)])
    rows, effective = np.array(sizes).T
    known = Estimates(np.array(values), np.array(divisors), np.array(influence))
    return Arms(rows, effective, known, overlap.reshape(question.bins))


def _influence(
    question: EffectSums, derivatives: FloatVector, fits: Mapping[int, Fit], arm: int, mean: float
) -> Iterator[float]:
    """Weights of the scores of the arm's outcome, and of the treatment."""
    outcome, treatment = question.derivatives
    by_outcome, numerator, denominator = np.split(derivatives, [outcome, outcome + treatment])
    for model, slope in ((arm, by_outcome), (TREATMENT, numerator - mean * denominator)):
        if len(slope):
            yield from fits[model].influence(slope).tolist()


def coefficient_estimates(question: EffectSums, fit: Fit) -> Estimates:
    """The coefficients of the treatment in a linear model, its last."""
    k = question.estimates
    units = np.eye(len(fit.coefficients))[-k:]
    influence = np.array([fit.influence(own) for own in units])
    return Estimates(fit.coefficients[-k:], np.ones(k), influence)
