"""A site's check of a fit: do the residuals of a score test still follow a number of S?

Residuals are those of the test: clipped, with mean 0. They are summed in bins of the number and in
cells of thirds of two numbers, each less what regression on the basis leaves of its indicator. A
curve that the basis follows leaves sums of about 0. The sums add up over sites; for sites where
curves lie elsewhere, each site's sums are tested alone, too, in as many bins as its rows allow.

Source: White, Econometrica 48 (1980) 817-838, for the variances; Ramsey, JRSS B 31 (1969) 350-371,
for tests of a regression's form by further regressors.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatArray, FloatMatrix, FloatVector
from cipherdag.questions.scores.score_sums import MOST_BINS, MOST_SCORE, THIRDS, Misfits, RaoScores
from cipherdag.sites.compute.score_tests.residuals import FEWEST_REST, clipped_residuals
from cipherdag.sites.compute.score_tests.tables import normal_score
from cipherdag.statistics.regression_fits import LEAST_REST
from cipherdag.statistics.regression_models import Regression

ROWS_PER_SITE_BIN, FEWEST_SITE_BINS = 15, 3
"""Rows less coefficients for each bin of a site's own test, and its fewest bins."""
ROWS_OF_THIRDS = 90  # with fewer of them its cells are of halves
LEAST_DIRECTION = 1e-3
"""What an indicator has less beyond those before it than this share of the longest is left out."""
LEAST_VARIANCE = 0.2  # the least variance of a direction there; those of normal numbers are about 1


class Given(NamedTuple):
    """What a test's regression takes at a site.

    The ``design`` is the basis of S, (n, k), and ``along`` the number that is checked, (n,).
    ``others`` are the other members of S: a number, (n, 1), or indicators of categories, (n, c -
    1).
    """

    design: FloatMatrix
    along: FloatVector
    others: Sequence[FloatMatrix]
    are_numbers: Sequence[bool]

    def indicators(self, bins: int, parts: int) -> FloatMatrix:
        """Bins of the number, and its cells with the others, shape (n, components)."""
        pairs = zip(self.others, self.are_numbers, strict=True)
        numbers = [self.along, *(other[:, 0] for other, number in pairs if number)]
        mine, *sides = (each[:, 1:] for each in _parts(np.stack(numbers), parts))
        made, left = [_parts(self.along[None], bins)[0]], iter(sides)
        for other, number in zip(self.others, self.are_numbers, strict=True):
            side = next(left) if number else other
            made.append((mine[:, :, None] * side[:, None]).reshape(len(mine), -1))
        return np.concatenate(made, axis=1)


class MisfitScores(NamedTuple):
    """Weighted scores (K,), their moments a and f, the site's own normal score, and its rows."""

    scores: FloatVector
    mean: float
    spread: float
    site_score: float
    rows: float


def misfits_answer(
    question: Misfits, fit: Callable[[Regression], MisfitScores | None]
) -> FloatVector:
    """A site's answer, from ``fit``'s check of each regression; 0 where it has none."""
    sizes = question.sizes
    sums = RaoScores(np.zeros(int(sizes.sum())), *np.zeros((5, question.n_tests)))
    start = np.cumsum(sizes) - sizes
    for test in np.flatnonzero(sizes).tolist():
        if (made := fit(question.models[test])) is not None:
            sums.scores[start[test] : start[test] + sizes[test]] = made.scores
            for part, value in zip(sums[1:], (*made[1:4], 1.0, made.rows), strict=True):
                part[test] = value
    return question.pack(sums._replace(spreads=sums.spreads[question.several]))


def misfit_scores(
    given: Given, response: FloatVector, bins: int, all_rows: int
) -> MisfitScores | None:
    """The check of one regression; None where S leaves too little, or too few rows."""
    directions, sizes, _ = np.linalg.svd(given.design, full_matrices=False)
    least = np.finfo(np.float64).eps * max(given.design.shape) * sizes.max(initial=0.0)
    basis = directions[:, sizes > least]
    left, rank = _beyond(basis, response[:, None])[:, 0], basis.shape[1]
    rest, total = float(len(response) - rank), ((response - response.mean()) ** 2).sum()
    if rest < FEWEST_REST or (left**2).sum() <= LEAST_REST * total:
        return None
    everywhere = np.ones((1, len(left)), dtype=bool)
    residuals = clipped_residuals(left[None], np.array([rest]), everywhere)[0]
    products = _beyond(basis, given.indicators(bins, THIRDS)) * residuals[:, None]
    covariance = products.T @ products * (len(left) / rest)
    share = rest / all_rows
    scale = 1.0 / np.sqrt(np.maximum(covariance.diagonal() / share, 1.0))
    most = MOST_SCORE * share * math.sqrt(all_rows)
    covariance *= scale[:, None] * scale
    parts = THIRDS if rest >= ROWS_OF_THIRDS else THIRDS - 1
    few = min(max(int(rest) // ROWS_PER_SITE_BIN, FEWEST_SITE_BINS), MOST_BINS)
    return MisfitScores(
        np.clip(scale * products.sum(axis=0), -most, most),
        float(covariance.trace()),
        math.sqrt(float((covariance**2).sum())),
        _alone(_beyond(basis, given.indicators(few, parts)), residuals, rest),
        rest,
    )


def _alone(indicators: FloatMatrix, residuals: FloatVector, rest: float) -> float:
    """The normal score of the site's own test, by directions of about equal variance.

    They are those of the indicators, one after the other: of singular vectors the last digit would
    decide, as parts of equally many rows have equal singular values.
    """
    further = np.abs(np.linalg.qr(indicators).R.diagonal())
    least = LEAST_DIRECTION * max(float(np.linalg.norm(indicators, axis=0).max()), 1.0)
    directions = np.linalg.qr(indicators[:, np.flatnonzero(further > least)])[0]
    products = directions * residuals[:, None]
    covariance = products.T @ products * (len(residuals) / rest)
    variances = np.maximum(covariance.diagonal(), LEAST_VARIANCE)
    mean = float((covariance.diagonal() / variances).sum())
    squares = float((covariance**2 / np.outer(variances, variances)).sum())
    if squares == 0.0:
        return 0.0
    form = float((products.sum(axis=0) ** 2 / variances).sum())
    # a chi-square of the form's mean and variance (Satterthwaite, 1946)
    scores = normal_score(np.array([form * mean / squares]), np.array([mean**2 / squares]))
    return float(scores[0, 0])


def _beyond(basis: FloatMatrix, columns: FloatMatrix) -> FloatMatrix:
    """What regression on orthonormal columns leaves of columns."""
    left: FloatMatrix = columns - basis @ (basis.T @ columns)
    return left


def _parts(numbers: FloatMatrix, count: int) -> FloatArray:
    """Indicators of numbers' (k, n) parts by their quantiles, shape (k, n, count)."""
    marks = np.quantile(numbers, np.arange(1, count) / count, axis=1)
    parts = (numbers > marks[:, :, None]).sum(axis=0)
    return (parts[:, :, None] == np.arange(count)).astype(np.float64)
