"""Scores of rows below marks of numbers, and of squares, in the model of an effect's treatment.

A step at a mark, or the square, is added to the model, and its score less what the site's
coefficients explain is normal where the model is right, with slopes of each site or shared ones.

Source: Cox and Hinkley, Theoretical Statistics, 9.3 (score tests with nuisance parameters).
"""

from collections.abc import Iterator

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.questions.estimation.effect_sums import (
    MARKS,
    TREATMENT,
    EffectSums,
)
from cipherdag.statistics.array_functions import Array, floats, functions_of, host, like
from cipherdag.statistics.regression_fits import LEAST_REST
from cipherdag.statistics.regression_models import coefficient_index

FARTHEST_SQUARED = 3.0  # common units at which a number is clipped before it is squared
FEWEST_ROWS = 10  # that a site has between two marks at least, or as many as its ``min_cell_size``


def scores_below(
    question: EffectSums,
    design: Array,
    arm: Array,
    chance: Array,
    weights: Array,
    square: FloatMatrix,
    min_cell_size: int,
) -> FloatVector:
    """The scores and then their variances, shape (2 k,), of which `EffectSums.compared` has k.

    The model's ``design``, (n, d), categories of the treatment (``arm``), ``chance`` of every
    category but the first, (n, arms - 1), and ``weights`` are of the rows; ``square`` is minus the
    Hessian at the site, with its intercepts. Marks have zeros where an arm has fewer rows than
    ``min_cell_size``, but some, between two of them.
    """
    sums, model = np.zeros((2, *question.compared)), question.regression(TREATMENT)
    levels = like(np.arange(1, question.arms), design)
    residual = floats(arm[:, None] == levels) - chance
    inverse = np.linalg.pinv(square, hermitian=True)
    score = host((weights[:, None] * residual).T @ design).ravel()
    numbers = [v for v in question.adjust if not question.categories[v]]
    least = max(min_cell_size, FEWEST_ROWS)
    for number, variable in enumerate(numbers):
        column = design[:, coefficient_index(variable, model, question.categories)]
        marks = [*_disclosable(column, arm, question.arms, least, min_cell_size)]
        added = {mark: floats(column < MARKS[mark]) for mark in marks}
        if marks:
            reach = functions_of(column).clip(column, -FARTHEST_SQUARED, FARTHEST_SQUARED)
            added[len(MARKS)] = reach * reach
        for at, values in added.items():
            for other in range(question.arms - 1):
                strength = weights * values * chance[:, other]
                across = strength[:, None] * (floats(levels == other + 1) - chance)
                cross = host(across.T @ design).ravel()
                seen = float((weights * values) @ residual[:, other]) - cross @ inverse @ score
                varied = float((strength * values) @ (1.0 - chance[:, other]))
                # what regression leaves of a square that it explains is rounding
                spread = varied - cross @ inverse @ cross
                spread = spread if spread > LEAST_REST * varied else 0.0
                sums[:, other, number, at] = seen, spread
    return sums.ravel()


def _disclosable(
    column: Array, arm: Array, arms: int, least: int, min_cell_size: int
) -> Iterator[int]:
    """The marks below which, and between which, no arm has 1 to ``min_cell_size`` - 1 rows.

    Scores at two marks differ by what the rows between them say. So these are enough, too.
    """
    last = -np.inf
    for number, mark in enumerate(MARKS):
        parts = (column >= last) & (column < mark), column >= mark
        counts = [[int((part & (arm == each)).sum()) for each in range(arms)] for part in parts]
        many = all(sum(each) >= least for each in counts)
        if many and not any(0 < each < min_cell_size for each in [*counts[0], *counts[1]]):
            last = mark
            yield number
