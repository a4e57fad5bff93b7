"""The edges of a graph as a table, with what the run opened about each.

Leaks:
    Nothing new: the numbers are those of `GraphEvidence` and `Confidences`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cipherdag.findings.confidence import SHARES

if TYPE_CHECKING:
    from cipherdag.findings.confidence import Confidences
    from cipherdag.graphs.edge_evidence import GraphEvidence
    from cipherdag.graphs.graph import CausalGraph

MARKED = ("from", "to", "mark")
TESTED = ("p_value", "given")


def edge_table(
    graph: CausalGraph, evidence: GraphEvidence, confidences: Confidences | None
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Names of the columns, and a row for every edge; None where nothing is known of one.

    After `MARKED` stand, as far as the run has them: ``confidence`` and ``any_edge``, or else
    ``strength``, all between 0 and 1; ``p_value``, the largest over all sites of the edge's tests,
    and ``given``, the set under which it was found, its names joined by "; ".
    """
    known = {(own.source, own.target): own for own in evidence.edges}
    measured = confidences is None and bool(evidence.measure)
    tested = any(own.p_value is not None for own in evidence.edges)
    columns = [*MARKED, *(SHARES if confidences is not None else ())]
    columns += [*(["strength"] if measured else []), *(TESTED if tested else ())]
    rows = []
    for edge in graph.edges:
        own = known.get((edge.source, edge.target))
        row: list[Any] = [edge.source, edge.target, edge.mark]
        if confidences is not None:
            row += confidences.shares(edge)
        if measured:
            row.append(None if own is None else own.strength)
        if tested:
            found = own is not None and own.p_value is not None
            row += [own.p_value, "; ".join(own.given)] if own is not None and found else [None, ""]
        rows.append(tuple(row))
    return tuple(columns), rows
