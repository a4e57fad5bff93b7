"""FedSkele: the sites vote, layer by layer, on which edges of the skeleton stay (section 3.2.1).

Leaks:
    See `FedPC`: per layer, how many sites can test each edge, and how many of them keep it; the
    latter only where as many can as a sum has to cover. By bits, which edges fall, and no more.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from cipherdag.algorithms.fedpc.outcome import LayerVotes
from cipherdag.algorithms.fedpc.pcstable import layer_possible
from cipherdag.algorithms.parameters import require
from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.graphs.knowledge import Constraints
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import Question
from cipherdag.questions.skeleton import EdgeVotes, Skeleton
from cipherdag.questions.threshold import sum_with_threshold
from cipherdag.questions.verdicts import MOST_VERDICTS, EdgeVerdicts

TOO_MANY = (
    f"reveal bits with evidence vote is for {MOST_VERDICTS:,} edges at most; evidence fisher "
    "asks for more in several rounds"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRule:
    """How votes decide.

    Attributes:
        share: Share of the sites that can test an edge that keeps it.
        reference: ``paper``: strictly more than the share, of layers whose neighbourhoods are those
            of their start. ``code``: the share rounded half up, of edits as a site goes, and a site
            that cannot test an edge keeps it.
        max_cond_size: Largest conditioning set; None for the largest degree.
        closed: Whether votes stay closed, and verdicts on them are found.
    """

    share: float
    reference: Literal["paper", "code"]
    max_cond_size: int | None
    closed: bool = False

    def needed(self, voters: IndexArray) -> IndexArray:
        """Least votes of so many sites each that keep an edge, at least 1, shape (E,)."""
        least = [self._least(int(own)) for own in range(int(voters.max(initial=0)) + 1)]
        return np.array(least, dtype=np.int64)[voters]

    def table(self, n_sites: int) -> tuple[int, ...]:
        """The same for 0, 1, ... sites; 0 of none, where an edge stands."""
        return 0, *self.needed(np.arange(1, n_sites + 1)).tolist()

    def _least(self, voters: int) -> int:
        share = Fraction(str(self.share)) * voters
        if self.reference == "paper":
            return math.floor(share) + 1
        return max(1, math.floor(share + Fraction(1, 2)))


@dataclass(frozen=True, slots=True, eq=False)
class VotedSkeleton:
    """What the votes leave.

    Attributes:
        skeleton: Symmetric adjacency, shape (p, p).
        layers: Edges left after each layer.
        votes: The votes of each layer; none where they stay closed.
        first: The edges that the first layer leaves, likewise.
    """

    skeleton: BoolMatrix
    layers: tuple[int, ...]
    votes: tuple[LayerVotes, ...]
    first: BoolMatrix | None = None

    def standing(self, support: Mapping[tuple[int, int], float]) -> FloatVector:
        """Of every variable the votes given nothing and the support of its sets, shape (p,).

        Where votes stay closed the edges that stand given nothing take their place.
        """
        numbers: list[list[float]] = [[] for _ in self.skeleton]
        if self.first is not None:
            numbers = [[float(own.sum())] for own in self.first]
        for layer in self.votes[:1]:
            for pair, votes in zip(layer.pairs.tolist(), layer.votes.tolist(), strict=True):
                for variable in pair:
                    numbers[variable].append(votes)
        for pair, own in support.items():
            for variable in pair:
                numbers[variable].append(own)
        return np.array([math.fsum(own) for own in numbers])


def voted_skeleton(
    known: Constraints,
    test: CITestSpec,
    rule: VoteRule,
    present: Presence,
    fewest: int,
) -> Generator[Question, FloatVector, VotedSkeleton]:
    """One round per layer, or two where it is counted first who can test which edge.

    Args:
        known: What is known of p variables before.
        test: The test of every site.
        rule: How votes decide.
        present: How many sites the last sum covers.
        fewest: How many sites have to be able to test an edge that is voted on; others stay.

    Raises:
        ParameterError: There are too many edges for verdicts.
    """
    kept = ~(np.eye(len(known.required), dtype=bool) | known.apart)
    edges_left: list[int] = []
    cast: list[LayerVotes] = []
    first, n_sites, layer = None, present.n_sites, 0
    while layer_possible(kept, layer, rule.max_cond_size):
        packed = Skeleton.from_matrix(kept)
        edges = packed.edges()
        question = _layer(packed, layer, test, rule)
        if rule.closed:
            require(packed.n_edges <= MOST_VERDICTS, TOO_MANY)
            falls = (yield EdgeVerdicts(question, rule.table(n_sites))) > 0
        else:
            votes, able = yield from _counted(question, present, fewest)
            cast.append(LayerVotes(edges, votes, able))
            falls = (able > 0) & (votes < rule.needed(able))
        dropped = edges[falls & ~known.joined[edges[:, 0], edges[:, 1]]]
        kept[dropped[:, 0], dropped[:, 1]] = False
        kept[dropped[:, 1], dropped[:, 0]] = False
        edges_left.append(packed.n_edges - len(dropped))
        first = kept.copy() if rule.closed and layer == 0 else first
        layer += 1
    return VotedSkeleton(kept, tuple(edges_left), tuple(cast), first)


def _layer(skeleton: Skeleton, layer: int, test: CITestSpec, rule: VoteRule) -> EdgeVotes:
    if rule.reference == "paper":
        return EdgeVotes(skeleton=skeleton, layer=layer, test=test, abstain=True)
    return EdgeVotes(skeleton=skeleton, layer=layer, test=test, order="sequential")


def _counted(
    question: EdgeVotes, present: Presence, fewest: int
) -> Generator[Question, FloatVector, tuple[IndexArray, IndexArray]]:
    """The votes on every edge, and how many sites can test it; 0 where those are too few."""
    if not question.abstain:
        sums = yield question
        return np.rint(sums).astype(np.int64), np.full(len(sums), present.n_sites)
    sums = yield from sum_with_threshold(question, fewest)
    votes, able = np.split(np.rint(sums).astype(np.int64), 2)
    able[able < fewest] = 0
    return votes, able
