"""FedPC: a causal graph from a test over all sites, or from votes (Huang et al., IEEE TBD 2023).

By default PC-stable runs on the evidence of all sites (`cipherdag.algorithms.evidence`). With the
paper's votes FedSkele decides on every edge layer by layer, and FedOrien asks for separating sets
of the unshielded pairs. Then colliders and Meek's rules direct. The sites' half of the votes is
`stable_layer` and `best_separators` of `cipherdag.sites.compute.ci_tests.searches`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import msgspec
import numpy as np

from cipherdag.algorithms.algorithm import Facts, Published
from cipherdag.algorithms.bootstrap import arcs_counted
from cipherdag.algorithms.constraint_based.colliders import CollidersBy, separate_and_judge
from cipherdag.algorithms.constraint_based.report import report_on_tests
from cipherdag.algorithms.constraint_based.settings import (
    ENDS_WITHOUT_MIDDLE,
    GraphFromTests,
    look_for_doubts_meanwhile,
)
from cipherdag.algorithms.constraint_based.skeleton import StableSkeleton, stable_skeleton
from cipherdag.algorithms.evidence.federated_test import FederatedCITest
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedpc.graph_evidence import concluded
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome, oriented, oriented_in_code_order
from cipherdag.algorithms.fedpc.voting import (
    REFERENCES,
    UNDECIDED,
    Reference,
    VoteRule,
    by_candidate_scores,
    by_maximum,
    voted_skeleton,
)
from cipherdag.algorithms.parameters import one_of, preset, require, within
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.knowledge import Constraints
from cipherdag.graphs.orientation import triples_over
from cipherdag.questions.ci_tests import FEWEST_KERNEL_ROWS, MOST_KERNEL_ROWS, CITestSpec
from cipherdag.questions.disclosure import Disclosure, Quantity, joined, sums
from cipherdag.questions.presence import Measured
from cipherdag.questions.question import Asking
from cipherdag.questions.separators import (
    MAX_GRID_BITS,
    BestIndexPrecedes,
    BestScoreExceeds,
    SeparatorSearch,
)
from cipherdag.questions.skeleton import EdgeVotes
from cipherdag.questions.verdicts import EdgeVerdicts

EXACT = {  # parameters of both publications
    "evidence": "vote",
    "reveal": "sums",
    "grid_bits": MAX_GRID_BITS,
    "kernel_rows": MOST_KERNEL_ROWS,
}
VARIED = frozenset({"vote_share", "test", "max_rows"})  # parameters that they vary or leave out
Sepset = Literal["max", "mean", "vote", "search"]  # how a separating set is chosen
SEPARATORS: Mapping[str, tuple[Disclosure, ...]] = {
    "max": (*BestScoreExceeds.discloses, *BestIndexPrecedes.discloses),
    "mean": sums(Quantity.P_VALUES, Quantity.TEST_ROWS, Quantity.SITES),
    "vote": sums(Quantity.VOTES),
}
"""What each choice of separating sets discloses where sites vote."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Voting:
    """How votes decide, and sets are chosen; the usual way is that of this package.

    Attributes:
        reference: Whether to follow the paper or its original program where they differ, as
            `fedpc.voting.Reference` lists; both of them let a site that cannot test an edge keep
            it, and with ``auto`` it abstains.
        vote_share: Share of the sites able to test an edge that must vote for it; with ``auto`` an
            edge that too few sites can test stays.
        sepset: How a separating set is chosen: ``max``: highest p-value over sites by a secure
            maximum (the paper), or of the test over all sites; ``mean``: highest mean p, weighted
            by rows; ``vote``: most votes (both the paper's future work). ``search``, only with
            other evidence than ``vote``: the highest p of the round that separated the pair, for
            which nothing more is asked.
        grid_bits: Precision, in bits, at which the secure maximum compares p-values.
        kernel_rows: Most rows of a site that the test ``kci`` uses, evenly spaced among its rows.
            Time grows with its cube.
    """

    reference: Literal["auto", "paper", "code"] = "auto"
    vote_share: float = within(0.3, 0.0, 1.0, above=True, below=True)
    sepset: Sepset = "max"
    grid_bits: int = within(20, 1, MAX_GRID_BITS)
    kernel_rows: int = within(1000, FEWEST_KERNEL_ROWS, MOST_KERNEL_ROWS)


@dataclass(frozen=True, kw_only=True, slots=True)
class FedPC(GraphFromTests[FedPCOutcome, LearntGraph]):
    """FedPC's parameters besides those of `GraphFromTests`; `ask` is the algorithm.

    Attributes:
        evidence: How the sites' rows decide a test: ``auto``: ``stratified``. Else the sites'
            ``vote`` (the paper), or one test over all sites of a kind that
            `cipherdag.algorithms.evidence` lists; the coordinator then runs PC-stable on it.
        test: Test of conditional independence: ``auto`` follows the schema. ``regression`` takes
            any mixture of columns; ``kci`` is the kernel test of continuous columns, for
            dependences of any form (the paper's FedPC-KBT), with evidence of p-values alone.
        knowledge: Background knowledge in a TOML file: forbidden and required edges, and tiers. A
            pair that cannot have an edge is not tested; with other evidence than ``vote``, neither
            is one that must, nor is conditioned on what can be no parent of either.
        voting: How votes decide, and sets are chosen.

    Leaks:
        Unanimous votes reveal every site's vote. Sites learn the skeleton.
    """

    name: ClassVar[str] = "fedpc"
    title: ClassVar[str] = "FedPC"
    use: ClassVar[str] = "Learn a causal graph by tests of independence."
    usual: ClassVar[tuple[str, ...] | None] = ("alpha", "max_cond_size", "reveal", "bootstrap")
    other_evidence: ClassVar[tuple[str, ...]] = ("vote",)
    retired: ClassVar[dict[str, object]] = GraphFromTests.retired | {"collider_conflicts": "auto"}
    published: ClassVar[Mapping[str, Published]] = {
        "paper": Published({"reference": "paper", "max_cond_size": None} | EXACT, VARIED),
        "code": Published({"reference": "code"} | EXACT, VARIED),
    }

    evidence: str = one_of("auto", ("auto", "vote", *EVIDENCE))
    voting: Voting = preset(Voting())

    def check(self) -> None:
        voting, sepset = self.decided_by == "vote", self.voting.sepset
        self.check_bits()
        require(
            not (self.closed and voting) or sepset == "max",
            f"reveal bits needs sepset max: {sepset} discloses sums over all candidate sets",
        )
        choices = ("max", "mean", "vote") if voting else ("max", "search")
        require(
            sepset in choices,
            f"sepset must be one of {', '.join(choices)} with evidence {self.decided_by}",
        )
        require(
            not voting or self.colliders in ("auto", "sepset"),
            f"colliders {self.colliders} needs other evidence than vote, of which the coordinator "
            "learns no set but the chosen one",
        )
        require(
            voting or self.voting.reference != "code",
            "reference code is the original program, whose evidence is the vote",
        )
        require(
            self.knowledge is None or self.voting.reference != "code",
            "reference code is the original program, which takes no knowledge",
        )
        self.check_test()

    def check_measured(self, measured: Measured) -> None:
        GraphFromTests.check_measured(self, measured)
        require(measured.everywhere or self.voting.sepset == "max", ENDS_WITHOUT_MIDDLE)

    @property
    def decided_by(self) -> str:
        """The evidence that is used: what `evidence` names, or what ``auto`` comes to."""
        if self.evidence != "auto":
            return self.evidence
        return "stratified" if self.voting.reference == "auto" else "vote"

    @property
    def rule(self) -> CollidersBy:
        """The rule for colliders that ``auto`` stands for."""
        if self.colliders != "auto":
            return self.colliders
        all_sets = self.decided_by != "vote" and self.voting.sepset == "max"
        return "p_value_drop" if all_sets else "sepset"

    @property
    def test_spec(self) -> CITestSpec:
        """The test that the parameters name."""
        spec = CITestSpec(alpha=self.alpha, name=self.test)
        return msgspec.structs.replace(spec, kernel_rows=self.voting.kernel_rows)

    def separator_search(self, skeleton: BoolMatrix) -> SeparatorSearch:
        """The candidate separating sets of all unshielded pairs of a skeleton."""
        return msgspec.structs.replace(
            GraphFromTests.separator_search(self, skeleton),
            pool=self._followed.pool,
            measure=self._followed.measure if self.voting.sepset == "max" else "p_value",
            grid_bits=self.voting.grid_bits,
        )

    def conclude(self, outcome: FedPCOutcome, facts: Facts) -> LearntGraph:
        return concluded(self, outcome, facts, sepset=self.voting.sepset, followed=self._followed)

    def evidence_disclosures(self) -> tuple[Disclosure, ...]:
        if self.decided_by != "vote":
            return GraphFromTests.evidence_disclosures(self)
        votes = EdgeVerdicts.discloses if self.closed else EdgeVotes.discloses
        return joined(votes, SEPARATORS.get(self.voting.sepset, ()))

    def report(self, conclusion: LearntGraph) -> Report:
        return report_on_tests(conclusion, self.decided_by)

    @staticmethod
    def count_edges(outcomes: Sequence[FedPCOutcome]) -> EdgeCounts:
        return arcs_counted(outcomes)

    def learn(
        self, facts: Facts, constraints: Constraints, *, resampled: bool = False
    ) -> Asking[FedPCOutcome]:
        """The run on the sites' rows, as they are or resampled.

        Rounds: two per layer (of a publication one), then with ``max`` about (grid_bits + log2 of
        the number of candidates) / 4, else one per 250,000 candidates. With other evidence than
        ``vote``: those of its kind, of `stable_skeleton` and `strongest_separators`.
        """
        if self.decided_by == "vote":
            return (yield from self._learn_by_votes(facts, constraints))
        settings = self.evidence_settings(facts)
        source = yield from EVIDENCE[self.decided_by].source(settings, closed=self.closed)
        outcome, doubts = yield from look_for_doubts_meanwhile(
            None if resampled or facts.visits > 1 else source.kinds,
            settings,
            self,
            stable_skeleton(
                source,
                constraints,
                alpha=self.alpha,
                max_cond_size=self.max_cond_size,
                shown=None if resampled else facts.present,
            ),
            partial(self._orient, source, constraints, facts),
        )
        doubts = replace(doubts, curved=doubts.among(outcome.skeleton))
        outcome = outcome.of_source(source, doubts, constraints)
        return replace(outcome, separated_pairs=()) if resampled else outcome

    def _orient(
        self,
        source: FederatedCITest,
        constraints: Constraints,
        facts: Facts,
        stable: StableSkeleton,
    ) -> Asking[FedPCOutcome]:
        """The outcome with separating sets, and the class of DAGs that the collider rule gives."""
        search = self.separator_search(stable.skeleton)
        chosen, judged = yield from separate_and_judge(
            source,
            search,
            None if self.voting.sepset == "max" else stable.separations,
            None if self.rule == "sepset" else self.rule,
        )
        untested = facts.measured.never(stable.skeleton & ~constraints.joined)
        open_edges = constraints.open(stable.skeleton)
        undirected = untested | facts.determined.without_direction(open_edges)
        doubtful = triples_over(stable.skeleton, undirected)
        judged = None if judged is None else judged.without(doubtful)
        pairs = [(int(x), int(z)) for x, z in search.pair_array()]
        reasons = source, facts.measured, facts.determined
        outcome = FedPCOutcome(
            skeleton=stable.skeleton,
            arcs=stable.skeleton,
            separators={pair: chosen.sets.get(pair) for pair in pairs},
            support={pair: chosen.p_values.get(pair, 0.0) for pair in pairs},
            layers=stable.layers,
            ambiguous=tuple(sorted(doubtful)) if judged is None else tuple(judged.ambiguous),
            colliders=None if judged is None else judged.colliders,
            clarity={} if judged is None else judged.clarity,
            weakest=stable.tested(source),
            decisive=stable.decisive.of(stable.skeleton, constraints.joined, *reasons),
            separated_pairs=stable.separated_pairs,
            independent=stable.independent,
            constraints=constraints,
            untested=untested,
            undirected=undirected,
        )
        return oriented(
            outcome,
            constraints,
            judged,
            open_triples=doubtful,
            by_clarity=self.closed or self.rule == "p_value_drop",
            tie_break_score=stable.tie_break_score,
        )

    def _learn_by_votes(self, facts: Facts, constraints: Constraints) -> Asking[FedPCOutcome]:
        rule = VoteRule(
            share=self.voting.vote_share,
            reference=self._followed,
            max_cond_size=self.max_cond_size,
            closed=self.closed,
        )
        present, needed = facts.present, facts.min_contributors
        voted = yield from voted_skeleton(constraints, self.test_spec, rule, present, needed)
        skeleton = voted.skeleton
        search = self.separator_search(skeleton)
        sepset = self.voting.sepset
        if sepset in ("mean", "vote"):
            index, support = yield from by_candidate_scores(search, sepset, present, needed)
        else:
            index, support = yield from by_maximum(search, present)
        candidates = search.candidates()
        pairs = [(int(x), int(z)) for x, z in search.pair_array()]
        chosen = dict(zip(pairs, index.tolist(), strict=True))
        open_triples = {
            (x, y, z)
            for (x, z), candidate in chosen.items()
            if candidate == UNDECIDED
            for y in np.flatnonzero(skeleton[x] & skeleton[z]).tolist()
        }
        undirected = facts.determined.without_direction(constraints.open(skeleton))
        open_triples |= triples_over(skeleton, undirected)
        outcome = FedPCOutcome(
            skeleton=skeleton,
            arcs=skeleton,
            separators={
                pair: candidates.at(group, candidate) if candidate >= 0 else None
                for group, (pair, candidate) in enumerate(chosen.items())
            },
            support=dict(zip(pairs, support.tolist(), strict=True)),
            layers=voted.layers,
            votes=voted.votes,
            ambiguous=tuple(sorted(open_triples)),
            constraints=constraints,
            undirected=undirected,
        )
        if not self._followed.makes_class:
            return replace(outcome, arcs=oriented_in_code_order(outcome))
        return oriented(
            outcome,
            constraints,
            None,
            open_triples=open_triples,
            by_clarity=False,
            tie_break_score=voted.tie_break_score(outcome.support),
        )

    @property
    def _followed(self) -> Reference:
        return REFERENCES[self.voting.reference]
