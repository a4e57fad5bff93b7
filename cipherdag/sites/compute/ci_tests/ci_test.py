"""Base classes of the conditional-independence tests over one site's data.

Batches of tests come in, and arrays of their outcomes go out. To add a test, write a class in this
folder and decorate it with `computes(name)`, a name listed in `cipherdag.questions.ci_tests`.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray
from cipherdag.errors import NotNumericError, ParameterError
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.statistics.outcome_cache import Keys, OutcomeCache, position_keys

N_COLUMNS = 5  # p-value, statistic, degrees of freedom, dependence, rows


@dataclass(frozen=True, slots=True)
class CITestResult:
    """Outcomes of a batch of B tests, as arrays of shape (B,); NaN where a test was not done.

    ``p_value`` counts as dependent then. ``statistic`` is G2, Pearson's chi-square, Fisher's z or
    another test's. ``dof`` is NaN for Fisher's z, too. ``dependence`` is the strength of it: G2 (or
    chi-square), or the absolute partial correlation. ``rows`` were used, after test-wise deletion
    of missing values; their number never leaves a site.
    """

    p_value: FloatVector
    statistic: FloatVector
    dof: FloatVector
    dependence: FloatVector
    rows: IndexArray

    @classmethod
    def of(cls, outcomes: FloatMatrix) -> CITestResult:
        """Makes the result from a matrix of its columns, shape (B, N_COLUMNS)."""
        p_value, statistic, dof, dependence, rows = np.ascontiguousarray(outcomes.T)
        return cls(p_value, statistic, dof, dependence, rows.astype(np.int64))


class ColumnData(Protocol):
    """The part of a site's table that a test needs; a table also knows databases' passwords."""

    @property
    def codes(self) -> NDArray[np.integer] | None: ...

    @property
    def cardinalities(self) -> tuple[int, ...]: ...
    @property
    def ordered(self) -> tuple[int, ...]: ...
    @property
    def rows(self) -> int: ...

    def numbers(self) -> NDArray[np.float64]:
        """Returns codes and values as numbers, shape (n, p), NaN where missing."""

    def scored_numbers(self) -> NDArray[np.float64]:
        """Returns `numbers`, where three or more categories count as the numbers they name."""


class CITest(Protocol):
    """A conditional-independence test evaluates batches over one site's data; it may cache."""

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> CITestResult:
        """Tests x[b] against y[b] given the variables given[b], for every b.

        Positions x and y have shape (B,), and ``given`` (B, l): one conditioning size l per call,
        in any order, without repeats and without x[b] or y[b].
        """


@dataclass(frozen=True, slots=True)
class TestBatch:
    """A batch holds B tests in canonical form: x < y, (B,) each, and ascending sets, (B, l)."""

    __test__ = False  # pytest takes every class named Test... for a test case

    x: IndexArray
    y: IndexArray
    given: IndexArray

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: IndexArray) -> TestBatch:
        """Selects the tests with these indices."""
        return TestBatch(self.x[index], self.y[index], self.given[index])

    def keys(self, n_variables: int) -> Keys:
        """Returns keys that are equal for equal tests, shape (B,)."""
        rows = np.column_stack([self.x, self.y, self.given])
        return position_keys(rows, max(n_variables - 1, 1).bit_length())


class CachedCITest(ABC):
    """A test that caches the outcome of every test until ``cache_bytes`` is reached.

    Outcomes are functions of the test alone, so the cache changes the time that a batch takes and
    nothing else.

    ``cache_bytes`` None caches nothing.
    """

    def __init__(self, n_variables: int, *, cache_bytes: int | None) -> None:
        self.n_variables = n_variables
        self._cache_bytes = cache_bytes
        self._caches: dict[int, OutcomeCache] = {}

    @classmethod
    @abstractmethod
    def of_table(cls, table: ColumnData, spec: CITestSpec, name: str, device: str) -> Self:
        """Makes the test of a site's table that ``spec`` asks for, computed as ``name``."""

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> CITestResult:
        """See `CITest.evaluate`; raises as `canonical`."""
        tests = canonical(x, y, given, n_variables=self.n_variables)
        if self._cache_bytes is None or not len(tests):
            return CITestResult.of(self._compute(tests))
        size = tests.given.shape[1]
        cache = self._caches.setdefault(size, OutcomeCache(N_COLUMNS))
        keys = tests.keys(self.n_variables)
        outcomes = cache.complete(keys, lambda new: self._compute(tests.take(new)))
        if sum(each.nbytes for each in self._caches.values()) > self._cache_bytes:
            self._caches.clear()
        return CITestResult.of(outcomes)

    @abstractmethod
    def _compute(self, tests: TestBatch) -> FloatMatrix:
        """Computes outcomes of distinct tests, shape (B, N_COLUMNS), as `CITestResult` has them."""


T = TypeVar("T", bound=type[CachedCITest])
_CLASSES: dict[str, type[CachedCITest]] = {}


def computes(*names: str) -> Callable[[T], T]:
    """Registers a class of tests under the names that it computes."""

    def enter(test: T) -> T:
        _CLASSES.update(dict.fromkeys(names, test))
        return test

    return enter


def ci_test_class(name: str) -> type[CachedCITest]:
    """Returns the class in this folder that computes the tests of a name.

    Modules are imported until one registers the name, first the one named so: some load torch.
    """
    folder = __package__ or ""
    modules = pkgutil.iter_modules(importlib.import_module(folder).__path__)
    for module in sorted(modules, key=lambda module: not name.startswith(module.name)):
        if name not in _CLASSES:
            importlib.import_module(f"{folder}.{module.name}")
    return _CLASSES[name]


def canonical(x: IndexArray, y: IndexArray, given: IndexArray, *, n_variables: int) -> TestBatch:
    """A batch of tests in canonical form; ParameterError for odd shapes, positions or repeats."""
    x, y, given = (_positions(array, n_variables) for array in (x, y, given))
    if x.ndim != 1 or y.shape != x.shape or given.ndim != 2 or len(given) != len(x):  # noqa: PLR2004
        raise ParameterError("x and y must have shape (B,) and given must have shape (B, l)")
    if (x == y).any() or any(((s == x) | (s == y)).any() for s in given.T):
        raise ParameterError("a test names one variable twice")
    if (given[:, 1:] <= given[:, :-1]).any():
        given = np.sort(given, axis=1)
        if (given[:, 1:] == given[:, :-1]).any():
            raise ParameterError("a conditioning set names one variable twice")
    return TestBatch(np.minimum(x, y), np.maximum(x, y), given)


def _positions(values: IndexArray, n_variables: int) -> IndexArray:
    array = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ParameterError("positions must be integers")
    if array.min() < 0 or array.max() >= n_variables:
        raise ParameterError(f"positions must lie in 0..{n_variables - 1}")
    return array.astype(np.int64, copy=False)


def check_numbers(values: NDArray[np.float64]) -> None:
    """Raise ParameterError for no float64 matrix with entries, NotNumericError for infinities."""
    if values.ndim != 2 or 0 in values.shape or values.dtype != np.float64:  # noqa: PLR2004
        raise ParameterError("values must be a float64 matrix with at least one row and column")
    if np.isinf(values).any():
        raise NotNumericError("a value is infinite")


def half(memory_bytes: int) -> int:
    """Returns half of a test's memory, for batches and for the cache; ParameterError if none."""
    if memory_bytes <= 0:
        raise ParameterError("memory_bytes must be positive")
    return memory_bytes // 2


def not_done(rows: IndexArray) -> FloatMatrix:
    """Returns outcomes of tests over ``rows`` that were not done, shape (B, N_COLUMNS)."""
    outcomes = np.full((N_COLUMNS, len(rows)), np.nan).T  # `CITestResult.of` wants them by column
    outcomes[:, 4] = rows
    return outcomes
