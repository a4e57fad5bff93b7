"""Fitting nested regressions step by step from sums, and their likelihood ratio.

The coordinator feeds it sums over the sites, and a site its own, so that both test alike. Which of
x and y is the response, `scored_model` says. A linear, logistic, multinomial logistic or, for an
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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.errors import AggregateRangeError
from cipherdag.statistics.regression_models import (
    Regression,
    coefficient_count,
    coefficient_place,
    coefficient_places,
    column_count,
    equal_thresholds,
    free_directions,
    largest_share,
    marginal_thresholds,
    outputs,
    rows_by_category,
)
from cipherdag.statistics.reproducible import LEAST_PIVOT, dot, product, solve

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
LEAST_REST = 1e-9
"""Share of a variance that a conditioning set leaves; less counts as none."""


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
        rows: Of every category of a discrete response, once they are counted.
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
    rows: FloatVector | None = None
    converged: float = CONVERGED
    information: FloatMatrix | None = None
    undone: bool = False
    finished: bool = False
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
        if self.rows is None:
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
            self.finished = True

    def _survey(self, gradient: FloatVector, hessian: FloatMatrix, count: int) -> None:
        """Rows by category, as all are equally likely at first, and what may move."""
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
        self._count(rows, constants)

    @property
    def determined(self) -> bool:
        """Whether the rows determine every coefficient that may move."""
        return self.rank == (len(self.coefficients) if self._free is None else self._free.shape[1])

    def influence(self, slope: FloatVector) -> FloatVector:
        """What scores move a number by, that has this slope by the coefficients, shape (m,)."""
        assert self.information is not None, "the model was fitted"
        if self._free is None:
            return newton_step(self.information, slope)[0]
        own = product(self._free.T, slope[:, None])[:, 0]
        return product(self._free, newton_step(self.information, own)[0][:, None])[:, 0]

    @property
    def inverse(self) -> FloatMatrix:
        """Of `information` within what may move and is determined, shape (m, m)."""
        return np.array([self.influence(own) for own in np.eye(len(self.coefficients))])

    def variance(self, place: int) -> float:
        """Of one coefficient of a finished fit; 0 where the rows do not determine it."""
        if self.information is None:
            return 0.0
        unit = np.eye(len(self.coefficients))[place]
        return dot(unit, self.influence(unit))

    def start_from(self, near: Fit, places: IndexArray, count: int) -> None:
        """Begin where another fit of the same rows ended, and where its coefficients go to.

        That of some of the predictors is nearer than coefficients of 0, at which all categories are
        equally likely; nor are the rows of the categories counted anew.
        """
        if near.rows is None or near.astray:
            return
        self.coefficients[places] = near.proposed
        self._count(near.rows, self._constants(count))

    def _constants(self, count: int) -> IndexArray:
        """IndexArray of thresholds, or of constants."""
        length = len(self.coefficients)
        return np.arange(count) if self.model.ordered else np.arange(0, length, length // count)

    def _count(self, rows: FloatVector, constants: IndexArray) -> None:
        """Keep the rows by category, and what may move."""
        self.rows, self.scarce = rows, float(rows.sum() - rows.max())
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
        self.undone = residual <= LEAST_REST * about_mean
        self.value = -rows / 2.0 * float(np.log(max(residual, least)))
        self.scarce, self.finished = rows, True


def first_fit(
    model: Regression,
    categories: Sequence[int],
    *,
    site_effect: bool = False,
    near: Fit | None = None,
) -> Fit:
    """A regression at coefficients of 0, with all categories of the response equally likely.

    Args:
        model: What is to be fitted.
        categories: Number of categories of every variable, 0 for a continuous one.
        site_effect: Whether constants or thresholds are the sites' own.
        near: A fit over the same rows of a model that has some of the predictors and no
            interactions, from which this one begins; None where there is none.
    """
    coefficients = np.zeros(coefficient_count(model, categories))
    own = categories[model.response]
    if model.ordered:
        coefficients[: own - 1] = equal_thresholds(own)
    fit = Fit(model, own > 0, coefficients, site_effect=site_effect)
    if near is not None and own:
        fit.start_from(near, coefficient_places(near.model, model, categories), outputs(own))
    return fit


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
    small: Fit, large: Fit, other: int, categories: Sequence[int], own_constants: int
) -> tuple[float, float] | None:
    """The effect of the other variable, and its standard deviation; None where it has no sign.

    Of a linear response atanh of the partial correlation, of two categories the logarithm of the
    odds ratio: that of the other variable's second category, or for one common unit of it.

    Args:
        small: The model without the other variable.
        large: The model with it.
        other: The variable.
        categories: Number of categories of every variable, 0 for a continuous one.
        own_constants: How many constants the sites have beside those of the model.
    """
    ratio, dof = likelihood_ratio(small, large, categories)
    if dof != 1.0 or large.model.ordered:
        return None
    place = coefficient_place(other, large.model, categories)
    if large.discrete:
        one_output = categories[large.model.response] == 2  # noqa: PLR2004
        variance = large.variance(place) if one_output else 0.0
        # with the last step, as the value has its gain
        return (float(large.proposed[place]), math.sqrt(variance)) if variance > 0.0 else None
    spread = large.scarce - column_count(small.model, categories) - own_constants - 2
    if spread <= 0:
        return None
    size = math.sqrt(-math.expm1(-ratio / large.scarce))
    return math.atanh(math.copysign(size, large.coefficients[place])), 1.0 / math.sqrt(spread)


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
