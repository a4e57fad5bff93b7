"""The likelihood-ratio test on mixed columns, against scipy's optimiser and closed forms."""

from __future__ import annotations

import numpy as np
import original_fedpc as original
import pytest
from scipy import optimize, stats

from cipherdag.errors import ParameterError
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest
from cipherdag.sites.compute.ci_tests.mixed import LikelihoodRatioTest


def mixed_table(seed, rows=300):
    """Columns 0, 1, 2 are 0/1 and 3, 4, 5 numbers, each depending on some before it."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, (2, rows)).astype(float)
    u = a + rng.standard_normal(rows)
    v = 0.5 * u - b + rng.standard_normal(rows)
    c = (v + rng.logistic(size=rows) > 0).astype(float)
    w = 100.0 + 7.0 * (0.3 * v + c + rng.standard_normal(rows))
    return np.column_stack([a, b, c, u, v, w])


BINARY = np.array([True, True, True, False, False, False])


def reference(rows, x, y, given):
    """Twice the gain in log likelihood, by scipy's optimiser or by least squares."""
    if not BINARY[x] and BINARY[y]:
        x, y = y, x
    small = np.column_stack([np.ones(len(rows)), rows[:, given]])
    large = np.column_stack([small, rows[:, y]])
    if BINARY[x]:
        return logistic_loss(small, rows[:, x]) - logistic_loss(large, rows[:, x])
    residuals = [np.linalg.lstsq(d, rows[:, x], rcond=None)[1][0] for d in (small, large)]
    return len(rows) * np.log(residuals[0] / residuals[1])


def logistic_loss(design, y):
    scale = np.abs(design).max(axis=0)

    def loss(beta):
        eta = design / scale @ beta
        return 2 * (np.logaddexp(0, eta) - y * eta).sum()

    found = optimize.minimize(loss, np.zeros(design.shape[1]), method="BFGS", tol=1e-10)
    return found.fun


@pytest.mark.parametrize("seed", range(3))
def test_outcomes_equal_those_of_an_optimiser(seed):
    rows = mixed_table(seed)
    test = LikelihoodRatioTest(rows, BINARY)
    rng = np.random.default_rng(seed)
    for size in range(4):
        order = np.array([rng.permutation(6)[: size + 2] for _ in range(12)])
        evidence = test.evaluate(order[:, 0], order[:, 1], order[:, 2:])
        for b, (x, y) in enumerate(np.sort(order[:, :2]).tolist()):
            expected = reference(rows, x, y, order[b, 2:].tolist())
            assert evidence.statistic[b] == pytest.approx(expected, rel=1e-5, abs=1e-4)
            p_value = stats.chi2.sf(evidence.statistic[b], 1)
            assert evidence.p_value[b] == pytest.approx(p_value, rel=1e-9)
        assert (evidence.dependence == evidence.statistic).all()
        assert (evidence.rows == 300).all()


def test_two_binary_columns_give_g2_and_two_numbers_what_fisher_z_sees():
    rows = mixed_table(4)
    test = LikelihoodRatioTest(rows, BINARY)
    none = np.zeros((1, 0), dtype=int)
    for x, y in ((0, 1), (0, 2), (1, 2)):
        evidence = test.evaluate(np.array([x]), np.array([y]), none)
        p_value, g2 = original.g2_test(rows[:, :3].astype(int), x, y, [])
        assert evidence.statistic[0] == pytest.approx(g2, abs=1e-6)
        assert evidence.p_value[0] == pytest.approx(p_value, abs=1e-6)
    pair = np.array([3]), np.array([5]), np.array([[4, 0]])
    correlation = FisherZTest(rows).evaluate(*pair).dependence[0]
    expected = -300 * np.log1p(-(correlation**2))
    assert test.evaluate(*pair).statistic[0] == pytest.approx(expected, rel=1e-6)


def test_p_values_are_uniform_under_independence():
    rng = np.random.default_rng(9)
    p_values = []
    for _ in range(400):
        z = rng.standard_normal(200)
        x = (z + rng.logistic(size=200) > 0).astype(float)
        y = z + rng.standard_normal(200)
        test = LikelihoodRatioTest(np.column_stack([x, y, z]), np.array([True, False, False]))
        p_values.append(test.evaluate(np.array([0]), np.array([1]), np.array([[2]])).p_value[0])
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


def test_order_batch_and_repetition_change_nothing():
    rows = mixed_table(5)
    rows[::17, 3] = np.nan
    rows[::13, 0] = np.nan
    x, y = np.array([0, 3, 2, 5]), np.array([3, 1, 0, 4])
    given = np.array([[1, 5], [4, 2], [4, 5], [1, 0]])
    batch = LikelihoodRatioTest(rows, BINARY)
    together = batch.evaluate(x, y, given)
    turned = LikelihoodRatioTest(rows, BINARY, memory_bytes=1).evaluate(y, x, given[:, ::-1])
    alone = [
        LikelihoodRatioTest(rows, BINARY).evaluate(x[b : b + 1], y[b : b + 1], given[b : b + 1])
        for b in range(4)
    ]
    again = batch.evaluate(x, y, given)
    for name in ("p_value", "statistic", "rows"):
        expected = getattr(together, name)
        assert np.array_equal(expected, getattr(turned, name))
        assert np.array_equal(expected, [getattr(own, name)[0] for own in alone])
        assert np.array_equal(expected, getattr(again, name))


def test_missing_values_are_left_out_test_by_test():
    rows = mixed_table(6)
    holes = rows.copy()
    holes[:40, 3] = np.nan
    test = LikelihoodRatioTest(holes, BINARY)
    complete = LikelihoodRatioTest(rows[40:], BINARY)
    pair = np.array([2]), np.array([3]), np.array([[4]])
    assert test.evaluate(*pair).rows[0] == 260
    assert test.evaluate(*pair).statistic[0] == pytest.approx(complete.evaluate(*pair).statistic[0])
    pair = np.array([2]), np.array([5]), np.array([[4]])
    assert test.evaluate(*pair).rows[0] == 300


def test_what_cannot_be_tested_is_unreliable():
    rng = np.random.default_rng(1)
    n = 100
    rare = (np.arange(n) < 9).astype(float)
    half = rng.integers(0, 2, n).astype(float)
    z = rng.standard_normal(n)
    rows = np.column_stack([rare, half, z, 2.0 * z - 1.0, np.ones(n), rng.standard_normal(n)])
    test = LikelihoodRatioTest(rows, np.array([True, True, False, False, False, False]))

    def p_value(x, y, *given):
        return test.evaluate(np.array([x]), np.array([y]), np.array([given], dtype=int)).p_value[0]

    assert np.isnan(p_value(0, 2))  # 9 rows of the rarer value for two coefficients
    assert not np.isnan(p_value(1, 2))
    assert np.isnan(p_value(1, 4))  # constant
    assert np.isnan(p_value(2, 4))
    assert np.isnan(p_value(1, 3, 2))  # a linear combination of the condition
    assert not np.isnan(p_value(1, 5, 2, 3))  # a condition too many does no harm
    assert p_value(2, 3) < 1e-100


def test_separated_values_have_a_finite_ratio():
    z = np.linspace(-1, 1, 60)
    rows = np.column_stack([(z > 0).astype(float), z])
    evidence = LikelihoodRatioTest(rows, np.array([True, False])).evaluate(
        np.array([0]), np.array([1]), np.zeros((1, 0), dtype=int)
    )
    assert evidence.statistic[0] == pytest.approx(2 * 60 * np.log(2), rel=1e-6)
    assert evidence.p_value[0] < 1e-15


@pytest.mark.parametrize(
    ("values", "binary"),
    [
        (np.zeros((3, 2), dtype=int), np.zeros(2, dtype=bool)),
        (np.zeros((0, 2)), np.zeros(2, dtype=bool)),
        (np.zeros((3, 2)), np.zeros(3, dtype=bool)),
        (np.full((3, 2), 0.5), np.array([True, False])),
    ],
)
def test_impossible_arrays_are_refused(values, binary):
    with pytest.raises(ParameterError):
        LikelihoodRatioTest(values, binary)
