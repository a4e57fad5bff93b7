"""Estimates from sums of estimating functions, their sandwich variance, contrasts and intervals.

A row's influence on an estimate, at the solution, is its estimating function plus its weighted
scores; the weights say how a score moves the estimate through the fitted models. The variance is
the sum of squared influences over the squared denominator. Ratios and odds ratios follow by the
delta method on logarithms.

Sources: Stefanski and Boos, The American Statistician 56 (2002) 29-38; Tsiatis, Semiparametric
Theory and Missing Data (2006), chapters 7 and 13; MacKinnon and White, Journal of
Econometrics 29 (1985) 305-325 (residuals over one less their leverage: HC3); Agresti, Categorical
Data Analysis, 3.1.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.findings.effect import Contrast, Departure, Scale
from cipherdag.questions.encodings import require_possible, segments
from cipherdag.questions.estimation.effect_sums import MARKS, PER_ARM, TREATMENT, EffectSums
from cipherdag.statistics.regression_fits import Fit
from cipherdag.statistics.reproducible import dot, exponential_of, logarithm_of

QUANTILE = 1.959963984540054  # the 97.5 % quantile of the normal distribution
LEAST_VARIANCE = 3.0
"""Of a score, in rows: with less it is not close to normal."""
FEWEST_SPARE = 4.0
"""Least degrees of freedom at which the expansion of Student's quantile is right to 0.3 %."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """Means of the arms or coefficients, on the scales of the question."""

    values: FloatVector  # shape (k,)
    divisors: FloatVector  # denominators, (k,); a covariance is divided by those of both estimates
    influence: FloatMatrix  # as `Variance` takes it: an arm's mean, then weights of scores

    def covariance(self, sums: FloatVector) -> FloatMatrix:
        """Covariances, (k, k), from the sums of `Variance`: k, then an upper triangle by rows."""
        k = len(self.values)
        products = np.zeros((k, k))
        products[np.triu_indices(k)] = sums[k : k + k * (k + 1) // 2]
        products = products + np.triu(products, k=1).T
        return products / (self.divisors[:, None] * self.divisors)


@dataclass(frozen=True, slots=True)
class Arms:
    """Sums and estimates of the stage `ArmMeans`, by arm."""

    rows: FloatVector  # rows, shape (arms,)
    effective: FloatVector  # effective sample sizes of weights, shape (arms,); 0 without weights
    estimates: Estimates  # means, with the weights of the rows' influences on them
    overlap: FloatVector  # counts of propensities, shape `EffectSums.bins`
    scores: FloatVector  # of the treatment's model, and variances: (2, *`EffectSums.compared`)


def arm_means(question: EffectSums, sums: FloatVector, fits: Mapping[int, Fit]) -> Arms:
    """Means of the arms from the sums of the stage `ArmMeans`.

    ``fits`` are the models at their maxima, by number: an arm's outcome, or `TREATMENT`.
    AggregateRangeError for sums that no rows have.
    """
    means, overlap, scores, _ = segments(question.encodings, sums)
    values, divisors, influence, sizes = [], [], [], []
    for a, sums_of_arm in enumerate(means.reshape(question.arms, -1)):
        of_rows, derivatives = np.split(sums_of_arm, [PER_ARM])
        rows, numerator, denominator, weight, squares = of_rows.tolist()
        require_possible(question.label, "nothing to divide by", holds=denominator > 0.0)
        mean = numerator / denominator
        sizes.append((rows, weight * weight / squares if squares > 0.0 else 0.0))
        values.append(mean)
        divisors.append(denominator)
        influence.append([mean, *_influence(question, derivatives, fits, a, mean)])
    rows, effective = np.array(sizes).T
    estimates = Estimates(np.array(values), np.array(divisors), np.array(influence))
    scores = scores.reshape(2, *question.compared)
    return Arms(rows, effective, estimates, overlap.reshape(question.bins), scores)


def _influence(
    question: EffectSums, derivatives: FloatVector, fits: Mapping[int, Fit], arm: int, mean: float
) -> Iterator[float]:
    """Weights of the scores of the outcome's model in the arm, and of the treatment's model."""
    outcome, treatment = question.derivatives
    by_outcome, numerator, denominator = np.split(derivatives, [outcome, outcome + treatment])
    for model, slope in ((arm, by_outcome), (TREATMENT, numerator - mean * denominator)):
        if len(slope):
            yield from fits[model].influence(slope).tolist()


def departures(question: EffectSums, scores: FloatVector) -> Iterator[Departure]:
    """Where the treatment's model misses most, by category but the first and by number.

    Positions of variables stand for their names.
    """
    origins, units = question.origin_array(), question.unit_array()
    numbers = [v for v in question.adjust if not question.categories[v]]
    variances = np.maximum(scores[1], LEAST_VARIANCE)
    z = np.where(scores[1] >= LEAST_VARIANCE, scores[0] / np.sqrt(variances), 0.0)
    for arm, number in np.ndindex(*(z.shape[:2] if z.size else (0, 0))):
        (*of, square), v = z[arm, number].tolist(), numbers[number]
        tests = int(np.count_nonzero(of))
        farthest = max(of, key=abs)
        value = float(origins[v]) + math.ldexp(MARKS[of.index(farthest)], int(units[v]))
        named = {"arm": arm + 1, "variable": str(v)}
        yield Departure(**named, below=value, z=farthest, tests=tests, square=square)


def coefficient_estimates(question: EffectSums, fit: Fit) -> Estimates:
    """The coefficients of the treatment in a linear model: the last ones of the fit."""
    k = question.estimates
    units = np.eye(len(fit.coefficients))[-k:]
    influence = np.array([fit.influence(unit) for unit in units])
    return Estimates(fit.coefficients[-k:], np.ones(k), influence)


def quantile(spare: float) -> float:
    """The 97.5 % quantile of Student's t with ``spare`` degrees of freedom.

    Single operations in a fixed order, as every site has to find the same.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    x, near = QUANTILE, 1.0 / max(spare, FEWEST_SPARE)
    square = x * x
    terms = (
        (square + 1.0) / 4.0,
        ((5.0 * square + 16.0) * square + 3.0) / 96.0,
        (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
    )
    return x * (1.0 + near * (terms[0] + near * (terms[1] + near * terms[2])))


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """Covariances of k estimates, and how certain the variances are."""

    covariance: FloatMatrix  # shape (k, k)
    effective: FloatVector  # number of rows that each variance is worth, shape (k,)
    spare: FloatVector  # degrees of freedom: ``effective`` less the fitted coefficients, (k,)

    def error(self, weights: FloatVector) -> float:
        """The standard error of a weighted sum of estimates."""
        return _root(weights, self.covariance)

    def width(self, weights: FloatVector) -> float:
        """The half-width of the 95 % confidence interval of a weighted sum.

        Each variance is multiplied by ``effective / spare``. Student's t has the degrees of
        freedom of Satterthwaite (Biometrics Bulletin 2 (1946) 110-114).
        """
        larger = np.sqrt(self.effective / self.spare)
        covariance = self.covariance * larger[:, None] * larger
        parts = (weights * weights * covariance.diagonal()).tolist()
        pairs = zip(parts, self.spare.tolist(), strict=True)
        squares, total = math.fsum(part * part / spare for part, spare in pairs), math.fsum(parts)
        spare = total * total / squares if squares > 0.0 else math.inf
        return quantile(spare) * _root(weights, covariance)


def differences(
    values: FloatVector, uncertainty: Uncertainty, reference: int | None
) -> Iterator[Contrast]:
    """Every arm less the reference; without one, each value (a coefficient) by itself."""
    for arm in range(len(values)):
        if arm == reference:
            continue
        weights = np.zeros(len(values))
        weights[arm] = 1.0
        if reference is not None:
            weights[reference] = -1.0
        change, width = dot(weights, values), uncertainty.width(weights)
        yield Contrast(
            arm=None if reference is None else arm, scale="difference",
            estimate=change, error=uncertainty.error(weights),
            low=change - width, high=change + width,
        )  # fmt: skip


def ratios(values: FloatVector, uncertainty: Uncertainty, reference: int) -> Iterator[Contrast]:
    """Ratios of shares and of odds against the reference.

    There is none where a share is 0 or 1, or where its interval is too wide for a float.
    """
    inside = [0.0 < value < 1.0 for value in values.tolist()]
    scales: tuple[Scale, ...] = ("ratio", "odds ratio")
    for scale in scales:
        for arm in range(len(values)):
            if arm != reference and inside[arm] and inside[reference]:
                ratio = _ratio(scale, values, uncertainty, arm, reference)
                if math.isfinite(ratio.high):
                    yield ratio


def _ratio(
    scale: Scale, values: FloatVector, uncertainty: Uncertainty, arm: int, reference: int
) -> Contrast:
    """A ratio with its interval by the delta method, on the logarithmic scale."""
    change, weights = 0.0, np.zeros(len(values))
    for which, sign in ((arm, 1.0), (reference, -1.0)):
        share = float(values[which])
        odds = 1.0 - share if scale == "odds ratio" else 1.0
        change += sign * logarithm_of(share / odds)
        weights[which] = sign / (share * odds)
    error, width = uncertainty.error(weights), uncertainty.width(weights)
    ends = [exponential_of(change + sign * width) for sign in (0.0, -1.0, 1.0)]
    return Contrast(arm=arm, scale=scale, estimate=ends[0], error=error, low=ends[1], high=ends[2])


def _root(weights: FloatVector, covariance: FloatMatrix) -> float:
    products = [dot(weights, row) for row in covariance]
    return math.sqrt(max(dot(weights, np.array(products)), 0.0))
