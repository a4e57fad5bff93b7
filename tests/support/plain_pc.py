"""PC on one table in plain loops, from its description: a reference that shares no code.

Skeleton: order-independent layers. Separating set of a pair: the one of largest p among the subsets
of either end's neighbours, on a grid, smaller and earlier sets first. Colliders by descending p.
Meek's rules as the original FedPC program has them, which agree where colliders do not conflict.
"""

import math
from itertools import combinations

import numpy as np
from original_fedpc import _rule1, _rule2, _rule3


def plain_skeleton(n, p_value, alpha, largest):
    """Adjacency and edges left after each layer; ``p_value(x, y, given)`` is NaN where undone."""
    graph = ~np.eye(n, dtype=bool)
    layers = []
    for layer in range(largest + 1):
        if graph.sum(axis=0).max() <= layer:
            break
        start = graph.copy()
        for x, y in combinations(range(n), 2):
            if start[x, y] and any(
                p_value(x, y, given) > alpha for given in _candidates(start, x, y, layer)
            ):
                graph[x, y] = graph[y, x] = False
        layers.append(graph.sum() // 2)
    return graph, tuple(layers)


def plain_pc(n, p_value, alpha, largest, grid_bits=20):
    """Skeleton, separating sets of unshielded pairs, and the CPDAG."""
    graph, _ = plain_skeleton(n, p_value, alpha, largest)
    found = {}
    for x, z in combinations(range(n), 2):
        if graph[x, z] or not (graph[x] & graph[z]).any():
            continue
        best, chosen = -1, None
        for layer in range(largest + 1):
            for given in _candidates(graph, x, z, layer):
                p = p_value(x, z, given)
                if p > alpha and math.floor(p * 2**grid_bits) > best:
                    best, chosen = math.floor(p * 2**grid_bits), frozenset(given)
        found[x, z] = (chosen, best)
    return graph, {pair: chosen for pair, (chosen, _) in found.items()}, _oriented(graph, found)


def _oriented(graph, found):
    arcs = graph.copy()
    triples = []
    for (x, z), (chosen, best) in found.items():
        if chosen is not None:
            middle = [y for y in range(len(graph)) if graph[x, y] and graph[z, y]]
            triples += [(-best, y, x, z) for y in middle if y not in chosen]
    for _, y, x, z in sorted(triples):
        if arcs[x, y] and arcs[z, y]:
            arcs[y, x] = arcs[y, z] = False
    while True:
        before = arcs.copy()
        for rule in (_rule1, _rule2, _rule3):
            rule(arcs)
        if (arcs == before).all():
            return arcs


def _candidates(graph, x, y, size):
    """Subsets of x's neighbours, then of y's that are not among them, each in order."""
    of_x = [v for v in range(len(graph)) if graph[x, v] and v != y]
    of_y = [v for v in range(len(graph)) if graph[y, v] and v != x]
    sets = list(combinations(of_x, size))
    return sets + [own for own in combinations(of_y, size) if not set(own) <= set(of_x)]
