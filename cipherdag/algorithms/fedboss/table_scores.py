"""Scores of families from contingency tables of all sites together, each asked for once.

A table tells those of all its subsets, so of the sets of a wave only those are asked for that are
in no other. What needs a table that some site withholds is no candidate.

Leaks:
    The tables over all sites, of the sets that the search looks at; of sets that some site
    withholds that it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence

import numpy as np

from cipherdag.algorithms.evidence.pooled_tables import PooledTables
from cipherdag.algorithms.fedboss.budget import Budget
from cipherdag.algorithms.fedboss.set_families import SetFamilies, positions_of
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.graphs.dags import members, submasks
from cipherdag.questions.question import Question
from cipherdag.statistics.set_scores import SetScore

Asking = Generator[Question, FloatVector, None]


class TableScores(SetFamilies):
    """Scores from pooled tables.

    Args:
        tables: Asks for tables.
        levels: How many categories occur, shape (p,).
        score: What is computed of them.
        settings: See `SetFamilies`.

    Attributes:
        tally: How many sets were scored in which way.
    """

    def __init__(
        self,
        tables: PooledTables,
        levels: Sequence[int],
        score: SetScore,
        budget: Budget,
        **settings: int,
    ) -> None:
        super().__init__(levels, **settings)
        self.tally: Counter[str] = Counter(pooled=0)
        self._tables = tables
        self._score = score
        self._budget = budget
        self._values[0] = score.of_nothing

    def likelihood(self, mask: int) -> int | None:
        """See `SetFamilies.likelihood`."""
        if mask == 0:
            return self._score.plain.of_nothing
        places = np.array([tuple(members(mask))], dtype=np.int64)
        if self._tables.known(places)[0]:
            counts = self._tables.table(places[0]).ravel()
            return int(self._score.plain.of_tables(counts, np.array([counts.size]), np.ones(1))[0])
        return None

    def _learn(self, masks: Sequence[int]) -> Asking:
        """One round, or two where a site restricts counts."""
        restricted = self._tables.kinds.restricted
        rounds, values = 1 + restricted, len(masks) * restricted
        asked = _in_no_other(masks)
        values += int(sum(own.sum() for own in map(self._tables.cells, positions_of(asked))))
        if not self._budget.spend(rounds=rounds, values=values):
            self.closed = True
            return
        yield from self._tables.settle(positions_of(masks))
        refused = {mask for mask in masks if restricted and self._is_withheld(mask)}
        asked = _in_no_other([mask for mask in masks if mask not in refused])
        yield from self._tables.ask(positions_of(asked))
        self.tally["withheld"] += len(refused)
        self._values.update(dict.fromkeys(refused, None))
        self._keep(asked)

    def _is_withheld(self, mask: int) -> bool:
        return bool(self._tables.withheld(np.array([tuple(members(mask))], dtype=np.int64))[0])

    def _keep(self, asked: Sequence[int]) -> None:
        """Score the tables given, and those of all their subsets."""
        found: dict[int, IndexArray] = {}
        for mask in asked:
            places = tuple(members(mask))
            self._marginals(mask, places, self._tables.table(np.array(places)), found)
        if not found:
            return
        counts = np.concatenate([own.ravel() for own in found.values()])
        sizes = np.array([own.size for own in found.values()], dtype=np.int64)
        cells = np.array([self.cells(mask) for mask in found], dtype=np.float64)
        values = self._score.of_tables(counts, sizes, cells).tolist()
        self._values.update(zip(found, values, strict=True))
        self.tally["pooled"] += len(found)

    def _marginals(
        self, mask: int, places: tuple[int, ...], table: IndexArray, found: dict[int, IndexArray]
    ) -> None:
        """Keep the table of a set that is not known yet, and of what it tells and is not known."""
        found[mask] = table
        for axis, v in enumerate(places if len(places) > 1 else ()):
            less = mask & ~(1 << v)
            if less not in found and self._values.get(less) is None:
                rest = places[:axis] + places[axis + 1 :]
                self._marginals(less, rest, table.sum(axis=axis), found)


def _in_no_other(masks: Sequence[int]) -> list[int]:
    """The sets that are no subset of another one."""
    covered: set[int] = set()
    kept = []
    for mask in sorted(masks, key=int.bit_count, reverse=True):
        if mask not in covered:
            kept.append(mask)
            covered.update(submasks(mask))
    return kept
