"""FedPC: a causal graph from a test over all sites, or from votes (Huang et al., IEEE TBD 2023).

By default PC-stable runs on the evidence of all sites (`cipherdag.algorithms.evidence`). With the
paper's votes FedSkele decides on every edge layer by layer, and FedOrien asks for separating sets
of the unshielded pairs. Either way colliders and Meek's rules direct. The sites' half of the votes
is ``layer_votes`` and ``separator_scores`` of `cipherdag.sites.compute.ci_tests`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from cipherdag.algorithms.algorithm import Algorithm, Facts, Reading
from cipherdag.algorithms.bootstrap import arcs_counted, replicated
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.settings import (
    check_measured,
    check_sites,
    settings_of,
    test_of,
)
from cipherdag.algorithms.evidence.site_differences import (
    differences_given_neighbours,
    marginal_differences,
)
from cipherdag.algorithms.fedpc.choices import VOTE_SHARE, check_choices, only_of_votes
from cipherdag.algorithms.fedpc.colliders import ColliderRule, JudgingRule, separated
from cipherdag.algorithms.fedpc.orientation import oriented, oriented_in_code_order
from cipherdag.algorithms.fedpc.outcome import FedPCOutcome
from cipherdag.algorithms.fedpc.pcstable import stable_skeleton
from cipherdag.algorithms.fedpc.report import concluded, disclosed, reported
from cipherdag.algorithms.fedpc.separating_sets import UNDECIDED, by_maximum, by_scores
from cipherdag.algorithms.fedpc.untested import fallen_untested
from cipherdag.algorithms.fedpc.voting import VotedSkeleton, VoteRule, voted_skeleton
from cipherdag.algorithms.parameters import Reveal, one_of, row_bound, within
from cipherdag.arrays import BoolMatrix, FloatVector
from cipherdag.findings.conclusion import LearntGraph, Report
from cipherdag.graphs.knowledge import Constraints, Knowledge
from cipherdag.graphs.orientation import triples_over, unshielded_pairs
from cipherdag.questions.ci_tests import FEWEST_KERNEL_ROWS, MOST_KERNEL_ROWS, offered_tests
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.gather import gather_two
from cipherdag.questions.pooled_data import MAX_CELLS
from cipherdag.questions.presence import Measured
from cipherdag.questions.question import MAX_REPLICATES, Question
from cipherdag.questions.separators import MAX_GRID_BITS, SeparatorSearch
from cipherdag.questions.skeleton import Skeleton

Asking = Generator[Question, FloatVector, FedPCOutcome]


@dataclass(frozen=True, kw_only=True, slots=True)
class FedPC(Algorithm[FedPCOutcome, LearntGraph]):
    """FedPC's parameters; `ask` is the algorithm.

    Attributes:
        alpha: Significance level of every test.
        reveal: What is opened of a test: ``bits``: whether it says dependent, or whether an edge
            falls, computed by secure multiparty computation (``docs/explanation/bits.md``);
            ``sums``: the sums over the sites that the evidence needs. ``bits`` needs evidence
            ``stratified``, ``fisher``, ``weighted_p``, or ``vote`` with `sepset` ``max``. ``auto``:
            ``bits`` with evidence ``stratified``, ``sums`` with another that is named, as it was
            published; the policies of sites refuse ``sums`` unless they say otherwise.
        evidence: What decides a test: ``auto``: ``stratified``, or ``vote`` where a choice is made
            that only votes have (`reference`, `vote_share`, `sepset` ``mean`` or ``vote``). Else
            the sites' ``vote`` (the paper), or one test over all sites of a kind that
            `cipherdag.algorithms.evidence` lists; the coordinator then runs PC-stable on it.
        sepset: How a separating set is chosen: ``max``: highest p-value over sites by a secure
            maximum (the paper), or of the test over all sites; ``mean``: highest mean p, weighted
            by rows; ``vote``: most votes (both the paper's future work). ``search``, only with
            other evidence than ``vote``: the highest p of the round that separated the pair, for
            which nothing more is asked.
        colliders: What makes an unshielded x - y - z a collider: ``sepset``: the chosen set lacks y
            (with ``max``, that of largest p: Ramsey, 2016). The others need other evidence than
            ``vote``, look at all sets, and say what is not clear (`fedpc.colliders`):
            ``conservative`` or ``majority``: no set, or less than half of all sets, that separate
            x and z have y; ``p_value_drop``: p falls, on average to less than half, as y joins the
            sets. ``auto``: ``p_value_drop``, or ``sepset`` with votes and where sets come from the
            ``search``.
        reference: Whether to follow the paper or its original program where they differ; either
            implies votes, and ``auto`` is the paper with any evidence. ``paper``:
            order-independent layers, strictly more than ``vote_share`` of the sites, candidates
            from ne(x) or ne(z), no set found means no collider. ``code``: edits as it goes, at
            least round(vote_share N) votes, candidates from ne(x) and ne(z) together, no set found
            means a collider, a site that cannot test keeps the edge, and the DAG is made by its own
            rule, which may leave cycles.
        max_cond_size: Largest conditioning set; None for the paper's rule, the largest degree.
        vote_share: Share of sites that keeps an edge, of those that can test it; a site whose
            tests of an edge are all impossible abstains, and an edge that too few sites can test
            stays.
        test: CI test by name: ``auto`` follows the schema. ``regression`` takes any mixture of
            columns, as does ``regression-interactions`` (see `interactions`); ``kci`` is the kernel
            test of continuous columns, for dependences of any form (the paper's FedPC-KBT), with
            evidence of p-values alone.
        kernel_rows: Most rows of a site that the test ``kci`` looks at, evenly spaced among its
            own. Time grows with its cube.
        dof: Degrees of freedom of the table tests.
        collider_conflicts: Which colliders are taken first, where no DAG has all: ``strongest``:
            those of largest support; ``keep``: the first; ``overwrite``: the last; ``auto``:
            ``strongest`` for the paper, which leaves it open, ``overwrite`` for the code.
        grid_bits: The secure maximum compares p-values on a grid of 2**-grid_bits.
        max_cells: Largest contingency table that ``pooled`` asks for; a test of a larger one is
            done by ``stratified`` with its sums opened (see `FedPCOutcome.tests`).
        max_rows: Declared bound of a site's rows, a power of two, for other evidence than ``vote``.
        site_effect: With ``glm`` every site has constants of its own in every regression: sites
            may differ in level. Each takes its own out before it answers.
        interactions: With ``glm`` the variables that a test conditions on interact: every
            combination of their categories has a constant and slopes of its own. Without it they
            have main effects alone, and what only their interplay explains (both x and y depend on
            whether s1 equals s2) stands as an edge between x and y. It takes more rows: a test
            needs five per coefficient, and one with fewer counts as dependent. Products of two
            continuous variables are in neither.
        compare_sites: Whether ``stratified``, ``pooled`` and ``glm`` look for variables that are
            distributed differently at the sites, and once more given their neighbours; not where
            ``bits`` are opened.
        knowledge: What is known of the edges before: forbidden and required ones, and tiers. A pair
            that cannot have an edge is not tested; with other evidence than ``vote``, neither is
            one that must, nor is conditioned on what can be no parent of either.
        bootstrap: Replicates over rows that every site draws from its own, for the confidence of
            edges: the run is repeated in the same rounds, and `FedPCOutcome.bootstrap` counts in
            how many replicates each edge occurs.

    Leaks:
        With `reveal` ``bits`` everybody learns which edges fall, or which tests say dependent, and
        where colliders are judged of some tests whether they do at a second level; with
        ``stratified`` also what `evidence.within_sites` opens before the tests; with votes what
        ``max`` below says. With other evidence than ``vote``: what that evidence says of every test
        asked, and with `compare_sites` what `evidence.site_differences` does of every variable.
        Else:
        The coordinator learns, per layer, how many sites can test each edge, and where those are as
        many as a sum has to cover, how many of them keep it; with ``max`` the best
        p-value on the grid and the chosen set of each unshielded pair; with ``mean`` the weighted
        mean p of every candidate and the rows behind it; with ``vote`` the votes of every
        candidate. Unanimous votes reveal every site's vote. Sites learn the skeleton.
        With `bootstrap` all of it once more for every replicate.
    """

    name: ClassVar[str] = "fedpc"
    title: ClassVar[str] = "FedPC"
    takes_overlap: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reading]] = frozenset({"relations"})

    alpha: float = within(0.01, 0.0, 1.0, above=True, below=True)
    reveal: Reveal = "auto"
    evidence: str = one_of("auto", ("auto", "vote", *EVIDENCE))
    sepset: Literal["max", "mean", "vote", "search"] = "max"
    colliders: ColliderRule = "auto"
    reference: Literal["auto", "paper", "code"] = "auto"
    max_cond_size: int | None = within(3, 0)
    vote_share: float = within(VOTE_SHARE, 0.0, 1.0, above=True, below=True)
    test: str = one_of("auto", offered_tests("fedpc"))
    kernel_rows: int = within(1000, FEWEST_KERNEL_ROWS, MOST_KERNEL_ROWS)
    dof: Literal["adjusted", "plain"] = "adjusted"
    collider_conflicts: Literal["auto", "strongest", "keep", "overwrite"] = "auto"
    grid_bits: int = within(20, 1, MAX_GRID_BITS)
    max_cells: int = within(4096, 1, MAX_CELLS)
    max_rows: int = row_bound()
    site_effect: bool = False
    interactions: bool = False
    compare_sites: bool = True
    knowledge: Knowledge | None = None
    bootstrap: int = within(0, 0, MAX_REPLICATES)

    def check(self) -> None:
        """Refuse choices that do not go together."""
        check_choices(self)

    def check_measured(self, measured: Measured) -> None:
        """Take sites that lack variables where the evidence does."""
        check_measured(self, measured)

    @property
    def decided_by(self) -> str:
        """The evidence that is used: what `evidence` names, or what ``auto`` comes to."""
        if self.evidence != "auto":
            return self.evidence
        if only_of_votes(self):
            return "vote"
        return "stratified"

    @property
    def closed(self) -> bool:
        """Whether one bit a test is opened, and no sum."""
        return self.reveal == "bits" or (self.reveal == "auto" and self.decided_by == "stratified")

    def ask(self, facts: Facts) -> Asking:
        """The run as a generator: yields questions, receives sums, returns a `FedPCOutcome`.

        Args:
            facts: The names are for `knowledge`, the seed for `bootstrap`.

        Raises:
            ParameterError: The knowledge contradicts itself or names other variables, the seed is
                negative, or bits are to be found by fewer than two sites.

        Returns:
            The outcome. Rounds: two per layer (of ``code`` one), then with ``max`` about (grid_bits
            + log2 of the number of candidates) / 4, else one per 250,000 candidates. With other
            evidence than ``vote``: those of its kind, of `stable_skeleton` and
            `strongest_separators`. With `bootstrap` those of the replicate that needs most, or more
            where a round would have more than 2,000,000 values.

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
                counted=arcs_counted,
            )
        )

    def conclude(self, outcome: FedPCOutcome, facts: Facts) -> LearntGraph:
        """The CPDAG by name, why its edges stand, and what was drawn anew."""
        return concluded(self, outcome, facts)

    def disclosures(self) -> tuple[str, ...]:
        """What the evidence opens, and with votes what the choice of separating sets does."""
        return disclosed(self)

    def report(self, found: LearntGraph) -> Report:
        """Confidence of edges, triples that stay open, and differences between sites."""
        return reported(self, found)

    def _learn(self, known: Constraints, facts: Facts, *, drawn: bool = False) -> Asking:
        """The run on the sites' rows, as they are or drawn from them."""
        if self.decided_by != "vote":
            return (yield from self._ask_evidence(known, facts, drawn=drawn))
        voted = yield from self._skeleton(known, facts)
        skeleton = voted.skeleton
        search = self._search(skeleton)
        if self.sepset in ("mean", "vote"):
            index, support = yield from by_scores(search, self.sepset, facts.present, facts.fewest)
        else:
            index, support = yield from by_maximum(search, facts.present)
        candidates = search.candidates()
        pairs = [(int(x), int(z)) for x, z in search.pair_array()]
        separators = {
            pair: candidates.at(group, int(index[group])) if index[group] >= 0 else None
            for group, pair in enumerate(pairs)
        }
        strengths = {pair: float(support[group]) for group, pair in enumerate(pairs)}
        open_triples = [
            (x, y, z)
            for group, (x, z) in enumerate(pairs)
            if index[group] == UNDECIDED
            for y in np.flatnonzero(skeleton[x] & skeleton[z]).tolist()
        ]
        undirected = facts.determined.without_direction(known.open(skeleton))
        open_triples = [*open_triples, *triples_over(skeleton, undirected) - {*open_triples}]
        outcome = FedPCOutcome(
            skeleton=skeleton,
            arcs=skeleton,
            separators=separators,
            support=strengths,
            layers=voted.layers,
            votes=voted.votes,
            ambiguous=tuple(sorted(open_triples)),
            known=known,
            undirected=undirected,
        )
        if self.reference == "code":
            return replace(outcome, arcs=oriented_in_code_order(self, outcome))
        standing = voted.standing(strengths)
        return outcome.with_class(
            oriented(self, outcome, None, open_triples=open_triples, standing=standing)
        )

    def _ask_evidence(self, known: Constraints, facts: Facts, *, drawn: bool) -> Asking:
        """PC-stable on one test over all sites."""
        settings = settings_of(self, facts)
        source = yield from EVIDENCE[self.decided_by].source(settings, closed=self.closed)
        comparing = self.compare_sites and not self.closed and not drawn
        kinds = source.kinds if comparing else None
        shown = None if drawn else facts.present
        size = self.max_cond_size
        found, marginal = yield from gather_two(
            stable_skeleton(source, known, alpha=self.alpha, max_cond_size=size, shown=shown),
            marginal_differences(kinds, settings),
        )
        search = self._search(found.skeleton)
        (chosen, judged), given = yield from gather_two(
            separated(
                source,
                search,
                None if self.sepset == "max" else found.separations,
                None if self.rule == "sepset" else self.rule,
            ),
            differences_given_neighbours(kinds, settings, marginal, found.skeleton),
        )
        untested = facts.measured.never(found.skeleton & ~known.joined)
        undirected = untested | facts.determined.without_direction(known.open(found.skeleton))
        doubtful = triples_over(found.skeleton, undirected)
        judged = None if judged is None else judged.without(doubtful)
        pairs = [(int(x), int(z)) for x, z in search.pair_array()]
        separators = {pair: chosen.sets.get(pair) for pair in pairs}
        support = {pair: chosen.p_values.get(pair, 0.0) for pair in pairs}
        reasons = source, facts.measured, facts.determined
        outcome = FedPCOutcome(
            skeleton=found.skeleton,
            arcs=found.skeleton,
            separators=separators,
            support=support,
            layers=found.layers,
            tests=dict(source.tally),
            ambiguous=tuple(sorted(doubtful)) if judged is None else tuple(judged.ambiguous),
            colliders=None if judged is None else judged.colliders,
            clarity={} if judged is None else judged.clarity,
            differences=(*marginal, *given),
            weakest=found.tested(source),
            decisive=found.decisive.of(found.skeleton, known.joined, *reasons),
            apart=() if drawn else found.apart,
            rows=0 if source.kinds is None else source.kinds.rows,
            known=known,
            untested=untested,
            undirected=undirected,
            fallen=fallen_untested(source.untestable_pairs(), known),
        )
        return outcome.with_class(
            oriented(self, outcome, judged, open_triples=doubtful, standing=found.standing)
        )

    def _skeleton(
        self, known: Constraints, facts: Facts
    ) -> Generator[Question, FloatVector, VotedSkeleton]:
        """FedSkele (section 3.2.1)."""
        rule = VoteRule(
            share=self.vote_share,
            reference="code" if self.reference == "code" else "paper",
            max_cond_size=self.max_cond_size,
            closed=self.closed,
        )
        return (yield from voted_skeleton(known, test_of(self), rule, facts.present, facts.fewest))

    @property
    def rule(self) -> Literal["sepset"] | JudgingRule:
        """The rule for colliders that ``auto`` stands for."""
        rule = self.colliders
        if rule == "auto":
            told_all = self.decided_by != "vote" and self.sepset == "max"
            return "p_value_drop" if told_all else "sepset"
        return rule

    def _search(self, skeleton: BoolMatrix) -> SeparatorSearch:
        code = self.reference == "code"
        return SeparatorSearch(
            skeleton=Skeleton.from_matrix(skeleton),
            pairs=pack_integers(unshielded_pairs(skeleton)),
            test=test_of(self),
            pool="union" if code else "either",
            max_cond_size=self.max_cond_size,
            measure="correlation" if code and self.sepset == "max" else "p_value",
            grid_bits=self.grid_bits,
        )
