"""What FedPC's questions are about: a skeleton, and the candidate sets of its unshielded pairs."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np

from cipherdag.algorithms.encodings import (
    MAX_VARIABLES,
    BoolMatrix,
    CITestSpec,
    IndexArray,
    subsets,
    unpack_integers,
)

MAX_GRID_BITS = 48


class Skeleton(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An undirected graph over positions 0..n_variables-1, its upper triangle packed in bits."""

    n_variables: int
    upper: bytes

    def __post_init__(self) -> None:
        if not 1 <= self.n_variables <= MAX_VARIABLES:
            raise ValueError(f"n_variables must lie in 1..{MAX_VARIABLES}")
        n_pairs = self.n_variables * (self.n_variables - 1) // 2
        if len(self.upper) != (n_pairs + 7) // 8:
            raise ValueError("the packed triangle does not have the length n_variables implies")
        if n_pairs % 8 and self.upper[-1] & ((1 << (8 - n_pairs % 8)) - 1):
            raise ValueError("the packed triangle has bits beyond its end")

    @classmethod
    def from_matrix(cls, adjacency: BoolMatrix) -> Skeleton:
        """Pack a symmetric matrix of shape (p, p)."""
        n_variables = adjacency.shape[0]
        upper = np.packbits(adjacency[np.triu_indices(n_variables, 1)]).tobytes()
        return cls(n_variables=n_variables, upper=upper)

    def edges(self) -> IndexArray:
        """The edges as pairs x < y in lexicographic order, shape (E, 2)."""
        n_pairs = self.n_variables * (self.n_variables - 1) // 2
        bits = np.unpackbits(np.frombuffer(self.upper, dtype=np.uint8), count=n_pairs)
        rows, columns = np.triu_indices(self.n_variables, 1)
        present = bits.astype(bool)
        return np.stack([rows[present], columns[present]], axis=1)

    def matrix(self) -> BoolMatrix:
        """Symmetric adjacency of shape (p, p)."""
        adjacency = np.zeros((self.n_variables, self.n_variables), dtype=bool)
        edges = self.edges()
        adjacency[edges[:, 0], edges[:, 1]] = True
        return adjacency | adjacency.T

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int.from_bytes(self.upper, "big").bit_count()


class SeparatorSearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The candidate separating sets of some non-adjacent pairs of a skeleton.

    Attributes:
        skeleton: Final skeleton of FedSkele.
        pairs: Packed pairs (x, z), x < z; a pair is called a group below.
        test: The test whose independence a candidate must show.
        pool: ``either``: subsets of ne(x), then those of ne(z) (FedPC, section 3.2.2, phase 1);
            ``union``: subsets of ne(x) and ne(z) together (the original code).
        max_cond_size: Largest candidate; None for no limit.
        measure: What makes a candidate good: its ``p_value``; or with ``correlation`` a small
            absolute partial correlation where the test is Fisher-z (the original code).
        grid_bits: Scores are compared on a grid of ``2**-grid_bits``.
    """

    skeleton: Skeleton
    pairs: bytes
    test: CITestSpec
    pool: Literal["either", "union"] = "either"
    max_cond_size: int | None = 3
    measure: Literal["p_value", "correlation"] = "p_value"
    grid_bits: int = 20

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
        """Number of pairs."""
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
        adjacency = search.skeleton.matrix()
        self._neighbours = [np.flatnonzero(row) for row in adjacency]
        self._pairs = search.pair_array()
        self._union = search.pool == "union"
        self._limit = search.max_cond_size
        self._positions: dict[tuple[int, int], IndexArray] = {}

    def sizes(self, group: int) -> range:
        """Conditioning sizes that the pair has candidates of."""
        largest = max((pool.size for pool in self._pools(group)), default=0)
        return range((largest if self._limit is None else min(largest, self._limit)) + 1)

    def count(self, group: int, size: int) -> int:
        """Number of candidate sets of one size."""
        first, *rest = self._pools(group)
        total = math.comb(first.size, size)
        for pool in rest:
            common = np.intersect1d(first, pool, assume_unique=True).size
            total += math.comb(pool.size, size) - math.comb(common, size)
        return total

    def total(self, group: int) -> int:
        """Number of candidate sets of all sizes."""
        return sum(self.count(group, size) for size in self.sizes(group))

    def sets(self, group: int, size: int) -> IndexArray:
        """Candidate sets of one size, shape (K, size)."""
        first, *rest = self._pools(group)
        chosen = first[self._choose(first.size, size)]
        for pool in rest:
            more = pool[self._choose(pool.size, size)]
            seen = np.isin(pool, first)[self._choose(pool.size, size)].all(axis=1)
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
