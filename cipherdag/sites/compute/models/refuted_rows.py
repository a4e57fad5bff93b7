"""Random changes of a site's rows that try to refute an effect: placebo, random cause, folds.

Sources: Sharma and Kiciman, "DoWhy: an end-to-end library for causal inference", arXiv:2011.04216
(placebo, random cause, subsets); Efron and Tibshirani, An Introduction to the Bootstrap (1993),
chapter 11 (a group left out at a time).

Leaks:
    Nothing: how rows are changed follows from all of them, so only who knows them all can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector
from cipherdag.questions.estimation.effect_sums import FOLDS, EffectSums
from cipherdag.sites.compute.descriptions.described import column_of, rows_of
from cipherdag.sites.compute.noise import CellKeys

ROWS_PER_COEFFICIENT = 4
"""Of every arm in every fold: sums of fewer rows at each step of a model have few solutions."""
LEAST_CHANCE = 2.0**-53
"""Of a standard normal number to be smaller, so that all are finite."""


@dataclass(frozen=True, slots=True)
class EffectRows:
    """Rows of a site with the variables' numbers of categories; values may be missing.

    Attributes:
        codes: Codes, shape (n, p), negative where missing; None if no variable is discrete.
        values: Numbers, shape (n, p), NaN where missing; None if no variable is continuous.
        weights: About 1, where a site weighs its rows, shape (n,); None where all weigh the same.
    """

    codes: NDArray[np.integer] | None
    values: NDArray[np.float64] | None
    weights: FloatVector | None = None

    def column(self, question: EffectSums, variable: int) -> FloatVector:
        """Codes or numbers as floats, NaN where missing, shape (n,)."""
        discrete = question.categories[variable] > 0
        return column_of(self.codes, self.values, variable, discrete=discrete)

    def complete(self, question: EffectSums, variables: Iterable[int]) -> EffectRows:
        """The rows that miss no value of these variables."""
        missing = [np.isnan(self.column(question, v)) for v in variables]
        return self.take(np.flatnonzero(~np.logical_or.reduce(missing)))

    def smallest_cell(self, question: EffectSums) -> int:
        """The smallest nonzero count in the joint table of the discrete variables named."""
        cell, sizes = None, [self.count]
        for variable in (v for v in question.named if question.categories[v]):
            assert self.codes is not None, "a discrete variable has codes"
            codes = self.codes[:, variable].astype(np.int64)
            # numbered anew each time, so that no product of many categories overflows
            joint = codes if cell is None else cell * (int(codes.max(initial=0)) + 1) + codes
            _, cell, counts = np.unique(joint, return_inverse=True, return_counts=True)
            sizes = counts.tolist()
        return min(sizes, default=0)

    def smallest_arm(self, question: EffectSums) -> int:
        """The rows of the smallest arm of the treatment that has any; all rows for a number."""
        if self.codes is None or not question.categories[question.treatment]:
            return self.count
        counts = np.bincount(self.codes[:, question.treatment])
        return int(counts[counts > 0].min(initial=self.count))

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.integer]) -> EffectRows:
        """The chosen rows."""
        return EffectRows(
            None if self.codes is None else self.codes[chosen],
            None if self.values is None else self.values[chosen],
            None if self.weights is None else self.weights[chosen],
        )

    @property
    def count(self) -> int:
        """Number of rows."""
        return rows_of(self.codes, self.values)


def refuted_answer(
    question: EffectSums,
    rows: EffectRows,
    blur: CellKeys,
    *,
    answer: Callable[[EffectSums, EffectRows], FloatVector],
    min_cell_size: int,
) -> FloatVector:
    """The answer of changed rows; zeros where their small counts may not leave.

    Args:
        question: The question.
        rows: The site's rows.
        blur: That of the site's rows.
        answer: What rows answer.
        min_cell_size: Smallest count that may leave.
    """
    last = len(question.categories) - 1
    named = [v for v in question.named if question.refutation != "random-cause" or v != last]
    rows = rows.complete(question, named)
    strict = min_cell_size > 1 and not all(question.categories[v] for v in named)
    if question.refutation == "random-cause":
        return answer(question, with_random_cause(rows, last, blur))
    if question.refutation == "placebo":
        changed = placebo(rows, question.treatment, question.named, blur)
        if strict and changed.smallest_cell(question) < min_cell_size:
            return no_contribution(question)
        return answer(question, changed)
    fold = fold_numbers(rows, question.named, blur)
    folds = [rows.take(fold == number) for number in range(FOLDS)]
    size = ROWS_PER_COEFFICIENT * max(map(question.size, question.needed), default=0)
    if strict and any(
        part.smallest_cell(question) < min_cell_size or part.smallest_arm(question) < size
        for part in folds
    ):
        return no_contribution(question)
    rest = answer(question, rows.take(fold != question.fold))
    in_every_fold = np.min([answer(question.counted_as, part) for part in folds], axis=0)
    return np.concatenate([rest[: len(rest) - len(in_every_fold)], in_every_fold])


def no_contribution(question: EffectSums) -> FloatVector:
    """The answer of a site that does not contribute."""
    return np.zeros(question.n_values)


def fold_numbers(rows: EffectRows, named: tuple[int, ...], blur: CellKeys) -> FloatVector:
    """The random fold of every row, from 0, shape (n,)."""
    return np.floor((_uniform(rows, b"parts of rows", named, blur) + 1.0) * (FOLDS / 2.0))


def placebo(rows: EffectRows, treatment: int, named: tuple[int, ...], blur: CellKeys) -> EffectRows:
    """The rows with the treatment permuted."""
    drawn = _uniform(rows, b"placebo %d" % treatment, named, blur)
    order = np.argsort(drawn, kind="stable")
    codes = None if rows.codes is None else rows.codes.copy()
    values = None if rows.values is None else rows.values.copy()
    for columns in (codes, values):
        if columns is not None:
            columns[:, treatment] = columns[order, treatment]
    return replace(rows, codes=codes, values=values)


def _uniform(
    rows: EffectRows, purpose: bytes, named: tuple[int, ...], blur: CellKeys
) -> FloatVector:
    """A number from -1 to 1 for every row, shape (n,).

    Drawn anew for other variables: what two questions share would tell of the table of both.
    """
    return blur.uniform(purpose + np.array(named, dtype="<i8").tobytes(), (rows.count,))


def with_random_cause(rows: EffectRows, n_variables: int, blur: CellKeys) -> EffectRows:
    """The rows with one more column, of standard normal numbers."""
    from scipy.special import ndtri

    chance = (blur.uniform(b"random cause", (rows.count,)) + 1.0) / 2.0
    cause = ndtri(np.clip(chance, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
    values = rows.values
    if values is None:
        values = np.full((rows.count, n_variables), np.nan)
    return replace(rows, values=np.column_stack([values, cause]))
