"""Which columns of numbers hold few distinct values, and so tell counts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.sites.compute.rows import FEW_VALUES, few_valued


@given(st.data())
def test_few_values_are_counted_however_rows_and_missing_values_lie(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    held = data.draw(st.lists(st.integers(0, 2 * FEW_VALUES), min_size=1, max_size=6))
    rows = data.draw(st.integers(2 * FEW_VALUES, 400))
    columns = []
    for distinct in held:
        own = np.full(rows, np.nan)
        there = rng.choice(rows, rng.integers(distinct, rows + 1) if distinct else 0, False)
        own[there] = rng.permutation(np.resize(rng.normal(size=distinct), len(there)))
        columns.append(own)
    found = few_valued(np.column_stack(columns))
    assert found.tolist() == [distinct <= FEW_VALUES for distinct in held]


def test_a_value_that_first_comes_late_counts():
    late = np.zeros(1000)
    late[-FEW_VALUES:] = np.arange(1, FEW_VALUES + 1)
    signs = np.where(np.arange(1000) % 2, 0.0, -0.0)
    assert few_valued(np.column_stack([late, signs])).tolist() == [False, True]
