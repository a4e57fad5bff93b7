"""The Cochran-Mantel-Haenszel test by site and configuration of S, for any table: its arithmetic.

Within a stratum, given its margins, the counts are hypergeometric if x and y are independent there;
their differences from independence and the exact variances add up over the sites and the
configurations of S. A sum of squares of these sums (`table_forms`) puts its power on an association
that runs through all of them and spreads over the table, the largest cell on one that does not. Of
the sites' own sums of squares the normal scores add up (Stouffer): that of all configurations sees
associations of another direction at another site, that of every configuration those of another
direction in another configuration. The p-values are combined by a mean of Cauchy variates, which
asks no independence of them; all but the first have smaller parts in it, and little is lost where
the first sees all there is.

No covariance of two cells is asked for, or inverted: those of 99 cells, each told to a sixteenth,
found two independent columns of 12 and 10 categories dependent in 42 % of tests at level .01.

Where categories are rare the statistics scatter more widely than chi-square, and are scaled to its
mean and variance for their p-values, the sites' own at the sites. Where next to nothing varies a
bound on such sums stands in their place (`faint_p`).

Source: Mantel and Haenszel, JNCI 22 (1959) 719-748; Landis, Heyman and Koch, International
Statistical Review 46 (1978) 237-254; Agresti, Categorical Data Analysis, section 8.4 (general
association); Liu and Xie, JASA 115 (2020) 393-402 (Cauchy combination); Bennett, JASA 57 (1962)
33-45 (sums of bounded variates).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.combined_evidence import SMALLEST_P
from cipherdag.questions.encodings import require_possible
from cipherdag.questions.stratified import (
    CELL_BITS,
    OWN_VALUES,
    SPREAD,
    SPREAD_VARIANCE,
    cell_sides,
)
from cipherdag.statistics.table_forms import expected_of, largest_cell_p, table_forms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cipherdag.questions.question import FloatVector, IndexArray, StratifiedTables

    FloatMatrix = NDArray[np.float64]

LEAST_VARIANCE = 0.25
"""That of one pair of rows that differ in x and in y; a difference of no more tells nothing."""
ROUNDING = 2.0**-12
"""Of a variance: more than the grids of all sites together round off."""
BATCH_ENTRIES = 2**20
NEAR_POLE = 1e-15
LARGEST_WEIGHT, OWN_WEIGHT, TURNING_WEIGHT = 0.5, 0.2, 0.5
"""Parts of the largest cell, and of the sites' own tests, of all configurations and of each, where
the sum of squares has 1."""


@dataclass(frozen=True, slots=True)
class StratifiedForms:
    """What the sums of every test come to, shape (B,) each.

    Attributes:
        whole: Chi-square of the sums over sites and configurations.
        whole_dof: Its degrees of freedom; 0 where too little varies.
        largest_p: The p-value of the cell that stands out most; 1 of one cell alone.
        own: Sum of the sites' own scores, each of all configurations together.
        own_sites: How many they are.
        turning: Sum of the sites' own scores, each of every configuration.
        turning_sites: How many they are.
        largest: The largest difference in a cell, of the sums; 0 where nothing was opened.
        log_odds: Of two categories each, the one-step logarithm of the odds ratio, and its standard
            deviation, shape (B, 2); NaN else.
    """

    whole: FloatVector
    whole_dof: FloatVector
    largest_p: FloatVector
    own: FloatVector
    own_sites: FloatVector
    turning: FloatVector
    turning_sites: FloatVector
    largest: FloatVector
    log_odds: FloatMatrix


def stratified_forms(
    question: StratifiedTables, sums: FloatVector, sites: FloatVector
) -> StratifiedForms:
    """The statistics of every triplet.

    Args:
        question: What was asked.
        sums: Over the sites; zero in parts that were left out.
        sites: How many sites each is a sum of, shape (B,).

    Raises:
        AggregateRangeError: A variance is negative.
    """
    whole, largest = np.zeros((2, question.n_tests)), np.zeros(question.n_tests)
    log_odds, largest_p = np.full((question.n_tests, 2), np.nan), np.ones(question.n_tests)
    for tests, differences, variances in _batches(question, sums):
        require_possible(question.label, "a negative variance", holds=variances.min(initial=0) >= 0)
        forms = table_forms(differences, variances, expected_of(variances))
        # each site that restricts small counts moves its variances by one number
        whole[:, tests] = forms.scaled(beyond=SPREAD_VARIANCE / np.maximum(sites[tests], 1.0))
        whole[:, tests] *= variances.max(axis=(0, 1)) > LEAST_VARIANCE
        largest[tests] = np.abs(differences).max(axis=(0, 1))
        if differences.shape[:2] != (1, 1):
            largest_p[tests] = largest_cell_p(differences, variances)
            continue
        variance = variances[0, 0]
        precision = np.where(variance > LEAST_VARIANCE, variance, np.nan)
        log_odds[tests, 0] = differences[0, 0] / precision
        log_odds[tests, 1] = 1.0 / np.sqrt(precision)
    own, turning = sums[int(question.widths[: question.n_tests].sum()) :].reshape(
        2, question.n_tests, OWN_VALUES
    )
    return StratifiedForms(
        whole=whole[0],
        whole_dof=whole[1],
        largest_p=largest_p,
        own=own[:, 0],
        own_sites=np.rint(own[:, 1]),
        turning=turning[:, 0],
        turning_sites=np.rint(turning[:, 1]),
        largest=largest,
        log_odds=log_odds,
    )


def _batches(
    question: StratifiedTables, sums: FloatVector
) -> Iterator[tuple[IndexArray, FloatMatrix, FloatMatrix]]:
    """Tests of one shape of table that were opened, (U,), their differences and variances.

    The latter have the shape (rows, columns, U) each.
    """
    widths = question.widths[: question.n_tests]
    starts = np.cumsum(widths) - widths
    told = question.informative(sums)[: question.n_tests]
    shapes, shape_of = np.unique(cell_sides(question.sides[:, 1:]), axis=0, return_inverse=True)
    for number, (rows, columns) in enumerate(shapes.tolist()):
        tests = np.flatnonzero(told & (shape_of.ravel() == number))
        most = max(BATCH_ENTRIES // (rows * columns), 1)
        for first in range(0, len(tests), most):
            part = tests[first : first + most]
            values = sums[starts[part] + np.arange(widths[part[0]])[:, None]]
            differences, variances = values.reshape(2, rows, columns, len(part))
            yield part, differences, variances


def omnibus_p(forms: StratifiedForms) -> FloatVector:
    """The p-value of every test, shape (B,); NaN where nothing varies enough."""
    from cipherdag.statistics.contingency import chi_square_tail

    p_values = np.stack(
        [
            chi_square_tail(forms.whole, forms.whole_dof),
            forms.largest_p,
            _tail(forms.own, forms.own_sites),
            _tail(forms.turning, forms.turning_sites),
        ]
    )
    whole = forms.whole_dof > 0
    several = whole & (forms.largest_p < 1.0)
    told = np.stack([whole, several, forms.own_sites > 0, forms.turning_sites > 0])
    weights = [[1.0], [LARGEST_WEIGHT], [OWN_WEIGHT], [TURNING_WEIGHT]]
    parts = np.where(whole, weights, 1.0)
    return cauchy_combination(p_values, np.where(told, parts, 0.0))


def _tail(scores: FloatVector, sites: FloatVector) -> FloatVector:
    """The p-values of sums of so many scores."""
    from scipy.special import ndtr

    found: FloatVector = ndtr(-scores / np.sqrt(np.maximum(sites, 1.0)))
    return found


def faint_p(largest: FloatVector, cells: IndexArray, told: FloatVector | IndexArray) -> FloatVector:
    """A bound on the p-value of tests in which no cell varies by more than `LEAST_VARIANCE`.

    A count given its margins is a sum of independent zeros and ones, so its difference d from what
    is expected exceeds t with probability exp(-v h(t / v)) at most, h(u) = (1 + u) ln (1 + u) - u
    and v its variance (Bennett, 1962): that three or more rows meet where none was to be expected
    is no chance; that none do says nothing.

    Args:
        largest: The largest absolute difference in a cell, shape (B,).
        cells: How many cells it is the largest of, shape (B,).
        told: How many numbers it is a sum of, each rounded to the grid, shape (B,).
    """
    rounding = told * 2.0 ** -(CELL_BITS + 1)
    variance = LEAST_VARIANCE / (1.0 - SPREAD) ** 2 + rounding
    beyond = np.maximum(largest - rounding, 0.0) / variance
    exponent = variance * ((1.0 + beyond) * np.log1p(beyond) - beyond)
    bound: FloatVector = np.minimum(2.0 * cells * np.exp(-exponent), 1.0)
    return bound


def cauchy_combination(p_values: FloatMatrix, weights: FloatMatrix) -> FloatVector:
    """One p-value of several, whatever their dependence, exact in the limit of small ones.

    Args:
        p_values: Shape (k, B).
        weights: How much each counts, shape (k, B); those of weight 0 may be NaN.

    Returns:
        Shape (B,); NaN where all weights are 0.
    """
    counting = weights > 0
    p = np.clip(np.where(counting, p_values, 0.5), SMALLEST_P, 1.0 - NEAR_POLE)
    # tan near its pole loses digits, and 1 / (pi p) is its limit
    variates = np.where(p < NEAR_POLE, 1.0 / (np.pi * p), np.tan((0.5 - p) * np.pi))
    total = np.where(counting.any(axis=0), weights.sum(axis=0), np.nan)
    combined: FloatVector = np.arctan2(1.0, (variates * weights).sum(axis=0) / total) / np.pi
    return combined
