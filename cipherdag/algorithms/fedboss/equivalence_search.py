"""The backward phase of greedy equivalence search: the best deletion is taken while one gains.

It follows every order search, whose result it makes correct in the limit. With background knowledge
the search goes over the classes that have a graph with all that is required and nothing forbidden;
such a graph stands for its class.

Source: Chickering, JMLR 3 (2002), theorem 17.
"""

from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees, Waiting
from cipherdag.graphs.dags import Dag
from cipherdag.graphs.equivalence import (
    Move,
    Pattern,
    allowed,
    applied,
    families,
    moves,
    pattern_of,
)


def after_deletions(dag: Dag, trees: GrowShrinkTrees) -> Waiting[Dag]:
    """The graph after all deletions that gain, the best one first."""
    while True:
        pattern = pattern_of(dag)
        gains = yield from _deletions(pattern, trees)
        # of equal gains the first move
        for gain, move in sorted(gains, key=lambda item: -item[0]):
            if gain < trees.scores.least or not allowed(pattern, move):
                continue
            reached = applied(pattern, move)
            better = None if reached is None else trees.permitted(reached)
            if better is not None:
                dag = better
                break
        else:
            return dag


def _deletions(pattern: Pattern, trees: GrowShrinkTrees) -> Waiting[list[tuple[int, Move]]]:
    """The gain of every deletion, with its move."""
    candidates = [(move, *families(pattern, move)) for move in moves(pattern, "delete")]
    if trees.miss({family for _, *pair in candidates for family in pair}):
        yield
    gains = []
    for move, after, before in candidates:
        new, old = trees.scores.score(*after), trees.scores.score(*before)
        if new is not None and old is not None:
            gains.append((new - old, move))
    return gains
