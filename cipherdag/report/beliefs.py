"""What Fed-CD reports beside its graph: beliefs as strengths and as a matrix, and their entropy.

`Result.details` holds the numbers, in the form that ``result.json`` has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.graph_evidence import EdgeEvidence, GraphEvidence
from cipherdag.report.curves import Curves, Series
from cipherdag.report.heat_map import HeatMap
from cipherdag.report.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cipherdag.algorithms.graphs import CausalGraph
    from cipherdag.report.panel import Panel

MOST_BELIEVERS = 40  # variables beyond which a matrix of beliefs is wider than any page


def belief_panels(details: Mapping[str, Any]) -> tuple[Panel, ...]:
    """The matrix of beliefs, the entropy by round, and the edges left out; none without them.

    Args:
        details: As in `Result.details`: ``belief`` by tail and head, ``edge_entropy`` in bits,
            ``agreed`` and ``cut``; anything else is not shown.
    """
    return (*_belief(details), *_entropy(details), *_cut(details))


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
    yield HeatMap(
        title="Beliefs",
        note="Aggregated belief of the sites in every edge after the last round.",
        rows=names,
        columns=names,
        values=tuple(tuple(None if a == b else belief[a][b] for b in names) for a in names),
    )


def _entropy(details: Mapping[str, Any]) -> Iterator[Panel]:
    if not details.get("edge_entropy"):
        return
    agreed = details.get("agreed")
    yield Curves(
        title="Agreement of the sites",
        note=(
            "Average entropy of an edge over the sites' own graphs: 0 where all sites agree. "
            + ("The run stopped because they did." if agreed else "The last round came first.")
        ),
        x_label="round",
        y_label="edge entropy (bits)",
        series=(Series("edge entropy", _numbered(details["edge_entropy"], first=1)),),
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


def _numbered(values: list[float], *, first: int) -> tuple[tuple[float, float], ...]:
    return tuple((float(number), float(value)) for number, value in enumerate(values, start=first))
