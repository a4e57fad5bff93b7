"""What a FedPC run concludes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from cipherdag.algorithms.evidence.site_differences import SiteDifference
from cipherdag.arrays import BoolMatrix, IndexArray
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.graphs.edge_evidence import Effect, TestsOfEdge
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.resolution import ClassOfDags


@dataclass(frozen=True, slots=True, eq=False)
class LayerVotes:
    """The votes of one layer, summed over the sites.

    Attributes:
        pairs: The edges that the layer began with, x < z in lexicographic order, shape (E, 2).
        votes: How many sites keep each of them, shape (E,).
        able: How many sites voted, as they could test the edge, shape (E,); 0 where too few could,
            so that no votes were opened.
    """

    pairs: IndexArray
    votes: IndexArray
    able: IndexArray


@dataclass(frozen=True, slots=True)
class WeakestTest:
    """The test of largest p-value that an edge stood: that, the set, and the effect in it."""

    p_value: float
    given: tuple[int, ...]
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class FedPCOutcome:
    """What a FedPC run concludes, by position; p variables.

    Attributes:
        skeleton: Symmetric adjacency, shape (p, p).
        arcs: The CPDAG, or with knowledge the maximal PDAG, shape (p, p): True where i -> j or
            i - j (undirected edges both ways); but edges that no site measured both ends of have no
            direction, nor those between columns that write one variable several times. By the
            reference ``code`` what its program makes.
        separators: Chosen separating set of each unshielded pair (x, z), x < z; None where no site
            found one.
        support: Strength of each pair's choice: best p-value on the grid, mean p or votes.
        layers: Edges left after each layer.
        tests: How many distinct tests over all sites were done in which way; empty with ``vote``.
        votes: The votes of each layer.
        ambiguous: Unshielded triples (x, y, z), x < z, of which the tests leave open whether they
            are colliders: by the rules other than ``sepset``, or as a site left while a separating
            set was looked for.
        colliders: The triples that are colliders by such a rule, and how clearly; None by the rule
            ``sepset``, where the chosen sets tell.
        clarity: Of every triple that such a rule judged the number that `colliders` have.
        in_class: The class of DAGs that `arcs` is, and what tests say otherwise; None by the
            reference ``code``.
        differences: How clearly every variable is distributed differently at the sites, and those
            that are, given their neighbours; empty where that was not asked.
        bootstrap: In how many replicates every edge occurs, if there were any.
        weakest: Of every edge x < z that tests over all sites left, the one of largest p-value;
            empty with ``vote``.
        decisive: Of every edge x < z that tests could have taken away, how many there are and which
            were not done; empty where that is not known.
        apart: Every pair x < z that tests over all sites separated, ascending, with the set that
            did and its p-value; empty with ``vote``.
        rows: Rows of all sites, where they were opened; else 0.
        known: What was known before; None for nothing.
        untested: Edges that stand since no site measured both variables, shape (p, p); None where
            all sites measured all.
        undirected: All edges that have no direction whatever the tests say, shape (p, p); None for
            none.
        fallen: Pairs that count as independent though too few sites could test them, shape (p, p);
            None where there are none.
    """

    skeleton: BoolMatrix
    arcs: BoolMatrix
    separators: dict[tuple[int, int], frozenset[int] | None]
    support: dict[tuple[int, int], float]
    layers: tuple[int, ...]
    tests: dict[str, int] = field(default_factory=dict)
    votes: tuple[LayerVotes, ...] = ()
    ambiguous: tuple[tuple[int, int, int], ...] = ()
    colliders: dict[tuple[int, int, int], float] | None = None
    clarity: Mapping[tuple[int, int, int], float] = field(repr=False, default_factory=dict)
    in_class: ClassOfDags | None = field(repr=False, default=None)
    differences: tuple[SiteDifference, ...] = ()
    bootstrap: EdgeCounts | None = None
    weakest: dict[tuple[int, int], WeakestTest] = field(default_factory=dict)
    decisive: Mapping[tuple[int, int], TestsOfEdge[int]] = field(repr=False, default_factory=dict)
    apart: Iterable[tuple[tuple[int, int], tuple[int, ...], float]] = ()
    rows: int = 0
    known: Constraints | None = field(repr=False, default=None)
    untested: BoolMatrix | None = field(repr=False, default=None)
    undirected: BoolMatrix | None = field(repr=False, default=None)
    fallen: BoolMatrix | None = field(repr=False, default=None)

    @property
    def constraints(self) -> Constraints:
        """What was known before, be it nothing."""
        return self.known or Constraints.none(len(self.skeleton))

    def with_class(self, found: ClassOfDags) -> Self:
        """The same with the class of DAGs that was made of it, whose edges it then has."""
        skeleton = found.arcs | found.arcs.T
        arcs = found.arcs if self.undirected is None else found.arcs | self.undirected & skeleton
        return replace(self, skeleton=skeleton, arcs=arcs, in_class=found)
