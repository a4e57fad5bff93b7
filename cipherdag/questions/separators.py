"""Questions of FedPC: scores of the candidate separating sets of unshielded pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal

import msgspec
import numpy as np

from cipherdag.arrays import IndexArray
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.disclosure import Quantity, of_one, sums
from cipherdag.questions.encodings import MAX_VARIABLES, Encoding, subsets, unpack_integers
from cipherdag.questions.question import Question
from cipherdag.questions.skeleton import Skeleton

MAX_GRID_BITS = 48


class SeparatorSearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The candidate separating sets of some non-adjacent pairs of a skeleton."""

    skeleton: Skeleton
    pairs: bytes  # packed pairs (x, z), x < z; a pair is called a group below
    test: CITestSpec  # the test whose independence a candidate must show
    # ``either``: subsets of ne(x), then those of ne(z) (FedPC, section 3.2.2, phase 1); ``union``:
    # subsets of ne(x) and ne(z) together (the original code)
    pool: Literal["either", "union"] = "either"
    max_cond_size: int | None = 3  # largest candidate; None for no limit
    # what makes a candidate good: its ``p_value``; or with ``correlation`` a small absolute partial
    # correlation where the test is Fisher-z (the original code)
    measure: Literal["p_value", "correlation"] = "p_value"
    grid_bits: int = 20  # scores are compared on a grid of ``2**-grid_bits``

    def __post_init__(self) -> None:
        if len(self.pairs) % 16:
            raise ValueError("packed pairs must be two 64-bit integers each")
        pairs = self.pair_array()
        if pairs.size and not (
            (pairs >= 0).all()
            and (pairs < self.skeleton.n_variables).all()
            and (pairs[:, 0] < pairs[:, 1]).all()
        ):
            raise ValueError("pairs must be positions x < z of the skeleton")
        if self.max_cond_size is not None and not 0 <= self.max_cond_size < MAX_VARIABLES:
            raise ValueError("max_cond_size must not be negative")
        if not 1 <= self.grid_bits <= MAX_GRID_BITS:
            raise ValueError(f"grid_bits must lie in 1..{MAX_GRID_BITS}")

    @property
    def n_groups(self) -> int:
        return len(self.pairs) // 16

    @property
    def top_score(self) -> int:
        """Largest score on the grid; 0 means that no candidate separates the pair."""
        return (1 << self.grid_bits) + 1

    def pair_array(self) -> IndexArray:
        """The pairs, shape (G, 2)."""
        return unpack_integers(self.pairs, (self.n_groups, 2))

    def candidates(self) -> Candidates:
        """The candidate sets of every pair, enumerated in the order that their index counts."""
        return Candidates(self)


class Candidates:
    """Enumerates candidate sets by pair and size; the index of a set counts in this order.

    Sizes ascend; within one size the sets of the pool stand in lexicographic order, for the pool
    ``either`` those of ne(x) before those of ne(z) that are not also subsets of ne(x).
    """

    def __init__(self, search: SeparatorSearch) -> None:
        self._adjacency = search.skeleton.matrix()
        self._neighbours = [np.flatnonzero(row) for row in self._adjacency]
        self._pairs = search.pair_array()
        self._union = search.pool == "union"
        self._limit = search.max_cond_size
        self._positions: dict[tuple[int, int], IndexArray] = {}

    def sizes(self, group: int) -> range:
        """Conditioning sizes that the pair has candidates of."""
        largest = max((pool.size for pool in self._pools(group)), default=0)
        return range(self._most(largest) + 1)

    def count(self, group: int, size: int) -> int:
        """Number of candidate sets of one size."""
        return self._counted(group, lambda n: math.comb(n, size))

    def total(self, group: int) -> int:
        """Number of candidate sets of all sizes."""
        return self._counted(
            group, lambda n: sum(math.comb(n, size) for size in range(self._most(n) + 1))
        )

    def tests(self, groups: range) -> list[IndexArray]:
        """The candidate sets of several pairs as rows (x, z, s1, ..., sl) by size l.

        The sets of one pair keep their order; the pairs are in no fixed order.
        """
        pairs = self._pairs[groups.start : groups.stop]
        sides = list(zip(*map(self._pools, groups), strict=True))
        largest = max(map(len, chain.from_iterable(sides)), default=0)
        return [self._rows(pairs, sides, size) for size in range(self._most(largest) + 1)]

    def sets(self, group: int, size: int) -> IndexArray:
        """Candidate sets of one size, shape (K, size)."""
        first, *rest = self._pools(group)
        chosen = first[self._choose(first.size, size)]
        for pool in rest:
            more = pool[self._choose(pool.size, size)]
            seen = self._adjacency[self._pairs[group, 0], more].all(axis=1)
            chosen = np.concatenate([chosen, more[~seen]])
        return chosen

    def at(self, group: int, index: int) -> frozenset[int]:
        """The candidate set with this index."""
        for size in self.sizes(group):
            count = self.count(group, size)
            if index < count:
                return frozenset(int(member) for member in self.sets(group, size)[index])
            index -= count
        raise IndexError("no candidate set has this index")

    def _rows(
        self, pairs: IndexArray, sides: Sequence[Sequence[IndexArray]], size: int
    ) -> IndexArray:
        """The sets of one size, pools of one length at a time."""
        blocks = [np.zeros((0, 2 + size), dtype=np.int64)]
        for side, pools in enumerate(sides):
            lengths = np.array([len(pool) for pool in pools], dtype=np.int64)
            for length in np.unique(lengths[lengths >= size]).tolist():
                same_length = np.flatnonzero(lengths == length)
                chosen = self._choose(length, size)
                given = np.array([pools[index] for index in same_length.tolist()])[:, chosen]
                owners = np.repeat(pairs[same_length], len(chosen), axis=0)
                rows = np.column_stack([owners, given.reshape(len(owners), size)])
                if side:
                    rows = rows[~self._adjacency[rows[:, :1], rows[:, 2:]].all(axis=1)]
                blocks.append(rows)
        return np.concatenate(blocks)

    def _counted(self, group: int, count: Callable[[int], int]) -> int:
        """Number of distinct sets, where a pool of n variables gives ``count(n)`` of them."""
        first, *rest = self._pools(group)
        total = count(first.size)
        for pool in rest:
            common = int(np.count_nonzero(self._adjacency[self._pairs[group, 0], pool]))
            total += count(pool.size) - count(common)
        return total

    def _most(self, n: int) -> int:
        """Largest size of the sets that a pool of ``n`` variables gives."""
        return n if self._limit is None else min(n, self._limit)

    def _pools(self, group: int) -> tuple[IndexArray, ...]:
        x, z = self._pairs[group]
        of_x = self._neighbours[x][self._neighbours[x] != z]
        of_z = self._neighbours[z][self._neighbours[z] != x]
        if self._union:
            return (np.union1d(of_x, of_z),)
        return (of_x, of_z)

    def _choose(self, n: int, size: int) -> IndexArray:
        if (n, size) not in self._positions:
            self._positions[n, size] = subsets(n, size)
        return self._positions[n, size]


class _OfSearch(Question, frozen=True):
    """Base of questions about the candidate separating sets of a search."""

    search: SeparatorSearch

    @property
    def n_variables(self) -> int:
        return self.search.skeleton.n_variables


class _Thresholds(_OfSearch, frozen=True):
    """Base of comparisons with ``arity - 1`` thresholds for every pair, packed by rows."""

    thresholds: bytes

    def __post_init__(self) -> None:
        self.threshold_array()

    def threshold_array(self) -> IndexArray:
        """Thresholds of shape (G, m)."""
        groups = self.search.n_groups
        columns = len(self.thresholds) // 8 // groups if groups else 0
        return unpack_integers(self.thresholds, (groups, columns))

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        length = len(self.thresholds) // 8
        return (Encoding(length, 1.0, self.discloses, comparison=True),)


class BestScoreExceeds(_Thresholds, frozen=True, tag="best-score-exceeds"):
    """Asks whether the site's best candidate score of each pair exceeds each threshold.

    A score is ``1 + floor(measure * 2**grid_bits)`` for a candidate that the site finds
    independent, and 0 where it has none.
    """

    discloses = of_one(Quantity.BEST_P_VALUE)
    resamplable = True

    @property
    def label(self) -> str:
        return f"separating sets of {self.search.n_groups} pairs, best score"


class BestIndexPrecedes(_Thresholds, frozen=True, tag="best-index-precedes"):
    """Asks whether the first candidate that attains ``peaks`` precedes each threshold."""

    discloses = of_one(Quantity.BEST_SET)
    resamplable = True

    peaks: bytes  # packed best scores over all sites, shape (G,), as found before

    def __post_init__(self) -> None:
        super().__post_init__()
        self.peak_array()

    @property
    def label(self) -> str:
        return f"separating sets of {self.search.n_groups} pairs, which one"

    def peak_array(self) -> IndexArray:
        """Best scores over all sites, shape (G,)."""
        return unpack_integers(self.peaks, (self.search.n_groups,))


class CandidateScores(_OfSearch, frozen=True, tag="scores"):
    """Scores of a slice of all candidates, the pairs' candidates one after the other."""

    discloses = sums(Quantity.VOTES, Quantity.P_VALUES, Quantity.TEST_ROWS)
    resamplable = True
    countable = True

    first: int  # where the slice starts
    count: int
    # ``mean``: n p and n, where n is the site's rows and 0 for an unreliable test (FedPC, section
    # 5, first strategy); ``vote``: 1 where the site finds independence (second strategy)
    score: Literal["mean", "vote"]
    max_rows: int = 1 << 20  # declared bound of n for ``mean``

    def __post_init__(self) -> None:
        if self.first < 0 or self.count < 0 or not 1 <= self.max_rows <= 1 << 40:
            raise ValueError("a slice must not be negative, and max_rows must lie in 1..2**40")

    @property
    def label(self) -> str:
        return f"separating sets, {self.score} of {self.count} candidates"

    @property
    def needs_count(self) -> bool:
        return self.score == "mean"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        if self.score == "vote":
            return (Encoding(self.count, 1.0, sums(Quantity.VOTES)),)
        rows = float(self.max_rows)
        return (
            Encoding(self.count, rows, sums(Quantity.P_VALUES), resolution_bits=20),
            Encoding(self.count, rows, sums(Quantity.TEST_ROWS)),
        )
