"""Which groups are compared and in which bins of time; curves and tests from the opened counts.

Where no site restricts small counts, the sites that contribute to a group are counted, and sums are
exact. Where some site does, totals of all sites are opened in whole units alone, so that no site
has to be left out of a curve, and the test tells no count.
"""

from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any, Self, TypeVar

import msgspec
import numpy as np

from cipherdag.algorithms.survival.hazard_ratios import Fitted, square
from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.errors import DataError
from cipherdag.findings.survival import GroupCurve, GroupTest
from cipherdag.questions.encodings import require_possible, segments
from cipherdag.questions.estimation.rounded_totals import CellSizes, rounded_totals
from cipherdag.questions.estimation.survival import FEWEST_GROUPS, LogRankSums, SurvivalCounts
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import ContributorCounts, open_unsuppressed, sum_with_threshold
from cipherdag.statistics.survival import (
    LogRank,
    LogRankParts,
    RoundedCounts,
    UpToEdges,
    curve_of,
    log_rank,
    log_rank_parts,
    median_of,
)

Compared = TypeVar("Compared", SurvivalCounts, LogRankSums)

STEPS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))
BEYOND = float(np.finfo(np.float64).max)
"""Upper edge of a bin behind the last edge, which tells how many are still at risk there."""
SPREADS = 2.0  # the last bin ends so many standard deviations above the mean time, about
LEAST_SHARE = 0.5
"""The test leaves groups out until this share of the sites of the largest curve contributes to all
that remain: a site that does not contribute to all of them contributes to none."""


def round_edges(mean: float, unit: float, bins: int) -> tuple[float, ...]:
    """Round numbers equally far apart, from above 0 to `SPREADS` spreads above the mean or more.

    Arithmetic of decimals, which every machine does in the same manner. Mean and deviation, here a
    power of two called ``unit``, are rough; there are at most so many ``bins``.
    """
    last = Decimal(max(mean, unit / SPREADS) + SPREADS * unit)
    raw = last / bins
    power = Decimal(10) ** raw.adjusted()
    width = next(power * step for step in STEPS if power * step >= raw)
    count = min(int((last / width).to_integral_value(ROUND_CEILING)), bins)
    return tuple(float(width * number) for number in range(1, count + 1))


def group_sums(
    question: Compared, min_contributors: int
) -> Generator[Question, FloatVector, tuple[Compared, FloatVector]]:
    """The sums of groups, and of the test of those that enough sites contribute to together.

    Sites say to which groups they contribute, and then whether they do to all that may be compared,
    so that curves and test are of the same sites. The group with the fewest contributors, of
    several the last, is left out as long as too few contribute to all. Returned is the question
    that was asked, and its sums.
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
        if able[-1] >= max(needed, LEAST_SHARE * counts[:-1][left].max()):
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
    """What was opened of G groups in B bins of time."""

    members: tuple[int, int, int]  # positions of time, event and groups; of one group -1
    edges: FloatVector  # upper edge of every bin, shape (B,)
    counts: tuple[RoundedCounts, ...]  # of every group
    sites: IndexArray  # how many sites contribute to a group, shape (G,)
    within: LogRankParts  # the log-rank sums within the sites, summed over them
    comparing: int  # how many sites contribute to these
    compared: tuple[int, ...]  # which groups they are of
    n_sites: int  # how many were asked
    unit: int = 1  # the largest ``min_cell_size``, of which counts are opened in whole; 1 if exact
    all_rows: int = 0  # how many rows the sites hold
    fitted: Fitted | None = None  # the Cox model; None where none was asked for
    # the details on rows that are visits, as `ColumnKinds` has them
    of_patients: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def without_curves(cls, rows: dict[str, Any], n_sites: int) -> Self:
        """What is opened of rows that are visits: no counts, and so no group."""
        nothing, members = np.zeros(0), (rows["time"], rows["event"], -1)
        within = LogRankParts(nothing, nothing, np.zeros((0, 0)))
        return cls(members, nothing, (), nothing.astype(np.int64), within, 0, (), n_sites)

    @property
    def disclosed(self) -> BoolVector:
        """Mark the groups with enough contributing sites, shape (G,)."""
        return self.sites > 0


def exact_counts(
    rows: dict[str, Any], edges: FloatVector, min_contributors: int, n_sites: int
) -> Generator[Question, FloatVector, SurvivalOutcome]:
    """Ask for sums, with a bin more of all that is beyond the edges.

    DataError where some site has a time below 0, AggregateRangeError where the counts contradict
    each other.
    """
    packed = np.append(edges, BEYOND).astype("<f8").tobytes()
    question, sums = yield from group_sums(SurvivalCounts(**rows, edges=packed), min_contributors)
    return exact_outcome(question, sums, n_sites)


def exact_outcome(question: SurvivalCounts, sums: FloatVector, n_sites: int) -> SurvivalOutcome:
    """The counts among the sums; the last bin of the question is all that is beyond the others."""
    events, at_risk, impossible, observed, expected, upper, sites = segments(
        question.encodings, sums
    )
    _check_times(impossible)
    shape = question.n_groups, question.n_bins
    whole = (np.rint(each).astype(np.int64).reshape(shape) for each in (events, at_risk))
    ended, exposed = whole
    left = exposed - ended
    holds = (left >= 0).all() and (left[:, :-1] >= exposed[:, 1:]).all()
    require_possible(question.label, "more rows at risk than are left", holds=holds)
    edges, up_to = question.edge_array()[:-1], np.cumsum(ended, axis=1)[:, :-1]
    return SurvivalOutcome(
        members=(question.time, question.event, question.by),
        edges=edges,
        counts=tuple(
            RoundedCounts.of_units(events, at_risk[0] - at_risk[1:], int(at_risk[0]), 1, edges)
            for events, at_risk in zip(up_to, exposed, strict=True)
        ),
        sites=sites[:-1].astype(np.int64),
        within=LogRankParts(observed, expected, square(upper, question.n_groups)),
        comparing=int(sites[-1]),
        compared=question.compared,
        n_sites=n_sites,
    )


def rounded_counts(
    rows: dict[str, Any], edges: FloatVector, min_contributors: int, n_sites: int, all_rows: int
) -> Generator[Question, FloatVector, SurvivalOutcome]:
    """Ask for the test, and for totals of all sites in whole units of the largest min_cell_size.

    ``rows`` is what questions have of the rows, ``edges`` the upper edge of every bin, (B,), and
    ``all_rows`` those of all sites, but for sites with less than their min_cell_size. DataError
    where some site has a time below 0, AggregateRangeError where totals contradict each other.
    """
    sizes = CellSizes()
    unit = sizes.largest((yield sizes))
    test = LogRankSums(**rows)
    if test.n_groups < FEWEST_GROUPS:
        sums = yield test
    else:
        test, sums = yield from group_sums(test, min_contributors)
    impossible, excess, upper, sites = segments(test.encodings, sums)
    _check_times(impossible)
    asked = SurvivalCounts(**rows, edges=edges.astype("<f8").tobytes())
    floors = yield from rounded_totals(asked, unit, all_rows + n_sites * (unit - 1))
    counts = counts_in_units(asked, floors, unit)
    return SurvivalOutcome(
        members=(test.time, test.event, test.by),
        edges=edges,
        counts=counts,
        sites=np.array([n_sites * (each.least_rows >= unit) for each in counts]),
        within=LogRankParts(excess, np.zeros(len(excess)), square(upper, len(excess))),
        comparing=int(sites[-1]),
        compared=test.compared,
        n_sites=n_sites,
        unit=unit,
    )


def counts_in_units(
    asked: SurvivalCounts, floors: IndexArray, unit: int
) -> tuple[RoundedCounts, ...]:
    """The counts of each group as whole units tell them; of two, the first is both less the second.

    AggregateRangeError where they contradict each other.
    """
    edges, groups = asked.edge_array(), asked.n_groups
    events, gone = floors[:-groups].reshape(2, groups, -1)
    rows = floors[-groups:]
    nested = np.stack([events, gone, np.repeat(rows[:, None], len(edges), axis=1)])
    holds = np.diff(nested, axis=0).min() >= 0 and np.diff(nested, axis=2).min(initial=0) >= 0
    if asked.by_difference:
        holds = holds and (nested[1:, 1] <= nested[1:, 0]).all()
    require_possible(asked.label, "more rows end than there are", holds=bool(holds))
    counts = [
        RoundedCounts.of_units(*each, unit, edges)
        for each in zip(events, gone, rows.tolist(), strict=True)
    ]
    if asked.by_difference:
        both, second = counts
        ended = UpToEdges.of_units(events[0], unit, edges)
        least, most = both.least_rows - second.most_rows, both.most_rows - second.least_rows
        left = both.gone.without(second.gone)
        counts[0] = RoundedCounts.within(ended, left, (max(least, 0), most), unit)
    return tuple(counts)


def _check_times(impossible: FloatVector) -> None:
    if impossible[0] > 0:
        raise DataError(
            "some site has a time below 0",
            remedy="Each site looks at the column of times in its file.",
        )


def group_curve(outcome: SurvivalOutcome, group: int, *, halved: bool) -> GroupCurve:
    """The curve of a group; without numbers where too few sites contribute to it.

    ``halved``: who is censored in a bin is at risk in half of it, else in all of it.
    """
    sites, counts = int(outcome.sites[group]), outcome.counts[group]
    if not sites:
        return GroupCurve(sites=sites)
    events, at_risk, _ = (np.rint(each).astype(int).tolist() for each in counts.bins())
    curve = curve_of(counts, halved=halved)
    return GroupCurve(
        sites=sites,
        rows=(counts.least_rows, counts.most_rows),
        ended=(int(counts.events.least[-1]), int(counts.events.most[-1])),
        events=tuple(events),
        at_risk=tuple(at_risk),
        survival=_or_none(curve.survival),
        low=_or_none(curve.low),
        high=_or_none(curve.high),
        median=median_of(outcome.edges, curve),
        coarse=curve.coarse,
    )


def tested(outcome: SurvivalOutcome) -> GroupTest | None:
    """The log-rank test within the sites; None of one group, or where too few sites contribute."""
    if not outcome.comparing or not outcome.compared:
        return None
    test = log_rank(outcome.within)
    excess = tuple((outcome.within.observed - outcome.within.expected).tolist())
    if outcome.unit > 1:
        test = replace(test, observed=(), expected=())
    return _named(test, outcome.comparing, outcome.compared, excess)


def tested_together(outcome: SurvivalOutcome) -> GroupTest | None:
    """The log-rank test of all rows as if of one site, in bins; None of one group."""
    groups = np.flatnonzero(outcome.disclosed)
    if len(groups) < FEWEST_GROUPS:
        return None
    events, at_risk, _ = np.stack([each.bins() for each in outcome.counts], axis=1)
    test = log_rank(log_rank_parts(events, at_risk))
    return _named(test, int(outcome.sites[groups].min()), tuple(groups.tolist()))


def _named(
    test: LogRank, sites: int, groups: tuple[int, ...], excess: tuple[float, ...] = ()
) -> GroupTest:
    return GroupTest(
        **asdict(test), p_value=test.p_value, sites=sites, groups=groups, excess=excess
    )


def _or_none(numbers: FloatVector) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(number) else number for number in numbers.tolist())
