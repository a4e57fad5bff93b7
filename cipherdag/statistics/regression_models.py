"""Models of regressions: responses, predictors, where coefficients stand, ordered responses.

A response with c categories in an order has one linear combination of the predictors and c - 1
thresholds t: the log odds of category k or below are t_k less the combination (proportional odds).
Its log likelihood is concave as long as the thresholds rise, so a Newton step that keeps them
rising and is halved where it does not gain ends at the maximum.

Source: McCullagh, JRSS B 42 (1980) 109-142; Pratt, JASA 76 (1981) 103-106, for the concavity.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.statistics.reproducible import on_grid

MAX_COEFFICIENTS = 4096
PROPENSITY_EDGES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Lower edges of the bins in which fitted propensities are counted; the last bin ends at 1."""
CLOSEST = 0.9
"""Of the distance between two thresholds, the most that a step may take off."""


@dataclass(frozen=True, slots=True)
class Regression:
    """One response on some predictors, over the rows complete in them and in further variables.

    Attributes:
        response: Position.
        predictors: Positions, in the order of the coefficients.
        complete_in: Further positions whose missing values leave a row out.
        ordered: Whether the response's categories are in an order.
        crossed: How many of the predictors, the first ones, interact: of the discrete ones every
            combination of categories has a constant and a slope per continuous one of its own.
    """

    response: int
    predictors: tuple[int, ...]
    complete_in: tuple[int, ...] = ()
    ordered: bool = False
    crossed: int = 0


def outputs(categories: int) -> int:
    """Linear combinations that a response of so many categories has."""
    return max(categories - 1, 1) if categories else 1


def coefficient_count(model: Regression, categories: Sequence[int]) -> int:
    """Coefficients of a model: constant and columns of predictors, for every output.

    For a response in an order the thresholds, and the columns of predictors once.
    """
    columns, count = column_count(model, categories), outputs(categories[model.response])
    return count + columns - 1 if model.ordered else columns * count


def too_large(model: Regression, categories: Sequence[int]) -> bool:
    """Whether a model has more coefficients than any site fits."""
    return coefficient_count(model, categories) > MAX_COEFFICIENTS


def column_count(model: Regression, categories: Sequence[int]) -> int:
    """Columns of a model's design: the constant, those of the predictors, and products of them."""
    crossed = [categories[v] for v in model.predictors[: model.crossed]]
    combinations = math.prod(max(own, 1) for own in crossed)
    rest = [categories[v] for v in model.predictors[model.crossed :]]
    return combinations * (1 + crossed.count(0)) + sum(map(predictor_columns, rest))


def predictor_columns(categories: int) -> int:
    """Columns of a predictor that interacts with none: itself, or an indicator of all but one."""
    return max(categories - 1, 0) if categories else 1


def scored_model(
    row: Sequence[int],
    categories: Sequence[int],
    ordered: AbstractSet[int],
    *,
    interactions: bool = False,
) -> Regression:
    """The regression of x or y on S and on the other one, its last predictor.

    The response is the one whose three or more categories are in an order (of two the one with more
    categories, which leaves fewer degrees of freedom), then the one with fewer categories, a number
    last; the first if that does not decide.

    Args:
        row: x, y, s1, ..., sl.
        categories: Number of categories of every variable, 0 for a number.
        ordered: Variables with three or more categories in an order.
        interactions: Whether the variables of S interact; see `Regression`.
    """

    def rank(variable: int) -> tuple[int, int]:
        count = categories[variable]
        return (0, -count) if variable in ordered else (1 if count else 2, count)

    x, y, *given = row
    response, other = (y, x) if rank(y) < rank(x) else (x, y)
    crossed = len(given) if interactions else 0
    return Regression(response, (*given, other), (), response in ordered, crossed)


def nested_models(
    row: Sequence[int],
    categories: Sequence[int],
    *,
    left_out: bool,
    ordered: AbstractSet[int] = frozenset(),
    interactions: bool = False,
) -> tuple[Regression, Regression]:
    """The model without and the model with the other variable, on the same rows.

    Predictors that do not interact are in ascending order, so that tests share their models.

    Args:
        row: x, y, s1, ..., sl.
        categories: Number of categories of every variable, 0 for a continuous one.
        left_out: Whether rows may be incomplete in the test's variables.
        ordered: Variables with three or more categories in an order.
        interactions: Whether the variables of S interact; see `Regression`.
    """
    large = scored_model(row, categories, ordered, interactions=interactions)
    other = large.predictors[-1]
    small = replace(
        large, predictors=large.predictors[:-1], complete_in=(other,) if left_out else ()
    )
    return (small, large) if interactions else (_in_order(small), _in_order(large))


def _in_order(model: Regression) -> Regression:
    return replace(model, predictors=tuple(sorted(model.predictors)))


def coefficient_place(variable: int, model: Regression, categories: Sequence[int]) -> int:
    """Where the first column of a predictor stands; of those that interact, the last one."""
    if model.crossed:
        return column_count(model, categories) - 1
    before = model.predictors[: model.predictors.index(variable)]
    return 1 + sum(predictor_columns(categories[own]) for own in before)


def coefficient_places(
    small: Regression, large: Regression, categories: Sequence[int]
) -> IndexArray:
    """Where the coefficients of a model stand in one with more predictors."""
    columns = [0]
    for variable in small.predictors:
        start = coefficient_place(variable, large, categories)
        columns += range(start, start + predictor_columns(categories[variable]))
    count, width = outputs(categories[large.response]), column_count(large, categories)
    if large.ordered:  # the thresholds take the place of the constant
        return np.append(np.arange(count), np.array(columns[1:], dtype=np.int64) + count - 1)
    return (np.arange(count)[:, None] * width + columns).ravel()


def equal_thresholds(categories: int) -> FloatVector:
    """Thresholds at which all categories are equally likely, shape (categories - 1,)."""
    below = np.arange(1.0, categories)
    return on_grid(np.log(below) - np.log(categories - below))


def rows_by_category(gradient: FloatVector, information: FloatVector) -> FloatVector:
    """How many rows have each category, shape (c,), from derivatives at `equal_thresholds`.

    Args:
        gradient: Of the log likelihood by the thresholds, without predictors, shape (c - 1,).
        information: Minus the second derivatives, of each threshold by itself, shape (c - 1,).
    """
    below = np.arange(1.0, len(gradient) + 1) / (len(gradient) + 1)
    slope = below * (1.0 - below) * (len(gradient) + 1)
    # of the rows on both sides of a threshold: their difference, and then their sum
    difference = gradient / slope
    total = (information / slope + (1.0 - 2.0 * below) * difference) / slope
    last = (total - difference)[-1:] / 2.0
    return np.rint(np.append((total + difference) / 2.0, last))


def marginal_thresholds(rows: FloatVector) -> FloatVector:
    """The best thresholds without predictors, shape (c - 1,), from the rows of each category.

    They are infinite beyond the outermost rows.
    """
    below, above = np.cumsum(rows)[:-1], np.cumsum(rows[::-1])[::-1][1:]
    if not rows.any():
        return np.zeros(len(below))
    with np.errstate(divide="ignore"):
        return on_grid(np.log(below) - np.log(above))


def free_directions(rows: FloatVector, coefficients: int) -> FloatMatrix:
    """What may move, a column each: thresholds with a category without rows between them as one.

    Args:
        rows: Of each category, shape (c,).
        coefficients: Thresholds and coefficients of the predictors together.
    """
    below = np.cumsum(rows)[:-1]
    inner = np.unique(below[(below > 0) & (below < rows.sum())])
    slopes = coefficients - len(below)
    directions = np.zeros((coefficients, len(inner) + slopes))
    directions[: len(below), : len(inner)] = below[:, None] == inner
    directions[len(below) :, len(inner) :] = np.eye(slopes)
    return directions


def largest_share(thresholds: FloatVector, move: FloatVector) -> float:
    """How much of a move of thresholds, shape (c - 1,), leaves them rising; infinite ones stay."""
    finite = np.isfinite(thresholds)
    width, change = np.diff(thresholds[finite]), np.diff(move[finite])
    closer = change < 0.0
    return float(min(1.0, CLOSEST * (width[closer] / -change[closer]).min(initial=np.inf)))
