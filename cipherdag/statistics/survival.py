"""Survival curves, log-rank tests and Cox models are computed from counts and sums of rows at risk.

In a curve, a row that is censored in a bin counts as at risk in half of it, as in actuarial life
tables, or in the whole of it, as Kaplan and Meier count rows censored at the time of an event. The
log-rank test counts it in the whole bin. Cox models are fitted by Newton's method. With a baseline
hazard per site, sites add value, gradient and Hessian of their partial likelihoods. With one
baseline hazard, they add sums over the rows at risk in bins of time, from which
`partial_likelihood` computes the derivatives of all rows together.

Source: Cutler and Ederer, J. Chronic Diseases 8 (1958) 699-712, for life tables; Kaplan and Meier,
JASA 53 (1958) 457-481; Greenwood's variance with the interval on the
scale log(-log S), Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data, 2nd ed.,
section 1.4; errors of independent sources in quadrature, JCGM 100:2008, section 5.1; the interval
of a median, Brookmeyer and Crowley, Biometrics 38 (1982) 29-41; the
log-rank test of several groups, Peto and Peto, JRSS A 135 (1972) 185-207, and its sums over strata,
Mantel, Cancer Chemotherapy Reports 50 (1966) 163-170; Cox, JRSS B 34 (1972) 187-220; ties as in
Efron, JASA 72 (1977) 557-565, or Breslow, Biometrics 30 (1974) 89-99.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray
from cipherdag.statistics.newton import ESTIMATE_TOLERANCE, NewtonAscent, newton_step, step_parts
from cipherdag.statistics.p_values import WIDTH
from cipherdag.statistics.reproducible import LEAST_PIVOT, dot, logarithm, product, solve

HALF = 0.5
MOST_WIDENED = 2.0
"""How many times as wide as by chance alone an interval may be, before bins are too coarse."""
MOST_LOG = 700.0
"""Of a power: interpolated events of next to 0 have an interval that is no number."""
LARGEST_LAST_STEP, LARGEST_LOG_RATIO = 0.1, 12.0
"""A last step and a coefficient, in common units, beyond which there is no finite maximum."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A `Curve` is a survival curve at the ends of its bins, with a 95 % interval, shape (B,).

    It is NaN where nobody is at risk, and ``coarse`` where most of the interval's width is due to
    unknown times of censoring.
    """

    survival: FloatVector
    low: FloatVector
    high: FloatVector
    coarse: bool = False


def survival_curve(events: FloatVector, exposed: FloatVector) -> Curve:
    """Estimate the survival curve of counts, each of shape (B,); NaN where nobody is at risk.

    Before the first event, and after all remaining rows have had it, the interval is the estimate
    itself.

    Rows that are censored in a bin count there by a half, whole, or not.
    """
    there = exposed > 0
    rows = np.where(there, exposed, 1.0)
    survival = np.where(there, np.cumprod(1.0 - events / rows), np.nan)
    left = np.where(rows > events, rows - events, 1.0)
    variance = np.cumsum(events / (rows * left))
    low, high = (_end(survival, variance, sign) for sign in (1.0, -1.0))
    return Curve(survival, low, high)


@dataclass(frozen=True, slots=True, eq=False)
class UpToEdges:
    """An `UpToEdges` has bounds of counts up to each edge, and what they are about, shape (B,)."""

    least: IndexArray
    most: IndexArray
    about: FloatVector

    @classmethod
    def of_units(cls, units: IndexArray, unit: int, edges: FloatVector) -> UpToEdges:
        """Bound and interpolate counts of which whole units are known.

        Between the times at which they reach whole units they are interpolated. Several that are
        reached in one bin are so at equal distances within it; past the last one half a unit more
        comes until the last edge.
        """
        times, reached = np.append(0.0, edges), np.append(0, units)
        numbers = np.arange(1, reached[-1] + 1)
        after = np.searchsorted(reached, numbers)
        within = (numbers - reached[after - 1]) / (reached[after] - reached[after - 1] + 1)
        passed = times[after - 1] + (times[after] - times[after - 1]) * within
        where = np.concatenate([[0.0], passed, [times[-1]]])
        what = np.concatenate([[0.0], unit * numbers, [unit * reached[-1] + HALF * (unit - 1)]])
        least, most = units * unit, units * unit + unit - 1
        return cls(least, most, np.clip(np.interp(edges, where, what), least, most))

    def without(self, part: UpToEdges) -> UpToEdges:
        """Bound the counts that are left without some of them."""
        least = np.maximum.accumulate(np.maximum(self.least - part.most, 0))
        most = np.maximum(self.most - part.least, least)
        about = np.maximum.accumulate(np.maximum(self.about - part.about, 0.0))
        return UpToEdges(least, most, np.clip(about, least, most))


@dataclass(frozen=True, slots=True, eq=False)
class RoundedCounts:
    """A `RoundedCounts` has what is known of a group: its rows lie in ``least_rows..most_rows``.

    Up to each edge it has ``events``, and how many rows are ``gone``, by the event or not. In units
    of 1 counts are exact.
    """

    events: UpToEdges
    gone: UpToEdges
    least_rows: int
    most_rows: int
    unit: int

    @classmethod
    def within(
        cls, events: UpToEdges, gone: UpToEdges, rows: tuple[int, int], unit: int
    ) -> RoundedCounts:
        """Narrow bounds by one another: events are of rows that are gone, and these of all rows."""
        least = np.maximum(gone.least, events.least)
        fewest, most_rows = (max(bound, int(least[-1])) for bound in rows)
        most = np.minimum.accumulate(np.minimum(gone.most, most_rows)[::-1])[::-1]
        most = np.maximum(most, least)
        ended = np.minimum(events.most, most)
        return cls(
            UpToEdges(events.least, ended, np.minimum(events.about, ended)),
            UpToEdges(least, most, np.clip(gone.about, least, most)),
            fewest,
            most_rows,
            unit,
        )

    @classmethod
    def of_units(
        cls, events: IndexArray, gone: IndexArray, rows: int, unit: int, edges: FloatVector
    ) -> RoundedCounts:
        """Bound the counts of one group, of all of which whole units are known."""
        ended, left = (UpToEdges.of_units(units, unit, edges) for units in (events, gone))
        return cls.within(ended, left, (rows * unit, rows * unit + unit - 1), unit)

    def bins(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """Estimate events in each bin, rows at risk when it begins, and other ends within it."""
        events = self.events.about
        ends = np.maximum.accumulate(np.maximum(self.gone.about - events, 0.0))
        gone = events + ends
        rows = max(HALF * (self.least_rows + self.most_rows), gone[-1])
        at_risk = rows - np.append(0.0, gone[:-1])
        return np.diff(events, prepend=0.0), at_risk, np.diff(ends, prepend=0.0)


def curve_of(counts: RoundedCounts, *, halved: bool) -> Curve:
    """Estimate the survival curve where counts are rounded, and times in a bin are unknown.

    Of few events and other ends up to each edge, and many rows, there is a highest curve, of many
    and of few rows a lowest one. Exact counts' interval reaches from the lower end of the lowest
    curve to the upper end of the highest. Rounding and chance are independent: where counts are
    rounded, distances from the estimate to a curve, and from it to its end, add up in quadrature.
    Such an interval still holds both curves.

    With ``halved`` rows end without the event anywhere in a bin, and are at risk in half of it: in
    the first of these curves before all events of the bin, in the other one after them. Else they
    are at risk in the whole bin.
    """
    events, at_risk, ends = counts.bins()
    curve = survival_curve(events, np.maximum(at_risk - HALF * halved * ends, events))
    least, most = counts.events.least, counts.events.most
    before = _before(counts.gone.most)
    if halved:
        before = np.maximum(counts.gone.most - np.diff(most, prepend=0), before)
    lowest = _path(counts.least_rows - before, most)
    highest = _path(counts.most_rows - _before(counts.gone.least), least)
    survival = np.clip(curve.survival, lowest.survival, highest.survival)
    bounds = lowest.low, highest.high
    if counts.unit > 1:
        below = np.hypot(survival - lowest.survival, lowest.survival - lowest.low)
        above = np.hypot(highest.survival - survival, highest.high - highest.survival)
        bounds = survival - below, survival + above
    low, high = (np.where(np.isnan(survival), np.nan, bound) for bound in bounds)
    wide = bool((high - low > MOST_WIDENED * (curve.high - curve.low)).any())
    return Curve(survival, low, high, coarse=wide and counts.unit == 1)


def _before(up_to: IndexArray) -> IndexArray:
    """Shift counts up to each edge to the edge before."""
    return np.append(0, up_to[:-1])


def _path(at_risk: IndexArray, up_to: IndexArray) -> Curve:
    """Estimate the curve of events up to each edge, all of which are at risk in their bin."""
    events = np.diff(up_to, prepend=0)
    return survival_curve(events, np.maximum(at_risk, np.maximum(events, 1)))


def _end(survival: FloatVector, variance: FloatVector, sign: float) -> FloatVector:
    """Find the lower end of the interval on the scale log(-log S), or with -1 the upper one."""
    inside = (survival > 0.0) & (survival < 1.0)
    chance, spread = np.where(inside, survival, HALF), np.where(inside, variance, 0.0)
    power = np.exp(np.minimum(sign * WIDTH * np.sqrt(spread) / np.abs(np.log(chance)), MOST_LOG))
    return np.where(inside, chance**power, survival)


def median_of(edges: FloatVector, curve: Curve) -> tuple[float | None, float | None, float | None]:
    """Find the end of the bin in which a curve, and each end of its interval, falls to a half.

    None where a curve stays above a half.
    """
    medians: list[float | None] = []
    for chances in (curve.survival, curve.low, curve.high):
        below = np.flatnonzero(chances <= HALF)
        medians.append(float(edges[below[0]]) if len(below) else None)
    return medians[0], medians[1], medians[2]


@dataclass(frozen=True, slots=True)
class LogRank:
    """A `LogRank` is the chi-square test of whether groups have events at the same rate.

    Without degrees of freedom no test is possible. Expected are the events of each group at the
    rate of all together.
    """

    statistic: float
    dof: int
    observed: tuple[float, ...]
    expected: tuple[float, ...]

    @property
    def p_value(self) -> float | None:
        """The chance of a larger statistic under equal rates; None without degrees of freedom."""
        from scipy.special import gammaincc

        return float(gammaincc(self.dof / 2.0, self.statistic / 2.0)) if self.dof else None


@dataclass(frozen=True, slots=True, eq=False)
class LogRankParts:
    """A `LogRankParts` holds the sums of a log-rank test of G groups; those of strata add up.

    Events that occurred and that would at one rate have shape (G,), their covariance (G, G).
    """

    observed: FloatVector
    expected: FloatVector
    covariance: FloatVector


def log_rank_parts(events: FloatVector, at_risk: FloatVector) -> LogRankParts:
    """Compute a log-rank test's sums from counts by group and bin, each of shape (G, B)."""
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
    """Compute the log-rank test from its sums."""
    statistic, dof = quadratic_form(parts.observed - parts.expected, parts.covariance)
    counts = (tuple(events.tolist()) for events in (parts.observed, parts.expected))
    return LogRank(statistic, dof, *counts)


def ratio_trend(
    events: FloatVector,
    at_risk: FloatVector,
    all_events: FloatVector,
    all_at_risk: FloatVector,
    weights: FloatVector,
) -> float:
    """Test whether a group's ratio of hazards goes with weights of bins, all of shape (B,).

    Returned is the p-value at the constant ratio that fits; 1 where nothing is to test.
    """
    from scipy.optimize import brentq
    from scipy.special import erfc, expit

    others = all_at_risk - at_risk
    there = (all_events > 0) & (at_risk > 0) & (others > 0)
    events, total, weights = events[there], all_events[there], weights[there]
    odds = np.log(at_risk[there] / others[there])
    if not 0.0 < events.sum() < total.sum():
        return 1.0
    ratio = brentq(lambda log: float((events - total * expit(odds + log)).sum()), -30.0, 30.0)
    share = expit(odds + ratio)
    variance = total * share * (1.0 - share)
    weights = weights - (weights * variance).sum() / variance.sum()
    spread = (weights**2 * variance).sum()
    score = (weights * (events - total * share)).sum()
    return float(erfc(abs(score) / np.sqrt(2.0 * spread))) if spread > 0.0 else 1.0


def quadratic_form(difference: FloatVector, variance: FloatVector) -> tuple[float, int]:
    """Compute d' V^- d of a difference d, shape (m,), and the rank of its variance V, (m, m)."""
    scale = np.sqrt(np.maximum(variance.diagonal(), 0.0))
    scale = np.where(scale > 0.0, scale, 1.0)
    scaled = difference / scale
    solved, rank = solve(variance / (scale[:, None] * scale), scaled, least=LEAST_PIVOT)
    return max(math.fsum((scaled * solved).tolist()), 0.0), rank


@dataclass(slots=True)
class HazardFit(NewtonAscent):
    """A `HazardFit` is the ascent of the log partial likelihood of a Cox model.

    ``null`` is that of coefficients of 0; deviations are 0 where one is not determined, and those
    that are ``separated`` have no finite maximum (monotone likelihood). The ``inverse`` is of minus
    the Hessian, the ``covariance`` that of `spread`; empty before.
    """

    tolerance: float = ESTIMATE_TOLERANCE
    null: float = -np.inf
    deviations: FloatVector = field(default_factory=lambda: np.zeros(0))
    separated: BoolVector = field(default_factory=lambda: np.zeros(0, dtype=bool))
    inverse: FloatMatrix = field(default_factory=lambda: np.zeros((0, 0)))
    covariance: FloatMatrix = field(default_factory=lambda: np.zeros((0, 0)))

    def spread(self, products: FloatMatrix) -> None:
        """Take deviations from products of the gradient's independent parts, shape (m, m)."""
        across = product(self.inverse, products)
        self.covariance = product(across, np.ascontiguousarray(self.inverse.T))
        self.deviations = np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))

    def update(self, value: float, gradient: FloatVector, hessian: FloatMatrix) -> None:
        """Accept the proposed step, or halve it, given the derivatives at `proposed`."""
        if self._step is None:
            self.null = value
        if self.halves(value):
            return
        stalled = self.loses(value)
        step = self.accept(value, gradient, hessian)
        beyond = abs(self.coefficients + step) > LARGEST_LOG_RATIO
        if not (stalled or self.settled or beyond.any()):
            return
        self.separated = beyond | (abs(step) > LARGEST_LAST_STEP)
        if not self.separated.any():
            self.coefficients = self.coefficients + step
            self.value += max(self._gain, 0.0)
        self.inverse = np.array([newton_step(hessian, unit)[0] for unit in np.eye(len(step))])
        self.deviations = np.sqrt(np.maximum(self.inverse.diagonal(), 0.0))
        self.finished = True


@dataclass(frozen=True, slots=True, eq=False)
class RiskSums:
    """A `RiskSums` holds sums by bin of time of rows with columns x and weights w = exp(x b).

    Of w, w x and w x x' they are over the rows at risk, and over those with the event (``tied``),
    as `pack_step` lays them out; of the events also their number, and the sum of x over all of
    them.
    """

    events: FloatVector
    of_events: FloatVector
    at_risk: FloatMatrix
    tied: FloatMatrix


def partial_likelihood(
    sums: RiskSums, coefficients: FloatVector, *, efron: bool
) -> tuple[float, FloatVector, FloatMatrix]:
    """Compute the log partial likelihood of all sites, its gradient, and minus its Hessian."""
    m = len(coefficients)
    value, gradient, hessian = dot(sums.of_events, coefficients), sums.of_events, np.zeros((m, m))
    for events, at_risk, tied in zip(sums.events, sums.at_risk, sums.tied, strict=True):
        if events == 0.0:
            continue
        (s0, s1, s2), (t0, t1, t2) = step_parts(at_risk, m), step_parts(tied, m)
        taken = np.arange(events) / events if efron else np.zeros(int(events))
        inverse = 1.0 / np.maximum(s0 - taken * t0, np.finfo(np.float64).tiny)
        first, second = (_total(inverse * taken**power) for power in (0, 1))
        one, mixed, other = (_total(inverse**2 * taken**power) for power in (0, 1, 2))
        value += _total(logarithm(inverse))
        gradient = gradient - (first * s1 - second * t1)
        across = s1[:, None] * t1
        outer = one * s1[:, None] * s1 - mixed * (across + across.T) + other * t1[:, None] * t1
        hessian = hessian + (first * s2 - second * t2) - outer
    return value, gradient, hessian


def _total(numbers: FloatVector) -> float:
    return math.fsum(numbers.tolist())
