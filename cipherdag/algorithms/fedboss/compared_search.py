"""Greedy search over equivalence classes, of which every step is a comparison of closed scores.

From a graph that tests gave, each iteration asks in one round which insertions, deletions and
reversals of an edge raise the score. A second round asks which of those that share a variable gain
most. They are then applied, best first; one whose families an earlier one changed is skipped, as
its gain was computed for the old families.

Sources: Chickering, JMLR 3 (2002), theorems 15 and 17; Hauser and Buehlmann, JMLR 13 (2012), for
the turns.
"""

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
"""Up to this many gaining moves, all that share a variable are compared; else one per edge."""


@dataclass(frozen=True, slots=True)
class ClassSearch:
    """A search for the class of graphs whose score no single move raises."""

    scores: ComparedScores  # compares changes
    # for every variable a bit mask of those that depend on it pairwise. A parent is added only if
    # it depends on the variable or on one of its parents.
    near: Sequence[int]
    max_cells: int  # largest table of a family
    max_parents: int  # most parents of a variable
    # the graph, or an equivalent one that background knowledge allows; None if there is none
    permitted: Callable[[Dag], Dag | None]

    def best(self, dag: Dag) -> Generator[Question, FloatVector, Dag]:
        """The graph that the search ends with, from one that background knowledge allows.

        It takes two rounds an iteration, and one for the last. Sites that answer the same set with
        different numbers can make moves gain in a circle; the search then ends where it comes back
        to a graph.
        """
        passed: set[Dag] = set()
        while dag not in passed:
            passed.add(dag)
            pattern = pattern_of(dag)
            candidates = self._candidates(dag, pattern)
            gains = yield from self.scores.gaining(candidates)
            legal = {
                change: [move for move in candidates[change] if self._after(pattern, move)]
                for change in gains
            }
            ends = {change: _endpoints(possible) for change, possible in legal.items() if possible}
            if not ends:
                return dag
            if len(ends) > MOST_RANKED:
                ends = yield from self._largest_of_edges(ends, gains)
            pairs = [two for two in combinations(ends, 2) if ends[two[0]] & ends[two[1]]]
            larger = yield from self.scores.larger(
                [(gains[second], gains[first]) for first, second in pairs]
            )
            larger_rivals: dict[Change, set[Change]] = {change: set() for change in ends}
            for (first, second), second_is_larger in zip(pairs, larger, strict=True):
                if second_is_larger:
                    larger_rivals[first].add(second)
                else:
                    larger_rivals[second].add(first)
            for change in _best_first(larger_rivals):
                dag = self._with_change(dag, change, legal[change])
        return dag

    def within_bounds(self, dag: Dag, required: Dag) -> Dag:
        """The graph without parents that are too many, or whose table is too large.

        A variable loses the parents with most categories first; required parents stay.
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
        """For every edge the change that gains most, by a knock-out: each round halves them."""
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
        """The candidate moves from a graph, by the change of families that they make."""
        candidates: dict[Change, list[Move]] = {}
        for phase in PHASES:
            for move in moves(pattern, phase):
                change = _change(dag, pattern, move)
                if change is not None and self._is_candidate(move, change):
                    candidates.setdefault(change, []).append(move)
        return candidates

    def _is_candidate(self, move: Move, change: Change) -> bool:
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

    def _with_change(self, dag: Dag, change: Change, possible: Sequence[Move]) -> Dag:
        """The graph after the first of ``possible`` that still makes ``change``; else ``dag``."""
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


def _endpoints(possible: Sequence[Move]) -> frozenset[int]:
    return frozenset(v for move in possible for v in (move.x, move.y))


def _best_first(larger_rivals: dict[Change, set[Change]]) -> list[Change]:
    """An order in which each change comes after all that gain more.

    Comparisons of sums form no cycle. Where the budget ended before all were made they may: then
    the first change left is taken.
    """
    left, order = dict(larger_rivals), []
    while left:
        best = [change for change, larger in left.items() if not larger & left.keys()]
        for change in best or [next(iter(left))]:
            del left[change]
            order.append(change)
    return order


def start_of(arcs: BoolMatrix, permitted: Callable[[Dag], Dag | None], otherwise: Dag) -> Dag:
    """A DAG of the class that tests gave, or else one with the same edges and most of its arrows.

    ``arcs`` are the class, shape (p, p): True where i -> j or i - j. Where knowledge allows
    neither, the start is ``otherwise``.
    """
    dag = extension(dag_of(arcs & ~arcs.T), dag_of(arcs & arcs.T))
    for start in (dag, _ordered(arcs)):
        allowed_start = None if start is None else permitted(start)
        if allowed_start is not None:
            return allowed_start
    return otherwise


def _ordered(arcs: BoolMatrix) -> Dag:
    """A DAG with all edges of a class, in an order that keeps many of its arrows.

    The order is built from its end: next comes a variable with the fewest arrows to those left.
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
