"""Variances of sums where rows are visits of patients, whose rows resemble one another.

A variance V that takes rows for independent lacks the products of different rows of a patient. O
adds them: m / (m - 1 - k) times the sum over m patients of (sum of u)^2 - sum of u^2, for the terms
u of a sum, row by row, and k coefficients. Where no patient has two rows, O is exactly 0. Where it
is negative, as in a trial in which every patient has each treatment, V + O is at least the sum of
squares by patient. A site whose m - 1 - k is below `FEWEST_LEFT` does not do the test.

Source: Liang and Zeger, Biometrika 73 (1986) 13-22; Cameron and Miller, Journal of Human Resources
50 (2015) 317-372, for the factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector, IndexArray

FEWEST_LEFT = 10  # fewest patients less 1 and coefficients of a site that does a test
MOST_COMPARED = 32  # columns of which products are compared


class PatientSums(NamedTuple):
    """O of scores and their products, and the sums of squares by patient, (K, K) each."""

    excess: FloatMatrix
    squares: FloatMatrix

    def of(self, each: FloatMatrix) -> PatientSums:
        """The same of linear combinations of the scores, (L, K)."""
        return PatientSums(*(each @ part @ each.T for part in self))

    def beyond(self, variances: FloatVector) -> FloatVector:
        """What variances gain, shape (K,): all of a positive O; of a negative one what they may."""
        return added(variances, self.excess.diagonal(), self.squares.diagonal())

    def beyond_all(self, variances: FloatVector) -> float:
        """What the sum of variances gains: of single ones chance would enlarge it."""
        parts = (np.array([part.sum()]) for part in (variances, *map(np.diagonal, self)))
        return float(added(*parts)[0])


def added(variances: FloatVector, excess: FloatVector, squares: FloatVector) -> FloatVector:
    """O, but where it is negative at most as far down as the squares by patient, shape (K,)."""
    less = np.minimum(np.maximum(excess, squares - variances), 0.0)
    return np.where(excess >= 0.0, excess, less)


class Repeats(NamedTuple):
    """The rows of a test whose patients have several of them.

    ``rows`` are their positions among the test's rows, those of a patient one after the other, and
    ``first`` is where each begins; the test has ``patients``, those with one row, too.
    """

    rows: IndexArray
    first: IndexArray
    patients: int

    def enough(self, coefficients: float = 0.0) -> bool:
        """Whether the test is done; without repeats the usual rules decide alone."""
        return not len(self.rows) or self.patients - 1.0 - coefficients >= FEWEST_LEFT

    def factor(self, coefficients: float = 0.0) -> float:
        """The factor m / (m - 1 - k)."""
        return self.patients / max(self.patients - 1.0 - coefficients, 1.0)

    def sums(self, terms: FloatMatrix, coefficients: float = 0.0) -> PatientSums:
        """O and the squares by patient of scores, from the terms of every row, (n, K)."""
        rows, factor = terms[self.rows], self.factor(coefficients)
        whole = np.add.reduceat(rows, self.first) if len(rows) else rows
        products, alone = whole.T @ whole, rows.T @ rows
        return PatientSums(
            factor * (products - alone), factor * products + (terms.T @ terms - alone)
        )

    def squared(
        self, terms: FloatMatrix, covariances: FloatMatrix, share: float, rare: float = 0.0
    ) -> float:
        """What f^2 gains where rows are visits, of which chance is no part.

        Of a patient U is the sum of terms u, and O_p is U U' without the sum of u u'. Products of
        two patients' O_p say what |O|^2 is: their squares say what chance adds. Fourth cumulants of
        U add half of the sums of |U|^4 less |E U' U|^2, which by visits is not below what all
        patients' U' U say (Cauchy and Schwarz). The site states its ``share`` of them, as of
        rare counts, of which ``rare`` is there. The more visits resemble one another, the fewer
        patients decide, and f is then as large as |O|^2 less half of the sum of |U|^4 makes it.
        """
        rows, visits = terms[self.rows], np.diff(self.first, append=len(self.rows))
        if not len(rows):
            return 0.0
        size, alone = np.zeros(len(visits)), 0.0
        for count in np.unique(visits).tolist():
            each = rows[self.first[visits == count][:, None] + np.arange(count)]
            among = each @ each.swapaxes(1, 2)
            of_row = among.sum(axis=2)
            size[visits == count] = of_row.sum(axis=1)
            alone += float((among**2).sum() - 2.0 * (of_row**2).sum())
        fourth, weighted, factor = float((size**2).sum()), visits * size, self.factor() ** 2
        excess = self.sums(terms).excess
        several = len(visits) / max(len(visits) - 1, 1)
        of_pairs = (float((excess**2).sum()) - factor * (alone + fourth)) * several
        least = float(weighted.sum() ** 2 - (weighted**2).sum()) / float(visits @ visits)
        cumulants = share * factor * (fourth - least) - rare * len(rows) / len(terms)
        exact = of_pairs + max(cumulants, 0.0) / 2.0
        more = float((excess**2).sum()) - factor * fourth / 2.0 - exact
        resembling = min(max(np.trace(excess) / np.trace(covariances), 0.0), 1.0)
        return float(2.0 * (covariances * excess).sum() + exact + resembling**2 * max(more, 0.0))


def standard_columns(columns: FloatMatrix) -> FloatMatrix:
    """Columns, shape (n, K), with mean 0 and variance 1; 0 where one does not vary."""
    centred = columns - columns.mean(axis=0)
    spread = centred.std(axis=0)
    return np.where(spread > 0.0, centred / np.where(spread > 0.0, spread, 1.0), 0.0)


def design_effect(columns: FloatMatrix, variable: IndexArray, patients: IndexArray) -> float:
    """By how much repeats enlarge the variance of a covariance at most, 1 without repeats.

    It is the largest ratio of (sum of u)^2 by patient to u^2, for products u of two columns, and at
    most what columns have that are the same at all visits; with few patients it is that. Of many
    columns those are looked at that are most alike within patients. Columns, (n, K), are
    standardised numbers and indicators of categories, ``variable`` says of which one each is, (K,),
    and ``patients`` whose visit each row is, (n,).
    """
    order = np.argsort(patients, kind="stable")
    first = np.flatnonzero(np.diff(patients[order], prepend=-1))
    if len(first) == len(order):
        return 1.0
    visits, ordered = np.diff(first, append=len(order)), columns[order]
    stable = float((visits**2).sum()) / len(order) * len(first) / max(len(first) - 1, 1)
    if len(first) - 1 < FEWEST_LEFT:
        return stable
    resembling = (np.add.reduceat(ordered, first) ** 2).sum(axis=0)
    chosen = np.argsort(-resembling, kind="stable")[:MOST_COMPARED]
    ordered, variable = ordered[:, chosen], variable[chosen]
    largest = 1.0
    for position in range(len(chosen)):
        products = ordered[:, position, None] * ordered
        whole = (np.add.reduceat(products, first) ** 2).sum(axis=0)
        alone = (products**2).sum(axis=0)
        others = (variable != variable[position]) & (alone > 0.0)
        largest = max(largest, float((whole[others] / alone[others]).max(initial=1.0)))
    return min(largest * len(first) / (len(first) - 1), stable)


def visit_weights(columns: FloatMatrix, patients: IndexArray | None) -> FloatVector | None:
    """Weights of rows that are visits, shape (n,), which add up to rows as if of one each.

    A patient of k visits weighs k / (1 + (k - 1) r), where r is 0 if no two columns, standardised,
    are alike within ``patients``, and 1 if two are the same at all visits. None where no patient
    has two rows.
    """
    if patients is None or len(np.unique(patients)) == len(patients):
        return None
    visits = np.bincount(patients)[patients]
    beyond = design_effect(columns, np.arange(columns.shape[1]), patients) - 1.0
    shared = min(beyond / float((visits - 1.0).mean()), 1.0)
    weights = 1.0 / (1.0 + (visits - 1.0) * shared)
    return np.asarray(weights * (np.floor(weights.sum()) / weights.sum()))


@dataclass(frozen=True)
class Patients:
    """Whose visit each row of a site is: numbers of patients, shape (n,)."""

    of_row: IndexArray

    @cached_property
    def count(self) -> int:
        """How many there are: rows of one patient are worth fewer coefficients than of many."""
        return len(np.unique(self.of_row))

    def repeats(self, complete: BoolVector | None = None) -> Repeats:
        """The patients of a test's rows; of all rows without ``complete``."""
        mine = self.of_row if complete is None else self.of_row[complete]
        _, which, counts = np.unique(mine, return_inverse=True, return_counts=True)
        order, several = np.argsort(which.ravel(), kind="stable"), counts > 1
        ends = np.cumsum(counts[several])
        return Repeats(order[np.repeat(several, counts)], ends - counts[several], len(counts))

    def of_products(
        self,
        products: FloatMatrix,
        complete: FloatMatrix,
        rest: FloatVector,
        variances: FloatVector,
    ) -> tuple[FloatVector, BoolVector]:
        """Variances with O of tests of two numbers, and which have patients enough, (B,) each.

        ``products`` of clipped residuals, (B, n), are 0 in rows that are not ``complete``, and
        ``rest`` are rows less coefficients.
        """
        order = np.argsort(self.of_row, kind="stable")
        first = np.flatnonzero(np.diff(self.of_row[order], prepend=-1))
        terms = products[:, order]
        whole: FloatMatrix = np.add.reduceat(terms, first, axis=1)
        visits = np.add.reduceat(complete[:, order].astype(np.int64), first, axis=1)
        several, patients = visits > 1, (visits > 0).sum(axis=1)
        left = patients - (complete.sum(axis=1) - rest)
        alone, factor = np.add.reduceat(terms**2, first, axis=1), patients / np.maximum(left, 1.0)
        excess = np.where(several, whole**2 - alone, 0.0).sum(axis=1) * factor
        squares = np.where(several, whole**2 * factor[:, None], alone).sum(axis=1)
        return variances + added(variances, excess, squares), ~several.any(axis=1) | (
            left >= FEWEST_LEFT
        )
