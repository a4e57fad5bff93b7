"""Greedy equivalence search: the best move between Markov equivalence classes, while one gains.

Its deletions also follow every order search, which makes that correct in the limit. With background
knowledge the search goes over the classes that have a graph with all that is required and nothing
forbidden; such a graph stands for its class.

Sources: Chickering, JMLR 3 (2002), theorems 15 and 17; Hauser and Buehlmann, JMLR 13 (2012), for
the turns.
"""

from __future__ import annotations

from cipherdag.algorithms.fedboss.grow_shrink import BestGraph, GrowShrinkTrees, Waiting
from cipherdag.graphs.dags import Dag
from cipherdag.graphs.equivalence import (
    PHASES,
    Move,
    Pattern,
    Phase,
    allowed,
    applied,
    changed_families,
    families,
    moves,
    moves_into,
    pattern_of,
    surroundings,
)

Gain = tuple[int, Move]
Gains = Waiting[list[Gain]]


def greedy(dag: Dag, trees: GrowShrinkTrees) -> Waiting[BestGraph]:
    """From one graph by insertions, deletions and turns in turn, until none of them gains."""
    if trees.miss(enumerate(dag)):
        yield
    curve, idle = [trees.total(dag)], 0
    while idle < len(PHASES):
        phase = PHASES[(len(curve) - 1) % len(PHASES)]
        dag, gain = yield from after_phase(dag, trees, phase)
        idle = 0 if gain else idle + 1
        curve.append(curve[-1] + gain)
    return BestGraph(dag, tuple(curve))


def after_phase(dag: Dag, trees: GrowShrinkTrees, phase: Phase) -> Waiting[tuple[Dag, int]]:
    """The graph after all moves of a phase that gain, the best one first, and what all gained."""
    total = 0
    gains_into: dict[tuple[int, ...], list[Gain]] = {}
    while True:
        pattern = pattern_of(dag)
        if phase == "insert":
            gains = yield from _insertions(pattern, trees, gains_into)
        elif phase == "delete":
            gains = yield from _deletions(pattern, trees)
        else:
            gains = yield from _turns(pattern, dag, trees)
        # of equal gains the first move
        for gain, move in sorted(gains, key=lambda item: -item[0]):
            if gain < trees.scores.least or not allowed(pattern, move):
                continue
            reached = applied(pattern, move)
            better = None if reached is None else trees.permitted(reached)
            if better is not None:
                dag, total = better, total + gain
                break
        else:
            return dag, total


def _insertions(
    pattern: Pattern, trees: GrowShrinkTrees, gains_into: dict[tuple[int, ...], list[Gain]]
) -> Gains:
    """What one parent more gains, of those that the scores take for candidates.

    A step changes few surroundings; ``gains_into`` has the gains by all that were met before.
    """
    around = [surroundings(pattern, y) for y in range(len(pattern))]
    candidates = [
        (move, families(pattern, move)[1])
        for y, key in enumerate(around)
        if key not in gains_into
        for move in moves_into(pattern, "insert", y)
    ]
    nodes = {node for _, node in candidates}
    grown = {node: trees.grown(*node) for node in nodes}
    if None in grown.values():
        yield
        grown = {node: trees.grown(*node) for node in nodes}
    gains_into |= {key: [] for key in around if key not in gains_into}
    for move, node in candidates:
        with_x, without = (grown[node] or {}).get(move.x), trees.scores.score(*node)
        if with_x is not None and without is not None and with_x - without >= trees.scores.least:
            gains_into[around[move.y]].append((with_x - without, move))
    return [gain for key in around for gain in gains_into[key]]


def _deletions(pattern: Pattern, trees: GrowShrinkTrees) -> Gains:
    """What one parent less gains."""
    candidates = [(move, *families(pattern, move)) for move in moves(pattern, "delete")]
    if trees.miss({family for _, *pair in candidates for family in pair}):
        yield
    gains = []
    for move, given, taken in candidates:
        new, old = trees.scores.score(*given), trees.scores.score(*taken)
        if new is not None and old is not None:
            gains.append((new - old, move))
    return gains


def _turns(pattern: Pattern, dag: Dag, trees: GrowShrinkTrees) -> Gains:
    """What a turned edge gains, by the families of the graph that it leads to."""
    reached = [(move, applied(pattern, move)) for move in moves(pattern, "turn")]
    candidates = [
        (move, changed_families(dag, other)) for move, other in reached if other is not None
    ]
    if trees.miss({family for _, changed in candidates for pair in changed for family in pair}):
        yield
    gains = []
    for move, changed in candidates:
        scores = [(trees.scores.score(*old), trees.scores.score(*new)) for old, new in changed]
        differences = [new - old for old, new in scores if old is not None and new is not None]
        if len(differences) == len(scores):
            gains.append((sum(differences), move))
    return gains
