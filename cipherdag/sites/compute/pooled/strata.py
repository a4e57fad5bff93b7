"""A site's half of stratified tables: differences from independence within its own strata."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.stratified import OWN_VALUES, SPREAD_VARIANCE, cell_sides
from cipherdag.sites.compute.pooled.blur import jolted
from cipherdag.statistics.table_forms import TableForms, table_forms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cipherdag.questions.encodings import BoolVector
    from cipherdag.questions.stratified import StratifiedTables, TableCells
    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector, IndexArray
    from cipherdag.sites.compute.ci_tests.counts import DiscreteColumns
    from cipherdag.sites.compute.pooled.blur import Blur
    from cipherdag.statistics.table_forms import FloatArray as FloatMatrix

    Margins = tuple[FloatMatrix, FloatMatrix, FloatVector]

OWN_VARIANCE = 1.0
"""Where no cell varies by more, one site's are too far from normal for a chi-square."""
LEAST_TAIL, MOST_TAIL = 1e-300, 1e-3
"""Of p-values: beyond them scores would have no end."""


def stratified_answer(
    question: StratifiedTables,
    columns: DiscreteColumns,
    *,
    least: int,
    blur: Blur | None,
    within: DiscreteColumns | None = None,
) -> FloatVector:
    """The answer to `StratifiedTables`.

    Args:
        question: Which triplets.
        columns: The site's rows, every variable with all its categories.
        least: Rows below which a stratum adds nothing, at least 2.
        blur: What moves differences and variances; None: nothing does.
        within: The rows that these were drawn from, if they were; a stratum with fewer there adds
            nothing either.
    """
    widths = question.widths[: question.n_tests]
    starts = np.cumsum(widths) - widths
    wholes, own = np.zeros(widths.sum()), np.zeros((2, question.n_tests, OWN_VALUES))
    moves, spread = _Moves(question, blur), SPREAD_VARIANCE if blur else 0.0
    for owner, counts, moved in _tables(question, columns, moves, least=least, within=within):
        values = _cells(counts, moved)
        first = _begins(owner)
        tests = owner[first]
        summed = np.add.reduceat(values, first, axis=3)
        told = summed[:2].reshape(-1, len(tests))
        wholes[starts[tests] + np.arange(len(told))[:, None]] = told
        own[:, tests] = _own_tests(summed, values, first, spread=spread)
    own[1, question.sides[:, 0] == 1] = 0.0  # given nothing there is one configuration
    return np.concatenate([wholes, own.ravel()])


class _Moves:
    """Numbers by which strata are moved, of x, y and all strata of a test.

    A number for every variable would follow from a run's many tests, and the margins with it; one
    for every stratum would leave, of a test given a column and one given a coarser column, what
    few rows differ in. Of the same strata they are the same, whatever columns split the rows so,
    in whichever order x, y, strata and categories come, and for rows drawn from these: no mean over
    orders or replicates tells more than one answer does.
    """

    def __init__(self, question: StratifiedTables, blur: Blur | None) -> None:
        self._blur = blur
        pairs = [rows[:, :2] for rows in question.rows()]
        self._pairs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *pairs])

    def of(self, owner: IndexArray, counts: IndexArray) -> tuple[FloatVector, FloatVector]:
        """What moves every cell, (rows, columns, U), and multiplies variances, (U,).

        Args:
            owner: Triplet of every stratum, ascending, shape (U,).
            counts: Shape (rows, columns, U), of the rows that these were drawn from, if they were.
        """
        if self._blur is None:
            return np.zeros(counts.shape), np.ones(len(owner))
        first = _begins(owner)
        sizes = np.diff(first, append=len(owner))
        names, places, cells = self._canonical(self._blur, owner[first], counts.shape[:2])
        places = np.repeat(places, sizes, axis=0)
        tables = np.empty((len(owner), places.shape[1]), dtype=np.int64)
        np.put_along_axis(tables, places, counts.reshape(-1, len(owner)).T, axis=1)
        order = np.lexsort((*tables.T, owner))
        ends = zip(names, cells.tolist(), first.tolist(), [*first[1:].tolist(), None], strict=True)
        strata = tables[order]
        keys = [name + strata[start:stop, :met].tobytes() for name, met, start, stop in ends]
        spreads, numbers = self._blur.moves(keys, (sizes * cells).tolist())
        told = np.arange(tables.shape[1]) < np.repeat(cells, sizes)[:, None]
        drawn, in_order = np.zeros((2, *tables.shape))
        in_order[told] = numbers
        drawn[order] = in_order
        drawn = np.take_along_axis(drawn, places, axis=1)
        return drawn.T.reshape(counts.shape), np.repeat(spreads, sizes)

    def _canonical(
        self, blur: Blur, tests: IndexArray, sides: tuple[int, ...]
    ) -> tuple[list[bytes], IndexArray, IndexArray]:
        """Of every test a name of x and y, and where each cell stands whatever these are called.

        Returns:
            Names, places of shape (tests, cells), those of categories that rows have first, and how
            many the latter are, shape (tests,).
        """
        x, y = self._pairs[tests].T
        rows, columns = blur.ranks(x, sides[0])[:, :, None], blur.ranks(y, sides[1])[:, None]
        first, second = (blur.met(own)[:, None, None] for own in (x, y))
        names, turned = blur.pairs(x, y)
        turned = turned[:, None, None]
        place = np.where(turned, columns * first + rows, rows * second + columns)
        place, beyond = (
            own.reshape(len(tests), -1)
            for own in (place, (rows >= first) | (columns >= second))  # cells that no row is in
        )
        met = (first * second).ravel()
        place = np.where(beyond, met[:, None] - 1 + np.cumsum(beyond, axis=1), place)
        return names, place, met


def cells_answer(
    question: TableCells,
    columns: DiscreteColumns,
    *,
    least: int,
    blur: Blur | None,
    within: DiscreteColumns | None = None,
) -> FloatVector:
    """The answer to `TableCells` with differences; arguments as of `stratified_answer`."""
    tables, sizes = question.tables, question.sides.prod(axis=1)
    starts = np.cumsum(sizes) - sizes
    moments, scores = np.zeros((2, sizes.sum())), np.zeros((2, question.n_tests))
    moves, spread = _Moves(tables, blur), SPREAD_VARIANCE if blur else 0.0
    for owner, counts, moved in _tables(tables, columns, moves, least=least, within=within):
        values = _cells(counts, moved)
        first = _begins(owner)
        tests = owner[first]
        summed = np.add.reduceat(values, first, axis=3)
        told = summed[:2].reshape(2, -1, len(tests))
        moments[:, starts[tests] + np.arange(told.shape[1])[:, None]] = told
        whole, of_strata = _own_tests(summed, values, first, spread=spread)
        given = tables.sides[tests, 0] > 1
        scores[:, tests] = np.where(given[:, None], of_strata, whole).T
    of_cells = question.owner[: sizes.sum()]
    varies = np.bincount(of_cells, weights=moments[1], minlength=question.n_tests) > 0
    values = np.concatenate([moments, scores], axis=1).ravel()
    return np.concatenate([values, varies], dtype=np.float64)


def _tables(
    question: StratifiedTables,
    columns: DiscreteColumns,
    moves: _Moves,
    *,
    least: int,
    within: DiscreteColumns | None,
) -> Iterator[tuple[IndexArray, FloatVector, tuple[FloatVector, FloatVector]]]:
    """Strata that tell anything, by shape of table: whose they are, (U,), their counts, and moves.

    The first ascend, and no triplet's strata are in two pieces; counts have the shape (rows,
    columns, U); moves are as of `_Moves.of`.
    """
    for rows, first in zip(question.rows(), _firsts(question.counts), strict=True):
        # one stratum's cells one after the other
        sets = np.column_stack([rows[:, 2:], rows[:, :2]])
        drawn_from = itertools.repeat(None) if within is None else within.whole_tables(sets)
        for (piece, counts), origin in zip(columns.whole_tables(sets), drawn_from, strict=False):
            tests = np.arange(first + piece.start, first + piece.stop)
            for owner, cells in _by_shape(question.sides[tests]):
                tables = counts[cells]
                basis = tables if origin is None else origin[1][cells]
                told = _tells(basis, least)
                kept = told & _tells(tables, least)
                if kept.any():
                    jolts, spreads = moves.of(tests[owner[told]], basis[..., told])
                    moved = jolts[..., kept[told]], spreads[kept[told]]
                    yield tests[owner[kept]], tables[..., kept].astype(np.float64), moved


def _tells(tables: IndexArray, least: int) -> BoolVector:
    """Which tables, (rows, columns, U), have rows enough, and x and y that vary, shape (U,)."""
    several = [tables.any(axis=side).sum(axis=0) > 1 for side in (0, 1)]
    told: BoolVector = (tables.sum(axis=(0, 1)) >= least) & several[0] & several[1]
    return told


def _firsts(counts: tuple[int, ...]) -> list[int]:
    """The first triplet of every size of S."""
    return list(itertools.accumulate(counts[:-1], initial=0)) if counts else []


def _begins(owner: IndexArray) -> IndexArray:
    """Where each triplet's strata begin, of ascending owners."""
    return np.flatnonzero(np.diff(owner, prepend=-1))


def _by_shape(sides: IndexArray) -> Iterator[tuple[IndexArray, IndexArray]]:
    """The strata of some triplets by shape of table, and where their cells are counted.

    Args:
        sides: As `StratifiedTables.sides`, shape (C, 3).

    Returns:
        The triplet of each, shape (U,), and places among the counts, shape (rows, columns, U).
    """
    sizes = sides.prod(axis=1)
    starts = np.cumsum(sizes) - sizes
    for rows, columns in sorted({*zip(*sides[:, 1:].T.tolist(), strict=True)}):
        own = np.flatnonzero((sides[:, 1:] == (rows, columns)).all(axis=1))
        strata = sides[own, 0]
        stratum = np.arange(strata.sum()) - np.repeat(np.cumsum(strata) - strata, strata)
        begins = np.repeat(starts[own], strata) + stratum * rows * columns
        yield np.repeat(own, strata), np.arange(rows * columns).reshape(rows, columns, 1) + begins


def _own_tests(
    summed: FloatVector, values: FloatVector, first: IndexArray, *, spread: float
) -> FloatVector:
    """The score of each test of all configurations together, and of all of each, and a 1.

    Args:
        summed: Differences, variances and expected counts of every test, (3, rows, columns, T).
        values: Those of every stratum, shape (3, rows, columns, U).
        first: Where the strata of each test begin, shape (T,).
        spread: Variance of the number that moves the variances of all strata of a test.

    Returns:
        Shape (2, T, 2); 0 where nothing varies enough.
    """
    of_strata = TableForms(*(np.add.reduceat(own, first) for own in _forms(values)))
    return np.stack([_scores(own, spread) for own in (_forms(summed), of_strata)])


def _forms(values: FloatVector) -> TableForms:
    """Of strata, or sums of them; 0 where no cell varies enough."""
    tells = values[1].max(axis=(0, 1)) > OWN_VARIANCE
    form, mean, variance = (np.where(tells, own, 0.0) for own in table_forms(*values))
    return TableForms(form=form, mean=mean, variance=variance)


def _scores(forms: TableForms, spread: float) -> FloatMatrix:
    """The normal score of every sum of squares, and 1; 0 where nothing varies, shape (T, 2)."""
    from scipy.special import ndtri

    from cipherdag.statistics.contingency import chi_square_tail

    form, dof = forms.scaled(beyond=spread)
    told = dof > 0
    p_value = chi_square_tail(form, np.maximum(dof, 1.0 - told))
    score = -ndtri(np.clip(p_value, LEAST_TAIL, 1.0 - MOST_TAIL))
    return np.where(told[:, None], np.column_stack([score, told]), 0.0)


def _cells(counts: FloatVector, moved: tuple[FloatVector, FloatVector]) -> FloatVector:
    """Differences, variances and expected counts of cells, shape (3, rows, columns, U).

    Of two categories the first alone has cells, and what is expected is its share of the other.

    Args:
        counts: Shape (rows, columns, U).
        moved: By what cells are moved, as ``counts``, and variances multiplied, shape (U,).
    """
    x, y, n = margins = _margins(counts)
    difference = _jolted(_differences(counts, *margins), margins, moved[0])
    rows, columns = (cell_sides(np.array(len(margin))) for margin in (x, y))
    x, y = x[:rows], y[:columns]
    spread_x, spread_y = x * (n - x), y * (n - y)
    variance = spread_x[:, None] * spread_y * (moved[1] / (n * n * (n - 1.0)))
    of_x, of_y = (
        spread if len(margin) == 1 else margin * n
        for margin, spread in ((x, spread_x), (y, spread_y))
    )
    expected = of_x[:, None] * of_y * (moved[1] / (n * n * (n - 1.0)))
    return np.stack([difference[:rows, :columns], variance, expected])


def _jolted(differences: FloatVector, margins: Margins, drawn: FloatVector) -> FloatVector:
    """Differences and `JOLT` times numbers of the same covariances, which stay as they are.

    Args:
        differences: Shape (rows, columns, U).
        margins: Of rows, of columns, and all of it.
        drawn: Independent numbers from -1 to 1, as ``differences``; all 0: nothing is moved.
    """
    if not drawn.any():
        return differences
    x, y, n = margins
    moved = np.sqrt(x)[:, None] * np.sqrt(y) * drawn / np.sqrt(n - 1.0)
    moved -= x[:, None] * moved.sum(axis=0) / n
    moved -= moved.sum(axis=1, keepdims=True) * y / n
    moved *= (x * (n - x))[:, None] * (y * (n - y)) > 0.0  # of a constant rounding would be left
    return jolted(differences, moved)


def _margins(counts: FloatVector) -> Margins:
    """Of tables of shape (rows, columns, U): rows, columns, and all of it."""
    x, y = counts.sum(axis=1), counts.sum(axis=0)
    return x, y, x.sum(axis=0)


def _differences(
    counts: FloatVector, x: FloatMatrix, y: FloatMatrix, n: FloatVector
) -> FloatVector:
    """How far cells lie from independence; products first: exactly 0 where x or y is constant."""
    difference: FloatVector = counts - x[:, None] * y / n
    return difference
