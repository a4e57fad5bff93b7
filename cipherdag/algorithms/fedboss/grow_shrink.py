"""Grow-shrink trees: the best parents of a variable among those before it, each step done once.

Parents grow by the candidate that raises the score most, as long as one does, and shrink by the one
without which it rises most. What was computed for one order serves every other one.

Every order search ends with the backward phase of greedy equivalence search, which makes its result
correct in the limit: the best deletion is taken while one gains. With background knowledge it goes
over the classes that have a graph with all that is required and nothing forbidden.

Sources: Andrews, Ramsey, Sanchez Romero, Camchong and Kummerfeld, "Fast scalable and accurate
discovery of DAGs using the best order score search and grow-shrink trees", NeurIPS 2023;
Chickering, JMLR 3 (2002), theorem 17 (deletions).
"""

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cipherdag.arrays import FloatVector
from cipherdag.graphs.dags import Dag, Family, members
from cipherdag.graphs.equivalence import (
    Move,
    Pattern,
    allowed,
    applied,
    families,
    moves,
    pattern_of,
    permitted,
)
from cipherdag.questions.question import Question

Outcome = TypeVar("Outcome")
Waiting = Generator[None, None, Outcome]
"""A search that yields where it can only go on once `GrowShrinkTrees.missing` is learnt."""

NO_GRAPH = 1 << 200
"""Cost of a required parent that comes after its child in the order: more than any score."""


class FamilyScores(Protocol):
    """Scores of families in whole numbers, larger is better, whatever they are computed from."""

    n_variables: int  # number of variables, p
    least: int  # least gain of a step
    bits: int  # scores are in units of 2**-bits nats

    def score(self, v: int, parents: int) -> int | None:
        """The score of a family; None where it has to be asked for, or cannot be."""

    def grown(self, v: int, parents: int) -> Sequence[tuple[int, int]] | None:
        """Scores with one parent more, and the parent; None where some have to be asked for."""

    def learn(self, nodes: Iterable[Family]) -> Generator[Question, FloatVector, None]:
        """Ask for what `grown` and `score` need at these families, and with one parent less."""


@dataclass(frozen=True, slots=True)
class BestGraph:
    """The result of a search."""

    dag: Dag  # the best graph
    curve: tuple[int, ...]  # the best score, on the grid, after every start or phase of the search


@dataclass(frozen=True, slots=True)
class Trace:
    """The parents of a variable, found among some candidates."""

    score: int  # score of the family
    parents: int  # bit mask of the parents
    grown: int  # bit mask of the parents before any was removed
    watched: int  # bit mask of other variables that would change the parents as candidates


@dataclass(slots=True)
class _Node:
    """A set of parents in a tree: which variables, added, raise the score, best first."""

    branches: tuple[int, ...]
    better: int
    shrunk: tuple[int, int] | None = None


class GrowShrinkTrees:
    """The trees of all variables.

    Attributes:
        scores: Scores of families.
        forbidden: For every variable a bit mask of those that may not be its parents; if u is a
            required parent of v, v is forbidden as a parent of u.
        required: For every variable a bit mask of those that have to be its parents.
        missing: Families that traces stopped at since scores are not known.
    """

    def __init__(
        self, scores: FamilyScores, forbidden: Sequence[int], required: Sequence[int]
    ) -> None:
        self.scores = scores
        self.missing: set[Family] = set()
        self.forbidden = forbidden
        self.required = required
        self._nodes: list[dict[int, _Node]] = [{} for _ in range(scores.n_variables)]

    def trace(self, v: int, before: int) -> Trace | None:
        """The parents of v among those before it; None where a score is missing."""
        grown = self.required[v]
        watched = grown & ~before
        if watched:
            return Trace(-NO_GRAPH * watched.bit_count(), grown & before, grown & before, watched)
        while True:
            node = self._nodes[v].get(grown) or self._made(v, grown)
            if node is None:
                return None
            if not node.better & before:
                score, parents = self._shrunk(v, grown, node)
                return Trace(score, parents, grown, watched | node.better)
            for u in node.branches:
                if before >> u & 1:
                    grown |= 1 << u
                    break
                watched |= 1 << u

    def score(self, v: int, parents: int) -> int:
        """The score of a family; -`NO_GRAPH`, which rules it out, if it has none."""
        value = self.scores.score(v, parents)
        return -NO_GRAPH if value is None else value

    def total(self, dag: Dag) -> int:
        """The score of a graph, which is less than any other's where required edges are missing."""
        without = sum((parents & ~dag[v]).bit_count() for v, parents in enumerate(self.required))
        return sum(self.score(*family) for family in enumerate(dag)) - NO_GRAPH * without

    def permitted(self, dag: Dag) -> Dag | None:
        """The graph or an equivalent one with all required and no forbidden edges, if there is."""
        return permitted(dag, self.forbidden, self.required)

    def grown(self, v: int, parents: int) -> dict[int, int] | None:
        """Scores with one parent more, by that parent; None where some are missing, noted."""
        scores = self.scores.grown(v, parents)
        if scores is None:
            self.missing.add((v, parents))
            return None
        return {u: score for score, u in scores}

    def miss(self, families: Iterable[Family]) -> bool:
        """Add the families whose scores are not known to `missing`; whether there are any."""
        unknown = {family for family in families if self.scores.score(*family) is None}
        self.missing |= unknown
        return bool(unknown)

    def learn(self) -> Generator[Question, FloatVector, None]:
        """Ask for what traces missed."""
        missing, self.missing = sorted(self.missing), set()
        yield from self.scores.learn(missing)

    def _made(self, v: int, parents: int) -> _Node | None:
        grown = self.grown(v, parents)
        if grown is None:
            return None
        least = self.score(v, parents) + self.scores.least
        free = ~self.forbidden[v]
        better = [(-score, u) for u, score in grown.items() if score >= least and free >> u & 1]
        branches = tuple(u for _, u in sorted(better))
        node = _Node(branches, sum(1 << u for u in branches))
        self._nodes[v][parents] = node
        return node

    def _shrunk(self, v: int, parents: int, node: _Node) -> tuple[int, int]:
        if node.shrunk is None:
            node.shrunk = self._without(v, self.score(v, parents), parents)
        return node.shrunk

    def _without(self, v: int, score: int, parents: int) -> tuple[int, int]:
        """The score and parents of a family after removing parents as long as that gains."""
        while True:
            best, best_left = score + self.scores.least - 1, 0
            improved = False
            for u in members(parents & ~self.required[v]):
                left = parents & ~(1 << u)
                less = self.scores.score(v, left)
                if less is not None and less > best:
                    best, best_left, improved = less, left, True
            if not improved:
                return score, parents
            score, parents = best, best_left


def search_jointly(
    trees: GrowShrinkTrees, searches: Sequence[Waiting[Outcome]]
) -> Generator[Question, FloatVector, list[Outcome]]:
    """The outcomes of some searches over the same trees, in their order."""
    outcomes: dict[int, Outcome] = {}
    while len(outcomes) < len(searches):
        for number, search in enumerate(searches):
            if number in outcomes:
                continue
            try:
                next(search)
            except StopIteration as finished:
                outcomes[number] = finished.value
        if trees.missing:
            yield from trees.learn()
    return [outcomes[number] for number in range(len(searches))]


def edge_worths(dag: Dag, scores: FamilyScores) -> tuple[tuple[int, int, float], ...]:
    """Of every edge (cause, effect, nats) how much the score falls without it alone."""
    worths = []
    for v, parents in enumerate(dag):
        score = scores.score(v, parents)
        for u in members(parents):
            less = scores.score(v, parents & ~(1 << u))
            if score is not None and less is not None:
                worths.append((u, v, math.ldexp(score - less, -scores.bits)))
    return tuple(worths)


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
