"""Corrected p-values are those of statsmodels, and tests that were not done count for none."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from cipherdag.statistics.p_values import corrected

P_VALUES = st.lists(st.floats(0.0, 1.0) | st.just(np.nan), max_size=30)


@pytest.fixture(scope="module", autouse=True)
def _little_to_collect():
    """Statsmodels collects garbage at every call, among all that the suite has made."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize(("by", "theirs"), [("holm", "holm"), ("benjamini-hochberg", "fdr_bh")])
@given(p_values=P_VALUES)
def test_they_are_those_of_statsmodels(by, theirs, p_values):
    own = np.array(p_values, dtype=float)
    done = ~np.isnan(own)
    found = corrected(own, by)
    assert (np.isnan(found) == ~done).all()
    if done.any():
        expected = multipletests(own[done], method=theirs)[1]
        assert found[done] == pytest.approx(expected, rel=1e-12, abs=1e-300)
