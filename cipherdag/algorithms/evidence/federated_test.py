"""P-values over all sites: what every source of them does, and that nothing is asked twice."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms.evidence.options import SECOND_ALPHA, EvidenceSettings
from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.graphs.edge_evidence import Effect
from cipherdag.graphs.relations import Determined
from cipherdag.questions.encodings import by_block
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.presence import Measured
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

NEVER_TOGETHER = "never measured together: none"
DETERMINED = "a variable follows from those given: none"
CONSTANT = "varies at too few sites"
"""Of pairs given nothing: too few sites can test them, and they count as independent."""
NOT_DONE = "no degrees of freedom or too few sites: none"
P_FLOOR = 0.01
"""Share of alpha below which p-values are all alike, where they are weighed."""
MAX_VALUES_PER_ROUND = 2_000_000
"""Values that a site answers in a round, unless one table has more."""


class FederatedCITest(Protocol):
    """Answers tests with p-values over all sites.

    Attributes:
        kinds: The columns, where it asked for them.
        lenient: The same tests at the level `SECOND_ALPHA`, where verdicts alone are found.
    """

    kinds: ColumnKinds | None
    lenient: FederatedCITest | None

    def p_values(self, tests: Tests) -> PValues:
        """The p-values of tests, shape (B_l,) by size; NaN where a test cannot be done.

        Args:
            tests: Triplets of distinct positions, the order of x and y and of S without meaning.

        Returns:
            Rounds: as the source says; none for tests asked before.
        """

    def strengths(self, pairs: IndexArray) -> FloatVector:
        """See `CachedFederatedCITest.strengths`."""

    def skipped_tests(self, triplets: IndexArray) -> BoolVector:
        """See `CachedFederatedCITest.skipped_tests`."""

    def untestable_pairs(self) -> IndexArray:
        """See `CachedFederatedCITest.untestable_pairs`."""

    def effect(self, test: Sequence[int]) -> Effect | None:
        """See `CachedFederatedCITest.effect`."""

    @property
    def n_tests_by_method(self) -> Mapping[str, int]:
        """How many distinct tests were done in which way."""


class CachedFederatedCITest(ABC):
    """Gives every distinct test to a source's own method once, and answers repeats.

    Args:
        kinds: The columns, where it asked for them.
        settings: Which strengths and estimates anyone reads, and what constants are taken for.

    Attributes:
        n_tests_by_method: How many distinct tests were done in which way.
        kinds: The columns, where it asked for them.
        lenient: See `FederatedCITest`.
    """

    def __init__(
        self, kinds: ColumnKinds | None = None, settings: EvidenceSettings | None = None
    ) -> None:
        self.kinds = kinds
        self._ranked = settings is None or settings.ranked
        self._alpha = 1.0 if settings is None else settings.spec.alpha
        # a variable that does not vary is independent of all, unless it is to be no test
        untestable = settings is not None and settings.spec.constant == "untestable"
        self._constant = np.nan if untestable else 1.0
        self.lenient: FederatedCITest | None = None
        self.n_tests_by_method: Counter[str] = Counter()
        self._caches: dict[int, OutcomeCache] = {}
        self._strengths = OutcomeCache(1)
        self._skipped_tests: set[tuple[int, ...]] = set()
        self._untestable_pairs: list[IndexArray] = []
        self._fallback: CachedFederatedCITest | None = None
        self._estimates: dict[int, OutcomeCache] = {}

    def strengths(self, pairs: IndexArray) -> FloatVector:
        """How dependent x and y are given nothing, as a normal score.

        0 where it was not tested, or the settings say that pairs are not ranked.

        Args:
            pairs: Pairs that were asked for, shape (B, 2).
        """
        return self._strengths.find(keys_of_tests(pairs))[0][:, 0]

    def store_strengths(self, pairs: IndexArray, scores: FloatVector) -> None:
        """Remember the scores of new pairs, shape (B,), where pairs are ranked."""
        if self._ranked:
            _keep(self._strengths, pairs, scores[:, None])

    def skipped_tests(self, triplets: IndexArray) -> BoolVector:
        """Whether a test was not done though some rows have something to say of it.

        Such a test counts as dependent, so an edge may stand for want of sites alone. Where no rows
        say anything, as where S determines x, this is no question of how many there are.

        Args:
            triplets: x, y in either order and a member of S, which may have more, shape (B, 3).
        """
        ordered = np.column_stack([np.sort(triplets[:, :2], axis=1), triplets[:, 2]])
        return np.array([tuple(own) in self._skipped_tests for own in ordered.tolist()], dtype=bool)

    def record_skipped(self, rows: IndexArray) -> None:
        """Remember tests x < y, s1, ..., sl that were not done, shape (B, 2 + l)."""
        for x, y, *given in rows.tolist():
            self._skipped_tests.update((x, y, member) for member in given)

    def untestable_pairs(self) -> IndexArray:
        """Pairs that count as independent given nothing though no test of them could be made.

        Returns:
            x < y, shape (B, 2), those of sources that this one falls back to among them.
        """
        none = np.zeros((0, 2), dtype=np.int64)
        others = none if self._fallback is None else self._fallback.untestable_pairs()
        return np.concatenate([none, *self._untestable_pairs, others])

    def resolve_constant_pairs(
        self, pairs: IndexArray, p_value: FloatVector, constant: BoolVector, way: str
    ) -> FloatVector:
        """The p-values, and of tests of what does not vary those of `record_constant_pairs`.

        Args:
            pairs: Those given nothing, which come first, shape (B_0, 2).
            p_value: Of all tests, shape (B,).
            constant: Which are of what does not vary, shape (B,).
            way: What they are tallied as already.
        """
        if not np.isnan(self._constant):
            self.record_constant_pairs(pairs[constant[: len(pairs)]], way)
        return np.where(constant, self._constant, p_value)

    def record_constant_pairs(self, pairs: IndexArray, way: str) -> None:
        """Remember new pairs that no test of could be made, and n_tests_by_method them as such.

        Args:
            pairs: They count as independent, shape (B, 2).
            way: What they are tallied as already.
        """
        if len(pairs):
            self._untestable_pairs.append(np.sort(pairs, axis=1))
            self._count_constant(len(pairs), way)

    def ask_instead(self, tests: Tests, way: str) -> PValues:
        """The p-values of tests by the fallback; see `record_constant_pairs` of ``way``."""
        assert self._fallback is not None, "a source without a fallback does its tests itself"
        before = self._fallback.n_tests_by_method[CONSTANT]
        found = yield from self._fallback.p_values(tests)
        if constant := self._fallback.n_tests_by_method[CONSTANT] - before:
            self._count_constant(constant, way)
        return found

    def _count_constant(self, count: int, way: str) -> None:
        self.n_tests_by_method[way] -= count
        self.n_tests_by_method[CONSTANT] += count

    def store_estimates(
        self, tests: Sequence[IndexArray], estimates: FloatVector, p_values: FloatVector
    ) -> None:
        """Remember what `estimate` gives of new tests: a number and its deviation, shape (B, 2).

        Of tests that say independent, nearly all in a sparse graph, nobody asks for it.

        Args:
            tests: By size of S, shape (B_l, 2 + l) each.
            estimates: Of all of them, one size after the other.
            p_values: Theirs, shape (B,).
        """
        known = np.isfinite(estimates).all(axis=1) & ~(p_values > self._alpha)
        by_size = by_block(tests, known), by_block(tests, estimates)
        for rows, own, found in zip(tests, *by_size, strict=True):
            size = rows.shape[1] - len(("x", "y"))
            _keep(self._estimates.setdefault(size, OutcomeCache(2)), rows[own], found[own])

    def estimate(self, test: Sequence[int]) -> tuple[float, float] | None:
        """The number of a test that says dependent, and its standard deviation, if kept."""
        row = np.array([test], dtype=np.int64)
        cache = self._estimates.get(len(test) - len(("x", "y")))
        if cache is None:
            return None
        found, known = cache.find(keys_of_tests(row))
        return (float(found[0, 0]), float(found[0, 1])) if known[0] else None

    def effect(self, test: Sequence[int]) -> Effect | None:
        """The sign and size of the dependence in a test that was done; no round.

        Args:
            test: x, y, s1, ..., sl.

        Returns:
            None where the opened sums do not tell it, which is what a source does by default.
        """
        del test
        return None

    def p_values(self, tests: Tests) -> PValues:
        """See `FederatedCITest.p_values`."""
        keys = [keys_of_tests(rows) for rows in tests]
        new: list[IndexArray] = []
        unknown = []
        for size, (rows, own) in enumerate(zip(tests, keys, strict=True)):
            cache = self._caches.setdefault(size, OutcomeCache(1))
            distinct, first = np.unique(own, return_index=True)
            fresh = ~cache.find(distinct)[1]
            unknown.append(distinct[fresh])
            new.append(ordered_tests(rows[first[fresh]]))
        if any(len(rows) for rows in new):
            learnt = yield from self._ask(new)
            for size, (own, p_value) in enumerate(zip(unknown, learnt, strict=True)):
                self._caches[size].add(own, p_value[:, None])
        return [self._caches[size].find(own)[0][:, 0] for size, own in enumerate(keys)]

    @abstractmethod
    def _ask(self, tests: Tests) -> PValues:
        """The p-values of distinct tests not asked before, each x < y and S ascending."""


def batches(
    blocks: Sequence[IndexArray], values: Sequence[FloatVector]
) -> Iterator[list[IndexArray]]:
    """Blocks of rows cut into rounds of about `MAX_VALUES_PER_ROUND`; ``values`` of every row."""
    if not any(len(own) for own in blocks):
        return
    before = np.cumsum(np.concatenate(values)) - np.concatenate(values)
    numbers = by_block(blocks, before // MAX_VALUES_PER_ROUND)
    for turn in np.unique(np.concatenate(numbers)).tolist():
        yield [own[number == turn] for own, number in zip(blocks, numbers, strict=True)]


def in_batches(tests: Tests, values: Sequence[FloatVector], ask: AskBatch) -> PValues:
    """The p-values of tests that are asked in rounds of about `MAX_VALUES_PER_ROUND`.

    Args:
        tests: By size of S.
        values: How many each test asks for, shape (B_l,).
        ask: The p-values of a piece of the tests, one size after the other.
    """
    parts: list[list[FloatVector]] = [[] for _ in tests]
    for piece in batches(tests, values):
        found = yield from ask(piece)
        for own, p_value in zip(parts, by_block(piece, found), strict=True):
            own.append(p_value)
    return [np.concatenate([np.zeros(0), *own]) for own in parts]


def _keep(cache: OutcomeCache, rows: IndexArray, numbers: NDArray[np.float64]) -> None:
    """Remember numbers of new tests, in any order."""
    keys = keys_of_tests(rows)
    order = np.argsort(keys)
    cache.add(keys[order], numbers[order])


class OverlapFilter:
    """A source that is asked only what rows can tell: the one rule for all evidence.

    Neither is a test of what no site measured together, nor one given what determines x or y. These
    are not done, and count as dependent, so that no edge falls to them.

    Args:
        source: Answers the others.
        measured: Which variables the sites measured.
        determined: Which of them follow from others.

    Attributes:
        kinds: The columns, where the source asked for them.
        lenient: See `FederatedCITest`.
    """

    def __init__(self, source: FederatedCITest, measured: Measured, determined: Determined) -> None:
        self.kinds = source.kinds
        self.lenient: FederatedCITest | None = None
        if source.lenient is not None:
            self.lenient = OverlapFilter(source.lenient, measured, determined)
        self._source = source
        self._measured = measured
        self._determined = determined
        self._never: set[tuple[int, int | bytes]] = set()
        self._without_rest: set[tuple[int, int | bytes]] = set()

    def p_values(self, tests: Tests) -> PValues:
        """See `FederatedCITest.p_values`."""
        possible = []
        for rows in tests:
            together, follows = self._measured.together(rows), self._determined.undone(rows)
            self._never.update(keys_of_any_width(rows[~together]))
            self._without_rest.update(keys_of_any_width(rows[together & follows]))
            possible.append(together & ~follows)
        found = yield from self._source.p_values(
            [rows[own] for rows, own in zip(tests, possible, strict=True)]
        )
        p_values = []
        for own, p_value in zip(possible, found, strict=True):
            all_tests = np.full(len(own), np.nan)
            all_tests[own] = p_value
            p_values.append(all_tests)
        return p_values

    def strengths(self, pairs: IndexArray) -> FloatVector:
        """See `CachedFederatedCITest.strengths`."""
        return self._source.strengths(pairs)

    def skipped_tests(self, triplets: IndexArray) -> BoolVector:
        """See `CachedFederatedCITest`; so are tests of what was never measured together."""
        return self._source.skipped_tests(triplets) | ~self._measured.together(triplets)

    def untestable_pairs(self) -> IndexArray:
        """See `CachedFederatedCITest`; pairs never measured together stay adjacent."""
        return self._source.untestable_pairs()

    def effect(self, test: Sequence[int]) -> Effect | None:
        """See `CachedFederatedCITest.effect`."""
        return self._source.effect(test)

    @property
    def n_tests_by_method(self) -> dict[str, int]:
        """How many distinct tests were done in which way."""
        skipped = {NEVER_TOGETHER: len(self._never), DETERMINED: len(self._without_rest)}
        skipped = {method: count for method, count in skipped.items() if count}
        return {**self._source.n_tests_by_method, **skipped}


def bracketed_p_values(source: FederatedCITest, tests: Tests, alpha: float) -> PValues:
    """P-values of tests, or where verdicts alone are found the middle of those that they leave.

    Middles are of logarithms, and none is below that of `P_FLOOR` and all of alpha.

    Args:
        source: Answers the tests.
        tests: By size of S.
        alpha: The level of the source.

    Returns:
        Rounds: of the tests, and of those that say independent at the second level.
    """
    found = yield from source.p_values(tests)
    if source.lenient is None:
        return found
    level = max(SECOND_ALPHA, alpha)
    strong = [own[own > 0] for own in found]
    if level > alpha:
        again = [rows[own > 0] for rows, own in zip(tests, found, strict=True)]
        strong = yield from source.lenient.p_values(again)
    grades = []
    for own, clear in zip(found, strong, strict=True):
        grade = np.where(np.isnan(own), np.nan, alpha * math.sqrt(P_FLOOR))
        grade[own > 0] = np.where(clear > 0, math.sqrt(level), math.sqrt(alpha * level))
        grades.append(grade)
    return grades
