"""How many effects a learnt graph would be wrong about: the adjustment identification distance.

Of every ordered pair of variables it asks whether the parents that the learnt graph gives a cause
are a valid adjustment set in the true graph, and says how many are not (Henckel, Würtzen and
Weichwald, UAI 2024; the authors' own package gadjid). Distances between edges count an error that
changes no effect as much as one that turns all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from gadjid import parent_aid

if TYPE_CHECKING:
    from cipherdag import CausalGraph

DIRECTED, UNDIRECTED = 1, 2
"""Its codes of edges, at the row of the cause."""


def adjustment_distance(found: CausalGraph, truth: CausalGraph) -> int:
    """Ordered pairs whose effect the learnt CPDAG would have wrong, of p (p - 1).

    Args:
        found: The learnt graph.
        truth: The true DAG over the same variables; its CPDAG is what can be learnt.
    """
    if {*found.nodes} != {*truth.nodes}:
        raise ValueError("the graphs have different variables")
    _, wrong = parent_aid(
        codes(truth.to_cpdag(), truth.nodes), codes(found, truth.nodes), "from row to column"
    )
    return int(wrong)


def codes(graph: CausalGraph, names: tuple[str, ...]) -> np.ndarray:
    """The graph as gadjid reads it, int8 of shape (p, p), in the order of some names."""
    place = {name: position for position, name in enumerate(names)}
    found = np.zeros((len(names), len(names)), dtype=np.int8)
    for pairs, code in ((graph.directed, DIRECTED), (graph.undirected, UNDIRECTED)):
        for source, target in pairs:
            found[place[source], place[target]] = code
    return found
