"""A site's tests give the summands that meta-analysis adds over all sites."""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.combined_evidence import SMALLEST_P, CombinedEvidence
from cipherdag.questions.weighted_evidence import WeightedEvidence
from cipherdag.sites.compute.ci_tests.ci_test import CITest

LARGEST_P = 1.0 - 2.0**-53


def combined_evidence(
    test: CITest, question: CombinedEvidence, levels: IndexArray | None
) -> FloatVector:
    """Answers `CombinedEvidence`: the summands of a combination of p-values.

    Args:
        test: Test over the site's data.
        question: Triplets, and the combination.
        levels: Levels of every variable at the site, shape (p,), if it tests tables.
    """
    parts = [_values(test, rows.astype(np.int64), question, levels) for rows in question.rows()]
    return np.concatenate([np.zeros(0), *map(np.concatenate, zip(*parts, strict=True))])


def _values(
    test: CITest, rows: IndexArray, question: CombinedEvidence, levels: IndexArray | None
) -> list[FloatVector]:
    """Computes the summands of triplets (x, y, s1, ..., sl)."""
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


def weighted_evidence(test: CITest, question: WeightedEvidence) -> FloatVector:
    """Answers `WeightedEvidence`: n p of all triplets, n r of those with empty S, and all n.

    A triplet whose test is unreliable weighs nothing: its values are 0 in every segment.
    """
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
