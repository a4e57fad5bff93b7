"""A site's tests of numbers are those of their definition, however they are computed together."""

import numpy as np
import pytest
from bent_columns import with_curves
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in_device import NAME, written_down

from cipherdag.sites.compute.device import resolve_device
from cipherdag.sites.compute.score_tests import columns as standard_columns
from cipherdag.sites.compute.score_tests import numbers
from cipherdag.sites.compute.score_tests.numbers import NumberScores

CPU = resolve_device("cpu")
TOLERANCE = 1e-9
SHAPES = ("normal", "exponential", "standard_cauchy")


def by_definition(columns, test, all_rows=0):
    """U, V and rows less coefficients of one test (x, y, s1, ...) of columns of shape (n, p)."""
    standard = np.array([in_deviations(column) for column in columns.T]).T
    rows = standard[~np.isnan(standard[:, list(test)]).any(axis=1)]
    n = len(rows)
    if n <= 10:
        return 0.0, 0.0, 0.0
    given = list(test[2:])
    present = [column[~np.isnan(column)] for column in standard[:, given].T]
    regressors = with_curves(rows[:, given], present=present, all_rows=all_rows)
    spanned, sizes, _ = np.linalg.svd(unit(regressors), full_matrices=False)
    spanned = spanned[:, sizes**2 > 1e-9]
    rest = n - 1 - spanned.shape[1]
    x, y = unit(rows[:, list(test[:2])]).T
    x, y = (own - spanned @ (spanned.T @ own) for own in (x, y))
    if rest < 10 or min(x @ x, y @ y) <= 1e-9:
        return 0.0, 0.0, 0.0
    product = clipped(x, rest) * clipped(y, rest)
    return product.sum(), max((product**2).sum() * n / rest, 2.0 / 3.0 * rest), rest


def in_deviations(column):
    centred = column - np.nanmean(column)
    centred -= np.nanmean(centred)
    spread = np.sqrt(np.nanmean(centred**2))
    return centred / spread if spread > 1e-9 * np.nanmax(np.abs(column)) else 0.0 * centred


def unit(columns):
    """Centred columns of size 1; 0 where they are constant."""
    centred = columns - columns.mean(axis=0)
    size = np.sqrt((centred**2).sum(axis=0))
    varies = size > 1e-12 * np.abs(columns).max(axis=0, initial=0.0) * np.sqrt(len(columns))
    return np.where(varies, centred / np.where(varies, size, 1.0), 0.0)


def clipped(residual, rest):
    residual = np.clip(residual / np.sqrt((residual**2).sum() / rest), -2.5, 2.5)
    residual = residual - residual.mean()
    return np.clip(residual / np.sqrt((residual**2).sum() / rest), -4.0, 4.0)


def assert_as_defined(columns, tests, device=CPU, tolerance=TOLERANCE, all_rows=0):
    found = NumberScores(lambda v: columns[:, v], device).answer(tests, all_rows)
    expected = np.array([by_definition(columns, test, all_rows) for test in tests.tolist()]).T
    np.testing.assert_array_equal(found[2], expected[2])
    # of a sum of products of either sign, in its standard deviations
    deviation = np.sqrt(np.maximum(expected[1], 1.0))
    assert np.abs(found[0] - expected[0]).max() <= tolerance * deviation.max()
    np.testing.assert_allclose(found[1], expected[1], rtol=tolerance)
    return expected


def some_tests(rng, p, k, count):
    return np.array([rng.choice(p, 2 + k, replace=False) for _ in range(count)])


def dependent(rng, n, p, shape="normal"):
    columns = getattr(rng, shape)(size=(n, p))
    columns[:, 1:] += 0.5 * columns[:, :-1]
    return columns * 10.0 ** rng.integers(-3, 4, p) + rng.integers(0, 2, p)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(0, 4),
    st.sampled_from([12, 25, 60, 400]),
    st.sampled_from(SHAPES),
    st.sampled_from([0.0, 0.02, 0.3]),
)
def test_scores_are_those_of_the_definition(seed, k, n, shape, missing):
    rng = np.random.default_rng(seed)
    columns = dependent(rng, n, 8, shape)
    columns[rng.random(columns.shape) < missing] = np.nan
    # digits are lost where one value is beyond all others
    assert_as_defined(columns, some_tests(rng, 8, k, 20), tolerance=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(0, 24), st.integers(0, 1000))
def test_few_rows_a_number_of_s_fit_lines_alone(seed, k, more, all_rows):
    rng = np.random.default_rng(seed)
    rows = dependent(rng, n := 25 * k - 1 - more, 2 + k)
    found = NumberScores(lambda v: rows[:, v], CPU).answer(np.arange(2 + k)[None], all_rows)
    design = np.column_stack([np.ones(n), rows[:, 2:]])
    left = rows[:, :2] - design @ np.linalg.lstsq(design, rows[:, :2], rcond=1e-12)[0]
    rest = n - 1 - k
    if rest < 10:
        assert not np.any(found)
        return
    product = clipped(left[:, 0], rest) * clipped(left[:, 1], rest)
    variance = max((product**2).sum() * n / rest, 2 / 3 * rest)
    expected = [[product.sum()], [variance], [rest]]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("curve", [lambda s: np.sin(2 * s), lambda s: np.tanh(3 * s), np.exp])
def test_a_cause_along_a_curve_leaves_few_false_edges(curve):
    rng, tests, total = np.random.default_rng(11), 80, 0.0
    for _ in range(3):
        s = rng.normal(size=(200, tests))
        x, y = (curve(s) + rng.normal(size=s.shape) for _ in range(2))
        rows = np.stack([x, y, s], axis=2).reshape(200, -1)
        asked = np.arange(3 * tests).reshape(tests, 3)
        score, variance, _ = NumberScores(lambda v, own=rows: own[:, v], CPU).answer(asked, 600)
        total = total + np.array([score, variance])
    # at the level .01 squares alone leave more than half
    assert (total[0] ** 2 > 2.576**2 * total[1]).mean() <= 0.1


def test_knots_of_few_values_make_no_column_twice():
    rng = np.random.default_rng(12)
    columns = rng.normal(size=(400, 4))
    columns[:, 2] = rng.poisson(0.7, 400)
    columns[:, 3] = rng.integers(0, 2, 400)
    assert_as_defined(columns, np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3]]))
    assert_as_defined(columns, np.array([[0, 1, 2, 3], [0, 1, 3, 2]]))


SMALL = {
    "many blocks of rows": {(standard_columns, "WHOLE_VALUES"): 1,
                            (standard_columns, "CHUNK_VALUES"): 1},
    "small parts": {(numbers, "MOST_TESTS"): 5, (numbers, "FEWEST_TESTS"): 3},
    "many variables": {(numbers, "MOST_CORRELATIONS"): 9, (numbers, "MOST_VARIABLES"): 4,
                       (numbers, "FEWEST_TESTS"): 2},
    "all gaps together": {(numbers, "LEAST_SHARED"): 0, (numbers, "FEWEST_SHARED"): 0},
    "gaps by blocks": {(numbers, "LEAST_SHARED"): 0, (numbers, "FEWEST_SHARED"): 0,
                       (standard_columns, "WHOLE_VALUES"): 1,
                       (standard_columns, "CHUNK_VALUES"): 1},
    "gaps one by one": {(numbers, "LEAST_SHARED"): 2**60},
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", NAME])
@pytest.mark.parametrize("way", SMALL)
def test_they_are_however_tests_and_rows_are_cut(way, device, monkeypatch):
    for (module, name), value in SMALL[way].items():
        monkeypatch.setattr(module, name, value)
    rng = np.random.default_rng(1)
    columns = dependent(rng, 300, 9, "exponential")
    columns[rng.random(300) < 0.1, 2:4] = np.nan
    columns[rng.random(300) < 0.1, 6] = np.nan
    with written_down():
        for k in range(4):
            assert_as_defined(columns, some_tests(rng, 9, k, 30), resolve_device(device))


def test_all_pairs_are_those_one_by_one():
    rng = np.random.default_rng(2)
    columns = dependent(rng, 200, 12, "standard_cauchy")
    expected = assert_as_defined(columns, np.argwhere(np.triu(np.ones((12, 12), dtype=bool), 1)))
    assert (expected[2] == 199).all()


def test_tests_asked_later_find_the_correlations_of_the_earlier_ones():
    rng = np.random.default_rng(3)
    columns = dependent(rng, 50, 8)
    scores = NumberScores(lambda v: columns[:, v], CPU)
    for k in (3, 1, 2, 0, 1, 3):
        tests = some_tests(rng, 8, k, 40)
        expected = np.array([by_definition(columns, test) for test in tests.tolist()]).T
        for own, other in zip(scores.answer(tests), expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)


# what is hard for sums of squares


def test_constants_and_determined_columns_have_no_variance():
    rng = np.random.default_rng(4)
    columns = dependent(rng, 400, 9)
    columns[:, 1] = 3.0
    columns[:, 2] = 2.0 * columns[:, 0] - 7.0
    columns[:, 3] = columns[:, 0] / np.ptp(columns[:, 0]) + columns[:, 4] / np.ptp(columns[:, 4])
    columns[:, 5] = np.sign(columns[:, 5] - np.median(columns[:, 5]))
    columns[:, 6] = columns[:, 0] + 1e-7 * np.std(columns[:, 0]) * rng.normal(size=400)
    for k in range(4):
        expected = assert_as_defined(columns, some_tests(rng, 9, k, 60))
        assert (expected[2] == 0).any()
        assert (expected[2] > 0).any()


@pytest.mark.parametrize("share", [1e-6, 1e-4, 1e-3])
def test_residuals_that_are_nearly_nothing_are_exact(share):
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(2000, 4))
    columns[:, 1] = columns[:, 0] + share**0.5 * 1e-1 * columns[:, 1]
    assert_as_defined(columns, np.array([[1, 3, 0], [1, 2, 0], [2, 3, 0]]))
    assert_as_defined(columns, np.array([[1, 3, 0, 2], [2, 3, 0, 1]]), tolerance=1e-8)


def test_numbers_far_from_0_and_very_large_or_small_ones():
    rng = np.random.default_rng(6)
    columns = rng.normal(size=(500, 6))
    columns[:, 1:] += 0.4 * columns[:, :-1]
    expected = assert_as_defined(columns, tests := some_tests(rng, 6, 2, 40))
    # powers of two, and origins of which no digit is lost
    moved = np.round(columns * 2.0**20) / 2.0**20
    plain = NumberScores(lambda v: moved[:, v], CPU).answer(tests)
    far = moved * 2.0 ** np.array([0, 800, -800, 0, 300, 0]) + np.array([2.0**28, 0, 0, 1e8, 0, 0])
    np.testing.assert_allclose(plain[1], expected[1], rtol=1e-4)
    for own, other in zip(NumberScores(lambda v: far[:, v], CPU).answer(tests), plain, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)


def test_a_value_beyond_all_others_may_be_in_an_unused_row():
    rng = np.random.default_rng(7)
    columns = rng.normal(size=(300, 5))
    columns[0, 0], columns[0, 1] = 1e6, np.nan
    columns[5:20, 2] = np.nan
    tests = np.array([[0, 1, 3], [3, 1, 0], [0, 1, 2], [3, 4, 0], [0, 3, 4]])
    assert_as_defined(columns, tests)


def test_columns_without_rows_are_not_tested():
    columns = np.full((30, 3), np.nan)
    columns[:, 0] = np.arange(30.0)
    columns[:5, 1] = np.arange(5.0)
    for tests in ([[0, 1], [0, 2], [1, 2]], [[0, 1, 2], [1, 2, 0]]):
        moments = NumberScores(lambda v: columns[:, v], CPU).answer(np.array(tests))
        assert not np.array(moments).any()
    empty = NumberScores(lambda v: columns[:0, v], CPU).answer(np.array([[0, 1]]))
    assert not np.array(empty).any()
