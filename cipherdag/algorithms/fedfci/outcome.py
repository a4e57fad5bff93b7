"""What a FedFCI run concludes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cipherdag.algorithms.evidence.site_differences import SiteDifference
from cipherdag.algorithms.fedpc.outcome import WeakestTest
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.graphs.ancestral.integration import Local
from cipherdag.graphs.edge_evidence import TestsOfEdge
from cipherdag.graphs.endpoints import Endpoints
from cipherdag.graphs.knowledge import Constraints


@dataclass(frozen=True, slots=True, eq=False)
class FedFCIOutcome:
    """What a FedFCI run concludes, by position; p variables.

    Attributes:
        marks: The PAG, shape (p, p); see `cipherdag.graphs.endpoints`.
        layers: Edges left after each layer of tests.
        removed: Edges that fell, with ``rfci``, to tests of triples and paths.
        tests: How many distinct tests over all sites were done in which way.
        sepsets: A separating set of every pair x < z without an edge, and its p-value.
        colliders: The unshielded triples (x, y, z), x < z, that are colliders.
        ambiguous: Those of which it is open.
        weakest: Of every edge x < z that was tested, the test of largest p-value.
        decisive: As in `FedPCOutcome`.
        differences: As in `FedPCOutcome`.
        known: What was known before; None for nothing.
        bootstrap: In how many replicates every mark occurs, if there were any.
        rows: Rows of all sites, where they were opened; else 0.
        untested: Edges that stand since no site measured both variables, shape (p, p); None where
            all sites measured all.
        fallen: As in `FedPCOutcome`.
        groups: Where these are integrated, the PAG of every group of sites among its variables.
    """

    marks: Endpoints
    layers: tuple[int, ...]
    removed: int
    sepsets: dict[tuple[int, int], tuple[frozenset[int], float]]
    colliders: tuple[tuple[int, int, int], ...]
    ambiguous: tuple[tuple[int, int, int], ...] = ()
    tests: dict[str, int] = field(default_factory=dict)
    weakest: dict[tuple[int, int], WeakestTest] = field(default_factory=dict)
    decisive: Mapping[tuple[int, int], TestsOfEdge[int]] = field(repr=False, default_factory=dict)
    differences: tuple[SiteDifference, ...] = ()
    known: Constraints | None = field(repr=False, default=None)
    bootstrap: EdgeCounts | None = None
    rows: int = 0
    untested: BoolMatrix | None = field(repr=False, default=None)
    fallen: BoolMatrix | None = field(repr=False, default=None)
    groups: tuple[Local, ...] = field(repr=False, default=())
