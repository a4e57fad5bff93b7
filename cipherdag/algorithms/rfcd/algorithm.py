"""RFcd: the graph whose worst-case regret over sites is smallest (Mian, Kaltenpoth and Kamp, 2022).

Every site learns its own graph; the coordinator then searches for the graph that no site finds much
worse than its own (Eq. 1 and 2, Algorithm 1). In the paper the sites send their regrets; here the
coordinator learns the largest one only. The sites' half is ``sites.regrets``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cipherdag.algorithms.algorithm import Algorithm, Facts, Reading
from cipherdag.algorithms.departures import over_one_cohort
from cipherdag.algorithms.parameters import require, within, without
from cipherdag.algorithms.published import Published
from cipherdag.algorithms.rfcd.objectives import (
    BEYOND,
    Objective,
    SumOverFamilies,
    Valued,
    WorstGraphRegret,
)
from cipherdag.algorithms.rfcd.report import RFcdOutcome, concluded, reported
from cipherdag.algorithms.rfcd.searches import Progress, Search, SearchedGraph
from cipherdag.arrays import FloatVector
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.dags import empty_dag, matrix_of
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.questions.ci_tests import ColumnTypes
from cipherdag.questions.disclosure import Disclosure
from cipherdag.questions.encodings import require_possible
from cipherdag.questions.question import Question
from cipherdag.questions.regrets import (
    REGRET_GRID_LIMIT,
    FamilyRegretExceeds,
    FamilyRegrets,
    GraphRegretExceeds,
    ScoreSpec,
    from_grid,
)

MAX_EXACT = 10
OBJECTIVES = {
    "graph": GraphRegretExceeds.discloses,
    "nodewise": FamilyRegretExceeds.discloses,
    "sum": FamilyRegrets.discloses,
}
"""What an objective opens."""
EXACT = {"search": "beam", "grid_bits": REGRET_GRID_LIMIT}
VARIED = frozenset({"score", "beam"})

Searching = Generator[Question, FloatVector, RFcdOutcome]


@dataclass(frozen=True, kw_only=True, slots=True)
class RFcd(Algorithm[RFcdOutcome, LearntGraph]):
    """RFcd's parameters; `ask` is the algorithm.

    Attributes:
        score: How a graph is scored: ``bic`` (RFcd-B): linear Gaussian or, for discrete columns,
            tables; ``mdl`` (RFcd-M): spline description length, continuous columns only.
        learner: How each site finds the best graph for its rows: ``ges``, ``hill-climbing`` or
            ``exact``.
        objective: Which regret is minimised: ``graph``: the largest regret over sites (the paper);
            ``nodewise``: the sum over variables of the largest regret of its parents (PERI), an
            upper bound of it; ``sum``: the sum of all sites' regrets.
        search: How graphs are searched: ``beam``: Algorithm 1 over DAGs, which only adds edges;
            ``best-first``: over equivalence classes, from the best of those `kept` to all with one
            edge more, less or turned; ``ges``: greedy equivalence search over the same objective
            (the paper's future work). ``auto``: ``best-first`` where Markov-equivalent graphs have
            one objective, else ``beam``: with ``mdl`` or ``nodewise``.
        beam: Graphs that every step of the beam search keeps, b.
        kept: Graphs that the best-first search keeps in view.
        grid_bits: Precision, in bits, at which regrets are compared; sites that restrict
            small counts report them to a sixteenth.

    Leaks:
        Nobody learns which site is the worst, nor how many are; but a largest regret is one site's
        own, and where one has by far the most rows everybody can guess whose. From exact regrets of
        a few graphs that site's joint table follows, small counts included. So sites that restrict
        small counts join rare categories, move likelihoods by up to a nat and tell regrets to a
        sixteenth; sites that restrict none give their tables away. A site that colludes with the
        coordinator can leave its own regret out and learns the worst case of the others.
    """

    name: ClassVar[str] = "rfcd"
    title: ClassVar[str] = "RFcd"
    use: ClassVar[str] = "Learn one graph for sites that may differ by interventions."
    usual: ClassVar[tuple[str, ...] | None] = ("score", "objective")
    reads: ClassVar[frozenset[Reading]] = frozenset({"relations"})
    retired: ClassVar[dict[str, object]] = {"noise": 0.0}
    published: ClassVar[Mapping[str, Published]] = {"paper": Published(EXACT, VARIED)}

    score: Literal["bic", "mdl"] = "bic"
    learner: Literal["ges", "hill-climbing", "exact"] = "ges"
    objective: Literal["graph", "nodewise", "sum"] = "graph"
    search: Literal["auto", "best-first", "beam", "ges"] = "auto"
    beam: int = within(10, 1)
    kept: int = within(3, 1)
    grid_bits: int = within(10, 0, REGRET_GRID_LIMIT)

    def check(self) -> None:
        """Refuse a search over classes of which every graph has another objective."""
        require(
            self.search != "best-first" or self._equivalent_equal,
            "search best-first goes over Markov equivalence classes, and with score mdl or "
            "objective nodewise their graphs differ; choose beam",
        )

    def ask(self, facts: Facts) -> Searching:
        """The run as a generator: yields questions, receives sums, returns an `RFcdOutcome`.

        Args:
            facts: Only the number of variables matters.

        Returns:
            The outcome. Rounds: about three per step of the search and as many for the empty
            graph; one per step with ``sum``.

        Raises:
            ParameterError: ``exact`` for more than 10 variables.
            AggregateRangeError: A regret exceeds the grid.
            SiteUnreachableError: A site left: regrets over fewer sites compare with no others.
        """
        require(
            self.learner != "exact" or facts.n_variables <= MAX_EXACT,
            f"the exact learner takes at most {MAX_EXACT} variables",
        )
        return over_one_cohort(self._run(facts.n_variables), facts.present)

    def conclude(self, outcome: RFcdOutcome, facts: Facts) -> LearntGraph:
        """The best DAG and its CPDAG by name, and the regret on the way."""
        return concluded(outcome, facts)

    def disclosures(self) -> tuple[Disclosure, ...]:
        """What the objective opens."""
        return OBJECTIVES[self.objective]

    def used(self, conclusion: LearntGraph, columns: ColumnTypes | None) -> dict[str, Any]:
        """With the search that was used, and how many graphs that one keeps."""
        search, used = self._searched, Algorithm.used(self, conclusion, columns)
        used["search"] = search
        return without(used, beam=search == "beam", kept=search == "best-first")

    def report(self, conclusion: LearntGraph) -> Report:
        """The regret and its curve."""
        return reported(conclusion)

    def _run(self, n_variables: int) -> Searching:
        objective = self._objective(n_variables)
        empty = empty_dag(n_variables)
        start = yield from objective.best({empty: empty}, keep=1, near=0, worst=None)
        require_possible("the regret of the empty graph", BEYOND, holds=start)
        progress = Progress([start[0].value])
        best = yield from self._search(objective, progress)(start[0])
        dag = matrix_of(best.dag)
        return RFcdOutcome(
            dag=dag,
            arcs=cpdag_of(dag),
            regret=from_grid(best.value, self.grid_bits),
            curve=tuple(from_grid(value, self.grid_bits) for value in progress.curve),
            grid=from_grid(1, self.grid_bits),
            candidates=progress.candidates,
        )

    @property
    def _equivalent_equal(self) -> bool:
        """Whether equivalent graphs have one objective."""
        return self.score == "bic" and self.objective != "nodewise"

    @property
    def _searched(self) -> str:
        """The search that is used."""
        if self.search != "auto":
            return self.search
        return "best-first" if self._equivalent_equal else "beam"

    def _search(
        self, objective: Objective, progress: Progress
    ) -> Callable[[Valued], SearchedGraph]:
        name = self._searched
        kept = self.beam if name == "beam" else self.kept
        search = Search(
            objective=objective,
            kept=kept,
            equivalent_equal=self._equivalent_equal,
            progress=progress,
        )
        return {"best-first": search.best_first, "beam": search.algorithm_1, "ges": search.greedy}[
            name
        ]

    def _objective(self, n_variables: int) -> Objective:
        spec = ScoreSpec(score=self.score, learner=self.learner)
        if self.objective == "graph":
            return WorstGraphRegret(n_variables, spec, self.grid_bits)
        return SumOverFamilies(
            n_variables, spec, self.grid_bits, worst_case=self.objective == "nodewise"
        )
