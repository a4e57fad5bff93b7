"""P-values are adjusted for multiple tests, and chi-squares are turned into normal scores.

Sources: Wilson and Hilferty, PNAS 17 (1931) 684-688: the cube root of a chi-square variate by its
degrees of freedom is nearly normal (unlike p-values, scores of strong dependences do not
underflow); Holm, Scandinavian Journal of Statistics 6 (1979) 65-70; Benjamini and Hochberg, JRSS B
57 (1995) 289-300.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from cipherdag.arrays import FloatVector

WIDTH = 1.959963984540054
"""Half of a 95 % interval, in standard deviations."""
Correction = Literal["holm", "benjamini-hochberg"]


def normal_scores(statistic: FloatVector, dof: FloatVector) -> FloatVector:
    """Compute normal scores of chi-squares, shape (B,), at least 0; 0 where dof is 0."""
    informed = dof > 0
    freedom = np.where(informed, dof, 1.0)
    root = np.cbrt(np.maximum(statistic, 0.0) / freedom)
    score = (root - (1.0 - 2.0 / (9.0 * freedom))) / np.sqrt(2.0 / (9.0 * freedom))
    return np.where(informed, np.maximum(score, 0.0), 0.0)


def corrected(p_values: FloatVector, by: Correction, among: int = 0) -> FloatVector:
    """Adjust p-values for multiple tests, shape (n,).

    Args:
        p_values: Shape (n,); a test that was not done has NaN, keeps it, and is not counted.
        by: ``holm`` bounds the family-wise error rate under any dependence between the tests;
            ``benjamini-hochberg`` the false discovery rate of independent tests.
        among: How many tests they were selected from, where these are more; the others count as
            tests that reject nothing.
    """
    adjusted = np.full(len(p_values), np.nan)
    done = np.flatnonzero(~np.isnan(p_values))
    order = done[np.argsort(p_values[done], kind="stable")]
    ranks, count = np.arange(len(order), dtype=np.float64), max(len(order), among)
    if by == "holm":
        raised = np.maximum.accumulate(p_values[order] * (count - ranks))
    else:
        scaled = p_values[order] * (count / (ranks + 1.0))
        raised = np.minimum.accumulate(scaled[::-1])[::-1]
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted
