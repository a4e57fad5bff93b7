"""Nested regressions are fitted by Newton's method from summed derivatives, and compared.

The coordinator uses sums over the sites, and a site those of its rows, so that both do the same
test. `scored_model` chooses the response among x and y. It is fitted on S, and again on S and the
other variable, by linear, logistic, multinomial logistic or (ordinal responses) proportional-odds
regression; an ordinal predictor counts as nominal. S has main effects alone unless interactions are
chosen. Twice the gain in log likelihood is chi-square with as many degrees of freedom as the other
variable adds.

Source: Agresti, Categorical Data Analysis, sections 5.4, 8.1 and 8.2; Vittinghoff and McCulloch,
American Journal of Epidemiology 165 (2007) 710-718, for the rows per coefficient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.errors import AggregateRangeError
from cipherdag.statistics.newton import NewtonAscent, newton_step
from cipherdag.statistics.regression_models import (
    Regression,
    coefficient_count,
    coefficient_index,
    coefficient_indices,
    column_count,
    equal_thresholds,
    free_directions,
    largest_share,
    marginal_thresholds,
    outputs,
    rows_by_category,
)
from cipherdag.statistics.reproducible import dot, product

FEWEST_PER_COEFFICIENT = 5
LARGEST_LAST_STEP, LARGEST_LOGIT = 1e-3, 20.0
"""Largest last step and coefficient, in logits, of a fit that has a finite maximum."""
LONGEST_STEP = 16.0
"""Logits by which a step may change a coefficient; the largest coefficient so far, if that is more.

Where all probabilities are near 0 or 1 there is hardly a curvature, and Newton's step overshoots by
any amount; halving corrects that. Where a number separates categories, coefficients may double.
"""
LEAST_REST = 1e-9
"""Share of the variance that a conditioning set must leave; less counts as none."""


@dataclass(slots=True, kw_only=True)
class Fit(NewtonAscent):
    """A `Fit` is the ascent of the log likelihood of a regression.

    The value of a linear model, which takes one step, is n / 2 times minus the logarithm of the
    residual squares.
    """

    model: Regression  # the model
    discrete: bool  # whether the response is discrete
    # whether constants or thresholds differ by site; none has derivatives here
    site_effect: bool = False
    # the limiting sample size: rows outside the response's most frequent category, or all rows of a
    # linear model
    limiting_rows: float = 0.0
    # rows of every category of a discrete response, once they are counted
    rows: FloatVector | None = None
    degenerate: bool = False  # whether the predictors leave no variance of a linear response
    _free: FloatMatrix | None = None

    @property
    def diverged(self) -> bool:
        """Whether there is no finite maximum, as predictors separate the response's categories."""
        if not self.finished:
            return False
        last_step = 0.0 if self._step is None else float(abs(self._step).max(initial=0.0))
        return last_step > LARGEST_LAST_STEP or (
            self.discrete and float(abs(self.coefficients).max()) > LARGEST_LOGIT
        )

    def update(self, value: float, gradient: FloatVector, hessian: FloatMatrix, count: int) -> None:
        """Accept the proposed step, or halve it, given the derivatives at `proposed`.

        Of a linear response the value is the sum of its squares, the gradient the sums of its
        products with the columns, and the Hessian those of the columns' products. Raises
        AggregateRangeError where no numbers of rows by category have such derivatives.
        """
        if not self.discrete:
            self.information = hessian
            self._solve(value, gradient, hessian)
            return
        if self.rows is None:
            self._count_rows(gradient, hessian, count)
            if self.model.ordered and not self.site_effect:
                return  # the start depends on the rows by category
        elif self.halves(value):
            return
        rank = self.rank
        step = self.accept(value, gradient, hessian, self._free)
        self.rank = max(self.rank, rank)
        if self.model.ordered:
            self.shorten(largest_share(self.coefficients[:count], step[:count]))
        else:
            longest = max(float(abs(self.coefficients).max()), LONGEST_STEP)
            self.shorten(longest / max(float(abs(step).max()), longest))
        if self.settled:
            self.value += max(self._gain, 0.0)
            self.finished = True

    def _count_rows(self, gradient: FloatVector, hessian: FloatMatrix, count: int) -> None:
        """Count the rows by category from the derivatives where all are equally likely."""
        constants = self._constants(count)
        if self.model.ordered:
            rows = rows_by_category(gradient[constants], hessian.diagonal()[constants])
        else:
            chance = 1.0 / (count + 1)
            total = hessian[0, 0] / (chance * (1.0 - chance))
            seen = gradient[constants] + total * chance
            rows = np.append(total - seen.sum(), seen)
        if not rows.min() > -1.0:
            raise AggregateRangeError(
                "no answers add up to the sums of 'a regression of variable "
                f"{self.model.response + 1}': fewer than no rows"
            )
        if self.model.ordered and not self.site_effect:
            self.coefficients[constants] = marginal_thresholds(rows)
        self._set_rows(rows, constants)

    @property
    def determined(self) -> bool:
        """Whether the rows determine all coefficients in the estimable directions."""
        return self.rank == (len(self.coefficients) if self._free is None else self._free.shape[1])

    def influence(self, slope: FloatVector) -> FloatVector:
        """Compute the influence of scores on a function with this gradient, shape (m,) each."""
        assert self.information is not None, "the model was fitted"
        if self._free is None:
            return newton_step(self.information, slope)[0]
        projected = product(self._free.T, slope[:, None])[:, 0]
        return product(self._free, newton_step(self.information, projected)[0][:, None])[:, 0]

    @property
    def inverse(self) -> FloatMatrix:
        """The inverse of `information` in the estimable directions, shape (m, m)."""
        return np.array([self.influence(unit) for unit in np.eye(len(self.coefficients))])

    def variance(self, index: int) -> float:
        """Compute the variance of a coefficient of a finished fit; 0 where it is not determined."""
        if self.information is None:
            return 0.0
        unit = np.eye(len(self.coefficients))[index]
        return dot(unit, self.influence(unit))

    def start_from(self, other: Fit, indices: IndexArray, count: int) -> None:
        """Start at the coefficients of another fit of the same rows, which get these indices.

        A fit on some of the predictors is nearer than coefficients of 0, at which all categories
        are equally likely; nor are the rows of the categories counted again.
        """
        if other.rows is None or other.diverged:
            return
        self.coefficients[indices] = other.proposed
        self._set_rows(other.rows, self._constants(count))

    def _constants(self, count: int) -> IndexArray:
        """Return the indices of the thresholds, or of the constants."""
        length = len(self.coefficients)
        return np.arange(count) if self.model.ordered else np.arange(0, length, length // count)

    def _set_rows(self, rows: FloatVector, constants: IndexArray) -> None:
        """Set the rows by category, and the estimable directions that follow from them."""
        self.rows, self.limiting_rows = rows, float(rows.sum() - rows.max())
        if self.site_effect:
            self._free = np.delete(np.eye(len(self.coefficients)), constants, axis=1)
        elif self.model.ordered:
            self._free = free_directions(rows, len(self.coefficients))

    def _solve(self, squares: float, products: FloatVector, gram: FloatMatrix) -> None:
        self.coefficients, self.rank = newton_step(gram, products)
        rows = float(gram[0, 0])
        about_mean = squares - products[0] ** 2 / max(rows, 1.0)
        residual = squares - dot(products, self.coefficients)
        least = float(np.finfo(np.float64).eps) * max(squares, np.finfo(np.float64).tiny)
        self.degenerate = residual <= LEAST_REST * about_mean
        self.value = -rows / 2.0 * float(np.log(max(residual, least)))
        self.limiting_rows, self.finished = rows, True


def first_fit(
    model: Regression,
    categories: Sequence[int],
    *,
    site_effect: bool = False,
    warm_start: Fit | None = None,
) -> Fit:
    """Start a fit at coefficients of 0, with all categories of the response equally likely.

    With a fit over the same rows on some of the predictors, without interactions, it starts there.
    """
    coefficients = np.zeros(coefficient_count(model, categories))
    levels = categories[model.response]
    if model.ordered:
        coefficients[: levels - 1] = equal_thresholds(levels)
    fit = Fit(coefficients, model=model, discrete=levels > 0, site_effect=site_effect)
    if warm_start is not None and levels:
        indices = coefficient_indices(warm_start.model, model, categories)
        fit.start_from(warm_start, indices, outputs(levels))
    return fit


def likelihood_ratio(
    small: Fit, large: Fit, categories: Sequence[int], *, fewest: float = FEWEST_PER_COEFFICIENT
) -> tuple[float, float]:
    """Compute twice the gain in log likelihood and its degrees of freedom; NaN where not done.

    A test is not done with fewer than ``fewest`` limiting rows per coefficient of an output, if the
    other variable is a linear combination of S, or if S leaves no variance of a continuous
    response.
    """
    dof = large.rank - small.rank
    columns = column_count(large.model, categories)
    enough = large.limiting_rows >= fewest * columns
    if dof <= 0 or not enough or small.degenerate:
        return np.nan, np.nan
    return max(2.0 * (large.value - small.value), 0.0), float(dof)


def effect_of(
    small: Fit, large: Fit, other: int, categories: Sequence[int], site_constants: int
) -> tuple[float, float] | None:
    """Estimate the other variable's effect and its standard deviation; None where it has no sign.

    The effect on a linear response is atanh of the partial correlation. On two categories it is the
    log odds ratio of the other variable's second category, or of one common unit of it.
    """
    ratio, dof = likelihood_ratio(small, large, categories)
    if dof != 1.0 or large.model.ordered:
        return None
    index = coefficient_index(other, large.model, categories)
    if large.discrete:
        one_output = categories[large.model.response] == 2  # noqa: PLR2004
        variance = large.variance(index) if one_output else 0.0
        # with the last step, as the value has its gain
        return (float(large.proposed[index]), math.sqrt(variance)) if variance > 0.0 else None
    spread = large.limiting_rows - column_count(small.model, categories) - site_constants - 2
    if spread <= 0:
        return None
    size = math.sqrt(-math.expm1(-ratio / large.limiting_rows))
    return math.atanh(math.copysign(size, large.coefficients[index])), 1.0 / math.sqrt(spread)
