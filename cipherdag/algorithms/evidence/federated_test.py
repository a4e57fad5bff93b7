"""Federated tests give p-values over all sites, and ask the sites only once for each test."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms.evidence.options import SECOND_ALPHA, EvidenceSettings, Method
from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.questions.encodings import by_block
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.question import Question
from cipherdag.statistics.outcome_cache import (
    OutcomeCache,
    keys_of_any_width,
    keys_of_tests,
    ordered_tests,
)

Tests = Sequence[IndexArray]
"""Tests by size l of S from 0: rows (x, y, s1, ..., sl), shape (B_l, 2 + l)."""
PValues = Generator[Question, FloatVector, list[FloatVector]]

AskBatch = Callable[[list[IndexArray]], Generator[Question, FloatVector, FloatVector]]

P_FLOOR = 0.01
"""Smallest p-value that is kept, as a share of alpha; smaller ones are raised to it."""
MAX_VALUES_PER_ROUND = 2_000_000
"""Values of a site's answer in one round, unless one table has more."""


class FederatedCITest(Protocol):
    """Tests of conditional independence over all sites.

    Attributes:
        lenient: The same tests at the level `SECOND_ALPHA`, where only verdicts are opened.
    """

    lenient: FederatedCITest | None

    def p_values(self, tests: Tests) -> PValues:
        """Compute the p-values of tests, shape (B_l,) by size; NaN where a test cannot be done.

        Tests are rows of distinct positions; the order of x and y and of S has no meaning. Those
        that were asked for before take no round.
        """

    def skipped_tests(self, triplets: IndexArray) -> BoolVector:
        """Return whether tests were not done though some site has rows for them, shape (B,).

        Such a test counts as dependent, so that an edge may remain since too few sites contribute.
        A test that no rows inform, as where S determines x, is not among them. ``triplets`` have x,
        y in either order and one member of S, shape (B, 3).
        """

    def effect(self, test: Sequence[int]) -> EffectSize | None:
        """Return the effect of x, y, s1, ..., sl, a test that was done, without asking the sites.

        None where the opened sums do not determine it.
        """


class CachedFederatedCITest(ABC):
    """Tests that ask the sites once for each distinct test, if the data can decide it.

    They can if some site has measured all its variables together, and none determines x or y. Other
    tests are not done; they count as dependent, so that they remove no edge.

    Attributes:
        kinds: The columns, where it asked for them.
        lenient: See `FederatedCITest`.
        tally: The number of distinct tests by the method that did them.
    """

    def __init__(self, settings: EvidenceSettings, kinds: ColumnKinds | None = None) -> None:
        self.kinds = kinds
        self.lenient: FederatedCITest | None = None
        self.tally: Counter[str] = Counter()
        self._settings = settings
        # a constant variable is independent of all others, unless it counts as untestable
        self._constant = np.nan if settings.spec.constant == "untestable" else 1.0
        self._caches: dict[int, OutcomeCache] = {}
        self._strengths = OutcomeCache(1)
        self._skipped_tests: set[tuple[int, ...]] = set()
        self._untestable_pairs: list[IndexArray] = []
        self._fallback: CachedFederatedCITest | None = None
        self._estimates: dict[int, OutcomeCache] = {}
        self._never_together: set[tuple[int, int | bytes]] = set()
        self._given_determining: set[tuple[int, int | bytes]] = set()

    @property
    def n_tests_by_method(self) -> dict[str, int]:
        """The number of distinct tests by the method that did them, or why they were not done."""
        undecidable: dict[str, int] = {
            Method.NEVER_TOGETHER: len(self._never_together),
            Method.DETERMINED: len(self._given_determining),
        }
        return {**self.tally, **{name: count for name, count in undecidable.items() if count}}

    def strengths(self, pairs: IndexArray) -> FloatVector:
        """Return the normal scores of marginal tests that were done, of pairs of shape (B, 2).

        They are 0 where not tested or strengths are not kept.
        """
        return self._strengths.find(keys_of_tests(pairs))[0][:, 0]

    def store_strengths(self, pairs: IndexArray, strengths: FloatVector) -> None:
        """Store the strengths of new pairs, shape (B,), where pairs are ranked."""
        if self._settings.ranked:
            _store(self._strengths, pairs, strengths[:, None])

    def skipped_tests(self, triplets: IndexArray) -> BoolVector:
        """See `FederatedCITest`; of a source with a fallback, the fallback alone skips tests.

        Tests of variables that were never measured together are skipped, too.
        """
        if self._fallback is not None:
            return self._fallback.skipped_tests(triplets)
        ordered = np.column_stack([np.sort(triplets[:, :2], axis=1), triplets[:, 2]])
        skipped = [tuple(row) in self._skipped_tests for row in ordered.tolist()]
        return np.array(skipped, dtype=bool) | ~self._settings.measured.together(triplets)

    def record_skipped(self, rows: IndexArray) -> None:
        """Record tests x < y, s1, ..., sl that were not done, shape (B, 2 + l)."""
        for x, y, *given in rows.tolist():
            self._skipped_tests.update((x, y, member) for member in given)

    def untestable_pairs(self) -> IndexArray:
        """Return pairs that count as marginally independent though they could not be tested.

        They are x < y, shape (B, 2), and include the pairs of the fallback.
        """
        none = np.zeros((0, 2), dtype=np.int64)
        others = none if self._fallback is None else self._fallback.untestable_pairs()
        return np.concatenate([none, *self._untestable_pairs, others])

    def resolve_constant_pairs(
        self, pairs: IndexArray, p_value: FloatVector, constant: BoolVector, method: str
    ) -> FloatVector:
        """Replace the p-values of tests of constant variables, and record the pairs among them.

        ``pairs`` are those of the marginal tests, which come first, shape (B_0, 2); ``constant``
        says which tests have a constant variable, and ``method`` how they are counted so far.
        """
        if not np.isnan(self._constant):
            self.record_constant_pairs(pairs[constant[: len(pairs)]], method)
        return np.where(constant, self._constant, p_value)

    def record_constant_pairs(self, pairs: IndexArray, method: str) -> None:
        """Record new pairs that count as independent, shape (B, 2), since they cannot be tested.

        ``method`` is how they are counted so far.
        """
        if len(pairs):
            self._untestable_pairs.append(np.sort(pairs, axis=1))
            self._count_constant(len(pairs), method)

    def ask_fallback(self, tests: Tests, method: str) -> PValues:
        """Compute p-values by the fallback.

        Its pairs of constant variables are counted under `Method.CONSTANT`, not ``method``.
        """
        assert self._fallback is not None, "a source without a fallback does its tests itself"
        before = self._fallback.tally[Method.CONSTANT]
        p_values = yield from self._fallback.p_values(tests)
        if constant := self._fallback.tally[Method.CONSTANT] - before:
            self._count_constant(constant, method)
        return p_values

    def _count_constant(self, count: int, method: str) -> None:
        self.tally[method] -= count
        self.tally[Method.CONSTANT] += count

    def store_estimates(
        self, tests: Sequence[IndexArray], estimates: FloatVector, p_values: FloatVector
    ) -> None:
        """Store estimates of dependent tests and their standard deviations, shape (B, 2).

        Those of independent tests, nearly all in a sparse graph, are never read. Estimates and
        p-values are of all tests, one size of S after the other.
        """
        usable = np.isfinite(estimates).all(axis=1) & ~(p_values > self._settings.spec.alpha)
        by_size = by_block(tests, usable), by_block(tests, estimates)
        for rows, chosen, estimate in zip(tests, *by_size, strict=True):
            size = rows.shape[1] - len(("x", "y"))
            cache = self._estimates.setdefault(size, OutcomeCache(2))
            _store(cache, rows[chosen], estimate[chosen])

    def estimate(self, test: Sequence[int]) -> tuple[float, float] | None:
        """Return a dependent test's estimate and its standard deviation, where they are stored."""
        row = np.array([test], dtype=np.int64)
        cache = self._estimates.get(len(test) - len(("x", "y")))
        if cache is None:
            return None
        estimates, cached = cache.find(keys_of_tests(row))
        return (float(estimates[0, 0]), float(estimates[0, 1])) if cached[0] else None

    def effect(self, test: Sequence[int]) -> EffectSize | None:
        """See `FederatedCITest`; None by default."""
        del test
        return None

    def p_values(self, tests: Tests) -> PValues:
        """See `FederatedCITest.p_values`."""
        measured, determined = self._settings.measured, self._settings.determined
        if measured.everywhere and not determined:
            return (yield from self._cached(tests))
        decidable = []
        for rows in tests:
            together, follows = measured.together(rows), determined.undone(rows)
            self._never_together.update(keys_of_any_width(rows[~together]))
            self._given_determining.update(keys_of_any_width(rows[together & follows]))
            decidable.append(together & ~follows)
        asked = [rows[chosen] for rows, chosen in zip(tests, decidable, strict=True)]
        p_values = [np.full(len(rows), np.nan) for rows in tests]
        answers = yield from self._cached(asked)
        for p_value, chosen, answer in zip(p_values, decidable, answers, strict=True):
            p_value[chosen] = answer
        return p_values

    def _cached(self, tests: Tests) -> PValues:
        keys = [keys_of_tests(rows) for rows in tests]
        new: list[IndexArray] = []
        new_keys = []
        for size, (rows, block) in enumerate(zip(tests, keys, strict=True)):
            cache = self._caches.setdefault(size, OutcomeCache(1))
            distinct, first = np.unique(block, return_index=True)
            fresh = ~cache.find(distinct)[1]
            new_keys.append(distinct[fresh])
            new.append(ordered_tests(rows[first[fresh]]))
        if any(len(rows) for rows in new):
            p_values = yield from self._ask(new)
            for size, (block, p_value) in enumerate(zip(new_keys, p_values, strict=True)):
                self._caches[size].add(block, p_value[:, None])
        return [self._caches[size].find(block)[0][:, 0] for size, block in enumerate(keys)]

    @abstractmethod
    def _ask(self, tests: Tests) -> PValues:
        """Ask for the p-values of distinct new tests, each with x < y and S ascending."""


def batches(
    blocks: Sequence[IndexArray], values: Sequence[FloatVector]
) -> Iterator[list[IndexArray]]:
    """Cut blocks of rows into rounds of about `MAX_VALUES_PER_ROUND`; ``values`` of every row."""
    if not any(map(len, blocks)):
        return
    before = np.cumsum(np.concatenate(values)) - np.concatenate(values)
    numbers = by_block(blocks, before // MAX_VALUES_PER_ROUND)
    for turn in np.unique(np.concatenate(numbers)).tolist():
        yield [rows[number == turn] for rows, number in zip(blocks, numbers, strict=True)]


def in_batches(tests: Tests, values: Sequence[FloatVector], ask: AskBatch) -> PValues:
    """Ask for the p-values of tests in rounds of about `MAX_VALUES_PER_ROUND`.

    Each test asks for so many ``values``, shape (B_l,); ``ask`` asks for the p-values of some of
    the tests, one size after the other.
    """
    parts: list[list[FloatVector]] = [[] for _ in tests]
    for piece in batches(tests, values):
        p_values = yield from ask(piece)
        for part, p_value in zip(parts, by_block(piece, p_values), strict=True):
            part.append(p_value)
    return [np.concatenate([np.zeros(0), *part]) for part in parts]


def _store(cache: OutcomeCache, rows: IndexArray, numbers: NDArray[np.float64]) -> None:
    """Store numbers of new tests, in any order."""
    keys = keys_of_tests(rows)
    order = np.argsort(keys)
    cache.add(keys[order], numbers[order])


def bracketed_p_values(source: FederatedCITest, tests: Tests, alpha: float) -> PValues:
    """Compute p-values, or where only verdicts are opened, values that stand for them.

    Such a value is the geometric midpoint of the interval that the verdicts imply; the interval of
    a dependent test is from `P_FLOOR` times alpha to alpha. Independent tests are asked for again
    at the second level, which takes further rounds. ``alpha`` is the level of the source.
    """
    p_values = yield from source.p_values(tests)
    if source.lenient is None:
        return p_values
    level = max(SECOND_ALPHA, alpha)
    second = [verdict[verdict > 0] for verdict in p_values]
    if level > alpha:
        again = [rows[verdict > 0] for rows, verdict in zip(tests, p_values, strict=True)]
        second = yield from source.lenient.p_values(again)
    grades = []
    for first, clear in zip(p_values, second, strict=True):
        grade = np.where(np.isnan(first), np.nan, alpha * math.sqrt(P_FLOOR))
        grade[first > 0] = np.where(clear > 0, math.sqrt(level), math.sqrt(alpha * level))
        grades.append(grade)
    return grades
