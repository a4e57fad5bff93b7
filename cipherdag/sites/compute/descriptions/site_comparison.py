"""Flags variables whose distribution at this site deviates from that at the others together.

The opened sums less the site's summands are those of the other sites together. Shares are compared
as the angles asin sqrt(share) of `SiteDifferences`, and shown as shares.

Leaks:
    Nothing: it is for the site's screen and never leaves it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatVector
from cipherdag.pages.numerals import shown
from cipherdag.questions.encodings import segments
from cipherdag.questions.site_differences import SiteDifferences
from cipherdag.sites.compute.descriptions.shares import code_in, share_summands
from cipherdag.sites.compute.noise import CellKeys
from cipherdag.sites.table.column import Column

FEWEST_OTHERS = 2
OUTLYING = 26.0  # distance from the others, in squared standard errors, beyond chance: p below 1e-5
MOSTLY = 0.5  # share of the scatter over all sites that the site has to account for itself
ANOTHER_UNIT = 2.0  # ratio of medians, or its inverse, from which another unit is suspected


@dataclass(frozen=True, slots=True)
class SiteComparison:
    """Shares of one variable here and, approximately, at the others; all have shape (shares,).

    ``distance`` is squared, in squared standard errors of the two, and ``of_scatter`` is its part
    of the scatter over all sites.
    """

    here: FloatVector
    others: FloatVector
    distance: FloatVector
    of_scatter: FloatVector

    @property
    def outlying(self) -> int | None:
        """The share by which this site stands out most; None where it does not."""
        distance = np.where(self.of_scatter >= MOSTLY, self.distance, 0.0)
        most = int(distance.argmax())
        return most if distance[most] >= OUTLYING else None


def site_outliers(
    question: SiteDifferences,
    sums: FloatVector,
    column: Callable[[int], FloatVector],
    blur: CellKeys,
    *,
    raw: Callable[[int], FloatVector],
    min_cell_size: int,
    columns: Sequence[Column],
) -> list[tuple[str, str]]:
    """Variables whose distribution at this site deviates from that at the others, and how.

    ``raw`` gives a variable's column over all rows, ``column`` the values that may be told of, and
    ``blur`` the keys of the noise. Variables given others are not looked at.
    """
    outliers, start, stratum, every_mark = [], 0, 0, question.marks()
    summands = share_summands(question, column, blur, min_rows=min_cell_size)
    sets = [names for rows in question.sets() for names in rows.tolist()]
    for (variable, *given), (strata, shares) in zip(sets, question.sides().tolist(), strict=True):
        at = slice(start, start + shares), stratum
        start, stratum = start + strata * shares, stratum + strata
        if given:
            continue
        compared, values = _comparison(question, sums, summands, *at), raw(variable)
        categories, marks = question.categories[variable], every_mark[variable]
        said = [] if categories else _missing_code(values)
        if compared is not None and (share := compared.outlying) is not None:
            here = f"{compared.here[share]:.1%}"
            others = f"about {compared.others[share]:.1%} at the others together"
            if categories:
                label = columns[variable].category_name(share)
                said = [f"'{label}' has {here} of the rows here, and {others}"]
            else:
                most = shown(marks[share])
                said.append(f"{here} of the values here are at most {most}, and {others}")
                said.append(_median(marks, values[~np.isnan(values)], compared))
        if said:
            outliers.append((columns[variable].name, "; ".join(said)))
    return outliers


def _comparison(
    question: SiteDifferences, sums: FloatVector, summands: FloatVector, shares: slice, stratum: int
) -> SiteComparison | None:
    """This site and the others; None where it has no rows, or fewer than `FEWEST_OTHERS` have."""
    total, mine = (segments(question.encodings, values) for values in (sums, summands))
    sites, weight, w = total[-2][stratum], total[-1][stratum], mine[-1][stratum]
    if w <= 0.0 or sites - 1 < FEWEST_OTHERS:
        return None
    rest = weight - w
    here, others = mine[0][shares] / w, (total[0][shares] - mine[0][shares]) / rest
    distance = (here - others) ** 2 * w * rest / weight
    scatter = total[1][shares] - total[0][shares] ** 2 / weight
    here, others = np.sin(here) ** 2, np.sin(np.clip(others, 0.0, np.pi / 2.0)) ** 2
    return SiteComparison(here, others, distance, distance / np.maximum(scatter, 1.0))


def _missing_code(values: FloatVector) -> list[str]:
    if (repeated := code_in(values)) is None:
        return []
    code, count = repeated
    others = values[~np.isnan(values) & (values != code)]
    low, high = shown(float(others.min())), shown(float(others.max()))
    where = f"all others lie between {low} and {high}"
    return [f"{count} values are {shown(code)}, and {where}: a code for missing values?"]


def _median(marks: FloatVector, present: FloatVector, compared: SiteComparison) -> str:
    """The median here, about where that of the others lies, and their ratio."""
    middle = float(np.median(present))
    above = int(np.searchsorted(compared.others, 0.5))
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
