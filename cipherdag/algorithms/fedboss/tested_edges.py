"""What tests say of the graph with the best score, among categories.

A score takes a full table of a category and its causes, so where effects add up, parents and
colliders can cost more than they explain. Tests of the same run have no such cost: their edges
join those of the best graph, and they judge its triples first. An edge of scores falls if its ends
are marginally independent, or if tests separate them and its table is too large for the rows.
"""

from collections.abc import Generator

import numpy as np

from cipherdag.algorithms.fedboss.compared_scores import ComparedScores
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.arrays import BoolMatrix, BoolVector, FloatVector
from cipherdag.graphs.dags import Dag, dag_of, matrix_of, unshielded_colliders
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import ClassOfDags, Triple, class_of
from cipherdag.questions.question import Question

CELLS_PER_ROW = 1.5
"""With more cells for every row of a site, a table's likelihood is mostly chance."""


def with_tested_edges(
    dag: Dag,
    tested: FedPCOutcome,
    scores: ComparedScores,
    constraints: Constraints,
    *,
    n_sites: int,
) -> Generator[Question, FloatVector, tuple[ClassOfDags, BoolMatrix]]:
    """The class of the best graph with what tests say of categories; one round or none.

    An edge that only tests found is added if scores give both its ends other edges, or if the
    pair's table, without the cost of a parent, scores higher than the two columns by themselves.
    Returned are also these edges, shape (p, p), symmetric.
    """
    category: BoolVector = np.greater(scores.penalty.categories, 0)
    among: BoolMatrix = np.logical_and.outer(category, category)
    scored = _adjacent(dag)
    falls = _independent(tested) | ~tested.skeleton & _too_large(dag, scores, n_sites)
    stays: BoolMatrix = scored & ~(among & falls) | constraints.joined
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
    """The colliders with their clarity, 0 if scores judged them; and the undecided triples."""
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


def _too_large(dag: Dag, scores: ComparedScores, n_sites: int) -> BoolMatrix:
    """Edges whose family has a table too large for the rows of a site, shape (p, p), symmetric."""
    most = CELLS_PER_ROW * scores.penalty.score.rows / n_sites
    large = [scores.penalty.cells(parents | 1 << v) > most for v, parents in enumerate(dag)]
    edges: BoolMatrix = matrix_of(dag) & np.array(large, dtype=np.bool_)
    return edges | edges.T


def _adjacent(dag: Dag) -> BoolMatrix:
    matrix = matrix_of(dag)
    return matrix | matrix.T


def _unshielded(adjacent: Dag) -> set[Triple]:
    """The unshielded triples (x, y, z), x < z: colliders if all neighbours counted as parents."""
    return set(unshielded_colliders(adjacent, adjacent))
