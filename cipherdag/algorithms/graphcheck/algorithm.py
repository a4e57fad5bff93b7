"""GraphCheck: tests every independence that a graph implies, all in the same rounds.

Every pair of variables without an edge gets one set that separates it in the graph, and one test,
stratified by site, of its independence given that set.
"""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts, Reading
from cipherdag.algorithms.constraint_based.settings import check_level, evidence_settings
from cipherdag.algorithms.evidence.federated_test import PValues
from cipherdag.algorithms.evidence.within_sites import STRATIFIED, within_sites
from cipherdag.algorithms.parameters import LEVELS, Reveal, graph_text, require, row_bound, within
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.errors import ParameterError
from cipherdag.findings.finding import Report
from cipherdag.findings.graph_check import CheckedGraph, ImpliedIndependence
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.identification.query import implied_independences, implies_any
from cipherdag.questions.ci_tests import CITestSpec, ColumnTypes
from cipherdag.questions.disclosure import LARGEST_USUAL_LEVEL, Disclosure, Quantity, bits, joined
from cipherdag.questions.gather import over_one_cohort
from cipherdag.questions.question import Asking
from cipherdag.statistics.p_values import Correction, corrected

Triplet = tuple[int, ...]
STEPS = (1e-2, 5e-3, 1e-3, 5e-4, 1e-4, 1e-5, 1e-7, 1e-10)
"""Levels at which bits compare p-values: equal in all runs, so that several tell no more."""
NAMED = 3  # most independences that a warning names
LIMITS = (
    (
        "An independence that stands is not shown: few rows reject little. One that fails says "
        "that an edge is missing, or a cause that nobody measured, or that rows were selected."
    ),
    (
        "A graph with an edge too many implies less, which no test shows; nor is an arrow that "
        "points the wrong way, where the other way implies the same."
    ),
    (
        "P-values are right for a graph that was drawn before these rows were seen. One that was "
        "learnt from them was chosen so that they agree with it."
    ),
)


@dataclass(frozen=True, slots=True)
class GraphCheckOutcome:
    """The results of the tests by position."""

    tests: tuple[Triplet, ...]  # the tests, as (x, y, s1, ..., sl)
    p_values: FloatVector  # p-value of every test, NaN where it could not be done, shape (n,)
    effects: tuple[EffectSize | None, ...]  # effect size of every test; None where there is none
    of_patients: Mapping[str, Any]  # the details on rows that are visits, as `ColumnKinds` has them


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphCheck(Algorithm[GraphCheckOutcome, CheckedGraph]):
    """GraphCheck's parameters; `ask` is the algorithm.

    Attributes:
        graph: The graph to test.
        alpha: Significance level of all tests together.
        correction: How p-values are corrected for the number of tests: ``holm`` bounds the chance
            that any independence is rejected wrongly, ``benjamini-hochberg`` the share of those
            rejected that are.
        reveal: What everybody learns of a test: ``bits``: whether each says dependent at some
            levels, so that a p-value is known to a step; ``sums``: the sums that it follows from.
            ``auto`` is ``bits``.
        max_rows: Most rows that a site may have, a power of two.

    Leaks:
        The graph stands in the plan.
    """

    name: ClassVar[str] = "graphcheck"
    title: ClassVar[str] = "GraphCheck"
    use: ClassVar[str] = "Test which independences of a given graph the data contradict."
    takes_visits: ClassVar[bool] = True
    usual: ClassVar[tuple[str, ...] | None] = ("graph", "alpha", "reveal")
    reads: ClassVar[frozenset[Reading]] = frozenset({"relations"})
    concludes: ClassVar[type[CheckedGraph]] = CheckedGraph

    tested: InitVar[CausalGraph | None] = field(default=None, kw_only=False)
    graph: str = graph_text()
    alpha: float = within(0.05, 0.0, 1.0, above=True, below=True, steps=LEVELS)
    correction: Correction = "holm"
    reveal: Reveal = "auto"
    max_rows: int = row_bound()

    def __post_init__(self, tested: CausalGraph | None) -> None:
        if tested is not None:
            if not isinstance(tested, CausalGraph):
                raise ParameterError(
                    f"GraphCheck tests a CausalGraph, not {type(tested).__name__}",
                    remedy="Give a DAG or CPDAG; of a PAG, which leaves open what was not "
                    "measured, draw the graph that you take for right. As text: "
                    "graph=graph.dumps().",
                )
            require(not self.graph, "the graph to test is given twice")
            object.__setattr__(self, "graph", tested.dumps())
        Algorithm.__post_init__(self)

    def check(self) -> None:
        """Refuse a graph that cannot be read or implies nothing (GraphError, ParameterError)."""
        if self.closed:
            check_level(self.alpha)
        if self.graph:
            require(
                implies_any(CausalGraph.loads(self.graph)),
                "the graph joins every pair of its variables: it implies no independence",
            )

    @property
    def closed(self) -> bool:
        """True if bits of each test are opened, and no sum."""
        return self.reveal != "sums"

    def ask(self, facts: Facts) -> Asking[GraphCheckOutcome]:
        """The run as a generator: yields questions, receives sums, returns a `GraphCheckOutcome`.

        One round for the columns, then those of one round of tests. ParameterError where there is
        no graph, or it names a variable that is not there; SiteUnreachableError where a site left.
        """
        require(bool(self.graph), "a graph is tested: give one (graph=, --graph)")
        return over_one_cohort(self._run(facts), facts.present)

    def _run(self, facts: Facts) -> Asking[GraphCheckOutcome]:
        tests = self._tests(facts)
        spec = CITestSpec(alpha=self.alpha)
        settings = evidence_settings(facts, spec, self.max_rows)
        source = yield from within_sites(settings, bits=self.closed)
        sizes = range(max(map(len, tests)) - 1)
        by_size = [[test for test in tests if len(test) == size + 2] for size in sizes]
        asked: list[IndexArray] = [
            np.array(block, dtype=np.int64).reshape(-1, size + 2)
            for size, block in enumerate(by_size)
        ]
        testing: PValues = (
            source.smallest_levels(asked, levels_of(self.alpha))
            if self.closed
            else source.p_values(asked)
        )
        p_values = np.concatenate((yield from testing))
        undone = [facts.determined.undone(rows) for rows in asked]
        p_values[np.concatenate(undone)] = np.nan
        ordered = tuple(test for block in by_size for test in block)
        of_patients = {} if source.kinds is None else source.kinds.of_patients
        effects = tuple(map(source.effect, ordered))
        return GraphCheckOutcome(ordered, p_values, effects, of_patients)

    def _tests(self, facts: Facts) -> list[Triplet]:
        graph = CausalGraph.loads(self.graph)
        position = {name: v for v, name in enumerate(facts.names)}
        if unknown := [name for name in graph.nodes if name not in position]:
            raise ParameterError(
                f"the graph names '{unknown[0]}', which is no variable",
                remedy="Name the columns of the schema; where only the sites know them, their "
                "identifiers.",
            )
        return [
            (position[x], position[y], *sorted(position[name] for name in given))
            for x, y, given in implied_independences(graph)
        ]

    def conclude(self, outcome: GraphCheckOutcome, facts: Facts) -> CheckedGraph:
        names = facts.names
        adjusted = corrected(outcome.p_values, self.correction)
        tests = tuple(
            ImpliedIndependence(
                first=names[x],
                second=names[y],
                given=tuple(names[v] for v in given),
                p_value=None if np.isnan(p) else p,
                adjusted=None if np.isnan(p) else q,
                fails=q < self.alpha,
                effect=facts.referred(effect, x, y),
            )
            for (x, y, *given), p, q, effect in zip(
                outcome.tests,
                outcome.p_values.tolist(),
                adjusted.tolist(),
                outcome.effects,
                strict=True,
            )
        )
        return CheckedGraph(
            graph=CausalGraph.loads(self.graph),
            tests=tests,
            alpha=self.alpha,
            correction=self.correction,
            details={**({"reveal": "bits"} if self.closed else {}), **outcome.of_patients},
        )

    def used(self, conclusion: CheckedGraph, columns: ColumnTypes | None) -> dict[str, Any]:
        opened = {"reveal": "bits" if self.closed else "sums"}
        return Algorithm.used(self, conclusion, columns) | opened

    def disclosures(self) -> tuple[Disclosure, ...]:
        lenient = self.alpha > LARGEST_USUAL_LEVEL
        opened = STRATIFIED.disclosures(closed=self.closed, lenient=lenient)
        return joined(opened, bits(*(Quantity.LEVELS,) * self.closed))

    def report(self, conclusion: CheckedGraph) -> Report:
        warnings = []
        if failing := conclusion.failing:
            named = "; ".join(
                [*map(str, failing[:NAMED]), *(["and others"] if len(failing) > NAMED else [])]
            )
            warnings.append(
                f"{len(failing)} of {len(conclusion.tests)} independences that the graph implies "
                f"fail, corrected for their number at {conclusion.alpha:g}: {named}."
            )
        if undone := conclusion.undone:
            warnings.append(
                f"{len(undone)} of {len(conclusion.tests)} independences could not be tested: "
                "too few sites have rows that say something of them."
            )
        return Report(limits=LIMITS, warnings=tuple(warnings))


def levels_of(alpha: float) -> tuple[float, ...]:
    """Levels at which tests are compared: the level, and `STEPS` below it."""
    return (alpha, *(step for step in STEPS if step < alpha))
