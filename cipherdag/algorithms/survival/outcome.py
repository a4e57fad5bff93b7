"""From opened counts to curves and the test of groups."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from cipherdag.algorithms.survival.hazard_ratios import Fitted
from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.errors import DataError
from cipherdag.findings.survival import GroupCurve, GroupTest
from cipherdag.questions.encodings import require_possible, segments
from cipherdag.questions.estimation.survival import FEWEST_GROUPS, SurvivalCounts
from cipherdag.statistics.survival import (
    LogRank,
    LogRankParts,
    actuarial_curve,
    log_rank,
    log_rank_parts,
    median_of,
    survival_curve,
)


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalOutcome:
    """What was opened of G groups in B bins of time.

    Attributes:
        members: Positions of time, event and groups; of one group -1.
        edges: Upper edge of every bin, shape (B,).
        events: Rows with the event, shape (G, B).
        at_risk: Rows at risk, shape (G, B).
        beyond: Rows at risk after the last bin, shape (G,).
        sites: How many sites tell of a group, shape (G,).
        within: What the test within the sites needs, summed over them.
        comparing: How many sites tell of that.
        compared: Which groups it is of.
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
    def told(self) -> BoolVector:
        """Whether enough sites tell of a group, shape (G,)."""
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
            remedy="Each site looks at the column of times in its own file.",
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
    """The curve of a group; without numbers where too few sites tell of it.

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
        survival=_known(curve.survival),
        low=_known(curve.low),
        high=_known(curve.high),
        median=median_of(outcome.edges, curve),
        coarse=curve.coarse,
    )


def tested(outcome: SurvivalOutcome) -> GroupTest | None:
    """The log-rank test within the sites; None of one group, or where too few sites tell of it."""
    if not outcome.comparing:
        return None
    return _told(log_rank(outcome.within), outcome.comparing, outcome.compared)


def tested_together(outcome: SurvivalOutcome) -> GroupTest | None:
    """The log-rank test of all rows as if of one site, in bins; None of one group."""
    groups = np.flatnonzero(outcome.told)
    if len(groups) < FEWEST_GROUPS:
        return None
    found = log_rank(log_rank_parts(outcome.events, outcome.at_risk))
    return _told(found, int(outcome.sites[groups].min()), tuple(groups.tolist()))


def _told(found: LogRank, sites: int, groups: tuple[int, ...]) -> GroupTest:
    return GroupTest(**asdict(found), p_value=found.p_value, sites=sites, groups=groups)


def _known(numbers: FloatVector) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(own) else own for own in numbers.tolist())
