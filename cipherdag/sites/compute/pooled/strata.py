"""A site's half of stratified tables: differences from independence within its own strata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from cipherdag.questions.stratified import OWN_SCALE, OWN_VALUES, stratum_values
from cipherdag.statistics.quadratic_forms import (
    chi_square_scale,
    kronecker_matrices,
    quadratic_forms,
)
from cipherdag.statistics.table_shapes import TableShape

if TYPE_CHECKING:
    from cipherdag.questions.stratified import StratifiedTables
    from cipherdag.sites.compute.ci_tests.ci_test import FloatVector, IndexArray
    from cipherdag.sites.compute.ci_tests.counts import DiscreteColumns
    from cipherdag.statistics.quadratic_forms import FloatMatrix

BYTES_PER_CELL = 64
OWN_VARIANCE = 1.0
"""Below it, differences of one site are too far from normal for a chi-square."""
OWN_STEPS = 16.0
"""To parts of it degrees of freedom are told: finer ones would tell more of the margins."""


def stratified_answer(
    question: StratifiedTables,
    columns: DiscreteColumns,
    *,
    least: int,
    within: DiscreteColumns | None = None,
) -> FloatVector:
    """The answer to `StratifiedTables`.

    Args:
        question: Which triplets.
        columns: The site's rows, every variable with all its categories.
        least: Rows below which a stratum adds nothing, at least 2.
        within: The rows that these were drawn from, if they were; a stratum with fewer there adds
            nothing either.
    """
    sides = question.sides()
    lengths = stratum_values(sides) * sides[:, 0]
    starts = np.cumsum(lengths) - lengths
    answer = np.zeros(int(lengths.sum()))
    first = 0
    for rows in question.rows():
        own = slice(first, first + len(rows))
        first += len(rows)
        for shape, group in _by_shape(sides[own]):
            chunk = columns.chunk(shape.cells, bytes_per_element=BYTES_PER_CELL)
            for tests in np.split(group, range(chunk, len(group), chunk)):
                tables = _tables(columns, rows[tests], shape)
                kept = tables.sum(dim=(1, 2)) >= least
                if within is not None:
                    kept &= _tables(within, rows[tests], shape).sum(dim=(1, 2)) >= least
                # one triplet's strata one after the other
                values = _summands(tables, kept).permute(2, 0, 1).reshape(len(tests), -1)
                place = starts[own][tests][:, None] + np.arange(values.shape[1])
                answer[place] = values.cpu().numpy()
    own_tests = OWN_SCALE * _own_tests(answer, sides)
    return np.concatenate([answer, np.minimum(own_tests, question.encodings[0].bound).ravel()])


def _own_tests(answer: FloatVector, sides: IndexArray) -> FloatMatrix:
    """Chi-square and degrees of freedom of every test at this site, scaled, shape (B, 2).

    Args:
        answer: Differences and distinct covariances of all strata, test by test.
        sides: Configurations, categories of x and of y of every test, shape (B, 3).
    """
    found = np.zeros((len(sides), OWN_VALUES))
    strata, widths = sides[:, 0], stratum_values(sides)
    starts = np.cumsum(strata * widths) - strata * widths
    sizes, which = np.unique(sides[:, 1:], axis=0, return_inverse=True)
    for number, (rows, columns) in enumerate(sizes.tolist()):
        tests, a, b = np.flatnonzero(which.ravel() == number), rows - 1, columns - 1
        ends = np.cumsum(strata[tests])
        firsts, width = ends - strata[tests], widths[tests[0]]
        place = np.repeat(starts[tests] - firsts * width, strata[tests])
        place = (place + np.arange(ends[-1]) * width)[:, None] + np.arange(width)
        summed = np.add.reduceat(answer[place], firsts)
        covariances = kronecker_matrices(summed[:, a * b :], a, b)
        form, rank, rare = quadratic_forms(summed[:, : a * b], covariances, tolerance=OWN_VARIANCE)
        dof = np.rint(OWN_STEPS * rank * chi_square_scale(rank, rare)) / OWN_STEPS
        found[tests] = np.stack([form * dof / np.maximum(rank, 1), dof], axis=1)
    return found


def _by_shape(sides: IndexArray) -> list[tuple[TableShape, IndexArray]]:
    """The tests of every shape of table, as places in ``sides``, shape (B, 3)."""
    if not len(sides):
        return []
    shapes, which = np.unique(sides, axis=0, return_inverse=True)
    which = which.ravel()
    return [(TableShape(*own), np.flatnonzero(which == k)) for k, own in enumerate(shapes.tolist())]


def _tables(columns: DiscreteColumns, rows: IndexArray, shape: TableShape) -> torch.Tensor:
    """Counts, shape (configurations, rows, columns, B)."""
    return columns.tables(rows[:, 0], rows[:, 1], rows[:, 2:], shape)


def _summands(tables: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Differences and distinct covariances of every stratum, shape (configurations, values, B)."""
    counts = tables.double()
    x, y = counts.sum(dim=2), counts.sum(dim=1)
    n = x.sum(dim=1).clamp(min=2.0)
    weight = kept.double()[:, None]
    # products of counts first: exactly 0 where x or y does not vary
    expected = x[:, :-1, None] * y[:, None, :-1] / n[:, None, None]
    difference = (counts[:, :-1, :-1] - expected).reshape(len(counts), -1, counts.shape[-1])
    of_x, of_y = _spread(x, n), _spread(y, n) / (n * n * (n - 1.0))[:, None]
    covariance = (of_x[:, :, None] * of_y[:, None]).reshape(len(counts), -1, counts.shape[-1])
    return torch.cat([difference, covariance], dim=1) * weight


def _spread(margin: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """Upper triangle of n diag m - m m' without the last category, shape (configurations, ., B)."""
    kept = margin[:, :-1]
    if kept.shape[1] == 1:
        return kept * (n[:, None] - kept)
    first, second = torch.triu_indices(kept.shape[1], kept.shape[1])
    same = (first == second).to(kept.dtype)[:, None]
    spread: torch.Tensor = kept[:, first] * (n[:, None] * same - kept[:, second])
    return spread
