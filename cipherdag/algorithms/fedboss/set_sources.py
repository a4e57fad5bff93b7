"""Scores of families from tables of all sites together, or from the sites' likelihoods added up.

A table gives the tables of all its subsets, so a round asks only for sets that are in no other.

With likelihoods, every site says of a set how well its own distribution of these variables explains
its rows, less what chance alone would explain. The sum stands for the likelihood of all rows, and
the penalty is that of all rows. Differences between sites are no evidence: no site is compared with
another.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cipherdag.algorithms.evidence.pooled_tables import PooledTables
from cipherdag.algorithms.fedboss.set_families import Asking, Budget, SetFamilies, positions_of
from cipherdag.arrays import IndexArray
from cipherdag.graphs.dags import mask_of, members, submasks
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.scores.likelihoods import LogLikelihoods
from cipherdag.statistics.reproducible import logarithm_of
from cipherdag.statistics.set_scores import SetScore

DISCOUNT = 3  # a site's likelihood is lowered by three times what chance alone would explain


class TableScores(SetFamilies):
    """Scores from pooled tables; ``tally`` says how many sets were scored in which way."""

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
        if self._tables.available(places)[0]:
            counts = self._tables.table(places[0]).ravel()
            return int(self._score.plain.of_tables(counts, np.array([counts.size]), np.ones(1))[0])
        return None

    def _learn(self, masks: Sequence[int]) -> Asking:
        """One round."""
        asked = _in_no_other(masks)
        values = int(sum(cells.sum() for cells in map(self._tables.cells, positions_of(asked))))
        if not self._budget.spend(rounds=1, values=values):
            self.closed = True
            return
        yield from self._tables.ask(positions_of(asked))
        self._keep(asked)

    def _keep(self, asked: Sequence[int]) -> None:
        """Score the tables given, and those of all their subsets."""
        tables: dict[int, IndexArray] = {}
        for mask in asked:
            variables = tuple(members(mask))
            self._marginals(mask, variables, self._tables.table(np.array(variables)), tables)
        if not tables:
            return
        counts = np.concatenate([table.ravel() for table in tables.values()])
        sizes = np.array([table.size for table in tables.values()], dtype=np.int64)
        cells = np.array([self.cells(mask) for mask in tables], dtype=np.float64)
        values = self._score.of_tables(counts, sizes, cells).tolist()
        self._values.update(zip(tables, values, strict=True))
        self.tally["pooled"] += len(tables)

    def _marginals(
        self,
        mask: int,
        variables: tuple[int, ...],
        table: IndexArray,
        tables: dict[int, IndexArray],
    ) -> None:
        """Add a set's table to ``tables``, and those of its subsets that are not scored yet."""
        tables[mask] = table
        for axis, v in enumerate(variables if len(variables) > 1 else ()):
            less = mask & ~(1 << v)
            if less not in tables and self._values.get(less) is None:
                rest = variables[:axis] + variables[axis + 1 :]
                self._marginals(less, rest, table.sum(axis=axis), tables)


def _in_no_other(masks: Sequence[int]) -> list[int]:
    """The sets that are no subset of another one."""
    covered: set[int] = set()
    maximal = []
    for mask in sorted(masks, key=int.bit_count, reverse=True):
        if mask not in covered:
            maximal.append(mask)
            covered.update(submasks(mask))
    return maximal


@dataclass(frozen=True, slots=True)
class SetPenalty:
    """The penalty of a set of variables, by how many parameters its model has over all rows."""

    categories: IndexArray  # number of categories of every variable, 0 of a number, shape (p,)
    score: SetScore  # the score of categories; it gives the penalty of a table
    penalty: float  # how many times ln(n) / 2 a parameter of numbers costs

    def __call__(self, mask: int) -> int:
        """The penalty on the score's grid, 0 or less."""
        categories = self.categories[[*members(mask)]]
        sizes, numbers = np.maximum(categories, 1), int((categories == 0).sum())
        parameters = numbers * (numbers - 1) // 2 + numbers * int((sizes - 1).sum())
        half = 0.5 * self.penalty * logarithm_of(max(self.score.rows, 2)) * 2.0**self.score.bits
        return _of_shape(self.score, self.cells(mask)) - round(half * parameters)

    def cells(self, mask: int) -> int:
        """How many cells the table of the set's categories has."""
        return math.prod(max(int(self.categories[v]), 1) for v in members(mask))


@lru_cache(maxsize=4096)
def _of_shape(score: SetScore, cells: int) -> int:
    """The penalty of a table of ``cells`` cells, which thousands of sets share."""
    return int(score.of_shape(np.array([float(cells)]))[0])


class LikelihoodScores(SetFamilies):
    """Scores from the sites' likelihoods alone; ``tally`` says how many sets were scored.

    All numbers are on the grid of the score of categories; ``cost`` is the penalty of a set.
    """

    def __init__(
        self,
        levels: Sequence[int],
        score: SetScore,
        cost: SetPenalty,
        budget: Budget,
        *,
        max_rows: int,
        **settings: int,
    ) -> None:
        super().__init__(levels, **settings)
        self.tally: Counter[str] = Counter(sites=0)
        self._score = score
        self._cost = cost
        self._budget = budget
        self._max_rows = max_rows
        # the score that the empty set has from a table of all rows
        self._values[0] = self._of_nothing = score.plain.of_nothing

    def likelihood(self, mask: int) -> int | None:
        """See `SetFamilies.likelihood`."""
        value = self._values.get(mask)
        return None if value is None else value - self._cost(mask)

    def _learn(self, masks: Sequence[int]) -> Asking:
        """One round."""
        if not self._budget.spend(rounds=1, values=len(masks)):
            self.closed = True
            return
        by_size = positions_of(masks)
        counts, members = pack_blocks(by_size)
        sums = yield LogLikelihoods(
            n_variables=self.n_variables,
            counts=counts,
            members=members,
            discount=DISCOUNT,
            max_rows=self._max_rows,
        )
        # as the blocks are packed
        asked = [mask_of(row) for rows in by_size for row in rows.tolist()]
        for mask, score in zip(asked, self._score.on_grid(sums).tolist(), strict=True):
            self._values[mask] = score + self._of_nothing + self._cost(mask)
        self.tally["sites"] += len(masks)
