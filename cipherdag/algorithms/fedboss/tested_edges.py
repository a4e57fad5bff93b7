"""What tests say of the graph with the best score, among categories.

A score takes a full table of a category and its causes, so where effects add up, parents and
colliders can cost more than they explain. Tests of the same run have no such cost: their edges
join those of the best graph, and they judge its triples first. Of two columns that tests find
independent given nothing, a table of few rows says little: such an edge falls.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from cipherdag.algorithms.fedboss.compared_scores import ComparedScores
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.arrays import BoolMatrix, BoolVector, FloatVector
from cipherdag.graphs.dags import Dag, dag_of, matrix_of, unshielded_colliders
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import Triple
from cipherdag.graphs.resolution import ClassOfDags, class_of
from cipherdag.questions.question import Question


def with_tested_edges(
    dag: Dag, tested: FedPCOutcome, scores: ComparedScores, constraints: Constraints
) -> Generator[Question, FloatVector, tuple[ClassOfDags, BoolMatrix]]:
    """The class of the best graph with what tests say of categories; one round or none.

    An edge that only tests found is taken where scores gave both columns another edge, or where
    the pair's own table scores higher than its two columns do, without what a parent costs.

    Args:
        dag: The graph whose score no move raises.
        tested: The tests from which the search started.
        scores: Compares the scores of pairs.
        constraints: Background knowledge.

    Returns:
        The class, and the edges that only tests found, shape (p, p), symmetric.
    """
    category: BoolVector = np.greater(scores.penalty.categories, 0)
    among: BoolMatrix = np.logical_and.outer(category, category)
    scored = _adjacent(dag)
    stays = scored & ~(among & _independent(tested))
    missed: BoolMatrix = tested.skeleton & among & ~stays
    joined = stays.any(axis=0)
    doubtful = missed & ~np.logical_and.outer(joined, joined)
    pairs = [(int(u), int(v)) for u, v in np.argwhere(np.triu(doubtful))]
    gaining = yield from scores.gaining_pairs(pairs)
    for u, v in set(pairs) - gaining:
        missed[u, v] = missed[v, u] = False
    skeleton: BoolMatrix = stays | missed
    colliders, undecided = _judged(skeleton, dag, tested, category.tolist())
    classed = class_of(
        skeleton, [*colliders], constraints, open_triples=undecided, strength=colliders
    )
    return classed, missed & ~scored


def _judged(
    skeleton: BoolMatrix, dag: Dag, tested: FedPCOutcome, category: list[bool]
) -> tuple[dict[Triple, float], list[Triple]]:
    """The colliders and how clear they are, those of scores least; and the undecided triples."""
    scored = dag_of(_adjacent(dag))
    by_scores, of_scores = _unshielded(scored), set(unshielded_colliders(dag, scored))
    of_tests = _unshielded(dag_of(tested.skeleton)) - {*tested.ambiguous}
    clear = tested.colliders or {}
    colliders: dict[Triple, float] = {}
    undecided = []
    for triple in sorted(_unshielded(dag_of(skeleton))):
        if triple in of_tests and all(category[v] for v in triple):
            if triple in clear:
                colliders[triple] = clear[triple]
        elif triple in of_scores:
            colliders[triple] = 0.0
        elif triple not in by_scores:
            undecided.append(triple)
    return colliders, undecided


def _independent(tested: FedPCOutcome) -> BoolMatrix:
    """Pairs that were tested given nothing, and are independent, shape (p, p)."""
    independent = tested.independent
    if independent is None:
        return np.zeros_like(tested.skeleton)
    return (
        independent if tested.removed_untested is None else independent & ~tested.removed_untested
    )


def _adjacent(dag: Dag) -> BoolMatrix:
    matrix = matrix_of(dag)
    return matrix | matrix.T


def _unshielded(adjacent: Dag) -> set[Triple]:
    """The unshielded triples (x, y, z), x < z, by the neighbours of every variable."""
    return set(unshielded_colliders(adjacent, adjacent))
