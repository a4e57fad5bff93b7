"""Asks every triplet of a run once, in one question per round, and answers repeats from memory.

Leaks:
    Less than without it: a triplet that several searches need is summed once, so no second sum
    over other sites exists that could be set against the first.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.encodings import PositionRows, by_owner, pack_blocks, row_keys
from cipherdag.questions.gather import map_questions
from cipherdag.questions.question import Question
from cipherdag.questions.threshold import sum_with_threshold
from cipherdag.questions.weighted_evidence import WeightedEvidence

Outcome = TypeVar("Outcome")
Keys = NDArray[np.bytes_ | np.uint64]
"""Of up to four positions whole numbers, which sort fast; of more byte strings."""
Sums = NDArray[np.float64]

SLICE = 2_000_000
KEY_POSITIONS = 4
POSITION_BITS = 16
N_SUMS = 3  # n p, n r, n


def remember(
    asking: Generator[Question, FloatVector, Outcome], fewest: int = 1
) -> Generator[Question, FloatVector, Outcome]:
    """Merge each round's questions into one about the distinct triplets not asked before.

    Args:
        asking: Yields `WeightedEvidence`, or bundles of it, about one test; or what finds verdicts,
            which is asked as it is.
        fewest: How many sites have to contribute to a triplet; the others count as unreliable.

    Returns:
        The outcome of ``asking``. A round whose triplets are all known is not held; one with more
        than 2,000,000 new triplets is held in slices.
    """
    memories: dict[int, Memory] = {}

    def answer(question: Question) -> Generator[Question, FloatVector, FloatVector]:
        if question.opens_bits:
            return (yield question)
        parts = question.parts
        triplets = [part for part in parts if isinstance(part, WeightedEvidence)]
        if len(triplets) != len(parts):
            raise TypeError("only weighted evidence of triplets is remembered")
        return (yield from _complete(triplets, memories, fewest))

    return map_questions(asking, answer)


def _complete(
    parts: list[WeightedEvidence], memories: dict[int, Memory], fewest: int
) -> Generator[Question, FloatVector, FloatVector]:
    """The sums of all parts, laid out as each part's encodings say."""
    largest = max(len(part.counts) for part in parts)
    rows = [part.rows() for part in parts]
    keys = [
        triplet_keys(np.concatenate([own[size] for own in rows if size < len(own)]))
        for size in range(largest)
    ]
    yield from _learn(parts[0], keys, memories, fewest)
    found = [memories[size].find(own)[0] for size, own in enumerate(keys)]
    answers: list[FloatVector] = []
    for part, own_sums in zip(parts, by_owner([p.counts for p in parts], found), strict=True):
        sums = np.concatenate([np.zeros((0, N_SUMS)), *own_sums])
        marginal = part.counts[0] if part.counts else 0
        answers += [sums[:, 0], sums[:marginal, 1], sums[:, 2]]
    return np.concatenate(answers)


def _learn(
    template: WeightedEvidence, keys: list[Keys], memories: dict[int, Memory], fewest: int
) -> Generator[Question, FloatVector, None]:
    """Ask for the distinct triplets that are not known yet."""
    unknown = []
    for size, own in enumerate(keys):
        memory = memories.setdefault(size, Memory(N_SUMS))
        distinct = np.unique(own)
        unknown.append(distinct[~memory.find(distinct)[1]])
    ends = np.cumsum([0, *(len(own) for own in unknown)])
    for start in range(0, int(ends[-1]), SLICE):
        stop = start + SLICE
        part = [
            own[max(start - first, 0) : max(min(stop, last) - first, 0)]
            for own, (first, last) in zip(unknown, pairwise(ends.tolist()), strict=True)
        ]
        counts, members = pack_blocks([key_rows(own, size) for size, own in enumerate(part)])
        question = msgspec.structs.replace(template, counts=counts, members=members)
        sums = yield from sum_with_threshold(question, fewest)
        total, marginal = sum(counts), counts[0]
        strengths = np.zeros(total)
        strengths[:marginal] = sums[total : total + marginal]
        table = np.column_stack([sums[:total], strengths, sums[total + marginal :]])
        done = 0
        for size, own in enumerate(part):
            memories[size].add(own, table[done : done + len(own)])
            done += len(own)


def triplet_keys(rows: PositionRows | IndexArray) -> Keys:
    """One key per triplet, the same whichever way round x and y or S stand.

    Distinct among rows of one width; of several widths `keys_of_any_width` are.
    """
    pair = np.sort(rows[:, :2], axis=1)
    given = np.sort(rows[:, 2:], axis=1)
    ordered = np.column_stack([pair, given])
    if rows.shape[1] > KEY_POSITIONS:
        return row_keys(ordered)
    keys = np.zeros(len(rows), dtype=np.uint64)
    for column in ordered.T:
        keys <<= np.uint64(POSITION_BITS)
        keys |= column.astype(np.uint64)
    return keys


def keys_of_any_width(rows: IndexArray) -> list[tuple[int, int | bytes]]:
    """One key per triplet, distinct among rows of any width."""
    return [(rows.shape[1], key) for key in triplet_keys(rows).tolist()]


def key_rows(keys: Keys, size: int) -> PositionRows:
    """Inverse of `triplet_keys`, shape (B, 2 + size)."""
    width = 2 + size
    if width > KEY_POSITIONS:
        return np.frombuffer(keys.tobytes(), dtype=">u2").astype(np.uint16).reshape(-1, width)
    shifts = POSITION_BITS * np.arange(width - 1, -1, -1, dtype=np.uint64)
    return (keys.astype(np.uint64)[:, None] >> shifts).astype(np.uint16)


class Memory:
    """Numbers by triplet: sorted runs that are merged as they grow, for one size of S.

    Args:
        columns: How many numbers every triplet has, C.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._runs: list[tuple[Keys, Sums]] = []

    def find(self, keys: Keys) -> tuple[Sums, NDArray[np.bool_]]:
        """Numbers of every key, shape (B, C), and whether it is known, shape (B,)."""
        sums = np.zeros((len(keys), self._columns))
        known = np.zeros(len(keys), dtype=bool)
        for own, table in self._runs:
            place = np.minimum(np.searchsorted(own, keys), len(own) - 1)
            hit = own[place] == keys
            sums[hit] = table[place[hit]]
            known |= hit
        return sums, known

    def add(self, keys: Keys, sums: Sums) -> None:
        """Keep new keys, ascending and none of them known."""
        if not len(keys):
            return
        self._runs.append((keys, sums))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            (first, a), (second, b) = self._runs[-2:]
            merged, table = np.concatenate([first, second]), np.concatenate([a, b])
            if first[-1] > second[0]:  # else they are in order, as pairs come
                order = np.argsort(merged, kind="stable")
                merged, table = merged[order], table[order]
            self._runs[-2:] = [(merged, table)]
