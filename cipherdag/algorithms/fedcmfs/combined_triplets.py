"""FedCMFS's triplets by one test over all sites, in place of the mean of the sites' p-values.

Leaks:
    In place of weighted p-values and strengths the coordinator sees the sums over the sites that
    `CombinedEvidence` lists, per triplet, or what another kind of evidence says; a triplet's
    strength follows from them. Where sums stay closed everybody sees verdicts alone (`ranking`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.kind import EvidenceKind, EvidenceSettings
from cipherdag.algorithms.evidence.source import ROUND_VALUES, EvidenceSource
from cipherdag.arrays import FloatVector
from cipherdag.questions.combined_evidence import (
    Combination,
    CombinedEvidence,
    combined_p,
    combined_strength,
)
from cipherdag.questions.gather import gather, map_questions
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import sum_with_threshold
from cipherdag.questions.weighted_evidence import WeightedEvidence

Outcome = TypeVar("Outcome")


def by_combination(
    asking: Generator[Question, FloatVector, Outcome], combination: Combination, fewest: int = 1
) -> Generator[Question, FloatVector, Outcome]:
    """The same search, every question of it asked as `CombinedEvidence`.

    Args:
        asking: Yields `WeightedEvidence`, one question a round.
        combination: What the sites add up.
        fewest: How many sites have to contribute to a triplet.

    Returns:
        The outcome of ``asking``, which gets the p-value over all sites, the strength where S is
        empty, and 1 for every triplet; 0 three times where the sites together cannot test it.
    """

    def answer(question: Question) -> Generator[Question, FloatVector, FloatVector]:
        if not isinstance(question, WeightedEvidence):
            raise TypeError("only weighted evidence of triplets is combined")
        combined = CombinedEvidence.about(question, combination)
        sums = yield from sum_with_threshold(combined, fewest)
        p_value = combined_p(combined, sums)
        done = ~np.isnan(p_value)
        marginal = question.counts[0] if question.counts else 0
        strength = np.where(done, combined_strength(combined, sums), 0.0)[:marginal]
        return np.concatenate([np.nan_to_num(p_value), strength, done.astype(np.float64)])

    return map_questions(asking, answer)


def by_source(
    asking: Generator[Question, FloatVector, Outcome],
    kind: EvidenceKind,
    facts: Facts,
    *,
    closed: bool = False,
) -> Generator[Question, FloatVector, Outcome]:
    """The same search, every question of it answered by the p-values of a kind of evidence.

    Args:
        asking: Yields `WeightedEvidence`, one question a round; or comparisons of strengths, which
            are asked as they are, in as many rounds as their keys need.
        kind: Whose tests.
        facts: How many sites there are, and have to contribute to what is opened.
        closed: Whether sums stay closed, and verdicts alone are found.

    Returns:
        The outcome of ``asking``, which gets what `by_combination` gives it; strengths are normal
        scores, or 0 where sums stay closed.
    """
    opened: list[EvidenceSource] = []

    def answer(question: Question) -> Generator[Question, FloatVector, FloatVector]:
        if question.opens_bits:
            comparisons = [_asked(part) for part in question.parts]
            told = yield from gather(comparisons, most_values=ROUND_VALUES)
            return np.concatenate(told)
        if not isinstance(question, WeightedEvidence):
            raise TypeError("only weighted evidence of triplets is tested")
        if not opened:
            # the test that fits the columns may be the kind's own choice
            settings = EvidenceSettings(
                spec=replace(question.test, name="auto") if kind.tests else question.test,
                n_variables=question.n_variables,
                max_rows=question.max_rows,
                present=facts.present,
                fewest=facts.fewest,
                determined=facts.determined,
                ranked=True,
            )
            opened.append((yield from kind.source(settings, closed=closed)))
        tests = [rows.astype(np.int64) for rows in question.rows()]
        p_values = yield from opened[0].p_values(tests)
        p_value = np.concatenate([np.zeros(0), *p_values])
        done = ~np.isnan(p_value)
        strength = opened[0].strengths(tests[0]) if tests else np.zeros(0)
        return np.concatenate([np.nan_to_num(p_value), strength, done.astype(np.float64)])

    return map_questions(asking, answer)


def _asked(question: Question) -> Generator[Question, FloatVector, FloatVector]:
    return (yield question)
