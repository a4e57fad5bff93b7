"""FedSkele: the sites vote, layer by layer, on which edges of the skeleton stay (section 3.2.1).

Leaks:
    See `FedPC`: per layer, how many sites keep each edge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from cipherdag.algorithms.fedpc.outcome import LayerVotes
from cipherdag.algorithms.fedpc.pcstable import layer_possible
from cipherdag.questions.question import Skeleton
from cipherdag.questions.skeleton import EdgeVotes

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from cipherdag.graphs.knowledge import Constraints
    from cipherdag.questions.ci_tests import CITestSpec
    from cipherdag.questions.encodings import BoolMatrix
    from cipherdag.questions.presence import Presence
    from cipherdag.questions.question import FloatVector, Question


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRule:
    """How votes decide.

    Attributes:
        share: Share of sites that keeps an edge.
        reference: ``paper``: strictly more than the share, of layers whose neighbourhoods are those
            of their start. ``code``: the share rounded half up, of edits as a site goes.
        max_cond_size: Largest conditioning set; None for the largest degree.
    """

    share: float
    reference: Literal["paper", "code"]
    max_cond_size: int | None

    def needed(self, n_sites: int) -> int:
        """Least votes of so many sites that keep an edge, at least 1."""
        share = Fraction(str(self.share)) * n_sites
        if self.reference == "paper":
            return math.floor(share) + 1
        return max(1, math.floor(share + Fraction(1, 2)))


@dataclass(frozen=True, slots=True, eq=False)
class VotedSkeleton:
    """What the votes leave.

    Attributes:
        skeleton: Symmetric adjacency, shape (p, p).
        layers: Edges left after each layer.
        votes: The votes of each layer.
    """

    skeleton: BoolMatrix
    layers: tuple[int, ...]
    votes: tuple[LayerVotes, ...]

    def standing(self, support: Mapping[tuple[int, int], float]) -> FloatVector:
        """Of every variable the votes given nothing and the support of its sets, shape (p,)."""
        numbers: list[list[float]] = [[] for _ in self.skeleton]
        for layer in self.votes[:1]:
            for pair, votes in zip(layer.pairs.tolist(), layer.votes.tolist(), strict=True):
                for variable in pair:
                    numbers[variable].append(votes)
        for pair, own in support.items():
            for variable in pair:
                numbers[variable].append(own)
        return np.array([math.fsum(own) for own in numbers])


def voted_skeleton(
    known: Constraints, test: CITestSpec, rule: VoteRule, present: Presence
) -> Generator[Question, FloatVector, VotedSkeleton]:
    """One round per layer.

    Args:
        known: What is known of p variables before.
        test: The test of every site.
        rule: How votes decide.
        present: How many sites the last sum covers.
    """
    kept = ~(np.eye(len(known.required), dtype=bool) | known.apart)
    edges_left: list[int] = []
    cast: list[LayerVotes] = []
    order: Literal["stable", "sequential"] = "stable" if rule.reference == "paper" else "sequential"
    layer = 0
    while layer_possible(kept, layer, rule.max_cond_size):
        packed = Skeleton.from_matrix(kept)
        votes = yield EdgeVotes(skeleton=packed, layer=layer, test=test, order=order)
        edges = packed.edges()
        cast.append(LayerVotes(edges, np.rint(votes).astype(np.int64), present.n_sites))
        free = ~known.joined[edges[:, 0], edges[:, 1]]
        dropped = edges[free & (votes < rule.needed(present.n_sites))]
        kept[dropped[:, 0], dropped[:, 1]] = False
        kept[dropped[:, 1], dropped[:, 0]] = False
        edges_left.append(packed.n_edges - len(dropped))
        layer += 1
    return VotedSkeleton(kept, tuple(edges_left), tuple(cast))
