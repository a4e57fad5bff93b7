"""HITON-PC as a search that asks: which variables are a target's parents and children?

Source: Aliferis et al., JMLR 11 (2010) 171-234, in the interleaved form that FedCMFS (section 4.2,
Alg. 1) and its authors' published single-site program use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cipherdag.algorithms.fedcmfs.ranking import Ranking
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import WeightedEvidence, weighted_means
from cipherdag.questions.encodings import by_owner, pack_blocks, rows_of, subsets
from cipherdag.questions.question import Asking

Part = Literal["FedCFL", "FedCFR", "FedCFC"]
Sets = list[IndexArray]
"""Conditioning sets by size: shape (K_l, l) each."""

LOOKAHEAD = 10_000
"""Triplets beyond the next candidate's that a search may ask for in one round."""


@dataclass(frozen=True, slots=True)
class Marginals:
    """Weighted p-values and strengths of a target with every variable given nothing.

    Attributes:
        p_value: Shape (p,); NaN at the target and where no site had a reliable test.
        strength: Shape (p,); NaN as `p_value`. Where strengths stay closed, a rank: larger for
            stronger ones of those that depend on the target, and 0 for the others.
    """

    p_value: FloatVector
    strength: FloatVector

    def dependent(self, alpha: float, among: Iterable[int]) -> list[int]:
        """Those with p < alpha, the strongest first, equally strong ones by position."""
        return self.by_strength(v for v in among if self.p_value[v] < alpha)

    def by_strength(self, variables: Iterable[int]) -> list[int]:
        """The strongest first, equally strong ones by position."""
        return sorted(variables, key=lambda v: (-self.strength[v], v))


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What a search found: the members in the order they were admitted, and the marginals."""

    members: tuple[int, ...]
    marginals: Marginals


@dataclass(frozen=True, slots=True, kw_only=True)
class Triplets:
    """Asks for triplets (x, y, S) about the same variables by the same test.

    x and y are independent iff the weighted p is greater than the test's alpha. ``ranking`` ranks
    the dependent variables where strengths are never opened; else it is None.
    """

    n_variables: int
    test: CITestSpec
    max_cond_size: int | None
    part: Part
    max_rows: int
    ranking: Ranking | None = None

    def marginals(self, target: int) -> Asking[Marginals]:
        """The target with every other variable given nothing; one round, and those of a ranking."""
        others = np.delete(np.arange(self.n_variables), target)
        p_value = np.full(self.n_variables, np.nan)
        strength = np.full(self.n_variables, np.nan)
        if others.size:
            pairs = np.column_stack([np.full(others.size, target), others])
            question = self._question([pairs])
            p_value[others], strength[others] = weighted_means(question, (yield question))
            if self.ranking is not None:
                dependent = p_value[others] < self.test.alpha
                strength[others] = yield from self.ranking.strengths(question, dependent)
        return Marginals(p_value, strength)

    def given(self, families: Sequence[tuple[int, int, Sets]]) -> Asking[list[list[FloatVector]]]:
        """Weighted p-values of x with y given every set of its family (x, y, sets), in a round.

        By family and size of the set, shape (K_l,) each; NaN where no site had a reliable test.
        """
        blocks = rows_of(families)
        p_value = np.zeros(0)
        if any(len(block) for block in blocks):
            question = self._question(blocks)
            p_value, _ = weighted_means(question, (yield question))
        by_size = np.split(p_value, np.cumsum([len(block) for block in blocks]))
        return by_owner([[len(rows) for rows in sets] for _, _, sets in families], by_size)

    def sizes(self, pool: int) -> range:
        """Sizes of the sets that may be drawn from a pool of ``pool`` variables."""
        limit = pool if self.max_cond_size is None else min(pool, self.max_cond_size)
        return range(limit + 1)

    def _question(self, blocks: Sequence[IndexArray]) -> WeightedEvidence:
        counts, members = pack_blocks(blocks)
        return WeightedEvidence(
            n_variables=self.n_variables,
            test=self.test,
            counts=counts,
            members=members,
            part=self.part,
            max_rows=self.max_rows,
        )


def parents_and_children(
    triplets: Triplets, target: int, *, watched: frozenset[int] | None = None
) -> Asking[Neighbourhood]:
    """The target's parents and children by HITON-PC on weighted evidence (FedCFL).

    Phase I keeps the variables whose weighted p with the target is below alpha, the strongest
    first; one without any reliable test counts as independent here. Phase II admits them in turn
    unless a set of members separates them; after each admission the other members, from newest to
    oldest, leave if a set that holds the newcomer separates them. A triplet without any reliable
    test counts as dependent there.

    It stops as soon as none of ``watched`` can be a member any more. Rounds: one, then about one
    per admission: its tests of the older members travel with those that it adds for the waiting
    candidates, up to 10,000 triplets ahead.
    """
    marginals = yield from triplets.marginals(target)
    waiting = marginals.dependent(triplets.test.alpha, range(triplets.n_variables))
    search = _Search(triplets, target, waiting)
    while search.waiting and search.may_hold(watched):
        yield from search.advance()
    return Neighbourhood(tuple(search.members), marginals)


@dataclass(slots=True)
class _Search:
    """Phase II for one target; what it asks ahead never changes what it concludes.

    ``members`` were admitted, the oldest first; those ``waiting`` have not had their turn.
    """

    triplets: Triplets
    target: int
    waiting: list[int]
    members: list[int] = field(default_factory=list)
    _tested: dict[int, frozenset[int]] = field(default_factory=dict)
    """By variable: the members when it was last tested, given all sets of them."""
    _separators: dict[int, list[IndexArray]] = field(default_factory=dict)

    def may_hold(self, watched: frozenset[int] | None) -> bool:
        """Whether a watched variable is a member or waits; True where none is watched."""
        return watched is None or not watched.isdisjoint([*self.members, *self.waiting])

    def advance(self) -> Asking[None]:
        """Give the next candidate its turn, or ask for what its turn needs."""
        candidate = self.waiting[0]
        if self._separated(candidate, self._mask(self.members)):
            self.waiting.pop(0)
        elif any(len(sets) for sets in self._untested(candidate, {})):
            yield from self._test([])
        else:
            self.waiting.pop(0)
            older = self.members[::-1]
            self.members.append(candidate)
            yield from self._test(older)
            for member in older:
                if self._separated(member, self._mask(v for v in self.members if v != member)):
                    self.members.remove(member)

    def _test(self, older: list[int]) -> Asking[None]:
        """Test the ``older`` members, and waiting candidates up to `LOOKAHEAD` triplets ahead."""
        shared: dict[frozenset[int], Sets] = {}
        families = [(self.target, v, self._untested(v, {})) for v in older]
        mask = self._mask(self.members)
        ahead = 0
        for candidate in self.waiting:
            if self._separated(candidate, mask):
                continue
            sets = self._untested(candidate, shared)
            ahead += sum(len(rows) for rows in sets)
            if families and ahead > LOOKAHEAD:
                break
            families.append((self.target, candidate, sets))
        p_values = yield from self.triplets.given(families)
        members = frozenset(self.members)
        for (_, variable, sets), by_size in zip(families, p_values, strict=True):
            self._tested[variable] = members
            for rows, p_value in zip(sets, by_size, strict=True):
                separating = rows[p_value > self.triplets.test.alpha]
                if len(separating):
                    self._separators.setdefault(variable, []).append(separating)

    def _mask(self, pool: Iterable[int]) -> NDArray[np.bool_]:
        """Which variables are in a pool, shape (p,)."""
        mask = np.zeros(self.triplets.n_variables, dtype=bool)
        mask[list(pool)] = True
        return mask

    def _separated(self, variable: int, pool: NDArray[np.bool_]) -> bool:
        """Whether a set within the pool is known to separate it from the target."""
        separators = self._separators.get(variable, ())
        return any(bool(pool[sets].all(axis=1).any()) for sets in separators)

    def _untested(self, variable: int, shared: dict[frozenset[int], Sets]) -> Sets:
        """Sets of members given which the variable has not been tested, by size from 0.

        Candidates last tested with the same members have the same sets, cached in ``shared``.
        """
        tested = self._tested.get(variable, frozenset())
        if tested not in shared:
            pool = np.array([v for v in self.members if v != variable], dtype=np.int64)
            new = np.array([v not in tested for v in pool.tolist()], dtype=bool)
            sets: Sets = []
            for size in self.triplets.sizes(len(pool)):
                chosen = subsets(len(pool), size)
                sets.append(pool[chosen[new[chosen].any(axis=1)]])
            shared[tested] = sets
        return shared[tested]
