"""Answers about cells of tables that a site keeps, so that no test is counted twice.

They are asked for again with differences, once for every round of verdicts, and at a second level.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cipherdag.questions.encodings import by_block, pack_blocks, row_keys
from cipherdag.questions.stratified import TableCells

if TYPE_CHECKING:
    from collections.abc import Callable

    from cipherdag.questions.encodings import FloatVector, IndexArray

MOST_VALUES, MOST_ANSWERS = 1 << 19, 32
"""Values and answers that a site keeps beside its last; it forgets the oldest."""


class KeptCells:
    """The latest answers to `TableCells` with differences.

    Args:
        ask: Answers such a question.
    """

    def __init__(self, ask: Callable[[TableCells], FloatVector]) -> None:
        self._ask = ask
        self._kept: list[tuple[TableCells, FloatVector]] = []

    def answer(self, question: TableCells) -> FloatVector:
        """The answer to a question, of whose tests only those are asked that none kept has."""
        whole = question.with_differences()
        for known, found in reversed(self._kept):
            if known == whole:
                return question.of(found)
        found = self._found(whole)
        self._kept.append((whole, found))
        while len(self._kept) > 1 and self._too_many():
            del self._kept[0]
        return question.of(found)

    def _too_many(self) -> bool:
        values = sum(len(own) for _, own in self._kept)
        return len(self._kept) > MOST_ANSWERS or values > MOST_VALUES

    def _found(self, question: TableCells) -> FloatVector:
        found = np.zeros(sum(encoding.length for encoding in question.encodings))
        missing = np.ones(question.n_tests, dtype=bool)
        for other, answer in reversed(self._kept):
            if not missing.any():
                break
            there, here = _alike(other, question)
            found[_places(question, here)] = answer[_places(other, there)]
            missing[here] = False
        if missing.all():
            return self._ask(question)
        if missing.any():
            rows = question.tables.rows()
            asked = [own[new] for own, new in zip(rows, by_block(rows, missing), strict=True)]
            counts, members = pack_blocks(asked)
            tables = msgspec.structs.replace(question.tables, counts=counts, members=members)
            rest = self._ask(TableCells(tables=tables, differences=True))
            found[_places(question, np.flatnonzero(missing))] = rest
        return found


def _alike(kept: TableCells, question: TableCells) -> tuple[IndexArray, IndexArray]:
    """Places of tests that were kept, and of the same tests in a question, shape (T,) each."""
    found = np.zeros((2, 0), dtype=np.int64)
    if kept.tables.categories != question.tables.categories:
        return found[0], found[1]
    first = np.zeros((2, 1), dtype=np.int64)
    for known, asked in zip(kept.tables.rows(), question.tables.rows(), strict=False):
        if len(known) and len(asked):
            keys = row_keys(known)
            order = np.argsort(keys)
            place = order[np.minimum(np.searchsorted(keys[order], row_keys(asked)), len(order) - 1)]
            same = np.flatnonzero((known[place] == asked).all(axis=1))
            found = np.hstack([found, first + np.stack([place[same], same])])
        first += [[len(known)], [len(asked)]]
    return found[0], found[1]


def _places(question: TableCells, tests: IndexArray) -> IndexArray:
    """Where what is about some tests stands in an answer with differences."""
    sizes = question.sides.prod(axis=1)
    starts, own = np.cumsum(sizes) - sizes, sizes[tests]
    within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
    cells = np.concatenate([np.repeat(starts[tests], own) + within, sizes.sum() + tests])
    width = len(question.owner)
    return np.concatenate([cells, width + cells, 2 * width + tests])
