"""Ratios of hazards that differ between sites, or change over time, are warned of."""

import numpy as np
import pandas as pd
import pytest
from driving import drive
from simulating import federated, view_of
from statsmodels.duration.hazard_regression import PHReg

from cipherdag import Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.questions.estimation.hazards import HazardSteps

MODEL = Survival(time="months", event="died", adjust=("age", "drug"), edges=(2.0, 5.0, 10.0, 20.0))


def patients(rng, n, age=0.5, early=-0.5, late=-0.5, level=1.0):
    """Rows of a site, with the logarithms of its ratios of hazards; the drug's changes at 4."""
    years, drug, lost = rng.normal(size=n), rng.random(n) < 0.5, rng.uniform(1.0, 25.0, n)
    hazard, wait = 0.1 * level * np.exp(age * years), rng.exponential(size=n)
    before = 4.0 * hazard * np.exp(early * drug)
    time = np.where(
        wait < before,
        4.0 * wait / before,
        4.0 + (wait - before) / (hazard * np.exp(late * drug)),
    )
    died = np.where(time <= lost, "yes", "no")
    return pd.DataFrame(
        {
            "age": 60.0 + 10.0 * years,
            "died": died,
            "drug": np.where(drug, "b", "a"),
            "months": np.minimum(time, lost),
        }
    )


def hospitals(rng, n, ages=(0.5, 0.5, 0.5), **more):
    each = zip(ages, (0.5, 1.0, 2.0), strict=True)
    return {f"s{k}": patients(rng, n, age, level=by, **more) for k, (age, by) in enumerate(each)}


def run(data, least=0):
    return federated(data, least).run(MODEL)


def said(result):
    """Of which columns it is warned that sites differ, and that ratios change."""
    warnings = result.report.warnings
    return (
        [w for w in warnings if "that each site's rows tell alone" in w],
        [w for w in warnings if "over time (p" in w],
    )


@pytest.mark.parametrize("least", [0, 5])
def test_each_is_said_where_it_is_so_and_seldom_elsewhere(least):
    false = 0
    for draw in range(2):
        rng = np.random.default_rng((draw, 61))
        false += any(said(run(hospitals(rng, 300), least)))
        differ, _ = said(run(hospitals(rng, 300, ages=(0.0, 0.5, 1.0)), least))
        assert "of age that" in differ[0]
        _, change = said(run(hospitals(rng, 300, early=0.7, late=-0.7), least))
        assert "drug b rather than a falls over time" in change[0]
    assert false <= 1


def test_cochrans_q_is_about_that_of_models_of_each_site():
    data = hospitals(np.random.default_rng(7), 800, ages=(0.4, 0.5, 0.6))
    logs, variances = [], []
    for rows in data.values():
        columns = np.column_stack([rows["age"], rows["drug"] == "b"]).astype(float)
        fit = PHReg(rows["months"], columns, rows["died"] == "yes", ties="efron").fit()
        logs.append(fit.params)
        variances.append(fit.bse**2)
    weights = 1.0 / np.array(variances)
    mean = (weights * logs).sum(axis=0) / weights.sum(axis=0)
    q = (weights * (logs - mean) ** 2).sum(axis=0)
    ratios = run(data).finding.model.ratios
    assert [one.between.q for one in ratios] == pytest.approx(q, rel=0.1)
    assert [one.between.estimate for one in ratios] == pytest.approx(mean, rel=0.05)
    assert [one.between.sites for one in ratios] == [3, 3]


@pytest.mark.parametrize(("size", "compared"), [(25, False), (300, True)])
def test_a_site_of_few_events_compares_nothing(size, compared):
    data = hospitals(np.random.default_rng(3), 300)
    data["s2"] = data["s2"].head(size)
    ratios = run(data).finding.model.ratios
    assert all((one.between is not None) == compared for one in ratios)
    assert all(one.log_ratio is not None for one in ratios)


def test_a_site_that_restricts_counts_never_sends_exact_steps():
    table = federated(hospitals(np.random.default_rng(3), 300)).sites[0].table
    exact, noisy = view_of(table), view_of(table, 5)
    facts = Facts(4, 1, names=tuple(table.names), min_contributors=1)
    _, asked = drive(MODEL.ask(facts), [exact])
    question = next(one for one in asked if isinstance(one, HazardSteps) and one.by_site)
    weight, mean, _, there = exact.answer(question).reshape(4, -1)
    of_noisy = noisy.answer(question).reshape(4, -1)
    assert there.all()
    assert of_noisy[3].all()
    effects, errors = mean / weight, weight**-0.5
    changed = abs(of_noisy[1] / of_noisy[0] - effects) / errors
    assert (changed > 0.0).all()
    assert (changed <= 0.25).all()
    assert (abs(of_noisy[0] ** -0.5 / errors - 1.0) <= 0.1 + 1e-12).all()
    assert np.array_equal(of_noisy[0], noisy.answer(question).reshape(4, -1)[0])
