"""The best order of the variables: each in turn is moved to where all parents together score best.

Source: Andrews et al., NeurIPS 2023, algorithms 1 and 2; see `grow_shrink`.

Leaks:
    Nothing beyond what the scores open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees, Trace
from cipherdag.algorithms.fedboss.together import Waiting
from cipherdag.graphs.dags import Dag


@dataclass(frozen=True, slots=True)
class _Move:
    """A variable's best place: what is gained, where, and whose parents become others."""

    gain: int
    place: int
    own: Trace
    changed: tuple[tuple[int, Trace], ...]


class OrderSearch:
    """An order of the variables and everyone's best parents among those before.

    Args:
        trees: Find parents.
        order: The order to start from, shape (p,).
    """

    def __init__(self, trees: GrowShrinkTrees, order: Sequence[int]) -> None:
        self._trees = trees
        self._order = list(order)
        self._traces: list[Trace] = []

    @property
    def order(self) -> tuple[int, ...]:
        """The order found."""
        return tuple(self._order)

    @property
    def total(self) -> int:
        """The score of the graph."""
        return sum(trace.score for trace in self._traces)

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
            before, found = 0, {}
            for v in self._order:
                found[v] = self._trees.trace(v, before)
                before |= 1 << v
            self._traces = [own for _, own in sorted(found.items()) if own is not None]
            if len(self._traces) == len(self._order):
                return
            yield

    def _look_ahead(self) -> None:
        """Miss what any move from here may need, so that one round learns all of it."""
        for v in self._order:
            self._best_move(v)

    def _best_move(self, v: int) -> _Move | None:
        """The best place of v; None where scores are missing."""
        here = self._order.index(v)
        others = self._order[:here] + self._order[here + 1 :]
        at = self._alone(v, others)
        changes = self._changes(v, here, others)
        if at is None or changes is None:
            return None
        # from the last place towards the first, all that v passes may have it as a parent
        total = at[-1].score
        best, place, now = total, len(others), total
        behind = 0
        for j in range(len(others) - 1, -1, -1):
            change = changes[j]
            if change is not None:
                behind += change[1]
            total = at[j].score + behind
            if j == here:
                now = total
            if total > best:
                best, place = total, j
        if best <= now:
            return _Move(0, here, at[here], ())
        passed = range(min(here, place), max(here, place))
        changed = [(others[j], own[0]) for j in passed if (own := changes[j]) is not None]
        return _Move(best - now, place, at[place], tuple(changed))

    def _alone(self, v: int, others: Sequence[int]) -> list[Trace] | None:
        """The parents of v at every place."""
        trees, before = self._trees, 0
        own = trees.trace(v, 0)
        at = [own]
        for w in others:
            before |= 1 << w
            if own is None or own.watched >> w & 1:
                own = trees.trace(v, before)
            at.append(own)
        found = [trace for trace in at if trace is not None]
        return found if len(found) == len(at) else None

    def _changes(
        self, v: int, here: int, others: Sequence[int]
    ) -> list[tuple[Trace, int] | None] | None:
        """Of each other one, its parents on the other side of v, and what having v before gains."""
        trees, before, bit = self._trees, 0, 1 << v
        found: list[tuple[Trace, int] | None] = []
        whole = True
        for place, w in enumerate(others):
            now, change = self._traces[w], None
            if place < here:
                if now.watched & bit:
                    other = trees.trace(w, before | bit)
                    whole = whole and other is not None
                    change = None if other is None else (other, other.score - now.score)
            elif now.grown & bit:
                other = trees.trace(w, before)
                whole = whole and other is not None
                change = None if other is None else (other, now.score - other.score)
            found.append(change)
            before |= 1 << w
        return found if whole else None

    def _apply(self, v: int, move: _Move) -> None:
        self._order.remove(v)
        self._order.insert(move.place, v)
        self._traces[v] = move.own
        for w, trace in move.changed:
            self._traces[w] = trace
