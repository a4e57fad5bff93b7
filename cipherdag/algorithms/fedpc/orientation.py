"""FedPC's directions (phases 4 and 5): the class of a DAG with the colliders that tests find."""

from __future__ import annotations

from collections.abc import Collection

from cipherdag.algorithms.constraint_based.colliders import JudgedTriples
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import (
    Strengths,
    Triple,
    colliders_by_sepset,
    meek_in_code_order,
    orient_colliders,
)
from cipherdag.graphs.resolution import class_of


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

    Args:
        outcome: Skeleton and separating sets.
        constraints: Background knowledge, which comes first.
        judged: What all sets say of the triples; None where the chosen sets alone decide.
        open_triples: Where `judged` is None, triples that the chosen sets do not decide.
        by_clarity: Whether judged colliders are as strong as they are clear; else as the support
            of the chosen set.
        tie_break_score: A number of every variable, for what the graph leaves open, shape (p,).
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


def oriented_in_code_order(outcome: FedPCOutcome, constraints: Constraints) -> BoolMatrix:
    """The graph that the original program makes, shape (p, p), which may be no CPDAG."""
    empty = frozenset[int]()
    sets = {pair: empty if given is None else given for pair, given in outcome.separators.items()}
    arcs = orient_colliders(
        outcome.skeleton,
        colliders_by_sepset(outcome.skeleton, sets),
        conflicts="overwrite",
        background=constraints.directed(outcome.skeleton),
    )
    return meek_in_code_order(arcs)
