"""The site as a variable that no other one causes: which mechanisms differ between sites.

Tests of two variables are made within the sites, so the site is in every set that they are given.
That opens no path, as nothing points at it. A test of a variable and the site asks whether what the
set leaves of the variable is distributed alike at all sites.

Source: Mooij, Magliacane and Claassen, "Joint causal inference from multiple contexts", JMLR 21
(2020), assumptions 1 and 2; Huang et al., "Causal discovery from heterogeneous/nonstationary data",
JMLR 21 (2020).

Leaks:
    What the source of the evidence says of tests, and what `evidence.site_differences` does of
    every variable and set that it is compared given; to the sites which these are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cipherdag.algorithms.evidence.site_differences import (
    differences_given_numbers,
    marginal_differences,
)
from cipherdag.errors import MixedTypesError
from cipherdag.graphs.knowledge import Constraints
from cipherdag.questions.lockstep import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from cipherdag.algorithms.algorithm import Facts
    from cipherdag.algorithms.evidence.kind import EvidenceSettings
    from cipherdag.algorithms.evidence.site_differences import Given, SiteDifference
    from cipherdag.algorithms.evidence.source import EvidenceSource, PValues, Tests
    from cipherdag.algorithms.fedfci.groups import Search
    from cipherdag.algorithms.fedfci.outcome import FedFCIOutcome
    from cipherdag.algorithms.fedpc.pcstable import StableSkeleton
    from cipherdag.graphs.edge_evidence import Effect
    from cipherdag.graphs.edges import BoolMatrix
    from cipherdag.questions.encodings import BoolVector, FloatVector, IndexArray
    from cipherdag.questions.pooled_data import ColumnKinds
    from cipherdag.questions.presence import Measured
    from cipherdag.questions.question import Question

    Orienting = Callable[
        [EvidenceSource, Constraints, StableSkeleton, Measured, BoolMatrix | None],
        Generator[Question, FloatVector, FedFCIOutcome],
    ]

COMPARED = "sites compared"
DISCLOSED = (
    "With the site as a variable, of every number and every set of numbers that it is compared "
    "given: a regression over all sites, hence sums of squares and "
    "products; then how many sites have rows, how many rows all have, about the mean share of what "
    "the regression leaves up to common marks, and how widely the sites scatter about it."
)
"""What comparing sites given numbers opens."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What is found of one variable and the site.

    Attributes:
        variable: Its position.
        differs: Whether nothing that it was given makes it alike at all sites: an arrow from the
            site. None where too few sites or rows could be compared.
        p_value: The largest of all tests: of an arrow the weakest, else that of the separating one.
        given: Positions of what that test is given.
    """

    variable: int
    differs: bool | None
    p_value: float = np.nan
    given: tuple[int, ...] = ()


class WithSite:
    """A source over p numbers and the site, which is variable p.

    Args:
        source: Tests of two variables within the sites, which has asked for the columns.
        settings: How tests are done.

    Attributes:
        kinds: None: the sites were compared.
        doubted: None: sums are opened.

    Raises:
        MixedTypesError: Some columns are categories.
    """

    def __init__(self, source: EvidenceSource, settings: EvidenceSettings) -> None:
        kinds = source.kinds
        assert kinds is not None, "evidence within the sites asks for the columns"
        if kinds.categories.any():
            raise MixedTypesError(
                "context site compares numbers given numbers, and some columns are categories",
                remedy="Leave context at none; the report names the variables that are distributed "
                "differently at the sites, categories too.",
            )
        self.kinds: ColumnKinds | None = None
        self.doubted: EvidenceSource | None = None
        self._source, self._columns, self._settings = source, kinds, settings
        self._site = len(kinds.categories)
        self._known: dict[Given, SiteDifference] = {}

    def p_values(self, tests: Tests) -> PValues:
        """See `EvidenceSource.p_values`; a test of the site is asked of its variable and set."""
        of_site = [(rows[:, :2] == self._site).any(axis=1) for rows in tests]
        asked = [self._given(rows[own]) for rows, own in zip(tests, of_site, strict=True)]
        within, places = self._within(
            [rows[~own] for rows, own in zip(tests, of_site, strict=True)]
        )
        found, _ = yield from beside(
            self._source.p_values(within), self._compare([own for part in asked for own in part])
        )
        p_values = []
        for own, part, (sizes, numbers) in zip(of_site, asked, places, strict=True):
            p_value = np.empty(len(own))
            p_value[own] = [self._known[given].p_value for given in part]
            p_value[~own] = [found[size][k] for size, k in zip(sizes, numbers, strict=True)]
            p_values.append(p_value)
        return p_values

    def _given(self, rows: IndexArray) -> list[Given]:
        """Variable and set of tests of the site, shape (B, 2 + l)."""
        variables = np.where(rows[:, 0] == self._site, rows[:, 1], rows[:, 0])
        given = map(tuple, np.sort(rows[:, 2:], axis=1).tolist())
        return list(zip(variables.tolist(), given, strict=True))

    def _within(self, tests: Tests) -> tuple[list[IndexArray], list[tuple[list[int], list[int]]]]:
        """Tests within the sites, which are given the site anyway, and where each test stands."""
        parts: list[list[list[int]]] = [[] for _ in tests]
        places = []
        for rows in tests:
            sizes, numbers = [], []
            for row in rows.tolist():
                less = [v for v in row if v != self._site]
                sizes.append(len(less) - 2)
                numbers.append(len(parts[len(less) - 2]))
                parts[len(less) - 2].append(less)
            places.append((sizes, numbers))
        within = [
            np.array(own, dtype=np.int64).reshape(-1, 2 + size) for size, own in enumerate(parts)
        ]
        return within, places

    def _compare(self, sets: Sequence[Given]) -> Generator[Question, FloatVector, None]:
        """Compare the sites in what was not asked before; all variables given nothing at once."""
        new = sorted({*sets} - {*self._known}, key=lambda own: (len(own[1]), own))
        if any(not given for _, given in new):
            marginal = yield from marginal_differences(self._columns, self._settings)
            self._known |= {(own.variable, ()): own for own in marginal}
        more = [own for own in new if own[1]]
        found = yield from differences_given_numbers(self._columns, self._settings, more)
        self._known |= {(own.variable, own.given): own for own in found}

    def strengths(self, pairs: IndexArray) -> FloatVector:
        """See `RememberedTests.strengths`; 0 of the site."""
        own = (pairs != self._site).all(axis=1)
        found = np.zeros(len(pairs))
        found[own] = self._source.strengths(pairs[own])
        return found

    def left_undone(self, triplets: IndexArray) -> BoolVector:
        """See `RememberedTests.left_undone`; no test of or given the site is."""
        own: BoolVector = (triplets != self._site).all(axis=1)
        own[own] = self._source.left_undone(triplets[own])
        return own

    def effect(self, test: Sequence[int]) -> Effect | None:
        """See `RememberedTests.effect`; None of the site."""
        if self._site in test[:2]:
            return None
        return self._source.effect([v for v in test if v != self._site])

    @property
    def tally(self) -> Mapping[str, int]:
        """How many distinct tests were done in which way."""
        return {**self._source.tally, COMPARED: len(self._known)}

    @property
    def marginal(self) -> tuple[SiteDifference, ...]:
        """Every variable given nothing."""
        return tuple(own for (_, given), own in sorted(self._known.items()) if not given)


def of_site(
    tests: WithSite, known: Constraints, facts: Facts, search: Search, orient: Orienting
) -> Generator[Question, FloatVector, FedFCIOutcome]:
    """FCI with the site as a variable more, of which the outcome tells by itself.

    Args:
        tests: Of the variables and the site.
        known: What is known of p variables.
        facts: Of the run.
        search: The search for a skeleton, over a source and what is known of its variables.
        orient: The marks, from these, the skeleton, what sites measured, and edges in doubt.

    Returns:
        Rounds: those of ``search`` and ``orient``.
    """
    found = yield from search(tests, beside_site(known))
    facts.present.skeleton = found.skeleton[:-1, :-1].copy()
    pointed = beside_site(known, found.skeleton)
    outcome = yield from orient(tests, pointed, found, facts.measured, not_compared(found))
    return without_site(outcome, known, tests)


def beside_site(known: Constraints, skeleton: BoolMatrix | None = None) -> Constraints:
    """What is known of p variables and the site, which none of them causes.

    Args:
        known: Of the variables.
        skeleton: Where it was found, shape (p + 1, p + 1): the site causes what it is joined to.
    """
    wider = [np.pad(own, ((0, 1), (0, 1))) for own in (known.forbidden, known.required)]
    wider[0][:-1, -1] = True
    if skeleton is not None:
        wider[1][-1] = skeleton[-1]
    return Constraints(*wider)


def not_compared(found: StableSkeleton) -> BoolMatrix | None:
    """Edges of the site that stand since nothing could be compared; None where there are none."""
    site = len(found.skeleton) - 1
    tested = {x for (x, z), *_ in found.weakest.of(found.skeleton) if z == site}
    doubtful = np.zeros_like(found.skeleton)
    untested = [v for v in np.flatnonzero(found.skeleton[-1]).tolist() if v not in tested]
    doubtful[-1, untested] = doubtful[untested, -1] = True
    return doubtful if untested else None


def without_site(outcome: FedFCIOutcome, known: Constraints, source: WithSite) -> FedFCIOutcome:
    """What is concluded of the variables, and of each what it has to do with the site."""
    site = len(known.required)
    sepsets = {(x, z): own for (x, z), own in outcome.sepsets.items() if z != site}
    weakest = {(x, z): own for (x, z), own in outcome.weakest.items() if z != site}
    return replace(
        outcome,
        marks=outcome.marks[:-1, :-1],
        sepsets={pair: (given - {site}, p_value) for pair, (given, p_value) in sepsets.items()},
        colliders=tuple(own for own in outcome.colliders if site not in own),
        ambiguous=tuple(own for own in outcome.ambiguous if site not in own),
        weakest={
            pair: replace(own, given=tuple(v for v in own.given if v != site))
            for pair, own in weakest.items()
        },
        tests=dict(source.tally),
        differences=source.marginal,
        known=known,
        mechanisms=tuple(_mechanism(v, site, outcome) for v in range(site)),
    )


def _mechanism(v: int, site: int, outcome: FedFCIOutcome) -> Mechanism:
    if (v, site) in outcome.sepsets:
        given, p_value = outcome.sepsets[v, site]
        return Mechanism(v, differs=False, p_value=p_value, given=tuple(sorted(given)))
    own = outcome.weakest.get((v, site))
    return Mechanism(v, None) if own is None else Mechanism(v, True, own.p_value, own.given)


def mechanism_details(found: Sequence[Mechanism], names: Sequence[str]) -> list[dict[str, Any]]:
    """What `findings.mechanisms` reads, in the form that JSON has."""
    return [
        {
            "variable": names[own.variable],
            "differs": own.differs,
            "p_value": None if own.differs is None else own.p_value,
            "given": [names[v] for v in own.given],
        }
        for own in found
    ]
