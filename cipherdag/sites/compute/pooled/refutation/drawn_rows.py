"""Rows that a site changes by chance, so that an effect that stands is doubted.

Sources: Sharma and Kiciman, "DoWhy: an end-to-end library for causal inference", arXiv:2011.04216
(placebo, random cause, subsets); Efron and Tibshirani, An Introduction to the Bootstrap (1993),
chapter 11 (a group left out at a time).

Leaks:
    Nothing: an answer stays inside the site until it is protected. How rows are changed follows
    from all of them, so only who knows them all can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatVector
from cipherdag.questions.estimation.effect_sums import PARTS, EffectSums
from cipherdag.sites.compute.pooled.blur import Blur
from cipherdag.sites.compute.pooled.described import column_of, rows_of

ROWS_PER_COEFFICIENT = 4
"""Of every arm in every part: sums of fewer rows at each step of a model have few solutions."""
LEAST_CHANCE = 2.0**-53
"""Of a standard normal number to be smaller, so that all are finite."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that may be complete or not.

    Attributes:
        codes: Codes, shape (n, p), negative where missing; None if no variable is discrete.
        values: Numbers, shape (n, p), NaN where missing; None if no variable is continuous.
        weights: About 1, where a site weighs its rows, shape (n,); None where all weigh alike.
    """

    codes: NDArray[np.integer] | None
    values: NDArray[np.float64] | None
    weights: FloatVector | None = None

    def column(self, question: EffectSums, variable: int) -> FloatVector:
        """Codes or numbers as floats, NaN where missing, shape (n,)."""
        discrete = question.categories[variable] > 0
        return column_of(self.codes, self.values, variable, discrete=discrete)

    def complete(self, question: EffectSums, variables: Iterable[int]) -> Rows:
        """Those that miss no value of these variables."""
        missing = [np.isnan(self.column(question, v)) for v in variables]
        return self.take(np.flatnonzero(~np.logical_or.reduce(missing)))

    def fewest(self, question: EffectSums) -> int:
        """The smallest count but 0 in the table of all discrete variables named, or of all rows."""
        cell, found = None, [self.count]
        for variable in (v for v in question.named if question.categories[v]):
            assert self.codes is not None, "a discrete variable has codes"
            own = self.codes[:, variable].astype(np.int64)
            # numbered anew each time, so that no product of many categories overflows
            joint = own if cell is None else cell * (int(own.max(initial=0)) + 1) + own
            _, cell, counts = np.unique(joint, return_inverse=True, return_counts=True)
            found = counts.tolist()
        return min(found, default=0)

    def smallest_arm(self, question: EffectSums) -> int:
        """Rows of the category of the treatment that has fewest but none; all, of a number."""
        if self.codes is None or not question.categories[question.treatment]:
            return self.count
        counts = np.bincount(self.codes[:, question.treatment])
        return int(counts[counts > 0].min(initial=self.count))

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.integer]) -> Rows:
        """Some of them."""
        return Rows(
            None if self.codes is None else self.codes[chosen],
            None if self.values is None else self.values[chosen],
            None if self.weights is None else self.weights[chosen],
        )

    @property
    def count(self) -> int:
        """How many."""
        return rows_of(self.codes, self.values)


def drawn_answer(
    question: EffectSums,
    rows: Rows,
    blur: Blur,
    *,
    answer: Callable[[EffectSums, Rows], FloatVector],
    least: int,
) -> FloatVector:
    """The answer to a question of rows that are changed.

    Args:
        question: The question.
        rows: The site's rows, of which it tells.
        blur: That of the site's rows.
        answer: What rows answer.
        least: Smallest count that may leave.
    """
    last = len(question.categories) - 1
    own = [v for v in question.named if question.drawn != "cause" or v != last]
    rows = rows.complete(question, own)
    strict = least > 1 and not all(question.categories[v] for v in own)
    if question.drawn == "part":
        return _without_part(question, rows, blur, answer, least if strict else 0)
    if question.drawn == "cause":
        return answer(question, with_cause(rows, last, blur))
    changed = placebo(rows, question.treatment, question.named, blur)
    if strict and changed.fewest(question) < least:
        return nothing(question)
    return answer(question, changed)


def _without_part(
    question: EffectSums,
    rows: Rows,
    blur: Blur,
    answer: Callable[[EffectSums, Rows], FloatVector],
    least: int,
) -> FloatVector:
    """What all rows but those of a part answer, and arms and strata that every part has."""
    drawn = part_numbers(rows, question.named, blur)
    parts = [rows.take(drawn == part) for part in range(PARTS)]
    size = ROWS_PER_COEFFICIENT * max(map(question.size, question.needed), default=0)
    if least and any(
        own.fewest(question) < least or own.smallest_arm(question) < size for own in parts
    ):
        return nothing(question)
    kept = answer(question, rows.take(drawn != question.part))
    everywhere = np.min([answer(question.scope, own) for own in parts], axis=0)
    return np.concatenate([kept[: len(kept) - len(everywhere)], everywhere])


def nothing(question: EffectSums) -> FloatVector:
    """The answer of a site that tells nothing."""
    return np.zeros(sum(encoding.length for encoding in question.encodings))


def part_numbers(rows: Rows, named: tuple[int, ...], blur: Blur) -> FloatVector:
    """The part that every row is in by chance, from 0, shape (n,)."""
    return np.floor((_drawn(rows, b"parts of rows", named, blur) + 1.0) * (PARTS / 2.0))


def placebo(rows: Rows, treatment: int, named: tuple[int, ...], blur: Blur) -> Rows:
    """The same with the treatment dealt out anew, a category to as many rows as before."""
    order = np.argsort(_drawn(rows, b"placebo %d" % treatment, named, blur), kind="stable")
    codes = None if rows.codes is None else rows.codes.copy()
    values = None if rows.values is None else rows.values.copy()
    for own in (codes, values):
        if own is not None:
            own[:, treatment] = own[order, treatment]
    return Rows(codes, values, rows.weights)


def _drawn(rows: Rows, purpose: bytes, named: tuple[int, ...], blur: Blur) -> FloatVector:
    """A number from -1 to 1 for every row, shape (n,).

    Drawn anew for other variables: what two questions share would tell of the table of both.
    """
    return blur.uniform(purpose + np.array(named, dtype="<i8").tobytes(), (rows.count,))


def with_cause(rows: Rows, n_variables: int, blur: Blur) -> Rows:
    """The same with one more column, of standard normal numbers."""
    from scipy.special import ndtri

    chance = (blur.uniform(b"random cause", (rows.count,)) + 1.0) / 2.0
    drawn = ndtri(np.clip(chance, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
    values = rows.values
    if values is None:
        values = np.full((rows.count, n_variables), np.nan)
    return Rows(rows.codes, np.column_stack([values, drawn]), rows.weights)
