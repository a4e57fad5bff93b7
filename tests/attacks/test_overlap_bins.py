"""Rows that counts of propensities leave out, by subtraction from the rows of an arm."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import Effect, Federation, Policy
from cipherdag.sites.compute.models import estimating_functions
from cipherdag.sites.policy.policy import QUESTION_KINDS

LEAST, FEW = 11, 5


def hospital(rng, rows, few=0):
    """Treatment by age; some that went without it though they are far older than all others."""
    age = rng.uniform(-1.4, 1.4, rows)
    treated = rng.random(rows) < 1 / (1 + np.exp(-1.2 * age))
    age = np.append(age, rng.uniform(5.2, 5.6, few))
    treated = np.append(treated, np.zeros(few, dtype=bool))
    cost = age + treated + rng.normal(size=len(age))
    return pd.DataFrame({"age": age, "treated": np.where(treated, "yes", "no"), "cost": cost})


def left_out(rule, monkeypatch):
    """By arm: all rows told less those in bins; and what every site leaves out."""
    rng, own = np.random.default_rng(0), []

    def told(counts, min_cell_size):
        kept = rule(counts, min_cell_size)
        own.append(int(counts.sum() - kept.sum()))
        return kept

    monkeypatch.setattr(estimating_functions, "suppress_small_counts", told)
    sites = {"a": hospital(rng, 1500), "b": hospital(rng, 1500, FEW), "c": hospital(rng, 1500)}
    policy = Policy(questions=QUESTION_KINDS, min_cell_size=LEAST)
    found = Federation.simulate(sites, policy=policy, device="cpu").run(
        Effect(treatment="treated", outcome="cost", adjust="age")
    )
    bins = found.table("overlap").groupby("arm").rows.sum()
    return {arm: rows - bins[arm] for _, arm, rows, *_ in found.finding.cells("arms")}, own


def test_bins_that_are_left_out_alone_tell_their_rows(monkeypatch):
    """The rule of single counts: what the bins lack is one site's few rows."""
    attacked, _ = left_out(lambda counts, least: np.where(counts < least, 0, counts), monkeypatch)
    assert attacked["no"] == FEW


def test_what_the_bins_of_an_arm_lack_is_of_no_few_rows(monkeypatch):
    attacked, own = left_out(estimating_functions.suppress_small_counts, monkeypatch)
    assert attacked["no"] >= LEAST
    assert all(hidden == 0 or hidden >= LEAST for hidden in own)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=10))
def test_no_arm_that_may_be_told_of_leaves_out_few(counts):
    kept = estimating_functions.suppress_small_counts(np.array([*counts, LEAST]), LEAST)
    hidden = sum(counts) + LEAST - kept.sum()
    assert hidden == 0 or hidden >= LEAST
    assert not ((kept > 0) & (kept < LEAST)).any()
