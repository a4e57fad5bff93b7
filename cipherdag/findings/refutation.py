"""What estimates after changes that should, or should not, matter say of an effect.

Sources: Sharma and Kiciman, arXiv:2011.04216 (refuters); Efron and Tibshirani, An Introduction to
the Bootstrap (1993), chapter 11 (the jackknife).

Leaks:
    Nothing new: all of it follows from opened sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cipherdag.findings.effect import Change, Contrast, Refutation

FEWEST_PARTS = 2
"""That can scatter."""


def found_by(
    refutations: Sequence[Refutation], change: Change, arm: int | None
) -> tuple[Contrast, ...]:
    """The estimates after changes of one kind, of one category of the treatment."""
    return tuple(
        one
        for own in refutations
        if own.change == change
        for one in own.contrasts
        if one.arm == arm and math.isfinite(one.estimate)
    )


def normal_p_value(one: Contrast) -> float:
    """Of a difference of 0, two-sided; 1 where its error is not known or 0."""
    if not 0.0 < one.error < math.inf:
        return 1.0
    return math.erfc(abs(one.estimate) / one.error / math.sqrt(2.0))


def left_out_p_value(parts: Sequence[Contrast], error: float) -> float:
    """Whether estimates that each leave out another part scatter as a standard error says.

    Args:
        parts: The estimates, of parts about alike in size.
        error: The standard error of the estimate from all rows.

    Returns:
        A p-value: small where they scatter more widely. 1 of fewer than two.
    """
    from scipy.special import gammaincc

    count = len(parts)
    if count < FEWEST_PARTS or not 0.0 < error < math.inf:
        return 1.0
    mean = math.fsum(own.estimate for own in parts) / count
    squares = math.fsum((own.estimate - mean) ** 2 for own in parts)
    scatter = squares * (count - 1) ** 2 / (count * error * error)
    return float(gammaincc((count - 1) / 2.0, scatter / 2.0))
