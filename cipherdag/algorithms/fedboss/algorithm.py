"""FedBOSS: the graph that scores best, by scores of all sites' rows.

Categories, and columns of both kinds, are scored by the sites' likelihoods, one number per set of
variables. These stay closed: the search goes from FedPC's graph by comparisons alone, and what
FedPC's tests say of categories has its part in the graph (`tested_edges`). Numbers are
scored from covariances within sites that are disclosed once. Other sums are disclosed where
parameters say so: likelihoods, or tables. Disclosed scores are searched by best order score search
on grow-shrink trees with a backward equivalence step after it.

Source: Andrews, Ramsey, Sanchez Romero, Camchong and Kummerfeld, "Fast scalable and accurate
discovery of DAGs using the best order score search and grow-shrink trees", NeurIPS 2023.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts, Reading
from cipherdag.algorithms.bootstrap import arcs_counted, replicated
from cipherdag.algorithms.evidence.site_differences import (
    differences_given_neighbours,
    marginal_differences,
)
from cipherdag.algorithms.fedboss.compared_scores import ComparedScores
from cipherdag.algorithms.fedboss.compared_search import ClassSearch, start_of
from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees, edge_worths, search_jointly
from cipherdag.algorithms.fedboss.moment_scores import MomentScores
from cipherdag.algorithms.fedboss.moment_search import best_by_moments
from cipherdag.algorithms.fedboss.order_search import best_of_starts
from cipherdag.algorithms.fedboss.report import FedBOSSOutcome, concluded, graphs_that_fit, reported
from cipherdag.algorithms.fedboss.set_sources import DISCOUNT, SetPenalty
from cipherdag.algorithms.fedboss.settings import (
    ScoreSettings,
    require_rows,
    set_score,
)
from cipherdag.algorithms.fedboss.tested_edges import with_tested_edges
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.algorithms.parameters import Reveal, require, within, without
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.dags import Dag, dag_of, matrix_of, topological
from cipherdag.graphs.equivalence import permitted
from cipherdag.graphs.knowledge import Constraints, Knowledge
from cipherdag.graphs.orientation import ClassOfDags, cpdag_of, meek
from cipherdag.questions.ci_tests import ColumnTypes
from cipherdag.questions.disclosure import Disclosure, Quantity, coarse, joined, sums
from cipherdag.questions.gather import gather_two, over_one_cohort
from cipherdag.questions.pooled_data import ColumnKinds, Columns
from cipherdag.questions.question import MAX_REPLICATES, Question, Resampled
from cipherdag.questions.scores.likelihoods import LogLikelihoods, ScoreComparisons
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.questions.verdicts import FEWEST_SITES

Searching = Generator[Question, FloatVector, FedBOSSOutcome]


@dataclass(frozen=True, kw_only=True, slots=True)
class FedBOSS(ScoreSettings):
    """FedBOSS's parameters besides those of `ScoreSettings`; `ask` is the algorithm.

    Attributes:
        reveal: What everybody learns of scores. ``bits``: which of two scores over all sites is
            higher, computed by secure multiparty computation (``docs/explanation/bits.md``), and
            the bits of FedPC's tests; the search goes from FedPC's graph over equivalence classes,
            and needs `within_sites`. ``sums``: the scores, or the tables and moments that they are
            computed from; and which variables are distributed differently at the sites,
            marginally and given their neighbours. ``auto``: ``bits``, but ``sums`` of columns that
            are all numbers and miss none, of one site alone, and without `within_sites`.
        knowledge: Background knowledge in a TOML file: forbidden and required edges, and tiers.
        bootstrap: Number of bootstrap replicates, which say how certain each edge is: every site
            redraws its rows, and the run is repeated in the same rounds, with as large a budget
            each.

    Leaks:
        Summed likelihoods tell tables, and are not asked for where a site restricts small counts. A
        site sees which sets are asked about.
    """

    name: ClassVar[str] = "fedboss"
    title: ClassVar[str] = "FedBOSS"
    use: ClassVar[str] = "Learn a causal graph by scores; try this one first."
    usual: ClassVar[tuple[str, ...] | None] = ("reveal", "bootstrap", "penalty")
    reads: ClassVar[frozenset[Reading]] = frozenset({"relations"})

    reveal: Reveal = "auto"
    knowledge: Knowledge | None = None
    bootstrap: int = within(0, 0, MAX_REPLICATES)

    def check(self) -> None:
        """Refuse what does not go together."""
        require(self.reveal != "bits" or self.within_sites, "reveal bits needs within_sites")

    def check_visits(self, visits: int) -> None:
        """Refuse visits where rows of all sites are scored as if of one site."""
        Algorithm.check_visits(self, 1 if self.within_sites else visits)

    def ask(self, facts: Facts) -> Searching:
        """The run as a generator: yields questions, receives sums, returns a `FedBOSSOutcome`.

        The names are for `knowledge`, the seed for restarts. Rounds of ``bits``: those of FedPC, up
        to three more, and two for every iteration of the search, or more where a round would have
        more than 20,000 comparisons. Of ``sums``: two for numbers, one more where spreads differ,
        and one to three more to compare the sites; else two to four, and as many as the search
        needs, about `max_rounds` at most.

        Raises:
            ParameterError: The knowledge contradicts itself or names other variables, or the seed
                is negative.
            PolicyRefusedError: Likelihoods would be summed, and a site restricts small counts.
            SiteUnreachableError: A site left: scores over fewer sites compare with no others.
        """
        require(0 <= facts.seed < 1 << 64, "the seed must be a number of 64 bits, not negative")
        asking = replicated(
            self._run(facts),
            lambda: self._run(facts, resampled=True),
            replicates=self.bootstrap,
            seed=facts.seed,
            counted=arcs_counted,
        )
        return over_one_cohort(asking, facts.present)

    def conclude(self, outcome: FedBOSSOutcome, facts: Facts) -> LearntGraph:
        """The best DAG and its CPDAG by name, what edges are worth, and other graphs that fit."""
        return concluded(outcome, facts).with_sample(graphs_that_fit(outcome, facts))

    def decisions(self, outcome: FedBOSSOutcome, facts: Facts) -> bytes:
        """The best DAG and its CPDAG; other graphs that fit follow from what the run disclosed."""
        return concluded(outcome, facts).decisions

    def disclosures(self) -> tuple[Disclosure, ...]:
        """What the scores open, at most: what columns are decides which of it."""
        opened: list[tuple[Disclosure, ...]] = [Resampled.discloses] if self.bootstrap else []
        if self.opened_of_categories == "bits":
            opened += [ScoreComparisons.discloses, FedPC(reveal="bits").disclosures()]
        if self.reveal != "bits":
            opened += [Columns(n_variables=1, few=True).disclosures, LogLikelihoods.discloses]
            opened += [SiteDifferences.discloses]
            within = coarse(Quantity.WITHIN, Quantity.VARIANCES)
            pooled = sums(Quantity.MOMENTS, Quantity.TABLES)
            opened += [within if self.within_sites else pooled]
        return joined(*opened)

    def used(self, conclusion: LearntGraph, columns: ColumnTypes | None) -> dict[str, Any]:
        """Without the options of scores, or of a search, that the run did not need."""
        bits = conclusion.opens_bits
        tables = bits or columns != "continuous"
        used = Algorithm.used(self, conclusion, columns) | {"reveal": "bits" if bits else "sums"}
        return without(
            used,
            penalty=columns != "discrete",
            max_rounds=tables,
            max_values=tables,
            restarts=not bits,
        )

    def report(self, conclusion: LearntGraph) -> Report:
        """The score along the search, and how sets were scored."""
        return reported(conclusion, pooled=not self.within_sites)

    @property
    def opened_of_categories(self) -> Literal["bits", "sums"]:
        """What is opened of categories where `reveal` is ``auto``; else what it says."""
        if self.reveal != "auto":
            return self.reveal
        return "bits" if self.within_sites else "sums"

    def _run(self, facts: Facts, *, resampled: bool = False) -> Searching:
        constraints = (self.knowledge or Knowledge()).over(facts.names)
        opens_sums = self.reveal != "bits"  # only sums need a unit and an origin per column
        question = Columns(
            n_variables=facts.n_variables,
            max_rows=self.max_rows,
            few=opens_sums,
            marks=opens_sums,
            visits=facts.visits,
        )
        columns = question.read((yield question))
        by_default = self.opened_of_categories == "bits" and facts.n_sites >= FEWEST_SITES
        if self.reveal == "bits" or (by_default and not _plain_numbers(columns)):
            run = self._run_on_bits
        else:
            run = self._run_on_sums
        outcome = yield from run(facts, columns, constraints, resampled=resampled)
        return replace(
            outcome,
            constraints=constraints,
            incomplete=tuple(np.flatnonzero(columns.incomplete).tolist()),
            rows=columns.rows,
            of_patients=columns.of_patients,
        )

    def _run_on_bits(
        self, facts: Facts, columns: ColumnKinds, constraints: Constraints, *, resampled: bool
    ) -> Searching:
        """From FedPC's graph by comparisons. Rounds: FedPC's, two, and two for every iteration."""
        require_rows(columns)
        tests = FedPC(reveal="bits", knowledge=self.knowledge, max_rows=self.max_rows)
        tests.check_sites(facts.n_sites)
        tested = yield from tests.learn(facts, constraints, resampled=resampled)
        score, budget = set_score(columns.rows), self.budget
        bounds = self.bounds_of_sets(score, columns, facts.n_sites)
        scores = ComparedScores(
            SetPenalty(columns.categories, score, self.scoring.penalty),
            per_parent=bounds["per_parent"],
            n_sites=facts.n_sites,
            discount=DISCOUNT,
            max_rows=self.max_rows,
            budget=budget,
        )
        required = dag_of(constraints.required)
        search = ClassSearch(
            scores,
            (yield from scores.near()),
            max_cells=bounds["max_cells"],
            max_parents=bounds["max_parents"],
            permitted=partial(
                permitted, forbidden=dag_of(constraints.forbidden), required=required
            ),
        )
        start = start_of(tested.arcs, search.permitted, required)
        dag = yield from search.best(search.within_bounds(start, required))
        classed = ClassOfDags(self._class_of(dag, constraints), matrix_of(dag))
        by_tests = np.zeros_like(classed.arcs)
        if columns.categories.any() and self.scoring.max_parents is None:
            classed, by_tests = yield from with_tested_edges(
                dag, tested, scores, constraints, n_sites=facts.n_sites
            )
        return FedBOSSOutcome(
            dag=classed.dag,
            arcs=classed.arcs,
            curved=tested.doubts.among(classed.arcs | classed.arcs.T),
            by_tests=by_tests,
            compared=scores.n_compared,
            cut_short=budget.refused,
        )

    def _class_of(self, dag: Dag, constraints: Constraints) -> BoolMatrix:
        """The CPDAG, in which knowledge directs more."""
        arcs = cpdag_of(matrix_of(dag))
        if self.knowledge is None:
            return arcs
        return meek(arcs & ~constraints.forbidden, rules=(1, 2, 3, 4))

    def _run_on_sums(
        self, facts: Facts, columns: ColumnKinds, constraints: Constraints, *, resampled: bool
    ) -> Searching:
        budget = self.budget
        bounds = {"min_contributors": facts.min_contributors, "max_rows": self.max_rows}
        compared = None if resampled or columns.repeats else columns
        scores, marginal = yield from gather_two(
            self.open_scores(columns, facts.n_sites, budget),
            marginal_differences(compared, **bounds),
        )
        required = dag_of(constraints.required)
        trees = GrowShrinkTrees(scores, dag_of(constraints.forbidden), required)
        rng, restarts = np.random.default_rng(facts.seed), self.scoring.restarts
        if isinstance(scores, MomentScores):
            searches = [best_by_moments(trees, scores, restarts, rng)]
            (best,) = yield from search_jointly(trees, searches)
        else:
            order = topological(required)
            best = yield from best_of_starts(trees, order, restarts, rng)
        arcs = self._class_of(best.dag, constraints)
        given = yield from differences_given_neighbours(compared, marginal, arcs | arcs.T, **bounds)
        return FedBOSSOutcome(
            dag=matrix_of(best.dag),
            arcs=arcs,
            curve=tuple(math.ldexp(score, -scores.bits) for score in best.curve),
            worth=edge_worths(best.dag, scores),
            effects=scores.effects(best.dag) if isinstance(scores, MomentScores) else {},
            sets=dict(scores.tally),
            cut_short=budget.refused,
            differences=(*marginal, *given),
            moments=scores if isinstance(scores, MomentScores) else None,
        )


def _plain_numbers(columns: ColumnKinds) -> bool:
    """Whether all columns are numbers that no site misses."""
    return not columns.categories.any() and not columns.incomplete.any()
