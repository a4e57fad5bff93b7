"""The independences that a graph implies: one for every pair of variables without an edge.

A pair without an edge is independent given a set that separates it; a distribution that keeps one
such independence for every pair, and has no others that cancel, keeps them all (pairwise Markov).

Sources: Pearl and Paz, "Graphoids" (1986); Textor et al., "Robust causal inference using directed
acyclic graphs: the R package dagitty", Int. J. Epidemiology 45 (2016), whose basis by missing edges
this is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np

from cipherdag.graphs.dags import Dag, members
from cipherdag.graphs.identification.maximal import maximal_pattern, some_member
from cipherdag.graphs.identification.separation import moral
from cipherdag.graphs.identification.separators import minimal_separators
from cipherdag.graphs.mixed_graph import MixedGraph

MOST_SETS = 50
"""Minimal sets that are looked at for the smallest one."""
Implied = tuple[str, str, tuple[str, ...]]


def implied_independences(graph: MixedGraph) -> tuple[Implied, ...]:
    """Two variables without an edge, and a smallest set given which they are independent.

    Args:
        graph: A DAG, a CPDAG, or one that background knowledge directs further; all DAGs of a class
            imply the same.

    Returns:
        One for every pair, names in the order of the alphabet. Of sets the smallest among the
        first minimal ones; by position in the alphabet where several are.

    Raises:
        GraphError: The graph has a directed cycle, stands for no DAG, or is not complete.
    """
    names, dag, pairs = _unjoined(graph)
    return tuple(
        (names[x], names[y], tuple(names[v] for v in members(_smallest(moral(dag, x, y), x, y))))
        for x, y in pairs
    )


def implies_any(graph: MixedGraph) -> bool:
    """Whether the graph implies any independence: whether a pair has no edge.

    Raises:
        GraphError: As `implied_independences`.
    """
    *_, pairs = _unjoined(graph)
    return bool(pairs)


def _unjoined(graph: MixedGraph) -> tuple[list[str], Dag, list[tuple[int, int]]]:
    """Names in the order of the alphabet, a DAG of the class, and the pairs without an edge."""
    names = sorted(graph.nodes)
    order = [graph.nodes.index(name) for name in names]
    arcs = graph.arcs[np.ix_(order, order)]
    dag = some_member(maximal_pattern(names, arcs))
    apart = ~(arcs | arcs.T)
    return names, dag, [(x, y) for x, y in combinations(range(len(names)), 2) if apart[x, y]]


def _smallest(beside: list[int], x: int, y: int) -> int:
    """Bit mask of a smallest separator among some minimal ones."""

    def found() -> Iterator[int]:
        for ends in ((x, y), (y, x)):
            allowed = ~(1 << x | 1 << y) & ((1 << len(beside)) - 1)
            yield from islice(minimal_separators(beside, *ends, allowed), MOST_SETS)

    return min(found(), key=lambda own: (own.bit_count(), own))
