"""From a skeleton and what tests say of its triples to a class of DAGs, whatever tests contradict.

Tests err, so that no DAG may have all the colliders that they find, and no others. Colliders are
taken in the order of their evidence as long as a DAG has all of them, which is as long as their
arrows form no cycle. A DAG with these arrows follows by removing sinks, as Dor and Tarsi do, each
time one that makes the fewest further colliders; of triples that the tests leave open those count
last. The result is the class of this DAG, and what it does not have as the tests say is kept.

Sources: Dor and Tarsi, "A simple algorithm to construct a consistent extension of a partially
oriented graph", technical report R-185, UCLA 1992; Meek, "Causal inference and causal explanation
with background knowledge", UAI 1995.

Leaks:
    Nothing: the graph and what tests say of it are already the coordinator's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.graphs.dags import dag_of, matrix_of, unshielded_colliders
from cipherdag.graphs.equivalence import pattern_of
from cipherdag.graphs.extension import cyclic_arrows, directed_to_the_end, ranks
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import Conflicts, Strengths, Triple, meek, strength_of


@dataclass(frozen=True, slots=True, eq=False)
class ClassOfDags:
    """A class of DAGs over p variables, and what tests say otherwise.

    Attributes:
        arcs: Its CPDAG, or with knowledge its maximal PDAG, shape (p, p).
        dag: A DAG of the class that agrees with what is known, shape (p, p).
        set_aside: Colliders, by the tests, that the class does not have.
        forced: Colliders of the class of which the tests say that they are none, or nothing.
        dropped: Edges x < z that what is known leaves no direction without a cycle; not in it.
    """

    arcs: BoolMatrix
    dag: BoolMatrix
    set_aside: tuple[Triple, ...] = ()
    forced: tuple[Triple, ...] = ()
    dropped: tuple[tuple[int, int], ...] = ()


def class_of(
    skeleton: BoolMatrix,
    colliders: Sequence[Triple],
    known: Constraints,
    *,
    open_triples: Collection[Triple] = (),
    strength: Strengths | None = None,
    conflicts: Conflicts = "strongest",
    standing: FloatVector | None = None,
) -> ClassOfDags:
    """The class of a DAG with a skeleton and as many of some colliders as one has, strongest first.

    Args:
        skeleton: Symmetric adjacency, shape (p, p).
        colliders: Unshielded triples (x, y, z), x < z, that tests find to be colliders.
        known: What is known of the edges, which the class agrees with.
        open_triples: Unshielded triples that may be colliders or not.
        strength: That of every collider, or of its pair (x, z), for ``strongest``.
        conflicts: Which are taken first: ``strongest``, or by position ``keep`` the first and
            ``overwrite`` the last.
        standing: A number of every variable, shape (p,), for what the graph leaves open.

    Raises:
        ParameterError: A strength is missing or not a number.
    """
    start, dropped = _directed(skeleton, known)
    ordered = _in_order(colliders, strength, conflicts, ranks(start, standing))
    arcs = _with_colliders(start, ordered)
    dag = directed_to_the_end(arcs, ranks(arcs, standing), open_triples)
    found = _class(dag, known)
    have = set(unshielded_colliders(dag_of(dag), dag_of(dag | dag.T)))
    return ClassOfDags(
        arcs=found,
        dag=dag,
        set_aside=tuple(sorted(set(colliders) - have)),
        forced=tuple(sorted(have - set(colliders))),
        dropped=dropped,
    )


def _directed(
    skeleton: BoolMatrix, known: Constraints
) -> tuple[BoolMatrix, tuple[tuple[int, int], ...]]:
    """The skeleton with what is known, and the edges that are then left out for want of a DAG.

    All that would close a cycle and is not required goes, whichever the others are.
    """
    arcs = known.directed(skeleton)
    lost = cyclic_arrows(arcs) & ~known.required
    pairs = np.argwhere(np.triu(lost | lost.T))
    return arcs & ~lost, tuple((int(x), int(z)) for x, z in pairs)


def _in_order(
    colliders: Sequence[Triple],
    strength: Strengths | None,
    conflicts: Conflicts,
    rank: IndexArray,
) -> list[Triple]:
    """The colliders, those first that are to win; equally strong ones by their variables."""
    if conflicts != "strongest":
        visits = sorted(colliders, key=lambda own: (own[1], own[0], own[2]))
        return visits if conflicts == "keep" else visits[::-1]
    place = rank.tolist()

    def order(own: Triple) -> tuple[float, int, list[int]]:
        x, y, z = own
        return -strength_of(own, strength), place[y], sorted((place[x], place[z]))

    return sorted(colliders, key=order)


def _with_colliders(start: BoolMatrix, colliders: Iterable[Triple]) -> BoolMatrix:
    """The graph with x -> y <- z, but where that turns an arrow or closes a cycle of arrows."""
    arcs = start.copy()
    children = [np.flatnonzero(row).tolist() for row in arcs & ~arcs.T]
    for x, y, z in colliders:
        if not arcs[[x, z], y].all():
            continue
        new = [v for v in (x, z) if arcs[y, v]]
        if not _leads(children, y, new):
            for v in new:
                arcs[y, v] = False
                children[v].append(y)
    return arcs


def _leads(children: Sequence[Sequence[int]], start: int, ends: Collection[int]) -> bool:
    """Whether arrows lead from a variable to one of some."""
    waiting, seen = [start], {start}
    while waiting:
        v = waiting.pop()
        if v in ends:
            return True
        further = [w for w in children[v] if w not in seen]
        seen.update(further)
        waiting += further
    return False


def _class(dag: BoolMatrix, known: Constraints) -> BoolMatrix:
    """The CPDAG of a DAG, directed further by what is known, shape (p, p)."""
    pattern = pattern_of(dag_of(dag))
    found: BoolMatrix = matrix_of(pattern.parents) | matrix_of(pattern.neighbours)
    if not (found & known.forbidden).any():
        return found
    return meek(found & ~known.forbidden, rules=(1, 2, 3, 4))
