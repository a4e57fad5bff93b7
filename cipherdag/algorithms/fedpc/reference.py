"""Where the votes of this package, the paper and its program differ: `Voting.reference`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

CLASS = "Both directions imply the same independences, so the data cannot decide between them."
SUPPORTS = {
    "max": "highest p-value at any site, on the grid of the secure maximum",
    "mean": "mean p-value over the sites, weighted by rows",
    "vote": "sites by whose tests the two are independent given the set",
}
"""What the support of a separating set is, by how it was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The conventions of this package, of the paper or of its program.

    Attributes:
        least_votes: Takes the number of voters times `Voting.vote_share`, and gives the least
            votes that keep an edge; `VoteRule` raises them to 1.
        order: Whether neighbours are those at the layer's start (``stable``), or those in the graph
            as a site edits it.
        abstain: Whether a site that can do no test of an edge abstains; else it keeps the edge.
        pool: Where candidate sets are from: the neighbours of one end, or of both together.
        measure: What the secure maximum compares.
        unseparated_collides: Whether a triple is a collider whose ends no set separates.
        makes_class: Whether the graph is the class of a DAG; else directions are made one after
            the other, which may leave cycles.
        supports: What the support of a separating set is, by how it was chosen.
        undirected: Why an edge has no direction, in a sentence.
    """

    least_votes: Callable[[Fraction], int]
    order: Literal["stable", "sequential"]
    abstain: bool
    pool: Literal["either", "union"]
    measure: Literal["p_value", "correlation"]
    unseparated_collides: bool
    makes_class: bool
    supports: dict[str, str]
    undirected: str


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
