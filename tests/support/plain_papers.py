"""FedPC and FedCMFS once more, in plain loops from their papers: references that share no code.

A test gives p and dependence of (rows, x, y, set), p NaN where it is unreliable.
"""

import math
from itertools import combinations

import hiton_pc
import numpy as np
from plain_pc import _candidates, _oriented


def fedpc(sites, test, alpha=0.01, share=0.3):
    """Skeleton by votes, and the CPDAG where no two colliders contradict each other."""
    n = sites[0].shape[1]
    graph, layer = ~np.eye(n, dtype=bool), 0
    while layer < graph.sum(axis=0).max():
        votes = np.zeros((n, n))
        for rows in sites:
            for x, y in combinations(range(n), 2):
                sets = _candidates(graph, x, y, layer) if graph[x, y] else [()]
                fallen = any(test(rows, x, y, own)[0] > alpha for own in sets)
                votes[x, y] += not fallen
        kept = graph & (votes > share * len(sites))
        graph, layer = kept | kept.T, layer + 1
    found = {}
    for x, z in combinations(range(n), 2):
        if graph[x, z] or not (graph[x] & graph[z]).any():
            continue
        best, chosen = -1.0, None
        for size in range(n - 1):
            for own in _candidates(graph, x, z, size):
                p = np.nanmax([-1.0, *(test(rows, x, z, own)[0] for rows in sites)])
                if p > alpha and p > best:
                    best, chosen = p, frozenset(own)
        found[x, z] = chosen, best
    return graph, {pair: own for pair, (own, _) in found.items()}, _oriented(graph, found)


def fedcmfs(sites, test, labels, *, alpha, k1, k2, largest):
    """The features of every label: FedCFL, FedCFR and FedCFC (Algorithms 1 to 3)."""
    memo = {}

    def weighted(_, x, y, given):
        """Equations 1 and 2 over the sites whose test is reliable."""
        key = min(x, y), max(x, y), tuple(sorted(given))
        if key not in memo:
            done = [(len(rows), *test(rows, *key)) for rows in sites]
            done = [own for own in done if not math.isnan(own[1])]
            total = sum(n for n, _, _ in done)
            memo[key] = (
                tuple(sum(own[0] * own[k] for own in done) / total for k in (1, 2))
                if done
                else (math.nan, math.nan)
            )
        return memo[key]

    def search(target):
        whole = np.zeros((1, sites[0].shape[1]))
        return hiton_pc.parents_and_children(whole, target, weighted, alpha, largest=largest)

    def strongest(label, variables):
        return sorted(variables, key=lambda v: (-round(weighted(None, label, v, ())[1], 8), v))

    learned = {label: search(label) for label in labels}
    features = {}
    for label in labels:
        held = strongest(label, learned[label])
        left = {*range(sites[0].shape[1])} - {*labels, *held}
        pool = [v for v in strongest(label, left) if weighted(None, label, v, ())[0] < alpha]
        pool, returned = pool[: math.ceil(k1 * len(pool) / 100)], set()
        for other in [v for v in held if v in labels]:
            held.remove(other)
            for x in pool:
                for size in range(min(largest - 1, len(held)) + 1):
                    for rest in combinations(held, size):
                        apart = weighted(None, x, label, (other, *rest))[0] > alpha
                        # a test that nobody can do says dependent
                        if apart and not weighted(None, x, label, rest)[0] >= alpha:
                            returned.add(x)
        chosen = strongest(label, ({*learned[label]} - {*labels}) | returned)
        checked = chosen[len(chosen) - math.ceil(k2 * len(chosen) / 100) :]
        features[label] = [v for v in chosen if v not in checked or label in search(v)]
    return features
