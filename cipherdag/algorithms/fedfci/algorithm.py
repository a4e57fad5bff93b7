"""FedFCI: a partial ancestral graph from a test over all sites; causes may be unmeasured.

FCI runs on the evidence of all sites (`cipherdag.algorithms.evidence`), as FedPC does: the same
skeleton, then sets beyond the neighbours, or with RFCI tests of what directs, and Zhang's rules.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts, Reading
from cipherdag.algorithms.bootstrap import once_more, replicated
from cipherdag.algorithms.evidence.kind import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.settings import (
    check_closed,
    check_measured,
    check_sites,
    check_test,
    settings_of,
    test_of,
)
from cipherdag.algorithms.evidence.site_differences import (
    SiteDifference,
    differences_given_neighbours,
    marginal_differences,
)
from cipherdag.algorithms.evidence.source import EvidenceSource
from cipherdag.algorithms.fedfci.groups import of_groups
from cipherdag.algorithms.fedfci.outcome import FedFCIOutcome
from cipherdag.algorithms.fedfci.report import concluded, with_fitting
from cipherdag.algorithms.fedfci.rfci import RFCI, Refined
from cipherdag.algorithms.fedfci.search import (
    Told,
    fci_skeleton,
    start_marks,
    tested_pairs,
    told_of_triples,
)
from cipherdag.algorithms.fedpc.colliders import (
    ColliderRule,
    JudgingRule,
)
from cipherdag.algorithms.fedpc.pcstable import Pair, StableSkeleton, stable_skeleton
from cipherdag.algorithms.fedpc.report import evidence_disclosed, reported
from cipherdag.algorithms.fedpc.untested import fallen_untested
from cipherdag.algorithms.parameters import Reveal, one_of, require, row_bound, within
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.findings.conclusion import LearntPAG, Report
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.graphs.ancestral.classes import nearest_pag
from cipherdag.graphs.ancestral.orientation import Grounds, completed, with_colliders
from cipherdag.graphs.endpoints import CIRCLE, NONE
from cipherdag.graphs.knowledge import Constraints, Knowledge
from cipherdag.graphs.orientation import triples_over, unshielded_pairs
from cipherdag.questions.ci_tests import FEWEST_KERNEL_ROWS, MOST_KERNEL_ROWS, offered_tests
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.gather import gather_two
from cipherdag.questions.pooled_data import MAX_CELLS
from cipherdag.questions.presence import EVERYWHERE, Measured, Presence
from cipherdag.questions.question import MAX_REPLICATES, Question
from cipherdag.questions.separators import SeparatorSearch
from cipherdag.questions.skeleton import Skeleton

MOST_GRAPHS = 10_000_000
"""That `integrate` may look at: some hours."""

Learning = Generator[Question, FloatVector, FedFCIOutcome]


@dataclass(frozen=True, kw_only=True, slots=True)
class FedFCI(Algorithm[FedFCIOutcome, LearntPAG]):
    """FedFCI's parameters; `ask` is the algorithm.

    Attributes:
        alpha: Significance level of every test.
        reveal: What is opened of tests: ``bits``, ``sums`` or ``auto``, as in FedPC; ``bits`` needs
            evidence ``stratified``, ``fisher`` or ``weighted_p``.
        evidence: The test over all sites: a kind that `cipherdag.algorithms.evidence` lists.
        search: ``fci``: two variables keep an edge only if no set of what may separate them does,
            neighbours or not (Possible-D-SEP: on paths between the two, of what may be a cause of
            one of them). ``rfci``: given neighbours
            alone, and only what is read off a triple or a path is tested further: far fewer tests
            and smaller sets; edges may stay that ``fci`` takes out.
        colliders: What makes an unshielded x - y - z a collider: ``sepset``: the set that separated
            x and z lacks y; ``conservative``, ``majority``, ``p_value_drop``: as in FedPC, by all
            sets of neighbours (`fedpc.colliders`). ``auto``: ``p_value_drop``.
        selection: Whether rows may have been selected by what variables cause (rules 5 to 7). Then
            a tail says that a variable is a cause of the other or of what rows were selected by.
        max_cond_size: Largest conditioning set; None for no limit, which few rows allow.
        test: CI test by name: ``auto`` follows the schema; see FedPC.
        kernel_rows: Most rows of a site that the test ``kci`` looks at. Time grows with its cube.
        dof: Degrees of freedom of the table tests.
        max_cells: Largest contingency table that ``pooled`` asks for, as in FedPC.
        max_rows: Declared bound of a site's rows, a power of two.
        site_effect: With ``glm`` every site has constants of its own in every regression.
        interactions: With ``glm`` the variables that a test conditions on interact.
        compare_sites: Whether ``stratified``, ``pooled`` and ``glm`` look for variables that are
            distributed differently at the sites; not where bits are opened.
        knowledge: What is known before: required edges are direct causes; a forbidden edge (a, b)
            and tiers say that a is no cause of b, not even through others, for what is between them
            may be unmeasured. Such a pair may still have an edge: an unmeasured cause of both.
        bootstrap: Replicates over rows that every site draws from its own: the run is repeated in
            the same rounds, and in how many of them each mark stands is counted.
        integrate: Where sites measured different variables, how many graphs to look at for those
            over all variables that have, among the variables of every group of sites, the group's
            own PAG (`graphs.ancestral.integration`). 0: none; the rules are applied to all
            variables at once, those that hold whatever a group lacks.

    Leaks:
        What the evidence says of every test asked, by sums or by bits, and with `compare_sites`
        what `evidence.site_differences` does of every variable. Which tests are asked tells sites
        the skeleton after every layer, and which sets lie beyond the neighbours. With `bootstrap`
        all of it once more for every replicate. With `integrate` it is the skeleton of every group
        that they learn, and there are more tests; what fits is found from that alone.
    """

    name: ClassVar[str] = "fedfci"
    title: ClassVar[str] = "FedFCI"
    concludes: ClassVar[type[LearntPAG]] = LearntPAG
    takes_overlap: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reading]] = frozenset({"relations"})

    alpha: float = within(0.01, 0.0, 1.0, above=True, below=True)
    reveal: Reveal = "auto"
    evidence: str = one_of("stratified", tuple(EVIDENCE))
    search: Literal["fci", "rfci"] = "fci"
    colliders: ColliderRule = "auto"
    selection: bool = False
    max_cond_size: int | None = within(3, 0)
    test: str = one_of("auto", offered_tests("fedpc"))
    kernel_rows: int = within(1000, FEWEST_KERNEL_ROWS, MOST_KERNEL_ROWS)
    dof: Literal["adjusted", "plain"] = "adjusted"
    max_cells: int = within(4096, 1, MAX_CELLS)
    max_rows: int = row_bound()
    site_effect: bool = False
    interactions: bool = False
    compare_sites: bool = True
    knowledge: Knowledge | None = None
    bootstrap: int = within(0, 0, MAX_REPLICATES)
    integrate: int = within(0, 0, MOST_GRAPHS)

    def check(self) -> None:
        """Refuse choices that do not go together."""
        if self.closed:
            check_closed(self)
        check_test(self)
        require(
            self.knowledge is None or not self.selection,
            "knowledge says what causes what, and with selection no mark says that alone; give up "
            "one of them",
        )
        require(
            not (self.integrate and (self.knowledge or self.selection or self.bootstrap)),
            "integrate goes through graphs without selection that the tests allow; it cannot take "
            "knowledge, selection or bootstrap yet",
        )

    def check_measured(self, measured: Measured) -> None:
        """Take sites that lack variables where the evidence and the search do."""
        check_measured(self, measured)
        require(
            measured.everywhere or self.search == "fci",
            "sites lack variables, of which search rfci would take edges for granted that no site "
            "can test; choose search fci",
        )
        require(
            not self.integrate or not measured.everywhere,
            "every site measured every variable, so that there is nothing to integrate; leave "
            "integrate at 0",
        )

    @property
    def decided_by(self) -> str:
        """The evidence that is used."""
        return self.evidence

    @property
    def closed(self) -> bool:
        """Whether one bit a test is opened, and no sum."""
        return self.reveal == "bits" or (self.reveal == "auto" and self.evidence == "stratified")

    def ask(self, facts: Facts) -> Learning:
        """The run as a generator: yields questions, receives sums, returns a `FedFCIOutcome`.

        Args:
            facts: The names are for `knowledge`, the seed for `bootstrap`.

        Raises:
            ParameterError: The knowledge contradicts itself or names other variables, bits
                are to be found by fewer than two sites, or the seed is no number of 64 bits.

        Returns:
            The outcome. Rounds: those of the evidence, of `fci_skeleton` and of `judge_triples`; or
            with ``rfci`` those of `stable_skeleton` and of `RFCI.orient`. With `bootstrap` those of
            the replicate that needs most, or more where a round would have too many values.

        Leaks:
            See the class.
        """
        check_sites(self, facts.n_sites)
        known = (self.knowledge or Knowledge()).over(facts.names)
        return (
            yield from replicated(
                self._learn(known, facts),
                lambda: self._learn(known, facts, drawn=True),
                replicates=self.bootstrap,
                seed=facts.seed,
                counted=lambda own: EdgeCounts.of([other.marks for other in own], "o-o"),
            )
        )

    def _learn(self, known: Constraints, facts: Facts, *, drawn: bool = False) -> Learning:
        """The run on the sites' rows, as they are or drawn from them."""
        settings = settings_of(self, facts)
        source = yield from EVIDENCE[self.evidence].source(settings, closed=self.closed)
        comparing = self.compare_sites and not self.closed and not drawn
        kinds = source.kinds if comparing else None
        shown = None if drawn else facts.present
        if self.integrate:
            return (yield from self._learn_by_group(source, settings, known, facts))
        found, marginal = yield from gather_two(
            self._skeleton(source, known, shown), marginal_differences(kinds, settings)
        )
        outcome, given = yield from gather_two(
            self._orient(source, known, found, facts),
            differences_given_neighbours(kinds, settings, marginal, found.skeleton),
        )
        return _told_of(outcome, source, known, (*marginal, *given))

    def _learn_by_group(
        self, source: EvidenceSource, settings: EvidenceSettings, known: Constraints, facts: Facts
    ) -> Learning:
        """The run group by group of sites, for what fits all of them to be looked for."""
        kinds = source.kinds if self.compare_sites and not self.closed else None
        outcome, marginal = yield from gather_two(
            of_groups(source, facts.measured, known, self._skeleton, self._judge),
            marginal_differences(kinds, settings),
        )
        given = yield from differences_given_neighbours(
            kinds, settings, marginal, outcome.marks != NONE
        )
        return _told_of(outcome, source, known, (*marginal, *given))

    def conclude(self, outcome: FedFCIOutcome, facts: Facts) -> LearntPAG:
        """The PAG by name, and why its edges stand."""
        return concluded(self, outcome, facts)

    def decisions(self, outcome: FedFCIOutcome, facts: Facts) -> bytes:
        """The graph of the run and every group's: what is integrated of them follows from these."""
        found = concluded(replace(self, integrate=0), outcome, facts)
        own = b"".join(own.marks.tobytes() for own in outcome.groups)
        return found.decisions + own

    def disclosures(self) -> tuple[str, ...]:
        """What the evidence opens, and how often."""
        said = evidence_disclosed(self)
        return (*said, once_more(self.bootstrap)) if self.bootstrap else said

    def report(self, found: LearntPAG) -> Report:
        """Pairs with an unmeasured cause, triples that stay open, and sites that differ."""
        return with_fitting(found, reported(self, found))

    def _skeleton(
        self, source: EvidenceSource, known: Constraints, shown: Presence | None = None
    ) -> Generator[Question, FloatVector, StableSkeleton]:
        if self.search == "rfci":
            return (
                yield from stable_skeleton(
                    source,
                    tested_pairs(known),
                    alpha=self.alpha,
                    max_cond_size=self.max_cond_size,
                    shown=shown,
                )
            )
        return (
            yield from fci_skeleton(
                source,
                known,
                alpha=self.alpha,
                max_cond_size=self.max_cond_size,
                selection=self.selection,
                judge=partial(self._judge, source),
                shown=shown,
            )
        )

    def _orient(
        self,
        source: EvidenceSource,
        known: Constraints,
        found: StableSkeleton,
        facts: Facts,
    ) -> Learning:
        sets, measured = found.separations, facts.measured
        untested = measured.never(found.skeleton)
        undirected = untested | facts.determined.without_direction(known.open(found.skeleton))
        refined = Refined(found.skeleton.copy(), sets.sets, sets.p_values)
        judge = partial(self._judge, source)
        if self.search == "rfci":
            rules = RFCI(source, known, self.alpha, self.selection, judge)
            marks = yield from rules.orient(refined)
        else:
            told = yield from judge(found.skeleton, sets.sets, measured)
            refined.told = told.without(triples_over(found.skeleton, undirected))
            doubtful = undirected if undirected.any() or not measured.everywhere else None
            grounds = Grounds(sets.sets, refined.told.ambiguous, doubtful=doubtful)
            start = with_colliders(start_marks(found.skeleton, known), refined.told.colliders)
            marks = completed(start, grounds, selection=self.selection)
            if doubtful is None and self.knowledge is None:
                marks = nearest_pag(marks, refined.told.ambiguous)
        weakest = found.tested(source)
        marks = np.where(undirected & (marks != NONE), CIRCLE, marks)
        return FedFCIOutcome(
            marks=marks,
            layers=found.layers,
            removed=refined.removed,
            sepsets={pair: (own, refined.p_values[pair]) for pair, own in refined.sets.items()},
            colliders=tuple(refined.told.colliders),
            ambiguous=tuple(refined.told.ambiguous),
            weakest={pair: own for pair, own in weakest.items() if marks[pair]},
            decisive=found.decisive.of(
                marks != NONE, known.joined, source, measured, facts.determined
            ),
            known=known,
            untested=untested,
        )

    def _judge(
        self,
        source: EvidenceSource,
        skeleton: BoolMatrix,
        sets: Mapping[Pair, frozenset[int]],
        measured: Measured = EVERYWHERE,
    ) -> Generator[Question, FloatVector, Told]:
        search = SeparatorSearch(
            skeleton=Skeleton.from_matrix(skeleton),
            pairs=pack_integers(unshielded_pairs(skeleton)),
            test=test_of(self),
            max_cond_size=self.max_cond_size,
        )
        return (yield from told_of_triples(source, search, sets, self.rule, measured))

    @property
    def rule(self) -> JudgingRule | None:
        """The rule that judges triples by all sets of neighbours; None for the one set found."""
        rule = "p_value_drop" if self.colliders == "auto" else self.colliders
        return None if rule == "sepset" else rule


def _told_of(
    outcome: FedFCIOutcome,
    source: EvidenceSource,
    known: Constraints,
    differences: tuple[SiteDifference, ...],
) -> FedFCIOutcome:
    """The outcome with how tests were done, and which could not be."""
    return replace(
        outcome,
        tests=dict(source.tally),
        rows=0 if source.kinds is None else source.kinds.rows,
        differences=differences,
        fallen=fallen_untested(source.untestable_pairs(), tested_pairs(known)),
    )
