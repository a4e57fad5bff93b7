"""An order of a graph's variables that does not depend on their names or positions.

What must choose between variables, such as which end of an undirected edge becomes the effect,
would otherwise follow the alphabet. Positions are left to decide between variables that neither
the graph nor the numbers tell apart.

Source: colour refinement (Weisfeiler and Leman, 1968).

Leaks:
    Nothing: the graph is already the coordinator's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cipherdag.arrays import BoolMatrix, IndexArray


def ranks(arcs: BoolMatrix, standing: ArrayLike | None = None) -> IndexArray:
    """The place of every variable, 0 for the first, shape (p,).

    Args:
        arcs: A partially directed graph, shape (p, p).
        standing: A number of every variable, shape (p,), where the graph tells two not apart.

    Returns:
        By the number of undirected edges, then by edges and those of neighbours, then by standing;
        what is still alike by position, the last first.
    """
    colours = _colours(arcs)
    numbers = np.zeros(len(arcs)) if standing is None else np.asarray(standing, dtype=np.float64)
    order = np.lexsort((-np.arange(len(arcs)), numbers, colours))
    places = np.empty(len(arcs), dtype=np.int64)
    places[order] = np.arange(len(arcs))
    return places


def _colours(arcs: BoolMatrix) -> IndexArray:
    """Classes of variables with like surroundings, by undirected edges first, shape (p,)."""
    undirected, directed = arcs & arcs.T, arcs & ~arcs.T
    kinds = (undirected, directed, directed.T)
    around = [[np.flatnonzero(row).tolist() for row in own] for own in kinds]
    colours = _classes([tuple(len(own[v]) for own in around) for v in range(len(arcs))])
    while True:
        finer = _classes(
            [
                (colours[v], *(tuple(sorted(colours[u] for u in own[v])) for own in around))
                for v in range(len(arcs))
            ]
        )
        if max(finer, default=0) == max(colours, default=0):
            return np.array(finer, dtype=np.int64)
        colours = finer


def _classes(marks: list[tuple[object, ...]]) -> list[int]:
    """Every mark's place among the distinct ones."""
    distinct = {mark: place for place, mark in enumerate(sorted(set(marks)))}
    return [distinct[mark] for mark in marks]
