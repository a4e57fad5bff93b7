"""Order search where every score follows from moments: no round, so that steps are many and cheap.

Where a variable passes another one, parents are searched anew only if that adds or removes one: the
search starts from the parents before (a warm start), not from none as in `order_search`. A variable
is carried past others until the total score has fallen by what a few edges cost.

Source: Wienöbst, Henckel and Weichwald, "Embracing discrete search: a reasonable approach to causal
structure learning", ICLR 2026, for warm starts, the first order and the iterated search; Andrews et
al., NeurIPS 2023, for the moves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.algorithms.fedboss.grow_shrink import (
    NO_GRAPH,
    BestGraph,
    GrowShrinkTrees,
    Waiting,
    after_deletions,
)
from cipherdag.algorithms.fedboss.moment_scores import Fit, MomentScores, Regression
from cipherdag.algorithms.fedboss.order_search import perturbed
from cipherdag.graphs.dags import Dag, matrix_of, topological

FEW_VARIABLES = 100
PATIENCE = 3
"""Up to `FEW_VARIABLES` a restart is cheap, and this many times as many may fail in a row."""
MOST_STARTS = 10  # most restarts, as a multiple of the number that may fail in a row


@dataclass(slots=True)
class _Parents:
    """A variable's parents, as a search among the variables before it left them."""

    score: int  # score of the family; far less where a required parent is missing
    mask: int  # bit mask of the parents
    better: int  # bit mask of those that would raise the score as one parent more
    near: Regression  # a regression on these parents, or on some that the search met just before


@dataclass(slots=True)
class _Move:
    """A variable's best position: the gain, where it is, and the variables with new parents."""

    gain: int
    position: int
    changed: list[tuple[int, _Parents]]


class ParentSets:
    """Searches for a variable's parents: adds the best ones, then drops the needless ones.

    Each family is fitted once. Bit masks say, by variable, which parents are forbidden or required.
    """

    def __init__(
        self, scores: MomentScores, forbidden: Sequence[int], required: Sequence[int]
    ) -> None:
        self.required = required
        self._scores = scores
        self._free = ~matrix_of(tuple(forbidden)).T
        np.fill_diagonal(self._free, val=False)
        self._fits: list[dict[int, Fit]] = [{} for _ in range(scores.n_variables)]
        self._alone = [scores.regression(v) for v in range(scores.n_variables)]

    def grown(self, v: int, before: int) -> _Parents:
        """The parents of v among those before it, grown from none."""
        return self.regrown(v, self._alone[v], 0, before)

    def regrown(self, v: int, near: Regression, parents: int, before: int) -> _Parents:
        """The parents of v among those before it, grown from some of them and then shrunk."""
        required, fits, scores = self.required[v], self._fits[v], self._scores
        parents |= required & before
        while True:
            fit = fits.get(parents)
            if fit is None:
                fit, near = self._fitted(v, near, parents)
            if not fit.better & before:
                break
            for u in fit.best or scores.ranked(fit):
                if before >> u & 1:
                    parents |= 1 << u
                    break
        score = scores.settled(fit, required) if fit.score is None else fit.score
        while fit.worst >= 0:
            parents &= ~(1 << fit.worst)
            fit = fits.get(parents)
            if fit is None:
                fit, near = self._fitted(v, near, parents)
            score = scores.settled(fit, required) if fit.score is None else fit.score
        missing = (required & ~before).bit_count()
        return _Parents(score - NO_GRAPH * missing, parents, fit.better, near)

    def _fitted(self, v: int, near: Regression, parents: int) -> tuple[Fit, Regression]:
        near = self._scores.regression(v, parents, near)
        fit = self._fits[v][parents] = self._scores.fit(near, v, self._free[v])
        return fit, near


class MomentOrder:
    """An order of the variables and everyone's parents among those before.

    A move has to gain ``least``; a variable may lose ``most_lost`` on its way to a better position.
    """

    def __init__(
        self, sets: ParentSets, order: Sequence[int], *, least: int, most_lost: int
    ) -> None:
        self._sets = sets
        self._least, self._most_lost = least, most_lost
        self._order = list(order)
        self._before, self._position = [0] * len(order), [0] * len(order)
        self._number()
        self._stay: dict[int, tuple[int, int]] = {}  # range that a variable searched in vain
        self._parents = [sets.grown(v, before) for v, before in enumerate(self._before)]

    @property
    def dag(self) -> Dag:
        """The graph: everyone's parents."""
        return tuple(parents.mask for parents in self._parents)

    def run(self) -> None:
        """Move variables until no move gains enough."""
        better = True
        while better:
            better = False
            for v in tuple(self._order):
                if v in self._stay:
                    continue
                first, towards_first = self._best_move(v, self._towards_first(v), 0)
                last, towards_last = self._best_move(v, self._towards_last(v), len(self._order))
                move = max(towards_first, towards_last, key=lambda move: move.gain)
                if move.gain >= self._least:
                    self._apply(v, move)
                    better = True
                else:
                    self._stay[v] = first, last

    def _best_move(
        self, v: int, steps: Iterator[tuple[int, _Parents, _Parents]], end: int
    ) -> tuple[int, _Move]:
        """How far v was carried, at most to the end, and the best of the positions that it passed.

        Steps are the variables passed where parents change: each, its new parents and those of v.
        """
        best, changed, gained = _Move(0, self._position[v], []), [], 0
        here = self._parents[v].score
        for w, passed, parents in steps:
            if passed is not self._parents[w]:
                gained += passed.score - self._parents[w].score
                changed.append((w, passed))
            gain = gained + parents.score - here
            if gain < -self._most_lost:
                return self._position[w], best
            if gain > best.gain:
                best = _Move(gain, self._position[w], [*changed, (v, parents)])
        return end, best

    def _towards_first(self, v: int) -> Iterator[tuple[int, _Parents, _Parents]]:
        regrown, parents, bit = self._sets.regrown, self._parents[v], 1 << v
        required = self._sets.required
        for w in reversed(self._order[: self._position[v]]):
            passed = self._parents[w]
            gains, loses = (passed.better | required[w]) & bit, parents.mask >> w & 1
            if gains:
                passed = regrown(w, passed.near, passed.mask | bit, self._before[w] | bit)
            if loses:
                parents = regrown(v, parents.near, parents.mask & ~(1 << w), self._before[w])
            if gains or loses:
                yield w, passed, parents

    def _towards_last(self, v: int) -> Iterator[tuple[int, _Parents, _Parents]]:
        regrown, parents, bit = self._sets.regrown, self._parents[v], 1 << v
        required = self._sets.required[v]
        for w in self._order[self._position[v] + 1 :]:
            passed = self._parents[w]
            loses, gains = passed.mask & bit, (parents.better | required) >> w & 1
            before = self._before[w] & ~bit
            if loses:
                passed = regrown(w, passed.near, passed.mask & ~bit, before)
            if gains:
                parents = regrown(v, parents.near, parents.mask, before | 1 << w)
            if loses or gains:
                yield w, passed, parents

    def _apply(self, v: int, move: _Move) -> None:
        first, last = sorted((self._position[v], move.position))
        self._order.remove(v)
        self._order.insert(move.position, v)
        self._number()
        for w, parents in move.changed:
            self._parents[w] = parents
        # a variable stays where all that it was carried past is as it was
        self._stay = {
            w: (start, end) for w, (start, end) in self._stay.items() if end < first or start > last
        }

    def _number(self) -> None:
        before = 0
        for position, v in enumerate(self._order):
            self._before[v], self._position[v] = before, position
            before |= 1 << v


def best_by_moments(
    trees: GrowShrinkTrees, scores: MomentScores, restarts: int, rng: np.random.Generator
) -> Waiting[BestGraph]:
    """The best graph of an iterated search, which ends when ``restarts`` in a row gain nothing.

    Up to 100 variables three times as many. Never waits, since every score is there.
    """
    descents = Descents(trees, scores)
    best = yield from descents.local_best(scores.near_order(trees.required))
    curve, failed = [trees.total(best)], 0
    patience = restarts * (PATIENCE if scores.n_variables <= FEW_VARIABLES else 1)
    while failed < patience and len(curve) <= MOST_STARTS * patience:
        other = yield from descents.local_best(perturbed(topological(best), rng))
        total = trees.total(other)
        failed = 0 if total > curve[-1] else failed + 1
        if total > curve[-1]:
            best = other
        curve.append(max(curve[-1], total))
    return BestGraph(best, tuple(curve))


class Descents:
    """Order searches and deletions by turns; what either made of a graph is stored for reuse."""

    def __init__(self, trees: GrowShrinkTrees, scores: MomentScores) -> None:
        self._trees, self._scores = trees, scores
        self._sets = ParentSets(scores, trees.forbidden, trees.required)
        self._deleted: dict[Dag, Dag] = {}
        self._improved: dict[Dag, Dag] = {}

    def local_best(self, order: Sequence[int]) -> Waiting[Dag]:
        """The graph, reached from an order, that neither moves nor deletions improve."""
        best = yield from self._after_deletions(self._after_moves(order))
        while True:
            if best not in self._improved:
                self._improved[best] = self._after_moves(topological(best))
            dag = yield from self._after_deletions(self._improved[best])
            if self._trees.total(dag) < self._trees.total(best) + self._scores.least:
                return best
            best = dag

    def _after_moves(self, order: Sequence[int]) -> Dag:
        scores = self._scores
        search = MomentOrder(self._sets, order, least=scores.least, most_lost=scores.most_lost)
        search.run()
        return search.dag

    def _after_deletions(self, dag: Dag) -> Waiting[Dag]:
        if dag not in self._deleted:
            self._deleted[dag] = yield from after_deletions(dag, self._trees)
        return self._deleted[dag]
