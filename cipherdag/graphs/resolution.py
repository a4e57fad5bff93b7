"""From a skeleton and tests of its triples to a class of DAGs, even where tests contradict.

Tests err: there may be no DAG with exactly the colliders that they imply. Colliders are added in
the order of their evidence; one whose arrows would close a cycle, or reverse an arrow, is left out.
A DAG with these arrows follows by removing sinks, as Dor and Tarsi do, each time one that makes the
fewest further colliders; those on triples that the tests leave open only break ties. The result is
the class of this DAG, with the triples in which it differs from the tests.

Sources: Dor and Tarsi, "A simple algorithm to construct a consistent extension of a partially
oriented graph", technical report R-185, UCLA 1992; Meek, "Causal inference and causal explanation
with background knowledge", UAI 1995.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.graphs.dags import dag_of, mask_of, reachable, unshielded_colliders
from cipherdag.graphs.equivalence import pattern_of
from cipherdag.graphs.extension import cyclic_arrows, directed_to_the_end, ranks
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import Strengths, Triple, meek, strength_of


@dataclass(frozen=True, slots=True, eq=False)
class ClassOfDags:
    """A class of DAGs over p variables, and how it differs from the tests.

    Attributes:
        arcs: Its CPDAG, or with knowledge its maximal PDAG, shape (p, p).
        dag: A DAG of the class that agrees with background knowledge, shape (p, p).
        set_aside: Colliders, by the tests, that the class does not have.
        forced: Colliders of the class that the tests deny or do not decide.
        dropped: Edges (x, z), x < z, left out as knowledge puts them on a cycle of arrows.
    """

    arcs: BoolMatrix
    dag: BoolMatrix
    set_aside: tuple[Triple, ...] = ()
    forced: tuple[Triple, ...] = ()
    dropped: tuple[tuple[int, int], ...] = ()


def class_of(
    skeleton: BoolMatrix,
    colliders: Sequence[Triple],
    constraints: Constraints,
    *,
    open_triples: Collection[Triple] = (),
    strength: Strengths | None = None,
    tie_break: FloatVector | None = None,
) -> ClassOfDags:
    """The class of a DAG with a skeleton and given colliders, added strongest first if they fit.

    Triples (x, y, z), x < z, are unshielded in the symmetric skeleton, shape (p, p); those that are
    open may be colliders or not. A strength is that of the evidence for a collider, or for its pair
    (x, z); ``tie_break``, shape (p,), decides what the graph leaves open.

    Raises:
        ParameterError: A strength is missing or not a number.
    """
    # arrows on a cycle go unless required, whatever the colliders
    start = constraints.directed(skeleton)
    lost = cyclic_arrows(start) & ~constraints.required
    start &= ~lost
    ordered = _in_order(colliders, strength, ranks(start, tie_break))
    arcs = _with_colliders(start, ordered)
    dag = directed_to_the_end(arcs, ranks(arcs, tie_break), open_triples)
    has = set(unshielded_colliders(dag_of(dag), dag_of(dag | dag.T)))
    pairs = np.argwhere(np.triu(lost | lost.T))
    return ClassOfDags(
        arcs=_class(dag, constraints),
        dag=dag,
        set_aside=tuple(sorted(set(colliders) - has)),
        forced=tuple(sorted(has - set(colliders))),
        dropped=tuple((int(x), int(z)) for x, z in pairs),
    )


def _in_order(
    colliders: Sequence[Triple], strength: Strengths | None, rank: IndexArray
) -> list[Triple]:
    """The colliders, strongest first; equally strong ones by the ranks of their variables."""
    ranked = rank.tolist()

    def order(triple: Triple) -> tuple[float, int, list[int]]:
        x, y, z = triple
        return -strength_of(triple, strength), ranked[y], sorted((ranked[x], ranked[z]))

    return sorted(colliders, key=order)


def _with_colliders(start: BoolMatrix, colliders: Iterable[Triple]) -> BoolMatrix:
    """The graph with x -> y <- z, unless that reverses an arrow or closes a cycle of arrows."""
    arcs = start.copy()
    children = list(dag_of((arcs & ~arcs.T).T))
    for x, y, z in colliders:
        if not arcs[[x, z], y].all():
            continue
        new = [v for v in (x, z) if arcs[y, v]]
        if not reachable(children, 1 << y) & mask_of(new):
            for v in new:
                arcs[y, v] = False
                children[v] |= 1 << y
    return arcs


def _class(dag: BoolMatrix, constraints: Constraints) -> BoolMatrix:
    """The CPDAG of a DAG, directed further by background knowledge, shape (p, p)."""
    arcs = pattern_of(dag_of(dag)).arcs
    if not (arcs & constraints.forbidden).any():
        return arcs
    return meek(arcs & ~constraints.forbidden, rules=(1, 2, 3, 4))
