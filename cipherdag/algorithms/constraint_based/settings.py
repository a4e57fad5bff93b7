"""The settings that constraint-based algorithms share, each declared once, and what goes together.

`ConstraintBased` has those of every such algorithm, `GraphFromTests` those of the ones that learn a
graph, with the run that they share.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from cipherdag.algorithms.algorithm import Algorithm, Facts, Reading
from cipherdag.algorithms.bootstrap import replicated
from cipherdag.algorithms.constraint_based.colliders import ColliderRule, CollidersBy
from cipherdag.algorithms.constraint_based.fit_checks import check_fits
from cipherdag.algorithms.constraint_based.outcome import Doubts, TestsOutcome
from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.site_differences import (
    differences_given_neighbours,
    marginal_differences,
)
from cipherdag.algorithms.evidence.within_sites import STRATIFIED
from cipherdag.algorithms.parameters import (
    LEVELS,
    Reveal,
    one_of,
    preset,
    require,
    row_bound,
    within,
    without,
)
from cipherdag.arrays import BoolMatrix
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.findings.finding import Finding
from cipherdag.findings.graph import LearntGraph, LearntPAG
from cipherdag.graphs.knowledge import Constraints, Knowledge
from cipherdag.graphs.orientation import unshielded_pairs
from cipherdag.questions.ci_tests import CI_TESTS, CITestSpec, ColumnTypes, offered_tests
from cipherdag.questions.disclosure import LARGEST_USUAL_LEVEL, Disclosure, Quantity, bits, joined
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.gather import gather_two
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.presence import Measured
from cipherdag.questions.question import MAX_REPLICATES, Asking, Outcome, Resampled
from cipherdag.questions.scores.score_bits import LEAST_LEVEL
from cipherdag.questions.separators import SeparatorSearch
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.questions.skeleton import Skeleton
from cipherdag.questions.verdicts import FEWEST_SITES

ENDS_WITHOUT_MIDDLE = (
    "sites lack variables; then colliders p_value_drop alone tells of a middle that it was "
    "measured beside the ends"
)

Conclusion = TypeVar("Conclusion", bound=Finding)
Tested = TypeVar("Tested", bound=TestsOutcome)
Learnt = TypeVar("Learnt", LearntGraph, LearntPAG)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConstraintBased(Algorithm[Outcome, Conclusion]):
    """The settings of every algorithm that runs on tests over all sites.

    Attributes:
        alpha: Significance level of every test.
        reveal: What everybody learns of a test: ``bits``: whether it says dependent, or whether an
            edge falls, computed by secure multiparty computation (``docs/explanation/bits.md``);
            ``sums``: the sums over the sites that the evidence needs. ``bits`` needs evidence
            ``stratified``, ``fisher``, ``weighted_p``, or of FedPC ``vote``.
            ``auto``: ``bits`` with the evidence that is the default, ``sums`` with another that is
            named, as it was published; the policies of sites refuse ``sums`` unless they say
            otherwise.
        evidence: The test over all sites: a kind that `cipherdag.algorithms.evidence` lists.
        max_cond_size: Largest conditioning set; None for no limit, or for the largest degree (the
            paper's rule), which few rows allow.
        test: Test of conditional independence: ``auto`` follows the schema.
        max_rows: Most rows that a site may have, a power of two.
    """

    reads: ClassVar[frozenset[Reading]] = frozenset({"relations"})
    bits_by_default: ClassVar[tuple[str, ...]]

    alpha: float = within(0.01, 0.0, 1.0, above=True, below=True, steps=LEVELS)
    reveal: Reveal = "auto"
    evidence: str = one_of("stratified", tuple(EVIDENCE))
    max_cond_size: int | None = within(3, 0)
    test: str = one_of("auto", offered_tests("fedpc"))
    max_rows: int = row_bound()

    @property
    def decided_by(self) -> str:
        """The evidence that is used."""
        return self.evidence

    @property
    def closed(self) -> bool:
        """Whether one bit a test is opened, and no sum."""
        by_default = self.reveal == "auto" and self.decided_by in self.bits_by_default
        return self.reveal == "bits" or by_default

    def check_visits(self, visits: int) -> None:
        """Refuse visits but with stratified evidence, whose variances allow for them."""
        Algorithm.check_visits(self, 1 if self.decided_by == "stratified" else visits)

    def used(self, conclusion: Conclusion, columns: ColumnTypes | None) -> dict[str, Any]:
        """With evidence that has tests of its own no test is chosen."""
        kind = EVIDENCE.get(self.decided_by)
        used = Algorithm.used(self, conclusion, columns)
        used |= {"reveal": "bits" if self.closed else "sums", "evidence": self.decided_by}
        computed = CI_TESTS[self.test].computed
        used["test"] = computed.get(columns or "mixed", "by the kinds of columns")
        return without(used, test=kind is None or not kind.own_tests or self.test != "auto")

    def check_sites(self, n_sites: int) -> None:
        """Raise ParameterError where verdicts are to be computed by too few sites."""
        require(
            not self.closed or n_sites >= FEWEST_SITES,
            f"reveal bits needs {FEWEST_SITES} sites, which hold shares of the sums",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphFromTests(ConstraintBased[Tested, Learnt]):
    """The settings of every algorithm that learns a graph from tests, and its run.

    Attributes:
        colliders: What makes an unshielded x - y - z a collider, which benchmarks alone choose:
            ``sepset``: the set that separated x and z lacks y. The others need other evidence than
            votes, look at all sets of neighbours, and say what is not clear
            (`constraint_based.colliders`): ``conservative`` or ``majority``: no set, or less than
            half of all sets, that separate x and z have y; ``p_value_drop``: p falls, on average to
            less than half, as y joins the sets. ``auto``: ``p_value_drop``, but ``sepset`` where
            all sets are not looked at.
        knowledge: Background knowledge in a TOML file: forbidden and required edges, and tiers.
        bootstrap: Number of bootstrap replicates, which say how certain each edge is: every site
            redraws its rows, the run is repeated in the same rounds, and in how many replicates
            each edge occurs is counted.
    """

    bits_by_default: ClassVar[tuple[str, ...]] = ("stratified",)
    takes_overlap: ClassVar[bool] = True
    other_evidence: ClassVar[tuple[str, ...]] = ()
    """Values of ``evidence`` that are no test over all sites, such as votes; they take any test."""

    retired: ClassVar[dict[str, object]] = {
        "dof": "adjusted",
        "max_cells": 4096,
        "site_effect": False,
        "interactions": False,
        "compare_sites": True,
    }

    colliders: ColliderRule = preset("auto")
    knowledge: Knowledge | None = None
    bootstrap: int = within(0, 0, MAX_REPLICATES)

    @property
    def rule(self) -> CollidersBy:
        """The rule for colliders that is used."""
        return "p_value_drop" if self.colliders == "auto" else self.colliders

    @property
    def test_spec(self) -> CITestSpec:
        """The test that the parameters name."""
        return CITestSpec(alpha=self.alpha, name=self.test)

    def used(self, conclusion: Learnt, columns: ColumnTypes | None) -> dict[str, Any]:
        """With the rule for colliders that was used."""
        return ConstraintBased.used(self, conclusion, columns) | {"colliders": self.rule}

    def evidence_settings(self, facts: Facts) -> EvidenceSettings:
        """How the tests of a run are done."""
        return evidence_settings(facts, self.test_spec, self.max_rows)

    def separator_search(self, skeleton: BoolMatrix) -> SeparatorSearch:
        """The candidate separating sets of all unshielded pairs of a skeleton."""
        return SeparatorSearch(
            skeleton=Skeleton.from_matrix(skeleton),
            pairs=pack_integers(unshielded_pairs(skeleton)),
            test=self.test_spec,
            max_cond_size=self.max_cond_size,
        )

    def check_bits(self) -> None:
        """Refuse evidence, or a level, with which verdicts alone cannot be disclosed."""
        closable = (name for name, kind in EVIDENCE.items() if kind.close is not None)
        takes = _alternatives(self.other_evidence, closable)
        require(
            not self.closed
            or self.decided_by in self.other_evidence
            or EVIDENCE[self.decided_by].close is not None,
            f"reveal bits needs evidence {takes}; {self.decided_by} discloses sums",
        )
        if self.closed and self.decided_by == "stratified":
            check_level(self.alpha)

    def check_test(self) -> None:
        """Refuse a test that the evidence cannot take."""
        kind = EVIDENCE.get(self.decided_by)
        others = (
            name
            for name, other in EVIDENCE.items()
            if not other.own_tests and (not other.tests or self.test in other.tests)
        )
        require(
            kind is None or not kind.tests or self.test in kind.tests,
            f"evidence {self.decided_by} does not take test {self.test}, but chooses by the types "
            f"of the columns; for test {self.test} choose evidence "
            f"{_alternatives(self.other_evidence, others)}",
        )

    def check_measured(self, measured: Measured) -> None:
        """Refuse sites that lack variables if the evidence or the collider rule needs them all."""
        if measured.everywhere:
            return
        kind = EVIDENCE.get(self.decided_by)
        takes = _alternatives((), (name for name, other in EVIDENCE.items() if other.overlapping))
        require(
            kind is not None and kind.overlapping,
            f"sites lack variables, which evidence {takes} can do without; {self.decided_by} "
            "cannot",
        )
        require(self.rule == "p_value_drop", ENDS_WITHOUT_MIDDLE)

    def disclosures(self) -> tuple[Disclosure, ...]:
        """What the evidence discloses; with `bootstrap` also what resampled rows disclose."""
        again = Resampled.discloses if self.bootstrap else ()
        return joined(self.evidence_disclosures(), again)

    def evidence_disclosures(self) -> tuple[Disclosure, ...]:
        """What tests over all sites disclose."""
        kind = EVIDENCE[self.decided_by]
        lenient = self.rule == "p_value_drop" or self.alpha > LARGEST_USUAL_LEVEL
        opened = kind.disclosures(closed=self.closed, lenient=lenient)
        compared = kind.asks_columns and not self.closed
        checked = (
            bits(Quantity.CURVED) if self.decided_by == STRATIFIED.name and self.closed else ()
        )
        return joined(opened, SiteDifferences.discloses if compared else (), checked)

    def ask(self, facts: Facts) -> Asking[Tested]:
        """The run as a generator: yields questions, receives sums, returns its outcome.

        The names are for `knowledge`, the seed for `bootstrap`. Rounds: those of `learn`; with
        `bootstrap` those of the replicate that needs most, or more where a round would have more
        than 2,000,000 values.

        Raises:
            ParameterError: The knowledge contradicts itself or names other variables, too few
                sites are to compute bits, or the seed of replicates is no number of 64 bits.
        """
        self.check_sites(facts.n_sites)
        constraints = (self.knowledge or Knowledge()).over(facts.names)
        return (
            yield from replicated(
                self.learn(facts, constraints),
                lambda: self.learn(facts, constraints, resampled=True),
                replicates=self.bootstrap,
                seed=facts.seed,
                counted=self.count_edges,
            )
        )

    @abstractmethod
    def learn(
        self, facts: Facts, constraints: Constraints, *, resampled: bool = False
    ) -> Asking[Tested]:
        """The run on the sites' rows, as they are or resampled."""

    @staticmethod
    @abstractmethod
    def count_edges(outcomes: Sequence[Tested]) -> EdgeCounts:
        """In how many of these outcomes each edge occurs."""


class Adjacent(Protocol):
    """The result of a search for a skeleton."""

    @property
    def skeleton(self) -> BoolMatrix:
        """Symmetric adjacency, shape (p, p)."""


Searched = TypeVar("Searched", bound=Adjacent)
Oriented = TypeVar("Oriented")


def look_for_doubts_meanwhile(
    columns: ColumnKinds | None,
    settings: EvidenceSettings,
    algorithm: ConstraintBased[Any, Any],
    search: Asking[Searched],
    orient: Callable[[Searched], Asking[Oriented]],
) -> Asking[tuple[Oriented, Doubts]]:
    """A skeleton and its orientation; in the same rounds sites are compared, and fits checked.

    ``columns`` are compared, then given their neighbours in the skeleton, unless bits alone are
    disclosed; fits are those of stratified tests. None does neither, as of rows that are visits.
    """
    bounds = {"min_contributors": settings.min_contributors, "max_rows": settings.max_rows}
    compared = None if algorithm.closed else columns
    fitted = columns if algorithm.decided_by == STRATIFIED.name else None
    skeleton, marginal = yield from gather_two(search, marginal_differences(compared, **bounds))
    adjacent, most = skeleton.skeleton, algorithm.max_cond_size
    doubts = gather_two(
        differences_given_neighbours(compared, marginal, adjacent, **bounds),
        check_fits(fitted, settings, adjacent, most, closed=algorithm.closed),
    )
    oriented, (given, curved) = yield from gather_two(orient(skeleton), doubts)
    return oriented, Doubts((*marginal, *given), curved)


def evidence_settings(
    facts: Facts, spec: CITestSpec, max_rows: int, *, ranked: bool = False
) -> EvidenceSettings:
    """How the tests of a run are done."""
    return EvidenceSettings(
        spec=spec,
        n_variables=facts.n_variables,
        max_rows=max_rows,
        present=facts.present,
        min_contributors=facts.min_contributors,
        measured=facts.measured,
        determined=facts.determined,
        ranked=ranked,
        visits=facts.visits,
    )


def check_level(alpha: float) -> None:
    """Raise ParameterError where bits of scores are not computed at so low a level."""
    require(
        alpha >= LEAST_LEVEL,
        f"reveal bits needs alpha {LEAST_LEVEL:g} or more, not {alpha:g}; reveal sums takes any",
    )


def _alternatives(first: tuple[str, ...], rest: Iterable[str]) -> str:
    names = [*first, *rest]
    return " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
