"""What a FedFCI run concludes."""

from __future__ import annotations

from dataclasses import dataclass, field

from cipherdag.algorithms.constraint_based.outcome import TestsOutcome
from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.arrays import BoolMatrix
from cipherdag.graphs.ancestral.integration import LocalPAG
from cipherdag.graphs.endpoints import NONE, Endpoints
from cipherdag.graphs.orientation import Triple


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedFCIOutcome(TestsOutcome):
    """What a FedFCI run concludes, by position; p variables.

    Attributes:
        marks: The PAG, shape (p, p); see `cipherdag.graphs.endpoints`.
        removed: Edges that fell, with ``rfci``, to tests of triples and paths.
        sepsets: A separating set of every pair x < z without an edge, and its p-value.
        colliders: The unshielded triples (x, y, z), x < z, that are colliders.
        groups: The PAG of every group of sites among its variables; empty if none is integrated.
    """

    marks: Endpoints
    removed: int = 0
    sepsets: dict[Pair, tuple[frozenset[int], float]]
    colliders: tuple[Triple, ...] = ()
    groups: tuple[LocalPAG, ...] = field(repr=False, default=())

    @property
    def skeleton(self) -> BoolMatrix:
        """The edges of the PAG, shape (p, p)."""
        return self.marks != NONE
