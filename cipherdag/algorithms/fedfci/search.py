"""The tests of FCI beyond those of PC: more sets of every edge left, and what is told of triples.

Sources: Spirtes, Glymour and Scheines, "Causation, Prediction, and Search", MIT Press 2000, section
6.7 (Possible-D-SEP); Colombo, Maathuis, Kalisch and Richardson, "Learning high-dimensional directed
acyclic graphs with latent and selection variables", Annals of Statistics 40 (2012), section 3 and
its supplement (FCI_path: only variables on a path between the two; conservative FCI: the triples
are judged before Possible-D-SEP is made of them), whose stable form is that of Colombo and
Maathuis, JMLR 15 (2014), section 4.4; Claassen and Heskes, "A structure independent algorithm for
causal discovery", ESANN 2011, lemma 1 (whatever makes two variables dependent as it joins a set is
no cause of them, be there edges or not).

Leaks:
    What the source of the evidence says of every test asked, and to the sites which are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass

import numpy as np

from cipherdag.algorithms.evidence.source import EvidenceSource
from cipherdag.algorithms.fedpc.colliders import JudgingRule, judge_triples
from cipherdag.algorithms.fedpc.pcstable import (
    Pair,
    StableSkeleton,
    stable_skeleton,
    wider_skeleton,
)
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.graphs.ancestral.orientation import with_colliders
from cipherdag.graphs.ancestral.paths import blocks_of, possible_d_sep, possibly_directed, reached
from cipherdag.graphs.endpoints import ARROW, CIRCLE, TAIL, Endpoints, circles
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import Triple, colliders_by_sepset, triples_over
from cipherdag.questions.presence import EVERYWHERE, Measured, Presence
from cipherdag.questions.question import Question
from cipherdag.questions.separators import SeparatorSearch

Sets = dict["Pair", frozenset[int]]


@dataclass(frozen=True, slots=True)
class Told:
    """What tests say of the unshielded triples (x, y, z), x < z.

    Attributes:
        colliders: Those that are colliders.
        ambiguous: Those of which it is open.
        no_causes: Colliders of which sets without and with y tell, so that y is no cause of x or z
            even if one of the edges is wrong; one separating set does not tell that.
    """

    colliders: Collection[Triple]
    ambiguous: Collection[Triple] = ()
    no_causes: Collection[Triple] = ()

    def without(self, doubtful: Collection[Triple]) -> Told:
        """The same where some triples are open, whatever tests of their ends say."""
        kept = [own for own in self.colliders if own not in doubtful]
        ambiguous = [*self.ambiguous, *sorted({*doubtful} - {*self.ambiguous})]
        return Told(kept, ambiguous, self.no_causes)


Judge = Callable[
    ["BoolMatrix", "Mapping[Pair, frozenset[int]]"],
    Generator["Question", "FloatVector", Told],
]
"""Says of a skeleton and separating sets what its unshielded triples are."""


def tested_pairs(known: Constraints) -> Constraints:
    """What the skeleton search may rest on: an edge that no direction is left of stays possible.

    Two variables of which neither causes the other may have an unmeasured cause.
    """
    return Constraints(known.forbidden & ~known.apart, known.required)


def start_marks(skeleton: BoolMatrix, known: Constraints) -> Endpoints:
    """Circles, but an arrowhead at what is no cause, and a tail at what is known as one."""
    found = circles(skeleton)
    found[(found == CIRCLE) & known.forbidden.T] = ARROW
    found[(found == CIRCLE) & known.required.T] = TAIL
    return found


def fci_skeleton(
    source: EvidenceSource,
    known: Constraints,
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
        known: What is known of p variables.
        alpha: Independent iff p > alpha.
        max_cond_size: Largest conditioning set; None for no limit.
        selection: Whether variables may stand behind which rows there are. Without, a set that
            separates two variables has only what may be a cause of one of them.
        judge: Says what the triples of the first skeleton are, hence what Possible-D-SEP is.
        shown: Where the skeleton is shown after every layer, if it is.

    Returns:
        The skeleton. Rounds: those of `stable_skeleton`, `judge` and `wider_skeleton`.
    """
    found = yield from stable_skeleton(
        source, tested_pairs(known), alpha=alpha, max_cond_size=max_cond_size, shown=shown
    )
    told = yield from judge(found.skeleton, found.separations.sets)
    start = start_marks(found.skeleton, known)
    marks, blocks = with_colliders(start, told.colliders), blocks_of(found.skeleton)
    sure = start if selection else with_colliders(start, told.no_causes)
    causes = selection | reached(possibly_directed(sure))
    wider = {
        (x, y): possible_d_sep(
            marks, x, y, (blocks == blocks[x, y]).any(axis=0) & (causes[:, x] | causes[:, y])
        )
        for x, y in np.argwhere(found.skeleton & ~known.joined).tolist()
    }
    return (
        yield from wider_skeleton(source, found, wider, alpha=alpha, max_cond_size=max_cond_size)
    )


def told_of_triples(
    source: EvidenceSource,
    search: SeparatorSearch,
    sets: Mapping[Pair, frozenset[int]],
    rule: JudgingRule | None,
    measured: Measured = EVERYWHERE,
) -> Generator[Question, FloatVector, Told]:
    """Which unshielded triples of a skeleton are colliders.

    Args:
        source: Tests.
        search: All unshielded pairs of the skeleton.
        sets: A separating set of each.
        rule: Judges by all sets of neighbours of the ends; what none of those separates is told by
            the separating set. None for that set alone.
        measured: Which variables the sites measured. That a separating set lacks y says nothing of
            y where no site has all of it.
    """
    skeleton = search.skeleton.matrix()
    by_set = colliders_by_sepset(skeleton, sets)
    if rule is None:
        return Told(by_set)
    judged = yield from judge_triples(source, search, rule)
    more = [own for own in by_set if (own[0], own[2]) not in judged.separated]
    ambiguous = [own for own in judged.ambiguous if (own[0], own[2]) in judged.separated]
    told = Told([*judged.colliders, *more], ambiguous, tuple(judged.colliders))
    apart = {own for own in more if not measured.has([*own, *sets[own[0], own[2]]])}
    return told.without(apart | triples_over(skeleton, measured.never(skeleton)))
