"""Intervals of few rows have Student's t, and variances that grow with the coefficients."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cipherdag.algorithms.effect.estimates import (
    FEWEST_SPARE,
    QUANTILE,
    Uncertainty,
    differences,
    quantile,
)


@given(st.floats(FEWEST_SPARE, 1e7))
def test_the_quantile_is_student_s(spare):
    assert quantile(spare) == pytest.approx(stats.t.ppf(0.975, spare), rel=3e-3)


@pytest.mark.parametrize("spare", [10.0, 30.0, 1000.0])
def test_it_is_nearer_where_there_are_more_rows(spare):
    assert quantile(spare) == pytest.approx(stats.t.ppf(0.975, spare), rel=1e-4)
    assert quantile(math.inf) == QUANTILE


@given(st.floats(0.1, 9.0), st.floats(0.1, 9.0), st.integers(8, 400), st.integers(8, 400))
def test_two_arms_without_models_have_welch_s_interval(first, second, n, m):
    """With a mean of each arm alone, one coefficient, variances are over n - 1."""
    rows = np.array([n, m], dtype=float)
    covariance = np.diag([first / n, second / m])
    own = Uncertainty(covariance, rows, rows - 1.0)
    (one,) = differences(np.array([1.0, 3.0]), own, 0)
    parts = np.array([first / (n - 1), second / (m - 1)])
    freedom = parts.sum() ** 2 / (parts**2 / (rows - 1.0)).sum()
    width = stats.t.ppf(0.975, freedom) * math.sqrt(parts.sum())
    assert (one.low, one.high) == pytest.approx((2.0 - width, 2.0 + width), rel=3e-3, abs=3e-3)
    assert one.error == pytest.approx(math.sqrt(first / n + second / m))
