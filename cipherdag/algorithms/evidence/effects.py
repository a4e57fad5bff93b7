"""How strongly and with which sign two variables go together, from sums that a test opened anyway.

A correlation has Fisher's interval, an odds ratio that of its logarithm; both at 95 %, of the one
test that they belong to. Where more than two categories meet, no single number has a sign, and none
is given.

Source: Fisher, Metron 1 (1921) 3-32; Yusuf, Peto et al., Progress in Cardiovascular Diseases 27
(1985) 335-371 (one-step odds ratio, which is off where the association is strong); Mantel and
Haenszel, JNCI 22 (1959) 719-748; Robins, Breslow and Greenland, Biometrics 42 (1986) 311-323 (its
variance).

Leaks:
    Nothing: pure arithmetic.
"""

from __future__ import annotations

import math

from cipherdag.arrays import FloatVector
from cipherdag.graphs.edge_evidence import SIGN, Effect
from cipherdag.statistics.p_values import WIDTH

CORRELATION = "partial correlation"
ODDS, ONE_STEP_ODDS, ODDS_PER_UNIT = "odds ratio", "one-step odds ratio", "odds ratio per unit"
ONE_STEP_PER_DEVIATION = "one-step odds ratio per standard deviation"
LEAST_SHOWN, MOST_POWER = 0.05, 9
MOST_ONE_STEP = math.log(2.0)
"""Of the logarithm: of stronger ones in rare categories the interval covers too seldom."""
LARGEST_LOG = 700.0  # beyond, an exponential is no 64-bit float


def of_correlation(score: float, deviation: float) -> Effect | None:
    """The effect of a correlation r; None where it is not known.

    Args:
        score: atanh(r).
        deviation: Its standard deviation, 1 / sqrt(n - |S| - 3).
    """
    if not (math.isfinite(score) and math.isfinite(deviation)):
        return None
    value, low, high = (math.tanh(score + way * WIDTH * deviation) for way in (0.0, -1.0, 1.0))
    return Effect(CORRELATION, value, low, high)


def of_log_odds(log_odds: float, deviation: float, measure: str) -> Effect | None:
    """The effect of the logarithm of an odds ratio; None where it is not known or has no bounds."""
    most = abs(log_odds) + WIDTH * deviation
    if not (deviation > 0.0 and most < LARGEST_LOG):
        return None
    value, low, high = (math.exp(log_odds + way * WIDTH * deviation) for way in (0.0, -1.0, 1.0))
    return Effect(measure, value, low, high)


def per_units(log_odds: float, deviation: float) -> Effect | None:
    """The effect of an odds ratio per unit, or per so many units that it can be read.

    Per gram a ratio may be 1.0001, which would be shown as 1: it is then told per 10, 100, ...
    units, as many as make its logarithm, or the deviation of that, a twentieth at least.
    """
    power = 0
    largest = max(abs(log_odds), deviation)
    while 0.0 < largest * 10.0**power < LEAST_SHOWN and power < MOST_POWER:
        power += 1
    measure = ODDS_PER_UNIT if power == 0 else f"odds ratio per {10**power:,} units"
    return of_log_odds(log_odds * 10.0**power, deviation * 10.0**power, measure)


def one_step(log_odds: float, deviation: float, measure: str = ONE_STEP_ODDS) -> Effect | None:
    """The effect of a one-step logarithm of an odds ratio: of a strong one the sign alone."""
    if abs(log_odds) <= MOST_ONE_STEP:
        return of_log_odds(log_odds, deviation, measure)
    return Effect(SIGN, math.copysign(1.0, log_odds), None, None)


def mantel_haenszel(tables: FloatVector) -> Effect | None:
    """The common odds ratio of tables, shape (c, 2, 2); None where it has no bounds."""
    tables = tables[tables.sum(axis=(1, 2)) > 0]
    rows = tables.sum(axis=(1, 2))
    alike = tables[:, 0, 0] * tables[:, 1, 1] / rows
    apart = tables[:, 0, 1] * tables[:, 1, 0] / rows
    for_alike = (tables[:, 0, 0] + tables[:, 1, 1]) / rows
    r, s = float(alike.sum()), float(apart.sum())
    if r == 0.0 or s == 0.0:
        return None
    variance = (
        float(for_alike @ alike) / (2 * r * r)
        + float(for_alike @ apart + (1 - for_alike) @ alike) / (2 * r * s)
        + float((1 - for_alike) @ apart) / (2 * s * s)
    )
    return of_log_odds(math.log(r / s), math.sqrt(variance), ODDS)
