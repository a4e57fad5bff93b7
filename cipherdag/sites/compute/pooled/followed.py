"""A site's half of survival analysis: its rows that are followed, and which counts it tells.

Where small counts may not leave, a count of events, or of ends of follow-up without the event, must
be 0 or at least ``least``, and so must what follows from several: rows at risk are running sums, so
that two adjacent bins tell the rows that end between them. A group tells all its rows, but at other
edges: its events and its other rows stay as many as in a table of group by event, so that nothing
new follows from the two. A group that has too few of either is not told of, and neither is another
one where too few would be left. Groups that are compared are told of all together, or not at all.
What the test needs is at exact times, so that its digits would tell of single rows: expected events
and covariances are told on a grid, and the covariances multiplied by what the site draws.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.survival.counts import SurvivalCounts, Survived
from cipherdag.sites.compute.pooled.described import moved
from cipherdag.statistics.survival import LogRankParts, log_rank_parts

GRID_BITS = 4
"""Below one, of expected events and of their covariances, where small counts may not leave."""


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """The rows of a site that have a time, say whether it was the event, and miss nothing else.

    Attributes:
        time: At least 0 unless ``impossible``, shape (n,).
        ended: Whether the event ended it, shape (n,).
        rows: Which of the site's rows they are, shape (rows of the site,).
    """

    time: FloatVector
    ended: BoolVector
    rows: BoolVector

    @classmethod
    def of(cls, question: Survived, column: Callable[[int], FloatVector]) -> Followed:
        """The rows that a question is about.

        Args:
            question: The columns.
            column: Codes or values of one variable, NaN where missing, shape (rows of the site,).
        """
        members = (question.time, question.event, *question.complete_in)
        rows = ~np.isnan(np.array([column(v) for v in members])).any(axis=0)
        return cls(column(question.time)[rows], column(question.event)[rows] == question.code, rows)

    @property
    def impossible(self) -> bool:
        """Whether a time lies below 0."""
        return bool((self.time < 0.0).any())


def survival_counts(
    question: SurvivalCounts,
    column: Callable[[int], FloatVector],
    *,
    least: int,
    spread: float = 1.0,
) -> FloatVector:
    """The answer to `SurvivalCounts`.

    Args:
        question: Columns, groups and bins.
        column: Codes or values of one variable, NaN where missing, shape (rows of the site,).
        least: Smallest number of rows that may be told apart, but for 0.
        spread: What the covariances of the test are multiplied by, about 1.
    """
    own, groups, bins = Followed.of(question, column), question.n_groups, question.n_bins
    events, at_risk = np.zeros((2, groups, bins))
    if own.impossible:
        return _answer(events, at_risk, True, None, np.zeros(groups))
    member = np.zeros(own.time.shape, dtype=np.int64)
    if question.by != -1:
        member = column(question.by)[own.rows].astype(np.int64)
    ended, others = (np.bincount(member[own.ended == way], minlength=groups) for way in (1, 0))
    told = told_groups(ended, others, least)
    compared = np.isin(np.arange(groups), question.compared)
    comparable = bool(compared.any() and told[compared].all())
    told &= comparable | ~compared
    for group in np.flatnonzero(told):
        up_to = [
            _up_to(own.time[(member == group) & (own.ended == way)], question.edge_array(), least)
            for way in (1, 0)
        ]
        events[group] = np.diff(up_to[0], prepend=0)
        gone = up_to[0] + up_to[1]
        at_risk[group] = ended[group] + others[group] - np.concatenate([[0], gone[:-1]])
    parts = None
    if comparable:
        there = compared[member]
        rows = replace(own, time=own.time[there], ended=own.ended[there])
        parts = own_parts(rows, member[there], groups)
        parts = coarse(parts, spread) if least > 1 else parts
    return _answer(events, at_risk, False, parts, told)


def _answer(
    events: FloatVector,
    at_risk: FloatVector,
    impossible: bool,
    parts: LogRankParts | None,
    told: FloatVector | BoolVector,
) -> FloatVector:
    """An answer as `SurvivalCounts` lays it out."""
    groups = len(told)
    test = np.zeros(2 * groups + groups * (groups + 1) // 2)
    if parts is not None:
        upper = parts.covariance[np.triu_indices(groups)]
        test = np.concatenate([parts.observed, parts.expected, upper])
    ends = [impossible], test, told, [parts is not None]
    return np.concatenate([events.ravel(), at_risk.ravel(), *ends], dtype=np.float64)


def own_parts(own: Followed, member: IndexArray, groups: int) -> LogRankParts:
    """What the log-rank test needs of a site's rows, at the times of its events.

    Args:
        own: The rows.
        member: Group of each, shape (n,).
        groups: How many groups there are.
    """
    times = np.unique(own.time[own.ended])
    events, at_risk = np.zeros((2, groups, len(times)))
    for group in range(groups):
        there = np.sort(own.time[member == group])
        at_risk[group] = len(there) - np.searchsorted(there, times, side="left")
        ended = np.sort(own.time[own.ended & (member == group)])
        up_to = np.searchsorted(ended, times, side="right")
        events[group] = np.diff(up_to, prepend=0)
    return log_rank_parts(events, at_risk)


def coarse(parts: LogRankParts, spread: float) -> LogRankParts:
    """The parts on the grid: expected events that add up to the events, covariances to 0.

    Args:
        parts: Of the site's rows.
        spread: What the covariances are multiplied by.
    """
    expected = _on_grid(parts.expected)
    expected[expected.argmax()] += parts.observed.sum() - expected.sum()
    covariance = np.triu(_on_grid(parts.covariance * spread), k=1)
    covariance = covariance + covariance.T
    return LogRankParts(parts.observed, expected, covariance - np.diag(covariance.sum(axis=0)))


def _on_grid(numbers: FloatVector) -> FloatVector:
    whole: FloatVector = np.rint(np.ldexp(numbers, GRID_BITS))
    return np.ldexp(whole, -GRID_BITS)


def told_groups(events: IndexArray, others: IndexArray, least: int) -> BoolVector:
    """Which groups a site tells of, shape (G,): those with rows, and neither kind of rows few.

    What is left of all events, and of all other rows, without the groups told of is none or enough:
    where it would be few, the smallest group joins those that are not told of.

    Args:
        events: Rows with the event by group, shape (G,).
        others: Rows without, shape (G,).
        least: Smallest number of rows that may be told apart, but for 0.
    """
    told: BoolVector = (events + others > 0) & ~_few(events, least) & ~_few(others, least)
    while told.any() and any(_few(own[~told].sum(), least) for own in (events, others)):
        left = np.flatnonzero(told)
        told[left[(events + others)[left].argmin()]] = False
    return told


def _up_to(times: FloatVector, edges: FloatVector, least: int) -> IndexArray:
    """How many times lie up to each edge, shape (B,), as far as they may be told apart."""
    counts: IndexArray = np.searchsorted(np.sort(times), edges, side="right")
    return moved(counts, len(times), least)


def _few(count: IndexArray, least: int) -> BoolVector:
    return np.asarray((count > 0) & (count < least))
