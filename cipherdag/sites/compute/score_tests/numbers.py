"""Score tests of two numbers given numbers, with heteroscedasticity-consistent variances.

Curves of S are regressors too where a site has enough rows (`basis`). Tests over the same complete
rows are done together (`shared_rows`); where that is slower, tests are done one by one.

Source: White, Econometrica 48 (1980) 817-838.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from cipherdag.arrays import BoolVector, FloatArray, FloatVector, IndexArray
from cipherdag.sites.compute.device import Device
from cipherdag.sites.compute.patients import Patients
from cipherdag.sites.compute.score_tests.basis import (
    ROWS_PER_SQUARE,
    Basis,
    curves,
    more_columns,
    products_of,
)
from cipherdag.sites.compute.score_tests.columns import Columns, StandardColumns
from cipherdag.sites.compute.score_tests.residuals import (
    FEWEST_REST,
    products,
    pseudo_inverse,
    row_products,
)
from cipherdag.sites.compute.score_tests.shared_rows import distinct_numbers, shared_moments
from cipherdag.statistics.array_functions import Array, at_least, functions_of, host, like
from cipherdag.statistics.regression_fits import LEAST_REST

ScoreMoments = tuple[FloatVector, FloatVector, FloatVector]
"""Scores U, their null variances V, and rows less coefficients, by test, shape (B,) each."""

MOST_TESTS, FEWEST_TESTS = 512, 32
"""Tests of a part: the residuals of more do not fit a cache; fewer do not pay for a matrix."""
MOST_VARIABLES = 128  # the most variables of a part whose correlations are computed for it alone
MOST_CORRELATIONS, CORRELATIONS_PER_TEST = 2**22, 2**12
"""A site computes all correlations once if they are at most this many, in all and per test."""
LEAST_SHARED, FEWEST_SHARED = 2**16, 4
"""Rows times tests, and tests, from which tests that miss the same rows are done together."""
MOST_ALONE, ALONE_VALUES = 2**20, 2**15
"""Rows up to which a test may copy its columns, and values that are copied at a time."""


class NumberScores:
    """Score tests of numbers given numbers at one site, whose ``columns`` it standardises."""

    def __init__(
        self, column: Callable[[int], FloatVector], device: Device, patients: Patients | None = None
    ) -> None:
        self.columns, self._patients = StandardColumns(column, device), patients
        self._shared_columns: Columns | None = None
        self._asked = self._all_rows = 0

    def answer(self, tests: IndexArray, all_rows: int = 0) -> ScoreMoments:
        """U, V, and rows less coefficients of tests (x, y, s1, ...), (B,) each; 0 if not done.

        All sites together have ``all_rows``; by them a site may take more of S's curves.
        """
        self._all_rows = all_rows
        moments = np.zeros((3, len(tests)))
        alone: list[IndexArray] = []
        for mine, patterns in self._by_rows(tests):
            if patterns.any() and self._better_alone(len(mine)):
                alone.append(mine)
            else:
                complete = self.columns.complete(patterns)
                moments[:, mine] = self._together(tests[mine], complete)
        for at in self._few(np.concatenate([np.zeros(0, dtype=np.int64), *alone]), tests):
            moments[:, at] = self._one_by_one(tests[at])
        if self._patients is not None:
            for at in self._few(np.arange(len(tests)), tests):
                moments[:, at] = self._by_patients(self._patients, tests[at], moments[:, at])
        return moments[0], moments[1], moments[2]

    def _few(self, chosen: IndexArray, tests: IndexArray) -> Iterator[IndexArray]:
        """Yield some tests, of which so many are done at a time that copies of columns are few."""
        most = max(ALONE_VALUES // (tests.shape[1] * max(self.columns.rows, 1)), 1)
        for first in range(0, len(chosen), most):
            yield chosen[first : first + most]

    def _by_patients(
        self, patients: Patients, tests: IndexArray, moments: FloatArray
    ) -> FloatArray:
        """Moments whose variances take rows of a patient together, 0 if too few patients."""
        corrected = moments.copy()
        for chosen, left, rest, where in self._residuals(tests):
            product, complete = host(row_products(left, rest, where)), host(where)
            score, variance, rows = moments[:, chosen]
            together, enough = patients.of_products(product, complete, host(rest), variance)
            done, made = (rows > 0.0) & enough, [score, together, rows]
            corrected[:, chosen] = np.where(done, made, 0.0)
        return corrected

    def _by_rows(self, tests: IndexArray) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield tests over the same rows, and their patterns of missing values, 0 for none."""
        if not len(tests):
            return
        variables, index = distinct_numbers(tests)
        patterns = self.columns.patterns(variables.tolist())
        if not patterns.any():
            yield np.arange(len(tests)), patterns[:1]
            return
        each = np.sort(patterns[index], axis=1)
        each[:, 1:][each[:, 1:] == each[:, :-1]] = 0
        keys, owner = np.unique(np.sort(each, axis=1), axis=0, return_inverse=True)
        order = np.argsort(owner.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(owner.ravel()))
        yield from zip(np.split(order, ends[:-1]), keys, strict=True)

    def _better_alone(self, count: int) -> bool:
        """Whether ``count`` tests over the same rows are faster one by one, in little memory."""
        rows = self.columns.rows
        return count * rows < LEAST_SHARED or (count < FEWEST_SHARED and rows <= MOST_ALONE)

    def _together(self, tests: IndexArray, complete: BoolVector | None) -> FloatArray:
        """Moments of tests over the same rows, shape (3, B)."""
        moments, given = np.zeros((3, len(tests))), tests.shape[1] - 2
        count = self.columns.rows if complete is None else int(complete.sum())
        if count <= FEWEST_REST:
            return moments
        basis = self._basis(count, given)
        variables, _ = distinct_numbers(tests)
        shared = self._shared(variables, complete, len(tests), basis, crossed=given > 0)
        held = shared is not None and shared.held is not None
        parts = _parts(tests, whole=shared is not None, most=len(tests) if held else MOST_TESTS)
        for part in parts:
            variables, index = distinct_numbers(tests[part])
            if shared is None:
                columns = Columns.over(self.columns, variables, complete, basis, crossed=given > 0)
            elif held:
                columns, index = shared, np.searchsorted(shared.variables, tests[part])
            else:
                columns = shared.of(variables, basis)
            moments[:, part] = shared_moments(columns, index, basis)
        return moments

    def _shared(
        self,
        variables: IndexArray,
        complete: BoolVector | None,
        n_tests: int,
        basis: Basis,
        *,
        crossed: bool,
    ) -> Columns | None:
        """Columns of all variables, cached if none misses a row; None if they take much memory."""
        last = self._shared_columns
        if (
            complete is None
            and last is not None
            and last.basis.begins_with(basis)
            and np.isin(variables, last.variables).all()
        ):
            return last
        if complete is None:
            # further questions will use them too
            self._asked += n_tests
            n_tests = self._asked
            if last is not None:
                variables = np.union1d(variables, last.variables)
        width = len(variables) * (1 + basis.curves)
        crossed = crossed and width**2 <= min(MOST_CORRELATIONS, CORRELATIONS_PER_TEST * n_tests)
        if not (crossed or self.columns.whole(width)):
            return None
        made = Columns.over(self.columns, variables, complete, basis, crossed=crossed)
        if complete is None:
            self._shared_columns = made
        return made

    def _one_by_one(self, tests: IndexArray) -> FloatArray:
        """Moments of tests over rows of their own each, shape (3, B)."""
        moments = np.zeros((3, len(tests)))
        for chosen, left, rest, where in self._residuals(tests):
            moments[:, chosen] = host(products(row_products(left, rest, where), rest, where))
        return moments

    def _residuals(self, tests: IndexArray) -> Iterator[tuple[IndexArray, Array, Array, Array]]:
        """Yield some of the tests, what `_residuals` says of them, and their complete rows."""
        variables, index = distinct_numbers(tests)
        values = self.columns.numbers(variables).rows()
        block = values[like(index, values)]
        xp = functions_of(block)
        complete = ~xp.isnan(block).any(axis=1)
        block = xp.where(complete[:, None], block, 0.0)
        count = host(complete.sum(axis=1)).astype(np.float64)
        given = tests.shape[1] - 2
        bases = [self._basis(rows, given) for rows in count.astype(np.int64).tolist()]
        for basis in dict.fromkeys(bases):
            chosen = np.flatnonzero([each == basis for each in bases])
            at = slice(None) if len(chosen) == len(tests) else like(chosen, block)
            part, where = block[at], complete[at]
            if basis.curves:
                numbers = part[:, 2:]
                knots = self.columns.numbers(tests[chosen, 2:].ravel(), basis.hinges).knots
                knots = knots.reshape(basis.hinges, len(chosen), given, 1).swapaxes(0, 1)
                more = [*curves(numbers, basis, knots), *products_of(numbers, basis)]
                part = xp.concatenate([part, *more], axis=1) * where[:, None]
            left, rest = _residuals(part, where, like(count[chosen], block))
            yield chosen, left, rest, where

    def _basis(self, count: int, given: int) -> Basis:
        """What tests over ``count`` rows take of the numbers ``given``."""
        if self._patients is not None:
            count = min(count, self._patients.count)
        squares = count >= ROWS_PER_SQUARE * (2 * given + 2)
        more = more_columns(count, self._all_rows)
        return Basis.affordable(given, math.comb(given, 2), more, squares=squares)


def _parts(tests: IndexArray, *, whole: bool, most: int) -> Iterator[IndexArray]:
    """Yield parts of at most ``most`` tests (x, y, s1, ...), which share residuals.

    If ``whole``, a part may have any number of variables. Without conditioning sets it has at most
    `MOST_TESTS` variables on each side.
    """
    given = np.sort(tests[:, 2:], axis=1)
    if not given.size:
        # given nothing, tiles of the square of all pairs
        variables, index = distinct_numbers(tests)
        tiles = index // MOST_TESTS
        codes = tiles[:, 0] * len(variables) + tiles[:, 1]
        order = np.argsort(codes, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        return
    # conditioning sets are subsets of the neighbours of x, so tests of one x share residuals
    waiting = [np.lexsort((tests[:, 1], *given.T[::-1], tests[:, 0]))]
    while waiting:
        part = waiting.pop()
        few = whole or len(part) <= FEWEST_TESTS or len(np.unique(tests[part])) <= MOST_VARIABLES
        if few and len(part) <= most:
            yield part
        else:
            middle = len(part) // 2
            waiting += [part[middle:], part[:middle]]


def _residuals(block: Array, complete: Array, count: Array) -> tuple[Array, Array]:
    """Residuals of the first two given the others, (B, 2, n), and rows less coefficients.

    Both are 0 where the others leave nothing. The block, (B, 2 + k, n), is overwritten; rows that
    are not ``complete`` are 0 in it.
    """
    xp = functions_of(block)
    mean = block.sum(axis=2) / at_least(count, 1.0)[:, None]
    block -= mean[:, :, None]
    block *= complete[:, None]
    among = block @ block.swapaxes(1, 2)
    size = xp.sqrt(xp.diagonal(among, 0, 1, 2))
    varies = size > LEAST_REST * abs(mean) * xp.sqrt(count)[:, None]
    scale = xp.where(varies, 1.0 / xp.where(varies, size, 1.0), 0.0)
    both, rest = block[:, :2] * scale[:, :2, None], count - 1.0
    if block.shape[1] > 2:  # noqa: PLR2004
        among = among * scale[:, :, None] * scale[:, None]
        inverse, ranks = pseudo_inverse(among[:, 2:, 2:])
        slopes = (among[:, :2, 2:] @ inverse) * scale[:, None, 2:]
        both -= slopes @ block[:, 2:]
        rest = rest - ranks
    left = xp.einsum("ijk,ijk->ij", both, both)
    done = (left > LEAST_REST).all(axis=1) & (rest >= FEWEST_REST)
    both *= done[:, None, None]
    return both, xp.where(done, rest, 0.0)
