"""A site of FedPC computes a layer of the skeleton search and searches for separating sets.

Source: FedPC, sections 3.2.1 (phase 1) and 3.2.2; Colombo and Maathuis (2014), order-independent.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolMatrix, IndexArray
from cipherdag.questions.encodings import subsets
from cipherdag.questions.separators import Candidates, CandidateScores, SeparatorSearch
from cipherdag.sites.compute.ci_tests.ci_test import CITest, CITestResult

Arrays: TypeAlias = tuple[IndexArray, ...]

FIRST_WAVE = 4  # conditioning sets of every pair that are tested first
WAVE_GROWTH = 8  # factor by which the number of sets grows from wave to wave
BATCH = 200_000  # tests that are done at a time
SPECULATION = 20_000  # most tests of one variable that are done before they are needed
PART = 512  # sets of one pair that are tested at a time


@dataclass(frozen=True, slots=True)
class LayerOutcome:
    """The edges that a layer leaves, and those of which a test could be done, symmetric, (p, p)."""

    remaining: BoolMatrix
    tested: BoolMatrix


def stable_layer(test: CITest, skeleton: BoolMatrix, *, layer: int, alpha: float) -> LayerOutcome:
    """Tests one layer of PC-stable, whose neighbourhoods are those at the layer's start.

    The skeleton, symmetric of shape (p, p), is that at the start; x and y are independent iff p >
    alpha. The outcome does not depend on the order of the variables.
    """
    remaining, tested = skeleton.copy(), np.zeros_like(skeleton)
    start = 0
    wave = FIRST_WAVE
    pending = _directions(skeleton, layer)
    while pending:
        for x, y, given in _batches(skeleton, pending, layer, start, start + wave):
            p_value = test.evaluate(x, y, given).p_value
            independent, done = p_value > alpha, ~np.isnan(p_value)
            remaining[x[independent], y[independent]] = False
            remaining[y[independent], x[independent]] = False
            tested[x[done], y[done]] = tested[y[done], x[done]] = True
        start, wave = start + wave, wave * WAVE_GROWTH
        pending = [
            (x, y)
            for x, y in pending
            if remaining[x, y] and math.comb(int(skeleton[x].sum()) - 1, layer) > start
        ]
    return LayerOutcome(remaining, tested)


def _directions(skeleton: BoolMatrix, layer: int) -> list[tuple[int, int]]:
    """Lists pairs (x, y) to test given neighbours of x: in both orders, in layer 0 in one."""
    degree = skeleton.sum(axis=1)
    x, y = np.nonzero(skeleton)
    wanted = (degree[x] > layer) if layer else (x < y)
    return list(zip(x[wanted].tolist(), y[wanted].tolist(), strict=True))


def _batches(
    skeleton: BoolMatrix, pending: list[tuple[int, int]], layer: int, start: int, stop: int
) -> Iterator[Arrays]:
    """Yields tests ``start`` to ``stop`` of every pending pair, in batches of about BATCH."""
    neighbours = [np.flatnonzero(row) for row in skeleton]
    choices: dict[int, IndexArray] = {}

    def of_pairs() -> Iterator[Arrays]:
        for x, y in pending:
            pool = neighbours[x][neighbours[x] != y]
            if pool.size not in choices:
                choices[pool.size] = subsets(pool.size, layer)[start:stop]
            given = pool[choices[pool.size]]
            yield np.full(len(given), x), np.full(len(given), y), given

    yield from _joined(of_pairs())


def _joined(parts: Iterable[Arrays]) -> Iterator[Arrays]:
    """Yields parts, three arrays of as many tests each, joined to batches of about BATCH tests."""
    waiting: list[Arrays] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part[0])
        if size >= BATCH:
            yield tuple(map(np.concatenate, zip(*waiting, strict=True)))
            waiting, size = [], 0
    if size:
        yield tuple(map(np.concatenate, zip(*waiting, strict=True)))


def sequential_layer(test: CITest, skeleton: BoolMatrix, *, layer: int, alpha: float) -> BoolMatrix:
    """Returns the skeleton after a layer of the original PC; each removal changes neighbourhoods.

    Pairs (x, y) are visited with y ascending and x ascending within it; conditioning sets come
    from the current neighbours of y in lexicographic order (the original FedPC code). The outcome
    depends on the order of the variables.
    """
    remaining = skeleton.copy()
    outcomes = _Outcomes(test, alpha)
    for y in range(skeleton.shape[0]):
        outcomes.speculate(np.flatnonzero(remaining[y]), y, layer)
        for x in np.flatnonzero(skeleton[:, y]).tolist():
            neighbours = np.flatnonzero(remaining[y])
            if remaining[x, y] and outcomes.separable(x, y, neighbours[neighbours != x], layer):
                remaining[x, y] = remaining[y, x] = False
    return remaining


class _Outcomes:
    """Caches the decisions of the tests of x and y given sets."""

    def __init__(self, test: CITest, alpha: float) -> None:
        self._test, self._alpha = test, alpha
        self._independent: dict[tuple[int, ...], bool] = {}

    def speculate(self, neighbours: IndexArray, y: int, layer: int) -> None:
        """Tests all sets of y's neighbours in one batch; after removals a part of these is used."""
        degree = neighbours.size
        if degree <= layer or degree * math.comb(degree - 1, layer) > SPECULATION:
            return
        chosen = subsets(degree - 1, layer)
        sets = [neighbours[neighbours != x][chosen] for x in neighbours]
        given = np.concatenate(sets)
        self._learn(np.repeat(neighbours, len(chosen)), np.full(len(given), y), given)

    def separable(self, x: int, y: int, pool: IndexArray, layer: int) -> bool:
        """Decides whether a set from the pool separates x and y."""
        sets = pool[subsets(pool.size, layer)]
        for given in np.array_split(sets, math.ceil(len(sets) / PART) or 1):
            tests = [(x, y, *row) for row in given.tolist()]
            new = given[[test not in self._independent for test in tests]]
            if len(new):
                self._learn(np.full(len(new), x), np.full(len(new), y), new)
            if any(self._independent[test] for test in tests):
                return True
        return False

    def _learn(self, x: IndexArray, y: IndexArray, given: IndexArray) -> None:
        independent = self._test.evaluate(x, y, given).p_value > self._alpha
        tests = map(tuple, np.column_stack([x, y, given]).tolist())
        self._independent |= zip(tests, independent.tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class BestSeparators:
    """Every pair's best candidate separating set; arrays of shape (G,).

    ``score`` is ``1 + floor(measure * 2**grid_bits)`` of the best independent candidate, 0 if none,
    and ``index`` the smallest that attains it; the number of candidates if none.
    """

    score: IndexArray
    index: IndexArray


def best_separators(test: CITest, search: SeparatorSearch) -> BestSeparators:
    """Finds the site's best candidate separating set of every pair; rows never leave the site."""
    candidates = search.candidates()
    pairs = search.pair_array()
    score = np.zeros(search.n_groups, dtype=np.int64)
    index = np.array([candidates.total(g) for g in range(search.n_groups)], dtype=np.int64)
    for of_pair, number, given in _candidate_batches(candidates, search.n_groups):
        evidence = test.evaluate(pairs[of_pair, 0], pairs[of_pair, 1], given)
        scores = grid_scores(evidence, search)
        # ascending by group, then best score first, then smallest index: keep each group's first
        order = np.lexsort((number, -scores, of_pair))
        first = order[np.unique(of_pair[order], return_index=True)[1]]
        groups, new_scores, new_index = of_pair[first], scores[first], number[first]
        better = (new_scores > score[groups]) | (
            (new_scores == score[groups]) & (new_scores > 0) & (new_index < index[groups])
        )
        score[groups[better]] = new_scores[better]
        index[groups[better]] = new_index[better]
    return BestSeparators(score=score, index=index)


def grid_scores(evidence: CITestResult, search: SeparatorSearch) -> IndexArray:
    """Rounds scores to the public grid, shape (B,): 0 unless independent, which NaN never is."""
    measure = evidence.p_value
    if search.measure == "correlation":
        correlated = np.isnan(evidence.dof)  # Fisher's z
        measure = np.where(correlated, 1.0 - np.abs(evidence.dependence), measure)
    scores = np.zeros(len(measure), dtype=np.int64)
    independent = evidence.p_value > search.test.alpha
    scores[independent] = 1 + np.floor(np.ldexp(measure[independent], search.grid_bits))
    return scores


def _candidate_batches(candidates: Candidates, n_groups: int) -> Iterator[Arrays]:
    """Yields pairs, numbers and sets of all candidates, in batches of one conditioning size."""
    before = np.zeros(n_groups, dtype=np.int64)
    sizes = [candidates.sizes(group) for group in range(n_groups)]

    def of_size(size: int) -> Iterator[Arrays]:
        for group in (g for g in range(n_groups) if size in sizes[g]):
            given = candidates.sets(group, size)
            for start in range(0, len(given), BATCH):
                piece = given[start : start + BATCH]
                numbers = before[group] + start + np.arange(len(piece), dtype=np.int64)
                yield np.full(len(piece), group), numbers, piece
            before[group] += len(given)

    for size in range(max((len(each) for each in sizes), default=0)):
        yield from _joined(of_size(size))


def candidate_scores(test: CITest, question: CandidateScores) -> NDArray[np.float64]:
    """Answers `CandidateScores`: votes, or n p of all candidates, then n of all, for n rows."""
    search = question.search
    candidates = search.candidates()
    pairs = search.pair_array()
    p_value = np.full(question.count, np.nan)
    rows = np.zeros(question.count)
    position = -question.first
    for group in range(search.n_groups):
        total = candidates.total(group)
        if position + total > 0 and position < question.count:
            for index, given in _slice(candidates, group, -position, question.count):
                x, z = (np.full(len(given), member) for member in pairs[group])
                evidence = test.evaluate(x, z, given)
                p_value[position + index] = evidence.p_value
                rows[position + index] = evidence.rows
        position += total
    if question.score == "vote":
        return np.asarray(p_value > search.test.alpha, dtype=np.float64)
    weight = np.where(np.isnan(p_value), 0.0, rows)
    return np.concatenate([weight * np.nan_to_num(p_value), weight])


def _slice(
    candidates: Candidates, group: int, start: int, count: int
) -> Iterator[tuple[IndexArray, IndexArray]]:
    """Yields indices and sets of the candidates ``start`` to ``start + count`` of a pair."""
    before = 0
    for size in candidates.sizes(group):
        given = candidates.sets(group, size)
        index = before + np.arange(len(given), dtype=np.int64)
        inside = (index >= start) & (index < start + count)
        if inside.any():
            yield index[inside], given[inside]
        before += len(given)
