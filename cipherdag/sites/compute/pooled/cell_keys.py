"""Deterministic noise keyed by a site's secret and a digest of its rows: the cell-key method.

Asking again discloses a perturbed number no more exactly, and a run that is gone through a
second time tells the same.

Leaks:
    Nothing: they follow from all rows of the site together and from its key, which stay there.
    Without a key, as in a simulation, whoever tries the right rows foretells them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.sites.table.rows.digest import (
    Digested,
    Keyed,
    Renamed,
    first_met,
    rows_digest,
    unkeyed,
)

VARIANCE_JITTER = 0.1
"""Share by which variances and weights of rows are multiplied at most."""


class CellKeys:
    """Uniform pseudo-random numbers that follow from the rows of a table and a site's key.

    They are the same in whichever order columns and categories come.

    Args:
        codes: Codes, shape (n, p), negative where missing; None of numbers.
        values: Numbers, shape (n, p), NaN where missing; None of categories.
        keyed: The site's key.
    """

    def __init__(
        self,
        codes: NDArray[np.integer] | None,
        values: NDArray[np.float64] | None,
        keyed: Keyed = unkeyed,
    ) -> None:
        ranks: list[IndexArray] = []
        met: list[int] = []
        self._columns: list[bytes] = []
        width = next(array.shape[1] for array in (codes, values) if array is not None)
        for variable in range(width):
            parts: list[Digested] = []
            if codes is not None:
                least, first = first_met(codes[:, variable])
                when = first[-least:]
                ranks.append(_ranks(when))
                met.append(int((when < len(codes)).sum()))
                # where a category is first met names it
                parts.append(Renamed(codes[:, variable], least, first))
            if values is not None:
                parts.append(values[:, variable])
            self._columns.append(rows_digest(b"cipherdag column", *parts))
        self._ranks, self._met = _in_rows(ranks), np.array(met, dtype=np.int64)
        ordered = sorted(self._columns)
        self._keyed = keyed
        self._digest = hashlib.sha256(b"cipherdag blur" + b"".join(ordered)).digest()

    def column(self, variable: int) -> bytes:
        """The digest that stands for a variable in a key."""
        return self._columns[variable]

    def met(self, variables: int | IndexArray) -> IndexArray:
        """The number of categories of each variable in the rows, in the shape of ``variables``."""
        return self._met[variables]

    def sign(self, *variables: int) -> float:
        """-1 where the first of two categories is met second, once for each of these; else 1.

        What turns round with the names of two categories is moved the other way by it.
        """
        turned = [v for v in variables if self._met[v] == 2 and self._ranks[v][0] != 0]  # noqa: PLR2004
        return -1.0 if len(turned) % 2 else 1.0

    def ranks(self, variables: int | IndexArray, categories: int) -> IndexArray:
        """The rank of every category by its first row, shape (..., categories)."""
        ranks = self._ranks[variables][..., :categories]
        beyond = np.arange(ranks.shape[-1], categories)
        unmet = np.broadcast_to(beyond, (*ranks.shape[:-1], len(beyond)))
        return np.concatenate([ranks, unmet], axis=-1)

    def __repr__(self) -> str:
        """Without the digest, from which the numbers follow."""
        return "CellKeys()"

    def noise(self, keys: Sequence[bytes], sizes: Sequence[int]) -> tuple[FloatVector, FloatVector]:
        """Noise for the parts of tests; equal keys always have equal noise.

        Returns:
            What variances are multiplied by, shape (K,), and of every key as many numbers from -1
            to 1 as asked for, one after the other.
        """
        state = self._keyed(self._digest) + b"each"
        asked = zip(keys, sizes, strict=True)
        drawn = [hashlib.shake_128(state + key).digest(4 * (2 + size)) for key, size in asked]
        numbers = (np.frombuffer(b"".join(drawn), dtype="<u4") + 0.5) / 2.0**31 - 1.0
        first = np.cumsum([0, *(2 + size for size in sizes)])[:-1]
        spreads = (1.0 + VARIANCE_JITTER * numbers[first[:, None] + np.arange(2)]).prod(axis=1)
        return spreads, np.delete(numbers, np.concatenate([first, first + 1]))

    def weights(self, rows: int) -> FloatVector:
        """Random weights of rows, shape (rows,): weighted sums do not disclose whole counts."""
        return 1.0 + VARIANCE_JITTER * self.uniform(b"row weights", (rows,))

    def uniform(self, about: bytes, shape: tuple[int, ...]) -> FloatVector:
        """Uniform numbers from -1 to 1 for one purpose, of this shape."""
        entropy = hashlib.sha256(self._keyed(self._digest) + about).digest()
        rng = np.random.default_rng(int.from_bytes(entropy, "big"))
        return rng.uniform(-1.0, 1.0, shape)


def _ranks(when: IndexArray) -> IndexArray:
    """The rank of every code by its first row."""
    ranks = np.empty(len(when), dtype=np.int64)
    ranks[np.argsort(when, kind="stable")] = np.arange(len(when))
    return ranks


def _in_rows(ranks: Sequence[IndexArray]) -> IndexArray:
    """Ranks of all variables, each followed by the numbers that it has not, shape (p, widest)."""
    table = np.tile(np.arange(max(map(len, ranks), default=0)), (len(ranks), 1))
    for row, each in zip(table, ranks, strict=True):
        row[: len(each)] = each
    return table
