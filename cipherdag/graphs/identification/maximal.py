"""Maximal PDAGs: DAGs, CPDAGs, and CPDAGs that background knowledge directs further.

A maximal PDAG stands for the class of DAGs with its skeleton, its directed edges and its unshielded
colliders, and every edge that it leaves undirected has either direction in some of them.

Sources: Meek, "Causal inference and causal explanation with background knowledge", UAI 1995;
Perkovic, Kalisch and Maathuis, "Interpreting and using CPDAGs with background knowledge", UAI 2017
(possibly causal paths).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs.dags import Dag, dag_of, matrix_of, members, turned
from cipherdag.graphs.equivalence import Pattern, extension, pattern_of
from cipherdag.graphs.extension import topological_order
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import cpdag_of, meek

MEEK = (1, 2, 3, 4)
CLOSE_BY = "Correct the edges; of a learnt graph, `Result.dag` is a DAG close to it."


def maximal_pattern(names: Sequence[str], arcs: BoolMatrix) -> Pattern:
    """The graph as bit masks, if it is a maximal PDAG.

    Args:
        names: The variables, for messages.
        arcs: The graph, shape (p, p).

    Raises:
        GraphError: It has a directed cycle, stands for no DAG at all, or leaves an edge undirected
            whose direction follows from the others.
    """
    if topological_order(arcs & ~arcs.T) is None:
        raise GraphError(
            f"the directed edges form a cycle: {_cycle(names, arcs & ~arcs.T)}", remedy=CLOSE_BY
        )
    pattern = _pattern(arcs)
    some_member(pattern)
    backwards = arcs & ~meek(arcs, rules=MEEK)
    if backwards.any():
        raise GraphError(
            f"an edge is undirected that the others direct: {_first(names, backwards.T)}, or there "
            "would be a cycle or another collider",
            remedy="Give the algorithm what is known; or complete the graph with "
            "`graph.with_knowledge(Knowledge())`, which takes all that is unclear for no collider.",
        )
    return pattern


def is_completed(arcs: BoolMatrix) -> bool:
    """Whether a graph, shape (p, p), is the CPDAG of the DAGs that have its edges."""
    pattern = _pattern(arcs)
    dag = extension(list(pattern.parents), list(pattern.neighbours))
    return dag is not None and pattern_of(dag) == pattern


def checked_class(names: Sequence[str], arcs: BoolMatrix) -> None:
    """Refuse what is no CPDAG, and say what is wrong with it.

    Args:
        names: The variables, for messages.
        arcs: The graph, shape (p, p).

    Raises:
        GraphError: As `maximal_pattern`, or it directs an edge that its class does not.
    """
    if is_completed(arcs):
        return
    pattern = maximal_pattern(names, arcs)
    beyond = arcs & ~arcs.T & cpdag_of(matrix_of(some_member(pattern))).T
    raise GraphError(
        f"an edge is directed that some DAG of the class turns round: {_first(names, beyond)}",
        remedy="As background knowledge directs, it is an MPDAG; else take the CPDAG of a DAG.",
    )


def directed_further(names: Sequence[str], arcs: BoolMatrix, known: Constraints) -> BoolMatrix:
    """The maximal PDAG of a graph and of what is known of its edges, shape (p, p).

    Args:
        names: The variables, for messages.
        arcs: The graph, shape (p, p).
        known: Edges that are forbidden or required.

    Raises:
        GraphError: The graph contradicts what is known, or stands for no DAG.
    """
    missing = known.required & ~(arcs | arcs.T)
    if missing.any():
        raise GraphError(f"the graph has no edge {_first(names, missing)}, which is required")
    left = arcs & ~known.forbidden
    lost = arcs & ~(left | left.T)
    if lost.any():
        raise GraphError(f"the graph has the edge {_first(names, lost)}, which is forbidden")
    found = meek(left, rules=MEEK)
    member = some_member(maximal_pattern(names, found))
    if (cpdag_of(matrix_of(member)) != cpdag_of(matrix_of(some_member(_pattern(arcs))))).any():
        raise GraphError(
            "what is known of the edges makes a collider that the graph rules out",
            remedy="Give the knowledge to the algorithm that learns the graph.",
        )
    return found


def some_member(pattern: Pattern) -> Dag:
    """A DAG of the class.

    Raises:
        GraphError: There is none.
    """
    dag = extension(list(pattern.parents), list(pattern.neighbours))
    if dag is None:
        raise GraphError(
            "no DAG has this graph's edges and no other collider: its undirected edges cannot all "
            "be directed",
            remedy=CLOSE_BY,
        )
    return dag


def directed(pattern: Pattern, v: int, chosen: int) -> Pattern:
    """The pattern with the chosen neighbours as parents of v and the others as its children."""
    for u in members(pattern.neighbours[v]):
        pattern = with_arrow(pattern, *((u, v) if chosen >> u & 1 else (v, u)))
    return pattern


def with_arrow(pattern: Pattern, cause: int, effect: int) -> Pattern:
    """The pattern with one undirected edge directed."""
    parents, near = list(pattern.parents), list(pattern.neighbours)
    parents[effect] |= 1 << cause
    near[effect] &= ~(1 << cause)
    near[cause] &= ~(1 << effect)
    return Pattern(tuple(parents), tuple(turned(parents)), tuple(near))


def completed(pattern: Pattern) -> Pattern:
    """The maximal PDAG of a pattern that has a DAG: what follows from its directed edges."""
    arcs = matrix_of(pattern.parents) | matrix_of(pattern.neighbours)
    return _pattern(meek(arcs, rules=MEEK))


def possible_descendants(pattern: Pattern, v: int) -> int:
    """Bit mask of v and all that it causes in some DAG of the class.

    Those at the end of a path without an arrow backwards, no three neighbours of which form a
    triangle (Perkovic et al. 2017, lemmas 3.5 and 3.6).
    """
    onward = [own | near for own, near in zip(pattern.children, pattern.neighbours, strict=True)]
    waiting = [(v, w) for w in members(onward[v])]
    seen = set(waiting)
    found = 1 << v
    while waiting:
        u, w = waiting.pop()
        found |= 1 << w
        further = onward[w] & ~pattern.adjacent(u) & ~(1 << u)
        new = {(w, x) for x in members(further)} - seen
        seen |= new
        waiting += new
    return found


def _pattern(arcs: BoolMatrix) -> Pattern:
    parents = dag_of(arcs & ~arcs.T)
    return Pattern(parents, tuple(turned(parents)), dag_of(arcs & arcs.T))


def _first(names: Sequence[str], arrows: BoolMatrix) -> str:
    """The first of some arrows in words."""
    cause, effect = np.argwhere(arrows)[0]
    return f"'{names[cause]}' --> '{names[effect]}'"


def _cycle(names: Sequence[str], arrows: BoolMatrix) -> str:
    """One directed cycle in words."""
    import networkx as nx

    found = nx.find_cycle(nx.from_numpy_array(arrows, create_using=nx.DiGraph))
    return " --> ".join(f"'{names[v]}'" for v in (*(a for a, _ in found), found[0][0]))
