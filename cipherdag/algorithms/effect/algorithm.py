"""Effect: what a change of one variable does to another, adjusted for what a graph says.

Models of treatment and outcome are fitted by Newton steps on sums over the sites. The effect and
its standard error follow from two more sums: they are what the estimator has on the pooled rows.
"""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, ClassVar, Literal

from cipherdag.algorithms.algorithm import Algorithm, Facts, Reading
from cipherdag.algorithms.effect.estimating import Estimation
from cipherdag.algorithms.effect.refuting import incomplete_rows, refuted
from cipherdag.algorithms.effect.report import reported
from cipherdag.algorithms.effect.sets import read_sets, sets_of, too_small, written_sets
from cipherdag.algorithms.evidence.pooled_moments import common_scales
from cipherdag.algorithms.parameters import (
    check_parameters,
    graph_text,
    require,
    row_bound,
    within,
    without,
)
from cipherdag.arrays import FloatVector
from cipherdag.errors import DataError
from cipherdag.findings.effect import NO_EFFECT, AdjustedEffect, LeftOut
from cipherdag.findings.estimated_effect import EstimatedEffect
from cipherdag.findings.finding import Report
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.identification.answers import Answer
from cipherdag.questions.ci_tests import ColumnTypes
from cipherdag.questions.disclosure import Disclosure, Quantity, joined
from cipherdag.questions.estimation.effect_sums import (
    MOST_CELLS,
    TRUNCATIONS,
    EffectSums,
    Estimator,
)
from cipherdag.questions.gather import gather, gather_two, over_one_cohort
from cipherdag.questions.pooled_data import MAX_CATEGORIES, ColumnKinds, Columns
from cipherdag.questions.question import Question

BINARY = 2  # categories of an outcome that has no numbers
NAMED_ONCE = "; adjust names neither treatment nor outcome, which are in it anyway"


@dataclass(frozen=True, slots=True)
class EffectOutcome:
    """The effects, by position."""

    treatment: int
    outcome: int
    estimator: Estimator
    effects: tuple[AdjustedEffect, ...]
    adjust: tuple[tuple[int, ...], ...]  # positions, of each adjustment set
    parents: tuple[tuple[int, ...] | None, ...]  # of the treatment in its DAGs; None of one set
    all_rows: int  # how many rows the sites hold
    left_out: tuple[LeftOut, ...]  # whether rows that miss a value differ
    of_patients: Mapping[str, Any] = field(default_factory=dict)  # as `ColumnKinds` has them


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect(Algorithm[EffectOutcome, EstimatedEffect]):
    """Effect's parameters; `ask` is the algorithm.

    Attributes:
        treatment: The cause, by name.
        outcome: The variable that it acts on: numbers, or two categories.
        adjust: Names of what to adjust for, with commas between them; or a list in JSON.
        graph: A graph that says what to adjust for. It is asked at once, and the plan has the
            sets in its place.
        graphs: In Python, several graphs. With a result's ``finding.sample``, the effect has the
            share of graphs in which it exists, and its interval over these. With a learnt graph and
            its replicates, it is estimated for every set of causes of the treatment that one of
            them allows; `EstimatedEffect.range` spans all intervals.
        estimator: How the effect is estimated: ``regression``: a model of the outcome in every arm
            (g-computation); ``ipw``: weights from a model of the treatment; ``aipw``: both, right
            if either is; ``linear``: the coefficient of the treatment in one linear model;
            ``standardise``: means stratum by stratum of the categories adjusted for;
            ``auto``: aipw of a treatment with categories, linear of a number.
        reference: The treatment's category that others are compared with, 1 for the first.
        outcome_category: The one of an outcome's two categories whose share is estimated: 1 for the
            first; 2, by default, for the second, such as "yes" of "no" and "yes".
        truncate: Least propensity that counts; smaller ones are raised to it: 0.0001, 0.001, 0.01,
            0.05 or 0.1.
        site_effect: Whether sites are strata: each site has its own constants, and its own other
            coefficients if it has 15 rows for each. If not, site differences count as effects.
        refute: Whether to repeat the estimate after changes that should, or should not, matter:
            besides the placebo, which is always estimated, a random common cause, parts of the rows
            left out, each variable left out.
        withheld: What becomes of sites whose policy restricts small counts: ``refuse``: nothing is
            estimated; ``leave-out``: the others estimate it without them.
        max_rows: Most rows that a site may have, a power of two.

    Leaks:
        With `refute` the sums of every fifth of the rows follow by subtraction. With ``leave-out``,
        two runs over different sites disclose, by subtraction, the sums of the sites that differ.
    """

    name: ClassVar[str] = "effect"
    title: ClassVar[str] = "Effect"
    use: ClassVar[str] = "Estimate the effect of a treatment on an outcome."
    takes_visits: ClassVar[bool] = True
    usual: ClassVar[tuple[str, ...] | None] = (
        "treatment",
        "outcome",
        "adjust",
        "graph",
        "outcome_category",
        "reference",
    )
    concludes: ClassVar[type[EstimatedEffect]] = EstimatedEffect
    reads: ClassVar[frozenset[Reading]] = frozenset({"relations"})
    retired: ClassVar[dict[str, object]] = {"between": True}

    query: InitVar[Answer | None] = field(default=None, kw_only=False)
    graphs: InitVar[Sequence[CausalGraph] | GraphSample] = ()
    treatment: str = ""
    outcome: str = ""
    adjust: str = ""
    graph: str = graph_text()
    estimator: Literal["auto", "regression", "ipw", "aipw", "linear", "standardise"] = "auto"
    reference: int = within(1, 1, MAX_CATEGORIES)
    outcome_category: int = within(BINARY, 1, BINARY)
    truncate: float = within(0.01, TRUNCATIONS[0], TRUNCATIONS[-1])
    site_effect: bool = True
    refute: bool = False
    withheld: Literal["refuse", "leave-out"] = "refuse"
    max_rows: int = row_bound()

    def __post_init__(
        self, query: Answer | None, graphs: Sequence[CausalGraph] | GraphSample
    ) -> None:
        check_parameters(self)
        if graphs:
            alone = query is None and not (self.adjust or self.graph)
            require(alone, "the graphs say what to adjust for: give no other")
            object.__setattr__(self, "adjust", sets_of(graphs, self.treatment, self.outcome))
        if self.graph:
            require(
                query is None and not self.adjust,
                "the graph says what to adjust for: give no other",
                remedy="Leave out adjust, or graph: on the command line --adjust or --graph.",
            )
            query = CausalGraph.loads(self.graph).identify(self.treatment, self.outcome)
            for name in ("graph", "treatment", "outcome"):
                object.__setattr__(self, name, "")
        if query is not None:
            require(
                not (self.treatment or self.outcome or self.adjust),
                "treatment, outcome and adjust follow from what the graph says: give no others",
            )
            object.__setattr__(self, "adjust", written_sets(query))
            object.__setattr__(self, "treatment", query.treatment)
            object.__setattr__(self, "outcome", query.outcome)
        Algorithm.__post_init__(self)

    def check(self) -> None:
        """Refuse adjustment sets that cannot be read, and parameters that do not go together."""
        require(
            self.site_effect or self.estimator != "standardise",
            "standardise compares rows within their sites: it goes with site_effect",
        )
        truncations = ", ".join(map(str, TRUNCATIONS))
        require(
            self.truncate in TRUNCATIONS,
            f"truncate must be one of {truncations}, not {self.truncate}",
        )
        read_sets(self.adjust)

    @property
    def columns(self) -> tuple[str, ...]:
        """Treatment, outcome, and what any set adjusts for."""
        sets = (name for one in read_sets(self.adjust) for name in one.adjust)
        return self.treatment, self.outcome, *sets

    def used(self, conclusion: EstimatedEffect, columns: ColumnTypes | None) -> dict[str, Any]:
        """With the estimator that was used, and without the options of others."""
        estimator, used = conclusion.estimator, Algorithm.used(self, conclusion, columns)
        sets = [", ".join(each.adjust) or "nothing" for each in conclusion.sets]
        used |= {"estimator": estimator, "adjust": ", or ".join(sets)}
        return without(used, truncate=estimator in ("ipw", "aipw"), reference=estimator != "linear")

    def ask(self, facts: Facts) -> Generator[Question, FloatVector, EffectOutcome]:
        """The run as a generator: yields questions, receives sums, returns an `EffectOutcome`.

        Returns:
            The outcome, after rounds for columns, contributors, each step, and one or two more.

        Raises:
            ParameterError: A variable is not named, unknown, or of another kind than it takes.
            DataError: No effect can be estimated from the rows.
            SiteUnreachableError: A site left.
        """
        require(
            bool(self.treatment and self.outcome),
            "an effect needs the names of treatment and outcome",
        )
        return over_one_cohort(self._run(facts), facts.present)

    def _run(self, facts: Facts) -> Generator[Question, FloatVector, EffectOutcome]:
        treatment, outcome = facts.position(self.treatment), facts.position(self.outcome)
        sets = read_sets(self.adjust)
        adjust = [tuple(sorted(facts.position(name) for name in one.adjust)) for one in sets]
        for positions in adjust:
            named = (treatment, outcome, *positions)
            twice = next((facts.names[v] for v in named if named.count(v) > 1), None)
            require(twice is None, f"an effect names '{twice}' twice{NAMED_ONCE}")
        p, visits = facts.n_variables, facts.visits
        question = Columns(n_variables=p, max_rows=self.max_rows, visits=visits)
        kinds = question.read((yield question))
        estimator = self._chosen(kinds, treatment, outcome)
        if estimator == "standardise":
            self._check_strata(kinds, facts, treatment, adjust)
        scopes = self._scopes(kinds, (treatment, outcome), adjust, estimator)
        leave_out, first = self.withheld == "leave-out", self.outcome_category == 1
        estimations = {
            number: Estimation(scope, facts, self.reference - 1, leave_out, first=first)
            for number, (one, scope) in enumerate(zip(sets, scopes, strict=True))
            if not one.why
        }
        effects, left = yield from gather_two(
            gather([refuted(one, every=self.refute) for one in estimations.values()]),
            incomplete_rows(scopes[0], kinds, facts.min_contributors),
        )
        by_number = dict(zip(estimations, effects, strict=True))
        # nothing is asked about a set that comes with a reason not to estimate
        every = [
            replace(
                by_number.get(number, AdjustedEffect(adjust=one.adjust, why=one.why)),
                n_dags=one.n_dags,
                share=one.share,
            )
            for number, one in enumerate(sets)
        ]
        why = [one.why for one in every if one.why and one.why != NO_EFFECT]
        if len(why) == len(every):
            if any(one.small for one in estimations.values()):
                raise (yield from too_small(scopes[0], facts, kinds.rows, why[0]))
            raise DataError(
                f"no effect is estimated: {why[0]}",
                remedy="Adjust for fewer or coarser variables, or choose another estimator.",
            )
        parents = (
            None if one.parents is None else tuple(sorted(facts.position(v) for v in one.parents))
            for one in sets
        )
        return EffectOutcome(
            treatment, outcome, estimator, tuple(every), tuple(adjust), tuple(parents),
            kinds.rows, left, kinds.of_patients,
        )  # fmt: skip

    def _chosen(self, kinds: ColumnKinds, treatment: int, outcome: int) -> Estimator:
        """The estimator, if it takes these columns."""
        arms, values = kinds.categories[[treatment, outcome]].tolist()
        require(
            values <= BINARY,
            f"the outcome '{self.outcome}' has {values} categories; an effect is estimated on "
            "numbers or two categories",
        )
        require(
            BINARY in (values, self.outcome_category),
            f"outcome_category goes with two categories, and the outcome '{self.outcome}' has "
            "numbers",
        )
        require(values != 1, f"the outcome '{self.outcome}' has one category only")
        require(arms != 1, f"the treatment '{self.treatment}' has one category only")
        require(
            self.reference <= max(arms, 1),
            f"reference {self.reference} is no category of '{self.treatment}'",
        )
        if self.estimator == "auto":
            return "aipw" if arms else "linear"
        require(
            bool(arms) or self.estimator == "linear",
            f"the treatment '{self.treatment}' has numbers, and '{self.estimator}' compares "
            "categories; choose linear, or cut the numbers into bins in the schema",
        )
        return self.estimator

    def _check_strata(
        self, kinds: ColumnKinds, facts: Facts, treatment: int, adjust: list[tuple[int, ...]]
    ) -> None:
        for positions in adjust:
            number = next((facts.names[v] for v in positions if not kinds.categories[v]), None)
            require(number is None, f"standardise takes categories, and '{number}' has numbers")
            cells = math.prod(kinds.categories[[treatment, *positions]].tolist())
            require(cells <= MOST_CELLS, f"there are more than {MOST_CELLS} strata and arms")

    def _scopes(
        self,
        kinds: ColumnKinds,
        pair: tuple[int, int],
        adjust: list[tuple[int, ...]],
        estimator: Estimator,
    ) -> list[EffectSums]:
        """A question for every set, all of the same rows."""
        origins, units = common_scales(kinds)
        every = {v for positions in adjust for v in positions}
        return [
            EffectSums(
                categories=tuple(kinds.categories.tolist()),
                origins=origins,
                units=units,
                treatment=pair[0],
                outcome=pair[1],
                adjust=positions,
                complete_in=tuple(sorted(every - set(positions))),
                estimator=estimator,
                truncate=self.truncate,
                site_effect=self.site_effect,
                max_rows=self.max_rows,
            )
            for positions in adjust
        ]

    def conclude(self, outcome: EffectOutcome, facts: Facts) -> EstimatedEffect:
        """The effect by name."""
        names, sets = facts.names, []
        by_set = zip(outcome.effects, outcome.adjust, outcome.parents, strict=True)
        for effect, adjust, parents in by_set:
            in_order = iter(adjust)  # refutations leave variables out in their order
            refutations = tuple(
                replace(one, left_out=names[next(in_order)])
                if one.change == "variable left out"
                else one
                for one in effect.refutations
            )
            terms = effect.departures
            named = replace(
                effect,
                doubts=(*effect.doubts, *_determined(outcome, adjust, facts)),
                adjust=tuple(names[v] for v in adjust),
                refutations=refutations,
                departures=tuple(replace(one, variable=names[int(one.variable)]) for one in terms),
                parents=None if parents is None else tuple(names[v] for v in parents),
            )
            sets.append(named)
        return EstimatedEffect(
            treatment=names[outcome.treatment],
            outcome=names[outcome.outcome],
            estimator=outcome.estimator,
            reference=self.reference - 1,
            outcome_category=self.outcome_category,
            all_rows=outcome.all_rows,
            left_out=outcome.left_out,
            sets=tuple(sets),
            details=outcome.of_patients,
        )

    def disclosures(self) -> tuple[Disclosure, ...]:
        """Models, means and counts of propensities, as far as the options ask for them."""
        asked = {
            Quantity.REGRESSIONS: self.estimator != "standardise",
            Quantity.PROPENSITIES: self.estimator in ("ipw", "aipw", "auto"),
            Quantity.SCORES: self.estimator in ("ipw", "aipw", "auto"),
            Quantity.FOLDS: self.refute,
        }
        opened = [each for each in EffectSums.discloses if asked.get(each.quantity, True)]
        return joined(Columns(n_variables=1).disclosures, opened)

    def report(self, conclusion: EstimatedEffect) -> Report:
        """Report the warnings and the assumptions of the estimates."""
        return reported(conclusion)


def _determined(outcome: EffectOutcome, adjust: tuple[int, ...], facts: Facts) -> Iterator[str]:
    """The warning where the adjustment set determines treatment or outcome."""
    for what, v in (("treatment", outcome.treatment), ("outcome", outcome.outcome)):
        if facts.determined.follows(v, adjust):
            yield (
                f"The {what} '{facts.names[v]}' follows from what is adjusted for, so that no row "
                "shows what another treatment would have done: the estimate is a guess of the "
                "model. Adjust for other variables."
            )
