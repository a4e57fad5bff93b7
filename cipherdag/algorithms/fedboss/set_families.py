"""Scores of families from one number per set of variables, learnt wave by wave.

A family's score is a difference of two such numbers (see `statistics.set_scores`), so a set that
many families share is asked about once. Any variable may become a first parent. A second one has to
depend, pairwise, on the variable or on its parent; a third or later one on the variable or any
parent, and it has to gain with one of these left out.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.graphs.dags import Family, members
from cipherdag.questions.question import Question

Asking = Generator[Question, FloatVector, None]

LEAST_GAIN_BITS = 10  # a step has to gain 2**-10 nats
FEW = 2  # with fewer parents every near variable is a candidate


@dataclass(slots=True)
class Budget:
    """Rounds and values of a site that are left."""

    rounds: int | None  # how many rounds; None for any number
    values: int | None  # how many values; None for any number
    refused: bool = False  # whether a round was not asked since it exceeded what was left

    def spend(self, *, rounds: int, values: int) -> bool:
        """Subtract rounds and values if both are left; else set `refused`. Whether they were."""
        enough = (self.rounds is None or rounds <= self.rounds) and (
            self.values is None or values <= self.values
        )
        if not enough:
            self.refused = True
            return False
        self.rounds = None if self.rounds is None else self.rounds - rounds
        self.values = None if self.values is None else self.values - values
        return True


class SetFamilies(ABC):
    """Scores of families from numbers of sets; see `FamilyScores`.

    ``levels`` says how many categories every variable has, 1 of a number. A structure prior
    subtracts ``per_parent`` for every parent, in units of 2**-bits nats.

    Attributes:
        least: Least gain of a step.
        closed: Whether nothing more may be asked; a variable without scores is then no candidate.
    """

    def __init__(
        self, levels: Sequence[int], *, bits: int, per_parent: int, max_cells: int, max_parents: int
    ) -> None:
        self.n_variables = len(levels)
        self.bits = bits
        self.least = 1 << (bits - LEAST_GAIN_BITS)
        self.closed = False
        self._levels = list(levels)
        self._per_parent = per_parent
        self._max_cells = max_cells
        self._max_parents = max_parents
        # None for a set that cannot be scored
        self._values: dict[int, int | None] = {}
        self._chosen: dict[Family, tuple[int, ...]] = {}
        self._near = [((1 << self.n_variables) - 1) & ~(1 << v) for v in range(self.n_variables)]

    def score(self, v: int, parents: int) -> int | None:
        """See `FamilyScores.score`."""
        both, alone = self._values.get(parents | 1 << v), self._values.get(parents)
        if both is None or alone is None:
            return None
        return both - alone - self._per_parent * parents.bit_count()

    def grown(self, v: int, parents: int) -> list[tuple[int, int]] | None:
        """See `FamilyScores.grown`."""
        values = self._values
        family = parents | 1 << v
        if not self.closed and (parents not in values or family not in values):
            return None
        scores = []
        cost = self._per_parent * (parents.bit_count() + 1)
        for u in self._candidates(v, parents):
            bit = 1 << u
            if not self.closed and (family | bit not in values or parents | bit not in values):
                return None
            both, alone = values.get(family | bit), values.get(parents | bit)
            if both is not None and alone is not None:
                scores.append((both - alone - cost, u))
        return scores

    def learn(self, nodes: Iterable[Family]) -> Asking:
        """See `FamilyScores.learn`; the sets that the families need, and one variable more."""
        wanted: set[int] = set()
        for v, parents in nodes:
            family = parents | 1 << v
            wanted |= {family, parents}
            wanted.update(family & ~(1 << u) for u in members(parents))
            wanted.update(parents & ~(1 << u) for u in members(parents))
            for u in self._candidates(v, parents):
                wanted |= {family | 1 << u, parents | 1 << u}
        yield from self.learn_sets(wanted)

    def learn_sets(self, wanted: Iterable[int]) -> Asking:
        """Learn the numbers of the sets that are not known; none is asked about twice."""
        new = sorted(mask for mask in set(wanted) if mask not in self._values)
        small = [mask for mask in new if self.cells(mask) <= self._max_cells]
        self._values.update(dict.fromkeys(set(new) - set(small), None))
        if small and not self.closed:
            yield from self._learn(small)

    def learn_pairs(self) -> Asking:
        """Learn the numbers of all variables and pairs, and from them which pairs are near."""
        alone = [1 << v for v in range(self.n_variables)]
        pairs = [a | b for a, b in combinations(alone, 2)]
        yield from self.learn_sets([*alone, *pairs])
        for v, near in enumerate(self._nearby()):
            self._near[v] = near

    def cells(self, mask: int) -> int:
        """How many cells the table of a set has, by the categories that occur."""
        return math.prod(self._levels[v] for v in members(mask))

    @abstractmethod
    def _learn(self, masks: Sequence[int]) -> Asking:
        """Set `_values` of these sets, which are new and small enough."""

    def _candidates(self, v: int, parents: int) -> Sequence[int]:
        """Candidates for one parent more; decided once, from the scores known at that time."""
        if (v, parents) not in self._chosen:
            self._chosen[v, parents] = self._choose(v, parents)
        return self._chosen[v, parents]

    def _choose(self, v: int, parents: int) -> tuple[int, ...]:
        if parents.bit_count() >= self._max_parents:
            return ()
        free = self._near[v] if parents else ((1 << self.n_variables) - 1)
        for u in members(parents):
            free |= self._near[u]
        most = self._max_cells // self.cells(parents | 1 << v)
        candidates = [u for u in members(free & ~parents & ~(1 << v)) if self._levels[u] <= most]
        if parents.bit_count() < FEW:
            return tuple(candidates)
        rests = [parents & ~(1 << w) for w in members(parents)]
        scored = [(rest, less) for rest in rests if (less := self.score(v, rest)) is not None]
        return tuple(u for u in candidates if self._gains_without_one(v, scored, u))

    def _gains_without_one(self, v: int, rests: Sequence[tuple[int, int]], u: int) -> bool:
        """Whether one parent more gains with one of two or more parents left out, as far as known.

        Where it gains with none of them left out, it hardly gains with all. ``rests`` are the
        parents with one left out each, and what they score.
        """
        for rest, less in rests:
            more = self.score(v, rest | 1 << u)
            if more is not None and more > less:
                return True
        return False

    @abstractmethod
    def likelihood(self, mask: int) -> int | None:
        """The log likelihood of a set on the grid, less a constant; None where it is not known."""

    def _nearby(self) -> list[int]:
        """For every variable a mask of those whose pair with it gains more than chance would."""
        near = [0] * self.n_variables
        nothing = self.likelihood(0)
        alone = [self.likelihood(1 << v) for v in range(self.n_variables)]
        for u, v in combinations(range(self.n_variables), 2):
            parts = (self.likelihood(1 << u | 1 << v), nothing, alone[u], alone[v])
            scored = [part for part in parts if part is not None]
            parameters = max(self._levels[u] - 1, 1) * max(self._levels[v] - 1, 1)
            free = parameters << self.bits
            if len(scored) < len(parts) or scored[0] + scored[1] - scored[2] - scored[3] >= free:
                near[u] |= 1 << v
                near[v] |= 1 << u
        return near


def positions_of(masks: Collection[int]) -> list[IndexArray]:
    """Sets as ascending positions by size from 1: arrays of shape (B_k, k)."""
    by_size: dict[int, list[tuple[int, ...]]] = {}
    for mask in masks:
        by_size.setdefault(mask.bit_count(), []).append(tuple(members(mask)))
    return [
        np.array(by_size.get(size, []), dtype=np.int64).reshape(-1, size)
        for size in range(1, max(by_size, default=0) + 1)
    ]
