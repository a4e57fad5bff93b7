"""Beliefs in edges, as Fed-CD has them: strengths of the graph's edges, and a matrix of all.

`Result.details` holds the numbers, in the form that ``result.json`` has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.findings.heat_map import HeatMap
from cipherdag.findings.rows import Rows
from cipherdag.graphs.edge_evidence import EdgeEvidence, GraphEvidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cipherdag.findings.panel import Panel
    from cipherdag.graphs.graph import CausalGraph

MOST_BELIEVERS = 40  # variables beyond which a matrix of beliefs is wider than any page


def belief_panels(details: Mapping[str, Any]) -> tuple[Panel, ...]:
    """The matrix of beliefs and the edges left out; nothing where there are none.

    Args:
        details: As in `Result.details`: ``belief`` by tail and head, and ``cut``; anything else is
            not shown.
    """
    return (*_belief(details), *_cut(details))


def belief_evidence(details: Mapping[str, Any], graph: CausalGraph) -> GraphEvidence:
    """The aggregated beliefs as the strengths of edges; no evidence if there are none."""
    if "belief" not in details:
        return GraphEvidence()
    belief = details["belief"]
    return GraphEvidence(
        measure="aggregated belief of the sites in the edge",
        edges=tuple(
            _believed(a, b, belief[a][b], belief[b][a])
            for a, b in ((edge.source, edge.target) for edge in graph.edges)
        ),
    )


def _believed(source: str, target: str, there: float, back: float) -> EdgeEvidence:
    fact = f"Belief {there:.3g} in this direction, {back:.3g} in the other."
    return EdgeEvidence(source, target, there, f"{there:.2f}", (fact,))


def _belief(details: Mapping[str, Any]) -> Iterator[Panel]:
    belief = details.get("belief", {})
    names = tuple(belief)
    if not names or len(names) > MOST_BELIEVERS:
        return
    entries = [belief[a][b] for a in names for b in names if a != b]
    yield HeatMap(
        title="Beliefs",
        note="Aggregated belief of the sites in every edge after the last round.",
        rows=names,
        columns=names,
        values=tuple(tuple(None if a == b else belief[a][b] for b in names) for a in names),
        # fixed-point sums may leave [0, 1] by a rounding
        low=min([0.0, *entries]),
        high=max([1.0, *entries]),
    )


def _cut(details: Mapping[str, Any]) -> Iterator[Panel]:
    if not details.get("cut"):
        return
    yield Rows(
        title="Edges left out",
        note="Edges that the sites believe in and that would have closed a cycle.",
        columns=("From", "To", "Belief"),
        rows=tuple((own["from"], own["to"], own["belief"]) for own in details["cut"]),
    )
