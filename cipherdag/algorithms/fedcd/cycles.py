"""Fed-CD makes a DAG of the edges that sites believe in.

The paper's binary step may leave cycles, of which it says nothing; the published program puts the
variables of a cycle into their likeliest order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from cipherdag.arrays import BoolMatrix, FloatMatrix

MOST_PERMUTED = 6
"""Up to this many variables on cycles, all orders are tried, as the published program does."""
LEAST_GAIN = 1e-9


@dataclass(frozen=True, slots=True)
class CutEdge:
    """An edge that the sites believe in and the DAG leaves out, by position.

    Attributes:
        source: Its tail.
        target: Its head.
        belief: Aggregated belief in it.
    """

    source: int
    target: int
    belief: float


def without_cycles(
    graph: BoolMatrix, belief: FloatMatrix
) -> tuple[BoolMatrix, tuple[CutEdge, ...]]:
    """A DAG of the edges believed in most, and the edges that it leaves out.

    Edges are added by descending belief, ties by position; one that would close a cycle is left
    out. A graph without cycles is returned as it is.

    Args:
        graph: Edges believed in, shape (p, p); both directions and cycles may occur.
        belief: Belief in every edge, shape (p, p).
    """
    p = len(graph)
    reaches = np.eye(p, dtype=bool)
    arcs = np.zeros_like(graph)
    cut: list[CutEdge] = []
    for edge in _strongest_first(graph, belief):
        i, j = edge.source, edge.target
        if reaches[j, i]:
            cut.append(edge)
            continue
        arcs[i, j] = True
        reaches |= reaches[:, i][:, None] & reaches[j][None, :]
    return arcs, tuple(cut)


def in_likeliest_order(
    graph: BoolMatrix, belief: FloatMatrix, orientation: FloatMatrix
) -> tuple[BoolMatrix, tuple[CutEdge, ...]]:
    """The published program's DAG, and the edges that it leaves out.

    Variables that lie on cycles together are put into the order whose pairs have the largest sum
    of log sigma(theta); edges against it are left out. Of up to six variables all orders are
    tried; of more, single variables are moved as long as one move gains. The published program
    breaks cycles one at a time, which can leave some, and moves one variable once.

    Args:
        graph: Edges believed in, shape (p, p).
        belief: Belief in every edge, shape (p, p).
        orientation: theta, the orientation logits, shape (p, p).
    """
    from scipy.sparse.csgraph import connected_components

    n_components, component = connected_components(graph, connection="strong")
    likelihood = -np.logaddexp(0.0, -orientation)
    position = np.zeros(len(graph), dtype=np.int64)
    for number in range(n_components):
        members = np.flatnonzero(component == number)
        order = _likeliest(likelihood[np.ix_(members, members)])
        position[members[order]] = np.arange(len(members))
    together = component[:, None] == component[None, :]
    against = graph & together & (position[:, None] > position[None, :])
    return graph & ~against, tuple(_strongest_first(against, belief))


def _strongest_first(graph: BoolMatrix, belief: FloatMatrix) -> list[CutEdge]:
    edges = np.argwhere(graph)
    order = np.argsort(-belief[edges[:, 0], edges[:, 1]], kind="stable")
    return [CutEdge(i, j, float(belief[i, j])) for i, j in edges[order].tolist()]


def _likeliest(likelihood: FloatMatrix) -> list[int]:
    """The order with the largest sum over its pairs, the first of equals."""
    better = likelihood - likelihood.T
    order = list(range(len(better)))
    if len(order) <= MOST_PERMUTED:
        best: tuple[int, ...] = max(permutations(order), key=lambda order: _forward(better, order))
        return list(best)
    while True:
        gains = _gains_of_moves(better[np.ix_(order, order)])
        source, target = np.unravel_index(gains.argmax(), gains.shape)
        if gains[source, target] <= LEAST_GAIN:
            return order
        order.insert(int(target), order.pop(int(source)))


def _forward(better: FloatMatrix, order: tuple[int, ...]) -> float:
    pairs = ((u, v) for k, u in enumerate(order) for v in order[k + 1 :])
    return math.fsum(better[u, v] for u, v in pairs)


def _gains_of_moves(better: FloatMatrix) -> FloatMatrix:
    """The gain of moving the i-th variable to position k, shape (p, p); better is antisymmetric."""
    passed = np.cumsum(better, axis=1)
    here = np.diagonal(passed)[:, None]
    earlier = np.tri(len(better), k=-1, dtype=bool)
    return np.where(earlier, here - (passed - better), here - passed)
