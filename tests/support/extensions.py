"""Other ways to make a DAG of a graph, which tests hold against those of the package."""

from __future__ import annotations

import numpy as np

from cipherdag.graphs.extension import _remove_sinks, checked


def consistent_extension(arcs):
    """A DAG with the skeleton, the directed edges and the unshielded colliders; or None."""
    return _remove_sinks(checked(arcs), strict=True)


def code_extension(arcs):
    """The rule of the original FedPC program, which **may leave directed cycles**.

    Repeatedly, of the variables with an undirected edge, the one with the most directed parents
    (ties: the first) gets all its undirected edges directed away from it.

    Args:
        arcs: A partially directed graph, shape (p, p).

    Returns:
        Directed edges, shape (p, p); a DAG only where `topological_order` finds an order.

    Raises:
        GraphError: Not a graph.
    """
    graph = checked(arcs)
    while (undirected := graph & graph.T).any():
        parents = (graph & ~graph.T).sum(axis=0)
        chosen = int(np.where(undirected.any(axis=0), parents, -1).argmax())
        graph[undirected[chosen], chosen] = False
    return graph
