"""From a partially directed graph to a DAG, even where the graph has no consistent extension.

Graphs are boolean matrices of shape (p, p): ``arcs[i, j]`` is True where i -> j or i - j. Choices
between variables, such as which end of an undirected edge becomes the effect, follow `ranks`, which
do not depend on names or positions; else the alphabet would decide.

Sources: Dor and Tarsi, "A simple algorithm to construct a consistent extension of a partially
oriented graph", technical report R-185, UCLA 1992; Eades, Lin and Smyth, "A fast and effective
heuristic for the feedback arc set problem", IPL 47 (1993); Weisfeiler and Leman (1968), colour
refinement.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import ArrayLike

from cipherdag.arrays import BoolMatrix, IndexArray
from cipherdag.errors import GraphError
from cipherdag.graphs.dags import dag_of, members
from cipherdag.graphs.endpoints import checked_arcs

Cost = tuple[int, int]


def topological_order(directed: BoolMatrix) -> IndexArray | None:
    """Positions with every parent before its children, shape (p,); None if there is a cycle.

    They stand layer by layer, by the longest path from a root, and ascend within a layer.
    """
    waiting = directed.sum(axis=0)
    order: list[IndexArray] = []
    ready = np.flatnonzero(waiting == 0)
    while ready.size:
        order.append(ready)
        waiting = waiting - directed[ready].sum(axis=0)
        waiting[ready] = -1
        ready = np.flatnonzero(waiting == 0)
    positions = np.concatenate(order) if order else np.zeros(0, dtype=np.int64)
    return positions if len(positions) == len(directed) else None


def cyclic_arrows(arcs: BoolMatrix) -> BoolMatrix:
    """The arrows of a partially directed graph that lie on a directed cycle, shape (p, p)."""
    directed = arcs & ~arcs.T
    if topological_order(directed) is not None:
        return np.zeros_like(directed)
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(directed, connection="strong")
    return directed & (component[:, None] == component)


def acyclic_extension(arcs: ArrayLike, tie_break: ArrayLike | None = None) -> BoolMatrix:
    """A DAG with a graph's skeleton in any case: a consistent extension, or close to one.

    Directed edges are turned only inside directed cycles, by the ordering of Eades, Lin and Smyth;
    then sinks are removed as in Dor and Tarsi's algorithm, each time the one that adds the fewest
    unshielded colliders. Where there is a choice, `ranks` makes it, so that variables with few
    undirected edges become effects.

    ``tie_break``, shape (p,), decides what the graph leaves open.
    """
    graph = checked_arcs(arcs)
    rank = ranks(graph, tie_break)
    turned = _cyclic_edges_to_turn(graph & ~graph.T, rank)
    return directed_to_the_end((graph & ~turned) | turned.T, rank)


def extension_in_code_order(arcs: ArrayLike) -> BoolMatrix:
    """All edges directed as the original FedPC program does, shape (p, p).

    Repeatedly, of the variables with an undirected edge, the one with the most directed parents
    (ties: the first) gets all its undirected edges directed away from it. That **may leave directed
    cycles**.
    """
    graph = checked_arcs(arcs)
    while (undirected := graph & graph.T).any():
        parents = (graph & ~graph.T).sum(axis=0)
        chosen = int(np.where(undirected.any(axis=0), parents, -1).argmax())
        graph[undirected[chosen], chosen] = False
    return graph


def directed_to_the_end(
    arcs: BoolMatrix, rank: IndexArray, open_triples: Iterable[tuple[int, int, int]] = ()
) -> BoolMatrix:
    """A DAG with all edges and arrows of a graph, and few further unshielded colliders.

    Dor and Tarsi: take the sink that adds the fewest, direct its undirected edges into it, remove
    it, repeat. So there are no further colliders where the graph has a consistent extension.

    Open triples may be colliders or not: these count only between sinks that add equally many other
    colliders. Among equal sinks the lowest ``rank``, shape (p,), goes first. Raises GraphError
    where the arrows form a cycle.
    """
    first = rank.tolist()
    left = _Remaining(arcs, open_triples)
    dag = arcs.copy()
    costs = {node: left.cost(node) for node in range(len(arcs))}
    sinks = [(cost, first[node], node) for node, cost in costs.items() if cost is not None]
    heapify(sinks)
    while costs:
        # skip entries of a node that was removed, or has another cost since
        while sinks and costs.get(sinks[0][2]) != sinks[0][0]:
            heappop(sinks)
        if not sinks:
            raise GraphError("arrows that form a cycle cannot be directed to the end")
        node = heappop(sinks)[2]
        dag[node, list(members(left.undirected[node]))] = False
        touched = left.remove(node)
        del costs[node]
        for other in touched:
            cost = costs[other] = left.cost(other)
            if cost is not None:
                heappush(sinks, (cost, first[other], other))
    return dag


class _Remaining:
    """The graph without the sinks taken so far; neighbourhoods are bit sets."""

    __slots__ = ("adjacent", "children", "loose", "undirected")

    def __init__(self, arcs: BoolMatrix, open_triples: Iterable[tuple[int, int, int]]) -> None:
        self.adjacent = list(dag_of(arcs | arcs.T))
        self.undirected = list(dag_of(arcs & arcs.T))
        self.children = list(dag_of(~arcs & arcs.T))
        self.loose: dict[int, list[int]] = {}  # ends of open triples, by the middle
        for x, y, z in open_triples:
            self.loose.setdefault(y, []).append(1 << x | 1 << z)

    def cost(self, node: int) -> Cost | None:
        """Unshielded colliders that a sink adds: on decided and on open triples; else None."""
        if self.children[node]:
            return None
        around, undirected = self.adjacent[node], self.undirected[node]
        with_parent = among_undirected = 0
        for other in members(undirected):
            distant = around & ~self.adjacent[other] & ~(1 << other)
            with_parent += (distant & ~undirected).bit_count()
            among_undirected += (distant & undirected).bit_count()
        ends = self.loose.get(node, ())
        loose = sum(not pair & ~around and bool(pair & undirected) for pair in ends)
        return with_parent + among_undirected // 2 - loose, loose

    def remove(self, node: int) -> list[int]:
        """Take the node out; returns its former neighbours."""
        neighbours = list(members(self.adjacent[node]))
        for other in neighbours:
            for sets in (self.adjacent, self.undirected, self.children):
                sets[other] &= ~(1 << node)
        return neighbours


def _cyclic_edges_to_turn(directed: BoolMatrix, rank: IndexArray) -> BoolMatrix:
    """Edges on directed cycles whose reversal leaves no directed cycle.

    `_line` orders the variables. Inside every strongly connected component, edges that point
    backwards in it are reversed; between components there is no cycle.
    """
    cyclic = cyclic_arrows(directed)
    index = np.empty(len(directed), dtype=np.int64)
    index[_line(cyclic, rank)] = np.arange(len(directed))
    return cyclic & (index[:, None] > index[None, :])


def _line(directed: BoolMatrix, rank: IndexArray) -> list[int]:
    """Eades, Lin and Smyth: sinks last, roots first, else the largest surplus of children."""
    by_rank = np.argsort(rank)
    left = np.ones(len(directed), dtype=np.bool_)
    children, parents = directed.sum(axis=1), directed.sum(axis=0)
    head: list[int] = []
    tail: list[int] = []
    while left.any():
        ranked = by_rank[left[by_rank]]
        sinks, roots = ranked[children[ranked] == 0], ranked[parents[ranked] == 0]
        if sinks.size:
            node = int(sinks[0])
            tail.append(node)
        else:
            surplus = (children - parents)[ranked]
            node = int(roots[-1] if roots.size else ranked[surplus.argmax()])
            head.append(node)
        left[node] = False
        children = children - directed[:, node]
        parents = parents - directed[node]
    return head + tail[::-1]


def ranks(arcs: BoolMatrix, tie_break: ArrayLike | None = None) -> IndexArray:
    """The rank of every variable, 0 for the first, shape (p,), whatever its name.

    Variables are sorted by their number of undirected edges, then by their other edges and their
    neighbours' edges, then by ``tie_break``, shape (p,), then by position, the last first.
    """
    colours = _colours(arcs)
    numbers = np.zeros(len(arcs)) if tie_break is None else np.asarray(tie_break, dtype=np.float64)
    rank = np.empty(len(arcs), dtype=np.int64)
    rank[np.lexsort((-np.arange(len(arcs)), numbers, colours))] = np.arange(len(arcs))
    return rank


def _colours(arcs: BoolMatrix) -> IndexArray:
    """Classes of variables that have the same kinds of edges to the same classes, shape (p,)."""
    undirected, directed = arcs & arcs.T, arcs & ~arcs.T
    kinds = (undirected, directed, directed.T)
    around = [[np.flatnonzero(row).tolist() for row in kind] for kind in kinds]
    colours = _classes([tuple(len(near[v]) for near in around) for v in range(len(arcs))])
    while True:
        finer = _classes(
            [
                (colours[v], *(tuple(sorted(colours[u] for u in near[v])) for near in around))
                for v in range(len(arcs))
            ]
        )
        if max(finer, default=0) == max(colours, default=0):
            return np.array(finer, dtype=np.int64)
        colours = finer


def _classes(descriptions: list[tuple[object, ...]]) -> list[int]:
    """Every description's index among the distinct ones."""
    distinct = {each: index for index, each in enumerate(sorted(set(descriptions)))}
    return [distinct[each] for each in descriptions]
