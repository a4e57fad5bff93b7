"""A skeleton, and the sites' votes on its edges."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from cipherdag.arrays import BoolMatrix, IndexArray
from cipherdag.questions.ci_tests import CITestSpec, others
from cipherdag.questions.disclosure import Quantity, sums
from cipherdag.questions.encodings import MAX_VARIABLES, Encoding
from cipherdag.questions.question import Question


class Skeleton(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An undirected graph over positions 0..n_variables-1, its upper triangle packed in bits."""

    n_variables: int
    upper: bytes

    def __post_init__(self) -> None:
        if not 1 <= self.n_variables <= MAX_VARIABLES:
            raise ValueError(f"n_variables must lie in 1..{MAX_VARIABLES}")
        n_pairs = self.n_variables * (self.n_variables - 1) // 2
        if len(self.upper) != (n_pairs + 7) // 8:
            raise ValueError("the packed triangle does not have the length n_variables implies")
        if n_pairs % 8 and self.upper[-1] & ((1 << (8 - n_pairs % 8)) - 1):
            raise ValueError("the packed triangle has bits beyond its end")

    @classmethod
    def from_matrix(cls, adjacency: BoolMatrix) -> Skeleton:
        """Pack a symmetric matrix of shape (p, p)."""
        n_variables = adjacency.shape[0]
        upper = np.packbits(adjacency[np.triu_indices(n_variables, 1)]).tobytes()
        return cls(n_variables=n_variables, upper=upper)

    def edges(self) -> IndexArray:
        """The edges as pairs x < y in lexicographic order, shape (E, 2)."""
        n_pairs = self.n_variables * (self.n_variables - 1) // 2
        bits = np.unpackbits(np.frombuffer(self.upper, dtype=np.uint8), count=n_pairs)
        rows, columns = np.triu_indices(self.n_variables, 1)
        present = bits.astype(bool)
        return np.stack([rows[present], columns[present]], axis=1)

    def matrix(self) -> BoolMatrix:
        """Symmetric adjacency of shape (p, p)."""
        adjacency = np.zeros((self.n_variables, self.n_variables), dtype=bool)
        edges = self.edges()
        adjacency[edges[:, 0], edges[:, 1]] = True
        return adjacency | adjacency.T

    @property
    def n_edges(self) -> int:
        return int.from_bytes(self.upper, "big").bit_count()


class EdgeVotes(Question, frozen=True, tag="edge-votes"):
    """Asks for the site's vote on each edge, in one layer of FedSkele: FedPC, section 3.2.1.

    The answer has one 0/1 vote per edge, in the order of ``Skeleton.edges``. A site removes an edge
    if one of the layer's tests of it that the site can do says independent, and keeps it if all of
    those say dependent. Where it can do none, it keeps the edge; with ``abstain`` its vote is 0.
    A second segment then says for every edge whether the site could do any test of it.

    Attributes:
        order: ``stable``: neighbours are those of the layer's start (the paper's ne(S, X_i));
            ``sequential``: the site edits its graph as it goes (the original code).
        abstain: Whether a site that can do no test of an edge abstains.
    """

    discloses = sums(Quantity.VOTES, Quantity.SITES)
    resamplable = True
    countable = True

    skeleton: Skeleton
    layer: int
    test: CITestSpec
    order: Literal["stable", "sequential"] = "stable"
    abstain: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.layer < MAX_VARIABLES:
            raise ValueError("layer must not be negative")
        if self.abstain and self.order != "stable":
            raise ValueError("sites abstain in order stable only")

    @property
    def label(self) -> str:
        return "votes on edges" + f", given {others(self.layer)}" * bool(self.layer)

    @property
    def n_variables(self) -> int:
        return self.skeleton.n_variables

    @property
    def needs_count(self) -> bool:
        return self.abstain

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        length = self.skeleton.n_edges
        votes, able = (
            Encoding(length, 1.0, sums(said)) for said in (Quantity.VOTES, Quantity.SITES)
        )
        return (votes, able) if self.abstain else (votes,)
