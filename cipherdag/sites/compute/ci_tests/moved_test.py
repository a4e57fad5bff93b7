"""Tests of counts whose outcomes are moved as if some rows were others, alike at every asking.

With T a chi-square of d degrees of freedom, (sqrt(T) + M c)**2 + M**2 Q over 1 + M**2 is one, too,
for a normal variate c and a chi-square Q of d - 1: the squared length of a normal vector in d
directions to which M times another is added. Where x and y depend, it is as if the site had
1 / (1 + M**2) of its rows. Fisher's z is not moved test by test: the correlations are, all of them
once, as `cipherdag.sites.compute.ci_tests.correlations` says.

Leaks:
    Nothing: an outcome stays inside the site until it is protected.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import erfc, gammaincinv, ndtri

from cipherdag.sites.compute.ci_tests.ci_test import Evidence
from cipherdag.statistics.contingency import chi_square_tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cipherdag.questions.encodings import BoolVector
    from cipherdag.sites.compute.ci_tests.ci_test import CITest, FloatVector, IndexArray
    from cipherdag.sites.compute.pooled.blur import Blur

MOVE = 0.25
"""M, in standard deviations that the root of a statistic has where x and y are independent."""
ALIKE_BITS = 20
"""Statistics that are alike to so many bits below one are moved alike, whatever the rounding."""
FEW_VALUES = 32
"""A column of numbers of no more distinct values tells counts."""
_SMALLEST = 2.0**-54
_SOME = 100  # rows: of measurements they hold many values, and no more are looked at


def few_valued(codes: NDArray[np.integer] | None, values: NDArray[np.float64] | None) -> BoolVector:
    """Which columns are categories, or numbers with few distinct values, shape (p,).

    Args:
        codes: Codes, shape (n, p), negative where missing; None of numbers.
        values: Numbers, shape (n, p), NaN where missing; None of categories.
    """
    if values is None:
        assert codes is not None, "a table has codes or values"
        return np.ones(codes.shape[1], dtype=bool)
    few = _few(values[:_SOME].T)
    for v in np.flatnonzero(few).tolist():
        few[v] = _few(values[None, :, v])[0]
    return few


def repeated_values(values: NDArray[np.float64]) -> BoolVector:
    """Which columns have few distinct values, and rows that are alike in them, shape (p,).

    Args:
        values: Numbers, shape (n, p), NaN where missing.
    """
    few = few_valued(None, values)
    for v in np.flatnonzero(few).tolist():
        # of few rows measurements are few, too, but no two are alike
        few[v] = len(np.unique(values[:, v], equal_nan=False)) < len(values)
    return few


def _few(columns: NDArray[np.float64]) -> BoolVector:
    """Which columns have few distinct values, shape (k,), of columns of shape (k, n)."""
    ordered = np.sort(columns)  # what is missing comes last
    differ = (ordered[:, 1:] != ordered[:, :-1]) & ~np.isnan(ordered[:, 1:])
    few: BoolVector = differ.sum(axis=1) < FEW_VALUES
    return few


@dataclass(frozen=True, slots=True)
class MovedTest:
    """The outcomes of another test, moved where a column of a triplet has few values.

    Attributes:
        tests: The test; or of drawn rows it, and the same of the rows they were drawn from: a mean
            over replicates is moved as these are, and a difference of two by what moves the drawn
            rows beside.
        adds_up: Whether its statistics are chi-squares; of others p-values alone.
        few: Of which columns, shape (p,).
        blur: What moves them.
    """

    tests: Sequence[CITest]
    adds_up: bool
    few: BoolVector
    blur: Blur

    @property
    def n_variables(self) -> int:
        """Number of variables, addressed by position 0..n_variables-1."""
        return self.tests[0].n_variables

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> Evidence:
        """See `CITest.evaluate`."""
        found, *others = [test.evaluate(x, y, given) for test in self.tests]
        chosen = _chosen(found, self.few[np.column_stack([x, y, given])])
        if not len(chosen):
            return found
        moved = _of(found, chosen)
        exact = [_of(own, chosen) for own in others] or [moved]
        names = [self._names(own, b"test") for own in exact]
        if others:
            names.append(self._names(moved, b"drawn"))
        for own in names:
            moved = self._moved(moved, own)
        return _with(found, chosen, moved)

    def _names(self, own: Evidence, about: bytes) -> list[bytes]:
        """What moves a test follows from: its outcome, whatever its columns are called."""
        told = _amount(own, self.adds_up)
        alike = np.rint(np.ldexp(np.nan_to_num(told), ALIKE_BITS)).astype("<i8")
        return [about + number.tobytes() for number in alike]

    def _moved(self, own: Evidence, names: list[bytes]) -> Evidence:
        """The outcomes, moved."""
        _, drawn = self.blur.moves(names, [3] * len(names))
        first, finer, rest = drawn.reshape(-1, 3).T
        # of two words: one would be found from the digits of a sum that is told finely
        c = ndtri(np.clip((1.0 + first + finer * 2.0**-32) / 2.0, _SMALLEST, 1.0 - _SMALLEST))
        amount, scale = _amount(own, self.adds_up), 1.0 + MOVE**2
        if not self.adds_up:
            score = np.abs(amount + MOVE * c) / np.sqrt(scale)
            none = np.full(len(names), np.nan)
            p_score = erfc(score / np.sqrt(2.0))
            return replace(own, p_value=p_score, statistic=none, dependence=score)
        # plain degrees of freedom may be many more than rows, and a statistic has a bound
        spare = (np.minimum(own.dof, own.rows) - 1.0) / 2.0
        more = np.where(spare > 0, 2.0 * gammaincinv(np.maximum(spare, 0.5), (1.0 + rest) / 2), 0.0)
        statistic = ((np.sqrt(np.abs(amount)) + MOVE * c) ** 2 + MOVE**2 * more) / scale
        tail = chi_square_tail(statistic, own.dof)
        return replace(own, p_value=tail, statistic=statistic, dependence=statistic)


@dataclass(frozen=True, slots=True)
class MovedCorrelations:
    """Fisher's z of correlations that are moved where a column of a triplet has few values.

    Attributes:
        exact: The test; or of drawn rows it, and the same of the rows they were drawn from.
        moved: The same of moved correlations, in the same order: a mean over replicates is moved as
            the rows are that they were drawn from, and a difference of two by what moves the drawn
            rows beside.
        few: Of which columns, shape (p,).
    """

    exact: Sequence[CITest]
    moved: Sequence[CITest]
    few: BoolVector

    @property
    def n_variables(self) -> int:
        """Number of variables, addressed by position 0..n_variables-1."""
        return self.exact[0].n_variables

    def evaluate(self, x: IndexArray, y: IndexArray, given: IndexArray) -> Evidence:
        """See `CITest.evaluate`."""
        found = self.exact[0].evaluate(x, y, given)
        chosen = _chosen(found, self.few[np.column_stack([x, y, given])])
        if not len(chosen):
            return found
        tests = x[chosen], y[chosen], given[chosen]
        z = self.moved[0].evaluate(*tests).statistic
        for exact, moved in zip(self.exact[1:], self.moved[1:], strict=True):
            z = z + np.nan_to_num(
                moved.evaluate(*tests).statistic - exact.evaluate(*tests).statistic
            )
        own = _of(found, chosen)
        # a z that is moved estimates as much as these rows would
        worth = 1.0 / (1.0 + len(self.moved) * MOVE**2)
        score = z * np.sqrt(worth)
        strength = np.tanh(np.abs(z) / np.sqrt(own.rows - given.shape[1] - 3.0))
        p_value = erfc(np.abs(score) / np.sqrt(2.0))
        told = replace(own, p_value=p_value, statistic=score, dependence=strength, worth=worth)
        return _with(found, chosen, told)


def _chosen(found: Evidence, few: NDArray[np.bool_]) -> IndexArray:
    """Tests that are done, and have a column of few values, shape (C,).

    Args:
        found: Their outcomes.
        few: Which of their columns have, shape (B, k).
    """
    return np.flatnonzero(few.any(axis=1) & ~np.isnan(found.p_value) & (found.dof != 0))


def _amount(own: Evidence, adds_up: bool) -> FloatVector:
    """What is moved: chi-squares, or the scores of p-values."""
    if adds_up:
        return np.abs(np.nan_to_num(own.statistic))
    scores: FloatVector = -ndtri(np.maximum(np.nan_to_num(own.p_value, nan=1.0), 1e-300) / 2.0)
    return scores


def _of(own: Evidence, chosen: IndexArray) -> Evidence:
    """Some of the outcomes."""
    parts = {f.name: getattr(own, f.name) for f in fields(own)}
    return Evidence(**{n: v if np.ndim(v) == 0 else v[chosen] for n, v in parts.items()})


def _with(own: Evidence, chosen: IndexArray, moved: Evidence) -> Evidence:
    """The outcomes, some of them moved."""

    def changed(name: str) -> FloatVector:
        column = np.array(np.broadcast_to(getattr(own, name), own.p_value.shape), dtype=np.float64)
        column[chosen] = getattr(moved, name)
        return column

    return replace(
        own,
        p_value=changed("p_value"),
        statistic=changed("statistic"),
        dependence=changed("dependence"),
        worth=changed("worth"),
    )
