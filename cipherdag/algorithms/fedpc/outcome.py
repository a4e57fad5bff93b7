"""What a FedPC run concludes, and its directions (phases 4 and 5)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from cipherdag.algorithms.constraint_based.colliders import JudgedTriples
from cipherdag.algorithms.constraint_based.outcome import TestsOutcome
from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import (
    ClassOfDags,
    Strengths,
    Triple,
    class_of,
    colliders_by_sepset,
    colliders_in_code_order,
    meek_in_code_order,
)


@dataclass(frozen=True, slots=True, eq=False)
class LayerVotes:
    """The votes of one layer, summed over the sites."""

    pairs: IndexArray  # the edges that the layer began with, x < z in order, shape (E, 2)
    votes: IndexArray  # how many sites keep each edge, shape (E,)
    voters: IndexArray  # how many could test it, (E,); 0 where too few: no votes were opened


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FedPCOutcome(TestsOutcome):
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
        votes: The votes of each layer.
        colliders: The triples that are colliders by a rule other than ``sepset``, and how clearly
            (`JudgedTriples`); None by the rule ``sepset``, where the chosen sets decide.
        clarity: For every triple that such a rule judged the number that `colliders` hold.
        in_class: The class of DAGs that `arcs` is, and what tests say otherwise; None by the
            reference ``code``.
        separated_pairs: Every pair x < z that tests over all sites separated, ascending, with the
            set that did and its p-value; empty with ``vote``.
        independent: Pairs that tests over all sites separated given nothing, shape (p, p); None
            with ``vote``.
        undirected: All edges that have no direction whatever the tests say, shape (p, p); None for
            none.
    """

    skeleton: BoolMatrix
    arcs: BoolMatrix
    separators: dict[Pair, frozenset[int] | None]
    support: dict[Pair, float]
    votes: tuple[LayerVotes, ...] = ()
    colliders: dict[Triple, float] | None = None
    clarity: Mapping[Triple, float] = field(repr=False, default_factory=dict)
    in_class: ClassOfDags | None = field(repr=False, default=None)
    separated_pairs: Iterable[tuple[Pair, tuple[int, ...], float]] = ()
    independent: BoolMatrix | None = field(repr=False, default=None)
    undirected: BoolMatrix | None = field(repr=False, default=None)

    def with_class(self, classed: ClassOfDags) -> Self:
        """This outcome with the class of DAGs that was made of it, and with the class's edges."""
        skeleton = classed.arcs | classed.arcs.T
        arcs = classed.arcs
        if self.undirected is not None:
            arcs = arcs | self.undirected & skeleton
        return replace(self, skeleton=skeleton, arcs=arcs, in_class=classed)


def oriented(
    outcome: FedPCOutcome,
    constraints: Constraints,
    judged: JudgedTriples | None,
    *,
    open_triples: Collection[Triple],
    by_clarity: bool,
    tie_break_score: FloatVector,
) -> FedPCOutcome:
    """The outcome with the class that has the strongest colliders, as far as a DAG has them.

    ``judged`` is what all sets say of the triples; where it is None, the chosen sets decide all but
    ``open_triples``. Judged colliders are as strong as they are clear where ``by_clarity``, else as
    the support of the chosen set. ``tie_break_score``, shape (p,), is for what the graph leaves
    open.
    """
    if judged is None:
        by_set = colliders_by_sepset(outcome.skeleton, outcome.separators)
        triples = [triple for triple in by_set if triple not in open_triples]
        strength: Strengths = outcome.support
    else:
        triples, open_triples = [*judged.colliders, *sorted(judged.effects)], judged.ambiguous
        support = outcome.support
        # a middle that causes no end is a collider unless a clearer one contradicts it
        strength = {t: c if by_clarity else support[t[::2]] for t, c in judged.colliders.items()}
        strength |= {triple: -1.0 / judged.clarity[triple] for triple in judged.effects}
    return outcome.with_class(
        class_of(
            outcome.skeleton,
            triples,
            constraints,
            open_triples=open_triples,
            strength=strength,
            tie_break=tie_break_score,
        )
    )


def oriented_in_code_order(outcome: FedPCOutcome) -> BoolMatrix:
    """The graph that the original program makes, shape (p, p), which may be no CPDAG."""
    empty = frozenset[int]()
    sets = {pair: empty if given is None else given for pair, given in outcome.separators.items()}
    colliders = colliders_by_sepset(outcome.skeleton, sets)
    return meek_in_code_order(colliders_in_code_order(outcome.skeleton, colliders))
