"""Columns that are exact copies of each other: a test that S determines is no independence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest


def copies(rows=3000):
    """x, its copy, and y that depends on x."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 3, rows)
    y = np.where(rng.random(rows) < 0.4, x, rng.integers(0, 3, rows))
    return pd.DataFrame({"copy": x, "x": x, "y": y})


@pytest.mark.parametrize("dof", ["adjusted", "plain"])
def test_only_tests_that_the_set_determines_are_not_done(dof):
    codes = np.column_stack([copies().to_numpy(), np.zeros(3000, dtype=int)])
    test = DiscreteTest(codes, dof=dof, determined="untestable")
    one = np.array([0, 1, 0, 0]), np.array([2, 2, 3, 2]), np.array([[1], [0], [1], [3]])
    p_value = test.evaluate(*one).p_value
    assert np.isnan(p_value[:2]).all()  # x and y given x's copy
    assert p_value[2] == 1.0 or dof == "plain"  # a constant is independent of all, as ever
    assert p_value[3] < 1e-10
    before = DiscreteTest(codes, dof=dof).evaluate(*one).p_value
    assert (before[:2] == 1.0).all()
