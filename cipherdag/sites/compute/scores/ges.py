"""Algorithm A of RFcd at a site: greedy equivalence search on cached scores.

Source: Chickering, JMLR 3 (2002), with the turning phase of Hauser and Buehlmann, JMLR 13 (2012).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from cipherdag.sites.compute.scores.scores import LocalScores

LEAST_IMPROVEMENT = 1e-9  # a smaller one is rounding


def greedy_equivalence_search(scores: LocalScores, start: Dag | None = None) -> Dag:
    """A DAG of the class that GES ends in: insertions, deletions, turns, until none improves.

    A score that differs within an equivalence class (spline MDL) makes it a heuristic; it ends all
    the same, because every step lowers the score of the DAG at hand.

    Args:
        scores: Family scores, smaller is better.
        start: Where the search begins; the empty graph by default.

    Returns:
        The best DAG met.
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
    """The DAG after as many moves of one phase as improve it."""
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
    """The valid insertion or deletion that gains most, and the score of what it leads to."""
    found = list(moves(pattern, phase))
    pairs = [families(pattern, move) for move in found]
    scores.prepare(family for pair in pairs for family in pair)
    gains = [scores.of(old) - scores.of(new) for new, old in pairs]
    for place in sorted(range(len(found)), key=lambda k: -gains[k]):
        if gains[place] <= LEAST_IMPROVEMENT:
            return None
        if not allowed(pattern, found[place]):
            continue
        dag = applied(pattern, found[place])
        if dag is not None and (after := scores.total(dag)) < total - LEAST_IMPROVEMENT:
            return dag, after
    return None


def _best_turn(
    scores: LocalScores, pattern: Pattern, phase: Phase, total: float
) -> tuple[Dag, float] | None:
    """The turn that leads to the best score, and that score."""
    reached = (applied(pattern, move) for move in moves(pattern, phase))
    dags = [dag for dag in dict.fromkeys(reached) if dag is not None]
    scores.prepare(family for dag in dags for family in enumerate(dag))
    best = min(((scores.total(dag), place) for place, dag in enumerate(dags)), default=None)
    if best is None or best[0] >= total - LEAST_IMPROVEMENT:
        return None
    return dags[best[1]], best[0]
