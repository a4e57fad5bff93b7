"""The part that all conditional-independence tests share: canonical batches and kept outcomes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from cipherdag.arrays import FloatMatrix, IndexArray
from cipherdag.errors import ParameterError
from cipherdag.sites.compute.ci_tests.cache import (
    N_COLUMNS,
    EvidenceCache,
    TestBatch,
    canonical,
    evidence_of,
)
from cipherdag.sites.compute.ci_tests.ci_test import Evidence


class CachedTest(ABC):
    """A test over one site's data that computes every batch once.

    Args:
        n_variables: Number of variables, addressed by position 0..n_variables-1.
        cache_bytes: Bound on the outcomes that are kept; None keeps none.
    """

    def __init__(self, n_variables: int, *, cache_bytes: int | None) -> None:
        self.n_variables = n_variables
        self._cache = None if cache_bytes is None else EvidenceCache(memory_bytes=cache_bytes)

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> Evidence:
        """See `CITest.evaluate`.

        Raises:
            ParameterError: Shapes or types do not fit, a position is out of range, or a variable
                occurs twice in one test.
        """
        tests = canonical(x, y, given, n_variables=self.n_variables)
        if self._cache is None:
            return evidence_of(self._compute(tests))
        return self._cache.evaluate(tests, self._compute)

    @abstractmethod
    def _compute(self, tests: TestBatch) -> FloatMatrix:
        """Outcomes of a batch, shape (B, N_COLUMNS), in the order of `Evidence`."""


def half(memory_bytes: int) -> int:
    """Half of the memory of a test, of which batches have one half and the cache the other.

    Raises:
        ParameterError: There is none.
    """
    if memory_bytes <= 0:
        raise ParameterError("memory_bytes must be positive")
    return memory_bytes // 2


def not_done(rows: IndexArray) -> FloatMatrix:
    """Outcomes of tests that used so many rows each and are not done, shape (B, N_COLUMNS)."""
    outcomes = np.full((N_COLUMNS, len(rows)), np.nan).T  # `evidence_of` wants them by column
    outcomes[:, 4] = rows
    return outcomes
