"""Another way to make a DAG of a graph, which tests hold against those of the package."""

from __future__ import annotations

from cipherdag.graphs.endpoints import checked_arcs
from cipherdag.graphs.extension import _remove_sinks, ranks


def consistent_extension(arcs):
    """A DAG with the skeleton, the directed edges and the unshielded colliders; or None."""
    graph = checked_arcs(arcs)
    return _remove_sinks(graph, ranks(graph), strict=True)
