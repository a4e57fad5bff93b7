"""A site's half of stratified tables: differences from independence within its own strata."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.stratified import OWN_SCALE, OWN_VALUES, cell_sides
from cipherdag.sites.compute.pooled.blur import jolted
from cipherdag.statistics.quadratic_forms import (
    chi_square_scale,
    kronecker_matrices,
    quadratic_forms,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cipherdag.questions.encodings import BoolVector
    from cipherdag.questions.stratified import Strata, StratifiedTables, TableCells
    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector, IndexArray
    from cipherdag.sites.compute.ci_tests.counts import DiscreteColumns
    from cipherdag.sites.compute.pooled.blur import Blur
    from cipherdag.statistics.quadratic_forms import FloatMatrix

OWN_VARIANCE = 1.0
"""Below it, differences of one site are too far from normal for a chi-square."""
OWN_STEPS = 16.0
"""To parts of it degrees of freedom are told: finer ones would tell more of the margins."""


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
    strata = question.strata
    answer, moves = np.zeros(strata.n_values), _Moves(question, blur)
    for own, counts, kept in _tables(question, columns, least=least, within=within):
        values = _summands(counts, kept, moves.of(own, counts))
        answer[strata.starts[own] + np.arange(len(values))[:, None]] = values
    own_tests = OWN_SCALE * _own_tests(question.wholes(answer), strata)
    own_tests = np.minimum(own_tests, question.encodings[0].bound)
    return np.concatenate([answer, own_tests.ravel(), question.wholes(answer)])


class _Moves:
    """Numbers by which strata are moved, of x, y and the table: of the same one always the same.

    A number for every variable would follow from a run's many tests, and the margins with it. Since
    they are of the table, of a column and a coarser one no difference is left (`merged`).
    """

    def __init__(self, question: StratifiedTables, blur: Blur | None) -> None:
        self._blur, self._owner = blur, question.strata.owner
        pairs = [rows[:, :2] for rows in question.rows()]
        self._pairs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *pairs])

    def of(self, own: IndexArray, counts: FloatVector) -> tuple[FloatVector, FloatVector]:
        """Of strata and their counts, (rows, columns, U): of every cell, and of variances, (U,)."""
        if self._blur is None:
            return np.zeros(counts.shape), np.ones(len(own))
        tables = counts.reshape(-1, len(own)).T.astype(np.int64)
        keys = np.column_stack([self._pairs[self._owner[own]], tables])
        spreads, drawn = self._blur.moves(keys, tables.shape[1])
        return drawn.T.reshape(counts.shape), spreads


def cells_answer(
    question: TableCells,
    columns: DiscreteColumns,
    *,
    least: int,
    blur: Blur | None,
    within: DiscreteColumns | None = None,
) -> FloatVector:
    """The answer to `TableCells` with differences; arguments as of `stratified_answer`."""
    strata, n_cells = question.tables.strata, len(question.owner)
    sizes = question.sides.prod(axis=1)
    starts = np.cumsum(sizes) - sizes
    moments, moves = np.zeros((2, n_cells)), _Moves(question.tables, blur)
    for own, counts, kept in _tables(question.tables, columns, least=least, within=within):
        values = _moments(counts, moves.of(own, counts)) * kept
        place = starts[strata.owner[own]] + np.arange(values.shape[1])[:, None]
        for total, summand in zip(moments, values, strict=True):
            np.add.at(total, place, summand)
    difference, variance = moments
    varies = np.bincount(question.owner, weights=variance, minlength=question.n_tests) > 0
    return np.concatenate([difference, variance, varies], dtype=np.float64)


def _tables(
    question: StratifiedTables,
    columns: DiscreteColumns,
    *,
    least: int,
    within: DiscreteColumns | None,
) -> Iterator[tuple[IndexArray, FloatVector, BoolVector]]:
    """Strata whose tables have one shape, (U,), their counts, (rows, columns, U), and which add."""
    strata = question.strata
    for rows, first in zip(question.rows(), _firsts(question.counts), strict=True):
        # one stratum's cells one after the other
        sets = np.column_stack([rows[:, 2:], rows[:, :2]])
        drawn_from = itertools.repeat(None) if within is None else within.whole_tables(sets)
        for (piece, counts), origin in zip(columns.whole_tables(sets), drawn_from, strict=False):
            tests = slice(first + piece.start, first + piece.stop)
            for own, cells in _by_shape(strata, tests):
                tables = counts[cells]
                kept = tables.sum(axis=(0, 1)) >= least
                if origin is not None:
                    kept &= origin[1][cells].sum(axis=(0, 1)) >= least
                yield own, tables.astype(np.float64), kept


def _firsts(counts: tuple[int, ...]) -> list[int]:
    """The first triplet of every size of S."""
    return list(itertools.accumulate(counts[:-1], initial=0)) if counts else []


def _by_shape(strata: Strata, tests: slice) -> Iterator[tuple[IndexArray, IndexArray]]:
    """The strata of neighbouring triplets, by shape of table, and where their cells are counted.

    Returns:
        Strata, shape (U,), and places among the counts of the triplets, shape (rows, columns, U).
    """
    start = strata.first[tests.start]
    end = strata.first[tests.stop - 1] + strata.sides[tests.stop - 1, 0]
    shape_of = strata.shape_of[start:end]
    sizes = strata.shapes.prod(axis=1)[shape_of]
    starts = np.cumsum(sizes) - sizes
    for number in np.flatnonzero(np.bincount(shape_of)).tolist():
        own = np.flatnonzero(shape_of == number)
        cells = np.arange(strata.shapes[number].prod()).reshape(*strata.shapes[number], 1)
        yield start + own, starts[own] + cells


def _own_tests(wholes: FloatVector, strata: Strata) -> FloatMatrix:
    """Chi-square and degrees of freedom of every test at this site, scaled, shape (B, 2).

    Args:
        wholes: Differences and distinct covariances, summed over the strata, test by test.
        strata: Those of the tests.
    """
    found = np.zeros((len(strata.first), OWN_VALUES))
    widths = strata.widths[strata.first]
    starts = np.cumsum(widths) - widths
    shape_of = strata.shape_of[strata.first]
    for number, (rows, columns) in enumerate(strata.shapes.tolist()):
        tests, a, b = np.flatnonzero(shape_of == number), rows - 1, columns - 1
        summed = wholes[starts[tests][:, None] + np.arange(widths[tests[0]])]
        covariances = kronecker_matrices(summed[:, a * b :], a, b)
        form, rank, rare = quadratic_forms(summed[:, : a * b], covariances, tolerance=OWN_VARIANCE)
        dof = np.rint(OWN_STEPS * rank * chi_square_scale(rank, rare)) / OWN_STEPS
        found[tests] = np.stack([form * dof / np.maximum(rank, 1), dof], axis=1)
    return found


def _summands(
    counts: FloatVector, kept: BoolVector, moved: tuple[FloatVector, FloatVector]
) -> FloatMatrix:
    """Differences and distinct covariances of every stratum, shape (values, U).

    Args:
        counts: Shape (rows, columns, U).
        kept: Which strata add anything, shape (U,).
        moved: By what cells are moved, as ``counts``, and variances multiplied, shape (U,).
    """
    x, y, n = _margins(counts)
    difference = _jolted(_differences(counts, x, y, n), (x, y, n), moved[0])[:-1, :-1]
    of_x, of_y = _spread(x, n), _spread(y, n) / (n * n * (n - 1.0))
    covariance = of_x[:, None] * of_y * moved[1]
    values = [own.reshape(-1, counts.shape[-1]) for own in (difference, covariance)]
    return np.concatenate(values) * kept


def _moments(counts: FloatVector, moved: tuple[FloatVector, FloatVector]) -> FloatVector:
    """Differences and variances of the cells that are asked for, shape (2, cells, U).

    Args:
        counts: Shape (rows, columns, U).
        moved: As in `_summands`.
    """
    x, y, n = _margins(counts)
    rows, categories = (cell_sides(np.array(len(margin))) for margin in (x, y))
    difference = _jolted(_differences(counts, x, y, n), (x, y, n), moved[0])
    variance = (x * (n - x))[:, None] * (y * (n - y)) / (n * n * (n - 1.0)) * moved[1]
    found = np.stack([difference, variance])[:, :rows, :categories]
    return found.reshape(2, -1, counts.shape[-1])


def _jolted(
    differences: FloatVector,
    margins: tuple[FloatMatrix, FloatMatrix, FloatVector],
    drawn: FloatVector,
) -> FloatVector:
    """Differences and `JOLT` times numbers of the same covariances, which stay as they are.

    Args:
        differences: Shape (rows, columns, U).
        margins: Of rows, of columns, and all of it.
        drawn: Independent numbers from -1 to 1, as ``differences``; all 0: nothing is moved.
    """
    if not drawn.any():
        return differences
    x, y, n = margins
    moved = np.sqrt(x)[:, None] * np.sqrt(y) * drawn / np.sqrt(np.maximum(n - 1.0, 1.0))
    moved -= x[:, None] * moved.sum(axis=0) / n
    moved -= moved.sum(axis=1, keepdims=True) * y / n
    moved *= (x * (n - x))[:, None] * (y * (n - y)) > 0.0  # of a constant rounding would be left
    return jolted(differences, moved)


def _margins(counts: FloatVector) -> tuple[FloatMatrix, FloatMatrix, FloatVector]:
    """Of tables of shape (rows, columns, U): rows, columns, and all of it, 2 at least."""
    x, y = counts.sum(axis=1), counts.sum(axis=0)
    return x, y, np.maximum(x.sum(axis=0), 2.0)


def _differences(
    counts: FloatVector, x: FloatMatrix, y: FloatMatrix, n: FloatVector
) -> FloatVector:
    """How far cells lie from independence; products first: exactly 0 where x or y is constant."""
    difference: FloatVector = counts - x[:, None] * y / n
    return difference


def _spread(margin: FloatMatrix, n: FloatVector) -> FloatMatrix:
    """Upper triangle of n diag m - m m' without the last category, shape (values, U)."""
    first, second = np.triu_indices(len(margin) - 1)
    spread: FloatMatrix = margin[first] * (n * (first == second)[:, None] - margin[second])
    return spread
