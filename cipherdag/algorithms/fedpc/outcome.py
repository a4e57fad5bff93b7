"""What a FedPC run concludes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cipherdag.algorithms.evidence.site_differences import SiteDifference
    from cipherdag.findings.confidence import EdgeCounts
    from cipherdag.graphs.edge_evidence import Effect
    from cipherdag.graphs.knowledge import Constraints
    from cipherdag.questions.encodings import BoolMatrix, FloatVector, IndexArray


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
        arcs: The CPDAG, shape (p, p): True where i -> j or i - j (undirected edges both ways).
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
        standing: A number of every variable that does not depend on its name, shape (p,), for
            choices between variables that are alike in the graph: its p-values or votes given
            nothing, added up.
        differences: How clearly every variable is distributed differently at the sites, and those
            that are, given their neighbours; empty where that was not asked.
        bootstrap: In how many replicates every edge occurs, if there were any.
        weakest: Of every edge x < z that tests over all sites left, the one of largest p-value;
            empty with ``vote``.
        apart: Every pair x < z that tests over all sites separated, ascending, with the set that
            did and its p-value; empty with ``vote``.
        known: What was known before; None for nothing.
        untested: Edges that stand since no site measured both variables, shape (p, p); None where
            all sites measured all.
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
    standing: FloatVector | None = None
    differences: tuple[SiteDifference, ...] = ()
    bootstrap: EdgeCounts | None = None
    weakest: dict[tuple[int, int], WeakestTest] = field(default_factory=dict)
    apart: Iterable[tuple[tuple[int, int], tuple[int, ...], float]] = ()
    known: Constraints | None = field(repr=False, default=None)
    untested: BoolMatrix | None = field(repr=False, default=None)
    fallen: BoolMatrix | None = field(repr=False, default=None)
