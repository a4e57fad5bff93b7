"""The Cochran-Mantel-Haenszel test by site and configuration of S, for any table: its rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.evidence.combined import CombinedTests
from cipherdag.algorithms.evidence.source import (
    CONSTANT,
    NOT_DONE,
    PValues,
    RememberedTests,
    Tests,
    by_slices,
)
from cipherdag.algorithms.evidence.stratified_forms import faint_p, omnibus_p, stratified_forms
from cipherdag.questions.coverage import Contributors, opened_where
from cipherdag.questions.encodings import by_block, pack_blocks
from cipherdag.questions.lockstep import lockstep
from cipherdag.questions.stratified import StratifiedTables, cell_sides, whole_values
from cipherdag.statistics.effects import one_step
from cipherdag.statistics.normal_scores import normal_scores

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

    from cipherdag.algorithms.evidence.kind import EvidenceSettings
    from cipherdag.algorithms.evidence.stratified_forms import StratifiedForms
    from cipherdag.graphs.edge_evidence import Effect
    from cipherdag.questions.combined_evidence import Combination
    from cipherdag.questions.pooled_data import ColumnKinds
    from cipherdag.questions.question import FloatVector, IndexArray, Question

FALLBACK: Combination = "statistic"
DONE = "stratified"
TOO_LARGE = "too large: statistic"
TOO_LARGE_NOT_DONE = "too large: none"
TOO_FEW = "too few rows: none"


class StratifiedTests(RememberedTests):
    """Site-stratified tests of categories.

    A test whose table is larger than ``max_cells`` falls back to ``statistic``, or is not done
    where some columns are numbers, beside which sites have no such test. One of which too few sites
    have anything to say is not done, and counts as dependent; given nothing, where both x and y
    vary at fewer than ``fewest`` sites, they count as independent. All are tallied.

    Leaks:
        Of every test at how many sites x and y both vary within a configuration of S; where these
        are at least ``fewest``, what `StratifiedTables` says.

    Args:
        kinds: The columns.
        settings: How tests are done.
    """

    def __init__(self, kinds: ColumnKinds, settings: EvidenceSettings) -> None:
        super().__init__(kinds, settings)
        self._kinds = kinds
        self._settings = settings
        self._too_large = TOO_LARGE if kinds.categories.all() else TOO_LARGE_NOT_DONE
        self._fallback = CombinedTests(FALLBACK, settings)

    def _ask(self, tests: Tests) -> PValues:
        """Two rounds, the first to count who contributes, and two more per `ROUND_VALUES`."""
        ways = [self._ways(rows) for rows in tests]
        wanted, large = (
            [rows[own == way] for rows, own in zip(tests, ways, strict=True)]
            for way in (DONE, TOO_LARGE)
        )
        found, others = yield from lockstep(
            [self._stratified(wanted), self.ask_instead(large, TOO_LARGE)]
        )
        for own in ways:
            self.tally.update(own[own != DONE].tolist())
        if not np.isnan(self._constant):
            self.leave_constant(tests[0][ways[0] == CONSTANT], CONSTANT)
        p_values = []
        for own, p_value, other in zip(ways, found, others, strict=True):
            all_ways = np.where(own == CONSTANT, self._constant, np.nan)
            all_ways[own == DONE], all_ways[own == TOO_LARGE] = p_value, other
            p_values.append(all_ways)
        return p_values

    def effect(self, test: Sequence[int]) -> Effect | None:
        """The one-step odds ratio of two variables of two categories, or its sign alone."""
        known = self.estimate(test)
        return None if known is None else one_step(*known)

    def _ways(self, rows: IndexArray) -> NDArray[np.str_]:
        """How each test is done, shape (B,)."""
        # floating point: the product of many categories may exceed every integer type
        sides = self._kinds.categories[rows].astype(np.float64)
        cells, constant = sides.prod(axis=1), (sides[:, :2] < 2.0).any(axis=1)  # noqa: PLR2004
        scarce = self._kinds.rows < self._settings.spec.min_rows_per_cell * cells
        large = cells > self._settings.max_cells
        return np.select([constant, scarce, large], [CONSTANT, TOO_FEW, self._too_large], DONE)

    def _values(self, rows: IndexArray) -> FloatVector:
        """How many values each test asks for, shape (B,)."""
        sides = self._kinds.categories[rows]
        values = whole_values(np.column_stack([sides[:, :1], sides[:, :2]]))
        return values.astype(np.float64)

    def _turned(self, rows: IndexArray) -> IndexArray:
        """The tests with the one of more categories first, so that fewer shapes of table occur."""
        sides = self._kinds.categories[rows[:, :2]]
        turn = sides[:, 0] < sides[:, 1]
        turned: IndexArray = np.where(
            turn[:, None], rows[:, [1, 0, *range(2, rows.shape[1])]], rows
        )
        return turned

    def _stratified(self, tests: Tests) -> PValues:
        """p-values of tests that can be asked."""
        tests = [self._turned(rows) for rows in tests]
        return (yield from by_slices(tests, [self._values(r) for r in tests], self._piece))

    def _tables(self, tests: list[IndexArray]) -> StratifiedTables:
        counts, members = pack_blocks(tests)
        return StratifiedTables(
            categories=tuple(self._kinds.categories.tolist()),
            counts=counts,
            members=members,
            max_rows=self._settings.max_rows,
        )

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        """p-values of the tests of one or two rounds."""
        question = self._tables(tests)
        fewest = self._settings.fewest
        if fewest <= 1:
            sums = yield question
            able = question.informative(sums).astype(np.float64)
        else:
            able = np.rint((yield Contributors(question=question)))
            sums = yield from opened_where(question, able >= fewest)
        told = able[: question.n_tests]
        forms = stratified_forms(question, sums, told)
        p_value = _p_values(question, forms, np.where(told >= fewest, told, 0.0))
        pairs = len(tests[0])
        scores = normal_scores(forms.whole, forms.whole_dof)
        self.keep_strengths(np.sort(tests[0], axis=1), scores[:pairs])
        log_odds = np.where(np.isnan(p_value)[:, None], np.nan, forms.log_odds)
        self.keep_estimates(tests, log_odds, p_value)
        return self._settled(tests, p_value, told)

    def _settled(
        self, tests: list[IndexArray], p_value: FloatVector, told: FloatVector
    ) -> FloatVector:
        """p-values, those of pairs that do not vary too, after tests are tallied.

        Args:
            tests: By size of S.
            p_value: NaN where a test was not done, shape (B,).
            told: Sites at which rows say something of a test, shape (B,).
        """
        undone = np.isnan(p_value) & (told > 0)
        for rows, own in zip(tests, by_block(tests, undone), strict=True):
            self.leave_undone(rows[own])
        marginal = np.arange(len(p_value)) < len(tests[0])
        constant = marginal & (told < max(self._settings.fewest, 1))
        p_value = self.settle_constant(tests[0], p_value, constant, CONSTANT)
        not_done = np.isnan(p_value) & ~constant
        self.tally[DONE] += int((~not_done & ~constant).sum())
        for way, where in ((CONSTANT, constant), (NOT_DONE, not_done)):
            if where.any():
                self.tally[way] += int(where.sum())
        return p_value


def _p_values(
    question: StratifiedTables, forms: StratifiedForms, heard: FloatVector
) -> FloatVector:
    """Those of all tests, shape (B,); NaN where nothing was opened.

    Args:
        question: The tests.
        forms: Their statistics.
        heard: How many sites every sum is over, 0 where it was not opened.
    """
    cells = cell_sides(question.sides[:, 1:]).prod(axis=1)
    p_value = omnibus_p(forms)
    faint = np.isnan(p_value) & (heard > 0)
    return np.where(faint, faint_p(forms.largest, cells, heard), p_value)
