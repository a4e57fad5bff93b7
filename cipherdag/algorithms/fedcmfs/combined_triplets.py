"""FedCMFS's triplets by one test over all sites, in place of the mean of the sites' p-values.

Leaks:
    In place of weighted p-values and strengths the coordinator sees the sums over the sites that
    `CombinedEvidence` lists, per triplet; a triplet's strength follows from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from cipherdag.questions.combined_evidence import (
    SITE_ROWS_PER_CELL,
    CombinedEvidence,
    combined_p,
    combined_strength,
)
from cipherdag.questions.question import WeightedEvidence

if TYPE_CHECKING:
    from collections.abc import Generator

    from cipherdag.questions.combined_evidence import Combination
    from cipherdag.questions.question import FloatVector, Question

Outcome = TypeVar("Outcome")


def by_combination(
    asking: Generator[Question, FloatVector, Outcome], combination: Combination
) -> Generator[Question, FloatVector, Outcome]:
    """The same search, every question of it asked as `CombinedEvidence`.

    Args:
        asking: Yields `WeightedEvidence`, one question a round.
        combination: What the sites add up.

    Returns:
        The outcome of ``asking``, which gets the p-value over all sites, the strength where S is
        empty, and 1 for every triplet; 0 three times where the sites together cannot test it.
    """
    try:
        question = next(asking)
        while True:
            if not isinstance(question, WeightedEvidence):
                raise TypeError("only weighted evidence of triplets is combined")
            combined = _combined(question, combination)
            sums = yield combined
            p_value = combined_p(combined, sums)
            done = ~np.isnan(p_value)
            marginal = question.counts[0] if question.counts else 0
            strength = np.where(done, combined_strength(combined, sums), 0.0)[:marginal]
            question = asking.send(
                np.concatenate([np.nan_to_num(p_value), strength, done.astype(np.float64)])
            )
    except StopIteration as finished:
        outcome: Outcome = finished.value
        return outcome


def _combined(question: WeightedEvidence, combination: Combination) -> CombinedEvidence:
    needed = question.test.min_rows_per_cell
    own = min(SITE_ROWS_PER_CELL, needed)
    return CombinedEvidence(
        n_variables=question.n_variables,
        test=msgspec.structs.replace(question.test, min_rows_per_cell=own),
        combination=combination,
        counts=question.counts,
        members=question.members,
        rows_per_cell=needed,
        max_rows=question.max_rows,
    )
