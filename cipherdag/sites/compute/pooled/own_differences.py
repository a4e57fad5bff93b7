"""What a site finds of itself where variables are compared: is it the one that stands out?

The opened sums less its own part are those of the other sites together.

Leaks:
    Nothing: what is found is for the site's own screen and never leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.pages.numerals import shown
from cipherdag.questions.encodings import segments
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.sites.compute.pooled.blur import Blur
from cipherdag.sites.compute.pooled.shares import code_in, share_summands
from cipherdag.sites.table.column import Column

FEWEST_OTHERS = 2
OUTLYING = 26.0
"""Squared standard errors from the others beyond which a share is no chance: p below 1e-5."""
MOSTLY = 0.5
"""Share of the scatter over all sites that the site has to account for itself."""
ANOTHER_UNIT = 2.0
"""Times as much, or as little, as the others have, for a unit to be asked about."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Shares of one variable here and at the others together.

    Attributes:
        here: Shares of this site's rows, shape (shares,).
        others: About those of the other sites' rows together, shape (shares,).
        apart: Squared distance of the two, in squared standard errors, shape (shares,).
        own_part: How much of the scatter over all sites that is, shape (shares,).
    """

    here: FloatVector
    others: FloatVector
    apart: FloatVector
    own_part: FloatVector

    @property
    def outlying(self) -> int | None:
        """The share by which this site stands out most; None where it does not."""
        found = np.where(self.own_part >= MOSTLY, self.apart, 0.0)
        most = int(found.argmax())
        return most if found[most] >= OUTLYING else None


def own_differences(
    question: SiteDifferences,
    sums: FloatVector,
    column: Callable[[int], FloatVector],
    blur: Blur,
    *,
    raw: Callable[[int], FloatVector],
    least: int,
    columns: Sequence[Column],
) -> list[tuple[str, str]]:
    """Variables by which this site stands out from the others together, and how.

    Args:
        question: What was compared; variables given others are left out.
        sums: What was opened.
        column: Codes or values of a variable that the site told of, shape (n,), NaN where missing.
        blur: That of the site's rows.
        raw: As `column`, of all its rows, for its own eyes.
        least: Rows below which the site added nothing.
        columns: The variables as the schema has them.
    """
    found = []
    own, marks = share_summands(question, column, blur, least=least), question.marks()
    for (variable, *given), place in _places(question):
        if given:
            continue
        standing, values = _standing(question, sums, own, place), raw(variable)
        said = [] if question.categories[variable] else _code(values)
        if standing is not None and (share := standing.outlying) is not None:
            if question.categories[variable]:
                said = [_of_category(standing, share, columns[variable].category_name(share))]
            else:
                said += _of_number(marks[variable], values, standing, share)
        if said:
            found.append((columns[variable].name, "; ".join(said)))
    return found


def _places(question: SiteDifferences) -> list[tuple[list[int], tuple[int, int, int]]]:
    """Every set with its first stratum: where its shares begin, how many, and its number."""
    found, start, stratum = [], 0, 0
    sets = [own for rows in question.sets() for own in rows.tolist()]
    for own, (strata, shares) in zip(sets, question.sides().tolist(), strict=True):
        found.append((own, (start, shares, stratum)))
        start, stratum = start + strata * shares, stratum + strata
    return found


def _standing(
    question: SiteDifferences, sums: FloatVector, own: FloatVector, place: tuple[int, int, int]
) -> Standing | None:
    """How this site stands beside the others; None where it, or too few others, have rows."""
    start, shares, stratum = place
    part = slice(start, start + shares)
    total, mine = (segments(question.encodings, values) for values in (sums, own))
    sites, weight, w = total[-2][stratum], total[-1][stratum], mine[-1][stratum]
    if w <= 0.0 or sites - 1 < FEWEST_OTHERS:
        return None
    rest = weight - w
    here, others = mine[0][part] / w, (total[0][part] - mine[0][part]) / rest
    apart = (here - others) ** 2 * w * rest / weight
    scatter = total[1][part] - total[0][part] ** 2 / weight
    here, others = np.sin(here) ** 2, np.sin(np.clip(others, 0.0, np.pi / 2.0)) ** 2
    return Standing(here, others, apart, apart / np.maximum(scatter, 1.0))


def _of_category(standing: Standing, share: int, label: str) -> str:
    return (
        f"'{label}' has {standing.here[share]:.1%} of the rows here, and about "
        f"{standing.others[share]:.1%} at the others together"
    )


def _of_number(
    marks: FloatVector, values: FloatVector, standing: Standing, share: int
) -> list[str]:
    said = (
        f"{standing.here[share]:.1%} of the values here are at most {shown(marks[share])}, and "
        f"about {standing.others[share]:.1%} at the others together"
    )
    return [said, _middle(marks, values[~np.isnan(values)], standing)]


def _code(values: FloatVector) -> list[str]:
    if (found := code_in(values)) is None:
        return []
    code, count = found
    others = values[~np.isnan(values) & (values != code)]
    low, high = shown(float(others.min())), shown(float(others.max()))
    where = f"all others lie between {low} and {high}"
    return [f"{count} values are {shown(code)}, and {where}: a code for missing values?"]


def _middle(marks: FloatVector, present: FloatVector, standing: Standing) -> str:
    """The middle here beside where that of the others lies, and how many times it is as large."""
    middle = float(np.median(present))
    above = int(np.searchsorted(standing.others, 0.5))
    if not 0 < above < len(marks):
        return f"the middle of the values here is {shown(middle)}"
    low, high = float(marks[above - 1]), float(marks[above])
    said = (
        f"the middle of the values here is {shown(middle)}, that of the others lies between "
        f"{shown(low)} and {shown(high)}"
    )
    if low <= middle <= high or low * high <= 0.0 or middle * low <= 0.0:
        return said
    least, most = sorted((middle / low, middle / high))
    if most > 1.0 / ANOTHER_UNIT and least < ANOTHER_UNIT:
        return said
    return f"{said}: {shown(least)} to {shown(most)} times as much, another unit?"
