"""Sums over the sites test which variables are distributed differently at the sites.

Evidence that adds up rows of all sites mistakes such differences for dependence. So in the rounds
of the first tests every variable's shares are compared, and those that differ are compared again
given their neighbours.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cipherdag.algorithms.evidence.pooled_moments import common_scales
from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.questions.encodings import pack_blocks, require_possible, segments
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.question import Question
from cipherdag.questions.site_differences import ANGLE_NOISE_SE, MARKS, SiteDifferences, shares_of
from cipherdag.questions.threshold import sum_with_threshold
from cipherdag.statistics.p_values import corrected

Comparing = Generator[Question, FloatVector, tuple["SiteDifference", ...]]

LEVEL = 0.01  # family-wise error rate of naming a variable where none differs (Holm, 1979)
MOST_SHARES = 4096  # shares of a variable in all strata together beyond which it is not compared
LEAST_ROWS = 5.0
"""Rows inside a share or outside it, whichever are fewer, below which it is not tested."""
SPREAD = 1.01 + ANGLE_NOISE_SE**2 / 3.0
"""Bound of the variance of asin sqrt(share), in squared standard errors; the rest is noise."""


@dataclass(frozen=True, slots=True)
class SiteDifference:
    """A `SiteDifference` is the test of whether one variable differs between the sites."""

    variable: int  # its position
    given: tuple[int, ...]  # positions of its neighbours, where it is compared given these
    p_value: float  # of equal shares at all sites (Bonferroni); NaN where it was not compared
    coded: bool = False  # whether some site repeats one value that is far from all others


def differing(tests: Sequence[SiteDifference], among: int = 0) -> tuple[SiteDifference, ...]:
    """Return the significant differences at the family-wise error rate `LEVEL` (Holm, 1979).

    Where the tests of a family were selected ``among`` more variables, the others count as not
    differing, so the level holds even if the same rows decided the selection.
    """
    p_values = np.array([test.p_value for test in tests], dtype=np.float64)
    adjusted = corrected(p_values, "holm", among)
    named = [test for test, p_value in zip(tests, adjusted, strict=True) if p_value <= LEVEL]
    return tuple(sorted(named, key=lambda test: test.p_value))


def details_of(tests: Sequence[SiteDifference], names: Sequence[str]) -> list[dict[str, Any]]:
    """List the tests of each family by name, as `findings.doubts` reads them."""
    marginal = [test for test in tests if not test.given]
    given = [test for test in tests if test.given]
    families = ((marginal, differing(marginal)), (given, differing(given, len(marginal))))
    return [
        {
            "variable": names[test.variable],
            "given": [names[v] for v in test.given],
            "p_value": None if np.isnan(test.p_value) else test.p_value,
            "differs": test in named,
            "coded": test.coded,
        }
        for family, named in families
        for test in family
    ]


def marginal_differences(
    kinds: ColumnKinds | None, *, min_contributors: int, max_rows: int
) -> Comparing:
    """Test every variable marginally in two rounds, of which the first counts contributing sites.

    Without columns there is no test, and no round.
    """
    if kinds is None:
        return ()
    sets: list[tuple[int, tuple[int, ...]]] = [(v, ()) for v in range(len(kinds.categories))]
    return (yield from _compared(kinds, sets, min_contributors, max_rows))


def differences_given_neighbours(
    kinds: ColumnKinds | None,
    marginal: Sequence[SiteDifference],
    skeleton: BoolMatrix,
    *,
    min_contributors: int,
    max_rows: int,
) -> Comparing:
    """Test the variables that differ given their neighbours, in two rounds or none.

    Continuous neighbours have no configurations: a variable that has one is not tested, nor is one
    of more than `MOST_SHARES` shares.
    """
    if kinds is None:
        return ()
    named = [test.variable for test in differing(marginal)]
    sets = [(v, tuple(np.flatnonzero(skeleton[v]).tolist())) for v in named]
    sets = [(v, given) for v, given in sets if given and kinds.categories[list(given)].all()]
    return (yield from _compared(kinds, sets, min_contributors, max_rows))


def _compared(
    kinds: ColumnKinds,
    sets: Sequence[tuple[int, tuple[int, ...]]],
    min_contributors: int,
    max_rows: int,
) -> Comparing:
    """Test variables, each given others; those that cannot be compared have p-value NaN."""
    shares = shares_of(kinds.categories)
    # floating point: the product of many categories may exceed every integer type
    size = np.array([shares[v] * kinds.categories[list(g)].prod(dtype=float) for v, g in sets])
    varies = np.array([kinds.categories[v] != 1 for v, _ in sets], dtype=bool)
    asked = [key for key, ok in zip(sets, varies & (size <= MOST_SHARES), strict=True) if ok]
    tests = {key: SiteDifference(*key, np.nan) for key in sets}
    if asked:
        question = _question(kinds, asked, max_rows)
        sums = yield from sum_with_threshold(question, min_contributors)
        coded = segments(question.encodings, sums)[2] > 0.0
        first = np.cumsum(question.sides()[:, 0]) - question.sides()[:, 0]
        in_order = sorted(asked, key=lambda key: len(key[1]))
        columns = (in_order, p_values_of(question, sums).tolist(), coded[first].tolist())
        tests |= {key: SiteDifference(*key, p, c) for key, p, c in zip(*columns, strict=True)}
    return tuple(tests.values())


def _question(
    kinds: ColumnKinds, sets: Sequence[tuple[int, tuple[int, ...]]], max_rows: int
) -> SiteDifferences:
    largest = max(len(given) for _, given in sets)
    blocks = [
        np.array([(v, *given) for v, given in sets if len(given) == size], dtype=np.int64).reshape(
            -1, 1 + size
        )
        for size in range(largest + 1)
    ]
    counts, members = pack_blocks(blocks)
    origins, units = common_scales(kinds)
    return SiteDifferences(
        categories=tuple(kinds.categories.tolist()),
        origins=origins,
        units=units,
        counts=counts,
        members=members,
        max_rows=max_rows,
    )


def p_values_of(question: SiteDifferences, sums: FloatVector) -> FloatVector:
    """Compute p-values of equal shares at all sites, shape (B,); NaN where no share was compared.

    Sums over the sites are zero in suppressed strata. AggregateRangeError where the scatter of a
    share's angles is negative.
    """
    from cipherdag.statistics.contingency import chi_square_tail

    statistic, dof, rare = _scatter(question, sums)
    tested = (dof > 0) & (rare >= LEAST_ROWS)
    sides = question.sides()
    share, owner = _share_indices(sides)
    shape = (len(sides), max(int(sides[:, 1].max(initial=0)), len(MARKS)))
    totals = np.zeros((2, *shape))
    np.add.at(totals[0], (owner, share), np.where(tested, statistic, 0.0))
    np.add.at(totals[1], (owner, share), np.where(tested, dof, 0.0))
    tails = np.where(totals[1] > 0, chi_square_tail(*totals), np.inf)
    compared = (totals[1] > 0).sum(axis=1)
    least = np.minimum(tails.min(axis=1, initial=np.inf) * np.maximum(compared, 1), 1.0)
    return np.where(compared > 0, least, np.nan)


def _share_indices(sides: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Return for every share of every stratum its index in its set, and the index of the set."""
    owner = np.repeat(np.arange(len(sides)), sides[:, 0] * sides[:, 1])
    widths = np.repeat(sides[:, 1], sides[:, 0])
    starts = np.cumsum(widths) - widths
    return np.arange(int(widths.sum())) - np.repeat(starts, widths), owner


def _scatter(
    question: SiteDifferences, sums: FloatVector
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Compute every share's chi-square, its degrees of freedom, and rows on its rarer side."""
    first, second, _, sites, weight = segments(question.encodings, sums)
    widths = question.widths()
    weight, sites = np.repeat(weight, widths), np.repeat(sites, widths)
    safe = np.maximum(weight, 1.0)
    statistic = second - first**2 / safe
    require_possible(
        question.label, "less scatter than none", holds=statistic.min(initial=0.0) >= -1.0
    )
    share = np.sin(np.clip(first / safe, 0.0, np.pi / 2.0)) ** 2
    rows = (weight - 2.0 * sites) / 4.0
    rare = rows * np.minimum(share, 1.0 - share)
    return np.maximum(statistic, 0.0) / SPREAD, np.maximum(np.rint(sites) - 1.0, 0.0), rare
