"""The PC-stable search on evidence of all sites together: a skeleton, then separating sets.

Source: Colombo and Maathuis, JMLR 15 (2014), section 4.1 (order-independent skeleton); Ramsey,
"Improving accuracy and scalability of the PC algorithm by maximizing p-value", arXiv 1610.00378
(the separating set of largest p).

Leaks:
    Sites see which tests are asked, hence the skeleton after every layer; the coordinator sees what
    the source of the evidence says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.fedpc.outcome import WeakestTest
from cipherdag.questions.encodings import BoolMatrix, by_owner, rows_of, subsets

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from cipherdag.algorithms.evidence.source import EvidenceSource, PValues, Tests
    from cipherdag.graphs.knowledge import Constraints
    from cipherdag.questions.presence import Presence
    from cipherdag.questions.question import FloatVector, IndexArray, Question, SeparatorSearch

Pair = tuple[int, int]

MOST_TOLD = 500
"""Variables up to which the sets of all pairs without an edge are told, not only of those that
direct something."""
LAYER_TESTS = 100_000
"""Tests up to which a layer is one round."""
MOST_SETS = 2**53
"""Of one size, beyond which they are not counted."""
NO_SET = 2
"""Columns of tests given nothing."""


@dataclass(slots=True)
class Separations:
    """The strongest separating set found of each pair (x, z), x < z, and its p-value."""

    sets: dict[Pair, frozenset[int]] = field(default_factory=dict)
    p_values: dict[Pair, float] = field(default_factory=dict)

    def offer(self, pair: Pair, members: frozenset[int], p_value: float) -> None:
        """Keep the set unless one at least as strong is known; the first wins a tie."""
        if p_value > self.p_values.get(pair, -math.inf):
            self.sets[pair], self.p_values[pair] = members, p_value


class WeakestTests:
    """Of each pair (x, z), x < z, the test of largest p-value, and its set; the first wins a tie.

    Of a pair that was separated it is the test that separated it; an edge that stayed stood every
    test, and its largest p-value says how narrowly (pMax of the R package pcalg).

    Args:
        n_variables: Number of variables, p.
    """

    def __init__(self, n_variables: int) -> None:
        self._p_values = np.full((n_variables, n_variables), -np.inf)
        self._sets: dict[Pair, tuple[int, ...]] = {}

    def hear(self, rows: IndexArray, p_values: FloatVector) -> None:
        """Take tests, shape (B, 2 + l), and their p-values; NaN says nothing."""
        done = np.flatnonzero(~np.isnan(p_values))
        first, second = np.sort(rows[done, :2], axis=1).T
        order = np.lexsort((-done, p_values[done], second, first))
        x, z = first[order], second[order]
        last = np.append((x[1:] != x[:-1]) | (z[1:] != z[:-1]), True)[: len(order)]
        best, x, z = done[order[last]], x[last], z[last]
        better = p_values[best] > self._p_values[x, z]
        best, x, z = best[better], x[better], z[better]
        self._p_values[x, z] = p_values[best]
        if rows.shape[1] > NO_SET or self._sets:
            pairs = zip(x.tolist(), z.tolist(), strict=True)
            self._sets.update(zip(pairs, map(tuple, np.sort(rows[best, 2:]).tolist()), strict=True))

    def of(self, pairs: BoolMatrix) -> dict[Pair, tuple[float, tuple[int, ...]]]:
        """The p-value and the set of every one of these pairs that was tested, shape (p, p)."""
        x, z = np.nonzero(np.triu(pairs, k=1) & (self._p_values > -np.inf))
        return {
            pair: (p_value, self._sets.get(pair, ()))
            for pair, p_value in zip(
                zip(x.tolist(), z.tolist(), strict=True),
                self._p_values[x, z].tolist(),
                strict=True,
            )
        }


@dataclass(frozen=True, slots=True)
class StableSkeleton:
    """What the skeleton search found.

    Attributes:
        skeleton: Symmetric adjacency, shape (p, p).
        layers: Edges left after each layer.
        standing: The p-values of every variable's tests given nothing, added up, shape (p,).
        weakest: The test of largest p-value of every pair.
    """

    skeleton: BoolMatrix
    layers: tuple[int, ...]
    standing: FloatVector
    weakest: WeakestTests

    @property
    def separations(self) -> Separations:
        """Of every pair that tests separated, from the round that separated it."""
        found = self.weakest.of(~self.skeleton)
        return Separations(
            sets={pair: frozenset(given) for pair, (_, given) in found.items()},
            p_values={pair: p_value for pair, (p_value, _) in found.items()},
        )

    @property
    def apart(self) -> dict[Pair, tuple[frozenset[int], float]]:
        """Set and p-value of every pair that tests separated; none of too many to be read."""
        if len(self.skeleton) > MOST_TOLD:
            return {}
        found = self.separations
        return {pair: (given, found.p_values[pair]) for pair, given in found.sets.items()}

    def tested(self, source: EvidenceSource) -> dict[Pair, WeakestTest]:
        """The weakest test of every edge that was tested, with what the source says of it."""
        return {
            pair: WeakestTest(p_value, given, source.effect((*pair, *given)))
            for pair, (p_value, given) in self.weakest.of(self.skeleton).items()
        }


def stable_skeleton(
    source: EvidenceSource,
    constraints: Constraints,
    *,
    alpha: float,
    max_cond_size: int | None,
    shown: Presence | None = None,
) -> Generator[Question, FloatVector, StableSkeleton]:
    """The skeleton that PC-stable finds; independent of the order of the variables.

    Args:
        source: Tests.
        constraints: What is known of p variables. Pairs without or with an edge by it are not
            tested, and only a possible parent of x or y is conditioned on.
        alpha: Independent iff p > alpha; NaN is dependent.
        max_cond_size: Largest conditioning set; None for no limit.
        shown: Where the skeleton is shown after every layer, if it is.

    Returns:
        The skeleton. Rounds: those of one batch of tests per layer. A layer of more than 100,000
        tests takes several: each gives every remaining pair its next sets, and pairs that are
        separated need no more. The separating set of largest p is then that of one such round.
    """
    kept = ~(np.eye(len(constraints.required), dtype=bool) | constraints.apart)
    weakest = WeakestTests(len(kept))
    layers: list[int] = []
    marginal = np.zeros(kept.shape)
    layer = 0
    while layer_possible(kept, layer, max_cond_size):
        # [x, m]: m may be a parent of x
        possible = kept & ~constraints.forbidden.T
        pools = _Pools.of_neighbours(kept, possible, constraints.joined, layer)
        found = yield from _layer(source, kept, pools, alpha)
        for rows, p_values in found:
            weakest.hear(rows, p_values)
            if layer == 0:
                x, y = rows.T
                marginal[x, y] = marginal[y, x] = np.nan_to_num(p_values)
        layers.append(int(kept.sum()) // 2)
        if shown is not None:
            shown.skeleton = kept.copy()
        layer += 1
    # summed exactly: the order of the variables is nothing to it
    standing = np.array([math.fsum(row) for row in marginal])
    return StableSkeleton(kept, tuple(layers), standing, weakest)


def wider_skeleton(
    source: EvidenceSource,
    found: StableSkeleton,
    wider: Mapping[Pair, IndexArray],
    *,
    alpha: float,
    max_cond_size: int | None,
) -> Generator[Question, FloatVector, StableSkeleton]:
    """What is left of a skeleton where more than neighbours may be conditioned on.

    Args:
        source: Tests.
        found: The skeleton; its weakest tests go on.
        wider: Of ordered pairs (x, y) with an edge what sets may have, in order; others are not
            tested.
        alpha: As in `stable_skeleton`.
        max_cond_size: Largest conditioning set; None for no limit.

    Returns:
        The skeleton. Rounds: as `stable_skeleton`, from sets of one variable on.
    """
    kept, layers = found.skeleton.copy(), list(found.layers)
    most = max(map(len, wider.values()), default=0)
    for layer in range(1, (most if max_cond_size is None else min(most, max_cond_size)) + 1):
        left = [pair for pair in wider if kept[pair]]
        sizes = np.array([len(wider[pair]) for pair in left], dtype=np.int64)
        directions = np.array(left, dtype=np.int64).reshape(-1, 2)
        pools = _Pools(directions, sizes, lambda x, y: wider[x, y], layer)
        heard = yield from _layer(source, kept, pools, alpha)
        for rows, p_values in heard:
            found.weakest.hear(rows, p_values)
        layers.append(int(kept.sum()) // 2)
    return StableSkeleton(kept, tuple(layers), found.standing, found.weakest)


def layer_possible(kept: BoolMatrix, layer: int, max_cond_size: int | None) -> bool:
    """Whether sets of this size may be conditioned on, and some variable has enough neighbours."""
    allowed = max_cond_size is None or layer <= max_cond_size
    return allowed and int(kept.sum(axis=0).max(initial=0)) > layer


def _layer(
    source: EvidenceSource,
    kept: BoolMatrix,
    pools: _Pools,
    alpha: float,
) -> Generator[Question, FloatVector, list[tuple[IndexArray, FloatVector]]]:
    """Remove what sets of one size separate, which come from the graph at the layer's start.

    Returns:
        The tests of every round, shape (B, 2 + size), and their p-values.
    """
    heard: list[tuple[IndexArray, FloatVector]] = []
    pending = np.arange(len(pools.directions))
    start = 0
    while len(pending):
        stop = start + _width(pools.counts[pending] - start)
        rows = pools.tests(pending, start, stop)
        tests = [rows[:0, : 2 + size] for size in range(pools.layer)]
        p_value = (yield from source.p_values([*tests, rows]))[-1]
        heard.append((rows, p_value))
        x, y = rows[p_value > alpha, :2].T
        kept[x, y] = kept[y, x] = False
        start = stop
        x, y = pools.directions[pending].T
        pending = pending[kept[x, y] & (pools.counts[pending] > start)]
    return heard


def _width(left: FloatVector) -> int:
    """How many sets each pair may have tested in a round of at most `LAYER_TESTS` tests."""
    counts = np.sort(left)
    pairs = np.arange(len(counts), 0, -1)
    # with a width of counts[k] the smaller ones are tested whole and the others up to it
    totals = np.cumsum(counts) - counts + counts * pairs
    fits = int(np.searchsorted(totals, LAYER_TESTS, side="right"))
    if fits == len(counts):
        return int(counts[-1])
    spare = LAYER_TESTS - float(counts[:fits].sum())
    return max(int(spare // pairs[fits]), 1)


class _Pools:
    """The conditioning sets of one size that the pool of each pair gives.

    Args:
        directions: Ordered pairs (x, y) to test, shape (D, 2).
        sizes: How many variables the pool of each has, shape (D,).
        pool: That of a pair, in order.
        layer: Size of the sets.

    Attributes:
        layer: Size of the sets.
        directions: Those pairs that some set is tested of; given nothing, x < y only.
        counts: How many sets the pool of each gives, shape (D,).
    """

    def __init__(
        self,
        directions: IndexArray,
        sizes: IndexArray,
        pool: Callable[[int, int], IndexArray],
        layer: int,
    ) -> None:
        self.layer = layer
        self._pool = pool
        self._chosen: dict[int, IndexArray] = {}
        wanted = (sizes >= layer) if layer else (directions[:, 0] < directions[:, 1])
        self.directions = directions[wanted]
        most = int(sizes.max(initial=0))
        ways = [min(math.comb(size, layer), MOST_SETS) for size in range(most + 1)]
        self.counts: FloatVector = np.array(ways, dtype=np.float64)[sizes[wanted]]

    @classmethod
    def of_neighbours(
        cls, start: BoolMatrix, possible: BoolMatrix, joined: BoolMatrix, layer: int
    ) -> _Pools:
        """What each variable's own pool gives, the other one of the pair left out.

        Args:
            start: Adjacency at the start of the layer, shape (p, p).
            possible: [x, m] is True where m is in the pool of x, shape (p, p).
            joined: Pairs that are not tested, shape (p, p).
            layer: Size of the sets.
        """
        x, y = np.nonzero(start & ~joined)
        own = [np.flatnonzero(row) for row in possible]
        sizes = possible.sum(axis=1)[x] - possible[x, y]
        return cls(np.column_stack([x, y]), sizes, lambda x, y: own[x][own[x] != y], layer)

    def tests(self, which: IndexArray, start: int, stop: int) -> IndexArray:
        """Sets number ``start`` to ``stop`` of some directions as rows (x, y, s1, ..., sl)."""
        pairs = self.directions[which]
        if self.layer == 0:
            return pairs
        families = []
        for x, y in pairs.tolist():
            pool = self._pool(x, y)
            if len(pool) not in self._chosen:
                self._chosen[len(pool)] = subsets(len(pool), self.layer)
            families.append((x, y, [pool[self._chosen[len(pool)][start:stop]]]))
        return rows_of(families)[0]


def strongest_separators(
    source: EvidenceSource, search: SeparatorSearch
) -> Generator[Question, FloatVector, Separations]:
    """Of every pair the candidate set of largest p, if any is above alpha.

    p-values are compared on the grid of the search and the first candidate wins a tie, as in
    FedPC's secure maximum, so that one site's votes and its evidence orient alike; they come back
    rounded down to it. Rounds: as `candidate_tests`.
    """
    best = Separations()

    def hear(pair: Pair, sets: list[IndexArray], p_values: list[FloatVector]) -> None:
        for given, found in zip(sets, p_values, strict=True):
            separating = np.flatnonzero(found > search.test.alpha)
            if separating.size:
                graded = np.floor(np.ldexp(found[separating], search.grid_bits))
                first = int(separating[graded.argmax()])
                grade = math.ldexp(float(graded.max()), -search.grid_bits)
                best.offer(pair, frozenset(given[first].tolist()), grade)

    yield from candidate_tests(source.p_values, search, hear)
    return best


def candidate_tests(
    ask: Callable[[Tests], PValues],
    search: SeparatorSearch,
    hear: Callable[[Pair, list[IndexArray], list[FloatVector]], None],
) -> Generator[Question, FloatVector, None]:
    """Test all candidate sets of every pair of a search.

    ``hear`` is called once per pair, with its sets by size, shapes (C_l, l), and their p-values.
    Rounds: one batch of tests, and one more per 100,000 tests.
    """
    candidates = search.candidates()
    waiting: list[tuple[int, int, list[IndexArray]]] = []
    total = 0
    for group, (x, z) in enumerate(search.pair_array().tolist()):
        sets = [candidates.sets(group, size) for size in candidates.sizes(group)]
        waiting.append((x, z, sets))
        total += sum(len(given) for given in sets)
        if total > LAYER_TESTS or group == search.n_groups - 1:
            p_values = yield from ask(rows_of(waiting))
            counts = [[len(given) for given in own] for _, _, own in waiting]
            for (a, b, own), found in zip(waiting, by_owner(counts, p_values), strict=True):
                hear((a, b), own, found)
            waiting, total = [], 0
