"""What an error advises where small counts stop an effect makes it estimable."""

import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from advice import QUOTED, advice

from cipherdag import Effect, Federation, Policy
from cipherdag.sites.policy.policy import QUESTION_KINDS

SITES = "abc"
COLUMNS = ("drug", "well", "sex", "stage")


def even(rows):
    """All combinations of four columns, as often as goes into so many rows."""
    each = -(-rows // 2 ** len(COLUMNS))
    return pd.DataFrame([*product("ny", repeat=len(COLUMNS))] * each, columns=COLUMNS)


def ward(seed):
    """Twelve rows of all combinations but for a late stage, which few have."""
    rng, rows = np.random.default_rng(seed), even(192).drop_duplicates(COLUMNS[:3])
    rows = pd.concat([rows] * 12, ignore_index=True)
    return rows.assign(stage=np.where(rng.random(len(rows)) < 0.1, "y", "n"))


def run(data, adjust="sex,stage", least=11, estimator="aipw"):
    federation = Federation.simulate(
        data, policy=Policy(questions=QUESTION_KINDS, min_cell_size=least), device="cpu"
    )
    asked = Effect(treatment="drug", outcome="well", adjust=adjust, estimator=estimator)
    return federation.run(asked).finding


@pytest.mark.follows("Adjust for {}. Or have {} rows of each combination of categories")
def test_small_counts_that_stop_an_effect_are_met_as_advised():
    data = {name: ward(k) for k, name in enumerate(SITES)}
    estimators = ("aipw", "ipw", "regression", "linear", "standardise")
    (remedy,) = {advice(run, data, estimator=each) for each in estimators}
    fewer, more, seen = remedy.split(". ")[:3]
    (alone,) = QUOTED.findall(fewer)
    each, needed, combinations, held = map(int, re.findall(r"\d+", more))
    assert needed == each * combinations > held == len(data["a"])
    least = int(re.search(r"--min-cell-size (\d+)", seen)[1])
    assert f"min_cell_size={least})" in seen
    for estimator in estimators:
        met = (
            run(data, adjust=alone, estimator=estimator),
            run(dict.fromkeys(SITES, even(needed)), estimator=estimator),
            run(data, least=least, estimator=estimator),
        )
        assert all(found.sets[0].contrasts for found in met)


@pytest.mark.follows("Adjust for {}. Or have {} rows of each combination of categories")
def test_an_effect_that_no_column_leaves_possible_says_so():
    wards = {name: ward(k) for k, name in enumerate(SITES)}
    data = {name: own.assign(sex=own["stage"].to_numpy()[::-1]) for name, own in wards.items()}
    assert "Adjust for nothing, which compares the arms as they are." in advice(run, data)
    assert run(data, adjust="").sets[0].contrasts
