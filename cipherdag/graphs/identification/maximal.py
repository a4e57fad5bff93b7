"""Maximal PDAGs: DAGs, CPDAGs, and CPDAGs that background knowledge directs further.

A maximal PDAG stands for the class of DAGs with its skeleton, its directed edges and its unshielded
colliders, and every edge that it leaves undirected has either direction in some of them. Directing
an edge directs further edges only in its bucket, the variables that undirected edges join to it; so
the DAGs of buckets are enumerated one by one, and counts multiply.

Sources: Meek, "Causal inference and causal explanation with background knowledge", UAI 1995;
Perkovic, Kalisch and Maathuis, "Interpreting and using CPDAGs with background knowledge", UAI 2017
(possibly causal paths); Maathuis, Kalisch and Buehlmann, "Estimating high-dimensional intervention
effects from observational data", Annals of Statistics 37 (2009), lemma 3.1 and algorithms 1 and 3
(IDA: the multiset over the class, and locally); Perkovic, "Identifying causal effects in maximally
oriented partially directed acyclic graphs", UAI 2020 (buckets).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs.dags import Dag, mask_of, members, reachable, turned, walk_steps
from cipherdag.graphs.equivalence import Pattern, cliques, extension, pattern_of
from cipherdag.graphs.extension import topological_order
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import meek

MEEK = (1, 2, 3, 4)
CLOSE_BY = "Correct the edges; of a learnt graph, `finding.dag` is a DAG close to it."
TO_THE_ALGORITHM = "Give the knowledge to the algorithm that learns the graph."
MOST_IN_A_BUCKET = 32  # of more it could take minutes


def maximal_pattern(names: Sequence[str], arcs: BoolMatrix) -> Pattern:
    """The graph as bit masks, if it is a maximal PDAG.

    GraphError where it has a directed cycle, stands for no DAG at all, or leaves an edge undirected
    whose direction follows from the others.
    """
    if topological_order(arcs & ~arcs.T) is None:
        raise GraphError(
            f"the directed edges form a cycle: {_cycle(names, arcs & ~arcs.T)}", remedy=CLOSE_BY
        )
    pattern = Pattern.of_arcs(arcs)
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
    pattern = Pattern.of_arcs(arcs)
    dag = extension(pattern.parents, pattern.neighbours)
    return dag is not None and pattern_of(dag) == pattern


def check_cpdag(names: Sequence[str], arcs: BoolMatrix) -> None:
    """Raise GraphError, which says what is wrong, unless this is a CPDAG."""
    if is_completed(arcs):
        return
    pattern = maximal_pattern(names, arcs)
    beyond = arcs & ~arcs.T & pattern_of(some_member(pattern)).arcs.T
    raise GraphError(
        f"an edge is directed that some DAG of the class turns round: {_first(names, beyond)}",
        remedy="As background knowledge directs, it is an MPDAG; else take the CPDAG of a DAG.",
    )


def with_constraints(
    names: Sequence[str], arcs: BoolMatrix, constraints: Constraints
) -> BoolMatrix:
    """The maximal PDAG of a graph under background knowledge of its edges, shape (p, p).

    GraphError where the graph contradicts the knowledge, or stands for no DAG.
    """
    missing = constraints.required & ~(arcs | arcs.T)
    if missing.any():
        raise GraphError(
            f"the graph has no edge {_first(names, missing)}, which is required",
            remedy=TO_THE_ALGORITHM,
        )
    left = arcs & ~constraints.forbidden
    lost = arcs & ~(left | left.T)
    if lost.any():
        raise GraphError(
            f"the graph has the edge {_first(names, lost)}, which is forbidden",
            remedy=TO_THE_ALGORITHM,
        )
    directed = meek(left, rules=MEEK)
    member = some_member(maximal_pattern(names, directed))
    if pattern_of(member) != pattern_of(some_member(Pattern.of_arcs(arcs))):
        raise GraphError(
            "what is known of the edges makes a collider that the graph rules out",
            remedy=TO_THE_ALGORITHM,
        )
    return directed


def some_member(pattern: Pattern) -> Dag:
    """A DAG of the class; GraphError if there is none."""
    dag = extension(pattern.parents, pattern.neighbours)
    if dag is None:
        raise GraphError(
            "no DAG has this graph's edges and no other collider: its undirected edges cannot all "
            "be directed",
            remedy=CLOSE_BY,
        )
    return dag


def with_parents(pattern: Pattern, v: int, chosen: int) -> Pattern:
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


def close_under_meek(pattern: Pattern) -> Pattern:
    """The maximal PDAG of a pattern that has a DAG: what follows from its directed edges."""
    return Pattern.of_arcs(meek(pattern.arcs, rules=MEEK))


def possible_descendants(pattern: Pattern, v: int) -> int:
    """Bit mask of v and all that it causes in some DAG of the class.

    They end a path without an arrow backwards, on which no three variables in a row form a
    triangle (Perkovic et al. 2017, lemmas 3.5 and 3.6).
    """
    onward = [
        below | near for below, near in zip(pattern.children, pattern.neighbours, strict=True)
    ]
    starts = [(v, w) for w in members(onward[v])]
    steps = walk_steps(starts, lambda u, w: onward[w] & ~pattern.adjacent(u) & ~(1 << u))
    return mask_of(w for _, w in steps) | 1 << v


def every_member(pattern: Pattern) -> Iterator[Dag]:
    """Every DAG of the class, once: variable by variable, with all parents it may have."""
    waiting = [pattern]
    while waiting:
        graph = waiting.pop()
        v = next((v for v, near in enumerate(graph.neighbours) if near), None)
        if v is None:
            yield graph.parents
        else:
            waiting += [with_parents(graph, v, chosen) for chosen in _parent_choices(graph, v)]


def possible_parents(pattern: Pattern, v: int) -> Iterator[int]:
    """Bit masks of what the parents of v are in some DAG of the class, each once."""
    bucket = reachable(pattern.neighbours, 1 << v)
    for chosen in _parent_choices(_restrict(pattern, bucket), _index_in(bucket, v)):
        yield pattern.parents[v] | _unpack(bucket, chosen)


def parent_counts(pattern: Pattern, v: int, most: int) -> Counter[int] | None:
    """In how many DAGs of the class v has which parents, as bit masks.

    None where a bucket has more than ``most`` DAGs, or more than 32 variables.
    """
    bucket_of_v, elsewhere, counts = reachable(pattern.neighbours, 1 << v), [], Counter[int]()
    fixed = pattern.parents[v] & ~bucket_of_v
    left = (1 << len(pattern)) - 1
    while left:
        bucket = reachable(pattern.neighbours, left & -left)
        left &= ~bucket
        if bucket.bit_count() > MOST_IN_A_BUCKET:
            return None
        dags = list(islice(every_member(_restrict(pattern, bucket)), most + 1))
        if len(dags) > most:
            return None
        if bucket == bucket_of_v:
            parents = (dag[_index_in(bucket, v)] for dag in dags)
            counts = Counter(fixed | _unpack(bucket, packed) for packed in parents)
        else:
            elsewhere.append(len(dags))
    return Counter({parents: count * prod(elsewhere) for parents, count in counts.items()})


def _parent_choices(pattern: Pattern, v: int) -> Iterator[int]:
    """The neighbours that are parents of v in some DAG, all others being its children in it."""
    for chosen in cliques(pattern, pattern.neighbours[v], 0):
        if _adds_no_collider(pattern, v, chosen):
            graph = with_parents(pattern, v, chosen)
            if extension(graph.parents, graph.neighbours) is not None:
                yield chosen


def _adds_no_collider(pattern: Pattern, v: int, chosen: int) -> bool:
    """Whether new arrows into v, and from v into its other neighbours, meet adjacent tails only."""
    around = pattern.adjacent(v) | 1 << v
    into = pattern.parents[v] | chosen
    shielded = all(not into & ~(1 << u) & ~pattern.adjacent(u) for u in members(chosen))
    others = pattern.neighbours[v] & ~chosen
    return shielded and all(not pattern.parents[w] & ~around for w in members(others))


def _restrict(pattern: Pattern, inside: int) -> Pattern:
    """The pattern of the variables ``inside`` alone, renumbered 0, 1, ... in their order."""
    variables = list(members(inside))

    def packed(masks: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            mask_of(i for i, u in enumerate(variables) if masks[v] >> u & 1) for v in variables
        )

    return Pattern(*map(packed, (pattern.parents, pattern.children, pattern.neighbours)))


def _index_in(inside: int, v: int) -> int:
    """The number that `_restrict` gives a variable."""
    return (inside & ((1 << v) - 1)).bit_count()


def _unpack(inside: int, packed: int) -> int:
    """A bit mask of the numbers that `_restrict` gives as one of all variables."""
    variables = list(members(inside))
    return mask_of(variables[i] for i in members(packed))


def _first(names: Sequence[str], arrows: BoolMatrix) -> str:
    """The first of some arrows in words."""
    cause, effect = np.argwhere(arrows)[0]
    return f"'{names[cause]}' --> '{names[effect]}'"


def _cycle(names: Sequence[str], arrows: BoolMatrix) -> str:
    """One directed cycle in words."""
    import networkx as nx

    cycle = nx.find_cycle(nx.from_numpy_array(arrows, create_using=nx.DiGraph))
    return " --> ".join(f"'{names[v]}'" for v in (*(a for a, _ in cycle), cycle[0][0]))
