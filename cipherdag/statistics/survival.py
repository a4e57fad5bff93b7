"""Survival curves and the log-rank test from counts of events and of rows at risk.

Of a curve, whoever is censored in a bin counts as at risk in half of it, as in actuarial life
tables; or in the whole of it, as Kaplan and Meier take who is censored at the time of an event. So
the log-rank test does.

Source: Cutler and Ederer, J. Chronic Diseases 8 (1958) 699-712, for life tables; Kaplan and Meier,
JASA 53 (1958) 457-481; Greenwood's variance with the interval on the
scale log(-log S), Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data, 2nd ed.,
section 1.4; the interval of a median, Brookmeyer and Crowley, Biometrics 38 (1982) 29-41; the
log-rank test of several groups, Peto and Peto, JRSS A 135 (1972) 185-207, and its sums over strata,
Mantel, Cancer Chemotherapy Reports 50 (1966) 163-170.

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.statistics.p_values import WIDTH
from cipherdag.statistics.reproducible import LEAST_PIVOT, product, solve

HALF = 0.5
MOST_WIDENED = 2.0
"""How many times as wide as by chance alone an interval may be, before bins are too coarse."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A survival curve at the ends of its bins, arrays of shape (B,).

    Attributes:
        survival: Estimated chance to have no event up to the end of the bin.
        low: Lower end of its 95 % interval; NaN where nobody is at risk.
        high: Upper end, likewise.
        coarse: Whether the interval owes most of its width to times that nobody tells.
    """

    survival: FloatVector
    low: FloatVector
    high: FloatVector
    coarse: bool = False


def survival_curve(events: FloatVector, exposed: FloatVector) -> Curve:
    """The curve of counts, each of shape (B,); NaN in all three where nobody is at risk any more.

    Args:
        events: Rows with the event in each bin.
        exposed: Rows at risk in each, those that are censored there by a half, whole, or not.

    Before the first event, and after all that are left have had it, there is no interval but the
    estimate itself.
    """
    there = exposed > 0
    rows = np.where(there, exposed, 1.0)
    survival = np.where(there, np.cumprod(1.0 - events / rows), np.nan)
    left = np.where(rows > events, rows - events, 1.0)
    variance = np.cumsum(events / (rows * left))
    inside = there & (survival < 1.0) & (survival > 0.0)
    chance = np.where(inside, survival, HALF)
    reach = np.exp(WIDTH * np.sqrt(variance) / np.abs(np.log(chance)))
    low, high = (np.where(inside, chance**power, survival) for power in (reach, 1.0 / reach))
    return Curve(survival, low, high)


def actuarial_curve(events: FloatVector, at_risk: FloatVector, beyond: float) -> Curve:
    """The curve of bins in which rows are censored at times that nobody tells.

    They count as at risk in half of their bin. The interval is from the lower end where all were
    censored before the events of the bin to the upper end where all were after: the curve of the
    same rows at exact times lies between these two curves, whatever the times are.

    Args:
        events: Rows with the event in each bin.
        at_risk: Rows without it when the bin begins.
        beyond: Rows at risk after the last bin.
    """
    censored = at_risk - events - np.append(at_risk[1:], beyond)
    half = survival_curve(events, at_risk - HALF * censored)
    without = at_risk - censored
    first = survival_curve(events, np.where(without > 0, without, at_risk))
    last = survival_curve(events, at_risk)
    wide = bool((last.high - first.low > MOST_WIDENED * (half.high - half.low)).any())
    return Curve(half.survival, first.low, last.high, coarse=wide)


def median_of(edges: FloatVector, curve: Curve) -> tuple[float | None, float | None, float | None]:
    """The end of the bin in which a curve, and each end of its interval, falls to a half.

    Returns:
        The median and its 95 % interval; None where that does not happen.
    """
    found: list[float | None] = []
    for own in (curve.survival, curve.low, curve.high):
        down = np.flatnonzero(own <= HALF)
        found.append(float(edges[down[0]]) if len(down) else None)
    return found[0], found[1], found[2]


@dataclass(frozen=True, slots=True)
class LogRank:
    """Whether groups have events equally fast.

    Attributes:
        statistic: Chi-square.
        dof: Its degrees of freedom; 0 where nothing can be said.
        observed: Events of every group.
        expected: How many it would have if it had them as fast as all together.
    """

    statistic: float
    dof: int
    observed: tuple[float, ...]
    expected: tuple[float, ...]

    @property
    def p_value(self) -> float | None:
        """Chance of a larger statistic if all groups are alike; None without degrees of freedom."""
        from scipy.special import gammaincc

        return float(gammaincc(self.dof / 2.0, self.statistic / 2.0)) if self.dof else None


@dataclass(frozen=True, slots=True, eq=False)
class LogRankParts:
    """What a log-rank test needs of G groups; those of strata add up.

    Attributes:
        observed: Events of every group, shape (G,).
        expected: How many it would have if it had them as fast as all together, shape (G,).
        covariance: Of the events, given how many there are of all groups, shape (G, G).
    """

    observed: FloatVector
    expected: FloatVector
    covariance: FloatVector


def log_rank_parts(events: FloatVector, at_risk: FloatVector) -> LogRankParts:
    """The parts of counts by group and bin, each of shape (G, B)."""
    rows, ended = at_risk.sum(axis=0), events.sum(axis=0)
    shares = at_risk / np.maximum(rows, 1.0)
    spread = ended * (rows - ended) / np.maximum(rows - 1.0, 1.0)
    diagonal = np.diag(product(shares, spread[:, None])[:, 0])
    return LogRankParts(
        events.sum(axis=1),
        product(shares, ended[:, None])[:, 0],
        diagonal - product(shares * spread, np.ascontiguousarray(shares.T)),
    )


def log_rank(parts: LogRankParts) -> LogRank:
    """The test of its parts."""
    statistic, dof = quadratic_form(parts.observed - parts.expected, parts.covariance)
    ends = (tuple(own.tolist()) for own in (parts.observed, parts.expected))
    return LogRank(statistic, dof, *ends)


def quadratic_form(apart: FloatVector, variance: FloatVector) -> tuple[float, int]:
    """What d' V^- d is, and the rank of V, shape (m, m)."""
    scale = np.sqrt(np.maximum(variance.diagonal(), 0.0))
    scale = np.where(scale > 0.0, scale, 1.0)
    scaled = apart / scale
    solved, rank = solve(variance / (scale[:, None] * scale), scaled, least=LEAST_PIVOT)
    return max(math.fsum((scaled * solved).tolist()), 0.0), rank
