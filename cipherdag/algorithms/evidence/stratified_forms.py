"""The generalised Cochran-Mantel-Haenszel test by site and configuration of S: its arithmetic.

Within a stratum, given its margins, the counts are hypergeometric if x and y are independent there;
their differences from independence and the exact covariances add up over the sites. Two chi-square
statistics come of the sums: one form per configuration of S, added up, sees associations of
another direction in another configuration; one form of the sums over all configurations puts all
its power on an association that runs through all of them. Their p-values are combined by the mean
of Cauchy variates, which asks no independence of them.

Source: Mantel and Haenszel, JNCI 22 (1959) 719-748; Landis, Heyman and Koch, International
Statistical Review 46 (1978) 237-254; Agresti, Categorical Data Analysis, section 8.4 (general
association); Liu and Xie, JASA 115 (2020) 393-402 (Cauchy combination).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.combined_evidence import SMALLEST_P
from cipherdag.questions.encodings import require_possible
from cipherdag.statistics.quadratic_forms import kronecker_matrices, quadratic_forms

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


@dataclass(frozen=True, slots=True)
class StratifiedForms:
    """Two chi-square statistics of every test, shape (B,) each.

    Attributes:
        general: Sum over the configurations.
        general_dof: Its degrees of freedom.
        consistent: Of the sums over the configurations.
        consistent_dof: Its degrees of freedom.
    """

    general: FloatVector
    general_dof: FloatVector
    consistent: FloatVector
    consistent_dof: FloatVector


def stratified_forms(question: StratifiedTables, sums: FloatVector) -> StratifiedForms:
    """Both statistics of every triplet.

    Args:
        question: What was asked.
        sums: Over the sites; zero in strata that were left out.

    Raises:
        AggregateRangeError: A variance is negative.
    """
    general, consistent = np.zeros((2, len(question.sides()))), np.zeros((2, len(question.sides())))
    for owner, differences, covariances in _batches(question, sums):
        least = np.diagonal(covariances, axis1=1, axis2=2).min(initial=0.0)
        require_possible(question.label, "a negative variance", holds=least >= -ROUNDING)
        _add(general, owner, differences, covariances)
        tests, first = np.unique(owner, return_index=True)
        whole = np.add.reduceat(differences, first), np.add.reduceat(covariances, first)
        _add(consistent, tests, *whole)
    return StratifiedForms(*general, *consistent)


def _add(
    found: FloatMatrix, owner: IndexArray, differences: FloatMatrix, covariances: FloatMatrix
) -> None:
    form, rank = quadratic_forms(differences, covariances, tolerance=LEAST_VARIANCE)
    np.add.at(found[0], owner, form)
    np.add.at(found[1], owner, rank)


def _batches(
    question: StratifiedTables, sums: FloatVector
) -> Iterator[tuple[IndexArray, FloatMatrix, FloatMatrix]]:
    """Strata of one shape of table: whose they are, ascending, (U,), differences and covariances.

    All strata of a test are in one batch.
    """
    sides, widths = question.sides(), question.widths()
    starts = np.cumsum(widths) - widths
    owner = np.repeat(np.arange(len(sides)), sides[:, 0])
    told = question.informative(sums)
    shapes, shape_of = np.unique(sides[:, 1:], axis=0, return_inverse=True)
    of_stratum = shape_of.ravel()[owner]
    for number, (rows, columns) in enumerate(shapes.tolist()):
        a, b = rows - 1, columns - 1
        strata = np.flatnonzero(told & (of_stratum == number))
        most = max(BATCH_ENTRIES // (a * b) ** 2, 1)
        for part in _whole_tests(strata, owner, most):
            values = sums[starts[part][:, None] + np.arange(int(widths[part[0]]))]
            yield owner[part], values[:, : a * b], kronecker_matrices(values[:, a * b :], a, b)


def _whole_tests(strata: IndexArray, owner: IndexArray, most: int) -> Iterator[IndexArray]:
    """The strata in pieces of about so many, none of which cuts a test."""
    if not len(strata):
        return
    first = np.flatnonzero(np.diff(owner[strata], prepend=-1))
    batch = first // most
    cuts = first[np.flatnonzero(np.diff(batch, prepend=-1))[1:]]
    yield from np.split(strata, cuts)


def omnibus_p(forms: StratifiedForms) -> FloatVector:
    """The p-value of every test, shape (B,); NaN without degrees of freedom.

    Where both statistics are one, as for an empty S, its own p-value.
    """
    from cipherdag.statistics.contingency import chi_square_tail

    general = chi_square_tail(forms.general, forms.general_dof)
    consistent = chi_square_tail(forms.consistent, forms.consistent_dof)
    both = (forms.general_dof > 0) & (forms.consistent_dof > 0)
    same = forms.general_dof == forms.consistent_dof
    p_value = np.where(both & ~same, cauchy_combination(general, consistent), general)
    p_value = np.where(forms.general_dof > 0, p_value, consistent)
    done = (forms.general_dof > 0) | (forms.consistent_dof > 0)
    return np.where(done, p_value, np.nan)


def cauchy_combination(first: FloatVector, second: FloatVector) -> FloatVector:
    """One p-value of two, whatever their dependence, exact in the limit of small ones."""
    # tan near its pole loses digits, and 1 / (pi p) is its limit
    parts = [
        np.where(p < NEAR_POLE, 1.0 / (np.pi * p), np.tan((0.5 - p) * np.pi))
        for p in (np.clip(own, SMALLEST_P, 1.0 - NEAR_POLE) for own in (first, second))
    ]
    mean = (parts[0] + parts[1]) / 2.0
    combined: FloatVector = np.arctan2(1.0, mean) / np.pi
    return combined
