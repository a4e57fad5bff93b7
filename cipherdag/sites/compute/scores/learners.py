"""The site's own best graph by any of RFcd's local algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cipherdag.errors import ParameterError
from cipherdag.graphs.dags import Dag, ancestors, empty_dag, extensions, members, submasks
from cipherdag.questions.regrets import Learner
from cipherdag.sites.compute.scores.ges import LEAST_IMPROVEMENT, greedy_equivalence_search

if TYPE_CHECKING:
    from cipherdag.sites.compute.scores.scores import LocalScores

MAX_EXACT_VARIABLES = 10


def best_graph(scores: LocalScores, learner: Learner) -> Dag:
    """The graph that the named algorithm finds.

    Raises:
        ParameterError: ``exact`` for more than 10 variables.
    """
    if learner == "exact":
        return exact_search(scores)
    if learner == "hill-climbing":
        return hill_climbing(scores)
    return greedy_equivalence_search(scores)


def hill_climbing(scores: LocalScores) -> Dag:
    """A local optimum over DAGs: the best added, removed or reversed edge until none improves."""
    dag = empty_dag(scores.n_variables)
    total = scores.total(dag)
    while True:
        near = list(_neighbours(dag))
        scores.prepare(family for other in near for family in enumerate(other))
        # min takes the first of equals, and the order of the neighbours is fixed
        best = min(near, key=scores.total, default=dag)
        after = scores.total(best)
        if after >= total - LEAST_IMPROVEMENT:
            return dag
        dag, total = best, after


def exact_search(scores: LocalScores) -> Dag:
    """The best DAG of all, by dynamic programming over sinks (Silander and Myllymaki, UAI 2006).

    Raises:
        ParameterError: More than 10 variables.
    """
    p = scores.n_variables
    if p > MAX_EXACT_VARIABLES:
        raise ParameterError(
            f"the exact search takes at most {MAX_EXACT_VARIABLES} variables, not {p}",
            remedy='Choose learner="ges" or "hill-climbing".',
        )
    everything = (1 << p) - 1
    scores.prepare((v, own) for v in range(p) for own in submasks(everything & ~(1 << v)))
    best = [_best_parents(scores, v, everything & ~(1 << v)) for v in range(p)]
    total = [0.0] * (everything + 1)
    sink = [0] * (everything + 1)
    for subset in range(1, everything + 1):
        total[subset], sink[subset] = min(
            (total[subset ^ 1 << v] + best[v][subset ^ 1 << v][0], v) for v in members(subset)
        )
    dag = [0] * p
    left = everything
    while left:
        v = sink[left]
        left ^= 1 << v
        dag[v] = best[v][left][1]
    return tuple(dag)


def _best_parents(scores: LocalScores, v: int, others: int) -> dict[int, tuple[float, int]]:
    """Score and mask of the best parents of v among every set of candidates."""
    best: dict[int, tuple[float, int]] = {}
    for pool in submasks(others):
        own = (scores.of((v, pool)), pool)
        # on a tie the smaller set, which stands in a smaller pool
        within = [best[pool ^ 1 << u] for u in members(pool)]
        best[pool] = min([*within, own], key=lambda entry: (entry[0], entry[1].bit_count()))
    return best


def _neighbours(dag: Dag) -> Iterator[Dag]:
    """Every DAG that one edge more, one less, or one turned round makes of it."""
    yield from extensions(dag)
    for v, parents in enumerate(dag):
        for u in members(parents):
            without = (*dag[:v], parents ^ 1 << u, *dag[v + 1 :])
            yield without
            if not ancestors(without)[v] >> u & 1:
                yield (*without[:u], without[u] | 1 << v, *without[u + 1 :])
