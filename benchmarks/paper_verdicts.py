"""How a figure of ours compares with a paper's: one rule for all papers, and tests over methods.

Ours is a median over samples or seeds with its interval, or a mean where the results hold means. It
equals the printed figure where the interval holds that figure. Fewer than `FEWEST` samples say
nothing.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from scipy.stats import binom, friedmanchisquare, rankdata, studentized_range, t

VERDICTS = ("better", "equal", "worse", "too few samples")
SIGNS = dict(zip(VERDICTS, ("+", "=", "-", "?"), strict=True))
FEWEST = 5
LEVEL = 0.05
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure over several samples, its interval and their number."""

    centre: float
    low: float
    high: float
    samples: int


def results(name: str) -> dict:
    """A result file."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def of_values(values: list[float]) -> Estimate:
    """The median with its interval of at least 95 %, which is the range below nine values.

    The range of five values holds the median of their distribution in 94 % of cases.
    """
    ordered, n = sorted(values), len(values)
    first = max(int(binom.ppf(LEVEL / 2.0, n, 0.5)), 1) - 1
    return Estimate(median(ordered), ordered[first], ordered[n - 1 - first], n)


def of_mean(mean: float, deviation: float, samples: int) -> Estimate:
    """A mean with its interval of 95 % by Student's t."""
    reach = float(t.ppf(1.0 - LEVEL / 2.0, samples - 1)) * deviation / math.sqrt(samples)
    return Estimate(mean, mean - reach, mean + reach, samples)


def verdict(theirs: float, ours: Estimate, *, larger: bool = False) -> str:
    """One of `VERDICTS`; less is better unless ``larger``."""
    if ours.samples < FEWEST:
        return "too few samples"
    if ours.low <= theirs <= ours.high:
        return "equal"
    return "better" if (ours.high < theirs) != larger else "worse"


def counted(found: list[str]) -> str:
    """`better 3, worse 1`, of verdicts."""
    counts = Counter(found)
    return ", ".join(f"{name} {counts[name]}" for name in VERDICTS if counts[name])


def duels(pairs: list[tuple[float, float]], *, larger: bool = False) -> str:
    """`win / tie / lose` of the first of every pair; less wins unless ``larger``."""
    signs = Counter((a > b) - (a < b) for a, b in pairs)
    wins, losses = (1, -1) if larger else (-1, 1)
    return f"{signs[wins]} / {signs[0]} / {signs[losses]}"


@dataclass(frozen=True, slots=True)
class Ranks:
    """Mean ranks of methods over cells, 1 the best, with both tests that they differ."""

    mean: dict[str, float]
    cells: int
    statistic: float
    p_value: float
    critical: float

    def differ(self, method: str) -> list[str]:
        """The methods whose mean rank lies more than the critical difference away."""
        gaps = {name: abs(rank - self.mean[method]) for name, rank in self.mean.items()}
        return [name for name, gap in gaps.items() if gap > self.critical]


def ranks(columns: dict[str, list[float]], *, larger: bool = False) -> Ranks:
    """Friedman's test and Nemenyi's critical difference at level 0.05, over cells of all methods.

    Source: Demsar, JMLR 7 (2006) 1-30, section 3.2.2.
    """
    rows = list(zip(*columns.values(), strict=True))
    n, k = len(rows), len(columns)
    ranked = rankdata([[-x if larger else x for x in row] for row in rows], axis=1).mean(axis=0)
    statistic, p_value = friedmanchisquare(*columns.values())
    q = float(studentized_range.ppf(1.0 - LEVEL, k, math.inf)) / math.sqrt(2.0)
    critical = q * math.sqrt(k * (k + 1) / (6.0 * n))
    mean = dict(zip(columns, ranked.tolist(), strict=True))
    return Ranks(mean, n, float(statistic), float(p_value), critical)
