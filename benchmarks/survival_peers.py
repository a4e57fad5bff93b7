"""Curves, log-rank tests and Cox models on all rows in one place, by statsmodels."""

from __future__ import annotations

import numpy as np
import plain_effects
from scipy import stats
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.duration.survfunc import SurvfuncRight, survdiff


def of(found, rows, site, *, one_hazard):
    """Per figure estimates and standard errors over the sites, and what statsmodels makes of them.

    Args:
        found: The analysis: months until died by arm.
        rows: Complete rows.
        site: The site of each.
        one_hazard: Whether the Cox model has one hazard, in bins.
    """
    edges = np.array(found.edges)
    months, died = rows["months"].to_numpy(), (rows["died"] == "yes").to_numpy()
    place = np.searchsorted(edges, months)
    inside = died & (place < len(edges))
    times = edges[np.minimum(place, len(edges) - 1)]
    within = survdiff(months, died, rows["arm"], strata=site)
    exact = {"log-rank within sites": (found.test, within)}
    tests = exact | {"log-rank of all rows": (found.together, survdiff(times, inside, rows["arm"]))}
    model = "Cox, one hazard" if one_hazard else "Cox, a hazard of each site"
    cox = (times, inside, None) if one_hazard else (months, died, site)
    return {
        "Kaplan-Meier": _curves(found, rows["arm"].to_numpy(), times, inside),
        **{name: _test(*own) for name, own in tests.items()},
        model: _cox(found, rows, *cox),
    }


def _curves(found, arm, times, inside):
    """Survival at every edge with an event, its error that of both ends at log(-log S)."""
    own, theirs, ends, their_ends = [], [], [], []
    for name, curve in zip(sorted(set(arm)), found.curves, strict=True):
        known = SurvfuncRight(times[arm == name], inside[arm == name])
        at = np.searchsorted(found.edges, known.surv_times)
        some = (known.surv_prob > 0.0) & (known.surv_prob < 1.0)
        at, chance, error = at[some], known.surv_prob[some], known.surv_prob_se[some]
        reach = np.exp(stats.norm.ppf(0.975) * error / (chance * np.abs(np.log(chance))))
        own += list(np.array(curve.survival, dtype=float)[at])
        theirs += list(chance)
        ends += list((np.array(curve.high, dtype=float) - np.array(curve.low, dtype=float))[at])
        their_ends += list(chance ** (1.0 / reach) - chance**reach)
    return tuple(map(np.array, (own, ends, theirs, their_ends)))


def _test(own, known):
    return np.array([own.statistic]), None, np.array(known[:1]), None


def _cox(found, rows, times, ended, strata):
    """Coefficients per unit and standard errors, of numbers by their deviations."""
    names = list(dict.fromkeys(own.column for own in found.model.ratios))
    columns = [rows[own].to_numpy() for own in names]
    numbers = [c.dtype.kind == "f" for c in columns]
    units = [c.std() if own else 1.0 for c, own in zip(columns, numbers, strict=True)]
    columns = [
        (c - c.mean()) / unit if own else c
        for c, unit, own in zip(columns, units, numbers, strict=True)
    ]
    X = plain_effects.design(*columns)[:, 1:]
    known = PHReg(times, X, ended.astype(int), strata=strata, ties="efron").fit(disp=0)
    per_column = [units[names.index(own.column)] for own in found.model.ratios]
    return (
        np.array([own.log_ratio for own in found.model.ratios]),
        np.array([own.deviation for own in found.model.ratios]),
        known.params / per_column,
        known.bse / per_column,
    )
