"""Greedy search over equivalence classes, of which every step is a comparison of closed scores.

From a graph that tests gave, each iteration asks in one round which insertions, deletions and turns
of an edge gain, and in a second which of those at a common variable gain most. The best at each
place are made side by side, each as long as the families that it changes are what they were: then
it gains what it was asked about.

Sources: Chickering, JMLR 3 (2002), theorems 15 and 17; Hauser and Buehlmann, JMLR 13 (2012), for
the turns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cipherdag.algorithms.fedboss.compared_scores import Change, ComparedScores, Gain
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.graphs.dags import Dag, dag_of, members
from cipherdag.graphs.equivalence import (
    PHASES,
    Move,
    Pattern,
    allowed,
    applied,
    changed_families,
    extension,
    families,
    moves,
    moves_into,
    pattern_of,
)
from cipherdag.questions.question import Question

MOST_RANKED = 200
"""Moves that gain of which those at a common variable are all compared; of more, one an edge."""


@dataclass(frozen=True, slots=True)
class ClassSearch:
    """A search for the class of graphs whose score no single move raises.

    Attributes:
        scores: Compares changes.
        near: Bit masks of what depends on every variable, pair by pair: a parent that is added
            depends on the variable or on one of its parents.
        max_cells: Largest table of a family.
        max_parents: Most parents of a variable.
        permitted: The graph, or an equivalent one that background knowledge allows; None if there
            is none.
    """

    scores: ComparedScores
    near: Sequence[int]
    max_cells: int
    max_parents: int
    permitted: Callable[[Dag], Dag | None]

    def best(self, dag: Dag) -> Generator[Question, FloatVector, Dag]:
        """The graph that the search ends with; two rounds an iteration, and one for the last.

        Args:
            dag: Where to start, a graph that background knowledge allows.

        Sites that answer the same set with different numbers can make moves gain in a circle; the
        search then ends where it comes back to a graph.
        """
        passed: set[Dag] = set()
        while dag not in passed:
            passed.add(dag)
            pattern = pattern_of(dag)
            candidates = self._candidates(dag, pattern)
            gains = yield from self.scores.gaining(candidates)
            reached = {
                change: [move for move in candidates[change] if self._after(pattern, move)]
                for change in gains
            }
            ends = {change: _ends(possible) for change, possible in reached.items() if possible}
            if not ends:
                return dag
            if len(ends) > MOST_RANKED:
                ends = yield from self._largest_of_edges(ends, gains)
            pairs = [two for two in combinations(ends, 2) if ends[two[0]] & ends[two[1]]]
            larger = yield from self.scores.larger(
                [(gains[second], gains[first]) for first, second in pairs]
            )
            beaten: dict[Change, set[Change]] = {change: set() for change in ends}
            for (first, second), second_is_larger in zip(pairs, larger, strict=True):
                if second_is_larger:
                    beaten[first].add(second)
                else:
                    beaten[second].add(first)
            for change in _best_first(beaten):
                dag = self._made(dag, change, reached[change])
        return dag

    def within_bounds(self, dag: Dag, required: Dag) -> Dag:
        """The graph without parents that are too many, or whose table is too large.

        Of a variable those of most categories go first; required ones stay.
        """
        bounded = []
        for v, parents in enumerate(dag):
            left, spare = parents, [*members(parents & ~required[v])]
            spare.sort(key=lambda u: (self.scores.penalty.cells(1 << u), u))
            while spare and not self._scored(v, left):
                left &= ~(1 << spare.pop())
            bounded.append(left)
        return tuple(bounded)

    def _largest_of_edges(
        self, ends: dict[Change, frozenset[int]], gains: Mapping[Change, Gain]
    ) -> Generator[Question, FloatVector, dict[Change, frozenset[int]]]:
        """The change of every edge that gains most, by a knock-out in rounds that halve them."""
        left: dict[frozenset[int], list[Change]] = {}
        for change, edge in ends.items():
            left.setdefault(edge, []).append(change)
        while any(len(changes) > 1 for changes in left.values()):
            matches = [
                match
                for changes in left.values()
                for match in zip(changes[::2], changes[1::2], strict=False)
            ]
            larger = yield from self.scores.larger(
                [(gains[second], gains[first]) for first, second in matches]
            )
            lost = {
                first if second_is_larger else second
                for (first, second), second_is_larger in zip(matches, larger, strict=True)
            }
            left = {
                edge: [change for change in changes if change not in lost]
                for edge, changes in left.items()
            }
        return {change: edge for edge, changes in left.items() for change in changes}

    def _candidates(self, dag: Dag, pattern: Pattern) -> dict[Change, list[Move]]:
        """The moves from a graph by the change of families that they make."""
        candidates: dict[Change, list[Move]] = {}
        for phase in PHASES:
            for move in moves(pattern, phase):
                change = _change(dag, pattern, move)
                if change is not None and self._looked_at(move, change):
                    candidates.setdefault(change, []).append(move)
        return candidates

    def _looked_at(self, move: Move, change: Change) -> bool:
        if move.phase == "delete":
            return True
        if not all(self._scored(*family) for family in change.new):
            return False
        if move.phase == "turn":
            return True
        ((v, parents),) = change.old
        dependent = self.near[v]
        for u in members(parents):
            dependent |= self.near[u]
        return bool(dependent >> move.x & 1)

    def _scored(self, v: int, parents: int) -> bool:
        cells = self.scores.penalty.cells(parents | 1 << v)
        return cells <= self.max_cells and parents.bit_count() <= self.max_parents

    def _made(self, dag: Dag, change: Change, possible: Sequence[Move]) -> Dag:
        """The graph after the first of some moves that still makes that change, if one does."""
        pattern = pattern_of(dag)
        for move in possible:
            if (
                move in moves_into(pattern, move.phase, move.y)
                and _change(dag, pattern, move) == change
            ):
                after = self._after(pattern, move)
                if after is not None:
                    return after
        return dag

    def _after(self, pattern: Pattern, move: Move) -> Dag | None:
        """The graph after a move; None where that is not possible or not allowed."""
        after = applied(pattern, move) if allowed(pattern, move) else None
        return None if after is None else self.permitted(after)


def _change(dag: Dag, pattern: Pattern, move: Move) -> Change | None:
    """The families that a move replaces; None where it leads to no graph."""
    if move.phase != "turn":
        new, old = families(pattern, move)
        return Change((new,), (old,))
    after = applied(pattern, move)
    if after is None:
        return None
    changed = changed_families(dag, after)
    return Change(tuple(new for _, new in changed), tuple(old for old, _ in changed))


def _ends(possible: Sequence[Move]) -> frozenset[int]:
    return frozenset(v for move in possible for v in (move.x, move.y))


def _best_first(beaten: dict[Change, set[Change]]) -> list[Change]:
    """An order in which each comes after all that are larger than it.

    Comparisons of sums have no circle; where a budget ended before all were made, the first is
    taken.
    """
    left, order = dict(beaten), []
    while left:
        best = [change for change, larger in left.items() if not larger & left.keys()]
        for change in best or [next(iter(left))]:
            del left[change]
            order.append(change)
    return order


def start_of(arcs: BoolMatrix, permitted: Callable[[Dag], Dag | None], otherwise: Dag) -> Dag:
    """A graph of the class that tests gave, or one with its edges that is near to it.

    Args:
        arcs: The class, shape (p, p): True where i -> j or i - j.
        permitted: As in `ClassSearch`.
        otherwise: The start where knowledge allows neither.
    """
    dag = extension(dag_of(arcs & ~arcs.T), dag_of(arcs & arcs.T))
    for start in (dag, _ordered(arcs)):
        allowed_start = None if start is None else permitted(start)
        if allowed_start is not None:
            return allowed_start
    return otherwise


def _ordered(arcs: BoolMatrix) -> Dag:
    """A graph with all edges of a class, from earlier to later in an order that keeps most arrows.

    From the last to the first, each is one of those with the fewest arrows to what is left.
    """
    directed, adjacent = arcs & ~arcs.T, arcs | arcs.T
    left = np.ones(len(arcs), dtype=np.bool_)
    before = np.zeros_like(arcs)
    while left.any():
        arrows, edges = directed[:, left].sum(axis=1), adjacent[:, left].sum(axis=1)
        last = min(np.flatnonzero(left).tolist(), key=lambda v: (arrows[v], edges[v], v))
        left[last] = False
        before[left, last] = True
    return dag_of(adjacent & before)
