import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import random_of_size
from scipy import stats

from cipherdag.errors import NotNumericError, ParameterError
from cipherdag.sites.compute.ci_tests import fisherz
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest

FIELDS = ("p_value", "statistic", "dof", "dependence", "rows")


def slow_test(values, x, y, given):
    """One test by least squares on the complete rows: p-value, statistic, |r|, rows."""
    names = [x, y, *given]
    kept = values[~np.isnan(values[:, names]).any(axis=1)][:, names]
    spread = len(kept) - len(given) - 3
    if spread <= 0:
        return math.nan, math.nan, math.nan, len(kept)
    kept = (kept - kept.mean(axis=0)) / kept.std(axis=0)
    left = kept[:, :2] - kept[:, 2:] @ np.linalg.lstsq(kept[:, 2:], kept[:, :2], rcond=None)[0]
    r = (left[:, 0] @ left[:, 1]) / np.sqrt((left[:, 0] ** 2).sum() * (left[:, 1] ** 2).sum())
    z = math.sqrt(spread) * math.atanh(r)
    return 2 * stats.norm.sf(abs(z)), z, abs(r), len(kept)


def mixture(rng, rows, variables, missing=0.0):
    """Correlated normal columns of very different means and scales, some cells missing."""
    values = rng.normal(size=(rows, variables)) @ rng.normal(size=(variables, variables))
    values = values * 10.0 ** rng.integers(-6, 7, variables) + 10.0 ** rng.integers(
        -6, 7, variables
    )
    values[rng.random(values.shape) < missing] = np.nan
    return values


def one_test(x, y, *members):
    return np.array([x]), np.array([y]), np.array([members], dtype=np.int64)


def assert_identical(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def check_against_slow(values, tests):
    found = FisherZTest(values).evaluate(*tests)
    assert np.isnan(found.dof).all()
    for index in range(len(tests[0])):
        x, y, members = (part[index].tolist() for part in tests)
        got = [
            getattr(found, name)[index] for name in ("p_value", "statistic", "dependence", "rows")
        ]
        np.testing.assert_allclose(got, slow_test(values, x, y, members), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("rows", "missing"), [(400, 0.0), (400, 0.1), (9000, 0.02), (11, 0.1)])
def test_agrees_with_a_slow_reference(rows, missing):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(rows, 8)) + 1e3
    values[:, 1:] += 0.7 * values[:, :-1]
    values[:, 3] *= 1e-7
    values[:, 5] *= 1e9
    values[:, :6][rng.random((rows, 6)) < missing] = np.nan
    for size in range(6):
        check_against_slow(values, random_of_size(rng, 8, size, 20))


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_correlations_kept_once_are_those_kept_twice(missing, monkeypatch):
    rng = np.random.default_rng(8)
    values = mixture(rng, 9000, 11)
    values[:, 4] = 7.0
    values[:, 5:7][rng.random((9000, 2)) < missing] = np.nan
    twice = FisherZTest(values)
    monkeypatch.setattr(fisherz, "FULL_UP_TO", 10)
    monkeypatch.setattr(fisherz, "PANEL", 4)
    once = FisherZTest(values)
    assert len(once._correlations.entries) == 66
    for size in range(4):
        tests = random_of_size(rng, 11, size, 200)
        wanted, found = twice.evaluate(*tests), once.evaluate(*tests)
        for name in FIELDS:
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9)
        assert_identical(once.evaluate(tests[1], tests[0], tests[2]), found)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0.0, 0.1, 0.5]))
def test_agrees_with_the_reference_on_any_small_matrix(seed, rows, missing):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 5)) * 10.0 ** rng.integers(-9, 10, 5)
    values[rng.random(values.shape) < missing] = np.nan
    for size in range(4):
        tests = random_of_size(rng, 5, size, 4)
        found = FisherZTest(values).evaluate(*tests)
        for index in range(4):
            x, y, members = (part[index].tolist() for part in tests)
            wanted = slow_test(values, x, y, members)
            assert found.rows[index] == wanted[3]
            if wanted[3] > size + 8:  # fewer rows make matrices that are nearly singular
                np.testing.assert_allclose(found.p_value[index], wanted[0], atol=1e-8)
            if math.isnan(wanted[0]):
                assert math.isnan(found.p_value[index])


def test_agrees_with_causal_learn_and_scipy():
    from causallearn.utils.cit import CIT

    rng = np.random.default_rng(2)
    values = rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6))
    theirs = CIT(values, "fisherz")
    ours = FisherZTest(values)
    for size in range(5):
        x, y, members = random_of_size(rng, 6, size, 15)
        found = ours.evaluate(x, y, members)
        wanted = [theirs(int(a), int(b), s.tolist()) for a, b, s in zip(x, y, members, strict=True)]
        np.testing.assert_allclose(found.p_value, wanted, rtol=0, atol=1e-9)
    r = stats.pearsonr(values[:, 0], values[:, 1]).statistic
    np.testing.assert_allclose(ours.evaluate(*one_test(0, 1)).dependence[0], abs(r), rtol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_memory_order_and_repetition_change_no_bit(missing):
    rng = np.random.default_rng(3)
    values = mixture(rng, 300, 9, missing)
    roomy = FisherZTest(values)
    for size in range(6):
        x, y, members = random_of_size(rng, 9, size, 150)
        wanted = roomy.evaluate(x, y, members)
        assert not np.isnan(wanted.p_value).all()
        assert_identical(roomy.evaluate(x, y, members), wanted)
        assert_identical(roomy.evaluate(y, x, members[:, ::-1]), wanted)
        for memory in (1, 30_000):
            tight = FisherZTest(values, memory_bytes=memory)
            assert_identical(tight.evaluate(x, y, members), wanted)
            assert_identical(tight.evaluate(x, y, members), wanted)


def test_long_columns_change_no_bit_either():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(40_000, 4))
    values[::7, 1] = np.nan
    tests = random_of_size(rng, 4, 1, 12)
    wanted = FisherZTest(values).evaluate(*tests)
    assert_identical(FisherZTest(values, memory_bytes=1).evaluate(*tests), wanted)


def test_missing_values_cost_a_test_only_rows_of_its_variables():
    values = np.random.default_rng(5).normal(size=(100, 4))
    values[:10, 1] = np.nan
    values[5:20, 2] = np.nan
    test = FisherZTest(values)
    rows = {(0, 3): 100, (0, 1): 90, (1, 2): 80, (0, 2): 85}
    for (x, y), count in rows.items():
        assert test.evaluate(*one_test(x, y)).rows[0] == count
    assert test.evaluate(*one_test(0, 3, 1, 2)).rows[0] == 80


def test_constant_columns_are_dependent_on_everything():
    values = np.random.default_rng(6).normal(size=(5000, 5))
    values[:, 1] = 0.1  # its mean is not representable
    values[:, 2] = 0.0
    values[:, 3] = 1e9
    values[7, 3] = np.nextafter(1e9, 2e9)
    test = FisherZTest(values)
    for tests in (one_test(0, 1), one_test(0, 2), one_test(0, 3), one_test(0, 4, 1)):
        found = test.evaluate(*tests)
        for name in ("p_value", "statistic", "dependence"):
            assert math.isnan(getattr(found, name)[0])
        assert found.rows[0] == 5000
    assert not math.isnan(test.evaluate(*one_test(0, 4)).p_value[0])


def test_a_column_constant_in_the_rows_left_is_constant():
    values = np.random.default_rng(6).normal(size=(60, 3))
    values[:40, 1] = 0.1
    values[40:, 0] = np.nan
    test = FisherZTest(values)
    assert math.isnan(test.evaluate(*one_test(0, 1)).p_value[0])
    assert math.isnan(test.evaluate(*one_test(0, 2, 1)).p_value[0])
    assert not math.isnan(test.evaluate(*one_test(1, 2)).p_value[0])


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_few_rows_are_dependent(rows):
    values = np.random.default_rng(7).normal(size=(rows, 4))
    test = FisherZTest(values)
    assert math.isnan(test.evaluate(*one_test(0, 1)).p_value[0]) == (rows <= 3)
    assert math.isnan(test.evaluate(*one_test(0, 1, 2)).p_value[0])


def test_a_column_that_is_all_missing_leaves_no_rows():
    values = np.random.default_rng(7).normal(size=(50, 4))
    values[:, 2] = np.nan
    found = FisherZTest(values).evaluate(np.array([0, 0]), np.array([1, 2]), np.array([[2], [3]]))
    assert np.isnan(found.p_value).all()
    assert (found.rows == 0).all()


@pytest.mark.parametrize("missing", [False, True])
def test_singular_sets_are_dependent(missing):
    rng = np.random.default_rng(8)
    values = rng.normal(size=(400, 7))
    values[:, 4] = 3.0 * values[:, 0] - 7.0  # a duplicate
    values[:, 5] = values[:, 0] + values[:, 1] - 2 * values[:, 2]  # a linear combination
    values[:, 6] = values[:, 3] + 1e-7 * rng.normal(size=400)  # nearly a duplicate
    if missing:
        values[::9, 3] = np.nan
        values[::13, 0] = np.nan
    test = FisherZTest(values)
    for tests in (
        one_test(1, 3, 0, 4),
        one_test(0, 3, 4),
        one_test(3, 5, 0, 1, 2),
        one_test(1, 3, 0, 2, 5),
        one_test(0, 1, 3, 6),
    ):
        found = test.evaluate(*tests)
        for name in ("p_value", "statistic", "dependence"):
            assert math.isnan(getattr(found, name)[0])


@pytest.mark.parametrize("missing", [False, True])
def test_variables_that_determine_each_other_have_p_value_zero(missing):
    rng = np.random.default_rng(9)
    values = rng.normal(size=(300, 5))
    values[:, 3] = -2.0 * values[:, 0]
    values[:, 4] = values[:, 1] + values[:, 2]
    if missing:
        values[::9, 3:] = np.nan
    test = FisherZTest(values)
    for tests, sign in ((one_test(3, 0), -1), (one_test(1, 2, 4), -1), (one_test(1, 4, 2), 1)):
        found = test.evaluate(*tests)
        assert found.p_value[0] == 0.0
        assert 1 - 1e-12 < found.dependence[0] < 1
        assert np.isfinite(found.statistic[0])
        assert np.sign(found.statistic[0]) == sign


def test_scales_and_offsets_change_nothing():
    rng = np.random.default_rng(10)
    values = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    tests = (np.array([0, 1]), np.array([1, 2]), np.array([[2, 3], [0, 3]]))
    wanted = FisherZTest(values).evaluate(*tests)
    for scale in (1e-300, 1e300):
        found = FisherZTest(values * scale).evaluate(*tests)
        np.testing.assert_allclose(found.p_value, wanted.p_value, rtol=1e-10)
    found = FisherZTest(values + 1e5).evaluate(*tests)
    np.testing.assert_allclose(found.p_value, wanted.p_value, rtol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_p_values_are_uniform_under_the_null(missing):
    rng = np.random.default_rng(11)
    groups, rows = 300, 120
    common = rng.normal(size=(rows, groups))
    x = common + rng.normal(size=common.shape)
    y = rng.normal(size=common.shape) - 2 * common
    values = np.concatenate([common, x, y], axis=1)
    values[rng.random(values.shape) < missing] = np.nan
    test = FisherZTest(values)
    place = np.arange(groups)
    nothing = np.zeros((groups, 0), dtype=np.int64)
    conditional = test.evaluate(place + groups, place + 2 * groups, place[:, None])
    assert stats.kstest(conditional.p_value, "uniform").pvalue > 0.01
    marginal = test.evaluate(place + groups, (place + 1) % groups, nothing)
    assert stats.kstest(marginal.p_value, "uniform").pvalue > 0.01
    dependent = test.evaluate(place + groups, place + 2 * groups, nothing)
    assert (dependent.p_value < 0.01).all()


def test_parameters_are_checked():
    values = np.random.default_rng(12).normal(size=(10, 4))
    for bad in (
        values[0],
        values[:0],
        values[:, :0],
        values.astype(np.float32),
        values.astype(int),
    ):
        with pytest.raises(ParameterError):
            FisherZTest(bad)
    for options in ({"memory_bytes": 0}, {"device": "abacus"}):
        with pytest.raises(ParameterError):
            FisherZTest(values, **options)
    values[3, 2] = -np.inf
    with pytest.raises(NotNumericError):
        FisherZTest(values)


def test_the_data_stay_as_they_are_and_may_be_read_only():
    values = np.random.default_rng(13).normal(size=(30, 4))
    values[3, 1] = np.nan
    before = values.copy()
    values.flags.writeable = False
    for order in (values, np.asfortranarray(values)):
        FisherZTest(order).evaluate(*one_test(0, 1, 2))
    np.testing.assert_array_equal(values, before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_cuda_agrees_with_the_processor(missing):
    rng = np.random.default_rng(14)
    values = mixture(rng, 500, 8, missing)
    here, there = FisherZTest(values), FisherZTest(values, device="cuda")
    for size in range(5):
        tests = random_of_size(rng, 8, size, 60)
        one, other = here.evaluate(*tests), there.evaluate(*tests)
        for name in FIELDS:
            np.testing.assert_allclose(
                getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9
            )
