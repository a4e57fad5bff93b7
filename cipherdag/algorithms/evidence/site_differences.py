"""Which variables are distributed differently at the sites, by sums; they say so before edges do.

Evidence that adds up rows of all sites takes such differences for dependence. So beside the first
tests every variable's shares are compared, and those that differ once more given their neighbours.

Leaks:
    Of every stratum at how many sites it has rows; of those that at least ``fewest`` sites have,
    what `SiteDifferences` says.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cipherdag.algorithms.evidence.options import EvidenceSettings
from cipherdag.algorithms.evidence.pooled_moments import common_origins, common_units
from cipherdag.arrays import BoolMatrix, FloatVector, IndexArray
from cipherdag.questions.encodings import pack_blocks, pack_integers, require_possible, segments
from cipherdag.questions.pooled_data import ColumnKinds
from cipherdag.questions.question import Question
from cipherdag.questions.site_differences import ANGLE_NOISE_SE, MARKS, SiteDifferences, shares_of
from cipherdag.questions.threshold import (
    sum_with_threshold,
)
from cipherdag.statistics.p_values import corrected

Comparing = Generator[Question, FloatVector, tuple["SiteDifference", ...]]

LEVEL = 0.01
"""Chance that any variable is named where none differs (Holm, 1979)."""
MOST_SHARES = 4096
"""Shares of a variable in all strata together beyond which it is not compared."""
LEAST_ROWS = 5.0
"""Rows on the rarer side of a share, over all sites, below which it tells nothing."""
SPREAD = 1.01 + ANGLE_NOISE_SE**2 / 3.0
"""Variance of a blurred angle at most, in squared standard errors; that of the blur is a third."""


@dataclass(frozen=True, slots=True)
class SiteDifference:
    """What the sums say of one variable.

    Attributes:
        variable: Its position.
        given: Positions of its neighbours, where it is compared given these.
        p_value: That its shares are alike at all sites, over all that it has (Bonferroni); NaN
            where too few sites or rows could be compared.
        coded: Whether some site has one value far from all others again and again.
    """

    variable: int
    given: tuple[int, ...]
    p_value: float
    coded: bool = False


def differing(found: Sequence[SiteDifference], among: int = 0) -> tuple[SiteDifference, ...]:
    """Those of which it is beyond chance, so that any is wrong in `LEVEL` of runs (Holm, 1979).

    Args:
        found: One family of comparisons.
        among: How many they were chosen from, where that is more: the others count as alike, so
            that the choice, by p-values that depend on these, leaves the level as it is.
    """
    adjusted = corrected(np.array([own.p_value for own in found], dtype=np.float64), "holm", among)
    named = [own for own, p_value in zip(found, adjusted, strict=True) if p_value <= LEVEL]
    return tuple(sorted(named, key=lambda own: own.p_value))


def details_of(found: Sequence[SiteDifference], names: Sequence[str]) -> list[dict[str, Any]]:
    """What was found, by name, as `findings.site_differences` reads it; each family by itself."""
    marginal = [own for own in found if not own.given]
    given = [own for own in found if own.given]
    families = ((marginal, differing(marginal)), (given, differing(given, len(marginal))))
    return [
        {
            "variable": names[own.variable],
            "given": [names[v] for v in own.given],
            "p_value": None if np.isnan(own.p_value) else own.p_value,
            "differs": own in named,
            "coded": own.coded,
        }
        for family, named in families
        for own in family
    ]


def marginal_differences(kinds: ColumnKinds | None, settings: EvidenceSettings) -> Comparing:
    """Every variable, given nothing; two rounds, the first to count who contributes.

    Without ``kinds`` nothing is asked.
    """
    if kinds is None:
        return ()
    return (yield from _compared(kinds, settings, [(v, ()) for v in range(len(kinds.categories))]))


def differences_given_neighbours(
    kinds: ColumnKinds | None,
    settings: EvidenceSettings,
    marginal: Sequence[SiteDifference],
    skeleton: BoolMatrix,
) -> Comparing:
    """Those that differ, given their neighbours; two rounds, or none where no such set can be.

    Neighbours that are numbers have no configurations: a variable that has one is left out, and so
    is one of more than `MOST_SHARES`.
    """
    if kinds is None:
        return ()
    named = [own.variable for own in differing(marginal)]
    sets = [(v, tuple(np.flatnonzero(skeleton[v]).tolist())) for v in named]
    sets = [(v, given) for v, given in sets if given and kinds.categories[list(given)].all()]
    return (yield from _compared(kinds, settings, sets))


def _compared(
    kinds: ColumnKinds, settings: EvidenceSettings, sets: Sequence[tuple[int, tuple[int, ...]]]
) -> Comparing:
    """What can be compared of variables, each given others."""
    shares = shares_of(kinds.categories)
    # floating point: the product of many categories may exceed every integer type
    size = np.array([shares[v] * kinds.categories[list(g)].prod(dtype=float) for v, g in sets])
    varies = np.array([kinds.categories[v] != 1 for v, _ in sets], dtype=bool)
    asked = [own for own, ok in zip(sets, varies & (size <= MOST_SHARES), strict=True) if ok]
    found = {own: SiteDifference(*own, np.nan) for own in sets}
    if asked:
        question = _question(kinds, settings, asked)
        sums = yield from sum_with_threshold(question, settings.fewest)
        coded = segments(question.encodings, sums)[2] > 0.0
        first = np.cumsum(question.sides()[:, 0]) - question.sides()[:, 0]
        told = zip(p_values_of(question, sums).tolist(), coded[first].tolist(), strict=True)
        in_order = sorted(asked, key=lambda own: len(own[1]))
        found |= {
            own: SiteDifference(*own, *said) for own, said in zip(in_order, told, strict=True)
        }
    return tuple(found.values())


def _question(
    kinds: ColumnKinds, settings: EvidenceSettings, sets: Sequence[tuple[int, tuple[int, ...]]]
) -> SiteDifferences:
    largest = max(len(given) for _, given in sets)
    blocks = [
        np.array([(v, *given) for v, given in sets if len(given) == size], dtype=np.int64).reshape(
            -1, 1 + size
        )
        for size in range(largest + 1)
    ]
    counts, members = pack_blocks(blocks)
    discrete = kinds.categories > 0
    origins = np.where(discrete, 0.0, common_origins(kinds))
    return SiteDifferences(
        categories=tuple(kinds.categories.tolist()),
        origins=np.ascontiguousarray(origins, dtype="<f8").tobytes(),
        units=pack_integers(np.where(discrete, 0, common_units(kinds))),
        counts=counts,
        members=members,
        max_rows=settings.max_rows,
    )


def p_values_of(question: SiteDifferences, sums: FloatVector) -> FloatVector:
    """That no share differs between sites, over all shares of a set, shape (B,); NaN where unknown.

    Args:
        question: What was asked.
        sums: Over the sites; zero in strata that were left out.

    Raises:
        AggregateRangeError: The angles of a share scatter less than not at all.
    """
    from cipherdag.statistics.contingency import chi_square_tail

    statistic, dof, rare = _scatter(question, sums)
    told = (dof > 0) & (rare >= LEAST_ROWS)
    sides = question.sides()
    share, owner = _places(sides)
    shape = (len(sides), max(int(sides[:, 1].max(initial=0)), len(MARKS)))
    totals = np.zeros((2, *shape))
    np.add.at(totals[0], (owner, share), np.where(told, statistic, 0.0))
    np.add.at(totals[1], (owner, share), np.where(told, dof, 0.0))
    tails = np.where(totals[1] > 0, chi_square_tail(*totals), np.inf)
    compared = (totals[1] > 0).sum(axis=1)
    least = np.minimum(tails.min(axis=1, initial=np.inf) * np.maximum(compared, 1), 1.0)
    return np.where(compared > 0, least, np.nan)


def _places(sides: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Which share of its variable, and whose, every share of every stratum is."""
    owner = np.repeat(np.arange(len(sides)), sides[:, 0] * sides[:, 1])
    widths = np.repeat(sides[:, 1], sides[:, 0])
    starts = np.cumsum(widths) - widths
    return np.arange(int(widths.sum())) - np.repeat(starts, widths), owner


def _scatter(
    question: SiteDifferences, sums: FloatVector
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Chi-square of every share in every stratum, its degrees of freedom, and rows that it has."""
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
