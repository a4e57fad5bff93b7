"""A site's search for separating sets of unshielded pairs (FedPC, section 3.2.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import IndexArray
from cipherdag.questions.separators import Candidates, CandidateScores, SeparatorSearch
from cipherdag.sites.compute.ci_tests.ci_test import CITest, CITestResult
from cipherdag.sites.compute.ci_tests.layer_votes import BATCH


@dataclass(frozen=True, slots=True)
class BestSeparators:
    """The best candidate of every pair, arrays of shape (G,).

    Attributes:
        score: ``1 + floor(measure * 2**grid_bits)`` of the best independent candidate, 0 if none.
        index: The smallest index attaining that score; the number of candidates if none.
    """

    score: IndexArray
    index: IndexArray


@dataclass(frozen=True, slots=True)
class _Batch:
    """Tests of one conditioning size; ``group`` and ``index`` say which candidate each is."""

    group: IndexArray
    index: IndexArray
    given: IndexArray


def best_separators(test: CITest, search: SeparatorSearch) -> BestSeparators:
    """The site's best candidate separating set of every pair; rows never leave it."""
    candidates = search.candidates()
    pairs = search.pair_array()
    score = np.zeros(search.n_groups, dtype=np.int64)
    index = np.array([candidates.total(g) for g in range(search.n_groups)], dtype=np.int64)
    for batch in _batches(candidates, search.n_groups):
        evidence = test.evaluate(pairs[batch.group, 0], pairs[batch.group, 1], batch.given)
        scores = grid_scores(evidence, search)
        # ascending by group, then best score first, then smallest index: keep each group's first
        order = np.lexsort((batch.index, -scores, batch.group))
        first = order[np.unique(batch.group[order], return_index=True)[1]]
        groups, found, where = batch.group[first], scores[first], batch.index[first]
        better = (found > score[groups]) | (
            (found == score[groups]) & (found > 0) & (where < index[groups])
        )
        score[groups[better]] = found[better]
        index[groups[better]] = where[better]
    return BestSeparators(score=score, index=index)


def grid_scores(evidence: CITestResult, search: SeparatorSearch) -> IndexArray:
    """Scores on the public grid, shape (B,): 0 unless independent, which NaN never is."""
    measure = evidence.p_value
    if search.measure == "correlation":
        correlated = np.isnan(evidence.dof)
        measure = np.where(correlated, 1.0 - np.abs(evidence.dependence), measure)
    scores = np.zeros(len(measure), dtype=np.int64)
    independent = evidence.p_value > search.test.alpha
    scores[independent] = 1 + np.floor(np.ldexp(measure[independent], search.grid_bits))
    return scores


def _batches(candidates: Candidates, n_groups: int) -> Iterator[_Batch]:
    """All candidates of all pairs by size, in batches of at most BATCH tests."""
    before = np.zeros(n_groups, dtype=np.int64)
    sizes = [candidates.sizes(group) for group in range(n_groups)]
    for size in range(max((len(each) for each in sizes), default=0)):
        parts: list[_Batch] = []
        length = 0
        for group in (g for g in range(n_groups) if size in sizes[g]):
            given = candidates.sets(group, size)
            for start in range(0, len(given), BATCH):
                piece = given[start : start + BATCH]
                numbers = before[group] + start + np.arange(len(piece), dtype=np.int64)
                parts.append(_Batch(np.full(len(piece), group), numbers, piece))
                length += len(piece)
                if length >= BATCH:
                    yield _join(parts)
                    parts, length = [], 0
            before[group] += len(given)
        if parts:
            yield _join(parts)


def _join(parts: list[_Batch]) -> _Batch:
    return _Batch(
        group=np.concatenate([part.group for part in parts]),
        index=np.concatenate([part.index for part in parts]),
        given=np.concatenate([part.given for part in parts]),
    )


def candidate_scores(test: CITest, question: CandidateScores) -> NDArray[np.float64]:
    """The answer to `CandidateScores`: votes, or all n p followed by all n."""
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
    """The candidates number ``start`` to ``start + count`` of a pair: their indices and sets."""
    before = 0
    for size in candidates.sizes(group):
        given = candidates.sets(group, size)
        index = before + np.arange(len(given), dtype=np.int64)
        inside = (index >= start) & (index < start + count)
        if inside.any():
            yield index[inside], given[inside]
        before += len(given)
