"""Normal scores of chi-square statistics, and p-values of many tests corrected for how many.

Sources: Wilson and Hilferty, PNAS 17 (1931) 684-688: the cube root of a chi-square variate by its
degrees of freedom is nearly normal (unlike p-values, scores of strong dependences do not
underflow); Holm, Scandinavian Journal of Statistics 6 (1979) 65-70; Benjamini and Hochberg, JRSS B
57 (1995) 289-300.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from cipherdag.arrays import FloatVector

WIDTH = 1.959963984540054
"""Half of a 95 % interval, in standard deviations."""
Correction = Literal["holm", "benjamini-hochberg"]


def normal_scores(statistic: FloatVector, dof: FloatVector) -> FloatVector:
    """Scores of chi-square statistics, shape (B,), at least 0; 0 without degrees of freedom."""
    informed = dof > 0
    freedom = np.where(informed, dof, 1.0)
    root = np.cbrt(np.maximum(statistic, 0.0) / freedom)
    score = (root - (1.0 - 2.0 / (9.0 * freedom))) / np.sqrt(2.0 / (9.0 * freedom))
    return np.where(informed, np.maximum(score, 0.0), 0.0)


def corrected(p_values: FloatVector, by: Correction, among: int = 0) -> FloatVector:
    """Adjusted p-values, shape (n,); NaN, a test that was not done, stays so and counts for none.

    Args:
        p_values: Shape (n,).
        by: ``holm`` bounds the chance that any of what is rejected is true, whatever the tests have
            to do with each other; ``benjamini-hochberg`` the share of what is rejected that is,
            where they are independent.
        among: How many tests they were chosen from, where that is more: the others count as tests
            that reject nothing.
    """
    found = np.full(len(p_values), np.nan)
    done = np.flatnonzero(~np.isnan(p_values))
    order = done[np.argsort(p_values[done], kind="stable")]
    ranks, count = np.arange(len(order), dtype=np.float64), max(len(order), among)
    if by == "holm":
        raised = np.maximum.accumulate(p_values[order] * (count - ranks))
    else:
        scaled = p_values[order] * (count / (ranks + 1.0))
        raised = np.minimum.accumulate(scaled[::-1])[::-1]
    found[order] = np.minimum(raised, 1.0)
    return found
