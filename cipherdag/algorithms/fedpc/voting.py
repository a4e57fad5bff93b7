"""The sites vote on the edges of the skeleton, and on separating sets of its unshielded pairs.

FedSkele (section 3.2.1) decides layer by layer which edges stay, FedOrien (section 3.2.2) chooses
separating sets from what the sites say of every candidate.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.algorithms.constraint_based.skeleton import layer_possible
from cipherdag.algorithms.fedpc.outcome import LayerVotes
from cipherdag.algorithms.parameters import require
from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.graphs.knowledge import Constraints
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.comparison import secure_max, secure_min
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Asking
from cipherdag.questions.separators import (
    BestIndexPrecedes,
    BestScoreExceeds,
    CandidateScores,
    SeparatorSearch,
)
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.questions.threshold import sum_with_threshold
from cipherdag.questions.verdicts import MOST_VERDICTS, EdgeVerdicts

CLASS = "Both directions imply the same independences, so the data cannot decide between them."
SUPPORTS = {
    "max": "highest p-value at any site, on the grid of the secure maximum",
    "mean": "mean p-value over the sites, weighted by rows",
    "vote": "sites by whose tests the two are independent given the set",
}
"""What the support of a separating set is, by how it was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The conventions of this package, of the paper or of its program."""

    # takes the number of voters times `Voting.vote_share`, and gives the least votes that keep an
    # edge; `VoteRule` raises them to 1
    least_votes: Callable[[Fraction], int]
    # whether neighbours are those at the layer's start (``stable``), or those in the graph as a
    # site edits it
    order: Literal["stable", "sequential"]
    abstain: bool  # whether a site that can do no test of an edge abstains; else it keeps the edge
    # where candidate sets are from: the neighbours of one end, or of both together
    pool: Literal["either", "union"]
    measure: Literal["p_value", "correlation"]  # what the secure maximum compares
    unseparated_collides: bool  # whether a triple is a collider whose ends no set separates
    # whether the graph is the class of a DAG; else directions are made one after the other, which
    # may leave cycles
    makes_class: bool
    supports: dict[str, str]  # what the support of a separating set is, by how it was chosen
    undirected: str  # why an edge has no direction, in a sentence


VOTES = Reference(
    least_votes=lambda share: math.floor(share) + 1,
    order="stable",
    abstain=True,
    pool="either",
    measure="p_value",
    unseparated_collides=False,
    makes_class=True,
    supports=SUPPORTS,
    undirected=CLASS,
)
PAPER = replace(VOTES, abstain=False)
PROGRAM = Reference(
    least_votes=lambda share: math.floor(share + Fraction(1, 2)),
    order="sequential",
    abstain=False,
    pool="union",
    measure="correlation",
    unseparated_collides=True,
    makes_class=False,
    supports=SUPPORTS
    | {
        "max": "1 less the smallest absolute partial correlation at any site, or a p-value (tables)"
    },
    undirected="The program that is followed gives it no direction.",
)
REFERENCES = {"auto": VOTES, "paper": PAPER, "code": PROGRAM}


TOO_MANY = (
    f"reveal bits with evidence vote is for {MOST_VERDICTS:,} edges at most; evidence fisher "
    "asks for more in several rounds"
)
ScoredBy = Literal["mean", "vote"]
SLICE = 250_000  # candidates whose scores are asked for in a round
UNDECIDED = -2  # stands for a candidate that is not known, since a site that left had the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRule:
    """How votes decide: ``share`` of the sites that can test an edge keeps it.

    Where ``closed``, votes stay closed and verdicts on them are computed. Without ``max_cond_size``
    sets are as large as the largest degree.
    """

    share: float
    reference: Reference
    max_cond_size: int | None
    closed: bool = False

    def needed(self, voters: IndexArray) -> IndexArray:
        """Least votes that keep each edge, by its number of voters; at least 1, shape (E,)."""
        share, least_votes = Fraction(str(self.share)), self.reference.least_votes
        least = [max(1, least_votes(share * n)) for n in range(int(voters.max(initial=0)) + 1)]
        return np.array(least, dtype=np.int64)[voters]

    def table(self, n_sites: int) -> tuple[int, ...]:
        """Least votes for 0, 1, ... voters; 0 for none, so that such an edge stands."""
        return 0, *self.needed(np.arange(1, n_sites + 1)).tolist()


@dataclass(frozen=True, slots=True, eq=False)
class VotedSkeleton:
    """The skeleton that the votes leave, shape (p, p), and how many edges each layer left.

    Where votes stay closed there are none, but the edges that the ``first`` layer leaves.
    """

    skeleton: BoolMatrix
    layers: tuple[int, ...]
    votes: tuple[LayerVotes, ...]
    first: BoolMatrix | None = None

    def tie_break_score(self, support: Mapping[Pair, float]) -> FloatVector:
        """For every variable the sum of its votes given nothing and its sets' support, (p,).

        Where votes stay closed, its edges that stand given nothing are counted in their place.
        """
        numbers: list[list[float]] = [[] for _ in self.skeleton]
        if self.first is not None:
            numbers = [[float(row.sum())] for row in self.first]
        for layer in self.votes[:1]:
            for pair, votes in zip(layer.pairs.tolist(), layer.votes.tolist(), strict=True):
                for variable in pair:
                    numbers[variable].append(votes)
        for pair, strength in support.items():
            for variable in pair:
                numbers[variable].append(strength)
        return np.array(list(map(math.fsum, numbers)))


def voted_skeleton(
    constraints: Constraints,
    test: CITestSpec,
    rule: VoteRule,
    present: Presence,
    min_contributors: int,
) -> Asking[VotedSkeleton]:
    """The skeleton that votes leave: one round per layer, or two where voters are counted first.

    Edges that fewer than ``min_contributors`` sites can test stay. ParameterError where there are
    too many edges for verdicts.
    """
    skeleton = ~(np.eye(len(constraints.required), dtype=bool) | constraints.excluded)
    layers: list[int] = []
    cast: list[LayerVotes] = []
    first, n_sites = None, present.n_sites
    while layer_possible(skeleton, layer := len(layers), rule.max_cond_size):
        packed = Skeleton.from_matrix(skeleton)
        edges = packed.edges()
        reference = rule.reference
        question = EdgeVotes(packed, layer, test, reference.order, reference.abstain)
        if rule.closed:
            require(packed.n_edges <= MOST_VERDICTS, TOO_MANY)
            falls = (yield EdgeVerdicts(question, rule.table(n_sites))) > 0
        else:
            votes, voters = yield from _counted(question, present, min_contributors)
            cast.append(LayerVotes(edges, votes, voters))
            falls = (voters > 0) & (votes < rule.needed(voters))
        dropped = edges[falls & ~constraints.joined[edges[:, 0], edges[:, 1]]]
        skeleton[dropped[:, 0], dropped[:, 1]] = False
        skeleton[dropped[:, 1], dropped[:, 0]] = False
        layers.append(packed.n_edges - len(dropped))
        first = skeleton.copy() if rule.closed and layer == 0 else first
    return VotedSkeleton(skeleton, tuple(layers), tuple(cast), first)


def _counted(
    question: EdgeVotes, present: Presence, min_contributors: int
) -> Asking[tuple[IndexArray, IndexArray]]:
    """The votes on every edge, and how many sites can test it; 0 where those are too few."""
    if not question.abstain:
        sums = yield question
        return np.rint(sums).astype(np.int64), np.full(len(sums), present.n_sites)
    sums = yield from sum_with_threshold(question, min_contributors)
    votes, voters = np.split(np.rint(sums).astype(np.int64), 2)
    voters[voters < min_contributors] = 0
    return votes, voters


def by_maximum(
    search: SeparatorSearch, present: Presence
) -> Asking[tuple[IndexArray, FloatVector]]:
    """Highest score over all sites, then the first candidate attaining it (phase 3).

    The candidate of a pair is -1 for none, and `UNDECIDED` where a site left meanwhile and the
    others do not tell; its score comes with it.
    """
    groups = search.n_groups
    top = np.full(groups, search.top_score, dtype=np.int64)
    peaks = yield from secure_max(
        lambda t: BestScoreExceeds(search=search, thresholds=pack_integers(t)), top, present=present
    )
    doubtful = peaks < 0
    peaks = np.maximum(peaks, 0)
    candidates = search.candidates()
    totals = [candidates.total(g) if peaks[g] else 0 for g in range(groups)]
    index = yield from secure_min(
        lambda t: BestIndexPrecedes(
            search=search, thresholds=pack_integers(t), peaks=pack_integers(peaks)
        ),
        np.array(totals, dtype=np.int64),
        present=present,
    )
    # no remaining site attains a peak that was of a site that left
    doubtful |= (peaks > 0) & ((index < 0) | (index >= totals))
    chosen = np.where(doubtful, UNDECIDED, np.where(peaks > 0, index, -1))
    return chosen, np.ldexp(peaks - 1.0, -search.grid_bits)


def by_candidate_scores(
    search: SeparatorSearch, score: ScoredBy, present: Presence, min_contributors: int
) -> Asking[tuple[IndexArray, FloatVector]]:
    """Highest mean p or most votes; ties go to the first candidate (section 5)."""
    candidates = search.candidates()
    totals = np.array([candidates.total(g) for g in range(search.n_groups)], dtype=np.int64)
    scores = yield from _candidate_scores(
        search, score, int(totals.sum()), present, min_contributors
    )
    index = np.full(search.n_groups, -1, dtype=np.int64)
    support = np.zeros(search.n_groups)
    least = search.test.alpha if score == "mean" else 0.0
    for group, (start, total) in enumerate(zip(np.cumsum(totals) - totals, totals, strict=True)):
        of_group = scores[start : start + total]
        best = int(of_group.argmax()) if total else 0
        if total and of_group[best] > least:
            index[group], support[group] = best, of_group[best]
    return index, support


def _candidate_scores(
    search: SeparatorSearch, score: ScoredBy, total: int, present: Presence, min_contributors: int
) -> Asking[FloatVector]:
    parts: list[FloatVector] = [np.zeros(0)]
    voters = 0
    for first in range(0, total, SLICE):
        count = min(SLICE, total - first)
        question = CandidateScores(search=search, first=first, count=count, score=score)
        # every site votes, so no site has to be counted first
        sums = yield from sum_with_threshold(question, min_contributors if score == "mean" else 1)
        if score == "mean":
            # Eq. 1 of FedCMFS: sum n_k p_k / sum n_k over the sites whose test is reliable
            weighted, rows = sums[:count], sums[count:]
            sums = np.divide(weighted, rows, out=np.zeros(count), where=rows > 0)
        else:
            # where sites left, scale votes to the number of sites in the first round
            voters = voters or present.n_sites
            sums = sums * (voters / present.n_sites)
        parts.append(sums)
    return np.concatenate(parts)
