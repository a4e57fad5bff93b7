"""Which groups can be compared, so that curves and test are of the same sites."""

from __future__ import annotations

from collections.abc import Generator

import msgspec
import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.questions.estimation.survival import FEWEST_GROUPS, SurvivalCounts
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import ContributorCounts, open_unsuppressed, sum_with_threshold

Comparing = Generator["Question", "FloatVector", tuple[SurvivalCounts, FloatVector]]

SHARE = 0.5
"""Of the sites of a curve, which the test leaves at least: those that do not tell of all groups
that are compared tell of none of them."""


def compared(question: SurvivalCounts, fewest: int) -> Comparing:
    """The sums of groups, and of the test of those that enough sites tell of together.

    Sites say of which groups they tell, and then whether they tell of all that may be compared.
    The group that the fewest sites tell of, of several the last, is left out as long as too few
    tell of all.

    Args:
        question: The groups, of which none is compared yet.
        fewest: How many sites have to tell.

    Returns:
        The question that was asked, and its sums.

    Leaks:
        How many sites tell of each group, and how many of all those that may be compared.
    """
    if question.n_groups < FEWEST_GROUPS:
        return question, (yield from sum_with_threshold(question, fewest))
    needed = max(fewest, 1)
    counts = np.rint((yield ContributorCounts(question=question)))
    left = counts[:-1] >= needed
    while left.sum() >= FEWEST_GROUPS:
        chosen = tuple(np.flatnonzero(left).tolist())
        asked = msgspec.structs.replace(question, compared=chosen)
        able = np.rint((yield ContributorCounts(question=asked)))
        if able[-1] >= max(needed, SHARE * counts[:-1][left].max()):
            break
        fewest_tell = left & (counts[:-1] == counts[:-1][left].min())
        left[np.flatnonzero(fewest_tell)[-1]] = False
    else:
        asked, able = question, counts
    if fewest <= 1:
        return asked, (yield asked)
    return asked, (yield from open_unsuppressed(asked, able >= needed))
