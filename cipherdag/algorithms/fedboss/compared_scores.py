"""Which changes of a graph raise its score, by comparisons of scores that are not disclosed.

The gain of a change of families is a sum of log likelihoods of sets over all sites, with integer
coefficients, plus a constant, the difference of penalties. Whether a change gains, and which of two
gains more, is found by comparing such a sum with 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cipherdag.algorithms.evidence.federated_test import MAX_VALUES_PER_ROUND
from cipherdag.algorithms.fedboss.set_families import LEAST_GAIN_BITS, Budget, positions_of
from cipherdag.algorithms.fedboss.set_sources import SetPenalty
from cipherdag.arrays import FloatVector
from cipherdag.graphs.dags import Family, mask_of
from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.question import Question
from cipherdag.questions.scores.likelihoods import LogLikelihoods, ScoreComparisons
from cipherdag.questions.verdicts import VERDICT_VALUES, finest_grid_that_fits

MOST_PER_ROW = 128
"""Bound in nats per row at which a set's likelihood is cut.

A table has less than ln(rows) per row; a number that other columns determine has at most 11.5.
"""
FINEST = 12  # likelihoods are compared to 2^-12 nats at the finest
AT_ONCE = MAX_VALUES_PER_ROUND // VERDICT_VALUES  # most comparisons of one round
TOO_MANY_SITES = "reveal bits of scores is for fewer sites, or rows"

Comparing = Generator[Question, FloatVector, None]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a graph: some of its families are replaced."""

    new: tuple[Family, ...]  # the families that are added
    old: tuple[Family, ...]  # the families that are removed


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of a change in the form in which it is compared."""

    sets: tuple[tuple[int, int], ...]  # bit mask of a set, coefficient of its likelihood; ascending
    constant: int  # the term that is added, in units of the score's grid

    @classmethod
    def of(cls, sets: Counter[int], constant: int) -> Gain:
        """Leave out sets with coefficient 0, and the empty set, whose likelihood is 0."""
        return cls(tuple(sorted((s, n) for s, n in sets.items() if s and n)), constant)

    def less(self, other: Gain) -> Gain:
        """This gain minus another one."""
        sets = Counter(dict(self.sets))
        sets.subtract(dict(other.sets))
        return Gain.of(sets, self.constant - other.constant)


class ComparedScores:
    """Compares the scores of graphs over all sites.

    The penalty of sets holds the columns and the rows of all sites; ``per_parent`` is what a
    structure prior subtracts for every parent, on its grid. ``n_compared`` counts the comparisons
    asked. ParameterError where there are too many sites, or rows.
    """

    def __init__(
        self,
        penalty: SetPenalty,
        *,
        per_parent: int,
        n_sites: int,
        discount: int,
        max_rows: int,
        budget: Budget,
    ) -> None:
        self.n_compared = 0
        bits, rows = penalty.score.bits, penalty.score.rows
        self.penalty = penalty
        self._per_parent = per_parent
        self._least = 1 << (bits - LEAST_GAIN_BITS)
        of_site = MOST_PER_ROW * max(min(rows, max_rows), 1)
        self._largest, self._grid = finest_grid_that_fits(
            lambda grid: of_site << grid, n_sites, TOO_MANY_SITES, most=FINEST
        )
        self._coarser = bits - self._grid
        self._discount = discount
        self._max_rows = max_rows
        self._budget = budget
        self._exceeds: dict[Gain, bool] = {}
        self._costs: dict[int, int] = {}

    def near(self) -> Generator[Question, FloatVector, list[int]]:
        """For every variable a mask of those whose pair with it gains more than chance would.

        By chance a likelihood gains half a nat for every parameter; a pair must gain twice that.
        """
        n_variables, bits = len(self.penalty.categories), self.penalty.score.bits
        parameters = np.maximum(self.penalty.categories - 1, 1)
        near = [0] * n_variables
        costs = {
            (u, v): int(parameters[u] * parameters[v]) << bits
            for u, v in combinations(range(n_variables), 2)
        }
        for u, v in (yield from self._exceeding(costs)):
            near[u] |= 1 << v
            near[v] |= 1 << u
        return near

    def gaining_pairs(
        self, pairs: Iterable[tuple[int, int]]
    ) -> Generator[Question, FloatVector, set[tuple[int, int]]]:
        """The pairs u < v that score higher than their variables do, by the penalty of sets alone.

        One round or none.
        """
        costs = {
            (u, v): self._least
            + self._cost(1 << u)
            + self._cost(1 << v)
            - self._cost(1 << u | 1 << v)
            for u, v in pairs
        }
        return {*(yield from self._exceeding(costs))}

    def _exceeding(
        self, costs: Mapping[tuple[int, int], int]
    ) -> Generator[Question, FloatVector, list[tuple[int, int]]]:
        """The pairs u < v whose likelihood gains more than their cost."""
        gains = {
            (u, v): Gain(((1 << u, -1), (1 << v, -1), (1 << u | 1 << v, 1)), -cost)
            for (u, v), cost in costs.items()
        }
        yield from self._learn(gains.values())
        return [pair for pair, gain in gains.items() if self._exceeds.get(gain, False)]

    def gaining(
        self, changes: Iterable[Change]
    ) -> Generator[Question, FloatVector, dict[Change, Gain]]:
        """Those changes that raise the score, and what they gain; one round or none."""
        gains = {change: self._gain(change) for change in changes}
        yield from self._learn(gains.values())
        return {change: gain for change, gain in gains.items() if self._exceeds.get(gain, False)}

    def larger(
        self, pairs: Sequence[tuple[Gain, Gain]]
    ) -> Generator[Question, FloatVector, list[bool]]:
        """Whether the first of two gains is larger; one round or none."""
        differences = [first.less(second) for first, second in pairs]
        yield from self._learn(differences)
        return [self._exceeds.get(difference, False) for difference in differences]

    def _gain(self, change: Change) -> Gain:
        sets: Counter[int] = Counter()
        constant = -self._least
        for sign, families in ((1, change.new), (-1, change.old)):
            for v, parents in families:
                sets[parents | 1 << v] += sign
                sets[parents] -= sign
                constant -= sign * self._per_parent * parents.bit_count()
        constant += sum(count * self._cost(mask) for mask, count in sets.items() if count)
        return Gain.of(sets, constant)

    def _cost(self, mask: int) -> int:
        if mask not in self._costs:
            self._costs[mask] = self.penalty(mask)
        return self._costs[mask]

    def _learn(self, gains: Iterable[Gain]) -> Comparing:
        """Ask the sign of every gain that is not known, `AT_ONCE` gains a round."""
        new = []
        for gain in dict.fromkeys(gains):
            if not gain.sets:
                self._exceeds[gain] = gain.constant > 0
            elif gain not in self._exceeds:
                new.append(gain)
        for start in range(0, len(new), AT_ONCE):
            asked = new[start : start + AT_ONCE]
            question = self._question(asked)
            values = sum(question.question.counts) + len(asked)  # one per set, one per verdict
            if not self._budget.spend(rounds=1, values=values):
                return
            verdicts = yield question
            self._exceeds.update(zip(asked, (verdicts > 0).tolist(), strict=True))
            self.n_compared += len(asked)

    def _question(self, gains: Sequence[Gain]) -> ScoreComparisons:
        by_size = positions_of({mask for gain in gains for mask, _ in gain.sets})
        counts, members = pack_blocks(by_size)
        # as the blocks are packed
        masks = [mask_of(row) for rows in by_size for row in rows.tolist()]
        index_of = {mask: index for index, mask in enumerate(masks)}
        terms = [
            (number, *term)
            for number, gain in enumerate(gains)
            for term in sorted((index_of[mask], count) for mask, count in gain.sets)
        ]
        constants = [gain.constant >> self._coarser for gain in gains]
        return ScoreComparisons(
            LogLikelihoods(
                n_variables=len(self.penalty.categories),
                counts=counts,
                members=members,
                discount=self._discount,
                max_rows=self._max_rows,
            ),
            grid_bits=self._grid,
            largest=self._largest,
            terms=pack_integers(np.array(terms, dtype=np.int64).reshape(-1, 3)),
            constants=pack_integers(np.array(constants, dtype=np.int64)),
        )
