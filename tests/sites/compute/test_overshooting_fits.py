"""A fit whose first step overshoots all curvature still ends at the maximum."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from cipherdag.sites.compute.ci_tests.regression import RegressionTest

COUNTS = st.integers(0, 60)


def g2(table):
    """The likelihood ratio of a table, by its formula."""
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    met = table > 0
    return 2.0 * float((table[met] * np.log(table[met] / expected[met])).sum())


@given(st.integers(300, 2000), COUNTS, COUNTS, COUNTS)
@example(921, 0, 0, 52)
@example(911, 0, 10, 52)
@example(921, 1, 0, 51)
def test_of_two_categories_the_ratio_is_that_of_their_table(often, one, other, both):
    table = np.array([[often, one], [other, both]], dtype=np.float64)
    rows = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], table.astype(int).ravel(), axis=0)
    test = RegressionTest((2, 2), lambda v: rows[:, v].astype(np.float64), fewest=0.0)
    given_nothing = np.zeros((1, 0), dtype=np.int64)
    statistic = test.evaluate(np.array([0]), np.array([1]), given_nothing).statistic[0]
    if not np.isnan(statistic):
        assert np.isclose(statistic, g2(table), rtol=1e-5, atol=1e-5)
