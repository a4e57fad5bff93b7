"""FedFCI: a partial ancestral graph from a test over all sites; causes may be unmeasured.

FCI runs on the evidence of all sites (`cipherdag.algorithms.evidence`), as FedPC does: the same
skeleton, then sets beyond the neighbours, or with RFCI tests of what directs, and Zhang's rules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.constraint_based.pair_tests import Pair
from cipherdag.algorithms.constraint_based.report import report_on_tests
from cipherdag.algorithms.constraint_based.settings import GraphFromTests, look_for_doubts_meanwhile
from cipherdag.algorithms.constraint_based.skeleton import StableSkeleton, stable_skeleton
from cipherdag.algorithms.evidence.federated_test import FederatedCITest
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedfci.groups import of_groups
from cipherdag.algorithms.fedfci.report import FedFCIOutcome, concluded, remarks_of, with_fitting
from cipherdag.algorithms.fedfci.search import (
    RFCI,
    Refined,
    TripleConstraints,
    fci_skeleton,
    start_marks,
    testable,
    triple_constraints,
)
from cipherdag.algorithms.parameters import require
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntPAG
from cipherdag.graphs.ancestral.classes import nearest_pag
from cipherdag.graphs.ancestral.orientation import Grounds, apply_zhang_rules, with_colliders
from cipherdag.graphs.endpoints import CIRCLE, NONE
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import triples_over
from cipherdag.questions.presence import EVERYWHERE, Measured, Presence
from cipherdag.questions.question import Asking

MOST_GRAPHS = 100_000  # that ``integrate`` looks at


@dataclass(frozen=True, kw_only=True, slots=True)
class FedFCI(GraphFromTests[FedFCIOutcome, LearntPAG]):
    """FedFCI's parameters besides those of `GraphFromTests`; `ask` is the algorithm.

    Attributes:
        search: How edges are searched: ``fci``: two variables keep an edge only if no set of what
            may separate them does, neighbours or not (Possible-D-SEP: on paths between the two, of
            what may be a cause of one of them). ``rfci``: given neighbours alone, and only what is
            read off a triple or a path is tested further: far fewer tests and smaller sets; edges
            may stay that ``fci`` takes out. ``integrate``: where sites measured different variables
            those graphs over all variables that have, among the variables of every group of sites,
            the group's PAG (`graphs.ancestral.integration`). ``fci`` and ``rfci`` apply to all
            variables at once only the rules that hold whichever of them a group lacks.
        selection: Whether rows may have been selected by what variables cause: rules 5 to 7. Then
            a tail says that a variable is a cause of the other or of what rows were selected by.
        knowledge: Background knowledge in a TOML file: required edges are direct causes; a
            forbidden edge (a, b) and tiers say that a is no cause of b, not even through others,
            for what is between them may be unmeasured. Such a pair may still have an edge: an
            unmeasured cause of both.

    Leaks:
        Which tests are asked tells sites the skeleton after every layer, and which sets lie beyond
        the neighbours. With `integrate` it is the skeleton of every group that they learn.
    """

    name: ClassVar[str] = "fedfci"
    title: ClassVar[str] = "FedFCI"
    use: ClassVar[str] = "Learn a causal graph where common causes may be unmeasured."
    usual: ClassVar[tuple[str, ...] | None] = ("alpha", "max_cond_size", "reveal", "bootstrap")
    concludes: ClassVar[type[LearntPAG]] = LearntPAG

    search: Literal["fci", "rfci", "integrate"] = "fci"
    selection: bool = False

    def check(self) -> None:
        self.check_bits()
        self.check_test()
        require(
            self.knowledge is None or not self.selection,
            "knowledge says what causes what, and with selection no mark says that alone; give up "
            "one of them",
        )
        require(
            not (self._integrates and (self.knowledge or self.selection or self.bootstrap)),
            "search integrate goes through graphs without selection that the tests allow; it "
            "cannot take knowledge, selection or bootstrap yet",
        )

    def check_measured(self, measured: Measured) -> None:
        GraphFromTests.check_measured(self, measured)
        require(
            measured.everywhere or self.search != "rfci",
            "sites lack variables, of which search rfci would take edges for granted that no site "
            "can test; choose search fci",
        )
        require(
            not self._integrates or not measured.everywhere,
            "every site measured every variable, so that there is nothing to integrate; choose "
            "search fci",
        )

    def conclude(self, outcome: FedFCIOutcome, facts: Facts) -> LearntPAG:
        return self._concluded(outcome, facts, MOST_GRAPHS * self._integrates)

    def decisions(self, outcome: FedFCIOutcome, facts: Facts) -> bytes:
        """The graph of the run and every group's: what is integrated of them follows from these."""
        of_groups = b"".join(local.endpoints.tobytes() for local in outcome.groups)
        return self._concluded(outcome, facts, integrate=0).decisions + of_groups

    def report(self, conclusion: LearntPAG) -> Report:
        report = report_on_tests(conclusion, self.evidence)
        return with_fitting(conclusion, report)

    @staticmethod
    def count_edges(outcomes: Sequence[FedFCIOutcome]) -> EdgeCounts:
        return EdgeCounts.of([outcome.marks for outcome in outcomes], "o-o")

    def learn(
        self, facts: Facts, constraints: Constraints, *, resampled: bool = False
    ) -> Asking[FedFCIOutcome]:
        """The run on the sites' rows, as they are or resampled.

        Rounds: those of the evidence, of `fci_skeleton` and of `judge_triples`; or with ``rfci``
        those of `stable_skeleton` and of `RFCI.orient`.
        """
        settings = self.evidence_settings(facts)
        source = yield from EVIDENCE[self.evidence].source(settings, closed=self.closed)
        columns = None if resampled or facts.visits > 1 else source.kinds
        if self._integrates:
            outcome, doubts = yield from look_for_doubts_meanwhile(
                columns,
                settings,
                self,
                of_groups(source, facts.measured, constraints, self._skeleton, self._judge),
                _as_it_is,
            )
        else:
            shown = None if resampled else facts.present
            outcome, doubts = yield from look_for_doubts_meanwhile(
                columns,
                settings,
                self,
                self._skeleton(source, constraints, shown),
                partial(self._orient, source, constraints, facts),
            )
        return outcome.of_source(source, doubts, testable(constraints))

    @property
    def _integrates(self) -> bool:
        return self.search == "integrate"

    def _concluded(self, outcome: FedFCIOutcome, facts: Facts, integrate: int) -> LearntPAG:
        remarks = remarks_of(
            outcome,
            self.evidence,
            closed=self.closed,
            rfci=self.search == "rfci",
            selection=self.selection,
        )
        return concluded(self, outcome, facts, integrate=integrate, remarks=remarks)

    def _skeleton(
        self, source: FederatedCITest, constraints: Constraints, shown: Presence | None = None
    ) -> Asking[StableSkeleton]:
        if self.search == "rfci":
            return (
                yield from stable_skeleton(
                    source,
                    testable(constraints),
                    alpha=self.alpha,
                    max_cond_size=self.max_cond_size,
                    shown=shown,
                )
            )
        return (
            yield from fci_skeleton(
                source,
                constraints,
                alpha=self.alpha,
                max_cond_size=self.max_cond_size,
                selection=self.selection,
                judge=partial(self._judge, source),
                shown=shown,
            )
        )

    def _orient(
        self,
        source: FederatedCITest,
        constraints: Constraints,
        facts: Facts,
        stable: StableSkeleton,
    ) -> Asking[FedFCIOutcome]:
        sets, measured = stable.separations, facts.measured
        untested = measured.never(stable.skeleton)
        open_edges = constraints.open(stable.skeleton)
        undirected = untested | facts.determined.without_direction(open_edges)
        refined = Refined(stable.skeleton.copy(), sets.sets, sets.p_values)
        judge = partial(self._judge, source)
        if self.search == "rfci":
            rules = RFCI(source, constraints, self.alpha, self.selection, judge)
            marks = yield from rules.orient(refined)
        else:
            judged = yield from judge(stable.skeleton, sets.sets, measured)
            refined.triples = judged.without(triples_over(stable.skeleton, undirected))
            doubtful = undirected if undirected.any() or not measured.everywhere else None
            grounds = Grounds(sets.sets, refined.triples.ambiguous, doubtful=doubtful)
            start = start_marks(stable.skeleton, constraints)
            start = with_colliders(start, refined.triples.colliders)
            marks = apply_zhang_rules(start, grounds, selection=self.selection)
            if doubtful is None and self.knowledge is None:
                marks = nearest_pag(marks, refined.triples.ambiguous)
        weakest = stable.tested(source)
        marks = np.where(undirected & (marks != NONE), CIRCLE, marks)
        reasons = source, measured, facts.determined
        return FedFCIOutcome(
            marks=marks,
            layers=stable.layers,
            removed=refined.removed,
            sepsets={pair: (given, refined.p_values[pair]) for pair, given in refined.sets.items()},
            colliders=tuple(refined.triples.colliders),
            ambiguous=tuple(refined.triples.ambiguous),
            weakest={pair: test for pair, test in weakest.items() if marks[pair]},
            decisive=stable.decisive.of(marks != NONE, constraints.joined, *reasons),
            constraints=constraints,
            untested=untested,
        )

    def _judge(
        self,
        source: FederatedCITest,
        skeleton: BoolMatrix,
        sets: Mapping[Pair, frozenset[int]],
        measured: Measured = EVERYWHERE,
    ) -> Asking[TripleConstraints]:
        search = self.separator_search(skeleton)
        return (yield from triple_constraints(source, search, sets, self.rule, measured))


def _as_it_is(outcome: FedFCIOutcome) -> Asking[FedFCIOutcome]:
    yield from ()
    return outcome
