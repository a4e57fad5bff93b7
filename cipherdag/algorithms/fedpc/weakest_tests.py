"""The test of largest p-value of every pair, in half a square."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray

Pair = tuple[int, int]

NO_SET = 2
"""Columns of tests given nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class TestedPairs:
    """Pairs x < z, ascending, each with its set and p-value; made as they are gone through.

    Attributes:
        x: The one position, shape (K,).
        z: The other, shape (K,).
        p_values: Shape (K,).
        sets: Those that are not empty.
    """

    __test__ = False  # pytest takes every class named Test... for a test case

    x: IndexArray
    z: IndexArray
    p_values: FloatVector
    sets: dict[Pair, tuple[int, ...]]

    def __iter__(self) -> Iterator[tuple[Pair, tuple[int, ...], float]]:
        pairs = list(zip(self.x.tolist(), self.z.tolist(), strict=True))
        sets = map(self.sets.get, pairs, repeat(()))
        return zip(pairs, sets, self.p_values.tolist(), strict=True)


class WeakestTests:
    """Of each pair (x, z), x < z, the test of largest p-value, and its set; the first wins a tie.

    Of a pair that was separated it is the test that separated it; an edge that stayed stood every
    test, and its largest p-value says how narrowly (pMax of the R package pcalg).

    Args:
        n_variables: Number of variables, p.
    """

    def __init__(self, n_variables: int) -> None:
        # of (x, z) at x * (2 * p - x - 1) / 2 + z - x - 1: half of a square
        self._n_variables = n_variables
        self._p_values = np.full(n_variables * (n_variables - 1) // 2, -np.inf)
        self._sets: dict[Pair, tuple[int, ...]] = {}

    def hear(self, rows: IndexArray, p_values: FloatVector) -> None:
        """Take tests, shape (B, 2 + l), and their p-values; NaN says nothing."""
        best = np.flatnonzero(~np.isnan(p_values))
        x, z = np.sort(rows[best, :2], axis=1).T
        pair = self._places(x, z)
        if (pair[1:] <= pair[:-1]).any():  # else every pair has one test, as given nothing
            order = np.lexsort((-best, p_values[best], pair))
            last = order[np.append(np.diff(pair[order]) > 0, True)[: len(order)]]
            best, x, z, pair = best[last], x[last], z[last], pair[last]
        better = p_values[best] > self._p_values[pair]
        best, x, z = best[better], x[better], z[better]
        self._p_values[pair[better]] = p_values[best]
        if rows.shape[1] > NO_SET or self._sets:
            pairs = zip(x.tolist(), z.tolist(), strict=True)
            self._sets.update(zip(pairs, map(tuple, np.sort(rows[best, 2:]).tolist()), strict=True))

    def of(self, pairs: BoolMatrix) -> TestedPairs:
        """Those of these pairs that were tested, shape (p, p)."""
        x, z = np.nonzero(np.triu(pairs, k=1))
        p_values = self._p_values[self._places(x, z)]
        tested = p_values > -np.inf
        return TestedPairs(x[tested], z[tested], p_values[tested], dict(self._sets))

    def summed(self) -> FloatVector:
        """The p-values of every variable's pairs, added up, shape (p,).

        Summed exactly: the order of the variables is nothing to it.
        """
        found = np.zeros(self._n_variables)
        variables = np.arange(self._n_variables)
        for v in variables.tolist():
            before, itself, after = np.split(variables, [v, v + 1])
            places = [self._places(before, itself), self._places(itself, after)]
            own = self._p_values[np.concatenate(places)]
            found[v] = math.fsum(own[own > -np.inf].tolist())
        return found

    def _places(self, x: IndexArray, z: IndexArray) -> IndexArray:
        """Where the pairs x < z stand."""
        return x * (2 * self._n_variables - x - 1) // 2 + z - x - 1
