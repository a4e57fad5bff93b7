"""FedCMFS: the features that cause, or are caused by, each label (Song et al., arXiv 2403.06419).

FedCFL learns every label's parents and children, FedCFR retrieves features that a correlated label
had hidden, FedCFC drops features that do not have the label among their own parents and children.
All of it runs on weighted p-values and strengths of (x, y, S) triplets, which are sums over the
sites; the sites' half is `sites.answers.ci_test_answers`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, cast

import numpy as np

from cipherdag.algorithms.algorithm import Facts, Published, Reading
from cipherdag.algorithms.constraint_based.settings import ConstraintBased
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.fedcmfs.combined_triplets import (
    by_combination,
    by_source,
    least_p,
    measure,
    remember,
)
from cipherdag.algorithms.fedcmfs.hiton import (
    Marginals,
    Neighbourhood,
    Part,
    Ranking,
    Sets,
    Triplets,
    parents_and_children,
)
from cipherdag.algorithms.parameters import LEVELS, one_of, preset, require, within
from cipherdag.errors import SchemaError
from cipherdag.findings.features import SelectedFeature, SelectedFeatures
from cipherdag.questions.ci_tests import CITestSpec, offered_tests
from cipherdag.questions.combined_evidence import COMBINATIONS, Combination
from cipherdag.questions.disclosure import (
    LARGEST_USUAL_LEVEL,
    Audience,
    Disclosure,
    Quantity,
    joined,
)
from cipherdag.questions.encodings import subsets
from cipherdag.questions.gather import gather
from cipherdag.questions.question import Asking
from cipherdag.questions.strengths import ScaleVerdicts, StrengthVerdicts

MARK_LABELS = (
    "Write label = true for the labels in schema.toml, or name them with --labels, in Python "
    "labels=[...]."
)
EXACT = {"reveal": "sums", "retrieval": "paper"}
VARIED = frozenset({"alpha", "k1", "k2", "test", "max_cond_size", "max_rows"})
"""What the preset leaves free: the paper has no level, test or limit; its HITON-PC ends at 3."""
TRIPLET_EVIDENCE = tuple(name for name, kind in EVIDENCE.items() if kind.triplets)


@dataclass(frozen=True, slots=True)
class LabelOutcome:
    """What was concluded about one label, all by position and the strongest first."""

    features: tuple[int, ...]  # learned or retrieved, and not dropped
    labels: tuple[int, ...]  # other labels that are parents or children, by both labels' searches
    learned: tuple[int, ...]  # its parents and children after FedCFL, labels included
    retrieved: tuple[int, ...]  # features that FedCFR added
    dropped: tuple[int, ...]  # features that FedCFC took out
    marginals: Marginals  # the label's tests with every variable given nothing


@dataclass(frozen=True, slots=True)
class FedCMFSOutcome:
    """The outcome of every label; ``untested`` variables no site could test against any label."""

    by_label: Mapping[int, LabelOutcome]
    untested: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FedCMFS(ConstraintBased[FedCMFSOutcome, SelectedFeatures]):
    """FedCMFS's parameters besides those of `ConstraintBased`; `ask` is the algorithm.

    Attributes:
        reveal: What everybody learns of a test: as in `ConstraintBased`; with ``bits`` also which
            of two candidates is stronger. ``bits`` needs evidence ``weighted_p`` or ``fisher``;
            ``auto`` is ``bits`` with these, else ``sums``.
        evidence: How the sites' tests are combined: ``weighted_p``: the mean p-value weighted by
            rows (Eq. 1); ``fisher``: one test from summed log p-values
            (`cipherdag.algorithms.evidence`), of which many small sites lose less; ``stratified``:
            tests stratified by site, for any columns and sites that differ, with tests of
            its own.
        k1: Percent of the left-out features that step FedCFR examines: the strongest of those that
            depend on a label, rounded up; 0 skips FedCFR.
        k2: Percent of a label's features that step FedCFC checks: the weakest, rounded up; 0 skips
            it.
        test: Test of conditional independence: ``auto``: G2 for discrete columns, Fisher-z for
            continuous ones and for both together (where a label is 0 or 1: the point-biserial
            correlation; three or more categories count as the numbers that they are, and have to
            be); ``regression``: nested regressions of any columns, logistic where one has two
            categories.
        retrieval: Which features step FedCFR brings back, which presets alone choose: ``paper``: X
            to label C if a set S that holds a label D separates X from C and S without D does not.
            ``interchangeable``: only if C also separates X from D in D's place, so that the data
            cannot tell the two labels apart; without sampling error the first adds features that
            are no parents or children
            (docs/adr/0006-retrieve-only-where-labels-are-interchangeable.md).

    Leaks:
        Where every site can do every test, the rows are the same total each time and say nothing of
        a site's size. Where some cannot, totals differ, and their differences are the rows of the
        sites that could not: of one site, if it was one. Sites learn which triplets are asked,
        hence each label's candidates.
    """

    name: ClassVar[str] = "fedcmfs"
    title: ClassVar[str] = "FedCMFS"
    use: ClassVar[str] = "Find the causes and effects of each of several labels."
    usual: ClassVar[tuple[str, ...] | None] = ("alpha", "max_cond_size", "reveal")
    reads: ClassVar[frozenset[Reading]] = frozenset({"labels", "relations"})
    concludes: ClassVar[type[SelectedFeatures]] = SelectedFeatures
    published: ClassVar[Mapping[str, Published]] = {"paper": Published(EXACT, VARIED)}

    retired: ClassVar[dict[str, object]] = {"dof": "adjusted"}

    bits_by_default: ClassVar[tuple[str, ...]] = COMBINATIONS

    alpha: float = within(0.05, 0.0, 1.0, above=True, below=True, steps=LEVELS)
    evidence: str = one_of("weighted_p", TRIPLET_EVIDENCE)
    k1: float = within(10.0, 0.0, 100.0)
    k2: float = within(10.0, 0.0, 100.0)
    test: str = one_of("auto", offered_tests("fedcmfs"))
    retrieval: Literal["interchangeable", "paper"] = preset("interchangeable")

    def ask(self, facts: Facts) -> Asking[FedCMFSOutcome]:
        """The run as a generator: yields questions, receives sums, returns a `FedCMFSOutcome`.

        Rounds: for FedCFL one and about one per member of the largest set of parents and children
        of a label, for FedCFR at most two, for FedCFC as for FedCFL with the checked features in
        place of the labels; the number of labels does not count. Values: two per triplet and one
        more where S is empty; a triplet is asked once.

        Raises:
            SchemaError: No label.
            ParameterError: A label beyond the variables, or too few sites to find bits.
        """
        n_variables, labels = facts.n_variables, facts.labels
        if not labels:
            raise SchemaError("no column is marked as a label", remedy=MARK_LABELS)
        require(
            len(set(labels)) == len(labels) and all(0 <= v < n_variables for v in labels),
            "labels must be distinct positions of variables",
        )
        self.check_sites(facts.n_sites)
        asking = self._run(facts, tuple(sorted(labels)))
        kind = EVIDENCE[self.evidence]
        if kind.own_tests or self.closed:
            return by_source(remember(asking), kind, facts, closed=self.closed)
        if self.evidence == "weighted_p":
            return remember(asking, facts.min_contributors)
        return by_combination(remember(asking), facts.min_contributors)

    def check(self) -> None:
        require(
            not self.closed or self.evidence in self.bits_by_default,
            f"reveal bits needs evidence weighted_p or fisher; {self.evidence} discloses sums",
        )
        tests = EVIDENCE[self.evidence].tests
        require(
            not tests or self.test in tests,
            f"evidence {self.evidence} has tests of its own, by the types of the columns; leave "
            f"test to auto, not {self.test}",
        )

    def conclude(self, outcome: FedCMFSOutcome, facts: Facts) -> SelectedFeatures:
        names = facts.names
        return SelectedFeatures(
            features={
                names[label]: tuple(
                    SelectedFeature(
                        feature=names[v],
                        strength=None if self.closed else float(of_label.marginals.strength[v]),
                        p_value=None if self.closed else float(of_label.marginals.p_value[v]),
                        retrieved=v in of_label.retrieved,
                    )
                    for v in of_label.features
                )
                for label, of_label in outcome.by_label.items()
            },
            related_labels={
                names[label]: tuple(names[v] for v in of_label.labels)
                for label, of_label in outcome.by_label.items()
            },
            untested=tuple(names[v] for v in outcome.untested),
            measure="" if self.closed else measure(self.evidence, self.test),
            least_p=least_p(self.evidence),
        )

    def disclosures(self) -> tuple[Disclosure, ...]:
        lenient = self.alpha > LARGEST_USUAL_LEVEL
        opened = EVIDENCE[self.evidence].disclosures(closed=self.closed, lenient=lenient)
        scale = () if self.evidence == "fisher" else ScaleVerdicts.discloses
        ranked = (*StrengthVerdicts.discloses, *scale) if self.closed else ()
        return joined(opened, ranked, [Disclosure(Quantity.LABELS, audience=Audience.COORDINATOR)])

    def _run(self, facts: Facts, labels: tuple[int, ...]) -> Asking[FedCMFSOutcome]:
        n_variables = facts.n_variables
        learning = self._triplets(facts, "FedCFL")
        searches: list[Asking[Neighbourhood]] = [
            parents_and_children(learning, label) for label in labels
        ]
        learned = dict(zip(labels, (yield from gather(searches)), strict=True))
        retrieving = self._triplets(facts, "FedCFR")
        retrievals: list[Asking[tuple[int, ...]]] = [
            self._retrieve(retrieving, label, learned) for label in labels
        ]
        retrieved = dict(zip(labels, (yield from gather(retrievals)), strict=True))
        selected = {
            label: learned[label].marginals.by_strength(
                {*learned[label].members, *retrieved[label]} - set(labels)
            )
            for label in labels
        }
        correcting = self._triplets(facts, "FedCFC")
        dropped = yield from self._correct(correcting, selected)
        return FedCMFSOutcome(
            by_label={
                label: LabelOutcome(
                    features=tuple(v for v in selected[label] if v not in dropped[label]),
                    labels=_mutual(label, labels, learned),
                    learned=tuple(learned[label].marginals.by_strength(learned[label].members)),
                    retrieved=retrieved[label],
                    dropped=tuple(v for v in selected[label] if v in dropped[label]),
                    marginals=learned[label].marginals,
                )
                for label in labels
            },
            untested=_untested(n_variables, learned),
        )

    def _retrieve(
        self, triplets: Triplets, label: int, learned: Mapping[int, Neighbourhood]
    ) -> Asking[tuple[int, ...]]:
        """FedCFR for one label (section 4.3, Alg. 2); at most two rounds."""
        neighbourhood = learned[label]
        left_out = set(range(triplets.n_variables)) - {*learned, *neighbourhood.members}
        pool = neighbourhood.marginals.dependent(self.alpha, left_out)
        pool = pool[: _share(self.k1, len(pool))]
        hiding = _hiding(triplets, neighbourhood, learned)
        pairs = [(hidden_by, x, sets) for hidden_by, sets in hiding for x in pool]
        p_values = yield from triplets.given([(label, x, sets) for _, x, sets in pairs])
        checks: list[tuple[int, int, Sets]] = []
        for (hidden_by, x, sets), by_size in zip(pairs, p_values, strict=True):
            separating = [s[p > self.alpha] for s, p in zip(sets, by_size, strict=True)]
            without = [s[:, 1:] for s in separating[1:]]
            swapped = [np.where(s == hidden_by, label, s) for s in separating]
            checks += [(label, x, without), (hidden_by, x, swapped)]
        if self.retrieval == "paper":
            checks = [check if n % 2 == 0 else (*check[:2], []) for n, check in enumerate(checks)]
        p_values = yield from triplets.given(checks)
        returned = set()
        for (_, x, _), without_d, with_c in zip(pairs, p_values[::2], p_values[1::2], strict=True):
            # dependent without D; a test that no site can do counts as dependent
            hidden = [~(p >= self.alpha) for p in without_d]
            if self.retrieval == "interchangeable":
                hidden = [h & (p > self.alpha) for h, p in zip(hidden, with_c[1:], strict=True)]
            if any(h.any() for h in hidden):
                returned.add(x)
        return tuple(neighbourhood.marginals.by_strength(returned))

    def _correct(
        self, triplets: Triplets, selected: Mapping[int, list[int]]
    ) -> Asking[dict[int, set[int]]]:
        """FedCFC for all labels (section 4.4, Alg. 3): what has to go, by label."""
        checked = {
            label: features[len(features) - _share(self.k2, len(features)) :]
            for label, features in selected.items()
        }
        asking_for: dict[int, set[int]] = {}
        for label, features in checked.items():
            for feature in features:
                asking_for.setdefault(feature, set()).add(label)
        searches: list[Asking[Neighbourhood]] = [
            parents_and_children(triplets, feature, watched=frozenset(watching))
            for feature, watching in asking_for.items()
        ]
        neighbourhoods = dict(zip(asking_for, (yield from gather(searches)), strict=True))
        return {
            label: {x for x in features if label not in neighbourhoods[x].members}
            for label, features in checked.items()
        }

    def _triplets(self, facts: Facts, part: Part) -> Triplets:
        ranking = None
        if self.closed:
            ranking = Ranking(cast("Combination", self.evidence), facts.n_sites)
        return Triplets(
            n_variables=facts.n_variables,
            test=CITestSpec(
                alpha=self.alpha,
                name="by-type" if self.test == "auto" else self.test,
                constant="untestable",
            ),
            max_cond_size=self.max_cond_size,
            part=part,
            max_rows=self.max_rows,
            ranking=ranking,
        )


def _hiding(
    triplets: Triplets, neighbourhood: Neighbourhood, learned: Mapping[int, Neighbourhood]
) -> Iterator[tuple[int, Sets]]:
    """Every label among a label's neighbours, and all sets of neighbours with it as first member.

    The strongest label comes first; the sets of later labels leave it out.
    """
    held = neighbourhood.marginals.by_strength(neighbourhood.members)
    for hidden_by in [v for v in held if v in learned]:
        held.remove(hidden_by)
        pool = np.array(held, dtype=np.int64)
        sets: Sets = [np.zeros((0, 0), dtype=np.int64)]
        for size in triplets.sizes(len(pool) + 1)[1:]:
            rest = pool[subsets(len(pool), size - 1)]
            sets.append(np.column_stack([np.full(len(rest), hidden_by), rest]))
        yield hidden_by, sets


def _mutual(
    label: int, labels: tuple[int, ...], learned: Mapping[int, Neighbourhood]
) -> tuple[int, ...]:
    """Other labels that the label's search found and whose searches found the label."""
    both = [v for v in learned[label].members if v in labels and label in learned[v].members]
    return tuple(learned[label].marginals.by_strength(both))


def _untested(n_variables: int, learned: Mapping[int, Neighbourhood]) -> tuple[int, ...]:
    """Variables that no site could test against any label."""
    tested = np.zeros(n_variables, dtype=bool)
    for label, neighbourhood in learned.items():
        outcomes = ~np.isnan(neighbourhood.marginals.p_value)
        tested |= outcomes
        tested[label] |= outcomes.any()
    return tuple(np.flatnonzero(~tested).tolist())


def _share(percent: float, count: int) -> int:
    """``percent`` percent of ``count``, rounded up."""
    return math.ceil(count * Fraction(str(percent)) / 100)
