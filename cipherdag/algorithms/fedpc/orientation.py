"""FedPC's directions (phases 4 and 5): the class of a DAG with the colliders that tests find.

Leaks:
    Nothing: separating sets and judged triples are already the coordinator's.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from cipherdag.algorithms.fedpc.colliders import JudgedTriples
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.graphs.orientation import (
    Strengths,
    Triple,
    colliders_by_sepset,
    meek_in_code_order,
    orient_colliders,
)
from cipherdag.graphs.resolution import ClassOfDags, class_of

if TYPE_CHECKING:
    from cipherdag.algorithms.fedpc.algorithm import FedPC


def oriented(
    own: FedPC,
    outcome: FedPCOutcome,
    judged: JudgedTriples | None,
    *,
    open_triples: Collection[Triple],
    standing: FloatVector,
) -> ClassOfDags:
    """The class with the strongest colliders, as far as a DAG has them; what is known comes first.

    Args:
        own: The rules.
        outcome: Skeleton, separating sets, and what is known.
        judged: What all sets say of the triples; None where the chosen set tells.
        open_triples: Where `judged` is None, triples that it does not tell of.
        standing: A number of every variable, for what the graph leaves open, shape (p,).
    """
    if judged is None:
        by_set = colliders_by_sepset(outcome.skeleton, outcome.separators)
        triples = [triple for triple in by_set if triple not in open_triples]
        strength: Strengths = outcome.support
    else:
        triples, open_triples = [*judged.colliders, *sorted(judged.effects)], judged.ambiguous
        by_rule = own.closed or own.rule == "p_value_drop"
        clear = {t: c if by_rule else outcome.support[t[::2]] for t, c in judged.colliders.items()}
        # what no end is caused by stands as a collider where no clear one speaks against it
        strength = clear | {triple: -1.0 / judged.clarity[triple] for triple in judged.effects}
    conflicts = own.collider_conflicts
    return class_of(
        outcome.skeleton,
        triples,
        outcome.constraints,
        open_triples=open_triples,
        strength=strength,
        conflicts="strongest" if conflicts == "auto" else conflicts,
        standing=standing,
    )


def oriented_in_code_order(own: FedPC, outcome: FedPCOutcome) -> BoolMatrix:
    """The graph that the original program makes, shape (p, p), which may be no CPDAG."""
    empty = frozenset[int]()
    sets = {pair: empty if given is None else given for pair, given in outcome.separators.items()}
    conflicts = own.collider_conflicts
    arcs = orient_colliders(
        outcome.skeleton,
        colliders_by_sepset(outcome.skeleton, sets),
        conflicts="overwrite" if conflicts == "auto" else conflicts,
        strength=outcome.support,
        known=outcome.constraints.directed(outcome.skeleton),
    )
    return meek_in_code_order(arcs)
