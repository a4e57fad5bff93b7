"""Where nobody is treated below a number, or the treatment's model is curved, it is said."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from simulating import federated

from cipherdag import Effect

CHANCES = {
    "right": lambda z: 1.0 / (1.0 + np.exp(-0.5 * z)),
    "nobody below": lambda z: 0.5 * (z > -0.5),
    "curved": lambda z: 1.0 / (1.0 + np.exp(0.7 - 0.7 * z**2)),
}


def rows_of(world, draw, n=600):
    rng = np.random.default_rng((draw, n))
    z, w = rng.normal(size=(2, n))
    drug = rng.random(n) < CHANCES[world](z)
    cost = z + w + drug + rng.normal(size=n)
    named = {"z": 50.0 + 8.0 * z, "w": w, "drug": np.where(drug, "yes", "no")}
    return pd.DataFrame({**named, "cost": cost})


def run(rows, least):
    asked = Effect(treatment="drug", outcome="cost", adjust="z,w")
    return federated({f"site-{k}": rows[k::3] for k in range(3)}, least).run(asked)


def said(result):
    return [w for w in result.report.warnings if "than the treatment's model says" in w]


def follows_a_curve(result):
    return [w for w in result.report.warnings if "along a curve that the treatment's model" in w]


def test_a_bend_that_no_value_divides_is_named_as_a_curve():
    # a log odds of exp(0.8 z), of deviation 1: in most samples no step at a value is clear
    named = steps = 0
    for draw in range(6):
        rows = rows_of("right", draw)
        z = (rows["z"] - 50.0) / 8.0
        push = (np.exp(0.8 * z) - 1.38) / 1.31
        rng = np.random.default_rng(draw)
        drug = rng.random(600) < 1.0 / (1.0 + np.exp(-push))
        rows["drug"] = np.where(drug, "yes", "no")
        result = run(rows, 0)
        steps += bool(said(result))
        named += bool(said(result) or follows_a_curve(result))
    assert named >= 4
    assert steps < named


def test_lines_are_seldom_named_as_curves():
    assert sum(bool(follows_a_curve(run(rows_of("right", draw), 0))) for draw in range(8)) <= 1


@pytest.mark.parametrize("least", [0, 11])
@pytest.mark.parametrize("world", CHANCES)
def test_a_model_that_misses_below_a_value_is_named(world, least):
    warned = [said(run(rows_of(world, draw), least)) for draw in range(3)]
    if world == "right":
        assert not any(warned)
        return
    assert all("Rows with z below" in one for (one,) in warned)
    often = "less" if world == "nobody below" else "more"
    assert f"have yes {often} often" in warned[0][0]


def test_a_score_is_that_of_a_step_in_each_sites_model():
    rows = rows_of("curved", 1, n=900)
    federation = federated({f"site-{k}": rows[k::3] for k in range(3)})
    result = federation.run(Effect(treatment="drug", outcome="cost", adjust="z,w"))
    (of_z, of_w) = sorted(result.finding.sets[0].departures, key=lambda one: one.variable)[::-1]
    assert (of_z.variable, of_w.variable, of_z.tests, of_z.arm) == ("z", "w", 5, 1)
    score = variance = 0.0
    for site in federation.sites:
        names = site.table.names
        numbers = site.table.values  # noqa: PD011
        z, w = (numbers[:, names.index(name)] for name in "zw")
        drug = site.table.codes[:, names.index("drug")]
        columns = np.column_stack([np.ones(len(z)), z, w])
        chance = sm.Logit(drug, columns).fit(disp=0, tol=1e-13).predict()
        below, spread = z < of_z.below, chance * (1.0 - chance)
        across = columns.T @ (spread * below)
        inner = np.linalg.inv((columns.T * spread) @ columns)
        score += (drug - chance)[below].sum()
        variance += spread[below].sum() - across @ inner @ across
    assert of_z.z == pytest.approx(score / np.sqrt(variance), rel=1e-5)
    assert abs(of_z.square) > 5.0 > abs(of_w.square)


def test_slopes_that_differ_between_sites_leave_no_confounding():
    held = 0
    for draw in range(4):
        rng, data = np.random.default_rng((draw, 8)), {}
        for number, slope in enumerate((1.0, -1.0, 0.0)):
            z = rng.normal(size=400)
            drug = rng.random(400) < 1.0 / (1.0 + np.exp(-slope * z))
            cost = drug + 1.5 * slope * z + rng.normal(size=400) + number
            named = {"z": z, "drug": np.where(drug, "yes", "no"), "cost": cost}
            data[f"site-{number}"] = pd.DataFrame(named)
        asked = Effect(treatment="drug", outcome="cost", adjust="z")
        low, high = federated(data).run(asked).finding.interval
        held += low <= 1.0 <= high
        assert high - low < 0.4
    assert held >= 3
