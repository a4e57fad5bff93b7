"""FCI among the variables of every group of sites, and the graph that all groups together allow.

Tests of a group's variables are asked of all sites that have them, so that two groups never differ
in a test that both can take. What no site measured together no test says anything of.

Source: Tillman and Spirtes, "Learning equivalence classes of acyclic models with latent and
selection variables from multiple datasets with overlapping variables", AISTATS 2011, algorithm 2.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cipherdag.algorithms.constraint_based.pair_tests import MaxPValueTest, Pair
from cipherdag.algorithms.constraint_based.skeleton import StableSkeleton
from cipherdag.algorithms.evidence.federated_test import FederatedCITest, PValues, Tests
from cipherdag.algorithms.fedfci.report import FedFCIOutcome
from cipherdag.algorithms.fedfci.search import TripleConstraints
from cipherdag.arrays import BoolMatrix, BoolVector, IndexArray
from cipherdag.graphs.ancestral.integration import LocalPAG, entailed
from cipherdag.graphs.ancestral.orientation import Grounds, apply_zhang_rules, with_colliders
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.graphs.endpoints import NONE, circles
from cipherdag.graphs.knowledge import Constraints
from cipherdag.questions.presence import Measured
from cipherdag.questions.question import Asking

Search = Callable[[FederatedCITest, Constraints], Asking[StableSkeleton]]
Judging = Callable[
    [FederatedCITest, BoolMatrix, Mapping[Pair, frozenset[int]]], Asking[TripleConstraints]
]


class SubsetFilter:
    """A source of evidence over some variables, ascending, which become 0, 1, ..."""

    def __init__(self, source: FederatedCITest, variables: IndexArray) -> None:
        self.lenient: FederatedCITest | None = None
        if source.lenient is not None:
            self.lenient = SubsetFilter(source.lenient, variables)
        self._source = source
        self._variables = variables

    def p_values(self, tests: Tests) -> PValues:
        """See `FederatedCITest.p_values`."""
        return (yield from self._source.p_values([self._variables[rows] for rows in tests]))

    def skipped_tests(self, triplets: IndexArray) -> BoolVector:
        """See `FederatedCITest.skipped_tests`."""
        return self._source.skipped_tests(self._variables[triplets])

    def effect(self, test: Sequence[int]) -> EffectSize | None:
        """See `FederatedCITest.effect`."""
        return self._source.effect(self._variables[list(test)].tolist())


@dataclass(frozen=True, slots=True)
class GroupGraph:
    """The graph of FCI among the variables of a group; positions are those among all variables."""

    local: LocalPAG  # its PAG
    sepsets: dict[Pair, tuple[frozenset[int], float]]  # of pairs x < z without an edge; p-values
    weakest: dict[Pair, MaxPValueTest]  # of every edge x < z the test of largest p-value


def of_groups(
    source: FederatedCITest,
    measured: Measured,
    constraints: Constraints,
    search: Search,
    judge: Judging,
) -> Asking[FedFCIOutcome]:
    """FCI among the variables of one group after the other; a test is asked once.

    ``search`` finds a skeleton over a source and knowledge of its variables, ``judge`` the
    constraints on its triples. The outcome has the edges that no group took away, the marks that
    follow, and every group's own PAG. Rounds: those of both, but where all was asked before.
    """
    graphs: tuple[GroupGraph, ...] = ()
    for variables in measured.sets(len(constraints.required)):
        graphs += ((yield from _of_group(source, variables, search, judge)),)
    return _integrated(graphs, measured, constraints)


def _of_group(
    source: FederatedCITest, variables: tuple[int, ...], search: Search, judge: Judging
) -> Asking[GroupGraph]:
    subset = SubsetFilter(source, np.array(variables, dtype=np.int64))
    stable = yield from search(subset, Constraints.none(len(variables)))
    separations = stable.separations
    judged = yield from judge(subset, stable.skeleton, separations.sets)
    # a triple that the sets leave open follows the strongest set, since a PAG has no open triples
    by_set = [(x, y, z) for x, y, z in judged.ambiguous if y not in separations.sets[x, z]]
    start = with_colliders(circles(stable.skeleton), [*judged.colliders, *by_set])
    marks = apply_zhang_rules(start, Grounds(separations.sets), selection=False)

    def among_all(pair: Pair) -> Pair:
        return variables[pair[0]], variables[pair[1]]

    return GroupGraph(
        LocalPAG(variables, marks),
        {
            among_all(pair): (frozenset(variables[v] for v in given), separations.p_values[pair])
            for pair, given in separations.sets.items()
        },
        {
            among_all(pair): replace(test, given=tuple(variables[v] for v in test.given))
            for pair, test in stable.tested(subset).items()
        },
    )


def _integrated(
    graphs: Sequence[GroupGraph], measured: Measured, constraints: Constraints
) -> FedFCIOutcome:
    """What all groups say: an edge falls where one takes it away, by the test of largest p."""
    sepsets: dict[Pair, tuple[frozenset[int], float]] = {}
    weakest: dict[Pair, MaxPValueTest] = {}
    for graph in graphs:
        for pair, separation in graph.sepsets.items():
            if pair not in sepsets or separation[1] > sepsets[pair][1]:
                sepsets[pair] = separation
        for pair, test in graph.weakest.items():
            if pair not in weakest or test.p_value > weakest[pair].p_value:
                weakest[pair] = test
    groups = tuple(graph.local for graph in graphs)
    marks = entailed(len(constraints.required), groups)
    return FedFCIOutcome(
        marks=marks,
        sepsets=sepsets,
        weakest={pair: test for pair, test in weakest.items() if marks[pair] != NONE},
        constraints=constraints,
        untested=measured.never(marks != NONE),
        groups=groups,
    )
