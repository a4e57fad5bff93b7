"""A site's answers from independence tests: votes, separating sets, evidence of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.questions.combined_evidence import CombinedEvidence
from cipherdag.questions.separators import (
    BestIndexPrecedes,
    BestScoreExceeds,
    CandidateScores,
    SeparatorSearch,
)
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.questions.weighted_evidence import WeightedEvidence
from cipherdag.sites.answers.registry import answers
from cipherdag.sites.answers.site_view import SiteView

if TYPE_CHECKING:
    from cipherdag.sites.compute.ci_tests.searches import BestSeparators


@answers(EdgeVotes)
def edge_votes(question: EdgeVotes, view: SiteView) -> FloatVector:
    """1 for every edge that the site keeps; where sites abstain, also 1 for those it can test."""
    from cipherdag.sites.compute.ci_tests.searches import sequential_layer, stable_layer

    test, skeleton = view.test(question.test), question.skeleton.matrix()
    layer, alpha = question.layer, question.test.alpha
    x, y = question.skeleton.edges().T
    if question.order == "sequential":
        remaining = sequential_layer(test, skeleton, layer=layer, alpha=alpha)[x, y]
        return np.where(remaining, 1.0, 0.0)
    votes = stable_layer(test, skeleton, layer=layer, alpha=alpha)
    remaining, tested = votes.remaining[x, y], votes.tested[x, y]
    if not question.abstain:
        return np.where(remaining, 1.0, 0.0)
    return np.where(np.concatenate([remaining & tested, tested]), 1.0, 0.0)


@answers(WeightedEvidence)
def weighted(question: WeightedEvidence, view: SiteView) -> FloatVector:
    """Weighted p-values and strengths of the site's tests."""
    from cipherdag.sites.compute.ci_tests.summands import weighted_evidence

    return weighted_evidence(view.test(question.test), question)


@answers(CombinedEvidence)
def combined(question: CombinedEvidence, view: SiteView) -> FloatVector:
    """Summands of the site's tests."""
    from cipherdag.sites.compute.ci_tests.summands import combined_evidence

    levels = view.levels if view.discrete and view.all_codes is not None else None
    return combined_evidence(view.test(question.test), question, levels)


@answers(CandidateScores)
def scores(question: CandidateScores, view: SiteView) -> FloatVector:
    """Scores of candidate separating sets."""
    from cipherdag.sites.compute.ci_tests.searches import candidate_scores

    return candidate_scores(view.test(question.search.test), question)


@answers(BestScoreExceeds)
def best_score_exceeds(question: BestScoreExceeds, view: SiteView) -> FloatVector:
    """1 where the best score of a pair exceeds a threshold, row by row."""
    exceeds = _best(question.search, view).score[:, None] > question.threshold_array()
    return exceeds.astype(np.float64).ravel()


@answers(BestIndexPrecedes)
def best_index_precedes(question: BestIndexPrecedes, view: SiteView) -> FloatVector:
    """1 where a set that attains the best score has a smaller index than a threshold."""
    best = _best(question.search, view)
    attains = (best.score > 0) & (best.score == question.peak_array())
    precedes = attains[:, None] & (best.index[:, None] < question.threshold_array())
    return precedes.astype(np.float64).ravel()


def _best(search: SeparatorSearch, view: SiteView) -> BestSeparators:
    from cipherdag.sites.compute.ci_tests.searches import best_separators

    return view.remember(
        "separators", search, lambda: best_separators(view.test(search.test), search)
    )
