"""Score tests of the treatment's model of an effect: is a step, or a square, of a number missing?

A step is an indicator of the rows below a mark. A term's score is corrected for the coefficients
that the site fitted, per site or shared. It then has mean 0 where the model is right.

Source: Cox and Hinkley, Theoretical Statistics, 9.3 (score tests with nuisance parameters).
"""

from collections.abc import Iterator

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector
from cipherdag.questions.estimation.effect_sums import MARKS, TREATMENT, EffectSums
from cipherdag.statistics.array_functions import Array, floats, functions_of, host, like
from cipherdag.statistics.regression_fits import LEAST_REST
from cipherdag.statistics.regression_models import coefficient_index

FARTHEST_SQUARED = 3.0  # common units at which a number is clipped before it is squared
FEWEST_ROWS = 10  # between two marks at a site; more if its ``min_cell_size`` is larger


def scores_below(
    question: EffectSums,
    design: Array,
    arm: Array,
    chance: Array,
    weights: Array,
    square: FloatMatrix,
    min_cell_size: int,
) -> FloatVector:
    """The scores, then their variances, each of shape `EffectSums.compared`, as one vector.

    Each row has a ``design``, (n, d), an ``arm`` (its category of the treatment), its ``chance`` of
    every category but the first, (n, arms - 1), and a weight. ``square`` is minus the Hessian at
    the site, with the site's intercepts. Terms that may not be disclosed have zeros.
    """
    tested, model = np.zeros((2, *question.compared)), question.regression(TREATMENT)
    levels = like(np.arange(1, question.arms), design)
    residual = floats(arm[:, None] == levels) - chance
    inverse = np.linalg.pinv(square, hermitian=True)
    fitted = host((weights[:, None] * residual).T @ design).ravel()
    numbers = [v for v in question.adjust if not question.categories[v]]
    least = max(min_cell_size, FEWEST_ROWS)
    for number, variable in enumerate(numbers):
        column = design[:, coefficient_index(variable, model, question.categories)]
        marks = [*_disclosable(column, arm, question.arms, least, min_cell_size)]
        terms = {mark: floats(column < MARKS[mark]) for mark in marks}
        if marks:
            clipped = functions_of(column).clip(column, -FARTHEST_SQUARED, FARTHEST_SQUARED)
            terms[len(MARKS)] = clipped * clipped
        for position, term in terms.items():
            for category in range(question.arms - 1):
                weighted = weights * term * chance[:, category]
                across = weighted[:, None] * (floats(levels == category + 1) - chance)
                cross = host(across.T @ design).ravel()
                plain = float((weights * term) @ residual[:, category])
                information = float((weighted * term) @ (1.0 - chance[:, category]))
                variance = information - cross @ inverse @ cross
                # a term that the model explains leaves rounding errors
                variance = variance if variance > LEAST_REST * information else 0.0
                tested[:, category, number, position] = plain - cross @ inverse @ fitted, variance
    return tested.ravel()


def _disclosable(
    column: Array, arm: Array, arms: int, least: int, min_cell_size: int
) -> Iterator[int]:
    """The marks where no arm has 1 to ``min_cell_size`` - 1 rows, above or since the last mark.

    Scores at two marks differ by what the rows between them say, so those are counted as well.
    """
    last = -np.inf
    for number, mark in enumerate(MARKS):
        parts = (column >= last) & (column < mark), column >= mark
        counts = [[int((part & (arm == each)).sum()) for each in range(arms)] for part in parts]
        many = all(sum(each) >= least for each in counts)
        if many and not any(0 < each < min_cell_size for each in [*counts[0], *counts[1]]):
            last = mark
            yield number
