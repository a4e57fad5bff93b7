"""From a skeleton to a CPDAG: colliders, Meek's rules, and the CPDAG of a DAG.

Graphs are boolean matrices of shape (p, p): ``arcs[i, j]`` is True where i -> j or i - j, so an
undirected edge stands both ways. Nothing here sees data.

Tests err: there may be no DAG with exactly the colliders that they imply. So colliders are added in
the order of their evidence; one whose arrows would close a cycle, or reverse an arrow, is left out.
A DAG with these arrows follows by removing sinks, as Dor and Tarsi do: each time one that makes the
fewest further colliders; those that the tests neither deny nor imply only break ties. The result is
the class of this DAG, with the triples in which it differs from the tests.

Sources: Meek, "Causal inference and causal explanation with background knowledge", UAI 1995
(rules 1 to 4); Colombo and Maathuis, JMLR 15 (2014), section 4 (orientation free of orders);
Huang et al., "Towards privacy-aware causal structure learning in federated setting", IEEE TBD 2023
(FedOrien, phases 4 and 5), and the visit order of its published program; Dor and Tarsi, "A simple
algorithm to construct a consistent extension of a partially oriented graph", technical report
R-185, UCLA 1992.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.errors import GraphError, ParameterError
from cipherdag.graphs.dags import dag_of, mask_of, reachable, unshielded_colliders
from cipherdag.graphs.endpoints import checked_arcs, non_adjacent
from cipherdag.graphs.equivalence import pattern_of
from cipherdag.graphs.extension import cyclic_arrows, directed_to_the_end, ranks, topological_order
from cipherdag.graphs.knowledge import Constraints

DENSE_UP_TO = 256  # variables of graphs that are composed as matrices; larger ones row by row
Triple = tuple[int, int, int]  # an unshielded triple x - y - z as (x, y, z), x < z
Strengths = Mapping[tuple[int, int], float] | Mapping[Triple, float]
"""Strength of the evidence by triple, or by pair (x, z) for all triples with these ends."""


def unshielded_pairs(skeleton: ArrayLike) -> IndexArray:
    """Pairs (x, z), x < z, not adjacent but with a common neighbour, in order, shape (P, 2)."""
    arcs = checked_arcs(skeleton)
    adjacent = arcs | arcs.T
    pairs = np.triu(compose(adjacent, adjacent) & ~adjacent, k=1)
    return np.argwhere(pairs).astype(np.int64)


def triples_over(skeleton: BoolMatrix, edges: BoolMatrix) -> set[Triple]:
    """The unshielded triples (x, y, z), x < z, that have any of ``edges``; shapes (p, p)."""
    triples: set[Triple] = set()
    for x, z in unshielded_pairs(skeleton).tolist() if edges.any() else ():
        over = skeleton[x] & skeleton[z] & (edges[x] | edges[z])
        triples.update((x, y, z) for y in np.flatnonzero(over).tolist())
    return triples


def colliders_by_sepset(
    skeleton: ArrayLike, sepsets: Mapping[tuple[int, int], frozenset[int] | None]
) -> list[Triple]:
    """Unshielded triples (x, y, z), x < z, whose middle is not in the separating set of the ends.

    A set that is None is ambiguous: its pair (x, z), x < z, has no collider. GraphError where
    it is no graph, or a pair has no separating set.
    """
    adjacent = checked_arcs(skeleton)
    colliders: list[Triple] = []
    for x, z in unshielded_pairs(adjacent).tolist():
        if (x, z) not in sepsets:
            raise GraphError(f"no separating set is given for the unshielded pair ({x}, {z})")
        sepset = sepsets[x, z]
        if sepset is not None:
            middle = np.flatnonzero(adjacent[x] & adjacent[z]).tolist()
            colliders += [(x, y, z) for y in middle if y not in sepset]
    return colliders


def colliders_in_code_order(skeleton: ArrayLike, triples: Iterable[Triple]) -> BoolMatrix:
    """Direct x -> y <- z for unshielded triples (x, y, z), x < z, as the original FedPC program.

    They are visited by y, then x, then z, ascending; a later one turns arrows of an earlier one.
    """
    arcs = checked_arcs(skeleton)
    for x, y, z in sorted(triples, key=lambda triple: (triple[1], triple[0], triple[2])):
        arcs[[x, z], y] = True
        arcs[y, [x, z]] = False
    return arcs


def meek(arcs: ArrayLike, *, rules: Sequence[int] = (1, 2, 3)) -> BoolMatrix:
    """Direct every undirected edge that Meek's rules direct, until none is left.

    One pass applies the rules one after the other, each to the graph as it stands before the rule.
    The result does not depend on the order of the variables: where a rule asks for both directions
    of an edge, which happens only if colliders contradict each other, the edge stays as it is. On
    the pattern of a DAG rules 1 to 3 give its CPDAG; with background knowledge add rule 4.

    Returns:
        The graph, shape (p, p), with the same skeleton and all directed edges of ``arcs``. Without
        a directed cycle if ``arcs`` has a consistent extension.

    Raises:
        GraphError: Not a graph.
        ParameterError: A rule other than 1 to 4.
    """
    graph = checked_arcs(arcs)
    if unknown := set(rules) - set(_RULES):
        raise ParameterError(f"Meek's rules are 1 to 4, not {sorted(unknown)}")
    while True:
        before = int(graph.sum())
        for rule in rules:
            asked = _RULES[rule](graph)
            graph &= ~(asked & ~asked.T).T
        if int(graph.sum()) == before:
            return graph


def meek_in_code_order(arcs: ArrayLike) -> BoolMatrix:
    """Rules 1 to 3 exactly as the original FedPC program applies them.

    Differs from `meek` only where colliders contradict each other: of two directions asked for by
    rule 1 the one from the smaller position wins, and rules 2 and 3 see edges that the same pass
    has just directed, so that a later edge may turn an earlier one round. Edges are visited by
    head, then tail, ascending. The graph keeps its skeleton and **may have directed cycles**.
    """
    graph = checked_arcs(arcs)
    adjacent = graph | graph.T
    while True:
        before = graph.copy()
        asked = _rule_1(graph)
        graph &= ~(asked & ~np.tril(asked.T)).T
        for head, tail in np.argwhere(graph & graph.T):  # rule 2
            if (graph[tail] & ~graph[:, tail] & graph[:, head] & ~graph[head]).any():
                graph[tail, head], graph[head, tail] = True, False
        for head, tail in np.argwhere(graph & graph.T):  # rule 3
            middle = graph[tail] & graph[:, tail] & graph[:, head] & ~graph[head]
            if _some_non_adjacent(adjacent, np.flatnonzero(middle)):
                graph[tail, head], graph[head, tail] = True, False
        if (graph == before).all():
            return graph


def cpdag_of(dag: ArrayLike) -> BoolMatrix:
    """A DAG's CPDAG: its unshielded colliders, completed by Meek's rules 1 to 3; or GraphError."""
    arcs = checked_arcs(dag)
    if (arcs & arcs.T).any() or topological_order(arcs) is None:
        raise GraphError("only a DAG has a CPDAG; this graph has a cycle or an undirected edge")
    in_collider = arcs & compose(non_adjacent(arcs | arcs.T), arcs)
    return meek(arcs | (arcs & ~in_collider).T)


def strength_of(triple: Triple, strength: Strengths | None) -> float:
    """The strength of a triple, or else of its pair; ParameterError where there is no number."""
    pair = (triple[0], triple[2])
    strengths: Mapping[Any, float] = {} if strength is None else strength
    value = strengths.get(triple, strengths.get(pair, math.nan))
    if math.isnan(value):
        raise ParameterError(f"no strength is given of the unshielded pair {pair}")
    return value


def compose(first: BoolMatrix, second: BoolMatrix) -> BoolMatrix:
    """[a, c] is True where some b has first[a, b] and second[b, c]."""
    if len(first) <= DENSE_UP_TO:
        # float32 products run in BLAS, boolean ones do not; counts below 2**24 are exact
        return first.astype(np.float32) @ second.astype(np.float32) > 0
    if second.sum() < first.sum():
        return compose(second.T, first.T).T
    composed = np.zeros(first.shape, dtype=bool)
    for a in np.flatnonzero(first.any(axis=1)).tolist():
        composed[a] = second[first[a]].any(axis=0)
    return composed


def _some_non_adjacent(adjacent: BoolMatrix, nodes: IndexArray) -> bool:
    """Whether two of the nodes are not adjacent."""
    return bool(non_adjacent(adjacent[np.ix_(nodes, nodes)]).any())


def _rule_1(arcs: BoolMatrix) -> BoolMatrix:
    """Asks for b -> c where a -> b - c and a, c are not adjacent."""
    directed, undirected, adjacent = arcs & ~arcs.T, arcs & arcs.T, arcs | arcs.T
    return undirected & compose(directed.T, non_adjacent(adjacent))


def _rule_2(arcs: BoolMatrix) -> BoolMatrix:
    """Asks for a -> b where a -> c -> b and a - b."""
    directed = arcs & ~arcs.T
    return arcs & arcs.T & compose(directed, directed)


def _rule_3(arcs: BoolMatrix) -> BoolMatrix:
    """Asks for a -> b where a - c -> b, a - d -> b, a - b and c, d are not adjacent."""
    directed, undirected, adjacent = arcs & ~arcs.T, arcs & arcs.T, arcs | arcs.T
    asked = np.zeros_like(arcs)
    for a, b in np.argwhere(undirected & compose(undirected, directed)).tolist():
        asked[a, b] = _some_non_adjacent(adjacent, np.flatnonzero(undirected[a] & directed[:, b]))
    return asked


def _rule_4(arcs: BoolMatrix) -> BoolMatrix:
    """Asks for a -> b where a - c -> d -> b, a - b, a and d are adjacent and c and b are not."""
    directed, undirected, adjacent = arcs & ~arcs.T, arcs & arcs.T, arcs | arcs.T
    asked, distant = np.zeros_like(arcs), non_adjacent(adjacent)
    for a, b in np.argwhere(undirected & compose(adjacent, directed)).tolist():
        tails = np.flatnonzero(undirected[a] & distant[b])
        middle = np.flatnonzero(adjacent[a] & directed[:, b])
        asked[a, b] = bool(directed[np.ix_(tails, middle)].any())
    return asked


_RULES = {1: _rule_1, 2: _rule_2, 3: _rule_3, 4: _rule_4}


@dataclass(frozen=True, slots=True, eq=False)
class ClassOfDags:
    """A class of DAGs over p variables, and how it differs from the tests."""

    arcs: BoolMatrix  # its CPDAG, or with knowledge its maximal PDAG, shape (p, p)
    dag: BoolMatrix  # a DAG of the class that agrees with background knowledge, shape (p, p)
    set_aside: tuple[Triple, ...] = ()  # colliders, by the tests, that the class does not have
    forced: tuple[Triple, ...] = ()  # those of the class that the tests deny or do not decide
    dropped: tuple[tuple[int, int], ...] = ()  # edges x < z of a cycle of known arrows


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
    (x, z); ``tie_break``, shape (p,), sorts variables that the graph does not distinguish.
    ParameterError where a strength is missing or not a number.
    """
    # arrows on a cycle go unless required, whatever the colliders
    start = constraints.directed(skeleton)
    lost = cyclic_arrows(start) & ~constraints.required
    start &= ~lost
    ordered = _in_order(colliders, strength, ranks(start, tie_break))
    arcs = _with_colliders(start, ordered)
    dag = directed_to_the_end(arcs, ranks(arcs, tie_break), open_triples)
    has = set(unshielded_colliders(dag_of(dag), dag_of(dag | dag.T)))
    return ClassOfDags(
        arcs=_class(dag, constraints),
        dag=dag,
        set_aside=tuple(sorted(set(colliders) - has)),
        forced=tuple(sorted(has - set(colliders))),
        dropped=tuple((int(x), int(z)) for x, z in np.argwhere(np.triu(lost | lost.T))),
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
