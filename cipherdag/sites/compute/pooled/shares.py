"""A site's half of differences between sites: shares of its own rows, as blurred angles."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.site_differences import BLUR, MARKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cipherdag.questions.encodings import BoolVector, FloatVector, IndexArray
    from cipherdag.questions.site_differences import SiteDifferences
    from cipherdag.sites.compute.pooled.blur import Blur

FENCE = 5.0
FEWEST_ALIKE = 3
FEWEST_DISTINCT = 10
"""A column of fewer values is a list of codes."""


def share_summands(
    question: SiteDifferences,
    column: Callable[[int], FloatVector],
    blur: Blur,
    *,
    least: int,
    given: bool = True,
    tables: Callable[[IndexArray], Iterator[tuple[slice, IndexArray]]] | None = None,
    whole: Callable[[int], FloatVector] | None = None,
) -> FloatVector:
    """The answer to `SiteDifferences`.

    Args:
        question: What is compared.
        column: Codes or values of a variable, shape (n,), NaN where missing.
        blur: That of the site's rows.
        least: Rows below which a stratum adds nothing, at least 2.
        given: Whether variables given categories are told of: rows by configuration are counts.
        tables: Counts of sets of positions, one after the other, where all columns have categories.
        whole: As ``column``, of the rows that regressions are of; None for those.
    """
    fits, start = question.fit_array(), 0
    parts: list[list[FloatVector]] = [[], [], [], [], []]
    for rows in question.sets():
        for own, table in zip(rows.tolist(), _counted(rows, tables), strict=True):
            fit = fits[start : start + 1 + len(own)] if question.fitted(own) else None
            if fit is None:
                counts, n = share_counts(question, own, column, table)
            else:
                start += len(fit)
                counts, n = _rest_counts(question, own, whole or column, fit)
            unforetold = _blur(blur, question, own, counts, rest=fit is not None)
            of_enough = (n >= least) & (given or len(own) == 1 or fit is not None)
            first, second, told, weight = _summands(counts, n, of_enough, unforetold)
            alone = len(own) == 1 and question.categories[own[0]] == 0
            coded = told * float(alone and code_in(column(own[0])) is not None)
            for part, values in zip(parts, (first, second, coded, told, weight), strict=True):
                part.append(values.ravel())
    return np.concatenate([np.zeros(0), *(values for part in parts for values in part)])


def _counted(
    rows: IndexArray, tables: Callable[[IndexArray], Iterator[tuple[slice, IndexArray]]] | None
) -> Iterator[IndexArray | None]:
    """For every set, shape (C, k), its variable first, the counts where `tables` has them."""
    if tables is None or not len(rows):
        yield from itertools.repeat(None, len(rows))
        return
    for own in np.roll(rows, -1, axis=1):
        yield from (counts for _, counts in tables(own[None]))


def share_counts(
    question: SiteDifferences,
    own: list[int],
    column: Callable[[int], FloatVector],
    counted: IndexArray | None = None,
) -> tuple[IndexArray, IndexArray]:
    """Rows of every share in every stratum, shape (strata, shares), and in each, (strata,).

    Args:
        question: What is compared.
        own: The variable, and those given.
        column: Codes or values of a variable, shape (n,), NaN where missing.
        counted: The table of those given and the variable, which is fastest, where it is known.
    """
    variable, *given = own
    sides = question.categories
    if counted is not None:
        return _of_table(counted.reshape(-1, sides[variable]), numbers=False)
    values = column(variable)
    others = [column(position) for position in given]
    complete = ~np.isnan([values, *others]).any(axis=0)
    stratum, strata = np.zeros(int(complete.sum()), dtype=np.int64), 1
    for position, other in zip(given, others, strict=True):
        stratum = stratum * sides[position] + other[complete].astype(np.int64)
        strata *= sides[position]
    if sides[variable]:
        kinds, code = sides[variable], values[complete].astype(np.int64)
    else:
        marks = question.marks(variable)
        kinds, code = len(marks) + 1, np.searchsorted(marks, values[complete])
    table = np.bincount(stratum * kinds + code, minlength=strata * kinds).reshape(strata, kinds)
    return _of_table(table, numbers=not sides[variable])


def _rest_counts(
    question: SiteDifferences,
    own: list[int],
    column: Callable[[int], FloatVector],
    fit: FloatVector,
) -> tuple[IndexArray, IndexArray]:
    """As `share_counts`, of what a common regression leaves of a number given numbers."""
    origins, units = question.origin_array(), question.unit_array()
    rest = np.full_like(column(own[0]), fit[0])
    for weight, v in zip(fit[1:].tolist(), own, strict=True):
        rest += weight * np.ldexp(column(v) - origins[v], -int(units[v]))
    rest = rest[~np.isnan(rest)]
    place = np.searchsorted(np.array(MARKS), rest)
    return _of_table(np.bincount(place, minlength=len(MARKS) + 1)[None], numbers=True)


def _of_table(table: IndexArray, *, numbers: bool) -> tuple[IndexArray, IndexArray]:
    """Shares and rows of every stratum, from rows by stratum and category, or place of a number."""
    n = table.sum(axis=1)
    if numbers:
        return table[:, :-1].cumsum(axis=1), n
    return (table[:, :1] if table.shape[1] == 2 else table), n  # noqa: PLR2004


def code_in(values: FloatVector) -> tuple[float, int] | None:
    """A value that seems to stand for no measurement, as -999 does, and how often it occurs.

    It is the only one beyond a fence, on its side, of `FENCE` ranges between the quartiles of the
    other values, and occurs `FEWEST_ALIKE` times at least. None where there is none.

    Args:
        values: Of one column, shape (n,), NaN where missing.
    """
    present = values[~np.isnan(values)]
    ends = (present.min(initial=np.inf), present.max(initial=-np.inf))
    if max(int((present == own).sum()) for own in ends) < FEWEST_ALIKE:
        return None  # without sorting all of a large column
    distinct, counts = np.unique(present, return_counts=True)
    for end, nearest in ((0, 1), (-1, -2)):
        if len(distinct) < FEWEST_DISTINCT or counts[end] < FEWEST_ALIKE:
            continue
        others = np.repeat(np.delete(distinct, end), np.delete(counts, end))
        low, high = np.quantile(others, (0.25, 0.75))
        fence = low - FENCE * (high - low) if end == 0 else high + FENCE * (high - low)
        beyond = (distinct[end] - fence) * (fence - distinct[nearest]) > 0.0
        if high > low and beyond:
            return float(distinct[end]), int(counts[end])
    return None


def _blur(
    blur: Blur,
    question: SiteDifferences,
    own: list[int],
    counts: IndexArray,
    *,
    rest: bool,
) -> FloatVector:
    """What is added to every angle, in standard errors, shape (strata, shares).

    Whatever categories are called, the same of them has the same number. Marks between which no row
    lies have one number: several would average out.
    """
    # of what regressions leave one for all of a variable: those of many would average out, too
    about = b"".join(blur.column(v) for v in (own[:1] if rest else own))
    if categories := question.categories[own[0]]:
        drawn = BLUR * blur.uniform(about, (len(counts), categories))
        if blur.met(own[0]) == 2:  # noqa: PLR2004
            drawn[:, 1] = -drawn[:, 0]  # the angles of two shares add up to a right one
        return drawn[:, blur.ranks(own[0], categories)][:, : counts.shape[1]]
    marks = b"rest" if rest else question.marks(own[0]).tobytes()
    drawn = BLUR * blur.uniform(about + marks, counts.shape)
    alike = (counts[:, :, None] == counts[:, None]).argmax(axis=2)
    return np.take_along_axis(drawn, alike, axis=1)


def _summands(
    counts: IndexArray, n: IndexArray, of_enough: BoolVector, blur: FloatVector
) -> tuple[FloatVector, FloatVector, FloatVector, FloatVector]:
    told: FloatVector = np.where(of_enough, 1.0, 0.0)
    weight = 4.0 * n + 2.0
    angle = np.arcsin(np.sqrt((counts + 0.375) / (n + 0.75)[:, None]))
    scaled = np.sqrt(weight)[:, None] * angle + blur
    first: FloatVector = np.sqrt(weight)[:, None] * scaled * told[:, None]
    second: FloatVector = scaled**2 * told[:, None]
    return first, second, told, weight * told
