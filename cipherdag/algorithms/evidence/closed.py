"""Tests over all sites whose sums stay closed: of every test its verdict, and nothing else.

A test that says independent may be asked again at a second level, `DOUBTED`: a p-value just above
alpha and one near 1 are told apart where `constraint_based.colliders` weighs p-values.

fisher       sum of -2 ln p below the chi-square's critical value for so many sites (Fisher, 1932)
weighted_p   sum of n (p - alpha) above 0 (FedCMFS, Eq. 1)

Leaks:
    Of every test whether it says independent, and with ``fisher`` whether any site can do it; see
    `EvidenceVerdicts`. Of those asked again, the same at the second level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from cipherdag.algorithms.evidence.source import PValues, RememberedTests, Tests, by_slices
from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.questions.combined_evidence import Combination, CombinedEvidence
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.question import Question
from cipherdag.questions.verdicts import VERDICT_VALUES, EvidenceVerdicts, finest_grid_that_fits

if TYPE_CHECKING:
    from cipherdag.algorithms.evidence.kind import EvidenceSettings, Opening
    from cipherdag.algorithms.evidence.source import EvidenceSource

Compared = Literal["fisher", "weighted_p"]

DOUBTED = 0.3
"""p-value up to which independence is doubted, where p-values are weighed by bits."""

LOG_BITS = 12
"""Of the grid of -2 ln p at most: a finer one turns no verdict, and makes keys longer."""

FLOOR = 0.01
"""Share of alpha below which p-values are all alike, where they are weighed."""

TOO_MANY_SITES = "reveal bits with evidence fisher is for fewer sites"


class ClosedTests(RememberedTests):
    """Verdicts of tests in the place of p-values: 1 for independent, 0 for dependent.

    NaN for tests that no site can do: with ``fisher``, and where constants are untestable with
    ``weighted_p`` of tests given nothing, which are asked both ways.

    Leaks:
        See the module.

    Args:
        combination: What the sites add up.
        settings: How tests are done.

    Raises:
        ParameterError: There are too many sites, or rows at a site, to compare their sums.
    """

    def __init__(self, combination: Compared, settings: EvidenceSettings) -> None:
        super().__init__(settings=settings)
        self._combination = combination
        self._about = summed_by(combination, settings)
        n_sites, alpha = settings.present.n_sites, settings.spec.alpha
        self._critical: tuple[int, ...] = ()
        self._both = combination == "weighted_p" and settings.spec.constant == "untestable"
        if combination == "fisher":
            self._critical, self._grid_bits = fisher_criticals(alpha, n_sites)
            self._largest = self._critical[-1] + 1
        else:
            self._largest, self._grid_bits = largest_excess(settings.max_rows, n_sites)

    def _ask(self, tests: Tests) -> PValues:
        """A round, or more where the keys of all comparisons are longer than `ROUND_VALUES`."""
        self.tally[self._combination] += sum(len(rows) for rows in tests)
        each = len(self._critical) + 1 if self._critical else 1 + self._both
        values = float(each * VERDICT_VALUES)
        return (yield from by_slices(tests, [np.full(len(r), values) for r in tests], self._piece))

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        asked = EvidenceVerdicts(
            self._about(tests), self._grid_bits, self._largest, self._critical, self._both
        )
        count, marginal = sum(len(rows) for rows in tests), len(tests[0])
        first, beside = np.split((yield asked), [count])
        independent = 1.0 - first if asked.says_dependent else first
        if self._combination == "fisher":
            p_value = np.where(beside > 0, independent, np.nan)
            # as in sums: of a pair that no site can test x or y does not vary
            constant = np.isnan(p_value) & (np.arange(count) < marginal)
            return self.resolve_constant_pairs(tests[0], p_value, constant, self._combination)
        if self._both:
            neither = (independent[:marginal] == 0) & (beside == 0)
            given_nothing = np.where(neither, np.nan, independent[:marginal])
            return np.concatenate([given_nothing, independent[marginal:]])
        return independent


def summed_by(
    combination: Combination, settings: EvidenceSettings
) -> Callable[[list[IndexArray]], CombinedEvidence]:
    """Makes the question of tests by size of S, whatever of its answer is opened."""
    template = CombinedEvidence.over_sites(
        settings.spec, combination, settings.n_variables, settings.max_rows
    )

    def about(tests: list[IndexArray]) -> CombinedEvidence:
        counts, members = pack_blocks(tests)
        return msgspec.structs.replace(template, counts=counts, members=members)

    return about


def closed(combination: Compared) -> Opening:
    """Makes the source of a kind of evidence; it asks nothing before its tests."""

    def opened(settings: EvidenceSettings) -> Generator[Question, FloatVector, ClosedTests]:
        yield from ()
        source = ClosedTests(combination, settings)
        source.doubted = ClosedTests(combination, doubting(settings))
        return source

    return opened


def doubting(settings: EvidenceSettings) -> EvidenceSettings:
    """The same tests at the second level."""
    level = max(DOUBTED, settings.spec.alpha)
    return replace(settings, spec=msgspec.structs.replace(settings.spec, alpha=level))


def graded(source: EvidenceSource, tests: Tests, alpha: float) -> PValues:
    """P-values of tests, or where verdicts alone are found the middle of those that they leave.

    Middles are of logarithms, and none is below that of `FLOOR` and all of alpha.

    Args:
        source: Answers the tests.
        tests: By size of S.
        alpha: The level of the source.

    Returns:
        Rounds: of the tests, and of those that say independent at the second level.
    """
    found = yield from source.p_values(tests)
    if source.doubted is None:
        return found
    level = max(DOUBTED, alpha)
    strong = [own[own > 0] for own in found]
    if level > alpha:
        again = [rows[own > 0] for rows, own in zip(tests, found, strict=True)]
        strong = yield from source.doubted.p_values(again)
    grades = []
    for own, clear in zip(found, strong, strict=True):
        grade = np.where(np.isnan(own), np.nan, alpha * math.sqrt(FLOOR))
        grade[own > 0] = np.where(clear > 0, math.sqrt(level), math.sqrt(alpha * level))
        grades.append(grade)
    return grades


def fisher_criticals(alpha: float, n_sites: int) -> tuple[tuple[int, ...], int]:
    """The largest sums of -2 ln p that say independent, of 1, 2, ... sites, and their grid.

    Args:
        alpha: Independent iff the p-value of the sum is above it.
        n_sites: How many sites there are.

    Raises:
        ParameterError: There are too many sites.
    """
    from scipy.special import chdtri

    values = [float(chdtri(2.0 * sites, alpha)) for sites in range(1, n_sites + 1)]

    def on_grid(bits: int) -> tuple[int, ...]:
        return tuple(math.ceil(math.ldexp(own, bits)) - 1 for own in values)

    # what one site adds is cut just above the largest value: more of it changes no verdict
    _, bits = finest_grid_that_fits(
        lambda bits: on_grid(bits)[-1] + 1, n_sites, TOO_MANY_SITES, most=LOG_BITS
    )
    return on_grid(bits), bits


def largest_excess(max_rows: int, n_sites: int) -> tuple[int, int]:
    """The largest n (p - alpha) of a site on the finest_grid_that_fits grid, and the grid.

    Args:
        max_rows: Declared bound of a site's rows.
        n_sites: How many sites there are.

    Raises:
        ParameterError: There are too many sites, or rows at one.
    """
    otherwise = "reveal bits with evidence weighted_p needs a smaller max_rows"
    return finest_grid_that_fits(lambda bits: max_rows << bits, n_sites, otherwise)
