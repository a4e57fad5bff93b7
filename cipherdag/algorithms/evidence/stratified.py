"""Tests within the sites, added up: differences between sites are no evidence.

The columns of a test decide: categories by Cochran, Mantel and Haenszel (`StratifiedTests`),
numbers by partial correlations of every site's own, weighted by their precision, mixtures by
scores of every site's own regressions (`ScoreTests`).

Leaks:
    What `Columns` says, once; per test what its way says: see `StratifiedTests`, `CombinedEvidence`
    (``stouffer``) and `WithinScores`; by verdicts `ClosedTables` and `ClosedScores`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cipherdag.algorithms.evidence.closed import doubting, summed_by
from cipherdag.algorithms.evidence.closed_cells import Opened
from cipherdag.algorithms.evidence.closed_scores import ClosedScores
from cipherdag.algorithms.evidence.closed_tables import ClosedTables
from cipherdag.algorithms.evidence.combined import CombinedTests
from cipherdag.algorithms.evidence.kind import EvidenceKind, EvidenceSettings
from cipherdag.algorithms.evidence.score_tests import SCORES, ScoreTests, scores_of
from cipherdag.algorithms.evidence.stratified_tables import StratifiedTests
from cipherdag.errors import MixedTypesError
from cipherdag.questions.lockstep import lockstep
from cipherdag.questions.pooled_data import Columns

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from cipherdag.algorithms.evidence.source import EvidenceSource, PValues, Tests
    from cipherdag.graphs.edge_evidence import Effect
    from cipherdag.questions.encodings import BoolVector
    from cipherdag.questions.pooled_data import ColumnKinds
    from cipherdag.questions.question import FloatVector, IndexArray, Question

NUMBERS = "numbers within sites"


class WithinSites:
    """Tests by the kinds of their columns.

    Leaks:
        See the module.

    Attributes:
        kinds: The columns, by which sites are compared; None where that would open sums.
        doubted: See `EvidenceSource`.

    Args:
        kinds: The columns.
        settings: How tests are done.
        opened: What is opened beside verdicts, by way of testing; None where sums are.
    """

    def __init__(
        self,
        kinds: ColumnKinds,
        settings: EvidenceSettings,
        opened: tuple[Opened, Opened, Opened] | None,
    ) -> None:
        self.kinds: ColumnKinds | None = kinds if opened is None else None
        self.doubted: EvidenceSource | None = None
        self._discrete = kinds.categories > 0
        if opened and settings.measured.everywhere and not kinds.incomplete.any():
            settings = replace(settings, rows=kinds.rows)
        numbers = replace(settings, spec=msgspec.structs.replace(settings.spec, name="numbers"))
        self._sources: tuple[EvidenceSource, ...]
        if opened:
            of_numbers, of_tables, of_both = opened
            self._sources = (
                ClosedScores("stouffer", summed_by("stouffer", numbers), numbers, of_numbers),
                ClosedTables(kinds, settings, of_tables),
                ClosedScores(SCORES, scores_of(kinds, settings), settings, of_both),
            )
        else:
            self._sources = (
                CombinedTests("stouffer", numbers),
                StratifiedTests(kinds, settings),
                ScoreTests(kinds, settings),
            )

    def p_values(self, tests: Tests) -> PValues:
        """See `EvidenceSource.p_values`; every source asks in the same rounds."""
        ways = []
        for rows in tests:
            discrete = self._discrete[rows].sum(axis=1)
            ways.append(np.select([discrete == 0, discrete == rows.shape[1]], [0, 1], 2))
        asking = [
            source.p_values([rows[own == way] for rows, own in zip(tests, ways, strict=True)])
            for way, source in enumerate(self._sources)
        ]
        found = yield from lockstep(asking)
        p_values = []
        for number, (rows, own) in enumerate(zip(tests, ways, strict=True)):
            p_value = np.empty(len(rows))
            for way, of_source in enumerate(found):
                p_value[own == way] = of_source[number]
            p_values.append(p_value)
        return p_values

    def strengths(self, pairs: IndexArray) -> FloatVector:
        """See `RememberedTests.strengths`; scores of all ways of testing compare."""
        discrete = self._discrete[pairs].sum(axis=1)
        way = np.select([discrete == 0, discrete == pairs.shape[1]], [0, 1], 2)
        by_way = np.array([source.strengths(pairs) for source in self._sources])
        found: FloatVector = by_way[way, np.arange(len(pairs))]
        return found

    def left_undone(self, triplets: IndexArray) -> BoolVector:
        """See `RememberedTests.left_undone`."""
        of_any: BoolVector = np.any([own.left_undone(triplets) for own in self._sources], axis=0)
        return of_any

    def never_tested(self) -> IndexArray:
        """See `RememberedTests.never_tested`."""
        return np.concatenate([own.never_tested() for own in self._sources])

    def effect(self, test: Sequence[int]) -> Effect | None:
        """See `RememberedTests.effect`."""
        discrete = int(self._discrete[list(test)].sum())
        way = 0 if discrete == 0 else 1 if discrete == len(test) else 2
        return self._sources[way].effect(test)

    @property
    def tally(self) -> dict[str, int]:
        """How many distinct tests were done in which way."""
        numbers, *others = (source.tally for source in self._sources)
        renamed = {NUMBERS if way == "stouffer" else way: count for way, count in numbers.items()}
        found: dict[str, int] = {}
        for own in (renamed, *others):
            found |= {way: found.get(way, 0) + number for way, number in own.items() if number}
        return found or {"stratified": 0}


def within_sites(
    settings: EvidenceSettings, *, closed: bool
) -> Generator[Question, FloatVector, WithinSites]:
    """Tests within the sites, of any columns; one round.

    Raises:
        MixedTypesError: The test does not fit the columns.
        ParameterError: There are too many sites, or rows at one, to compare their sums.
    """
    question = Columns(n_variables=settings.n_variables, max_rows=settings.max_rows, order=True)
    kinds = question.read((yield question))
    if settings.spec.name == "fisherz" and kinds.categories.any():
        raise MixedTypesError(
            "the test 'fisherz' takes numbers, and some columns are discrete",
            remedy="Leave the test to evidence stratified, which takes columns of any type.",
        )
    if not closed:
        return WithinSites(kinds, settings, None)
    opened = Opened(settings), Opened(settings), Opened(settings)
    source = WithinSites(kinds, settings, opened)
    source.doubted = WithinSites(kinds, doubting(settings), opened)
    return source


STRATIFIED = EvidenceKind(
    name="stratified",
    discloses="For every test, how far the sites' tables together lie from independence and the "
    "variance of that, how many sites have rows that tell, and the sums of the scores of the "
    "sites' own tests; of numbers, the sums of the sites' weighted z and "
    "of the squared weights; of categories and numbers together, how many sites do a test, and the "
    "sums of the scores of their own regressions, of the covariances of these, and of the rows "
    "they have for it; the kinds of columns, and about where and how widely continuous ones lie.",
    open=partial(within_sites, closed=False),
    close=partial(within_sites, closed=True),
    closed="For every cell of the table of every test, at how many sites it varies, where these "
    "are enough the sum of its variances, and whether it stands out over all sites; how many sites "
    "have a test of their own, and whether the sum of the scores of these stands out; of numbers, "
    "for every test, how many sites do it, about how many rows they have for it together, and "
    "whether it says independent; of categories and numbers together, of every score of it, how "
    "many sites have it, how much it varies, and whether it stands out. No count, no difference "
    "from independence, and no p-value. Before, the kinds of columns, about where and how widely "
    "continuous ones lie, and the rows of all sites together.",
    asks_columns=True,
    overlapping=True,
    triplets=True,
    tests=("auto", "fisherz"),
)
