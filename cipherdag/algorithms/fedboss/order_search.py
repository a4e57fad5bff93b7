"""Best order score search: each variable in turn goes to where all parents together score best.

The search restarts from the best order so far with some variables at random positions. Scores that
earlier orders needed are known already, so a restart asks for few.

Source: Andrews et al., NeurIPS 2023, algorithms 1 and 2; see `grow_shrink`.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.algorithms.fedboss.grow_shrink import (
    BestGraph,
    GrowShrinkTrees,
    Trace,
    Waiting,
    after_deletions,
    search_jointly,
)
from cipherdag.arrays import FloatVector
from cipherdag.graphs.dags import Dag, topological
from cipherdag.questions.question import Question

PERTURBED = 4  # one variable in four gets a random position at a restart, but at least two do
AT_ONCE = 5  # searches that start from one graph and share their rounds


@dataclass(frozen=True, slots=True)
class _Move:
    """A variable's best position: the gain, its new parents, and whose parents else change."""

    gain: int
    position: int
    trace: Trace
    changed: tuple[tuple[int, Trace], ...]


class OrderSearch:
    """An order of the variables and everyone's best parents among those before."""

    def __init__(self, trees: GrowShrinkTrees, order: Sequence[int]) -> None:
        self._trees = trees
        self._order = list(order)
        self._traces: list[Trace] = []

    @property
    def dag(self) -> Dag:
        """The graph: everyone's parents."""
        return tuple(trace.parents for trace in self._traces)

    def run(self, least: int) -> Waiting[None]:
        """Move variables until no move gains ``least``; waits where scores are missing."""
        yield from self._start()
        better = True
        while better:
            better = False
            for v in tuple(self._order):
                move = self._best_move(v)
                while move is None:
                    self._look_ahead()
                    yield
                    move = self._best_move(v)
                if move.gain >= least:
                    self._apply(v, move)
                    better = True

    def _start(self) -> Waiting[None]:
        while True:
            before, traces = 0, {}
            for v in self._order:
                traces[v] = self._trees.trace(v, before)
                before |= 1 << v
            self._traces = [trace for _, trace in sorted(traces.items()) if trace is not None]
            if len(self._traces) == len(self._order):
                return
            yield

    def _look_ahead(self) -> None:
        """Request all scores that any move from here may need, so that one round learns them."""
        for v in self._order:
            self._best_move(v)

    def _best_move(self, v: int) -> _Move | None:
        """The best position of v; None where scores are missing."""
        here = self._order.index(v)
        others = self._order[:here] + self._order[here + 1 :]
        at = self._alone(v, others)
        changes = self._changes(v, here, others)
        if at is None or changes is None:
            return None
        # from the last position towards the first, all that v passes may have it as a parent
        total = at[-1].score
        best, position, now = total, len(others), total
        behind = 0
        for j in range(len(others) - 1, -1, -1):
            change = changes[j]
            if change is not None:
                behind += change[1]
            total = at[j].score + behind
            if j == here:
                now = total
            if total > best:
                best, position = total, j
        if best <= now:
            return _Move(0, here, at[here], ())
        passed = range(min(here, position), max(here, position))
        changed = [(others[j], change[0]) for j in passed if (change := changes[j]) is not None]
        return _Move(best - now, position, at[position], tuple(changed))

    def _alone(self, v: int, others: Sequence[int]) -> list[Trace] | None:
        """The parents of v at every position; None where scores are missing."""
        trees, before = self._trees, 0
        trace = trees.trace(v, 0)
        at = [trace]
        for w in others:
            before |= 1 << w
            if trace is None or trace.watched >> w & 1:
                trace = trees.trace(v, before)
            at.append(trace)
        scored = [trace for trace in at if trace is not None]
        return scored if len(scored) == len(at) else None

    def _changes(
        self, v: int, here: int, others: Sequence[int]
    ) -> list[tuple[Trace, int] | None] | None:
        """For each other variable: its parents if v changes sides, and the gain of v before it."""
        trees, before, bit = self._trees, 0, 1 << v
        changes: list[tuple[Trace, int] | None] = []
        whole = True
        for position, w in enumerate(others):
            now, change = self._traces[w], None
            if position < here:
                if now.watched & bit:
                    other = trees.trace(w, before | bit)
                    whole = whole and other is not None
                    change = None if other is None else (other, other.score - now.score)
            elif now.grown & bit:
                other = trees.trace(w, before)
                whole = whole and other is not None
                change = None if other is None else (other, now.score - other.score)
            changes.append(change)
            before |= 1 << w
        return changes if whole else None

    def _apply(self, v: int, move: _Move) -> None:
        self._order.remove(v)
        self._order.insert(move.position, v)
        self._traces[v] = move.trace
        for w, trace in move.changed:
            self._traces[w] = trace


@dataclass(frozen=True, slots=True)
class _Converged:
    """A graph and its score."""

    total: int
    dag: Dag


def best_of_starts(
    trees: GrowShrinkTrees, order: Sequence[int], restarts: int, rng: np.random.Generator
) -> Generator[Question, FloatVector, BestGraph]:
    """The best graph of a search from an order and of restarts from the best graph so far."""
    (best,) = yield from search_jointly(trees, [_converged(trees, order)])
    curve = [best.total]
    for start in range(0, restarts, AT_ONCE):
        others = yield from search_jointly(
            trees,
            [
                _converged(trees, perturbed(topological(best.dag), rng))
                for _ in range(min(AT_ONCE, restarts - start))
            ],
        )
        for other in others:
            if other.total >= best.total:
                best = other
            curve.append(best.total)
    return BestGraph(best.dag, tuple(curve))


def _converged(trees: GrowShrinkTrees, order: Sequence[int]) -> Waiting[_Converged]:
    """Search orders and then delete edges, in turn, as long as the score improves."""
    least = trees.scores.least
    best = None
    while True:
        search = OrderSearch(trees, order)
        yield from search.run(least)
        dag = yield from after_deletions(search.dag, trees)
        total = trees.total(dag)
        if best is not None and total < best.total + least:
            return best
        best = _Converged(total, dag)
        order = topological(dag)


def perturbed(order: Sequence[int], rng: np.random.Generator) -> list[int]:
    """The order with some variables at random positions."""
    count = min(max(len(order) // PERTURBED, 2), len(order))
    chosen = rng.permutation(len(order))[:count].tolist()
    perturbed = [v for v in order if v not in set(chosen)]
    for v in chosen:
        perturbed.insert(int(rng.integers(len(perturbed) + 1)), v)
    return perturbed
