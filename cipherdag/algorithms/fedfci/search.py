"""The tests of FCI beyond those of PC: more sets of every edge left, and constraints on triples.

Sources: Spirtes, Glymour and Scheines, "Causation, Prediction, and Search", MIT Press 2000, section
6.7 (Possible-D-SEP); Colombo, Maathuis, Kalisch and Richardson, "Learning high-dimensional directed
acyclic graphs with latent and selection variables", Annals of Statistics 40 (2012), section 3 and
its supplement (FCI_path: only variables on a path between the two; conservative FCI: the triples
are judged before Possible-D-SEP is made of them), whose stable form is that of Colombo and
Maathuis, JMLR 15 (2014), section 4.4; Claassen and Heskes, "A structure independent algorithm for
causal discovery", ESANN 2011, lemma 1 (whatever makes two variables dependent as it joins a set is
no cause of them, be there edges or not).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cipherdag.algorithms.constraint_based.colliders import CollidersBy, judge_triples
from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.algorithms.constraint_based.skeleton import (
    StableSkeleton,
    possible_dsep_refinement,
    stable_skeleton,
)
from cipherdag.algorithms.evidence.federated_test import FederatedCITest
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.graphs.ancestral.orientation import with_colliders
from cipherdag.graphs.ancestral.paths import (
    blocks_of,
    possible_d_sep,
    possibly_directed,
    transitive_closure,
)
from cipherdag.graphs.endpoints import ARROW, CIRCLE, TAIL, Endpoints, circles
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import Triple, colliders_by_sepset, triples_over
from cipherdag.questions.presence import EVERYWHERE, Measured, Presence
from cipherdag.questions.question import Question
from cipherdag.questions.separators import SeparatorSearch


@dataclass(frozen=True, slots=True)
class TripleConstraints:
    """Constraints that tests put on the unshielded triples (x, y, z), x < z.

    Attributes:
        colliders: The triples that are colliders.
        ambiguous: The triples of which that is open.
        no_causes: Colliders found by comparing sets without and with y: then y is no cause of x or
            z even if one of the edges is wrong. One separating set does not tell that.
    """

    colliders: Collection[Triple]
    ambiguous: Collection[Triple] = ()
    no_causes: Collection[Triple] = ()

    def without(self, doubtful: Collection[Triple]) -> TripleConstraints:
        """These constraints, but with the doubtful triples open and none of them a collider."""
        colliders = [triple for triple in self.colliders if triple not in doubtful]
        ambiguous = [*self.ambiguous, *sorted({*doubtful} - {*self.ambiguous})]
        return replace(self, colliders=colliders, ambiguous=ambiguous)


Judge = Callable[
    [BoolMatrix, Mapping[Pair, frozenset[int]]],
    Generator[Question, FloatVector, TripleConstraints],
]
"""Gives for a skeleton and separating sets the constraints on its unshielded triples."""


def testable(constraints: Constraints) -> Constraints:
    """The knowledge for a skeleton: an edge may stand though both directions are forbidden.

    Two variables of which neither causes the other may have an unmeasured cause.
    """
    return Constraints(constraints.forbidden & ~constraints.excluded, constraints.required)


def start_marks(skeleton: BoolMatrix, constraints: Constraints) -> Endpoints:
    """Circles, but an arrowhead at what is no cause by knowledge, and a tail at a cause."""
    marks = circles(skeleton)
    marks[(marks == CIRCLE) & constraints.forbidden.T] = ARROW
    marks[(marks == CIRCLE) & constraints.required.T] = TAIL
    return marks


def fci_skeleton(
    source: FederatedCITest,
    constraints: Constraints,
    *,
    alpha: float,
    max_cond_size: int | None,
    selection: bool,
    judge: Judge,
    shown: Presence | None,
) -> Generator[Question, FloatVector, StableSkeleton]:
    """The skeleton of FCI: that of PC-stable, then given subsets of Possible-D-SEP too.

    Args:
        source: Tests.
        constraints: Background knowledge of p variables.
        alpha: Independent iff p > alpha.
        max_cond_size: Largest conditioning set; None for no limit.
        selection: Whether rows may have been selected by what variables cause. If not, a set that
            separates two variables has only possible causes of one of them.
        judge: Judges the triples of the first skeleton, hence what Possible-D-SEP is.
        shown: Where the skeleton is shown after every layer, if it is.

    Returns:
        The skeleton. Rounds: those of `stable_skeleton`, `judge` and `possible_dsep_refinement`.
    """
    first = yield from stable_skeleton(
        source, testable(constraints), alpha=alpha, max_cond_size=max_cond_size, shown=shown
    )
    judged = yield from judge(first.skeleton, first.separations.sets)
    start = start_marks(first.skeleton, constraints)
    marks, blocks = with_colliders(start, judged.colliders), blocks_of(first.skeleton)
    certain = start if selection else with_colliders(start, judged.no_causes)
    causes = selection | transitive_closure(possibly_directed(certain))
    candidates = {
        (x, y): possible_d_sep(
            marks, x, y, (blocks == blocks[x, y]).any(axis=0) & (causes[:, x] | causes[:, y])
        )
        for x, y in np.argwhere(first.skeleton & ~constraints.joined).tolist()
    }
    return (
        yield from possible_dsep_refinement(
            source, first, candidates, alpha=alpha, max_cond_size=max_cond_size
        )
    )


def triple_constraints(
    source: FederatedCITest,
    search: SeparatorSearch,
    sets: Mapping[Pair, frozenset[int]],
    rule: CollidersBy,
    measured: Measured = EVERYWHERE,
) -> Generator[Question, FloatVector, TripleConstraints]:
    """Which unshielded triples of a skeleton are colliders.

    Args:
        source: Tests.
        search: All unshielded pairs of the skeleton.
        sets: A separating set of each pair.
        rule: ``sepset`` judges by that set alone. Other rules judge by all sets of neighbours of
            the ends; if none of these separates the ends, the separating set decides.
        measured: Which variables the sites measured. That a separating set lacks y says nothing of
            y where no site measured the triple and the set together.
    """
    skeleton = search.skeleton.matrix()
    by_set = colliders_by_sepset(skeleton, sets)
    if rule == "sepset":
        return TripleConstraints(by_set)
    judged = yield from judge_triples(source, search, rule)
    more = [triple for triple in by_set if triple[::2] not in judged.separated]
    ambiguous = [triple for triple in judged.ambiguous if triple[::2] in judged.separated]
    constraints = TripleConstraints([*judged.colliders, *more], ambiguous, tuple(judged.colliders))
    unmeasured = {
        triple for triple in more if not measured.has([*triple, *sets[triple[0], triple[2]]])
    }
    return constraints.without(unmeasured | triples_over(skeleton, measured.never(skeleton)))
