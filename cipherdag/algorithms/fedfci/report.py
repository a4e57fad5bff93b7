"""The evidence behind a PAG: what its marks say, the tests of its edges, what separates the rest.

Leaks:
    Nothing new: all of it was opened by the run; see `FedFCI`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.site_differences import details_of
from cipherdag.algorithms.fedpc.report import VERDICT, named, tested_facts
from cipherdag.algorithms.fedpc.untested import NEVER_TOGETHER, supported, untested_details
from cipherdag.findings.conclusion import LearntPAG, Note, Report
from cipherdag.findings.confidence import Confidences, bootstrap_details
from cipherdag.findings.integration import DETAIL as INTEGRATED
from cipherdag.findings.integration import Integrated
from cipherdag.findings.integration import details_of as fitting_details
from cipherdag.findings.site_differences import DETAIL
from cipherdag.graphs.ancestral.integration import integrated
from cipherdag.graphs.ancestral.pag import PAG
from cipherdag.graphs.ancestral.representative import dag_behind
from cipherdag.graphs.edge_evidence import EdgeEvidence, GraphEvidence, Separation
from cipherdag.graphs.knowledge import KNOWN, known_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cipherdag.algorithms.algorithm import Facts
    from cipherdag.algorithms.fedfci.algorithm import FedFCI
    from cipherdag.algorithms.fedfci.outcome import FedFCIOutcome
    from cipherdag.graphs.edges import Edge

log = logging.getLogger("cipherdag.result")

LOOKED_AT = 1000
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
    names = facts.names
    details: dict[str, Any] = {"evidence": algorithm.evidence, "tests": dict(outcome.tests)}
    marks, fitting = outcome.marks, None
    if algorithm.integrate:
        found = integrated(len(names), outcome.groups, most=algorithm.integrate, heard=_heard)
        consistent = [(own, dag_behind(own.marks) is not None) for own in outcome.groups]
        marks, fitting = found.common, Integrated(fitting_details(found, consistent, names))
        details[INTEGRATED] = fitting.details
    graph = PAG(names, marks)
    if algorithm.closed:
        details["reveal"] = algorithm.reveal
    if outcome.ambiguous:
        details["ambiguous_triples"] = [[names[v] for v in own] for own in outcome.ambiguous]
    open_edges = outcome.untested if fitting is None or not fitting.settled else None
    details |= untested_details(open_edges, outcome.fallen, names)
    if outcome.differences:
        details[DETAIL] = details_of(outcome.differences, names)
    evidence = _evidence(algorithm, outcome, graph, fitting)
    if outcome.bootstrap is not None:
        details["bootstrap"] = bootstrap_details(outcome.bootstrap, names)
        evidence = Confidences(details["bootstrap"]).evidence(evidence, graph)
    return LearntPAG(graph=graph, evidence=evidence, details=details)


def _heard(looked_at: int, found: int) -> None:
    if looked_at % LOOKED_AT == 0:
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
    algorithm: FedFCI, outcome: FedFCIOutcome, graph: PAG, fitting: Integrated | None
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
    graph: PAG,
    fitting: Integrated | None,
    *,
    closed: bool,
) -> EdgeEvidence:
    a, b = graph.nodes.index(edge.source), graph.nodes.index(edge.target)
    known = known_of(outcome.known, a, b)
    weakest = outcome.weakest.get((min(a, b), max(a, b)))
    told = None if closed else weakest
    tested = [] if known == "edge" else tested_facts(weakest, graph.nodes, closed=closed)
    tested = [NEVER_TOGETHER] if outcome.untested is not None and outcome.untested[a, b] else tested
    if fitting is not None and (told_of := fitting.told_of(edge.source, edge.target)):
        tested = [*([NOBODY_BOTH] if tested == [NEVER_TOGETHER] else tested), told_of]
    words = graph.says(edge)
    return EdgeEvidence(
        source=edge.source,
        target=edge.target,
        strength=0.0,
        shown="",
        facts=(f"{words[:1].upper()}{words[1:]}.", *tested, *([KNOWN[known]] if known else ())),
        p_value=None if told is None else told.p_value,
        given=() if told is None else named(told.given, graph.nodes),
        effect=None if told is None else told.effect,
        known=known,
    )


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
