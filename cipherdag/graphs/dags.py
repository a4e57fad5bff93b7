"""DAGs as parent sets in bit masks, for score-based searches, which handle them by the thousand.

A DAG over p variables is a tuple of p integers: bit u of ``dag[v]`` says that u -> v. A *family* is
a variable and the bit mask of its parents; a decomposable score is a sum over families.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_

import numpy as np

from cipherdag.arrays import BoolMatrix

Dag = tuple[int, ...]
Family = tuple[int, int]
ClassKey = tuple[int, int]


def empty_dag(n_variables: int) -> Dag:
    """The graph without an edge."""
    return (0,) * n_variables


def members(mask: int) -> Iterator[int]:
    """The positions of a bit mask, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def mask_of(positions: Iterable[int]) -> int:
    """The bit mask of some positions."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def submasks(mask: int) -> Iterator[int]:
    """All subsets of a bit mask, the empty one first, ascending as numbers."""
    subset = 0
    while True:
        yield subset
        if subset == mask:
            return
        subset = (subset - mask) & mask


def reachable(steps: Sequence[int], start: int) -> int:
    """Bit mask of ``start`` and all that it leads to, if ``steps[v]`` has what follows v."""
    reached, new = start, start
    while new:
        following = 0
        for v in members(new):
            following |= steps[v]
        new = following & ~reached
        reached |= new
    return reached


def walk_steps(
    starts: Iterable[tuple[int, int]], onward: Callable[[int, int], int]
) -> Iterator[tuple[int, int]]:
    """Every step (u, v) of the walks from some first steps, once.

    ``onward`` gives the bit mask of what may come after u and v.
    """
    waiting = list(starts)
    seen = set(waiting)
    while waiting:
        u, v = waiting.pop()
        yield u, v
        new = [(v, w) for w in members(onward(u, v)) if (v, w) not in seen]
        seen.update(new)
        waiting += new


def n_edges(dag: Dag) -> int:
    """Number of edges."""
    return sum(parents.bit_count() for parents in dag)


def arcs_in_order(dag: Dag) -> tuple[tuple[int, int], ...]:
    """The edges (cause, effect) in lexicographic order."""
    return tuple(sorted((u, v) for v, parents in enumerate(dag) for u in members(parents)))


def ancestors(dag: Dag) -> list[int]:
    """Bit mask of every variable's ancestors, itself left out."""
    above = [0] * len(dag)
    for v in topological(dag):
        above[v] = reduce(or_, (above[u] for u in members(dag[v])), dag[v])
    return above


def turned(masks: Sequence[int]) -> list[int]:
    """The arrows the other way round: children from parents, or parents from children."""
    others = [0] * len(masks)
    for v, mask in enumerate(masks):
        bit, left = 1 << v, mask
        while left:  # `members` costs most of this, and a search turns all graphs that it meets
            lowest = left & -left
            others[lowest.bit_length() - 1] |= bit
            left ^= lowest
    return others


def extensions(dag: Dag) -> Iterator[Dag]:
    """Every acyclic graph with one edge more, by effect and then by cause."""
    above = ancestors(dag)
    for v, parents in enumerate(dag):
        for u in range(len(dag)):
            if u != v and not parents >> u & 1 and not above[u] >> v & 1:
                yield (*dag[:v], parents | 1 << u, *dag[v + 1 :])


def extensions_by_class(dag: Dag) -> Iterator[tuple[Dag, ClassKey]]:
    """Every extension with its skeleton and unshielded colliders, as bit masks.

    Graphs with equal keys are Markov equivalent and the others are not (Verma and Pearl, 1990).
    """
    p = len(dag)
    children = turned(dag)
    adjacent = [parents | children[v] for v, parents in enumerate(dag)]
    skeleton = sum(_pair(u, v, p) for v, parents in enumerate(dag) for u in members(parents))
    colliders = 0
    for u, v, w in unshielded_colliders(dag, adjacent):
        colliders |= _pair(u, w, p) << v * p * p
    for other in extensions(dag):
        v = next(v for v in range(p) if other[v] != dag[v])
        u = (other[v] ^ dag[v]).bit_length() - 1
        edge = _pair(u, v, p)
        after = colliders
        for x in members(children[u] & children[v]):
            after &= ~(edge << x * p * p)
        for w in members(dag[v] & ~adjacent[u]):
            after |= _pair(u, w, p) << v * p * p
        yield other, (skeleton | edge, after)


def _pair(u: int, v: int, p: int) -> int:
    """The bit of an unordered pair."""
    return 1 << (u * p + v if u < v else v * p + u)


def topological(dag: Dag) -> list[int]:
    """Positions with every parent before its children, layer by layer; ValueError for a cycle."""
    order: list[int] = []
    waiting, left = list(range(len(dag))), (1 << len(dag)) - 1
    while waiting:
        ready = [v for v in waiting if not dag[v] & left]
        if not ready:
            raise ValueError("the graph has a directed cycle")
        order += ready
        waiting = [v for v in waiting if dag[v] & left]
        left ^= mask_of(ready)
    return order


def matrix_of(dag: Dag) -> BoolMatrix:
    """Directed edges, shape (p, p): True at [u, v] where u -> v."""
    matrix = np.zeros((len(dag), len(dag)), dtype=bool)
    for v, parents in enumerate(dag):
        matrix[list(members(parents)), v] = True
    return matrix


def row_masks(matrix: BoolMatrix) -> Dag:
    """Every row as a bit mask."""
    return tuple(mask_of(np.flatnonzero(row).tolist()) for row in matrix)


def dag_of(matrix: BoolMatrix) -> Dag:
    """Inverse of `matrix_of`."""
    return row_masks(matrix.T)


def unshielded_colliders(
    into: Sequence[int], adjacent: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """Every x *-> y <-* z whose ends are not adjacent, as (x, y, z), x < z.

    Bit masks say what has an edge with an arrowhead at every variable, and what its neighbours are.
    """
    for y, heads in enumerate(into):
        for x in members(heads):
            for z in members(heads & ~adjacent[x] & ~((2 << x) - 1)):
                yield x, y, z
