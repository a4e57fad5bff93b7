"""A site's half of stratified tables: differences from independence within its own strata."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.stratified import OWN_SCALE, OWN_VALUES, cell_sides
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
    spreads: FloatVector,
    within: DiscreteColumns | None = None,
) -> FloatVector:
    """The answer to `StratifiedTables`.

    Args:
        question: Which triplets.
        columns: The site's rows, every variable with all its categories.
        least: Rows below which a stratum adds nothing, at least 2.
        spreads: What the variances of every variable are multiplied by, shape (p,).
        within: The rows that these were drawn from, if they were; a stratum with fewer there adds
            nothing either.
    """
    strata = question.strata
    answer = np.zeros(strata.n_values)
    for own, counts, kept in _tables(question, columns, least=least, within=within):
        values = _summands(counts, kept)
        answer[strata.starts[own] + np.arange(len(values))[:, None]] = values
    own_tests = OWN_SCALE * _own_tests(question.wholes(answer), strata)
    own_tests = np.minimum(own_tests, question.encodings[0].bound)
    answer *= _blurred(question, spreads)
    return np.concatenate([answer, own_tests.ravel(), question.wholes(answer)])


def _blurred(question: StratifiedTables, spreads: FloatVector) -> FloatVector:
    """What every value of the strata is multiplied by: 1 of differences."""
    strata = question.strata
    moved = _moved(question, spreads)
    differences = (strata.shapes - 1).prod(axis=1)[strata.shape_of]
    value = np.arange(strata.n_values) - np.repeat(strata.starts, strata.widths)
    of_variance = value >= np.repeat(differences, strata.widths)
    return np.where(of_variance, np.repeat(moved[strata.owner], strata.widths), 1.0)


def _moved(question: StratifiedTables, spreads: FloatVector) -> FloatVector:
    """What the variances of every triplet are multiplied by, shape (B,)."""
    parts = [spreads[rows[:, 0]] * spreads[rows[:, 1]] for rows in question.rows()]
    return np.concatenate([np.zeros(0), *parts])


def cells_answer(
    question: TableCells,
    columns: DiscreteColumns,
    *,
    least: int,
    spreads: FloatVector,
    within: DiscreteColumns | None = None,
) -> FloatVector:
    """The answer to `TableCells` with differences; arguments as of `stratified_answer`."""
    strata, n_cells = question.tables.strata, len(question.owner)
    sizes = question.sides.prod(axis=1)
    starts = np.cumsum(sizes) - sizes
    moments = np.zeros((2, n_cells))
    for own, counts, kept in _tables(question.tables, columns, least=least, within=within):
        values = _moments(counts) * kept
        place = starts[strata.owner[own]] + np.arange(values.shape[1])[:, None]
        for total, summand in zip(moments, values, strict=True):
            np.add.at(total, place, summand)
    difference, variance = moments
    variance *= _moved(question.tables, spreads)[question.owner]
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


def _summands(counts: FloatVector, kept: BoolVector) -> FloatMatrix:
    """Differences and distinct covariances of every stratum, shape (values, U).

    Args:
        counts: Shape (rows, columns, U).
        kept: Which strata add anything, shape (U,).
    """
    x, y, n = _margins(counts)
    difference = _differences(counts, x, y, n)[:-1, :-1]
    of_x, of_y = _spread(x, n), _spread(y, n) / (n * n * (n - 1.0))
    covariance = of_x[:, None] * of_y
    values = [own.reshape(-1, counts.shape[-1]) for own in (difference, covariance)]
    return np.concatenate(values) * kept


def _moments(counts: FloatVector) -> FloatVector:
    """Differences and variances of the cells that are asked for, shape (2, cells, U).

    Args:
        counts: Shape (rows, columns, U).
    """
    x, y, n = _margins(counts)
    rows, categories = (cell_sides(np.array(len(margin))) for margin in (x, y))
    difference = _differences(counts, x, y, n)
    variance = (x * (n - x))[:, None] * (y * (n - y)) / (n * n * (n - 1.0))
    found = np.stack([difference, variance])[:, :rows, :categories]
    return found.reshape(2, -1, counts.shape[-1])


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
