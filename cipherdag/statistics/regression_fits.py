"""Fitting nested regressions step by step from sums, and their likelihood ratio.

The coordinator feeds it sums over the sites, and a site its own, so that both test alike. Which of
x and y is the response, `tested_model` says. A linear, logistic, multinomial logistic or, for an
order, proportional-odds regression on S, and once more with the other variable, of which an order
is not used. S enters by main effects alone unless it is said to interact. Twice the gain in log
likelihood is chi-square with as many degrees of freedom as the other variable adds.

Source: Agresti, Categorical Data Analysis, sections 5.4, 8.1 and 8.2; Vittinghoff and McCulloch,
American Journal of Epidemiology 165 (2007) 710-718, for the rows per coefficient.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cipherdag.questions.encodings import require_possible
from cipherdag.questions.regression_steps import Regression, coefficient_count, column_count
from cipherdag.questions.scores.within_scores import tested_model
from cipherdag.statistics.reproducible import dot, product, solve
from cipherdag.statistics.thresholds import (
    equal_thresholds,
    free_directions,
    largest_share,
    marginal_thresholds,
    rows_by_category,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from cipherdag.questions.encodings import FloatVector

FloatMatrix = NDArray[np.float64]

FEWEST_PER_COEFFICIENT = 5
STEPS = 40
HALVINGS = 12
CONVERGED = 1e-8
"""Gain of a step, as a share of the likelihood, that is not worth a round.

Near a maximum the next gain is the square of it; where categories are separated, a third of it.
"""
STILL = 1e-3
FAR = 20.0
"""A step and a coefficient, in logits, beyond which a maximum is not finite."""
ROUNDING = 1e-11
LEAST_PIVOT = 1e-9
"""Of a Hessian with unit diagonal: below it a column is a linear combination of others."""
LEAST_REST = 1e-9


@dataclass(slots=True)
class Fit:
    """A regression on its way to the maximum.

    Attributes:
        model: What is fitted.
        discrete: Whether the response is.
        site_effect: Whether constants or thresholds are the sites' own and have no derivative.
        coefficients: The last accepted ones, shape (m,).
        value: Log likelihood there; of a linear model n / 2 times minus the logarithm of the
            residual squares.
        rank: Number of coefficients that the data determine.
        scarce: Rows outside the response's most frequent category; all rows of a linear model.
        variance: Of the last coefficient; 0 where that was not asked for, or it is not determined.
        converged: Gain of a step, as a share of the likelihood, that is not worth a round.
        information: The last Hessian, shape (m, m).
        undone: Whether the predictors leave nothing of a linear response.
        finished: Whether no step is left.
    """

    model: Regression
    discrete: bool
    coefficients: FloatVector
    site_effect: bool = False
    value: float = -np.inf
    rank: int = 0
    scarce: float = 0.0
    variance: float = 0.0
    converged: float = CONVERGED
    information: FloatMatrix | None = None
    undone: bool = False
    finished: bool = False
    _surveyed: bool = False
    _free: FloatMatrix | None = None
    _move: FloatVector | None = None
    _gain: float = 0.0
    _share: float = 1.0
    _left: int = STEPS

    @property
    def astray(self) -> bool:
        """Whether it ended on its way to infinity: some rows' categories are separated."""
        moving = self._move is not None and float(abs(self._move).max(initial=0.0)) > STILL
        return self.finished and (
            moving or (self.discrete and float(abs(self.coefficients).max()) > FAR)
        )

    @property
    def proposed(self) -> FloatVector:
        """The coefficients to ask about."""
        if self._move is None:
            return self.coefficients
        return self.coefficients + self._share * self._move

    def hear(self, value: float, gradient: FloatVector, hessian: FloatMatrix, count: int) -> None:
        """Take in the sums at `proposed`; ``count`` outputs.

        Raises:
            AggregateRangeError: They count rows as no rows are.
        """
        if not self.discrete:
            self.information = hessian
            self._solve(value, gradient, hessian)
            return
        worse = value < self.value - ROUNDING * (1.0 + abs(self.value))
        if not self._surveyed:
            self._survey(gradient, hessian, count)
            if self.model.ordered and not self.site_effect:
                return  # only now it is known where to start
        elif worse and self._share > 0.5**HALVINGS:
            self._share /= 2.0
            return
        if self._free is not None:
            free = self._free.T
            gradient = product(free, gradient[:, None])[:, 0]
            hessian = product(product(free, hessian), self._free)
        self.coefficients, self.value, self.information = self.proposed, value, hessian
        move, rank = newton_step(hessian, gradient)
        self.rank = max(self.rank, rank)
        self._gain, self._left = dot(gradient, move) / 2.0, self._left - 1
        self._share = 1.0
        self._move = move if self._free is None else product(self._free, move[:, None])[:, 0]
        if self.model.ordered:
            self._share = largest_share(self.coefficients[:count], self._move[:count])
        if self._gain <= self.converged * (1.0 + abs(value)) or self._left == 0:
            self.value += max(self._gain, 0.0)
            self.variance = _last_variance(hessian)
            self.finished = True

    def _survey(self, gradient: FloatVector, hessian: FloatMatrix, count: int) -> None:
        """Rows by category, as all are equally likely at first, and what may move."""
        self._surveyed = True
        constants = np.arange(0, len(gradient), len(gradient) // count)
        if self.model.ordered:
            constants = np.arange(count)
            rows = rows_by_category(gradient[constants], hessian.diagonal()[constants])
        else:
            chance = 1.0 / (count + 1)
            total = hessian[0, 0] / (chance * (1.0 - chance))
            seen = gradient[constants] + total * chance
            rows = np.append(total - seen.sum(), seen)
        about = f"a regression of variable {self.model.response + 1}"
        require_possible(about, "fewer than no rows", holds=rows.min() > -1.0)
        if self.model.ordered and not self.site_effect:
            self._free = free_directions(rows, len(gradient))
            self.coefficients[constants] = marginal_thresholds(rows)
        self.scarce = float(rows.sum() - rows.max())
        if self.site_effect:
            self._free = np.delete(np.eye(len(gradient)), constants, axis=1)

    def _solve(self, squares: float, products: FloatVector, gram: FloatMatrix) -> None:
        self.coefficients, self.rank = newton_step(gram, products)
        rows = float(gram[0, 0])
        about_mean = squares - products[0] ** 2 / max(rows, 1.0)
        residual = squares - dot(products, self.coefficients)
        least = float(np.finfo(np.float64).eps) * max(squares, np.finfo(np.float64).tiny)
        self.undone = residual <= LEAST_REST * about_mean
        self.value = -rows / 2.0 * float(np.log(max(residual, least)))
        self.scarce, self.finished = rows, True


def first_fit(model: Regression, categories: Sequence[int], *, site_effect: bool = False) -> Fit:
    """A regression at coefficients of 0, with all categories of the response equally likely."""
    coefficients = np.zeros(coefficient_count(model, categories))
    own = categories[model.response]
    if model.ordered:
        coefficients[: own - 1] = equal_thresholds(own)
    return Fit(model, own > 0, coefficients, site_effect=site_effect)


def nested_models(
    row: Sequence[int],
    categories: Sequence[int],
    *,
    left_out: bool,
    ordered: AbstractSet[int] = frozenset(),
    interactions: bool = False,
) -> tuple[Regression, Regression]:
    """The model without and the model with the other variable, on the same rows.

    Args:
        row: x, y, s1, ..., sl.
        categories: Number of categories of every variable, 0 for a continuous one.
        left_out: Whether rows may be incomplete in the test's variables.
        ordered: Variables with three or more categories in an order.
        interactions: Whether the variables of S interact; see `Regression`.
    """
    large = tested_model(row, categories, ordered, interactions=interactions)
    other = large.predictors[-1]
    further = (other,) if left_out else ()
    return replace(large, predictors=large.predictors[:-1], complete_in=further), large


def likelihood_ratio(
    small: Fit, large: Fit, categories: Sequence[int], *, fewest: float = FEWEST_PER_COEFFICIENT
) -> tuple[float, float]:
    """Twice the gain in log likelihood, and its degrees of freedom; NaN where not done.

    A test is not done with fewer than ``fewest`` rows (of a discrete response: outside its most
    frequent category) per coefficient of an output, if the other variable adds nothing that S does
    not have, or if S leaves nothing of a continuous response.
    """
    dof = large.rank - small.rank
    columns = column_count(large.model, categories)
    enough = large.scarce >= fewest * columns
    if dof <= 0 or not enough or small.undone:
        return np.nan, np.nan
    return max(2.0 * (large.value - small.value), 0.0), float(dof)


def effect_of(
    small: Fit, large: Fit, categories: Sequence[int], own_constants: int
) -> tuple[float, float] | None:
    """The effect of the other variable, and its standard deviation; None where it has no sign.

    Of a linear response atanh of the partial correlation, of two categories the logarithm of the
    odds ratio: that of the other variable's second category, or for one common unit of it.

    Args:
        small: The model without the other variable.
        large: The model with it.
        categories: Number of categories of every variable, 0 for a continuous one.
        own_constants: How many constants the sites have beside those of the model.
    """
    ratio, dof = likelihood_ratio(small, large, categories)
    if dof != 1.0 or large.model.ordered:
        return None
    if large.discrete:
        one_output = categories[large.model.response] == 2  # noqa: PLR2004
        known = one_output and large.variance > 0.0
        return (float(large.coefficients[-1]), math.sqrt(large.variance)) if known else None
    spread = large.scarce - column_count(small.model, categories) - own_constants - 2
    if spread <= 0:
        return None
    size = math.sqrt(-math.expm1(-ratio / large.scarce))
    return math.atanh(math.copysign(size, large.coefficients[-1])), 1.0 / math.sqrt(spread)


def step_parts(step: FloatVector, count: int) -> tuple[float, FloatVector, FloatMatrix]:
    """Value, gradient, and the whole symmetric Hessian."""
    hessian = np.zeros((count, count))
    hessian[_upper(count)] = step[1 + count :]
    return float(step[0]), step[1 : 1 + count], hessian + np.triu(hessian, k=1).T


def pack_step(value: float, gradient: FloatVector, hessian: FloatMatrix) -> FloatVector:
    """Value, gradient and the Hessian's upper triangle by rows, which `step_parts` takes apart."""
    return np.concatenate([[value], gradient, hessian[_upper(len(hessian))]])


def newton_step(hessian: FloatMatrix, gradient: FloatVector) -> tuple[FloatVector, int]:
    """Newton's step within what the data determine, and the rank of that."""
    scale = np.sqrt(np.maximum(hessian.diagonal(), 0.0))
    scale = np.where(scale > 0, scale, 1.0)
    scaled = hessian / (scale[:, None] * scale)
    move, rank = solve(scaled, gradient / scale, least=LEAST_PIVOT)
    return move / scale, rank


def _upper(count: int) -> NDArray[np.bool_]:
    return ~np.tri(count, k=-1, dtype=bool)


def _last_variance(hessian: FloatMatrix) -> float:
    """The last diagonal entry of the Hessian's inverse."""
    last = np.zeros(len(hessian))
    last[-1:] = 1.0
    return float(newton_step(hessian, last)[0][-1:].sum())
