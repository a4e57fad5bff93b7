"""Regression models name a response and its predictors, and fix the order of the coefficients.

An ordinal response with c categories has one linear predictor and c - 1 thresholds t: the log odds
of category k or below are t_k less the linear predictor (proportional odds). Its log likelihood is
concave while the thresholds ascend, so that Newton's method with steps that keep them ascending,
halved where they lose likelihood, converges to the maximum.

Source: McCullagh, JRSS B 42 (1980) 109-142; Pratt, JASA 76 (1981) 103-106, for the concavity.
"""

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
CLOSEST = 0.9  # largest share of the distance between two thresholds by which a step may reduce it


@dataclass(frozen=True, slots=True)
class Regression:
    """A response and its predictors, over the rows complete in all variables."""

    response: int  # position of the response
    predictors: tuple[int, ...]  # positions of the predictors, in the order of the coefficients
    # positions of further variables whose missing values exclude a row
    complete_in: tuple[int, ...] = ()
    ordered: bool = False  # whether the response is ordinal
    # how many of the first predictors interact: every combination of categories of the discrete
    # ones has a constant and a slope per continuous one
    crossed: int = 0


def outputs(categories: int) -> int:
    """Count the linear predictors of a response with a number of categories, 0 if continuous."""
    return max(categories - 1, 1) if categories else 1


def coefficient_count(model: Regression, categories: Sequence[int]) -> int:
    """Count a model's coefficients: a constant and the predictors' columns, for every output.

    An ordinal response has its thresholds, and the predictors' columns once.
    """
    columns, count = column_count(model, categories), outputs(categories[model.response])
    return count + columns - 1 if model.ordered else columns * count


def too_large(model: Regression, categories: Sequence[int]) -> bool:
    """Return whether a model has more coefficients than any site fits."""
    return coefficient_count(model, categories) > MAX_COEFFICIENTS


def column_count(model: Regression, categories: Sequence[int]) -> int:
    """Count a design's columns: the constant, the predictors' columns, and their products."""
    crossed = [categories[v] for v in model.predictors[: model.crossed]]
    combinations = math.prod(max(count, 1) for count in crossed)
    rest = [categories[v] for v in model.predictors[model.crossed :]]
    return combinations * (1 + crossed.count(0)) + sum(map(predictor_columns, rest))


def predictor_columns(categories: int) -> int:
    """Count a predictor's columns without interactions: one, or one per category but the first."""
    return max(categories - 1, 0) if categories else 1


def scored_model(
    row: Sequence[int],
    categories: Sequence[int],
    ordered: AbstractSet[int],
    *,
    interactions: bool = False,
) -> Regression:
    """Choose the response among x and y; the predictors are S and, last, the other variable.

    An ordinal variable of three or more categories is preferred (of two the one with more
    categories, which leaves fewer degrees of freedom), then the one with fewer categories, a
    continuous one last; x if that does not decide.
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
    """Return the models of a test without and with the other variable, over the same rows.

    Predictors that do not interact are in ascending order, so that tests share their models.
    """
    large = scored_model(row, categories, ordered, interactions=interactions)
    other = large.predictors[-1]
    small = replace(
        large, predictors=large.predictors[:-1], complete_in=(other,) if left_out else ()
    )
    return (small, large) if interactions else (_in_order(small), _in_order(large))


def _in_order(model: Regression) -> Regression:
    return replace(model, predictors=tuple(sorted(model.predictors)))


def coefficient_index(variable: int, model: Regression, categories: Sequence[int]) -> int:
    """Return the index of a predictor's first column; with interactions, of the last column."""
    if model.crossed:
        return column_count(model, categories) - 1
    before = model.predictors[: model.predictors.index(variable)]
    return 1 + sum(predictor_columns(categories[v]) for v in before)


def coefficient_indices(
    small: Regression, large: Regression, categories: Sequence[int]
) -> IndexArray:
    """Return the indices of a model's coefficients in a model with more predictors."""
    columns = [0]
    for variable in small.predictors:
        start = coefficient_index(variable, large, categories)
        columns += range(start, start + predictor_columns(categories[variable]))
    count, width = outputs(categories[large.response]), column_count(large, categories)
    if large.ordered:  # thresholds replace the constant
        return np.append(np.arange(count), np.array(columns[1:], dtype=np.int64) + count - 1)
    return (np.arange(count)[:, None] * width + columns).ravel()


def equal_thresholds(categories: int) -> FloatVector:
    """Compute the thresholds of equally likely categories, shape (categories - 1,)."""
    below = np.arange(1.0, categories)
    return on_grid(np.log(below) - np.log(categories - below))


def rows_by_category(gradient: FloatVector, information: FloatVector) -> FloatVector:
    """Compute the rows of each category, (c,), from derivatives at `equal_thresholds`."""
    below = np.arange(1.0, len(gradient) + 1) / (len(gradient) + 1)
    slope = below * (1.0 - below) * (len(gradient) + 1)
    # of the rows on both sides of a threshold: their difference, and then their sum
    difference = gradient / slope
    total = (information / slope + (1.0 - 2.0 * below) * difference) / slope
    last = (total - difference)[-1:] / 2.0
    return np.rint(np.append((total + difference) / 2.0, last))


def marginal_thresholds(rows: FloatVector) -> FloatVector:
    """Compute the maximum-likelihood thresholds without predictors, shape (c - 1,).

    They are infinite beyond the outermost category that has rows.
    """
    below, above = np.cumsum(rows)[:-1], np.cumsum(rows[::-1])[::-1][1:]
    if not rows.any():
        return np.zeros(len(below))
    with np.errstate(divide="ignore"):
        return on_grid(np.log(below) - np.log(above))


def free_directions(rows: FloatVector, coefficients: int) -> FloatMatrix:
    """Return a basis of the estimable directions, one per column, by the rows of each category.

    Thresholds that only categories without rows separate share one direction, and infinite ones
    have none.
    """
    below = np.cumsum(rows)[:-1]
    inner = np.unique(below[(below > 0) & (below < rows.sum())])
    slopes = coefficients - len(below)
    directions = np.zeros((coefficients, len(inner) + slopes))
    directions[: len(below), : len(inner)] = below[:, None] == inner
    directions[len(below) :, len(inner) :] = np.eye(slopes)
    return directions


def largest_share(thresholds: FloatVector, step: FloatVector) -> float:
    """Return the largest share of a step, shape (c - 1,), that keeps thresholds ascending.

    Infinite thresholds do not change.
    """
    finite = np.isfinite(thresholds)
    width, change = np.diff(thresholds[finite]), np.diff(step[finite])
    closer = change < 0.0
    return float(min(1.0, CLOSEST * (width[closer] / -change[closer]).min(initial=np.inf)))
