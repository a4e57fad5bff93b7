"""Batches of conditional-independence tests in canonical form, and a bounded cache of outcomes.

Two tests are one test if they differ only in the order of x and y or in the order of the
conditioning set, so both are brought into one form before anything is computed or looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, IndexArray
from cipherdag.errors import ParameterError
from cipherdag.sites.compute.ci_tests.ci_test import Evidence

N_COLUMNS = 5  # p-value, statistic, degrees of freedom, dependence, rows
KEY_LIMIT = 2**63
DEFAULT_MEMORY = 256 * 2**20
FIRST_SLOTS = 1024
BYTES_PER_SLOT = 8 * (1 + N_COLUMNS)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads consecutive keys


@dataclass(frozen=True, slots=True)
class TestBatch:
    """B tests in canonical form: x < y and every conditioning set ascending.

    Attributes:
        x: Smaller positions, shape (B,).
        y: Larger positions, shape (B,).
        given: Ascending positions, shape (B, l).
        key: One integer per distinct test, shape (B,); None where 63 bits are too few.
    """

    __test__ = False  # pytest takes every class named Test... for a test case

    x: IndexArray
    y: IndexArray
    given: IndexArray
    key: IndexArray | None

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: IndexArray) -> TestBatch:
        """The tests at these places of the batch."""
        key = None if self.key is None else self.key[index]
        return TestBatch(self.x[index], self.y[index], self.given[index], key)


def canonical(x: IndexArray, y: IndexArray, given: IndexArray, *, n_variables: int) -> TestBatch:
    """The batch in canonical form.

    Args:
        x: Positions, shape (B,).
        y: Positions, shape (B,).
        given: Positions, shape (B, l).
        n_variables: Positions lie in 0..n_variables-1.

    Raises:
        ParameterError: Shapes or types do not fit, a position is out of range, or a variable
            occurs twice in one test.
    """
    x, y, given = (_positions(array, n_variables) for array in (x, y, given))
    if x.ndim != 1 or y.shape != x.shape or given.ndim != 2 or len(given) != len(x):  # noqa: PLR2004
        raise ParameterError("x and y must have shape (B,) and given must have shape (B, l)")
    if (x == y).any() or any(((s == x) | (s == y)).any() for s in given.T):
        raise ParameterError("a test names one variable twice")
    if (given[:, 1:] <= given[:, :-1]).any():
        given = np.sort(given, axis=1)
        if (given[:, 1:] == given[:, :-1]).any():
            raise ParameterError("a conditioning set names one variable twice")
    smaller, larger = np.minimum(x, y), np.maximum(x, y)
    columns = (smaller, larger, *given.T)
    return TestBatch(smaller, larger, given, pack(columns, n_variables))


def pack(columns: tuple[IndexArray, ...], n_variables: int) -> IndexArray | None:
    """One positive integer per row of positions, or None where 63 bits are too few.

    Positions become the digits 1..n_variables, so rows of different lengths differ as well.
    """
    if (n_variables + 1) ** len(columns) > KEY_LIMIT:
        return None
    key = columns[0] + 1
    for column in columns[1:]:
        key *= n_variables + 1
        key += column
        key += 1
    return key


def _positions(values: IndexArray, n_variables: int) -> IndexArray:
    array = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ParameterError("positions must be integers")
    if array.min() < 0 or array.max() >= n_variables:
        raise ParameterError(f"positions must lie in 0..{n_variables - 1}")
    return array.astype(np.int64, copy=False)


class EvidenceCache:
    """Outcomes of tests over one data set, found by key in a hash table with linear probing.

    The table doubles as it fills; at its memory bound it starts anew. Outcomes are functions of
    the test alone, so what is cached changes the time that a batch takes and nothing else.

    Args:
        memory_bytes: Bound on the table.
    """

    def __init__(self, *, memory_bytes: int) -> None:
        affordable = max(memory_bytes // BYTES_PER_SLOT, 2)
        self._max_slots = 1 << (affordable.bit_length() - 1)
        self._clear(min(FIRST_SLOTS, self._max_slots))

    def evaluate(self, tests: TestBatch, compute: Callable[[TestBatch], FloatMatrix]) -> Evidence:
        """Evidence of a batch, of which ``compute`` yields what is not known yet.

        Args:
            tests: The batch in canonical form.
            compute: Outcomes of a batch, shape (B, N_COLUMNS), in the order of `Evidence`.
        """
        if len(tests) == 0 or tests.key is None:
            return evidence_of(compute(tests))
        slots, known = self._find(tests.key)
        if not known.any():
            outcomes = compute(tests)
            self._store(tests.key, slots, outcomes)
            return evidence_of(outcomes)
        outcomes = self._outcomes[slots]
        new = np.flatnonzero(~known)
        if new.size:
            unknown = tests.take(new)
            outcomes[new] = compute(unknown)
            self._store(tests.key[new], slots[new], outcomes[new])
        return evidence_of(outcomes)

    def _clear(self, n_slots: int) -> None:
        self._keys = np.zeros(n_slots, dtype=np.int64)
        self._outcomes = np.empty((n_slots, N_COLUMNS))
        self._used = 0

    def _find(self, key: IndexArray) -> tuple[IndexArray, BoolVector]:
        """For every key its slot, or the empty slot where probing ended, and which of the two."""
        mask = len(self._keys) - 1
        shift = np.uint64(64 - mask.bit_length())
        slots = ((key.view(np.uint64) * GOLDEN) >> shift).view(np.int64)
        occupants = self._keys[slots]
        known = occupants == key
        pending = np.flatnonzero(~known & (occupants != 0))
        while pending.size:
            slots[pending] = probed = (slots[pending] + 1) & mask
            occupants = self._keys[probed]
            found = occupants == key[pending]
            known[pending[found]] = True
            pending = pending[~found & (occupants != 0)]
        return slots, known

    def _store(self, key: IndexArray, slots: IndexArray, outcomes: FloatMatrix) -> None:
        """Insert new keys; a key may occur more than once."""
        if 2 * (self._used + len(key)) > len(self._keys):
            key, outcomes = self._make_room(key, outcomes)
            slots = self._find(key)[0]
        mask = len(self._keys) - 1
        self._used += len(key)
        pending = np.arange(len(key))
        while pending.size:
            probed = slots[pending]
            empty = self._keys[probed] == 0
            self._keys[probed[empty]] = key[pending[empty]]
            mine = self._keys[probed] == key[pending]
            self._outcomes[probed[mine]] = outcomes[pending[mine]]
            pending = pending[~mine]
            slots[pending] = (slots[pending] + 1) & mask

    def _make_room(self, key: IndexArray, outcomes: FloatMatrix) -> tuple[IndexArray, FloatMatrix]:
        """Grow the table, or empty it at its bound; returns what of the newcomers fits."""
        occupied = np.flatnonzero(self._keys)
        needed = 2 * (occupied.size + len(key))
        if needed <= self._max_slots:
            wanted = min(1 << (2 * needed - 1).bit_length(), self._max_slots)
            old_keys, old_outcomes = self._keys[occupied], self._outcomes[occupied]
            self._clear(wanted)
            self._store(old_keys, self._find(old_keys)[0], old_outcomes)
            return key, outcomes
        self._clear(self._max_slots)
        fits = self._max_slots // 2
        return key[:fits], outcomes[:fits]


def evidence_of(outcomes: FloatMatrix) -> Evidence:
    """Evidence from the columns of outcomes, shape (B, N_COLUMNS)."""
    p_value, statistic, dof, dependence, rows = np.ascontiguousarray(outcomes.T)
    return Evidence(p_value, statistic, dof, dependence, rows.astype(np.int64))
