"""A site's half of FedCMFS: its p-values and strengths of triplets, weighted by its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.sites.compute.ci_tests.ci_test import Evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.questions.question import WeightedEvidence
    from cipherdag.sites.compute.ci_tests.ci_test import CITest, FloatVector, IndexArray


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


class VaryingOnly:
    """A test that is unreliable wherever x or y has one value only at the site.

    Args:
        test: The test.
        varies: Whether each variable has at least two values at the site, shape (p,).
    """

    def __init__(self, test: CITest, varies: NDArray[np.bool_]) -> None:
        self._test = test
        self._varies = varies

    @property
    def n_variables(self) -> int:
        """Number of variables, addressed by position 0..n_variables-1."""
        return self._test.n_variables

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> Evidence:
        """See `CITest.evaluate`; p-values are NaN where x or y does not vary."""
        outcome = self._test.evaluate(x, y, given)
        dumb = ~(self._varies[x] & self._varies[y])
        return Evidence(
            p_value=np.where(dumb, np.nan, outcome.p_value),
            statistic=outcome.statistic,
            dof=outcome.dof,
            dependence=outcome.dependence,
            rows=outcome.rows,
        )
