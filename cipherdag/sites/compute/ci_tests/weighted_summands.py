"""A site's half of FedCMFS: its p-values and strengths of triplets, weighted by its rows."""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.questions.weighted_evidence import WeightedEvidence
from cipherdag.sites.compute.ci_tests.ci_test import CITest


def weighted_evidence(test: CITest, question: WeightedEvidence) -> FloatVector:
    """The answer to `WeightedEvidence`: n p of all triplets, n r of those with empty S, all n.

    A triplet whose test is unreliable weighs nothing: its values are 0 in every segment.
    """
    outcomes = [
        test.evaluate(rows[:, 0], rows[:, 1], rows[:, 2:])
        for rows in (block.astype(np.int64) for block in question.rows())
    ]
    if not outcomes:
        return np.zeros(0)
    weights = [np.where(np.isnan(own.p_value), 0, own.rows) for own in outcomes]
    weighted = [np.nan_to_num(own.p_value) * n for own, n in zip(outcomes, weights, strict=True)]
    strengths = np.where(weights[0] > 0, outcomes[0].dependence, 0.0) * weights[0]
    return np.concatenate([*weighted, strengths, *weights]).astype(np.float64)
