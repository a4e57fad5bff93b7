"""The backward phase of greedy equivalence search: edges that the score is better without go.

Source: Chickering, JMLR 3 (2002), theorem 17; it makes the order search correct in the limit.

Leaks:
    Nothing beyond what the scores open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.graphs.equivalence import applied, families, moves, pattern_of

if TYPE_CHECKING:
    from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees
    from cipherdag.algorithms.fedboss.together import Waiting
    from cipherdag.graphs.dags import Dag


def without_edges(dag: Dag, trees: GrowShrinkTrees) -> Waiting[Dag]:
    """The graph after all deletions that gain, the best one first; waits for missing scores."""
    scores = trees.scores
    while True:
        pattern = pattern_of(dag)
        found = [(move, *families(pattern, move)) for move in moves(pattern, "delete")]
        wanted = {own for _, *pair in found for own in pair}
        if trees.miss(wanted):
            yield
        gains = []
        for number, (_, given, taken) in enumerate(found):
            new, old = scores.score(*given), scores.score(*taken)
            if new is not None and old is not None and new - old >= scores.least:
                gains.append((old - new, number))
        for _, number in sorted(gains):
            better = applied(pattern, found[number][0])
            if better is not None:
                dag = better
                break
        else:
            return dag
