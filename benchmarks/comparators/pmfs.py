"""PMFS: features by Pareto fronts of relevance and redundancy, ranked by fronts and crowding.

Source: Hashemi, Dowlatshahi, Nezamabadi-pour, "An efficient Pareto-based feature selection
algorithm for multi-label classification", Information Sciences 581 (2021) 428-447. Its text was not
at hand beyond the abstract: the two objectives, the ridge's lambda and the rank are those of the
authors' published program (amin1373/PMFS-An-efficient-Pareto-based-algorithm-for-multi-label-
feature-selection-2021, commit 6c16be0); crowding is NSGA-II's (Deb et al. 2002).
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from scipy.spatial.distance import cdist

RIDGE = 10.0


def rank(features: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Columns, the best first; ``rng`` is not used.

    Args:
        features: Shape (n, d).
        labels: 0/1, shape (n, q).
        rng: Source of randomness of comparators that need one.
    """
    del rng
    both = objectives(features, labels)
    front = fronts(both)
    return np.argsort(front + 1.0 / (1.0 + crowding(both, front)), kind="stable")


def objectives(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What is to be small, shape (d, 2).

    First how far a feature's largest coefficient is from the largest of all, then minus the
    distances of its coefficients from every other feature's.
    """
    gram = features.T @ features + RIDGE * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, features.T @ labels)
    return np.column_stack(
        [weights.max() - weights.max(axis=1), -cdist(weights, weights).sum(axis=1)]
    )


def fronts(points: np.ndarray) -> np.ndarray:
    """Number of every point's non-dominated front from 1, shape (d,); equal points share theirs."""
    unique, back = np.unique(points, axis=0, return_inverse=True)  # by the first objective
    found = np.zeros(len(unique), dtype=np.int64)
    lowest: list[float] = []  # the least second objective of every front, ascending
    for at, second in enumerate(unique[:, 1].tolist()):
        number = bisect_right(lowest, second)  # the first that holds nobody who dominates
        if number == len(lowest):
            lowest.append(second)
        else:
            lowest[number] = second
        found[at] = number + 1
    return found[back.ravel()]


def crowding(points: np.ndarray, front: np.ndarray) -> np.ndarray:
    """NSGA-II's crowding distance of every point within its front; infinite at the ends."""
    found = np.zeros(len(points))
    for number in np.unique(front):
        own = np.flatnonzero(front == number)
        for values in points[own].T:
            order = np.argsort(values, kind="stable")
            found[own[order[[0, -1]]]] = np.inf
            span = values[order[-1]] - values[order[0]]
            if span > 0.0:
                gaps = values[order[2:]] - values[order[:-2]]
                found[own[order[1:-1]]] += gaps / span
    return found
