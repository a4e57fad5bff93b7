"""Differences whose variances are opened and which stay closed: does each lie within its limit?

Leaks:
    Of every cell at how many sites it varies, and of those that enough sites vary in the sum of the
    variances and whether the cell stands out; see `CellVerdicts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.algorithms.evidence.remembering import keys_of_any_width
from cipherdag.questions.closed.words import finest
from cipherdag.questions.coverage import Contributors, opened_where
from cipherdag.questions.encodings import pack_integers
from cipherdag.questions.verdicts import CellVerdicts

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from cipherdag.algorithms.evidence.kind import EvidenceSettings
    from cipherdag.questions.question import FloatVector, IndexArray, Question
    from cipherdag.questions.scores.score_weights import ScoreWeights
    from cipherdag.questions.stratified import TableCells

SQUARE_BITS = 10
"""Of the grid of squared thresholds, so that no platform's last digit decides."""
DIFFERENCE_BITS = 6
"""Of the grid of differences at most: finer ones turn no verdict, and make keys longer."""
ROUND_VERDICTS = 8_000
"""Of one round, whose keys the dealer sends."""


class Opened:
    """What is opened of tests before they are compared, so that it is opened once.

    To open it again for another level would leave, where a site has left in between, what that site
    alone had answered.

    Args:
        settings: How tests are done.
    """

    def __init__(self, settings: EvidenceSettings) -> None:
        self._settings = settings
        self._known: dict[tuple[int, int | bytes], tuple[int, FloatVector]] = {}

    def ask(
        self, tests: Sequence[IndexArray], question: TableCells | ScoreWeights
    ) -> Generator[Question, FloatVector, tuple[FloatVector, int]]:
        """How many sites contribute to each part of a question, and the variances, shape (2, K).

        Args:
            tests: By size of S: all of them asked before, or none.
            question: About them, without differences.

        Returns:
            These, and of how many sites they were counted. Rounds: one to count, and one of
            variances of what enough sites contribute to; none of tests asked before, and 0 of those
            asked when more sites were there.
        """
        keys = [key for rows in tests for key in keys_of_any_width(rows)]
        if all(key in self._known for key in keys):
            return self._again(keys, question), self._settings.present.n_sites
        able = np.rint((yield Contributors(question=question)))
        n_sites = self._settings.present.n_sites
        enough = able >= max(self._settings.fewest, 1)
        enough[len(question.owner) :] = False
        found = np.stack([able, (yield from opened_where(question, enough))])
        order, ends = _by_test(question, len(able))
        parts = np.split(found[:, order], ends[:-1], axis=1)
        self._known |= {key: (n_sites, own) for key, own in zip(keys, parts, strict=True)}
        return found, n_sites

    def _again(
        self, keys: Sequence[tuple[int, int | bytes]], question: TableCells | ScoreWeights
    ) -> FloatVector:
        n_sites = self._settings.present.n_sites
        parts = [own * float(then == n_sites) for then, own in map(self._known.__getitem__, keys)]
        together = np.concatenate([np.zeros((2, 0)), *parts], axis=1)
        order, _ = _by_test(question, together.shape[1])
        found = np.empty_like(together)
        found[:, order] = together
        return found


def _by_test(question: TableCells | ScoreWeights, length: int) -> tuple[IndexArray, IndexArray]:
    """Where the parts of a question's answer stand test by test, and where those of each end."""
    every = np.arange(question.n_tests)
    owner = np.concatenate([question.owner, every])[:length]
    ends = np.cumsum(np.bincount(owner, minlength=question.n_tests))
    return np.argsort(owner, kind="stable"), ends


def independent_within(
    question: TableCells | ScoreWeights,
    limits: FloatVector,
    settings: EvidenceSettings,
    *,
    n_sites: int,
    quarters: int,
) -> Generator[Question, FloatVector, FloatVector]:
    """1 for every test all of whose cells lie within their limits, 0 for the others, shape (B,).

    Args:
        question: The cells, without differences.
        limits: How far the difference of every cell may lie from 0; 0 where it is not compared.
        settings: How tests are done.
        n_sites: Of how many sites contributors were counted.
        quarters: Largest difference of a site, in quarters of ``max_rows``; more changes none.

    Returns:
        NaN where no cell of a test is compared; a round per `ROUND_VERDICTS` cells.

    Raises:
        ParameterError: There are too many sites, or rows at one.
    """
    compared = np.flatnonzero(limits > 0)
    independent = np.full(question.n_tests, np.nan)
    independent[question.owner[compared]] = 1.0
    # no site has more rows than all; the shorter sums are, the shorter are the keys
    most = 1 << max(settings.rows - 1, 1).bit_length() if settings.rows else settings.max_rows
    rows = min(settings.max_rows, most)
    largest, bits = largest_difference(rows, n_sites, quarters=quarters)
    for start in range(0, len(compared), ROUND_VERDICTS):
        own = compared[start : start + ROUND_VERDICTS]
        beyond = yield CellVerdicts(
            question=question.with_differences(),
            grid_bits=bits,
            largest=largest,
            cells=pack_integers(own),
            limits=pack_integers(np.ldexp(limits[own], bits).astype(np.int64)),
        )
        independent[question.owner[own[beyond > 0]]] = 0.0
    return independent


def square_limits(
    owner: IndexArray,
    variances: FloatVector,
    scale: FloatVector,
    alpha: FloatVector,
    *,
    counts: bool = False,
) -> FloatVector:
    """How far every cell may lie from 0 so that independent ones of a test all do, shape (K,).

    Args:
        owner: The test of every cell, shape (K,).
        variances: Shape (K,); 0 where a cell is not compared.
        scale: By what the square of a cell in deviations, and its degree of freedom, are multiplied
            to be a chi-square, of cells that are compared.
        alpha: How many tests of independent variables may say dependent, of each cell's test.
        counts: Whether they are counts, which of several in a test may be as far out as Poisson's.
    """
    from scipy.special import chdtri, pdtrik

    compared = variances > 0
    own = variances[compared]
    together = np.bincount(owner[compared], minlength=1)[owner[compared]]
    level = -np.expm1(np.log1p(-alpha[compared]) / together)
    square = chdtri(scale, level) / scale
    if counts:
        # far out the tail of a count is longer than that of a scaled chi-square
        several = together > 1
        limit = pdtrik(1.0 - level[several] / 2.0, own[several]) + 1.0 - own[several]
        square[several] = limit * limit / own[several]
    limits = np.zeros(len(variances))
    limits[compared] = np.sqrt(on_grid(square) * own)
    return limits


def on_grid(squares: FloatVector) -> FloatVector:
    """Squared thresholds on a grid, not below what they were."""
    found: FloatVector = np.ldexp(np.ceil(np.ldexp(squares, SQUARE_BITS)), -SQUARE_BITS)
    return found


def largest_difference(max_rows: int, n_sites: int, *, quarters: int) -> tuple[int, int]:
    """The largest difference of a site on the finest grid, and the grid.

    Args:
        max_rows: Declared bound of a site's rows.
        n_sites: How many sites there are.
        quarters: Largest difference of a site, in quarters of ``max_rows``.

    Raises:
        ParameterError: There are too many sites, or rows at one.
    """
    otherwise = "reveal verdicts with evidence stratified needs a smaller max_rows"
    return finest(
        lambda bits: -(-(quarters * max_rows << bits) // 4),
        n_sites,
        otherwise,
        most=DIFFERENCE_BITS,
    )
