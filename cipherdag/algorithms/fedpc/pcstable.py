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
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cipherdag.algorithms.evidence.source import EvidenceSource, PValues, Tests
from cipherdag.algorithms.fedpc.decisive_tests import DecisiveTests
from cipherdag.algorithms.fedpc.outcome import WeakestTest
from cipherdag.algorithms.fedpc.weakest_tests import WeakestTests
from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.graphs.knowledge import Constraints
from cipherdag.questions.encodings import subsets
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Question
from cipherdag.questions.separators import SeparatorSearch

Hear = Callable[[IndexArray, Tests, list[FloatVector]], None]
"""Takes pairs, shape (G, 2), the tests of all their candidate sets, and the p-values."""

Pair = tuple[int, int]
Heard = tuple[WeakestTests, DecisiveTests]

MOST_TOLD = 500
"""Variables up to which the sets of all pairs without an edge are told, not only of those that
direct something."""
LAYER_TESTS = 1_000
"""Tests up to which a layer is one round."""
PAIRS_AT_ONCE = 2_000_000
"""Pairs tested given nothing that are held at a time: some 150 bytes each, on top of what is kept.
Three rounds of numbers are as many."""
MOST_SETS = 2**53
"""Of one size, beyond which they are not counted."""


@dataclass(slots=True)
class Separations:
    """The strongest separating set found of each pair (x, z), x < z, and its p-value."""

    sets: dict[Pair, frozenset[int]] = field(default_factory=dict)
    p_values: dict[Pair, float] = field(default_factory=dict)

    def offer(self, pair: Pair, members: frozenset[int], p_value: float) -> None:
        """Keep the set unless one at least as strong is known; the first wins a tie."""
        if p_value > self.p_values.get(pair, -math.inf):
            self.sets[pair], self.p_values[pair] = members, p_value


@dataclass(frozen=True, slots=True)
class StableSkeleton:
    """What the skeleton search found.

    Attributes:
        skeleton: Symmetric adjacency, shape (p, p).
        layers: Edges left after each layer.
        standing: The p-values of every variable's tests given nothing, added up, shape (p,).
        weakest: The test of largest p-value of every pair.
        decisive: How many tests every pair has, and which were not done.
    """

    skeleton: BoolMatrix
    layers: tuple[int, ...]
    standing: FloatVector
    weakest: WeakestTests
    decisive: DecisiveTests

    @property
    def separations(self) -> Separations:
        """Of every pair that tests separated, from the round that separated it."""
        found = Separations()
        for pair, given, p_value in self.weakest.of(~self.skeleton):
            found.offer(pair, frozenset(given), p_value)
        return found

    @property
    def apart(self) -> Iterable[tuple[Pair, tuple[int, ...], float]]:
        """Every pair that tests separated, the set and its p-value; none of too many to be read."""
        if len(self.skeleton) > MOST_TOLD:
            return ()
        return self.weakest.of(~self.skeleton)

    def tested(self, source: EvidenceSource) -> dict[Pair, WeakestTest]:
        """The weakest test of every edge that was tested, with what the source says of it."""
        return {
            pair: WeakestTest(p_value, given, source.effect((*pair, *given)))
            for pair, given, p_value in self.weakest.of(self.skeleton)
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
        Given nothing 2,000,000 pairs are asked at a time, in as many rounds as the source needs.
    """
    kept = ~(np.eye(len(constraints.required), dtype=bool) | constraints.apart)
    heard = WeakestTests(len(kept)), DecisiveTests(len(kept))
    layers: list[int] = []
    standing = np.zeros(len(kept))
    layer = 0
    while layer_possible(kept, layer, max_cond_size):
        if layer == 0:
            yield from _given_nothing(source, kept, constraints.joined, heard, alpha)
            standing = heard[0].summed()
        else:
            # [x, m]: m may be a parent of x
            possible = kept & ~constraints.forbidden.T
            pools = _Pools.of_neighbours(kept, possible, constraints.joined, layer)
            yield from _layer(source, kept, pools, heard, alpha)
        layers.append(int(kept.sum()) // 2)
        if shown is not None:
            shown.skeleton = kept.copy()
        layer += 1
    return StableSkeleton(kept, tuple(layers), standing, *heard)


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
        directions = np.array(left, dtype=np.int64).reshape(-1, 2)
        none, own = np.full(len(left), -1, dtype=np.int64), np.arange(len(left))
        pools = _Pools(directions, [wider[pair] for pair in left], own, none, layer)
        yield from _layer(source, kept, pools, (found.weakest, found.decisive), alpha)
        layers.append(int(kept.sum()) // 2)
    return StableSkeleton(kept, tuple(layers), found.standing, found.weakest, found.decisive)


def layer_possible(kept: BoolMatrix, layer: int, max_cond_size: int | None) -> bool:
    """Whether sets of this size may be conditioned on, and some variable has enough neighbours."""
    allowed = max_cond_size is None or layer <= max_cond_size
    return allowed and int(kept.sum(axis=0).max(initial=0)) > layer


def _given_nothing(
    source: EvidenceSource,
    kept: BoolMatrix,
    joined: BoolMatrix,
    heard: Heard,
    alpha: float,
) -> Generator[Question, FloatVector, None]:
    """Remove the pairs that are independent given nothing, some at a time."""
    pairs = np.flatnonzero(np.triu(kept & ~joined))
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        rows = np.column_stack(np.divmod(pairs[start : start + PAIRS_AT_ONCE], len(kept)))
        (p_value,) = yield from source.p_values([rows])
        _hear(rows, p_value, kept, heard, alpha)


def _hear(
    rows: IndexArray, p_value: FloatVector, kept: BoolMatrix, heard: Heard, alpha: float
) -> None:
    """Remember tests, shape (B, 2 + l), and remove the pairs that they separate."""
    for own in heard:
        own.hear(rows, p_value)
    x, y = rows[p_value > alpha, :2].T
    kept[x, y] = kept[y, x] = False


def _layer(
    source: EvidenceSource,
    kept: BoolMatrix,
    pools: _Pools,
    heard: Heard,
    alpha: float,
) -> Generator[Question, FloatVector, None]:
    """Remove what sets of one size separate, which come from the graph at the layer's start."""
    pending = np.arange(len(pools.directions))
    start = 0
    while len(pending):
        stop = start + _width(pools.counts[pending] - start)
        rows = pools.tests(pending, start, stop)
        tests = [rows[:0, : 2 + size] for size in range(pools.layer)]
        p_value = (yield from source.p_values([*tests, rows]))[-1]
        _hear(rows, p_value, kept, heard, alpha)
        start = stop
        x, y = pools.directions[pending].T
        pending = pending[kept[x, y] & (pools.counts[pending] > start)]


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
        pools: What the sets are from, in order; each direction has one.
        which: That of every direction, shape (D,).
        left_out: Which place of its pool a direction leaves out, or none, -1, shape (D,).
        layer: Size of the sets, from 1.

    Attributes:
        layer: Size of the sets.
        directions: Those pairs that some set is tested of.
        counts: How many sets the pool of each gives, shape (D,).
    """

    def __init__(
        self,
        directions: IndexArray,
        pools: Sequence[IndexArray],
        which: IndexArray,
        left_out: IndexArray,
        layer: int,
    ) -> None:
        self.layer = layer
        lengths = np.array([len(own) for own in pools], dtype=np.int64)
        sizes = lengths[which] - (left_out >= 0)
        wanted = sizes >= layer
        self.directions = directions[wanted]
        self._sizes, self._left_out = sizes[wanted], left_out[wanted]
        self._first = (np.cumsum(lengths) - lengths)[which[wanted]]
        self._members = np.concatenate([np.zeros(0, dtype=np.int64), *pools])
        self._chosen: dict[int, IndexArray] = {}
        most = int(sizes.max(initial=0))
        ways = [min(math.comb(size, layer), MOST_SETS) for size in range(most + 1)]
        self.counts: FloatVector = np.array(ways, dtype=np.float64)[self._sizes]

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
        place = np.cumsum(possible, axis=1, dtype=np.int32)[x, y].astype(np.int64) - 1
        left_out = np.where(possible[x, y], place, -1)
        pools = [np.flatnonzero(row) for row in possible]
        return cls(np.column_stack([x, y]), pools, x, left_out, layer)

    def tests(self, which: IndexArray, start: int, stop: int) -> IndexArray:
        """Sets number ``start`` to ``stop`` of some directions as rows (x, y, s1, ..., sl)."""
        sizes = self._sizes[which]
        found, places = [], []
        for size in np.unique(sizes).tolist():
            alike = np.flatnonzero(sizes == size)
            own, sets = which[alike], self._sets(size)[start:stop]
            left_out = self._left_out[own][:, None, None]
            beyond = (sets >= left_out) & (left_out >= 0)
            given = self._members[self._first[own][:, None, None] + sets + beyond]
            pairs = np.repeat(self.directions[own], len(sets), axis=0)
            found.append(np.column_stack([pairs, given.reshape(-1, self.layer)]))
            places.append(np.repeat(alike, len(sets)))
        order = np.argsort(np.concatenate(places), kind="stable")
        return np.concatenate(found)[order]

    def _sets(self, size: int) -> IndexArray:
        """The sets that a pool of so many variables gives, as places in it, shape (C, layer)."""
        if size not in self._chosen:
            self._chosen[size] = subsets(size, self.layer)
        return self._chosen[size]


def strongest_separators(
    source: EvidenceSource, search: SeparatorSearch
) -> Generator[Question, FloatVector, Separations]:
    """Of every pair the candidate set of largest p, if any is above alpha.

    p-values are compared on the grid of the search and the first candidate wins a tie, as in
    FedPC's secure maximum, so that one site's votes and its evidence orient alike; they come back
    rounded down to it. Rounds: as `candidate_tests`.
    """
    best = Separations()
    yield from candidate_tests(source.p_values, search, strongest_of(search, best))
    return best


def strongest_of(search: SeparatorSearch, best: Separations) -> Hear:
    """Keeps of all candidate sets that it hears of the strongest of every pair."""
    variables = search.skeleton.n_variables

    def hear(_: IndexArray, tests: Tests, p_values: list[FloatVector]) -> None:
        for rows, found in zip(tests, p_values, strict=True):
            separating = np.flatnonzero(found > search.test.alpha)
            grades = np.floor(np.ldexp(found[separating], search.grid_bits))
            pair = rows[separating, 0] * variables + rows[separating, 1]
            order = np.lexsort((-grades, pair))
            first = order[np.unique(pair[order], return_index=True)[1]]
            sets = rows[separating[first]].tolist()
            p_value = np.ldexp(grades[first], -search.grid_bits).tolist()
            for (x, z, *given), own in zip(sets, p_value, strict=True):
                best.offer((x, z), frozenset(given), own)

    return hear


def candidate_tests(
    ask: Callable[[Tests], PValues],
    search: SeparatorSearch,
    hear: Hear,
) -> Generator[Question, FloatVector, None]:
    """Test all candidate sets of every pair of a search.

    ``hear`` is told of some pairs at a time. Rounds: one batch of tests, and one more per 100,000
    tests.
    """
    candidates, pairs = search.candidates(), search.pair_array()
    first = total = 0
    for group in range(search.n_groups):
        total += candidates.total(group)
        if total > LAYER_TESTS or group == search.n_groups - 1:
            tests = candidates.tests(range(first, group + 1))
            hear(pairs[first : group + 1], tests, (yield from ask(tests)))
            first, total = group + 1, 0
