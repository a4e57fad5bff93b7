"""Moves between neighbouring Markov equivalence classes: the steps of greedy equivalence search.

Sources: Chickering, "Optimal structure identification with greedy search", JMLR 3 (2002), theorems
15 and 17 (insert, delete) and its algorithm that labels compelled edges (1995); Hauser and
Buehlmann, "Characterization and greedy learning of interventional Markov equivalence classes", JMLR
13 (2012), for the turning phase; Dor and Tarsi (1992) for the extension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cipherdag.arrays import BoolMatrix
from cipherdag.graphs.dags import (
    Dag,
    Family,
    dag_of,
    matrix_of,
    members,
    reachable,
    topological,
    turned,
)

Phase = Literal["insert", "delete", "turn"]
PHASES: tuple[Phase, ...] = ("insert", "delete", "turn")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A CPDAG: bit masks of every variable's parents, children and undirected neighbours."""

    parents: tuple[int, ...]
    children: tuple[int, ...]
    neighbours: tuple[int, ...]

    @classmethod
    def of_arcs(cls, arcs: BoolMatrix) -> Pattern:
        """The bit masks of a matrix of arcs, shape (p, p)."""
        parents = dag_of(arcs & ~arcs.T)
        return cls(parents, tuple(turned(parents)), dag_of(arcs & arcs.T))

    @property
    def arcs(self) -> BoolMatrix:
        """Shape (p, p): True at [u, v] where u -> v or u - v."""
        return matrix_of(self.parents) | matrix_of(self.neighbours)

    def __len__(self) -> int:
        return len(self.parents)

    def adjacent(self, v: int) -> int:
        """Bit mask of all that has an edge with v."""
        return self.parents[v] | self.children[v] | self.neighbours[v]


@dataclass(frozen=True, slots=True)
class Move:
    """A step to a neighbouring class, about the edge from x to y."""

    phase: Phase  # ``insert`` or ``delete`` the edge, or ``turn`` it so that x -> y
    x: int
    y: int
    # neighbours of y: those that become its parents too (insert, turn), or those that it is
    # directed to (delete)
    chosen: int


def pattern_of(dag: Dag) -> Pattern:
    """The CPDAG of a DAG."""
    compelled = _compelled(dag)
    free = [parents & ~arrows for parents, arrows in zip(dag, compelled, strict=True)]
    neighbours = tuple(above | below for above, below in zip(free, turned(free), strict=True))
    return Pattern(tuple(compelled), tuple(turned(compelled)), neighbours)


def moves(pattern: Pattern, phase: Phase) -> Iterator[Move]:
    """All moves of a phase that pass the clique condition; `allowed`, `applied` check the rest."""
    for y in range(len(pattern)):
        yield from moves_into(pattern, phase, y)


def moves_into(pattern: Pattern, phase: Phase, y: int) -> Iterator[Move]:
    """The moves about edges from any x to y."""
    for x in range(len(pattern)):
        if x == y or not _concerns(pattern, phase, x, y):
            continue
        near, around = pattern.neighbours[y], pattern.adjacent(x)
        # what is free to be chosen, and what belongs to the clique in any case
        free, fixed = near & ~(1 << x), 0
        if phase == "insert":
            free, fixed = near & ~around, near & around
        elif phase == "delete":
            free = near & around
        sets = cliques(pattern, free, fixed)
        # chosen sets ascend as numbers; a deletion chooses all free neighbours but a clique
        for clique in reversed(sets) if phase == "delete" else sets:
            yield Move(phase, x, y, free & ~clique if phase == "delete" else clique)


def _concerns(pattern: Pattern, phase: Phase, x: int, y: int) -> bool:
    if phase == "insert":
        return not pattern.adjacent(x) >> y & 1
    directed = pattern.parents if phase == "delete" else pattern.children
    return bool((directed[y] | pattern.neighbours[y]) >> x & 1)


def families(pattern: Pattern, move: Move) -> tuple[Family, Family]:
    """The family that an insertion or a deletion gives y, and the one that it takes from y."""
    x, y = move.x, move.y
    common = pattern.neighbours[y] & pattern.adjacent(x)
    if move.phase == "insert":
        base = pattern.parents[y] | common | move.chosen
        return (y, base | 1 << x), (y, base)
    base = (pattern.parents[y] | (common & ~move.chosen)) & ~(1 << x)
    return (y, base), (y, base | 1 << x)


def changed_families(dag: Dag, other: Dag) -> list[tuple[Family, Family]]:
    """The families in which two DAGs differ, each as in the first DAG and as in the other."""
    return [
        ((v, old), (v, new))
        for v, (old, new) in enumerate(zip(dag, other, strict=True))
        if old != new
    ]


def allowed(pattern: Pattern, move: Move) -> bool:
    """Whether an insertion closes no cycle; the other moves are judged by `applied`."""
    if move.phase != "insert":
        return True
    x, y = move.x, move.y
    blocked = (pattern.neighbours[y] & pattern.adjacent(x)) | move.chosen
    onward = zip(pattern.children, pattern.neighbours, strict=True)
    steps = [(children | near) & ~blocked for children, near in onward]
    return not reachable(steps, 1 << y) >> x & 1


def applied(pattern: Pattern, move: Move) -> Dag | None:
    """A DAG of the class that the move leads to; None where there is none."""
    x, y = move.x, move.y
    into = list(pattern.parents)
    near = list(pattern.neighbours)

    def direct(a: int, b: int) -> None:
        near[a] &= ~(1 << b)
        near[b] &= ~(1 << a)
        into[b] |= 1 << a

    near[x] &= ~(1 << y)
    near[y] &= ~(1 << x)
    into[x] &= ~(1 << y)
    into[y] &= ~(1 << x)
    if move.phase == "delete":
        for h in members(move.chosen):
            direct(y, h)
            if near[x] >> h & 1:
                direct(x, h)
        return extension(into, near)
    into[y] |= 1 << x
    for t in members(move.chosen):
        direct(t, y)
    if move.phase == "turn":
        for n in members(near[y]):
            direct(y, n)
    return extension(into, near)


def permitted(dag: Dag, forbidden: Sequence[int], required: Sequence[int]) -> Dag | None:
    """The graph or an equivalent one with all required and no forbidden edges, if there is one.

    ``dag`` has the required edges, in either direction. For each variable, bit masks say which
    others must not be its parents, and which must.
    """
    if not any(forbidden):
        return dag
    other = member(pattern_of(dag), forbidden)
    if other is None or any(required[v] & ~parents for v, parents in enumerate(other)):
        return None
    return other


def member(pattern: Pattern, forbidden: Sequence[int]) -> Dag | None:
    """A DAG of the class without any forbidden edge; None where there is none.

    For each variable, a bit mask says which others must not be its parents.
    """
    into, near = list(pattern.parents), list(pattern.neighbours)
    for v, never in enumerate(forbidden):
        if into[v] & never:
            return None
        for u in members(near[v] & never):
            near[v] &= ~(1 << u)
            near[u] &= ~(1 << v)
            into[u] |= 1 << v
    dag = extension(into, near)
    # what is forbidden may have made a cycle, or a collider that the class does not have
    return dag if dag is not None and pattern_of(dag) == pattern else None


def neighbouring(dag: Dag, phase: Phase) -> dict[Pattern, Dag]:
    """A DAG of every other class that a move of this phase leads to, by its CPDAG."""
    pattern = pattern_of(dag)
    reached = (applied(pattern, move) for move in moves(pattern, phase) if allowed(pattern, move))
    return {pattern_of(other): other for other in reached if other is not None}


def extension(parents: Sequence[int], neighbours: Sequence[int]) -> Dag | None:
    """A DAG with the directed edges and no further collider (Dor and Tarsi); None if there is none.

    Bit masks say each variable's parents, by directed edges, and its undirected neighbours.
    """
    out = turned(parents)
    adjacent = [a | b | c for a, b, c in zip(parents, neighbours, out, strict=True)]
    dag = list(parents)
    left = waiting = (1 << len(dag)) - 1
    while waiting:
        v = waiting.bit_length() - 1
        waiting ^= 1 << v
        if not out[v] & left and _removable(neighbours[v] & left, adjacent[v] & left, adjacent):
            left ^= 1 << v
            dag[v] |= neighbours[v] & left
            waiting |= adjacent[v] & left  # only they can have become removable
    return None if left else tuple(dag)


def _removable(near: int, around: int, adjacent: list[int]) -> bool:
    """Whether every undirected neighbour is adjacent to all other neighbours of the variable."""
    while near:
        lowest = near & -near
        if around & ~(lowest | adjacent[lowest.bit_length() - 1]):
            return False
        near ^= lowest
    return True


def cliques(pattern: Pattern, free: int, fixed: int) -> list[int]:
    """The subsets of a bit mask that are cliques together with a fixed set, ascending as numbers.

    Cliques grow by one variable at a time, so that time goes to cliques alone, not to all subsets.
    """
    if any(fixed & ~(1 << v) & ~pattern.adjacent(v) for v in members(fixed)):
        return []
    sets = [0]
    for v in members(free):
        around = pattern.adjacent(v)
        if not fixed & ~around:
            sets += [clique | 1 << v for clique in sets if not clique & ~around]
    return sets


def _compelled(dag: Dag) -> list[int]:
    """Bit masks of the compelled edges into every variable (Chickering 1995, label-edges)."""
    rank = {v: index for index, v in enumerate(topological(dag))}
    compelled = [0] * len(dag)
    for y in rank:
        if not dag[y]:
            continue
        # the latest parent x decides: all edges into y are compelled, or those that are into x
        x = max(members(dag[y]), key=rank.__getitem__)
        if compelled[x] & ~dag[y] or dag[y] & ~(1 << x) & ~dag[x]:
            compelled[y] = dag[y]
        else:
            compelled[y] = compelled[x]
    return compelled
