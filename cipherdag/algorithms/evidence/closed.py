"""Tests over all sites whose sums stay closed: of every test its verdict, and nothing else.

A test that says independent may be asked again at a second level, `DOUBTED`: a p-value just above
alpha and one near 1 are told apart where `cipherdag.algorithms.fedpc.colliders` weighs p-values.

fisher       sum of -2 ln p below the chi-square's critical value for so many sites (Fisher, 1932)
weighted_p   sum of n (p - alpha) above 0 (FedCMFS, Eq. 1)

Leaks:
    Of every test whether it says independent, and with ``fisher`` whether there are rows enough for
    it; see `EvidenceVerdicts`. Of those asked again, the same at the second level.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from cipherdag.algorithms.evidence.source import PValues, RememberedTests, Tests, by_slices
from cipherdag.algorithms.parameters import require
from cipherdag.errors import ParameterError
from cipherdag.questions.closed.by_count import LARGEST_SUM, SUM_BITS, ByCount
from cipherdag.questions.combined_evidence import Combination, CombinedEvidence
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.question import Bundle
from cipherdag.questions.verdicts import RELIABLE, VERDICT_VALUES, EvidenceVerdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from cipherdag.algorithms.evidence.kind import EvidenceSettings, Opening
    from cipherdag.algorithms.evidence.source import EvidenceSource
    from cipherdag.questions.question import FloatVector, IndexArray, Question

Compared = Literal["fisher", "weighted_p"]

DOUBTED = 0.3
"""p-value up to which independence is doubted, where p-values are weighed by verdicts."""

FLOOR = 0.01
"""Share of alpha below which p-values are all alike, where they are weighed."""

TOO_MANY_SITES = "reveal verdicts with evidence fisher is for fewer sites"

_VERDICTS = {"fisher": 2, "weighted_p": 1}


class ClosedTests(RememberedTests):
    """Verdicts of tests in the place of p-values: 1 for independent, 0 for dependent.

    Where constants are untestable, ``weighted_p`` is asked of tests given nothing both ways: NaN
    for those that say neither, since too few sites can do them.

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
        n_sites, fewest, alpha = settings.present.n_sites, settings.fewest, settings.spec.alpha
        self._dependent: ByCount | None = None
        if combination == "fisher":
            self._amounts, self._grid_bits = fisher_amounts(alpha, n_sites, fewest)
            return
        self._amounts, self._grid_bits = excess_amounts(settings.max_rows, n_sites, fewest)
        if settings.spec.constant == "untestable":
            half = self._amounts.largest // 2
            self._dependent = signed_amounts(half, n_sites, fewest, above=False)

    def _ask(self, tests: Tests) -> PValues:
        """A round, or more where the keys of all verdicts are longer than `ROUND_VALUES`."""
        self.tally[self._combination] += sum(len(rows) for rows in tests)
        values = float(_VERDICTS[self._combination] * VERDICT_VALUES)
        return (yield from by_slices(tests, [np.full(len(r), values) for r in tests], self._piece))

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        asked = EvidenceVerdicts(self._about(tests), self._amounts, self._grid_bits)
        marginal = len(tests[0])
        if self._combination == "fisher":
            independent, reliable = np.split((yield asked), 2)
            p_value = np.where(reliable > 0, independent, np.nan)
            # as in sums: of a pair that too few sites can test x or y does not vary at the others
            constant = np.isnan(p_value) & (np.arange(len(p_value)) < marginal)
            return self.settle_constant(tests[0], p_value, constant, self._combination)
        if self._dependent is None or not marginal:
            return (yield asked)
        about = self._about([tests[0]])
        other = EvidenceVerdicts(about, self._dependent, self._grid_bits)
        independent, dependent = np.split((yield Bundle((asked, other))), [-marginal])
        neither = (independent[:marginal] == 0) & (dependent == 0)
        given_nothing = np.where(neither, np.nan, independent[:marginal])
        return np.concatenate([given_nothing, independent[marginal:]])


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


def fisher_amounts(alpha: float, n_sites: int, fewest: int) -> tuple[ByCount, int]:
    """The sums of -2 ln p that say independent, by number of sites, and their grid.

    What one site adds is cut at the largest critical value: more of it changes no verdict.

    Args:
        alpha: Independent iff the p-value of the sum is above it.
        n_sites: How many sites there are.
        fewest: How many contribute at least where a verdict is true.

    Raises:
        ParameterError: There are too many sites.
    """
    from scipy.special import chdtri

    critical = [float(chdtri(2.0 * sites, alpha)) for sites in range(1, n_sites + 1)]

    def amounts(bits: int) -> ByCount:
        steps = [math.ceil(math.ldexp(own, bits)) - 1 for own in critical]
        high = [-1, *(own if k >= fewest else -1 for k, own in enumerate(steps, start=1))]
        return ByCount(low=(0,) * (n_sites + 1), high=tuple(high), largest=steps[-1] + 1)

    # whether rows are enough is compared too, on the same grid for any number of sites
    require(n_sites * (n_sites + 1) * RELIABLE + n_sites <= LARGEST_SUM, TOO_MANY_SITES)
    return finest(amounts, TOO_MANY_SITES)


def excess_amounts(max_rows: int, n_sites: int, fewest: int) -> tuple[ByCount, int]:
    """The sums of n (p - alpha), moved up by each site's largest, that say independent.

    Args:
        max_rows: Declared bound of a site's rows.
        n_sites: How many sites there are.
        fewest: How many contribute at least where a verdict is true.

    Raises:
        ParameterError: There are too many sites, or rows at one.
    """
    return finest(
        lambda bits: signed_amounts(max_rows << bits, n_sites, fewest),
        "reveal verdicts with evidence weighted_p needs a smaller max_rows",
    )


def signed_amounts(half: int, n_sites: int, fewest: int, *, above: bool = True) -> ByCount:
    """The sums above 0, or below it, of amounts to which ``half``, their largest, is added.

    Raises:
        ValueError: They are too large to compare.
    """
    sites = range(n_sites + 1)
    ends = [(k * half + 1, 2 * k * half) if above else (0, k * half - 1) for k in sites]
    return ByCount(
        low=tuple(low for low, _ in ends),
        high=tuple(high if k >= fewest else -1 for k, (_, high) in enumerate(ends)),
        largest=2 * half,
    )


def finest(
    amounts: Callable[[int], ByCount], otherwise: str, *, most: int = SUM_BITS - 1
) -> tuple[ByCount, int]:
    """The amounts on the finest grid, of ``2**-most`` at most, whose sums are small enough.

    Raises:
        ParameterError: No grid is coarse enough; says ``otherwise``.
    """
    for bits in range(most, -1, -1):
        try:
            return amounts(bits), bits
        except ValueError:
            continue
    raise ParameterError(otherwise)
