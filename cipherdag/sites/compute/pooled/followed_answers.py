"""What a site answers about times until an event, and whether it may.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import combinations

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.errors import MalformedMessageError
from cipherdag.questions.survival.counts import SurvivalCounts
from cipherdag.questions.survival.hazards import HazardSteps, HazardSums
from cipherdag.sites.compute.pooled.blur import Blur
from cipherdag.sites.compute.pooled.followed import Followed, survival_counts
from cipherdag.sites.compute.pooled.hazards import hazard_step, hazard_sums

Withheld = Callable[[IndexArray], BoolVector]

log = logging.getLogger("cipherdag.site")


def followed_answer(
    question: SurvivalCounts | HazardSteps | HazardSums,
    categories: tuple[int, ...],
    column: Callable[[int], FloatVector],
    least: int,
    withheld: Withheld,
    blur: Blur | None,
) -> FloatVector:
    """The site's answer.

    Args:
        question: What is asked.
        categories: Number of categories of every variable, 0 for a continuous one, shape (p,).
        column: Codes or values of one variable, NaN where missing, shape (rows of the site,).
        least: Smallest number of rows that may be told apart, but for 0.
        withheld: Of which sets of variables, shape (C, k), the table may not leave, shape (C,).
        blur: What moves variances; None: nothing does.

    Raises:
        MalformedMessageError: The question is about other columns than the site has.
    """
    rows = question.model if isinstance(question, HazardSums) else question
    if rows.categories != categories:
        raise MalformedMessageError("times of other columns than the site's schema has")
    if Followed.of(rows, column).impossible:
        log.warning("a time lies below 0, so that this site tells nothing of times")
    if isinstance(question, SurvivalCounts):
        spread = 1.0
        if blur is not None:
            key = blur.column(question.time) + blur.column(question.event)
            spread = float(blur.moves([key], [0])[0][0])
        return survival_counts(question, column, least=least, spread=spread)
    if isinstance(question, HazardSums):
        return hazard_sums(question, column, least=least)
    few = least > 1 and _few_of(question, withheld)
    return hazard_step(question, column, least=least, few=few)


def _few_of(model: HazardSteps, withheld: Withheld) -> bool:
    """Whether a table of two among the event and the discrete predictors has small counts."""
    discrete = [model.event, *(v for v in model.predictors if model.categories[v])]
    pairs = [sorted(own) for own in combinations(discrete, 2)]
    single = withheld(np.array([[model.event]], dtype=np.int64))
    return bool(single.any() or withheld(np.array(pairs, dtype=np.int64).reshape(-1, 2)).any())
