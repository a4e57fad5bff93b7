"""Stratified tests of categories whose differences stay closed: of every cell, does it stand out?

Of a test, D is by how many rows a cell differs from independence within sites and configurations of
S, added up over both, and V its variance given the margins. x and y are independent iff no cell has
abs(D) above t sqrt(V). Over m cells t is such that independent ones would pass with probability 1 -
alpha; dependent ones pass at least as often (Šidák), so the test keeps its level. It sees what
the ``stratified`` form of the sums over configurations sees, not associations of another direction
in another configuration or at another site. The variances are opened before, the differences never.

Where counts are rare D scatters more widely than a normal variate, and t is of a square scaled to
the mean and variance of a chi-square (`chi_square_scale`).

Source: Mantel and Haenszel, JNCI 22 (1959) 719-748; Šidák, JASA 62 (1967) 626-633.

Leaks:
    Of every cell of a test at how many sites it varies; of those that enough sites vary in, the
    sum of the variances, and whether the cell stands out; see `TableCells` and `CellVerdicts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.evidence.closed import finest
from cipherdag.algorithms.evidence.stratified_forms import LEAST_VARIANCE
from cipherdag.algorithms.evidence.stratified_tables import TOO_LARGE_NOT_DONE, StratifiedTests
from cipherdag.questions.coverage import Contributors, opened_where
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.stratified import TableCells
from cipherdag.questions.verdicts import ByCount, CellVerdicts
from cipherdag.statistics.quadratic_forms import chi_square_scale

if TYPE_CHECKING:
    from collections.abc import Generator

    from cipherdag.algorithms.evidence.kind import EvidenceSettings
    from cipherdag.questions.pooled_data import ColumnKinds
    from cipherdag.questions.question import FloatVector, IndexArray, Question

SQUARE_BITS = 10
"""Of the grid of squared thresholds, so that no platform's last digit decides."""
ROUND_VERDICTS = 8_000
"""Of one round: who deals sends their keys, and the sites take turns round by round."""


class ClosedTables(StratifiedTests):
    """Verdicts on tables in the place of p-values: 1 for independent, 0 for dependent.

    As `StratifiedTests`, but that a test of too large a table is not done.

    Leaks:
        See the module.

    Args:
        kinds: The columns, all of them discrete.
        settings: How tests are done.
    """

    def __init__(self, kinds: ColumnKinds, settings: EvidenceSettings) -> None:
        super().__init__(kinds, settings)
        self.kinds = None  # by which sites would be compared, in sums
        self._too_large = TOO_LARGE_NOT_DONE

    def _piece(self, tests: list[IndexArray]) -> Generator[Question, FloatVector, FloatVector]:
        """Verdicts of some tests: a round to count, one of variances, and some to compare."""
        settings, question = self._settings, TableCells(tables=self._tables(tests))
        able = np.rint((yield Contributors(question=question)))
        n_sites, fewest = settings.present.n_sites, max(settings.fewest, 1)
        cells, varying = np.split(able, [len(question.owner)])
        enough = np.concatenate([cells >= fewest, np.zeros(len(varying), dtype=bool)])
        variances = yield from opened_where(question, enough)
        limits = cell_limits(question, variances, settings.spec.alpha)
        compared = np.flatnonzero(limits > 0)
        independent = np.full(question.n_tests, np.nan)
        independent[question.owner[compared]] = 1.0
        amounts, bits = difference_amounts(settings.max_rows, n_sites, fewest)
        for start in range(0, len(compared), ROUND_VERDICTS):
            own = compared[start : start + ROUND_VERDICTS]
            within = yield CellVerdicts(
                question=TableCells(tables=question.tables, differences=True),
                amounts=amounts,
                grid_bits=bits,
                cells=pack_integers(own),
                able=pack_integers(cells[own].astype(np.int64)),
                limits=pack_integers(np.ldexp(limits[own], bits).astype(np.int64)),
            )
            independent[question.owner[own[within == 0]]] = 0.0
        return self._settled(tests, independent, varying, varying)


def cell_limits(question: TableCells, variances: FloatVector, alpha: float) -> FloatVector:
    """How far the difference of every cell may lie from 0, shape (K,); 0: it is not compared.

    Args:
        question: The cells.
        variances: Summed over the sites; 0 where too few vary.
        alpha: How many tests of independent variables may say dependent.
    """
    from scipy.special import chdtri

    variance = variances[: len(question.owner)]
    compared = variance > LEAST_VARIANCE
    owner, own = question.owner[compared], variance[compared]
    together = np.bincount(owner, minlength=question.n_tests)[owner]
    level = -np.expm1(np.log1p(-alpha) / together)
    scale = chi_square_scale(np.ones(len(own)), 1.0 / own)
    square = np.ldexp(np.ceil(np.ldexp(chdtri(scale, level) / scale, SQUARE_BITS)), -SQUARE_BITS)
    limits = np.zeros(len(variance))
    limits[compared] = np.sqrt(square * own)
    return limits


def difference_amounts(max_rows: int, n_sites: int, fewest: int) -> tuple[ByCount, int]:
    """All amounts of differences, moved up by each site's largest, and their grid.

    Args:
        max_rows: Declared bound of a site's rows; a difference is a quarter of it at most.
        n_sites: How many sites there are.
        fewest: How many contribute at least where a verdict is true.

    Raises:
        ParameterError: There are too many sites, or rows at one.
    """

    def amounts(bits: int) -> ByCount:
        half = -(-(max_rows << bits) // 4)
        return ByCount(
            low=(0,) * (n_sites + 1),
            high=tuple(2 * k * half if k >= fewest else -1 for k in range(n_sites + 1)),
            largest=2 * half,
        )

    return finest(amounts, "reveal verdicts with evidence stratified needs a smaller max_rows")
