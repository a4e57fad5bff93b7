"""FedBOSS: the graph of the best order of the variables, by scores of all sites' rows together.

Numbers are scored from moments that are opened once, categories from contingency tables that are
asked for in waves, and columns of both kinds from the sites' likelihoods, one number per set of
variables. The search is best order score search on grow-shrink trees with a backward equivalence
step after it.

Source: Andrews, Ramsey, Sanchez Romero, Camchong and Kummerfeld, "Fast scalable and accurate
discovery of DAGs using the best order score search and grow-shrink trees", NeurIPS 2023.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts, Reading
from cipherdag.algorithms.bootstrap import arcs_counted, once_more, replicated
from cipherdag.algorithms.departures import over_one_cohort
from cipherdag.algorithms.evidence.pooled_moments import open_correlations
from cipherdag.algorithms.evidence.pooled_tables import PooledTables
from cipherdag.algorithms.evidence.site_differences import (
    COMPARISON,
    differences_given_neighbours,
    marginal_differences,
)
from cipherdag.algorithms.fedboss.equivalence_search import greedy
from cipherdag.algorithms.fedboss.grow_shrink import FamilyScores, GrowShrinkTrees, search_jointly
from cipherdag.algorithms.fedboss.moment_scores import MomentScores
from cipherdag.algorithms.fedboss.order_search import best_of_starts
from cipherdag.algorithms.fedboss.report import FedBOSSOutcome, concluded, reported
from cipherdag.algorithms.fedboss.set_families import Budget
from cipherdag.algorithms.fedboss.set_sources import LikelihoodScores, TableScores
from cipherdag.algorithms.parameters import require, row_bound, within
from cipherdag.arrays import FloatVector
from cipherdag.errors import DataError
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.dags import Dag, dag_of, matrix_of, members, topological
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.graphs.orientation import cpdag_of, meek
from cipherdag.questions.encodings import require_possible
from cipherdag.questions.gather import gather_two
from cipherdag.questions.likelihoods import LARGEST_DISCOUNT
from cipherdag.questions.pooled_data import MAX_CELLS, ColumnKinds, Columns
from cipherdag.questions.question import MAX_REPLICATES, Question
from cipherdag.statistics.reproducible import logarithm_of
from cipherdag.statistics.set_scores import SetScore, grid_bits, least_consistent_prior

Searching = Generator[Question, FloatVector, FedBOSSOutcome]
Scores = MomentScores | TableScores | LikelihoodScores
Opening = Generator[Question, FloatVector, Scores]

MOST_PARENTS = 12
MOST_STARTS = 1000
LEAVE_OUT = "withheld leave-out"
POOLED = (
    "Of numbers, the means and covariances of all sites' rows together; of categories, the tables "
    "over all sites of the sets of variables that the search looks at."
)
CENTRED = (
    "Of numbers, the covariances within sites, summed over them; a site that restricts small "
    "counts weighs its rows by chance."
)
SITES = (
    "Of sets of variables, how well each site's own distribution explains its rows, summed over "
    "the sites, to a sixteenth of a nat; a site that restricts small counts joins rare categories "
    "and moves it by up to a nat. How many sites have a category is not counted."
)
KINDS = "The kinds of columns, and about where and how widely numbers lie."
RESTRICTED = (
    "Where a site restricts small counts of categories or of numbers with few values, or "
    "misses values: "
)
NO_TABLES = (
    "and with scores sites or within_sites none are opened: set within_sites to false "
    "(--no-within-sites), which takes differences between sites for dependences"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FedBOSS(Algorithm[FedBOSSOutcome, LearntGraph]):
    """FedBOSS's parameters; `ask` is the algorithm.

    Attributes:
        scores: What is scored: ``pooled``: the moments or tables of all sites together; ``sites``:
            the sites' own likelihoods, of which sums are opened and no table.
        score: How a family is scored: ``auto``: numbers by ``bic``, categories by ``qnml``; columns
            of both kinds have the sum of both. ``bdeu`` takes categories only.
        penalty: How many times ln(n) / 2 a free parameter costs in the ``bic`` of numbers.
        table_penalty: The same in the ``bic`` of categories.
        prior_rows: Equivalent sample size of ``bdeu``.
        per_parent: How many times the structure prior's cost a parent has: ln(p) where there are
            categories; of numbers alone the least with which the extended BIC is consistent,
            ln(p) - ln(n) / 2, and nothing up to the root of n variables.
        within_sites: Whether differences between sites are no evidence: numbers are taken from
            each site's own mean, categories scored as with `scores` ``sites``. Without it, a
            difference between sites in two columns is a dependence between them.
        withheld: What becomes of tables where some site restricts small counts: ``sites``: all
            scores come from the sites' own likelihoods; ``leave-out``: tables are asked for, and
            what needs one that a site withholds is no candidate. So it is with ``bdeu``. Both need
            `within_sites` to be false.
        discount: With likelihoods of the sites: how many times what chance alone explains at a
            site is taken off.
        search: How graphs are searched: ``boss``: best order score search; ``ges``: greedy
            equivalence search, from the empty graph (or required edges) by insertions, deletions
            and turns.
        restarts: How often ``boss`` starts again from the best graph so far, some variables moved
            at random.
        max_parents: Most parents that are looked for.
        max_cells: Largest contingency table that is asked for.
        max_rounds: Rounds of the search, after which it goes on with what is known; None for no
            limit.
        max_values: Values that a site answers in the search, likewise.
        compare_sites: Whether variables are tested for differences between the sites, marginally
            and given their neighbours, which takes two rounds at the end where some differ.
        knowledge: What is known of the edges before: forbidden and required ones, and tiers.
        bootstrap: Replicates over rows that every site draws from its own, for the confidence of
            edges: the run is repeated in the same rounds, with as large a budget each.
        max_rows: Declared bound of a site's rows, a power of two.

    Leaks:
        The coordinator learns what `Columns` opens; of numbers the covariances within sites; of
        categories, of columns of both kinds, and of columns with missing values, the summed log
        likelihoods of the sets of variables that the search looks at, to which sites that restrict
        small counts add noise (see `LogLikelihoods`). Without `within_sites`: of numbers the means
        and covariances of all rows; of categories, unless a site restricts small counts, the tables
        of these sets summed over the sites, and which of them some site withholds. A site sees
        which sets are asked about. With `compare_sites` what `evidence.site_differences` opens of
        every variable. With `bootstrap` all but that once more for every replicate.
    """

    name: ClassVar[str] = "fedboss"
    title: ClassVar[str] = "FedBOSS"
    reads: ClassVar[frozenset[Reading]] = frozenset({"relations"})

    scores: Literal["pooled", "sites"] = "pooled"
    score: Literal["auto", "bic", "bdeu", "qnml"] = "auto"
    penalty: float = within(2.0, 0, 100, above=True)
    table_penalty: float = within(1.0, 0, 100, above=True)
    prior_rows: float = within(1.0, 0, 1e6, above=True)
    per_parent: float = within(1.0, 0, 100)
    within_sites: bool = True
    withheld: Literal["sites", "leave-out"] = "sites"
    discount: int = within(3, 0, LARGEST_DISCOUNT)
    search: Literal["boss", "ges"] = "boss"
    restarts: int = within(5, 0, MOST_STARTS)
    max_parents: int = within(8, 1, MOST_PARENTS)
    max_cells: int = within(1024, 4, MAX_CELLS)
    max_rounds: int | None = within(200, 1)
    max_values: int | None = within(5_000_000, 1)
    compare_sites: bool = True
    knowledge: Knowledge | None = None
    bootstrap: int = within(0, 0, MAX_REPLICATES)
    max_rows: int = row_bound()

    def check(self) -> None:
        """Refuse what does not go together."""
        tables = self.scores == "pooled" and not self.within_sites
        leaves_out = self.withheld == "leave-out"
        for needed, what in ((self.score == "bdeu", "score bdeu"), (leaves_out, LEAVE_OUT)):
            require(tables or not needed, f"{what} needs tables, {NO_TABLES}")

    def ask(self, facts: Facts) -> Searching:
        """The run as a generator: yields questions, receives sums, returns a `FedBOSSOutcome`.

        Args:
            facts: The names are for `knowledge`, the seed for restarts.

        Returns:
            The outcome. Rounds: two for numbers, and one to three more with `compare_sites`; else
            two to four, and then as many as the search needs, about `max_rounds` at most.

        Raises:
            ParameterError: The knowledge contradicts itself or names other variables, the score
                does not fit the columns, or the seed is negative.
            SiteUnreachableError: A site left: scores over fewer sites compare with no others.

        Leaks:
            See the class.
        """
        require(0 <= facts.seed < 1 << 64, "the seed must be a number of 64 bits, not negative")
        asking = replicated(
            self._run(facts, compare=self.compare_sites),
            lambda: self._run(facts, compare=False),
            replicates=self.bootstrap,
            seed=facts.seed,
            counted=arcs_counted,
        )
        return over_one_cohort(asking, facts.present)

    def conclude(self, outcome: FedBOSSOutcome, facts: Facts) -> LearntGraph:
        """The best DAG and its CPDAG by name, and what every edge is worth."""
        return concluded(outcome, facts)

    def disclosures(self) -> tuple[str, ...]:
        """What the scores open."""
        said: tuple[str, ...] = (POOLED,)
        if self.scores == "sites":
            said = (SITES,)
        elif self.within_sites:
            said = (CENTRED, "Where there are categories, or a site misses values: " + SITES)
        elif self.in_place_of_tables:
            said = (POOLED, RESTRICTED + SITES)
        said = (*said, COMPARISON) if self.compare_sites else said
        return (*said, KINDS, *((once_more(self.bootstrap),) if self.bootstrap else ()))

    def report(self, conclusion: LearntGraph) -> Report:
        """The score along the search, and how sets were scored."""
        pooled = self.scores == "pooled" and not self.within_sites
        return reported(
            conclusion, steps="phases" if self.search == "ges" else "starts", pooled=pooled
        )

    @property
    def in_place_of_tables(self) -> bool:
        """Whether likelihoods replace tables where a site restricts small counts."""
        return self.withheld != "leave-out" and self.score != "bdeu"

    def _run(self, facts: Facts, *, compare: bool) -> Searching:
        constraints = (self.knowledge or Knowledge()).over(facts.names)
        budget = Budget(self.max_rounds, self.max_values)
        question = Columns(n_variables=facts.n_variables, max_rows=self.max_rows, few=True)
        columns = question.read((yield question))
        bounds = {"fewest": facts.fewest, "max_rows": self.max_rows}
        compared = columns if compare else None
        scores, marginal = yield from gather_two(
            self._open_scores(columns, facts.n_sites, budget),
            marginal_differences(compared, **bounds),
        )
        required = dag_of(constraints.required)
        trees = GrowShrinkTrees(scores, dag_of(constraints.forbidden), required)
        if self.search == "ges":
            (best,) = yield from search_jointly(trees, [greedy(required, trees)])
        else:
            rng = np.random.default_rng(facts.seed)
            order = topological(required)
            best = yield from best_of_starts(trees, order, self.restarts, rng)
        arcs = cpdag_of(matrix_of(best.dag))
        if self.knowledge is not None:  # which directs more
            arcs = meek(arcs & ~constraints.forbidden, rules=(1, 2, 3, 4))
        given = yield from differences_given_neighbours(compared, marginal, arcs | arcs.T, **bounds)
        return FedBOSSOutcome(
            dag=matrix_of(best.dag),
            arcs=arcs,
            curve=tuple(math.ldexp(score, -scores.bits) for score in best.curve),
            worth=_worth(best.dag, scores),
            effects=_effects(best.dag, scores),
            sets=dict(scores.tally),
            cut_short=budget.refused,
            constraints=constraints,
            incomplete=tuple(np.flatnonzero(columns.incomplete).tolist()),
            rows=columns.rows,
            differences=(*marginal, *given),
        )

    def _open_scores(self, columns: ColumnKinds, n_sites: int, budget: Budget) -> Opening:
        """The source of scores that the columns and the parameters ask for.

        Rounds: one for moments or for all pairs, one more where a site restricts small counts.
        """
        discrete = columns.categories > 0
        mixed = discrete.any() and not discrete.all()
        few = not self.within_sites and columns.few.any()  # their sums would be counts
        by_site = self.scores == "sites" or columns.incomplete.any() or few or mixed
        if discrete.any():
            restricted = columns.restricted and self.in_place_of_tables
            if not (by_site or self.within_sites or restricted):
                return (yield from self._from_tables(columns, budget))
        elif not by_site:
            return (yield from self._from_moments(columns, n_sites))
        return (yield from self._from_likelihoods(columns, budget))

    def _from_moments(self, columns: ColumnKinds, n_sites: int) -> Opening:
        require(
            self.score in ("auto", "bic"),
            f"score {self.score} takes categories, and these are numbers",
        )
        rows, correlations = yield from open_correlations(
            columns,
            np.arange(len(columns.categories)),
            max_rows=self.max_rows,
            centred=self.within_sites,
        )
        require_possible("moments", "other rows than there are", holds=rows == columns.rows)
        return MomentScores(
            correlations,
            rows - n_sites * self.within_sites,
            penalty=self.penalty,
            per_parent=self._prior(columns, rows),
            max_parents=self.max_parents,
        )

    def _from_tables(self, columns: ColumnKinds, budget: Budget) -> Opening:
        tables = PooledTables(columns, max_rows=self.max_rows)
        alone = np.arange(len(columns.categories))[:, None]
        pairs = np.argwhere(np.triu(np.ones((len(alone),) * 2, dtype=bool), k=1))
        pairs = pairs[tables.cells(pairs) <= self.max_cells]
        yield from tables.find_withheld([alone, pairs])
        yield from tables.ask([alone, pairs])
        levels = columns.categories.copy()
        for variable in np.flatnonzero(tables.available(alone)).tolist():
            levels[variable] = max(int((tables.marginal(variable) > 0).sum()), 1)
        score = self._set_score(columns.rows)
        settings = self._search_settings(score, columns)
        scores = TableScores(tables, levels.tolist(), score, budget, **settings)
        yield from scores.learn_pairs()
        return scores

    def _from_likelihoods(self, columns: ColumnKinds, budget: Budget) -> Opening:
        if not columns.rows:
            raise DataError(
                "no site has rows enough that miss no value",
                remedy="Leave out columns that miss many values, or run fedpc, which tests what "
                "rows each test has.",
            )
        require(
            self.score != "bdeu",
            "score bdeu takes tables of all rows: categories that miss no value and no numbers; "
            "use score qnml or bic",
        )
        levels = np.maximum(columns.categories, 1)
        score = self._set_score(columns.rows)
        half = 0.5 * self.penalty * logarithm_of(max(score.rows, 2)) * 2.0**score.bits

        def cost(mask: int) -> int:
            """The penalty of all rows, by how many parameters the set's model has."""
            sizes = levels[[*members(mask)]]
            numbers = int((columns.categories[[*members(mask)]] == 0).sum())
            parameters = numbers * (numbers - 1) // 2 + numbers * int((sizes - 1).sum())
            cells = np.array([float(sizes.prod())])
            return int(score.of_shape(cells)[0]) - round(half * parameters)

        scores = LikelihoodScores(
            levels.tolist(),
            score,
            cost,
            budget,
            discount=self.discount,
            max_rows=self.max_rows,
            **self._search_settings(score, columns),
        )
        yield from scores.learn_pairs()
        return scores

    def _set_score(self, rows: int) -> SetScore:
        """The score of categories, of so many rows."""
        return SetScore(
            name="qnml" if self.score == "auto" else self.score,
            rows=rows,
            penalty=self.table_penalty,
            prior_rows=self.prior_rows,
            bits=grid_bits(rows),
        )

    def _prior(self, columns: ColumnKinds, rows: int) -> float:
        """What the structure prior takes for every parent, in nats."""
        p = len(columns.categories)
        discrete = columns.categories.any()
        return self.per_parent * (logarithm_of(p) if discrete else least_consistent_prior(p, rows))

    def _search_settings(self, score: SetScore, columns: ColumnKinds) -> dict[str, int]:
        """What `SetFamilies` also takes."""
        return {
            "bits": score.bits,
            "per_parent": int(score.on_grid(np.array([self._prior(columns, score.rows)]))[0]),
            "max_cells": self.max_cells,
            "max_parents": self.max_parents,
        }


def _worth(dag: Dag, scores: FamilyScores) -> tuple[tuple[int, int, float], ...]:
    """Of every edge (cause, effect, nats) how much the score falls without it alone."""
    worth = []
    for v, parents in enumerate(dag):
        score = scores.score(v, parents)
        for u in members(parents):
            less = scores.score(v, parents & ~(1 << u))
            if score is not None and less is not None:
                worth.append((u, v, math.ldexp(score - less, -scores.bits)))
    return tuple(worth)


def _effects(dag: Dag, scores: FamilyScores) -> dict[tuple[int, int], EffectSize]:
    """Of every edge (cause, effect) the sign and size that the opened moments tell, if any were."""
    if not isinstance(scores, MomentScores):
        return {}
    effects = {
        (u, v): scores.effect(u, v, parents & ~(1 << u))
        for v, parents in enumerate(dag)
        for u in members(parents)
    }
    return {edge: effect for edge, effect in effects.items() if effect is not None}
