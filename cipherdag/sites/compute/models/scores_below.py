"""Scores of rows below marks of numbers in the model of an effect's treatment.

A step at a mark is added to the model, and its score less what the site's coefficients explain is
normal where the model is right, with slopes of each site or shared ones.

Source: Cox and Hinkley, Theoretical Statistics, 9.3 (score tests with nuisance parameters).
"""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.questions.estimation.effect_sums import MARKS, TREATMENT, EffectSums
from cipherdag.statistics.array_functions import Array, floats, host, like
from cipherdag.statistics.regression_models import coefficient_index

FEWEST_ROWS = 10
"""That a site has below a mark, and not below, or as many as its ``min_cell_size``."""


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

    Args:
        question: What is adjusted for.
        design: Columns of the model, shape (n, d).
        arm: Category of the treatment, shape (n,).
        chance: Of every category but the first, shape (n, arms - 1).
        weights: Of the rows, shape (n,).
        square: Minus the Hessian of the model at the site, with its intercepts.
        min_cell_size: Marks with fewer rows on either side have zeros.
    """
    sums, model = np.zeros((2, *question.compared)), question.regression(TREATMENT)
    levels = like(np.arange(1, question.arms), design)
    residual = floats(arm[:, None] == levels) - chance
    inverse = np.linalg.pinv(square, hermitian=True)
    score = host((weights[:, None] * residual).T @ design).ravel()
    numbers = [v for v in question.adjust if not question.categories[v]]
    least = max(min_cell_size, FEWEST_ROWS)
    for number, mark, other in np.ndindex(len(numbers), len(MARKS), question.arms - 1):
        column = design[:, coefficient_index(numbers[number], model, question.categories)]
        below = floats(column < MARKS[mark])
        if not least <= float(below.sum()) <= len(below) - least:
            continue
        strength = weights * below * chance[:, other]
        across = strength[:, None] * (floats(levels == other + 1) - chance)
        cross = host(across.T @ design).ravel()
        seen = float((weights * below) @ residual[:, other]) - cross @ inverse @ score
        spread = float(strength @ (1.0 - chance[:, other])) - cross @ inverse @ cross
        sums[:, other, number, mark] = seen, max(spread, 0.0)
    return sums.ravel()
