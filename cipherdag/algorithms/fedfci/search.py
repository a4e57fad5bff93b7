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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, pairwise

import numpy as np

from cipherdag.algorithms.constraint_based.colliders import CollidersBy, judge_triples
from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.algorithms.constraint_based.skeleton import (
    StableSkeleton,
    possible_dsep_refinement,
    stable_skeleton,
)
from cipherdag.algorithms.evidence.federated_test import FederatedCITest
from cipherdag.arrays import BoolMatrix
from cipherdag.graphs.ancestral.orientation import Grounds, apply_zhang_rules, with_colliders
from cipherdag.graphs.ancestral.paths import (
    blocks_of,
    deciding,
    possible_d_sep,
    possibly_directed,
    transitive_closure,
)
from cipherdag.graphs.endpoints import ARROW, CIRCLE, TAIL, Endpoints, circles
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import Triple, colliders_by_sepset, triples_over, unshielded_pairs
from cipherdag.questions.presence import EVERYWHERE, Measured, Presence
from cipherdag.questions.question import Asking
from cipherdag.questions.separators import SeparatorSearch


@dataclass(frozen=True, slots=True)
class TripleConstraints:
    """Constraints that tests put on the unshielded triples (x, y, z), x < z."""

    colliders: Collection[Triple]
    ambiguous: Collection[Triple] = ()  # the triples of which that is open
    # colliders found by comparing sets without and with y: then y is no cause of x or z even if one
    # of the edges is wrong. One separating set does not tell that.
    no_causes: Collection[Triple] = ()

    def without(self, doubtful: Collection[Triple]) -> TripleConstraints:
        """These constraints, but with the doubtful triples open and none of them a collider."""
        colliders = [triple for triple in self.colliders if triple not in doubtful]
        ambiguous = [*self.ambiguous, *sorted({*doubtful} - {*self.ambiguous})]
        return replace(self, colliders=colliders, ambiguous=ambiguous)


Judge = Callable[[BoolMatrix, Mapping[Pair, frozenset[int]]], Asking[TripleConstraints]]
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
) -> Asking[StableSkeleton]:
    """The skeleton of FCI: that of PC-stable, then given subsets of Possible-D-SEP too.

    ``judge`` judges the triples of the first skeleton, hence what Possible-D-SEP is. Without
    ``selection`` a set that separates two variables has only possible causes of one of them. All
    else is as for `stable_skeleton`. Rounds: those of it, ``judge`` and `possible_dsep_refinement`.
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
) -> Asking[TripleConstraints]:
    """Which unshielded triples of a skeleton are colliders; ``search`` has all their ends.

    ``sepset`` judges by the separating set of each pair alone. Other rules judge by all sets of
    neighbours of the ends; if none of these separates them, the separating set decides. That it
    lacks y says nothing of y where no site measured the triple and the set together.
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


Test = tuple[int, int, frozenset[int]]


@dataclass(slots=True)
class Refined:
    """A skeleton, from which edges are removed, and the separating sets of pairs without an edge.

    Attributes:
        skeleton: Symmetric adjacency, shape (p, p).
        sets: A separating set of every pair x < z without an edge; no subset of it separates.
        triples: The constraints on its unshielded triples.
    """

    skeleton: BoolMatrix
    sets: dict[Pair, frozenset[int]]
    p_values: dict[Pair, float]
    removed: int = 0
    triples: TripleConstraints = field(default_factory=lambda: TripleConstraints(()))


@dataclass(frozen=True, slots=True)
class RFCI:
    """The search of RFCI after the skeleton of PC: tests of triples and paths, no Possible-D-SEP.

    A triple or a discriminating path directs only if its edges stand given what separates its ends.
    Edges that do not are removed, and the search of triples and paths starts anew. A round asks of
    all triples or paths at once, so that the order of the variables decides nothing.

    Source: Colombo et al. as above, lemmas 3.1 and 3.2, and algorithms 4.4 and 4.5 of the
    supplement.
    """

    source: FederatedCITest
    constraints: Constraints
    alpha: float
    selection: bool
    judge: Judge

    def orient(self, refined: Refined) -> Asking[Endpoints]:
        """The PAG; `refined` then holds the edges and triples that it rests on.

        Rounds: one per turn in which edges fall, those of `judge`, and one per layer of
        discriminating paths.
        """
        while True:
            if (yield from self._thinned(refined, _of_triples(refined))):
                continue
            refined.triples = yield from self.judge(refined.skeleton, refined.sets)
            start = with_colliders(
                start_marks(refined.skeleton, self.constraints), refined.triples.colliders
            )
            paths: set[tuple[int, ...]] = set()
            while True:
                grounds = Grounds(refined.sets, refined.triples.ambiguous, paths)
                marks = apply_zhang_rules(start, grounds, selection=self.selection)
                new = set(deciding(marks)) - paths
                if not new:
                    return marks
                if (yield from self._thinned(refined, _of_paths(new, refined))):
                    break
                paths |= new

    def _thinned(self, refined: Refined, tests: Iterable[Test]) -> Asking[bool]:
        """Remove the edges whose ends a test separates; return whether there were any."""
        joined = self.constraints.joined
        removed = yield from self._strongest(test for test in tests if not joined[test[:2]])
        smaller = removed
        while smaller:  # sets of which no subset separates, as the lemmas want
            subsets = ((*pair, sep - {v}) for pair, (sep, _) in smaller.items() for v in sep)
            smaller = yield from self._strongest(subsets)
            removed |= smaller
        for pair, (given, p_value) in removed.items():
            refined.skeleton[pair] = refined.skeleton[pair[::-1]] = False
            refined.sets[pair], refined.p_values[pair] = given, p_value
        refined.removed += len(removed)
        return bool(removed)

    def _strongest(self, tests: Iterable[Test]) -> Asking[dict[Pair, tuple[frozenset[int], float]]]:
        """For every pair that a test separates, the set with the largest p-value, and that."""
        by_size: dict[int, set[tuple[int, ...]]] = {}
        for x, y, given in tests:
            row = (min(x, y), max(x, y), *sorted(given))
            by_size.setdefault(len(given), set()).add(row)
        if not by_size:
            return {}
        rows = [
            np.array(sorted(by_size.get(size, ())), dtype=np.int64).reshape(-1, 2 + size)
            for size in range(max(by_size) + 1)
        ]
        answers = yield from self.source.p_values(rows)
        best: dict[Pair, tuple[frozenset[int], float]] = {}
        for tested, p_values in zip(rows, answers, strict=True):
            for (x, y, *members), p_value in zip(tested.tolist(), p_values.tolist(), strict=True):
                if p_value > self.alpha and ((x, y) not in best or p_value > best[x, y][1]):
                    best[x, y] = frozenset(members), p_value
        return best


def _of_triples(refined: Refined) -> Iterator[Test]:
    """Tests of both edges of every unshielded triple given what separates its ends (3.1)."""
    for x, z in unshielded_pairs(refined.skeleton).tolist():
        given = refined.sets[x, z]
        for y in np.flatnonzero(refined.skeleton[x] & refined.skeleton[z]).tolist():
            yield x, y, given - {y}
            yield z, y, given - {y}


def _of_paths(paths: Iterable[tuple[int, ...]], refined: Refined) -> Iterator[Test]:
    """Tests of every edge of a path given all subsets of what separates its ends (3.2)."""
    for path in paths:
        given = refined.sets[min(path[0], path[-1]), max(path[0], path[-1])]
        for x, y in pairwise(path):
            rest = sorted(given - {x, y})
            sizes = (combinations(rest, size) for size in range(len(rest) + 1))
            for subset in chain.from_iterable(sizes):
                yield x, y, frozenset(subset)
