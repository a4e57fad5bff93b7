"""HITON-PC as a search that asks: which variables are a target's parents and children?

Source: Aliferis et al., JMLR 11 (2010) 171-234, in the interleaved form that FedCMFS (section 4.2,
Alg. 1) and its authors' published single-site program use.

Where strengths stay closed, candidates are ranked by comparisons of two sums. In a small group all
are compared in one round, and ranked by how often they win. In a larger one some are pivots, and
compared with all. The groups of candidates between two pivots are then ranked in the same way, all
in the same rounds. Comparisons contradict one another only where sites cannot test the same pairs;
the order is a public function of them in any case.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import (
    Combination,
    CombinedEvidence,
    WeightedEvidence,
    weighted_means,
)
from cipherdag.questions.encodings import by_owner, pack_blocks, pack_integers, rows_of, subsets
from cipherdag.questions.question import Asking
from cipherdag.questions.strengths import ScaleVerdicts, StrengthVerdicts
from cipherdag.questions.verdicts import finest_grid_that_fits

Comparing = Callable[[IndexArray], Asking[FloatVector]]
Wins = dict[tuple[int, int], bool]  # says of a pair of candidates i < j whether j is stronger

EACH_WITH_EACH = 24  # largest group of candidates of which every two are compared
PIVOTS = 7  # number of pivots in a larger group
LOG_POWER = 11  # -2 ln p of a site is below 2**11
TOO_MANY_SITES = "reveal bits of strengths is for fewer sites"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks a target's pairs by weighted mean strength, or with ``fisher`` by summed -2 ln p."""

    evidence: Combination
    n_sites: int

    def strengths(self, marginals: WeightedEvidence, dependent: BoolVector) -> Asking[FloatVector]:
        """Ranks of B pairs by strength, 1 for the weakest; 0 for those not dependent, shape (B,).

        ParameterError where there are too many sites.
        """
        ranked = np.flatnonzero(dependent)
        ranks = np.zeros(len(dependent))
        if len(ranked):
            counts, members = pack_blocks([marginals.rows()[0][ranked]])
            pairs = msgspec.structs.replace(marginals, counts=counts, members=members)
            order = yield from self._order(pairs)
            ranks[ranked[order]] = np.arange(len(order), 0, -1)
        return ranks

    def _order(self, pairs: WeightedEvidence) -> Asking[list[int]]:
        n_pairs = pairs.counts[0]
        if n_pairs == 1:
            return [0]
        largest, bits = yield from self._grid(pairs)
        question: WeightedEvidence | CombinedEvidence = pairs
        if self.evidence == "fisher":
            question = CombinedEvidence.about(pairs, "fisher")

        def stronger(compared: IndexArray) -> Asking[FloatVector]:
            return (yield StrengthVerdicts(question, largest, bits, pack_integers(compared)))

        return (yield from ranked(n_pairs, stronger))

    def _grid(self, pairs: WeightedEvidence) -> Asking[tuple[int, int]]:
        """A site's largest difference on the grid, and the grid's bits: two less per power of 4."""
        largest, bits = finest_grid_that_fits(lambda bits: 1 << bits, self.n_sites, TOO_MANY_SITES)
        if self.evidence == "fisher":
            return largest, bits - LOG_POWER
        powers = yield ScaleVerdicts(pairs)
        return largest, bits - 2 * int((powers > 0).sum())


def ranked(count: int, compare: Comparing) -> Asking[list[int]]:
    """The order of ``count`` candidates, the strongest first.

    ``compare`` asks of pairs i < j, shape (C, 2), whether j is stronger than i, shape (C,).
    """
    groups = [list(range(count))]
    while any(len(group) > 1 for group in groups):
        asked = [pair for group in groups for pair in _pairs(group)]
        verdicts = yield from compare(np.array(asked, dtype=np.int64))
        wins = dict(zip(asked, (verdicts > 0).tolist(), strict=True))
        groups = [part for group in groups for part in _divided(group, wins)]
    return [candidate for group in groups for candidate in group]


def _pivots(group: list[int]) -> list[int]:
    step = len(group) // (PIVOTS + 1)
    return group[step::step][:PIVOTS]


def _pairs(group: list[int]) -> list[tuple[int, int]]:
    """The pairs of a group, which is in ascending order, that are compared."""
    if len(group) <= EACH_WITH_EACH:
        return list(combinations(group, 2))
    pivots = _pivots(group)
    within = list(combinations(pivots, 2))
    return within + [(min(a, b), max(a, b)) for a in pivots for b in group if b not in pivots]


def _divided(group: list[int], wins: Wins) -> list[list[int]]:
    """The parts into which comparisons divide a group, the strongest first."""

    def defeats(i: int, others: list[int]) -> int:
        return sum(wins[i, j] if i < j else not wins[j, i] for j in others)

    pivots = group if len(group) <= EACH_WITH_EACH else _pivots(group)
    losses = {i: defeats(i, [j for j in pivots if j != i]) for i in group}
    ranked_pivots = sorted(pivots, key=lambda i: (losses[i], i))
    if pivots is group:
        return [[candidate] for candidate in ranked_pivots]
    parts: list[list[int]] = [[] for _ in range(2 * len(pivots) + 1)]
    for number, candidate in enumerate(ranked_pivots):
        parts[2 * number + 1].append(candidate)
    for candidate in group:
        if candidate not in pivots:
            parts[2 * losses[candidate]].append(candidate)
    return [part for part in parts if part]


Part = Literal["FedCFL", "FedCFR", "FedCFC"]
Sets = list[IndexArray]
"""Conditioning sets by size: shape (K_l, l) each."""

LOOKAHEAD = 10_000  # triplets beyond the next candidate's that a search may ask for in one round


@dataclass(frozen=True, slots=True)
class Marginals:
    """Weighted p-values and strengths of a target with every variable given nothing."""

    p_value: FloatVector  # shape (p,); NaN at the target and where no site had a reliable test
    # shape (p,); NaN as `p_value`. Where strengths stay closed, a rank: larger for stronger ones of
    # those that depend on the target, and 0 for the others.
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
