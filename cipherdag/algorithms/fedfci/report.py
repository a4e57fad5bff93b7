"""The evidence behind a PAG: what its marks say, the tests of its edges, what separates the rest.

Leaks:
    Nothing new: all of it was opened by the run; see `FedFCI`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.site_differences import details_of
from cipherdag.algorithms.fedfci.outcome import FedFCIOutcome
from cipherdag.algorithms.fedpc.edges_on_tests import named, on_tests
from cipherdag.algorithms.fedpc.graph_evidence import VERDICT
from cipherdag.algorithms.fedpc.report import referred
from cipherdag.algorithms.fedpc.untested import NEVER_TOGETHER, supported, untested_details
from cipherdag.findings.conclusion import LearntPAG, Note, Report
from cipherdag.findings.confidence import Confidences
from cipherdag.findings.few_rows import few_rows_detail
from cipherdag.findings.integration import DETAIL as INTEGRATED
from cipherdag.findings.integration import Integrated
from cipherdag.findings.integration import details_of as fitting_details
from cipherdag.findings.site_differences import DETAIL
from cipherdag.findings.unresolved import Saying, UnresolvedTriple, unresolved_details
from cipherdag.graphs.ancestral.integration import integrated
from cipherdag.graphs.ancestral.representative import dag_behind
from cipherdag.graphs.edge_evidence import EdgeEvidence, GraphEvidence, Separation
from cipherdag.graphs.edges import Edge
from cipherdag.graphs.endpoints import ARROW
from cipherdag.graphs.knowledge import KNOWN
from cipherdag.graphs.orientation import unshielded_pairs
from cipherdag.graphs.pag import PAG, PartialMixedGraph, graph_of_endpoints

if TYPE_CHECKING:
    from cipherdag.algorithms.fedfci.algorithm import FedFCI

log = logging.getLogger("cipherdag.result")

GRAPHS_PER_REPORT = 1000
"""Graphs after which it is said how far a search is."""
NOBODY_BOTH = "No site measured both, so nothing was tested."
SELECTED = (
    "Rows may have been selected by what variables cause: a tail says that a variable causes the "
    "other or what rows were selected by."
)
UNSELECTED = (
    "Rows are taken not to have been selected by what variables cause; else a tail may mean that."
)


def concluded(algorithm: FedFCI, outcome: FedFCIOutcome, facts: Facts) -> LearntPAG:
    """The graph by name with its evidence, and what a report makes something of."""
    names, outcome = facts.names, replace(outcome, weakest=referred(outcome.weakest, facts))
    details: dict[str, Any] = {"evidence": algorithm.evidence, "tests": dict(outcome.tests)}
    marks, fitting = outcome.marks, None
    if algorithm.integrate:
        found = integrated(len(names), outcome.groups, most=algorithm.integrate, heard=_heard)
        consistent = [(own, dag_behind(own.marks) is not None) for own in outcome.groups]
        marks, fitting = found.common, Integrated(fitting_details(found, consistent, names))
        details[INTEGRATED] = fitting.details
    graph = graph_of_endpoints(names, marks)
    if algorithm.closed:
        details["reveal"] = "bits"
    if fitting is None:
        details |= unresolved_details(_unresolved(outcome, graph))
    open_edges = outcome.untested if fitting is None or not fitting.settled else None
    details |= untested_details(open_edges, outcome.fallen, names)
    details |= few_rows_detail(outcome.rows)
    if outcome.differences:
        details[DETAIL] = details_of(outcome.differences, names)
    evidence = _evidence(algorithm, outcome, graph, fitting)
    if outcome.bootstrap is not None:
        details["bootstrap"] = outcome.bootstrap.details(names)
        evidence = Confidences(details["bootstrap"]).evidence(evidence, graph)
    return LearntPAG(graph=graph, evidence=evidence, details=details)


def _heard(looked_at: int, found: int) -> None:
    if looked_at % GRAPHS_PER_REPORT == 0:
        log.info("%d graphs looked at, %d of which fit every group of sites", looked_at, found)


def with_fitting(found: LearntPAG, own: Report) -> Report:
    """The report with the pairs of which neither causes the other, and the graphs that fit."""
    lines = tuple(f"{e.source} and {e.target}" for e in found.graph.edges if e.mark == "<->")
    hidden = Note("Neither causes the other; both have an unmeasured cause:", lines)
    notes = (*([hidden] if lines else []), *own.notes)
    if INTEGRATED not in found.details:
        return replace(own, notes=notes)
    fitting = Integrated(found.details[INTEGRATED])
    return replace(
        own,
        notes=(*notes, *filter(None, [fitting.note()])),
        panels=(*own.panels, fitting.panel()),
        warnings=(*own.warnings, *fitting.warnings()),
    )


def _evidence(
    algorithm: FedFCI, outcome: FedFCIOutcome, graph: PartialMixedGraph, fitting: Integrated | None
) -> GraphEvidence:
    closed = algorithm.closed
    ways = ", ".join(f"{count} {way}" for way, count in outcome.tests.items())
    fell = f"Edges that fell to tests of triples and paths: {outcome.removed}."
    return GraphEvidence(
        edges=tuple(_edge(edge, outcome, graph, fitting, closed=closed) for edge in graph.edges),
        support=VERDICT if closed else "p-value of the test over all sites",
        separations=tuple(_separations(outcome, graph.nodes)),
        remarks=(
            f"Evidence: {algorithm.evidence}.",
            f"Tests over all sites: {ways}.",
            *((fell,) if algorithm.search == "rfci" else ()),
            *((EVIDENCE[algorithm.evidence].stayed_closed,) if closed else ()),
            SELECTED if algorithm.selection else UNSELECTED,
        ),
    )


def _edge(
    edge: Edge,
    outcome: FedFCIOutcome,
    graph: PartialMixedGraph,
    fitting: Integrated | None,
    *,
    closed: bool,
) -> EdgeEvidence:
    a, b = graph.nodes.index(edge.source), graph.nodes.index(edge.target)
    told = on_tests(outcome, graph.nodes, a, b, closed=closed)
    tested, known = told["facts"], told["known"]
    if fitting is not None and (told_of := fitting.told_of(edge.source, edge.target)):
        tested = (*([NOBODY_BOTH] if tested == (NEVER_TOGETHER,) else tested), told_of)
        told["status"] = ""  # that follows from what groups of sites tested
    words = graph.describe(edge)
    told["facts"] = (
        f"{words[:1].upper()}{words[1:]}.",
        *tested,
        *([KNOWN[known]] if known else ()),
    )
    return EdgeEvidence(
        source=edge.source,
        target=edge.target,
        strength=0.0,
        shown="",
        **told,
    )


def _unresolved(outcome: FedFCIOutcome, graph: PartialMixedGraph) -> list[UnresolvedTriple]:
    """The triples that are open, and those that a PAG has otherwise than tests say."""
    colliders = set(outcome.colliders)
    stands = _stands(graph) if isinstance(graph, PAG) else {}
    against = [own for own, collides in stands.items() if collides != (own in colliders)]
    found = []
    for x, y, z in sorted({*outcome.ambiguous, *against}):
        says: Saying = "collider" if (x, y, z) in colliders else "no collider"
        has = stands.get((x, y, z))
        found.append(
            UnresolvedTriple(
                first=graph.nodes[x],
                middle=graph.nodes[y],
                last=graph.nodes[z],
                tests_say="open" if (x, y, z) in outcome.ambiguous else says,
                evidence="",
                stands_as="open" if has is None else "collider" if has else "no collider",
            )
        )
    return found


def _stands(graph: PAG) -> dict[tuple[int, int, int], bool]:
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
            given=named(own, names),
            support=supported(p_value, (x, z), own, outcome.fallen),
        )
        for (x, z), (own, p_value) in sorted(outcome.sepsets.items())
    ]
