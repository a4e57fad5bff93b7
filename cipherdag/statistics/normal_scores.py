"""Chi-square statistics as normal scores, which can be compared whatever their degrees of freedom.

Source: Wilson and Hilferty, PNAS 17 (1931) 684-688: the cube root of a chi-square variate by its
degrees of freedom is nearly normal. Unlike p-values, scores of strong dependences do not underflow.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import FloatVector

WIDTH = 1.959963984540054
"""Half of a 95 % interval, in standard deviations."""


def normal_scores(statistic: FloatVector, dof: FloatVector) -> FloatVector:
    """Scores of chi-square statistics, shape (B,), at least 0; 0 without degrees of freedom."""
    informed = dof > 0
    freedom = np.where(informed, dof, 1.0)
    root = np.cbrt(np.maximum(statistic, 0.0) / freedom)
    score = (root - (1.0 - 2.0 / (9.0 * freedom))) / np.sqrt(2.0 / (9.0 * freedom))
    return np.where(informed, np.maximum(score, 0.0), 0.0)
