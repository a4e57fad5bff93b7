"""Stratified tests of categories whose differences stay closed: of every cell, does it stand out?

Of a test, D is by how many rows a cell differs from independence within sites and configurations of
S, added up over both, and V its variance given the margins. x and y are independent iff no cell has
abs(D) above t sqrt(V), and the sum of the scores of the k sites' own tests is not above u sqrt(k).
Over m cells t is such that independent ones would pass with probability 1 - alpha; dependent ones
pass at least as often (Šidák), and u takes its part of alpha, so the test keeps its level. Cells
see what the form of the sums sees; own tests see associations of another direction in another
configuration or at another site, as in `stratified_forms`. Variances are opened before,
differences and scores never.

Where counts are rare D scatters more widely than a normal variate, and t is of a square scaled to
the mean and variance of a chi-square (`chi_square_scale`), or where several cells are compared of a
Poisson count of the cell's variance; where no cell of a test varies by more
than one pair of rows, a bound on such sums is compared (`faint_p`).

Source: Mantel and Haenszel, JNCI 22 (1959) 719-748; Šidák, JASA 62 (1967) 626-633.

Leaks:
    Of every cell of a test at how many sites it varies, and how many have a score; of those that
    enough sites vary in, the sum of the variances, and whether the cell stands out; where enough
    have one, whether the sum of the scores does; see `TableCells` and `CellVerdicts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.evidence.closed_cells import (
    Opened,
    independent_within,
    on_grid,
    square_limits,
)
from cipherdag.algorithms.evidence.stratified_forms import (
    LEAST_VARIANCE,
    OWN_WEIGHT,
    TURNING_WEIGHT,
    faint_p,
)
from cipherdag.algorithms.evidence.stratified_tables import TOO_LARGE_NOT_DONE, StratifiedTests
from cipherdag.questions.stratified import CELL_BITS, TableCells
from cipherdag.statistics.quadratic_forms import chi_square_scale

if TYPE_CHECKING:
    from collections.abc import Generator

    from cipherdag.algorithms.evidence.kind import EvidenceSettings
    from cipherdag.questions.pooled_data import ColumnKinds
    from cipherdag.questions.question import FloatVector, IndexArray, Question

ROUNDED = 2.0 ** -(CELL_BITS + 1)
"""Of one site's variance, what its grid rounds off at most."""
FAINT_STEP = 0.25
"""Of limits where next to nothing varies: coarse, so that no platform's last digit decides."""
FAINT_STEPS = 256


class ClosedTables(StratifiedTests):
    """Verdicts on tables in the place of p-values: 1 for independent, 0 for dependent.

    As `StratifiedTests`, but that a test of too large a table is not done.

    Leaks:
        See the module.

    Args:
        kinds: The columns; tests are of discrete ones.
        settings: How tests are done.
        opened: Opens what is opened beside verdicts, once for all levels.
    """

    def __init__(self, kinds: ColumnKinds, settings: EvidenceSettings, opened: Opened) -> None:
        super().__init__(kinds, settings)
        self._opened = opened
        self.kinds = None  # by which sites would be compared, in sums
        self._too_large = TOO_LARGE_NOT_DONE

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        """Verdicts of some tests: two rounds that `Opened` asks, and some to compare."""
        question = TableCells(tables=self._tables(tests))
        (able, variances), n_sites = yield from self._opened.ask(tests, question)
        varying = able[len(question.owner) :]
        limits = self._limits(question, able, variances[: len(question.owner)])
        independent = yield from independent_within(
            question, limits, self._settings, n_sites=n_sites, quarters=1
        )
        return self._settled(tests, independent, varying)

    def _limits(
        self, question: TableCells, able: FloatVector, variances: FloatVector
    ) -> FloatVector:
        heard = np.where(able >= max(self._settings.fewest, 1), able, 0.0)[: len(variances)]
        return cell_limits(question, heard, variances, self._settings.spec.alpha)


def cell_limits(
    question: TableCells, heard: FloatVector, variances: FloatVector, alpha: float
) -> FloatVector:
    """How far the difference of every cell, and each score, may lie from 0; 0: it is not compared.

    Args:
        question: The cells.
        heard: How many sites each varies at, shape (K,); 0 where these are too few.
        variances: Summed over the sites, shape (K,); 0 where too few vary, or next to nothing does.
        alpha: How many tests of independent variables may say dependent.
    """
    n_cells = len(variances) - question.n_tests
    owner, variances, sites = question.owner[:n_cells], *np.split(variances, [n_cells])
    heard = heard[:n_cells]
    weight = np.where(question.tables.sides[:, 0] > 1, TURNING_WEIGHT, OWN_WEIGHT)
    level = alpha / (1.0 + np.where(sites > 0, weight, 0.0))
    # what the grid may have rounded off is added: alike sites round alike
    told = np.where(variances > LEAST_VARIANCE, variances + heard * ROUNDED, 0.0)
    own = told[told > 0]
    scale = chi_square_scale(np.ones(len(own)), 1.0 / own)
    limits = square_limits(owner, told, scale, level[owner], counts=True)
    some = np.bincount(owner, weights=told, minlength=question.n_tests) > 0
    faint = (heard > 0) & ~some[owner]
    most = np.zeros(question.n_tests)
    np.maximum.at(most, owner[faint], heard[faint])
    cells = np.bincount(owner[faint], minlength=question.n_tests)
    limits[faint] = faint_limits(cells, most, level)[owner[faint]]
    some |= cells > 0
    return np.concatenate([limits, score_limits(sites, np.where(some, level * weight, alpha))])


def score_limits(sites: FloatVector, level: FloatVector) -> FloatVector:
    """What the sums of so many sites' scores may come to, shape (B,); 0 of none.

    Args:
        sites: Shape (B,).
        level: How many tests of independent variables may say dependent, shape (B,).
    """
    from scipy.special import ndtri

    deviations = np.where(sites > 0, -ndtri(np.where(sites > 0, level, 0.5)), 0.0)
    return on_grid(np.square(deviations)) ** 0.5 * np.sqrt(sites)


def faint_limits(cells: IndexArray, heard: FloatVector, level: FloatVector) -> FloatVector:
    """As `cell_limits`, of tests in which no cell varies by more than `LEAST_VARIANCE`.

    Args:
        cells: How many there are, shape (B,).
        heard: At how many sites one of them varies at most, shape (B,).
        level: How many tests of independent variables may say dependent, shape (B,).
    """
    steps = FAINT_STEP * np.arange(1.0, FAINT_STEPS)
    beyond = faint_p(steps, cells[:, None], heard[:, None]) <= level[:, None]
    limits: FloatVector = steps[beyond.argmax(axis=1)]
    return limits
