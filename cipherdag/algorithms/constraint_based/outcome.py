"""The outcome that every search for a graph by tests over all sites has, by position."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from cipherdag.algorithms.constraint_based.fit_checks import CurvedEdge
from cipherdag.algorithms.constraint_based.pair_tests import MaxPValueTest, Pair
from cipherdag.algorithms.evidence.federated_test import CachedFederatedCITest
from cipherdag.algorithms.evidence.site_differences import SiteDifference
from cipherdag.arrays import BoolMatrix, IndexArray
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.graphs.edge_evidence import TestsOfEdge
from cipherdag.graphs.knowledge import Constraints


@dataclass(frozen=True, slots=True)
class Doubts:
    """What is looked for beside a search: columns that differ by site, and curves tests miss.

    Attributes:
        differences: The tests of whether each variable is distributed differently at sites, and, if
            so, still is given its neighbours. Empty where sites were not compared.
        curved: The edges whose two columns follow a neighbour in a curve no test's regression has.
    """

    differences: tuple[SiteDifference, ...] = ()
    curved: tuple[CurvedEdge, ...] = ()

    def among(self, adjacent: BoolMatrix) -> tuple[CurvedEdge, ...]:
        """The curved edges that stand in a graph, (p, p)."""
        return tuple(edge for edge in self.curved if adjacent[edge.first, edge.second])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TestsOutcome:
    """The part of an outcome that comes from tests over all sites; p variables.

    Attributes:
        layers: Edges left after each layer of tests, or of votes.
        tests: How many distinct tests over all sites were done by each `Method`, by its value;
            empty with votes.
        ambiguous: Unshielded triples (x, y, z), x < z, of which the tests leave open whether they
            are colliders.
        weakest: For every edge x < z that tests over all sites left, its test of largest p-value;
            empty with votes.
        decisive: For every edge x < z that tests could have removed, the number of these tests and
            of those that were skipped; empty where that is not known.
        doubts: How sites differ, and which edges may be due to curves.
        bootstrap: In how many replicates every edge occurs, with which ends; None for none.
        rows: Rows of all sites, where they were disclosed; else 0.
        of_patients: The details on rows that are visits, as `ColumnKinds` has them.
        untested: Edges that stand since no site measured both variables, shape (p, p); None where
            all sites measured all.
        removed_untested: Pairs that count as independent though too few sites could test them,
            shape (p, p); None where there are none.
    """

    __test__ = False  # pytest takes every class named Test... for a test case

    layers: tuple[int, ...] = ()
    tests: Mapping[str, int] = field(default_factory=dict)
    ambiguous: tuple[tuple[int, int, int], ...] = ()
    weakest: Mapping[Pair, MaxPValueTest] = field(default_factory=dict)
    decisive: Mapping[Pair, TestsOfEdge[int]] = field(repr=False, default_factory=dict)
    doubts: Doubts = field(default_factory=Doubts)
    bootstrap: EdgeCounts | None = None
    rows: int = 0
    of_patients: Mapping[str, Any] = field(default_factory=dict)
    constraints: Constraints | None = field(repr=False, default=None)
    untested: BoolMatrix | None = field(repr=False, default=None)
    removed_untested: BoolMatrix | None = field(repr=False, default=None)

    def of_source(
        self, source: CachedFederatedCITest, doubts: Doubts, constraints: Constraints
    ) -> Self:
        """This outcome with the doubts, and what the source counted and could not test."""
        kinds = source.kinds
        return replace(
            self,
            tests={str(method): count for method, count in source.n_tests_by_method.items()},
            rows=0 if kinds is None else kinds.rows,
            of_patients={} if kinds is None else kinds.of_patients,
            doubts=doubts,
            removed_untested=removed_untested(source.untestable_pairs(), constraints),
        )


def removed_untested(untestable: IndexArray, constraints: Constraints) -> BoolMatrix | None:
    """Pairs whose edges were removed untested, shape (p, p), symmetric; None where there are none.

    ``untestable`` pairs, shape (B, 2), could not be tested; knowledge may exclude some of them.
    """
    removed = np.zeros_like(constraints.excluded)
    x, z = untestable.T
    removed[x, z] = removed[z, x] = True
    removed &= ~constraints.excluded
    return removed if removed.any() else None
