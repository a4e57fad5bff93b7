"""The evidence behind a PAG: its marks in words, its edges' tests, and the separating sets."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based.outcome import TestsOutcome
from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.algorithms.constraint_based.report import (
    NEVER_TOGETHER,
    P_VALUE,
    VERDICT,
    details_of_tests,
    edge_tests,
    named,
    remarks_on_tests,
    support_of,
    with_categories,
)
from cipherdag.algorithms.constraint_based.settings import GraphFromTests
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.doubts import Saying, UnresolvedTriple, unresolved_details
from cipherdag.findings.finding import Note, Report
from cipherdag.findings.graph import LearntPAG
from cipherdag.findings.integration import DETAIL as INTEGRATED
from cipherdag.findings.integration import Integrated
from cipherdag.findings.integration import details_of as fitting_details
from cipherdag.graphs.ancestral.classes import dag_of_pag
from cipherdag.graphs.ancestral.integration import LocalPAG, integrate_pags
from cipherdag.graphs.edge_evidence import EdgeEvidence, GraphEvidence, Separation
from cipherdag.graphs.edges import Edge
from cipherdag.graphs.endpoints import ARROW, NONE, Endpoints
from cipherdag.graphs.knowledge import GIVEN
from cipherdag.graphs.orientation import Triple, unshielded_pairs
from cipherdag.graphs.pag import PAG, PartialMixedGraph, graph_of_endpoints


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedFCIOutcome(TestsOutcome):
    """What a FedFCI run concludes, by position; p variables."""

    marks: Endpoints  # the PAG, shape (p, p); see `cipherdag.graphs.endpoints`
    removed: int = 0  # edges that fell, with ``rfci``, to tests of triples and paths
    # a separating set of every pair x < z without an edge, and its p-value
    sepsets: dict[Pair, tuple[frozenset[int], float]]
    # the unshielded triples (x, y, z), x < z, that are colliders
    colliders: tuple[Triple, ...] = ()
    # the PAG of every group of sites among its variables; empty if none is integrated
    groups: tuple[LocalPAG, ...] = field(repr=False, default=())

    @property
    def skeleton(self) -> BoolMatrix:
        """The edges of the PAG, shape (p, p)."""
        return self.marks != NONE


log = logging.getLogger("cipherdag.result")

GRAPHS_PER_REPORT = 1000  # number of graphs between two log messages on the progress of a search
NEVER_MEASURED_BOTH = "No site measured both, so nothing was tested."
SELECTED = (
    "Rows may have been selected by what variables cause: a tail says that a variable causes the "
    "other or what rows were selected by."
)
UNSELECTED = (
    "Rows are taken not to have been selected by what variables cause; else a tail may mean that."
)


def concluded(
    algorithm: GraphFromTests[FedFCIOutcome, LearntPAG],
    outcome: FedFCIOutcome,
    facts: Facts,
    *,
    integrate: int,
    remarks: Sequence[str],
) -> LearntPAG:
    """The graph by name with its evidence and the details that a report is made of.

    ``integrate`` is how many graphs to look at for those that fit all groups of sites; 0 for none.
    """
    names, closed = facts.names, algorithm.closed
    outcome = replace(outcome, weakest=with_categories(outcome.weakest, facts))
    details: dict[str, Any] = {"evidence": algorithm.evidence, "tests": dict(outcome.tests)}
    marks, fitting = outcome.marks, None
    if integrate:
        integration = integrate_pags(
            len(names), outcome.groups, most=integrate, progress=_log_progress
        )
        consistent = [(local, dag_of_pag(local.endpoints) is not None) for local in outcome.groups]
        marks = integration.common
        fitting = Integrated(fitting_details(integration, consistent, names))
        details[INTEGRATED] = fitting.details
    graph = graph_of_endpoints(names, marks)
    if closed:
        details["reveal"] = "bits"
    if fitting is None:
        details |= unresolved_details(_unresolved(outcome, graph))
    untested = outcome.untested if fitting is None or not fitting.settled else None
    details |= details_of_tests(outcome, names, untested)
    evidence = GraphEvidence(
        edges=tuple(_edge(edge, outcome, graph, fitting, closed=closed) for edge in graph.edges),
        support=VERDICT if closed else P_VALUE,
        separations=tuple(_separations(outcome, names)),
        remarks=tuple(remarks),
    )
    learnt = LearntPAG(graph=graph, evidence=evidence, details=details)
    return learnt.with_replicates(outcome.bootstrap)


def _log_progress(looked_at: int, n_fitting: int) -> None:
    if looked_at % GRAPHS_PER_REPORT == 0:
        log.info("%d graphs looked at, %d of which fit every group of sites", looked_at, n_fitting)


def with_fitting(conclusion: LearntPAG, report: Report) -> Report:
    """The report with the pairs of which neither causes the other, and the graphs that fit."""
    lines = tuple(f"{e.source} and {e.target}" for e in conclusion.graph.edges if e.mark == "<->")
    hidden = Note("Neither causes the other; both have an unmeasured cause:", lines)
    report = Report(notes=(hidden,) if lines else ()) + report
    if INTEGRATED not in conclusion.details:
        return report
    return report + Integrated(conclusion.details[INTEGRATED]).report()


def remarks_of(
    outcome: FedFCIOutcome, evidence: str, *, closed: bool, rfci: bool, selection: bool
) -> tuple[str, ...]:
    """Remarks on the evidence of a graph, in sentences."""
    fell = f"Edges that fell to tests of triples and paths: {outcome.removed}."
    tests = remarks_on_tests(outcome, evidence, closed=closed, more=(fell,) if rfci else ())
    return (*tests, SELECTED if selection else UNSELECTED)


def _edge(
    edge: Edge,
    outcome: FedFCIOutcome,
    graph: PartialMixedGraph,
    fitting: Integrated | None,
    *,
    closed: bool,
) -> EdgeEvidence:
    a, b = graph.nodes.index(edge.source), graph.nodes.index(edge.target)
    evidence = edge_tests(outcome, graph.nodes, a, b, closed=closed)
    tested, status = evidence.facts, evidence.status
    if fitting is not None and (follows := fitting.edge_sentence(edge.source, edge.target)):
        tested = (*([NEVER_MEASURED_BOTH] if tested == (NEVER_TOGETHER,) else tested), follows)
        status = ""  # the edge follows from what groups of sites tested
    words = graph.describe(edge)
    given = [GIVEN[evidence.known]] if evidence.known else []
    facts = (f"{words[:1].upper()}{words[1:]}.", *tested, *given)
    return replace(evidence, facts=facts, status=status)


def _unresolved(outcome: FedFCIOutcome, graph: PartialMixedGraph) -> list[UnresolvedTriple]:
    """The triples that are open, and those where the PAG contradicts the tests."""
    colliders = set(outcome.colliders)
    in_graph = _collides(graph) if isinstance(graph, PAG) else {}
    against = [triple for triple, collides in in_graph.items() if collides != (triple in colliders)]
    unresolved = []
    for x, y, z in sorted({*outcome.ambiguous, *against}):
        says: Saying = "collider" if (x, y, z) in colliders else "no collider"
        collides = in_graph.get((x, y, z))
        unresolved.append(
            UnresolvedTriple(
                first=graph.nodes[x],
                middle=graph.nodes[y],
                last=graph.nodes[z],
                tests_say="open" if (x, y, z) in outcome.ambiguous else says,
                evidence="",
                stands_as="open" if collides is None else "collider" if collides else "no collider",
            )
        )
    return unresolved


def _collides(graph: PAG) -> dict[Triple, bool]:
    """Every unshielded triple (x, y, z), x < z, and whether it is a collider."""
    skeleton, into = graph.skeleton(), graph.endpoints == ARROW
    return {
        (x, y, z): bool(into[x, y] and into[z, y])
        for x, z in unshielded_pairs(skeleton).tolist()
        for y in np.flatnonzero(skeleton[x] & skeleton[z]).tolist()
    }


def _separations(outcome: FedFCIOutcome, names: Sequence[str]) -> list[Separation]:
    return [
        Separation(
            first=names[x],
            second=names[z],
            given=named(given, names),
            support=support_of(p_value, (x, z), given, outcome.removed_untested),
        )
        for (x, z), (given, p_value) in sorted(outcome.sepsets.items())
    ]
