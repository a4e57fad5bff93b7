"""Which of a target's candidates is the strongest, by comparisons of two sums that stay closed.

Few candidates are compared each with each in one round, and ranked by how often they win. Of more,
some are taken as pivots and compared with all. The groups of candidates between two pivots are then
ranked in the same way, all in the same rounds. Comparisons contradict one another only where sites
cannot test the same pairs; the order is a public function of them in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import msgspec
import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.combined_evidence import Combination, CombinedEvidence, WeightedEvidence
from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.question import Asking
from cipherdag.questions.strengths import ScaleVerdicts, StrengthVerdicts
from cipherdag.questions.verdicts import finest_grid_that_fits

Comparing = Callable[[IndexArray], Asking[FloatVector]]
Wins = dict[tuple[int, int], bool]
"""Says of a pair of candidates i < j whether j is stronger."""

EACH_WITH_EACH = 24
"""Largest group of candidates of which every two are compared."""
PIVOTS = 7
"""Number of pivots in a larger group."""
LOG_POWER = 11
"""-2 ln p of a site is below 2**11."""
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
        """The largest difference of a site on the grid, and the bits of the grid."""
        largest, bits = finest_grid_that_fits(lambda bits: 1 << bits, self.n_sites, TOO_MANY_SITES)
        if self.evidence == "fisher":
            return largest, bits - LOG_POWER
        reached = yield ScaleVerdicts(pairs)
        return largest, bits - 2 * int((reached > 0).sum())


def ranked(count: int, compare: Comparing) -> Asking[list[int]]:
    """The order of ``count`` candidates, the strongest first.

    ``compare`` asks of pairs i < j, shape (C, 2), whether j is stronger than i, shape (C,).
    """
    groups = [list(range(count))]
    while any(len(group) > 1 for group in groups):
        asked = [pair for group in groups for pair in _pairs(group)]
        verdicts = yield from compare(np.array(asked, dtype=np.int64))
        wins = dict(zip(asked, (verdicts > 0).tolist(), strict=True))
        groups = [part for group in groups for part in _parted(group, wins)]
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


def _parted(group: list[int], wins: Wins) -> list[list[int]]:
    """The parts into which comparisons divide a group, the strongest first."""

    def beaten(i: int, others: list[int]) -> int:
        return sum(wins[i, j] if i < j else not wins[j, i] for j in others)

    pivots = group if len(group) <= EACH_WITH_EACH else _pivots(group)
    losses = {i: beaten(i, [j for j in pivots if j != i]) for i in group}
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
