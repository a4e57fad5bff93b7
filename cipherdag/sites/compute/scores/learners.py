"""A site learns its best-scoring graph by greedy equivalence search; lower scores are better.

Source: Chickering, JMLR 3 (2002); Hauser and Buehlmann, JMLR 13 (2012), for the turning phase.
"""

import itertools

from cipherdag.graphs.dags import Dag, empty_dag
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
from cipherdag.sites.compute.scores.scores import LocalScores

LEAST_IMPROVEMENT = 1e-9  # a smaller one is rounding


def best_graph(scores: LocalScores) -> Dag:
    """Searches equivalence classes (GES) by insertions, deletions and turns until none improves.

    A score that differs within an equivalence class (spline MDL) makes it a heuristic, which
    terminates because every step lowers the score of the current DAG.
    """
    dag = empty_dag(scores.n_variables)
    idle = 0
    phases = itertools.cycle(PHASES)
    while idle < len(PHASES):
        better = _finished(scores, dag, next(phases))
        idle = idle + 1 if better == dag else 1
        dag = better
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
