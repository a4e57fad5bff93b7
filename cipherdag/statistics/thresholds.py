"""Thresholds of an ordered response: where they start, which are one, how far a step may go.

A response with c categories in an order has one linear combination of the predictors and c - 1
thresholds t: the log odds of category k or below are t_k less the combination (proportional odds).
Its log likelihood is concave as long as the thresholds rise, so a Newton step that keeps them
rising and is halved where it does not gain ends at the maximum.

Source: McCullagh, JRSS B 42 (1980) 109-142; Pratt, JASA 76 (1981) 103-106, for the concavity.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.statistics.reproducible import on_grid

CLOSEST = 0.9
"""Of the distance between two thresholds, the most that a step may take off."""


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
