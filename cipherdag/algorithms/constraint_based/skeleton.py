"""The order-independent skeleton of PC-stable, and its refinement by larger candidate sets.

Source: Colombo and Maathuis, JMLR 15 (2014), section 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cipherdag.algorithms.constraint_based.pair_tests import (
    DecisiveTests,
    MaxPValueTest,
    MaxPValueTests,
    Pair,
)
from cipherdag.algorithms.constraint_based.separations import Separations, most_tests
from cipherdag.algorithms.evidence.federated_test import FederatedCITest
from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.graphs.knowledge import Constraints
from cipherdag.questions.encodings import subsets
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Asking

MOST_LISTED = 500
"""Up to this many variables, separating sets are listed of all pairs without an edge; beyond, only
of the pairs that direct an edge."""
PAIRS_AT_ONCE = 2_000_000
"""Marginal tests that are asked at a time: some 150 bytes each, besides what is remembered. With
three sums a test they take three rounds."""
MOST_SETS = 2**53
"""Cap on the count of a pair's conditioning sets of one size: floats are exact up to it."""


@dataclass(frozen=True, slots=True)
class StableSkeleton:
    """The skeleton that a search ends with, and the tests that decided it."""

    skeleton: BoolMatrix  # symmetric adjacency, shape (p, p)
    layers: tuple[int, ...]  # edges left after each layer
    tie_break_score: FloatVector  # p-values of every variable's tests given nothing, summed, (p,)
    weakest: MaxPValueTests  # the test of largest p-value of every pair
    decisive: DecisiveTests  # how many tests every pair has, and which were skipped

    @property
    def separations(self) -> Separations:
        """The separating set of every pair that tests separated, from the round that did."""
        separations = Separations()
        for pair, given, p_value in self.weakest.of(~self.skeleton):
            separations.offer(pair, frozenset(given), p_value)
        return separations

    @property
    def separated_pairs(self) -> Iterable[tuple[Pair, tuple[int, ...], float]]:
        """Each separated pair, its set and p-value; none if variables exceed `MOST_LISTED`."""
        if len(self.skeleton) > MOST_LISTED:
            return ()
        return self.weakest.of(~self.skeleton)

    @property
    def independent(self) -> BoolMatrix:
        """The pairs that tests given nothing separated, shape (p, p), symmetric."""
        separated = np.zeros_like(self.skeleton)
        for (x, z), given, _ in self.weakest.of(~self.skeleton):
            separated[x, z] = separated[z, x] = not given
        return separated

    def tested(self, source: FederatedCITest) -> dict[Pair, MaxPValueTest]:
        """The test of largest p-value of every tested edge, with the effect from the source."""
        return {
            pair: MaxPValueTest(p_value, given, source.effect((*pair, *given)))
            for pair, given, p_value in self.weakest.of(self.skeleton)
        }


def stable_skeleton(
    source: FederatedCITest,
    constraints: Constraints,
    *,
    alpha: float,
    max_cond_size: int | None,
    shown: Presence | None = None,
) -> Asking[StableSkeleton]:
    """The skeleton that PC-stable finds; independent of the order of the variables.

    Pairs whose edge knowledge requires or excludes are not tested, and only a possible parent of x
    or y is conditioned on. Independent iff p > alpha; NaN is dependent. The skeleton is
    ``shown`` after every layer.

    Rounds: those of one batch of tests per layer. A layer of more than 1,000 tests takes several:
    each gives every remaining pair its next sets, and pairs that are separated need no more. The
    separating set of largest p is then that of one such round. The more tests came before, the more
    a round takes (`most_tests`), which bounds the number of rounds. Of marginal tests 2,000,000 are
    asked at a time, in as many rounds as the source needs.
    """
    p = len(constraints.required)
    skeleton = ~(np.eye(p, dtype=bool) | constraints.excluded)
    search = _Search(source, skeleton, alpha, MaxPValueTests(p), DecisiveTests(p))
    layers: list[int] = []
    tie_break_score = np.zeros(p)
    while layer_possible(skeleton, layer := len(layers), max_cond_size):
        if layer == 0:
            yield from search.given_nothing(constraints.joined)
            tie_break_score = search.weakest.summed()
        else:
            # [x, m]: m may be a parent of x
            possible = skeleton & ~constraints.forbidden.T
            yield from search.layer(
                _Pools.of_neighbours(skeleton, possible, constraints.joined, layer), shown
            )
        layers.append(int(skeleton.sum()) // 2)
        if shown is not None:
            shown.skeleton = skeleton.copy()
    return StableSkeleton(skeleton, tuple(layers), tie_break_score, search.weakest, search.decisive)


def possible_dsep_refinement(
    source: FederatedCITest,
    before: StableSkeleton,
    candidates: Mapping[Pair, IndexArray],
    *,
    alpha: float,
    max_cond_size: int | None,
) -> Asking[StableSkeleton]:
    """The skeleton that is left once tests may also condition on variables beyond neighbours.

    The weakest tests of the skeleton ``before`` are continued. ``candidates`` has, for ordered
    pairs (x, y) with an edge, the variables that may be conditioned on, ascending; other pairs are
    not tested. Rounds: as `stable_skeleton`, from sets of one variable on.
    """
    skeleton, layers = before.skeleton.copy(), list(before.layers)
    search = _Search(source, skeleton, alpha, before.weakest, before.decisive)
    most = max(map(len, candidates.values()), default=0)
    for layer in range(1, (most if max_cond_size is None else min(most, max_cond_size)) + 1):
        left = [pair for pair in candidates if skeleton[pair]]
        directions = np.array(left, dtype=np.int64).reshape(-1, 2)
        none, which = np.full(len(left), -1, dtype=np.int64), np.arange(len(left))
        pools = [candidates[pair] for pair in left]
        yield from search.layer(_Pools(directions, pools, which, none, layer))
        layers.append(int(skeleton.sum()) // 2)
    return replace(before, skeleton=skeleton, layers=tuple(layers))


def layer_possible(skeleton: BoolMatrix, layer: int, max_cond_size: int | None) -> bool:
    """Whether sets of this size may be conditioned on, and some variable has enough neighbours."""
    allowed = max_cond_size is None or layer <= max_cond_size
    return allowed and int(skeleton.sum(axis=0).max(initial=0)) > layer


@dataclass(frozen=True, slots=True)
class _Search:
    """Tests the edges of a skeleton, which it changes, and remembers the tests."""

    source: FederatedCITest
    skeleton: BoolMatrix
    alpha: float
    weakest: MaxPValueTests
    decisive: DecisiveTests

    def given_nothing(self, joined: BoolMatrix) -> Asking[None]:
        """Remove the marginally independent pairs, some at a time."""
        pairs = np.flatnonzero(np.triu(self.skeleton & ~joined))
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            codes = pairs[start : start + PAIRS_AT_ONCE]
            rows = np.column_stack(np.divmod(codes, len(self.skeleton)))
            (p_value,) = yield from self.source.p_values([rows])
            self._on_result(rows, p_value)

    def layer(self, pools: _Pools, shown: Presence | None = None) -> Asking[None]:
        """Remove what sets of one size separate, which come from the graph at the layer's start."""
        pending = np.arange(len(pools.directions))
        start = done = 0
        while len(pending):
            stop = start + _width(pools.counts[pending] - start, most_tests(done))
            rows = pools.tests(pending, start, stop)
            tests = [rows[:0, : 2 + size] for size in range(pools.layer)]
            done += len(rows)
            if shown is not None:
                left = float((pools.counts[pending] - stop).clip(0).sum())
                shown.tests = done, done + int(left)
            p_value = (yield from self.source.p_values([*tests, rows]))[-1]
            self._on_result(rows, p_value)
            start = stop
            x, y = pools.directions[pending].T
            pending = pending[self.skeleton[x, y] & (pools.counts[pending] > start)]
        if shown is not None:
            shown.tests = None

    def _on_result(self, rows: IndexArray, p_value: FloatVector) -> None:
        self.weakest.on_result(rows, p_value)
        self.decisive.on_result(rows, p_value)
        x, y = rows[p_value > self.alpha, :2].T
        self.skeleton[x, y] = self.skeleton[y, x] = False


def _width(left: FloatVector, most: int) -> int:
    """How many sets of each pair a round of at most ``most`` tests can take; at least one each."""
    counts = np.sort(left)
    pairs = np.arange(len(counts), 0, -1)
    # with a width of counts[k] the smaller ones are tested whole and the others up to it
    totals = np.cumsum(counts) - counts + counts * pairs
    fits = int(np.searchsorted(totals, most, side="right"))
    if fits == len(counts):
        return int(counts[-1])
    spare = most - float(counts[:fits].sum())
    return max(int(spare // pairs[fits]), 1)


class _Pools:
    """The conditioning sets of one size, ``layer``, that the pool of each pair gives.

    Ordered pair i of ``directions``, shape (D, 2), has the pool ``pools[which[i]]``, without the
    variable at position ``left_out[i]`` of it; -1 leaves out none.

    Attributes:
        directions: The ordered pairs whose pool has at least ``layer`` variables.
        counts: How many sets the pool of each direction gives, shape (D,).
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
        lengths = np.array([len(pool) for pool in pools], dtype=np.int64)
        sizes = lengths[which] - (left_out >= 0)
        wanted = sizes >= layer
        self.directions = directions[wanted]
        self._sizes, self._left_out = sizes[wanted], left_out[wanted]
        self._first = (np.cumsum(lengths) - lengths)[which[wanted]]
        self._members = np.concatenate([np.zeros(0, dtype=np.int64), *pools])
        self._subsets: dict[int, IndexArray] = {}
        most = int(sizes.max(initial=0))
        n_sets = [min(math.comb(size, layer), MOST_SETS) for size in range(most + 1)]
        self.counts: FloatVector = np.array(n_sets, dtype=np.float64)[self._sizes]

    @classmethod
    def of_neighbours(
        cls, start: BoolMatrix, possible: BoolMatrix, joined: BoolMatrix, layer: int
    ) -> _Pools:
        """The pools of the first variable of each pair of ``start``, the other one left out.

        [x, m] of ``possible`` is True where m is in the pool of x; ``joined`` pairs are not tested.
        """
        x, y = np.nonzero(start & ~joined)
        index = np.cumsum(possible, axis=1, dtype=np.int32)[x, y].astype(np.int64) - 1
        left_out = np.where(possible[x, y], index, -1)
        pools = [np.flatnonzero(row) for row in possible]
        return cls(np.column_stack([x, y]), pools, x, left_out, layer)

    def tests(self, which: IndexArray, start: int, stop: int) -> IndexArray:
        """Sets ``start`` to ``stop`` of the directions ``which``, as rows (x, y, s1, ..., sl)."""
        sizes = self._sizes[which]
        rows, positions = [], []
        for size in np.unique(sizes).tolist():
            of_size = np.flatnonzero(sizes == size)
            pool, sets = which[of_size], self._subsets_of(size)[start:stop]
            left_out = self._left_out[pool][:, None, None]
            beyond = (sets >= left_out) & (left_out >= 0)
            given = self._members[self._first[pool][:, None, None] + sets + beyond]
            pairs = np.repeat(self.directions[pool], len(sets), axis=0)
            rows.append(np.column_stack([pairs, given.reshape(-1, self.layer)]))
            positions.append(np.repeat(of_size, len(sets)))
        order = np.argsort(np.concatenate(positions), kind="stable")
        return np.concatenate(rows)[order]

    def _subsets_of(self, size: int) -> IndexArray:
        """The sets from a pool of ``size`` variables, as indices in the pool, shape (C, layer)."""
        if size not in self._subsets:
            self._subsets[size] = subsets(size, self.layer)
        return self._subsets[size]
