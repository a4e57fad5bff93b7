"""A site learns its best-scoring graph by exact search, hill climbing, or GES.

Lower scores are better.

Source of GES: Chickering, JMLR 3 (2002), with the turning phase of Hauser and Buehlmann, JMLR 13
(2012).
"""

from __future__ import annotations

from collections.abc import Iterator

from cipherdag.errors import ParameterError
from cipherdag.graphs.dags import Dag, ancestors, empty_dag, extensions, members, submasks
from cipherdag.graphs.equivalence import (
    PHASES,
    Pattern,
    Phase,
    allowed,
    applied,
    families,
    moves,
    pattern_of,
)
from cipherdag.questions.regrets import Learner
from cipherdag.sites.compute.scores.scores import LocalScores

MAX_EXACT_VARIABLES = 10
LEAST_IMPROVEMENT = 1e-9  # a smaller one is rounding


def best_graph(scores: LocalScores, learner: Learner) -> Dag:
    """Learns a graph by the named algorithm; raises as `exact_search`."""
    if learner == "exact":
        return exact_search(scores)
    if learner == "hill-climbing":
        return hill_climbing(scores)
    return greedy_equivalence_search(scores)


def hill_climbing(scores: LocalScores) -> Dag:
    """Searches DAGs by adding, removing or reversing the best edge until none improves."""
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
    """Finds an optimal DAG by dynamic programming over sinks (Silander and Myllymaki, UAI 2006).

    Raises:
        ParameterError: More than 10 variables.
    """
    p = scores.n_variables
    if p > MAX_EXACT_VARIABLES:
        raise ParameterError(
            f"the exact search takes at most {MAX_EXACT_VARIABLES} variables, not {p}"
        )
    everything = (1 << p) - 1
    scores.prepare((v, parents) for v in range(p) for parents in submasks(everything & ~(1 << v)))
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
    """Finds the best parents of v within every set of candidates: their score and mask."""
    best: dict[int, tuple[float, int]] = {}
    for pool in submasks(others):
        candidate = (scores.of((v, pool)), pool)
        # on a tie the smaller set, which a smaller pool has
        within = [best[pool ^ 1 << u] for u in members(pool)]
        best[pool] = min([*within, candidate], key=lambda entry: (entry[0], entry[1].bit_count()))
    return best


def _neighbours(dag: Dag) -> Iterator[Dag]:
    """Yields every DAG that differs by one added, removed or reversed edge."""
    yield from extensions(dag)
    for v, parents in enumerate(dag):
        for u in members(parents):
            without = (*dag[:v], parents ^ 1 << u, *dag[v + 1 :])
            yield without
            if not ancestors(without)[v] >> u & 1:
                yield (*without[:u], without[u] | 1 << v, *without[u + 1 :])


def greedy_equivalence_search(scores: LocalScores, start: Dag | None = None) -> Dag:
    """Searches equivalence classes (GES) by insertions, deletions and turns until none improves.

    A score that differs within an equivalence class (spline MDL) makes it a heuristic, which
    terminates because every step lowers the score of the current DAG.
    """
    dag = start or empty_dag(scores.n_variables)
    idle = 0
    while idle < len(PHASES):
        for phase in PHASES:
            better = _finished(scores, dag, phase)
            idle = idle + 1 if better == dag else 1
            dag = better
            if idle >= len(PHASES):
                break
    return dag


def _finished(scores: LocalScores, dag: Dag, phase: Phase) -> Dag:
    """Applies the operators of one phase for as long as they improve the score."""
    total = scores.total(dag)
    while True:
        pattern = pattern_of(dag)
        step = _best_turn if phase == "turn" else _best_change
        better = step(scores, pattern, phase, total)
        if better is None:
            return dag
        dag, total = better


def _best_change(
    scores: LocalScores, pattern: Pattern, phase: Phase, total: float
) -> tuple[Dag, float] | None:
    """Finds the best valid insertion or deletion: the DAG that it leads to, and its score."""
    operators = list(moves(pattern, phase))
    pairs = [families(pattern, move) for move in operators]
    scores.prepare(family for pair in pairs for family in pair)
    gains = [scores.of(old) - scores.of(new) for new, old in pairs]
    for candidate in sorted(range(len(operators)), key=lambda k: -gains[k]):
        if gains[candidate] <= LEAST_IMPROVEMENT:
            return None
        if not allowed(pattern, operators[candidate]):
            continue
        dag = applied(pattern, operators[candidate])
        if dag is not None and (after := scores.total(dag)) < total - LEAST_IMPROVEMENT:
            return dag, after
    return None


def _best_turn(
    scores: LocalScores, pattern: Pattern, phase: Phase, total: float
) -> tuple[Dag, float] | None:
    """Finds the best turn: the DAG that it leads to, and its score."""
    reached = (applied(pattern, move) for move in moves(pattern, phase))
    dags = [dag for dag in dict.fromkeys(reached) if dag is not None]
    scores.prepare(family for dag in dags for family in enumerate(dag))
    best = min(((scores.total(dag), index) for index, dag in enumerate(dags)), default=None)
    if best is None or best[0] >= total - LEAST_IMPROVEMENT:
        return None
    return dags[best[1]], best[0]
