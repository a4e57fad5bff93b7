"""Two learnt graphs, edge by edge."""

from __future__ import annotations

from cipherdag.graphs.edges import reversed_mark
from cipherdag.graphs.mixed_graph import MixedGraph

COLUMNS = ("from", "to", "here", "there", "same")


def edge_differences(here: MixedGraph, there: MixedGraph) -> list[tuple[str, str, str, str, bool]]:
    """Every pair that either graph joins, in the order of names, with both marks.

    Args:
        here: A graph.
        there: Another one; a variable that only one of them has is isolated in the other.

    Returns:
        `COLUMNS` of every pair: ``from`` sorts before ``to``, and the marks are those of edges,
        such as "-->", "<--" or "---", or "" where the graph does not join the two.
    """
    marks = [_marks(graph) for graph in (here, there)]
    pairs = sorted(marks[0].keys() | marks[1].keys())
    rows = []
    for pair in pairs:
        one, two = (own.get(pair, "") for own in marks)
        rows.append((*pair, one, two, one == two))
    return rows


def _marks(graph: MixedGraph) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for edge in graph.edges:
        turned = edge.source > edge.target
        pair = (edge.target, edge.source) if turned else (edge.source, edge.target)
        found[pair] = reversed_mark(edge.mark) if turned else edge.mark
    return found
