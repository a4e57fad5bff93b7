"""Orders started again from the best one so far, some of its variables moved at random.

What earlier orders needed is known already, so that a restart asks for little.

Leaks:
    Nothing beyond what the scores open.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.algorithms.fedboss.equivalence_search import moved
from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees
from cipherdag.algorithms.fedboss.order_search import OrderSearch
from cipherdag.algorithms.fedboss.outcome import BestGraph
from cipherdag.algorithms.fedboss.together import Waiting, together
from cipherdag.arrays import FloatVector
from cipherdag.graphs.dags import Dag, topological
from cipherdag.questions.question import Question

MOVED = 4
"""One variable in so many is moved, at least two."""
AT_ONCE = 5
"""Searches that start from one graph and share their rounds."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A graph and its score."""

    total: int
    dag: Dag


def best_of_starts(
    trees: GrowShrinkTrees,
    order: Sequence[int],
    restarts: int,
    rng: np.random.Generator,
) -> Generator[Question, FloatVector, BestGraph]:
    """The best graph of a start from an order and some restarts from what was best."""
    (best,) = yield from together(trees, [_converged(trees, order)])
    curve = [best.total]
    for start in range(0, restarts, AT_ONCE):
        others = yield from together(
            trees,
            [
                _converged(trees, _shaken(topological(best.dag), rng))
                for _ in range(min(AT_ONCE, restarts - start))
            ],
        )
        for other in others:
            if other.total >= best.total:
                best = other
            curve.append(best.total)
    return BestGraph(best.dag, tuple(curve))


def _converged(trees: GrowShrinkTrees, order: Sequence[int]) -> Waiting[_Found]:
    """Orders and deletions in turn, as long as the one improves what the other found."""
    least = trees.scores.least
    best = None
    while True:
        search = OrderSearch(trees, order)
        yield from search.run(least)
        dag, _ = yield from moved(search.dag, trees, "delete")
        total = trees.total(dag)
        if best is not None and total < best.total + least:
            return best
        best = _Found(total, dag)
        order = topological(dag)


def _shaken(order: Sequence[int], rng: np.random.Generator) -> list[int]:
    """The order with some variables moved to random places."""
    count = min(max(len(order) // MOVED, 2), len(order))
    moved = rng.permutation(len(order))[:count].tolist()
    found = [v for v in order if v not in set(moved)]
    for v in moved:
        found.insert(int(rng.integers(len(found) + 1)), v)
    return found
