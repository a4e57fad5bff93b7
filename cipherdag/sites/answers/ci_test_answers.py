"""A site's answers from independence tests: votes, separating sets, evidence of tests."""

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.combined_evidence import SMALLEST_P, CombinedEvidence, WeightedEvidence
from cipherdag.questions.separators import (
    BestIndexPrecedes,
    BestScoreExceeds,
    CandidateScores,
    SeparatorSearch,
)
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.sites.answers.registry import answers
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.ci_tests.ci_test import CITest
from cipherdag.sites.compute.ci_tests.searches import (
    BestSeparators,
    best_separators,
    candidate_scores,
    sequential_layer,
    stable_layer,
)

LARGEST_P = 1.0 - 2.0**-53


def _values(
    test: CITest, rows: IndexArray, question: CombinedEvidence, levels: IndexArray | None
) -> list[FloatVector]:
    """Computes the summands of tests (x, y, s1, ..., sl), as `CombinedEvidence` lists them."""
    outcome = test.evaluate(rows[:, 0], rows[:, 1], rows[:, 2:])
    done = ~np.isnan(outcome.p_value)
    if question.combination == "weighted_p":
        weight = np.where(done, outcome.rows, 0.0)
        return [weight * np.nan_to_num(outcome.p_value), weight]
    informed = done & ~(outcome.dof == 0)
    logarithms = -2.0 * np.log(np.clip(outcome.p_value, SMALLEST_P, LARGEST_P))
    reliability = np.full(len(rows), question.rows_per_cell)
    if levels is not None:
        # floating point: the product of many levels may exceed every integer type
        cells = levels[rows].astype(np.float64).prod(axis=1)
        reliability = np.minimum(outcome.rows / cells, reliability)
    return [
        np.where(informed, logarithms, 0.0),
        informed.astype(np.float64),
        np.where(done, reliability, 0.0),
    ]


@answers(EdgeVotes)
def edge_votes(question: EdgeVotes, view: SiteView) -> FloatVector:
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
    test = view.test(question.test)
    results = [
        test.evaluate(rows[:, 0], rows[:, 1], rows[:, 2:])
        for rows in (block.astype(np.int64) for block in question.rows())
    ]
    if not results:
        return np.zeros(0)
    weights = [np.where(np.isnan(result.p_value), 0, result.rows) for result in results]
    weighted = [
        np.nan_to_num(result.p_value) * n for result, n in zip(results, weights, strict=True)
    ]
    strengths = np.where(weights[0] > 0, results[0].dependence, 0.0) * weights[0]
    return np.concatenate([*weighted, strengths, *weights]).astype(np.float64)


@answers(CombinedEvidence)
def combined(question: CombinedEvidence, view: SiteView) -> FloatVector:
    test = view.test(question.test)
    levels = view.levels if view.discrete and view.all_codes is not None else None
    parts = [_values(test, rows.astype(np.int64), question, levels) for rows in question.rows()]
    return np.concatenate([np.zeros(0), *map(np.concatenate, zip(*parts, strict=True))])


@answers(CandidateScores)
def scores(question: CandidateScores, view: SiteView) -> FloatVector:
    return candidate_scores(view.test(question.search.test), question)


@answers(BestScoreExceeds)
def best_score_exceeds(question: BestScoreExceeds, view: SiteView) -> FloatVector:
    exceeds = _best(question.search, view).score[:, None] > question.threshold_array()
    return exceeds.astype(np.float64).ravel()


@answers(BestIndexPrecedes)
def best_index_precedes(question: BestIndexPrecedes, view: SiteView) -> FloatVector:
    best = _best(question.search, view)
    attains = (best.score > 0) & (best.score == question.peak_array())
    precedes = attains[:, None] & (best.index[:, None] < question.threshold_array())
    return precedes.astype(np.float64).ravel()


def _best(search: SeparatorSearch, view: SiteView) -> BestSeparators:
    return view.remember(
        "separators", search, lambda: best_separators(view.test(search.test), search)
    )
