"""Outcomes of independence tests are cached by keys that ignore the order of x and y and of S.

A site caches outcomes so that none is computed twice. A coordinator caches them so that none is
asked for twice: the difference of two sums over different sites would disclose single sites.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatMatrix, IndexArray, PositionRows

Keys = NDArray[np.bytes_ | np.uint64]
"""Integers, which sort fast, where the positions of a test fit 64 bits; else byte strings."""

POSITION_BITS = 16
KEY_BITS = 64


def ordered_tests(rows: PositionRows | IndexArray) -> IndexArray:
    """Sort tests (x, y, s1, ..., sl) so that x < y and S ascends, shape (B, 2 + l)."""
    return np.column_stack([np.sort(rows[:, :2], axis=1), np.sort(rows[:, 2:], axis=1)])


def keys_of_tests(rows: PositionRows | IndexArray, bits: int = POSITION_BITS) -> Keys:
    """Compute one key per test (x, y, s1, ..., sl), the same for every order of x and y and of S.

    Keys are distinct among rows of one width; for several widths see `keys_of_any_width`.
    """
    return position_keys(ordered_tests(rows), bits)


def position_keys(rows: PositionRows | IndexArray, bits: int = POSITION_BITS) -> Keys:
    """Compute one key per row of positions, distinct among rows of one width."""
    if rows.shape[1] * bits > KEY_BITS:
        packed = np.ascontiguousarray(rows, dtype=">u2").view(f"S{2 * rows.shape[1]}")
        return packed[:, 0]
    keys = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        keys <<= np.uint64(bits)
        keys |= column.astype(np.uint64)
    return keys


def keys_of_any_width(rows: IndexArray) -> list[tuple[int, int | bytes]]:
    """Compute one key per test, distinct among rows of any width."""
    return [(rows.shape[1], key) for key in keys_of_tests(rows).tolist()]


def rows_of_keys(keys: Keys, size: int) -> PositionRows:
    """Invert `keys_of_tests` of the default bits, shape (B, 2 + size)."""
    width = 2 + size
    if width * POSITION_BITS > KEY_BITS:
        return np.frombuffer(keys.tobytes(), dtype=">u2").astype(np.uint16).reshape(-1, width)
    shifts = POSITION_BITS * np.arange(width - 1, -1, -1, dtype=np.uint64)
    return (keys.astype(np.uint64)[:, None] >> shifts).astype(np.uint16)


class OutcomeCache:
    """An `OutcomeCache` stores ``columns`` numbers by key, in sorted runs, merged as they grow."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._runs: list[tuple[Keys, FloatMatrix]] = []

    @property
    def nbytes(self) -> int:
        """The number of bytes that the cache takes."""
        return sum(keys.nbytes + values.nbytes for keys, values in self._runs)

    def find(self, keys: Keys) -> tuple[FloatMatrix, BoolVector]:
        """Look up the numbers of keys, shape (B, C), and whether each is cached, shape (B,)."""
        values = np.zeros((len(keys), self._columns))
        cached = np.zeros(len(keys), dtype=bool)
        for run, table in self._runs:
            index = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            hit = run[index] == keys
            values[hit] = table[index[hit]]
            cached |= hit
        return values, cached

    def complete(self, keys: Keys, compute: Callable[[IndexArray], FloatMatrix]) -> FloatMatrix:
        """Look up numbers of keys, shape (B, C), and ``compute`` those of new ones, by index."""
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        values, cached = self.find(distinct)
        new = np.flatnonzero(~cached)
        if new.size:
            values[new] = compute(first[new])
            self.add(distinct[new], values[new])
        return values[inverse.ravel()]

    def add(self, keys: Keys, values: FloatMatrix) -> None:
        """Cache the numbers of new keys, which ascend and of which none is cached."""
        if not len(keys):
            return
        self._runs.append((keys, values))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            (first, a), (second, b) = self._runs[-2:]
            merged, table = np.concatenate([first, second]), np.concatenate([a, b])
            if first[-1] > second[0]:  # else all are in order already
                order = np.argsort(merged, kind="stable")
                merged, table = merged[order], table[order]
            self._runs[-2:] = [(merged, table)]
