"""Effect sizes with 95 % intervals are computed from sums that a test opened anyway.

A correlation has Fisher's interval, an odds ratio that of its logarithm. Associations of more than
two categories have no effect size, since no single number has their sign.

Source: Fisher, Metron 1 (1921) 3-32; Yusuf, Peto et al., Progress in Cardiovascular Diseases 27
(1985) 335-371 (one-step odds ratio, which is off where the association is strong); Mantel and
Haenszel, JNCI 22 (1959) 719-748; Robins, Breslow and Greenland, Biometrics 42 (1986) 311-323 (its
variance).
"""

import math

from cipherdag.arrays import FloatVector
from cipherdag.graphs.edge_evidence import SIGN, EffectSize
from cipherdag.statistics.p_values import WIDTH

CORRELATION = "partial correlation"
ODDS, ONE_STEP_ODDS, ODDS_PER_UNIT = "odds ratio", "one-step odds ratio", "odds ratio per unit"
ONE_STEP_PER_DEVIATION = "one-step odds ratio per standard deviation"
LEAST_SHOWN, MOST_POWER = 0.05, 9
MOST_ONE_STEP = math.log(2.0)
"""Logarithm beyond which intervals of one-step odds ratios in rare categories are too narrow."""
LARGEST_LOG = 700.0  # beyond, an exponential is no 64-bit float


def of_correlation(fisher_z: float, deviation: float) -> EffectSize | None:
    """Return the effect of r of which Fisher's z, atanh(r), has a deviation; None if not finite."""
    if not (math.isfinite(fisher_z) and math.isfinite(deviation)):
        return None
    value, low, high = (math.tanh(fisher_z + sign * WIDTH * deviation) for sign in (0.0, -1.0, 1.0))
    return EffectSize(CORRELATION, value, low, high)


def of_log_odds(log_odds: float, deviation: float, measure: str) -> EffectSize | None:
    """Return the effect of a log odds ratio; None where its interval has no finite bounds."""
    most = abs(log_odds) + WIDTH * deviation
    if not (deviation > 0.0 and most < LARGEST_LOG):
        return None
    value, low, high = (math.exp(log_odds + sign * WIDTH * deviation) for sign in (0.0, -1.0, 1.0))
    return EffectSize(measure, value, low, high)


def per_units(log_odds: float, deviation: float) -> EffectSize | None:
    """Return the effect of an odds ratio per unit, or per 10, 100, ... units where it is near 1.

    A ratio per gram may be 1.0001, which would be shown as 1. The number of units makes its
    logarithm, or the deviation of that, a twentieth at least.
    """
    power = 0
    largest = max(abs(log_odds), deviation)
    while 0.0 < largest * 10.0**power < LEAST_SHOWN and power < MOST_POWER:
        power += 1
    measure = ODDS_PER_UNIT if power == 0 else f"odds ratio per {10**power:,} units"
    return of_log_odds(log_odds * 10.0**power, deviation * 10.0**power, measure)


def one_step(log_odds: float, deviation: float, measure: str = ONE_STEP_ODDS) -> EffectSize | None:
    """Return the effect of a one-step log odds ratio; of a strong one the sign alone."""
    if abs(log_odds) <= MOST_ONE_STEP:
        return of_log_odds(log_odds, deviation, measure)
    return EffectSize(SIGN, math.copysign(1.0, log_odds), None, None)


def mantel_haenszel(tables: FloatVector) -> EffectSize | None:
    """Estimate the common odds ratio of tables, shape (c, 2, 2); None where it has no bounds."""
    tables = tables[tables.sum(axis=(1, 2)) > 0]
    rows = tables.sum(axis=(1, 2))
    concordant = tables[:, 0, 0] * tables[:, 1, 1] / rows
    discordant = tables[:, 0, 1] * tables[:, 1, 0] / rows
    share = (tables[:, 0, 0] + tables[:, 1, 1]) / rows
    r, s = float(concordant.sum()), float(discordant.sum())
    if r == 0.0 or s == 0.0:
        return None
    variance = (
        float(share @ concordant) / (2 * r * r)
        + float(share @ discordant + (1 - share) @ concordant) / (2 * r * s)
        + float((1 - share) @ discordant) / (2 * s * s)
    )
    return of_log_odds(math.log(r / s), math.sqrt(variance), ODDS)
