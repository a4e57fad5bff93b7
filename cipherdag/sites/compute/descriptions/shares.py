"""A site's shares of rows for the comparison of sites: variance-stabilised angles with noise."""

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.questions.site_differences import ANGLE_NOISE_SE, SiteDifferences
from cipherdag.sites.compute.descriptions.location_scale_hints import column_blocks
from cipherdag.sites.compute.device import PROCESSOR, Device, placed
from cipherdag.sites.compute.noise import CellKeys
from cipherdag.statistics.array_functions import Array, extremes, functions_of, host, indices, like

FENCE = 5.0
FEWEST_REPEATS = 3
FEWEST_DISTINCT = 10  # a column of fewer values is a list of codes


def share_summands(
    question: SiteDifferences,
    column: Callable[[int], FloatVector],
    cell_keys: CellKeys,
    *,
    min_rows: int,
    given: bool = True,
    device: Device = PROCESSOR,
    tables: Callable[[IndexArray], Iterator[tuple[slice, IndexArray]]] | None = None,
) -> FloatVector:
    """The answer to `SiteDifferences`.

    Strata of fewer than ``min_rows``, at least 2, add nothing. Without ``given``, sets with given
    variables add nothing either: sizes of their strata are counts. ``tables`` counts sets of
    positions, one after the other, where all columns have categories.
    """

    def on_device(variable: int) -> Array:
        return placed(column(variable), device)

    fetch = column if device == PROCESSOR else cache(on_device)
    marks = question.marks()
    per_set: list[_Shares] = []
    for rows in question.sets():
        if rows.shape[1] == 1 and not any(question.categories[v] for v in rows[:, 0]):
            per_set.append(_of_numbers(rows[:, 0], column, marks, cell_keys, device))
            continue
        each = zip(rows.tolist(), _counted(rows, tables), strict=True)
        per_set += [
            _shares(question, variables, (column, fetch), marks[variables[0]], cell_keys, table)
            for variables, table in each
        ]
    if not per_set:
        return np.zeros(0)
    together = _Shares(*(np.concatenate(parts) for parts in zip(*per_set, strict=True)))
    of_enough = (together.n >= min_rows) & (given | together.alone)
    return _summands(together, of_enough, question.widths())


def _counted(
    rows: IndexArray, tables: Callable[[IndexArray], Iterator[tuple[slice, IndexArray]]] | None
) -> Iterator[IndexArray | None]:
    """Yield the table of every set, shape (C, k), its variable first, where `tables` has them."""
    if tables is None or not len(rows):
        yield from itertools.repeat(None, len(rows))
        return
    for positions in np.roll(rows, -1, axis=1):
        yield from (counts for _, counts in tables(positions[None]))


class _Shares(NamedTuple):
    """Counts of rows in each share of a variable, and sizes ``n`` of the strata of one set.

    ``noise`` is added to every angle, in standard errors. ``coded`` marks numbers with a value
    that `code_in` finds, and ``alone`` sets without given variables.
    """

    counts: IndexArray
    n: IndexArray
    noise: FloatVector
    coded: BoolVector
    alone: BoolVector


def _shares(
    question: SiteDifferences,
    variables: list[int],
    columns: tuple[Callable[[int], FloatVector], Callable[[int], Array]],
    marks: FloatVector,
    cell_keys: CellKeys,
    counted: IndexArray | None,
) -> _Shares:
    """Count a variable's shares per stratum of the given ones; from ``counted`` if there is one."""
    sides, number = question.categories, question.categories[variables[0]] == 0
    column, fetch = columns
    held = [fetch(position) for position in variables] if counted is None else []
    table = (
        _table(question, variables, held, marks)
        if counted is None
        else counted.reshape(-1, sides[variables[0]])
    )
    n = table.sum(axis=1)
    if number:
        counts = table[:, :-1].cumsum(axis=1)
    else:
        counts = table[:, :1] if table.shape[1] == 2 else table  # noqa: PLR2004
    coded = number and len(variables) == 1 and code_in(column(variables[0])) is not None
    return _Shares(
        counts.ravel(),
        n,
        _noise(cell_keys, question, variables, counts, marks).ravel(),
        np.full(len(n), coded),
        np.full(len(n), len(variables) == 1),
    )


def _of_numbers(
    variables: IndexArray,
    column: Callable[[int], FloatVector],
    marks: FloatVector,
    cell_keys: CellKeys,
    device: Device,
) -> _Shares:
    """Count the shares of continuous variables that nothing is given for."""
    shares, marks_of_each = marks.shape[1], iter(marks[variables])
    n, coded, per_interval = [], [], []
    for block in column_blocks(map(column, variables.tolist())):
        held = placed(np.stack(block), device)
        xp = functions_of(held)
        n += host(xp.count_nonzero(~xp.isnan(held), axis=1)).tolist()
        coded += _coded(held, block)
        # what is missing stands beyond all marks
        positions = (
            xp.searchsorted(like(row, held), of)
            for of, row in zip(held, marks_of_each, strict=False)
        )
        per_interval += [host(xp.bincount(row, minlength=shares))[:shares] for row in positions]
    counts = np.array(per_interval, dtype=np.int64).reshape(-1, shares).cumsum(axis=1)
    about = (cell_keys.column(v) + marks[v].tobytes() for v in variables.tolist())
    uniform = [cell_keys.uniform(each, (shares,)) for each in about]
    drawn = ANGLE_NOISE_SE * np.reshape(uniform, counts.shape)
    return _Shares(
        counts.ravel(),
        np.array(n, dtype=np.int64),
        _shared_where_equal(drawn, counts).ravel(),
        np.array(coded, dtype=np.bool_),
        np.ones(len(variables), dtype=np.bool_),
    )


def _table(
    question: SiteDifferences, variables: list[int], held: list[Array], marks: FloatVector
) -> IndexArray:
    """Rows of every stratum by the variable's category, or by a number's interval between marks."""
    variable, *given = variables
    sides, xp = question.categories, functions_of(held[0])
    complete = ~xp.isnan(held[0])
    for other in held[1:]:
        complete &= ~xp.isnan(other)
    values = held[0][complete]
    if sides[variable]:
        kinds, code = sides[variable], indices(values)
    else:
        kinds, code = len(marks) + 1, xp.searchsorted(like(marks, values), values)
    strata, stratum = 1, indices(xp.zeros_like(values))
    for position, other in zip(given, held[1:], strict=True):
        stratum = stratum * sides[position] + indices(other[complete])
        strata *= sides[position]
    table: IndexArray = host(xp.bincount(stratum * kinds + code, minlength=strata * kinds))
    return table.reshape(strata, kinds)


def _coded(columns: Array, held: list[FloatVector]) -> list[bool]:
    """Whether `code_in` finds a value in each column, shape (k, n), those that are held."""
    xp = functions_of(columns)
    ends = (end[:, None] for end in extremes(columns))
    repeats = xp.maximum(*(xp.count_nonzero(columns == end, axis=1) for end in ends))
    often = host(repeats >= FEWEST_REPEATS).tolist()  # once for all columns, as hardly any repeats
    return [
        repeated and code_in(values) is not None
        for repeated, values in zip(often, held, strict=True)
    ]


def code_in(values: FloatVector) -> tuple[float, int] | None:
    """A value that seems to stand for no measurement, as -999 does, and how often it occurs.

    It alone lies beyond the fence on its side, `FENCE` interquartile ranges past the quartile of
    the others, and occurs `FEWEST_REPEATS` times at least. None where there is none.
    """
    present = values[~np.isnan(values)]
    ends = (present.min(initial=np.inf), present.max(initial=-np.inf))
    if max(int((present == end).sum()) for end in ends) < FEWEST_REPEATS:
        return None  # without sorting all of a large column
    distinct, counts = np.unique(present, return_counts=True)
    for end, nearest in ((0, 1), (-1, -2)):
        if len(distinct) < FEWEST_DISTINCT or counts[end] < FEWEST_REPEATS:
            continue
        others = np.repeat(np.delete(distinct, end), np.delete(counts, end))
        low, high = np.quantile(others, (0.25, 0.75))
        fence = low - FENCE * (high - low) if end == 0 else high + FENCE * (high - low)
        beyond = (distinct[end] - fence) * (fence - distinct[nearest]) > 0.0
        if high > low and beyond:
            return float(distinct[end]), int(counts[end])
    return None


def _noise(
    cell_keys: CellKeys,
    question: SiteDifferences,
    variables: list[int],
    counts: IndexArray,
    marks: FloatVector,
) -> FloatVector:
    """Noise of every angle, in standard errors, shape (strata, shares).

    A category's draw depends on which rows hold it, not on its name. Marks between which no row
    lies share one draw: several would average out.
    """
    about = b"".join(cell_keys.column(v) for v in variables)
    if categories := question.categories[variables[0]]:
        drawn = ANGLE_NOISE_SE * cell_keys.uniform(about, (len(counts), categories))
        if cell_keys.met(variables[0]) == 2:  # noqa: PLR2004
            drawn[:, 1] = -drawn[:, 0]  # the angles of two shares add up to a right one
        return drawn[:, cell_keys.ranks(variables[0], categories)][:, : counts.shape[1]]
    return _shared_where_equal(
        ANGLE_NOISE_SE * cell_keys.uniform(about + marks.tobytes(), counts.shape), counts
    )


def _shared_where_equal(drawn: FloatVector, counts: IndexArray) -> FloatVector:
    """The same draw for all shares of equal counts in a stratum, shape (strata, shares)."""
    same = (counts[:, :, None] == counts[:, None]).argmax(axis=2)
    return np.take_along_axis(drawn, same, axis=1)


def _summands(shares: _Shares, of_enough: BoolVector, widths: IndexArray) -> FloatVector:
    """The values of the answer, of all sets together; ``widths`` has the shares of each stratum."""
    contributes: FloatVector = np.where(of_enough, 1.0, 0.0)
    weight = 4.0 * shares.n + 2.0
    root, rows, mask = (
        np.repeat(values, widths) for values in (np.sqrt(weight), shares.n + 0.75, contributes)
    )
    angle = np.arcsin(np.sqrt((shares.counts + 0.375) / rows))
    scaled = root * angle + shares.noise
    return np.concatenate(
        [
            root * scaled * mask,
            scaled**2 * mask,
            shares.coded * contributes,
            contributes,
            weight * contributes,
        ]
    )
