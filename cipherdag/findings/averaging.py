"""One interval of a difference over several sets of causes, by how many graphs have each.

Source: Hoeting, Madigan, Raftery and Volinsky, "Bayesian model averaging: a tutorial", Statistical
Science 14, 1999, for the mixture of the sets' normals.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cipherdag.findings.effect import AdjustedEffect, BetweenSites, Contrast
from cipherdag.statistics.p_values import WIDTH

SURE = 0.95
SUPPOSED = "If nothing unmeasured causes two of these variables, and relations are straight lines:"
OTHERWISE = (
    "In the other graphs {outcome} causes {treatment}, or neither causes the other. Which it is, "
    "time tells (--tiers before the graph is learnt), or more rows, or a trial."
)
TAILS = (0.025, 0.975)
REACH = 6.0  # standard errors within which every normal has all but a share far below `TAILS`


def averaged_effect(sets: Sequence[AdjustedEffect]) -> Contrast | None:
    """The first difference over the sets that have a share of graphs; None where none has."""
    sampled = [one for one in sets if one.share and one.contrasts]
    if not sampled:
        return None
    return averaged([one.share or 0.0 for one in sampled], [*map(_first, sampled)])


def _first(effect: AdjustedEffect) -> Contrast:
    """The first contrast, with the larger of its error and that of the sites' differences."""
    first = effect.contrasts[0]
    spreads = (one for one in effect.between if one.arm == first.arm)
    return next((with_scatter(first, one) for one in spreads), first)


def with_scatter(contrast: Contrast, between: BetweenSites) -> Contrast:
    """The same with the error that the sites' differences show, where that is the larger one.

    It is the error of their mean times the root of Q over its degrees of freedom, and the quantile
    of t with as many degrees in place of the normal one.
    """
    from scipy.special import stdtrit

    degrees = between.sites - 1
    scale = math.sqrt(between.q / degrees) * float(stdtrit(degrees, TAILS[1])) / WIDTH
    return replace(contrast, error=contrast.error * max(1.0, scale))


def averaged(shares: Sequence[float], contrasts: Sequence[Contrast]) -> Contrast:
    """The mean over graphs of one difference, and the middle 95 % of their normals, mixed."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    weights = np.array(shares) / math.fsum(shares)
    means, errors = (
        np.array([getattr(c, name) for c in contrasts]) for name in ("estimate", "error")
    )
    mean = float(weights @ means)
    error = math.sqrt(float(weights @ (errors**2 + means**2)) - mean**2)

    def below(value: float, share: float) -> float:
        return float(weights @ ndtr((value - means) / errors)) - share

    reach = min(means - REACH * errors), max(means + REACH * errors)
    low, high = (brentq(below, *reach, args=(share,)) for share in TAILS)
    return replace(contrasts[0], estimate=mean, error=error, low=low, high=high)
