"""Survival: curves and log-rank tests from counts in public bins of time, and Cox models."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts
from cipherdag.algorithms.evidence.pooled_moments import common_origins, common_units
from cipherdag.algorithms.parameters import require, row_bound, within
from cipherdag.algorithms.survival.hazard_ratios import first_step, fitted, model_of
from cipherdag.algorithms.survival.outcome import (
    BEYOND,
    SurvivalOutcome,
    exact_counts,
    group_curve,
    round_edges,
    rounded_counts,
    tested,
    tested_together,
)
from cipherdag.algorithms.survival.report import reported
from cipherdag.arrays import FloatVector
from cipherdag.errors import DataError, ParameterError
from cipherdag.findings.finding import Report
from cipherdag.findings.survival import SurvivalAnalysis
from cipherdag.questions.disclosure import Disclosure, Quantity, joined, sums
from cipherdag.questions.estimation.hazards import (
    MOST_COLUMNS,
    HazardSteps,
    HazardSums,
    column_count,
)
from cipherdag.questions.estimation.rounded_totals import CellSizes
from cipherdag.questions.estimation.survival import (
    MOST_BINS,
    MOST_GROUPS,
    LogRankSums,
    SurvivalCounts,
)
from cipherdag.questions.gather import over_one_cohort
from cipherdag.questions.pooled_data import ColumnKinds, Columns
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import sum_with_threshold

USUAL_BINS = 20
Surviving = Generator["Question", "FloatVector", SurvivalOutcome]


@dataclass(frozen=True, kw_only=True, slots=True)
class Survival(Algorithm[SurvivalOutcome, SurvivalAnalysis]):
    """Survival's parameters; `ask` is the algorithm.

    Where patients have several rows, there is a Cox model with a hazard of each site, whose
    intervals count patients, and nothing else: curves and tests of groups would count rows.

    Columns are named as a study's schema names them; over real sites, where the coordinator knows
    numbers only, by these: "1" is the first in alphabetical order.

    Attributes:
        time: Column of the time until the event or the end of follow-up, numbers from 0.
        event: Column of two categories that says which of the two it was.
        event_category: Which of these is the event, the first or the second, as the schema lists
            them: of "0" and "1", or "no" and "yes", the second.
        by: Column whose categories are the groups to compare; empty for one group of all rows.
        adjust: Columns of a Cox model, numbers or categories; none without any. The groups' column
            may be one of them, which gives their ratio of hazards with the others alike.
        site_effect: Whether each site has a separate baseline hazard in the Cox model. If so, times
            are exact. If not, all have one, times are those of bins, and no site may restrict small
            counts.
        edges: Upper edges of the bins of time, ascending from above 0. Without any, round numbers
            up to about two standard deviations beyond the mean, at most 20 of them.
        censored: Rows that end without the event in a bin: of the curve they are at risk ``within``
            it, that is in half of it, as in actuarial life tables; or until ``after`` the events of
            the bin, which is Kaplan and Meier's curve where all times are edges.
        max_rows: Most rows that a site may have, a power of two.

    Leaks:
        Of rows at risk and events it follows how many rows end in a bin without the event. Products
        by patient are of pairs of rows, too; small counts of such pairs are not looked at.
    """

    name: ClassVar[str] = "survival"
    title: ClassVar[str] = "Survival"
    use: ClassVar[str] = "Estimate survival curves, compare groups, and fit a Cox model."
    takes_visits: ClassVar[bool] = True
    of_visits: ClassVar[tuple[Disclosure, ...]] = sums(Quantity.PATIENTS, Quantity.SPREAD)
    usual: ClassVar[tuple[str, ...] | None] = ("time", "event", "event_category", "by", "adjust")
    concludes: ClassVar[type[SurvivalAnalysis]] = SurvivalAnalysis

    time: str = "time"
    event: str = "event"
    event_category: int = within(2, 1, 2)
    by: str = ""
    adjust: tuple[str, ...] = ()
    site_effect: bool = True
    edges: tuple[float, ...] = ()
    censored: Literal["within", "after"] = "within"
    max_rows: int = row_bound()

    def check(self) -> None:
        """Refuse edges that are none, and one column in two roles."""
        rising = all(low < high for low, high in zip((0.0, *self.edges), self.edges, strict=False))
        finite = all(map(math.isfinite, self.edges))
        require(rising and finite, "edges must be numbers above 0 that ascend")
        require(len(self.edges) < MOST_BINS, f"edges must be fewer than {MOST_BINS}")
        require(BEYOND not in self.edges, "edges must be smaller than the largest number")
        named = [name for name in (self.time, self.event, self.by) if name]
        require(len(set(named)) == len(named), "time, event and by must be different columns")
        adjusted = [self.time, self.event, *self.adjust]
        require(
            len(set(adjusted)) == len(adjusted) and "" not in adjusted,
            "adjust must name different columns, and neither time nor event",
        )

    def check_visits(self, visits: int) -> None:
        """Refuse curves, groups and one hazard of all sites where patients have several rows."""
        if visits > 1 and (self.by or not self.adjust or not self.site_effect):
            raise ParameterError(
                "a site's rows are visits of patients, which curves, tests of groups and one "
                "hazard of all sites would take for persons",
                remedy="Leave out by and site_effect, and name columns to adjust for. Or give each "
                "site one row a patient: the first event of each.",
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Time, event, groups and what the model adjusts for."""
        return self.time, self.event, self.by, *self.adjust

    def ask(self, facts: Facts) -> Surviving:
        """The run as a generator: yields questions, receives sums, returns a `SurvivalOutcome`.

        Returns:
            The outcome, after four rounds, or two where one site alone may answer; of groups one or
            two more, and one for each time that groups are left out of the test; where some site
            restricts small counts, about four more, of which three or so find totals; two more, or
            one, for every step of a Cox model.

        Raises:
            ParameterError: A column is not there, or not of its kind.
            DataError: A site has times below 0, or too few sites tell of any group.
            SiteUnreachableError: A site left.
            AggregateRangeError: Sums contradict each other.
        """
        return over_one_cohort(self._followed(facts), facts.present)

    def _followed(self, facts: Facts) -> Surviving:
        time, event = facts.position(self.time), facts.position(self.event)
        by = facts.position(self.by) if self.by else -1
        adjust = tuple(map(facts.position, self.adjust))
        columns = Columns(
            n_variables=facts.n_variables, max_rows=self.max_rows, visits=facts.visits
        )
        kinds = columns.read((yield from sum_with_threshold(columns, facts.min_contributors)))
        self._check_kinds(kinds, time, event, by)
        rows: dict[str, Any] = {
            "categories": tuple(kinds.categories.tolist()),
            "time": time,
            "event": event,
            "code": self.event_category - 1,
            "complete_in": tuple(sorted({by, *adjust} - {-1})),
            "max_rows": self.max_rows,
        }
        self._check_model(kinds, adjust)
        least, n_sites = facts.min_contributors, facts.present.n_sites
        if kinds.repeats:
            outcome = SurvivalOutcome.without_curves(rows, n_sites)
        else:
            outcome = yield from self._curves(kinds, rows | {"by": by}, least, n_sites)
        outcome = replace(outcome, all_rows=kinds.rows, of_patients=kinds.of_patients)
        if not adjust:
            return outcome
        model = first_step(kinds, adjust, rows, efron=True)
        bins = None if self.site_effect else outcome.edges.astype("<f8").tobytes()
        fitting = fitted(model, bins, facts.min_contributors, repeats=kinds.repeats)
        return replace(outcome, fitted=(yield from fitting))

    def _curves(
        self, kinds: ColumnKinds, groups: dict[str, Any], least: int, n_sites: int
    ) -> Surviving:
        edges = np.array(self._edges(kinds, groups["time"]))
        if kinds.restricted:
            outcome = yield from rounded_counts(groups, edges, least, n_sites, kinds.rows)
        else:
            outcome = yield from exact_counts(groups, edges, least, n_sites)
        if not outcome.disclosed.any():
            raise DataError(
                f"no group has {outcome.unit} rows at all sites together"
                if kinds.restricted
                else "too few sites tell of any group: each needs rows in one group, and no time "
                "below 0",
                remedy="Look at each site's times and events, or compare fewer groups; a site with "
                "a time below 0 says so in its log.",
            )
        return outcome

    def conclude(self, outcome: SurvivalOutcome, facts: Facts) -> SurvivalAnalysis:
        """Curves, tests and ratios, by name."""
        model, groups = outcome.fitted, range(len(outcome.sites))
        halved = self.censored == "within"
        time, event, by = (facts.names[v] if v != -1 else "" for v in outcome.members)
        return SurvivalAnalysis(
            time=time,
            event=event,
            event_category=self.event_category,
            by=by,
            edges=tuple(outcome.edges.tolist()),
            curves=tuple(group_curve(outcome, group, halved=halved) for group in groups),
            n_sites=outcome.n_sites,
            test=tested(outcome),
            together=None if outcome.unit > 1 else tested_together(outcome),
            model=None if model is None else model_of(model, facts.names),
            rounded_to=outcome.unit,
            all_rows=outcome.all_rows,
            details=dict(outcome.of_patients),
        )

    def disclosures(self) -> tuple[Disclosure, ...]:
        """Counts by edges of time, rounded or not, a test, and steps of a Cox model."""
        opened = HazardSteps.discloses if self.site_effect else HazardSums.discloses
        model = tuple(each for each in opened if each.quantity != Quantity.SPREAD)
        return joined(
            Columns(n_variables=1).disclosures,
            *(kind.discloses for kind in (SurvivalCounts, CellSizes, LogRankSums)),
            SurvivalCounts.rounded,
            model if self.adjust else (),
        )

    def report(self, conclusion: Any) -> Report:
        """Curves, and what makes them doubtful."""
        return reported(conclusion)

    def _check_kinds(self, kinds: ColumnKinds, time: int, event: int, by: int) -> None:
        categories = kinds.categories
        require(
            categories[time] == 0,
            f"time names '{self.time}', a column of categories; the schema must call it continuous",
        )
        require(
            categories[event] == 2,  # noqa: PLR2004
            f"event names '{self.event}', a column of {categories[event] or 'numbers and no'} "
            "categories in the schema, where two are needed: an event, and none",
            remedy='Say in schema.toml which codes are the event: categories = ["0", "1"] with '
            'synonyms = { "0" = ["2"] } counts 2 as no event, { "1" = ["2"] } as the event.',
        )
        require(
            by == -1 or 1 <= categories[by] <= MOST_GROUPS,
            f"by names '{self.by}', which does not have 1 to {MOST_GROUPS} categories",
        )

    def _check_model(self, kinds: ColumnKinds, adjust: tuple[int, ...]) -> None:
        columns = column_count(adjust, kinds.categories.tolist())
        require(
            not adjust or 1 <= columns <= MOST_COLUMNS,
            f"adjust makes {columns} columns of a model, which has 1 to {MOST_COLUMNS}",
        )
        require(
            not adjust or self.site_effect or not kinds.restricted,
            "site_effect cannot be left out, as some site's policy restricts small counts, and "
            "one hazard of all sites needs the sums of each bin of time",
        )

    def _edges(self, kinds: ColumnKinds, time: int) -> tuple[float, ...]:
        if self.edges:
            return self.edges
        if np.isnan([kinds.spread[time], kinds.size[time]]).all():
            raise DataError(
                f"too few sites have enough times in '{self.time}' to choose bins of time",
                remedy="Give the edges of the bins.",
            )
        unit = float(np.ldexp(1.0, common_units(kinds)[time]))
        return round_edges(float(common_origins(kinds)[time]), unit, USUAL_BINS)
