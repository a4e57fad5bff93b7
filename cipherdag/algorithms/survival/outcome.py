"""Which groups are compared and in which bins of time; curves and tests from the opened counts."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Decimal

import msgspec
import numpy as np

from cipherdag.algorithms.survival.hazard_ratios import Fitted
from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.errors import DataError
from cipherdag.findings.survival import GroupCurve, GroupTest
from cipherdag.questions.encodings import require_possible, segments
from cipherdag.questions.estimation.survival import FEWEST_GROUPS, SurvivalCounts
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import ContributorCounts, open_unsuppressed, sum_with_threshold
from cipherdag.statistics.survival import (
    LogRank,
    LogRankParts,
    actuarial_curve,
    log_rank,
    log_rank_parts,
    median_of,
    survival_curve,
)

Comparing = Generator["Question", "FloatVector", tuple[SurvivalCounts, FloatVector]]

STEPS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))
SPREADS = 2.0
"""How many typical spreads beyond about the mean the last bin ends."""
SHARE = 0.5
"""Of the sites of a curve, which the test leaves at least: those that do not contribute to all
groups that are compared contribute to none of them."""


def round_edges(mean: float, unit: float, bins: int) -> tuple[float, ...]:
    """Round numbers equally far apart, from above 0 to two spreads beyond the mean or a little on.

    Arithmetic of decimals, which every machine does in the same manner.

    Args:
        mean: About that of the times, of all sites.
        unit: About their standard deviation, a power of two.
        bins: Most of them.
    """
    last = Decimal(max(mean, unit / SPREADS) + SPREADS * unit)
    raw = last / bins
    power = Decimal(10) ** raw.adjusted()
    width = next(power * step for step in STEPS if power * step >= raw)
    count = min(int((last / width).to_integral_value(ROUND_CEILING)), bins)
    return tuple(float(width * number) for number in range(1, count + 1))


def compared(question: SurvivalCounts, min_contributors: int) -> Comparing:
    """The sums of groups, and of the test of those that enough sites contribute to together.

    Sites say to which groups they contribute, and then whether they do to all that may be compared,
    so that curves and test are of the same sites. The group with the fewest contributors, of
    several the last, is left out as long as too few contribute to all.

    Args:
        question: The groups, of which none is compared yet.
        min_contributors: How many sites have to contribute.

    Returns:
        The question that was asked, and its sums.
    """
    if question.n_groups < FEWEST_GROUPS:
        return question, (yield from sum_with_threshold(question, min_contributors))
    needed = max(min_contributors, 1)
    counts = np.rint((yield ContributorCounts(question=question)))
    left = counts[:-1] >= needed
    while left.sum() >= FEWEST_GROUPS:
        chosen = tuple(np.flatnonzero(left).tolist())
        asked = msgspec.structs.replace(question, compared=chosen)
        able = np.rint((yield ContributorCounts(question=asked)))
        if able[-1] >= max(needed, SHARE * counts[:-1][left].max()):
            break
        smallest = left & (counts[:-1] == counts[:-1][left].min())
        left[np.flatnonzero(smallest)[-1]] = False
    else:
        asked, able = question, counts
    if min_contributors <= 1:
        return asked, (yield asked)
    return asked, (yield from open_unsuppressed(asked, able >= needed))


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalOutcome:
    """The opened sums of G groups in B bins of time.

    Attributes:
        members: Positions of time, event and groups; of one group -1.
        edges: Upper edge of every bin, shape (B,).
        events: Rows with the event, shape (G, B).
        at_risk: Rows at risk, shape (G, B).
        beyond: Rows at risk after the last bin, shape (G,).
        sites: How many sites contribute to a group, shape (G,).
        within: The log-rank sums within the sites, summed over them.
        comparing: How many sites contribute to these.
        compared: Which groups they are of.
        n_sites: How many were asked.
        restricted: Whether some site restricts small counts.
        all_rows: How many rows the sites hold.
        fitted: The Cox model; None where none was asked for.
    """

    members: tuple[int, int, int]
    edges: FloatVector
    events: FloatVector
    at_risk: FloatVector
    beyond: FloatVector
    sites: IndexArray
    within: LogRankParts
    comparing: int
    compared: tuple[int, ...]
    n_sites: int
    restricted: bool
    all_rows: int = 0
    fitted: Fitted | None = None

    @property
    def disclosed(self) -> BoolVector:
        """Mark the groups with enough contributing sites, shape (G,)."""
        return self.sites > 0


def counted_of(
    question: SurvivalCounts, sums: FloatVector, n_sites: int, *, restricted: bool
) -> SurvivalOutcome:
    """The counts among the sums; the last bin of the question is all that is beyond the others.

    Raises:
        DataError: Some site has a time below 0.
        AggregateRangeError: The counts contradict each other.
    """
    events, at_risk, impossible, observed, expected, upper, sites = segments(
        question.encodings, sums
    )
    if impossible[0] > 0:
        raise DataError(
            "some site has a time below 0",
            remedy="Each site looks at the column of times in its file.",
        )
    shape = question.n_groups, question.n_bins
    events, at_risk = events.reshape(shape), at_risk.reshape(shape)
    left = at_risk - events
    holds = (left >= 0.0).all() and (left[:, :-1] >= at_risk[:, 1:]).all()
    require_possible(question.label, "more rows at risk than are left", holds=holds)
    covariance = np.zeros((question.n_groups,) * 2)
    covariance[np.triu_indices(question.n_groups)] = upper
    return SurvivalOutcome(
        members=(question.time, question.event, question.by),
        edges=question.edge_array()[:-1],
        events=events[:, :-1],
        at_risk=at_risk[:, :-1],
        beyond=at_risk[:, -1],
        sites=sites[:-1].astype(np.int64),
        within=LogRankParts(observed, expected, covariance + np.triu(covariance, k=1).T),
        comparing=int(sites[-1]),
        compared=question.compared,
        n_sites=n_sites,
        restricted=restricted,
    )


def curve_of(outcome: SurvivalOutcome, group: int, *, halved: bool) -> GroupCurve:
    """The curve of a group; without numbers where too few sites contribute to it.

    Args:
        outcome: The counts.
        group: Which group.
        halved: Whether who is censored in a bin is at risk in half of it, or else in all of it.
    """
    sites = int(outcome.sites[group])
    if not sites:
        return GroupCurve(sites=sites)
    events, at_risk = outcome.events[group], outcome.at_risk[group]
    curve = (
        actuarial_curve(events, at_risk, float(outcome.beyond[group]))
        if halved
        else survival_curve(events, at_risk)
    )
    return GroupCurve(
        sites=sites,
        events=tuple(events.astype(int).tolist()),
        at_risk=tuple(at_risk.astype(int).tolist()),
        survival=_or_none(curve.survival),
        low=_or_none(curve.low),
        high=_or_none(curve.high),
        median=median_of(outcome.edges, curve),
        coarse=curve.coarse,
    )


def tested(outcome: SurvivalOutcome) -> GroupTest | None:
    """The log-rank test within the sites; None of one group, or where too few sites contribute."""
    if not outcome.comparing:
        return None
    return _named(log_rank(outcome.within), outcome.comparing, outcome.compared)


def tested_together(outcome: SurvivalOutcome) -> GroupTest | None:
    """The log-rank test of all rows as if of one site, in bins; None of one group."""
    groups = np.flatnonzero(outcome.disclosed)
    if len(groups) < FEWEST_GROUPS:
        return None
    test = log_rank(log_rank_parts(outcome.events, outcome.at_risk))
    return _named(test, int(outcome.sites[groups].min()), tuple(groups.tolist()))


def _named(test: LogRank, sites: int, groups: tuple[int, ...]) -> GroupTest:
    return GroupTest(**asdict(test), p_value=test.p_value, sites=sites, groups=groups)


def _or_none(numbers: FloatVector) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(number) else number for number in numbers.tolist())
