"""Descriptions of sites that measured different columns: each column by the sites that have it."""

import numpy as np
import pandas as pd
import pytest
from overlapping import EXACT, NAMES, simulated, sites_of

from cipherdag import Policy
from cipherdag.algorithms.describe.algorithm import Describe
from cipherdag.sites.policy.policy import QUESTION_KINDS


@pytest.mark.parametrize("policy", [EXACT, Policy(questions=QUESTION_KINDS)])
def test_every_column_is_described_by_the_rows_that_have_it(policy):
    frames = sites_of(np.random.default_rng(12), discrete=range(0, 12, 2))
    found = simulated(frames, policy=policy).run(Describe()).finding.columns
    rows = pd.concat(frames)
    for v, name in enumerate(NAMES):
        own = rows[name].dropna()
        least, most = found[name].values_between
        assert least <= len(own) <= most
        assert policy.min_cell_size > 1 or least == most
        if v % 2:
            slack = 0.05 * own.std() if policy.min_cell_size > 1 else 1e-6
            assert found[name].mean == pytest.approx(own.mean(), abs=slack)
    assert found["v00"].n_rows < found["v01"].n_rows <= len(rows)
