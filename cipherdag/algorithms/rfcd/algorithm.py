"""RFcd: the graph whose worst-case regret over sites is smallest (Mian, Kaltenpoth and Kamp, 2022).

Every site learns its own graph; the coordinator then searches for the graph that no site finds much
worse than its own (Eq. 1 and 2, Algorithm 1). In the paper the sites send their regrets; here the
coordinator learns the largest one only. The sites' half is `sites.answers.regret_answers`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from cipherdag.algorithms.algorithm import Algorithm, Facts, Published, Reading
from cipherdag.algorithms.parameters import preset, within
from cipherdag.algorithms.rfcd.searches import (
    BEYOND,
    Objective,
    Progress,
    Search,
    SumOverFamilies,
    Valued,
    WorstGraphRegret,
)
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.axes import Curves, Series
from cipherdag.findings.finding import Note, Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.dags import empty_dag, matrix_of
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.questions.disclosure import Disclosure
from cipherdag.questions.encodings import require_possible
from cipherdag.questions.gather import over_one_cohort
from cipherdag.questions.question import Asking
from cipherdag.questions.regrets import (
    REGRET_GRID_LIMIT,
    FamilyRegretExceeds,
    FamilyRegrets,
    GraphRegretExceeds,
    ScoreSpec,
    from_grid,
)


@dataclass(frozen=True, slots=True)
class RFcdOutcome:
    """What an RFcd run concludes, by position; p variables."""

    dag: BoolMatrix  # the best DAG found, directed edges of shape (p, p)
    arcs: BoolMatrix  # its CPDAG, shape (p, p): True where i -> j or i - j
    regret: float  # the objective, in nats (``bic``) or bits (``mdl``), on the grid
    curve: tuple[float, ...]  # the smallest objective after every step, the empty graph's first
    grid: float  # distance of two values on the grid
    candidates: int  # graphs compared; of equivalent ones with one objective one is asked


OBJECTIVES = {
    "graph": GraphRegretExceeds.discloses,
    "nodewise": FamilyRegretExceeds.discloses,
    "sum": FamilyRegrets.discloses,
}
"""What a run with each objective discloses."""
EXACT = {"search": "beam", "grid_bits": REGRET_GRID_LIMIT}
VARIED = frozenset({"score", "beam"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Searching:
    """How graphs are searched; the usual way is that of this package.

    Attributes:
        search: ``auto``: best first over Markov equivalence classes, from the best of `kept` to
            all with one edge more, less or reversed, where Markov-equivalent graphs have one
            objective. Else, and with ``beam``, Algorithm 1, a beam over DAGs, which only adds
            edges.
        beam: Graphs that every step of the beam search keeps, b.
        kept: Graphs that the search over classes keeps in view.
        grid_bits: Precision, in bits, at which regrets are compared; sites that restrict
            small counts report them to a sixteenth.
    """

    search: Literal["auto", "beam"] = "auto"
    beam: int = within(10, 1)
    kept: int = within(3, 1)
    grid_bits: int = within(10, 0, REGRET_GRID_LIMIT)


@dataclass(frozen=True, kw_only=True, slots=True)
class RFcd(Algorithm[RFcdOutcome, LearntGraph]):
    """RFcd's parameters; `ask` is the algorithm.

    Attributes:
        score: How a graph is scored: ``bic`` (RFcd-B): linear Gaussian or, for discrete columns,
            tables; ``mdl`` (RFcd-M): spline description length, continuous columns only.
        objective: Which regret is minimised: ``graph``: the largest regret over sites (the paper);
            ``nodewise``: the sum over variables of the largest regret of its parents (PERI), an
            upper bound of it; ``sum``: the sum of all sites' regrets.
        searching: How graphs are searched: best first over equivalence classes; with ``mdl`` or
            ``nodewise`` by a beam over DAGs.

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
    retired: ClassVar[dict[str, object]] = {"noise": 0.0, "learner": "ges"}
    published: ClassVar[Mapping[str, Published]] = {"paper": Published(EXACT, VARIED)}

    score: Literal["bic", "mdl"] = "bic"
    objective: Literal["graph", "nodewise", "sum"] = "graph"
    searching: Searching = preset(Searching())

    def ask(self, facts: Facts) -> Asking[RFcdOutcome]:
        """The run as a generator: yields questions, receives sums, returns an `RFcdOutcome`.

        Rounds: about three per step of the search and as many for the empty graph; one per step
        with ``sum``. AggregateRangeError where a regret exceeds the grid; SiteUnreachableError
        where a site left, since regrets over fewer sites are no longer comparable.
        """
        return over_one_cohort(self._run(facts.n_variables), facts.present)

    def conclude(self, outcome: RFcdOutcome, facts: Facts) -> LearntGraph:
        return LearntGraph.of_dag(
            facts.names,
            outcome.dag,
            cpdag=outcome.arcs,
            open_edges=facts.determined.without_direction(
                outcome.arcs | outcome.arcs.T, by_scores=True
            ),
            details={
                "regret": outcome.regret,
                "regret_curve": list(outcome.curve),
                "regret_grid": outcome.grid,
                "candidates": outcome.candidates,
            },
        )

    def disclosures(self) -> tuple[Disclosure, ...]:
        return OBJECTIVES[self.objective]

    def report(self, conclusion: LearntGraph) -> Report:
        details = conclusion.details
        curve = details["regret_curve"]
        said = (
            f"Worst-case regret {details['regret']:.3f} (empty graph {curve[0]:.3f}), to the "
            f"nearest {details['regret_grid']:g}, after {details['candidates']} candidate graphs"
        )
        points = tuple((float(step), float(regret)) for step, regret in enumerate(curve))
        shown = Curves(
            title="Worst-case regret",
            note="How much worse the best graph so far scores at the site where it scores worst, "
            "than the graph which that site learnt alone.",
            x_label="step of the search",
            y_label="regret",
            series=(Series("worst case over sites", points),),
        )
        return Report(panels=(shown,), notes=(Note(said),))

    def _run(self, n_variables: int) -> Asking[RFcdOutcome]:
        objective, grid_bits = self._objective(n_variables), self.searching.grid_bits
        empty = empty_dag(n_variables)
        start = yield from objective.best({empty: empty}, keep=1, near=0, worst=None)
        require_possible("the regret of the empty graph", BEYOND, holds=start)
        progress = Progress([start[0].value])
        best = yield from self._search(objective, progress)(start[0])
        dag = matrix_of(best.dag)
        return RFcdOutcome(
            dag=dag,
            arcs=cpdag_of(dag),
            regret=from_grid(best.value, grid_bits),
            curve=tuple(from_grid(value, grid_bits) for value in progress.curve),
            grid=from_grid(1, grid_bits),
            candidates=progress.candidates,
        )

    @property
    def _equivalent_equal(self) -> bool:
        """Whether Markov-equivalent graphs have the same objective."""
        return self.score == "bic" and self.objective != "nodewise"

    def _search(
        self, objective: Objective, progress: Progress
    ) -> Callable[[Valued], Asking[Valued]]:
        by_class = self._equivalent_equal and self.searching.search == "auto"
        search = Search(
            objective=objective,
            kept=self.searching.kept if by_class else self.searching.beam,
            equivalent_equal=self._equivalent_equal,
            progress=progress,
        )
        return search.best_first if by_class else search.algorithm_1

    def _objective(self, n_variables: int) -> Objective:
        spec, grid_bits = ScoreSpec(score=self.score), self.searching.grid_bits
        if self.objective == "graph":
            return WorstGraphRegret(n_variables, spec, grid_bits)
        return SumOverFamilies(
            n_variables, spec, grid_bits, worst_case=self.objective == "nodewise"
        )
