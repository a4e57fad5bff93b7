"""Least squares on the steps of effects and Cox models look for cells of 1 to 10 rows.

One of two sites subtracts its answers. The attack, and how it is measured, is in
``benchmarks/step_attacks.py``.
"""

import numpy as np
import pytest
from step_attacks import LEAST, effect_study, figures, followed, hazard_study, patients

from cipherdag.sites.compute.rows import FEW_LEVELS, has_levels, smallest_cell

ROWS = 250


def pairs(made, *sizes):
    rng = np.random.default_rng([7, *sizes])
    return [(made(rng, ROWS, *sizes), made(rng, ROWS, *sizes)) for _ in range(2)]


def attacked(study, drawn, *, veto=True, halves=False):
    found = figures(study, drawn, veto=veto, halves=halves)
    assert found["small"] > 1.0
    return found


@pytest.mark.parametrize("site_effect", [False, True])
@pytest.mark.parametrize("numbers", [False, True])
def test_without_the_rule_steps_of_an_effect_tell_small_cells(site_effect, numbers):
    study = effect_study(2, estimator="aipw", site_effect=site_effect, numbers=numbers)
    drawn = [(own[:90], other[:90]) for own, other in pairs(patients, 2)]
    found = attacked(study, drawn, veto=False)
    assert found["found"] >= 0.8 * found["small"] > 2.0 * found["guessed"]


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("estimator", ["regression", "ipw", "aipw", "linear", "standardise"])
def test_what_a_policy_lets_out_of_an_effect_tells_no_more(estimator, numbers):
    own = {} if estimator == "standardise" else {"site_effect": False}
    if numbers and estimator == "standardise":
        own, estimator = own | {"refute": True}, "aipw"
    study = effect_study(2, estimator=estimator, numbers=numbers, **own)
    found = attacked(study, [(a[:90], b[:90]) for a, b in pairs(patients, 2)])
    assert not found["opened"]
    assert found["found"] == found["guessed"]


def test_steps_in_halves_tell_more_than_a_guess():
    study = effect_study(3, estimator="regression", numbers=True, site_effect=False)
    found = attacked(study, pairs(patients, 3), veto=False, halves=True)
    assert found["found"] > found["guessed"]


def test_steps_of_a_cox_model_at_few_times_tell_small_cells():
    study, drawn = hazard_study(3, 1), pairs(followed, 3, 1)
    found = attacked(study, drawn, veto=False)
    assert found["found"] >= 0.7 * found["small"] > 2.0 * found["guessed"]


@pytest.mark.parametrize("times", [1, 3])
def test_what_a_policy_lets_out_of_a_cox_model_tells_no_more(times):
    found = attacked(hazard_study(3, times), pairs(followed, 3, times))
    assert not found["opened"]
    assert found["found"] == found["guessed"]


@pytest.mark.parametrize(
    ("column", "levels"),
    [
        (np.arange(LEAST * FEW_LEVELS) % FEW_LEVELS, True),
        (np.arange(LEAST * FEW_LEVELS) % (FEW_LEVELS + 1), False),
        (np.append(np.zeros(500), np.arange(1, FEW_LEVELS + 1)), False),
        (np.arange(FEW_LEVELS), False),
    ],
)
def test_numbers_that_repeat_few_values_are_levels(column, levels):
    assert has_levels(column.astype(float), 0) == levels
    assert has_levels(column.astype(float), 2)


def test_the_smallest_cell_is_that_of_the_joint_table():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 3, (3, 200)).astype(float)
    counts = np.unique(columns, axis=1, return_counts=True)[1]
    assert smallest_cell(columns) == counts.min()
    assert smallest_cell(columns[:, :0]) == 0
