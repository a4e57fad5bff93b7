"""RFCI replaces Possible-D-SEP by tests of the triples and paths that direct something.

A triple or a discriminating path directs only if its edges stand given what separates its ends.
Edges that do not are removed, and the search of triples and paths starts anew. A round asks of all
triples or paths at once, so that the order of the variables decides nothing.

Source: Colombo, Maathuis, Kalisch and Richardson, "Learning high-dimensional directed acyclic
graphs with latent and selection variables", Annals of Statistics 40 (2012), lemmas 3.1 and 3.2 and
algorithms 4.4 and 4.5 of its supplement.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations, pairwise

import numpy as np

from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.algorithms.evidence.federated_test import FederatedCITest
from cipherdag.algorithms.fedfci.search import Judge, TripleConstraints, start_marks
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.graphs.ancestral.orientation import Grounds, apply_zhang_rules, with_colliders
from cipherdag.graphs.ancestral.paths import deciding
from cipherdag.graphs.endpoints import Endpoints
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import unshielded_pairs
from cipherdag.questions.question import Question

Test = tuple[int, int, frozenset[int]]


@dataclass(slots=True)
class Refined:
    """A skeleton, from which edges are removed, and the separating sets of pairs without an edge.

    Attributes:
        skeleton: Symmetric adjacency, shape (p, p).
        sets: A separating set of every pair x < z without an edge; no subset of it separates.
        p_values: The p-value of each set.
        removed: How many edges were removed.
        triples: The constraints on its unshielded triples.
    """

    skeleton: BoolMatrix
    sets: dict[Pair, frozenset[int]]
    p_values: dict[Pair, float]
    removed: int = 0
    triples: TripleConstraints = field(default_factory=lambda: TripleConstraints(()))


@dataclass(frozen=True, slots=True)
class RFCI:
    """The search of RFCI after the skeleton of PC.

    Attributes:
        source: Tests.
        constraints: Background knowledge of p variables.
        alpha: Independent iff p > alpha.
        selection: As in `apply_zhang_rules`.
        judge: Gives for a skeleton and separating sets the constraints on its triples.
    """

    source: FederatedCITest
    constraints: Constraints
    alpha: float
    selection: bool
    judge: Judge

    def orient(self, refined: Refined) -> Generator[Question, FloatVector, Endpoints]:
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

    def _thinned(
        self, refined: Refined, tests: Iterable[Test]
    ) -> Generator[Question, FloatVector, bool]:
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

    def _strongest(
        self, tests: Iterable[Test]
    ) -> Generator[Question, FloatVector, dict[Pair, tuple[frozenset[int], float]]]:
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
