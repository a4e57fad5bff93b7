"""Effects in the spirit of reports to other projects, each with the right number or a refusal.

Every test names the report whose kind of fault it is about; the data are drawn here.
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from cipherdag import Effect, Federation, Policy, Schema, Survival
from cipherdag.errors import DataError, ParameterError
from cipherdag.sites.policy.policy import QUESTION_KINDS
from cipherdag.sites.table.column import Column

ALLOW = Policy(questions=QUESTION_KINDS)
EXACT = Policy(questions=QUESTION_KINDS, min_cell_size=0)


def estimated(rows, *, policy=ALLOW, schema=None, **asked):
    federation = Federation.split(rows, 3, seed=1, policy=policy, schema=schema, device="cpu")
    return federation.run(Effect(**asked), seed=0)


def logit(x):
    return 1.0 / (1.0 + np.exp(-x))


# py-why/dowhy#8, #289, #1640: weighted means far off, and their standard errors


@pytest.mark.parametrize("estimator", ["ipw", "aipw", "regression", "linear"])
def test_weighted_means_of_large_numbers_are_where_they_should_be(estimator):
    rng, n = np.random.default_rng(2), 6000
    x, b = rng.normal(size=n), rng.integers(0, 2, n)
    t = rng.random(n) < logit(0.9 * x - 0.5 * b)
    y = 1000.0 + 2.0 * t + 3.0 * x + b + rng.normal(size=n)
    rows = pd.DataFrame(
        {"x": x, "b": np.where(b, "f", "m"), "t": np.where(t, "new", "old"), "y": y}
    )
    asked = {"treatment": "t", "outcome": "y", "adjust": "x,b", "estimator": estimator}
    found = estimated(rows, **asked, reference=2)
    assert found.finding.interval[0] < 2.0 < found.finding.interval[1]
    assert found.finding.standard_error < 0.06
    assert estimated(rows, **asked).finding.estimate == pytest.approx(
        -found.finding.estimate, rel=1e-6
    )
    if estimator != "ipw":
        return
    whole = estimated(rows, **asked, reference=2, policy=EXACT, site_effect=False)
    X = sm.add_constant(np.column_stack([x, 1.0 - b]))
    chance = np.clip(sm.Logit(t.astype(float), X).fit(disp=0).predict(X), 0.01, 0.99)
    w1, w0 = t / chance, (1 - t) / (1 - chance)
    assert whole.finding.estimate == pytest.approx(w1 @ y / w1.sum() - w0 @ y / w0.sum(), rel=1e-6)


# py-why/dowhy#297: four drugs by number came out as a line through their codes


@pytest.mark.parametrize("estimator", ["auto", "ipw", "regression", "linear"])
def test_four_drugs_have_three_effects_of_their_own(estimator):
    rng, n = np.random.default_rng(5), 6000
    z = rng.normal(size=n)
    chance = np.exp(np.column_stack([0 * z, 0.4 * z, -0.5 * z, 0.2 * z]))
    chance /= chance.sum(axis=1, keepdims=True)
    drug = (rng.random(n)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    rate = 70.0 + np.array([0.0, -5.0, 8.0, 1.0])[drug] + 4.0 * z + rng.normal(0.0, 3.0, n)
    rows = pd.DataFrame({"age": 60.0 + 9.0 * z, "drug": drug + 1, "rate": rate})
    asked = {"treatment": "drug", "outcome": "rate", "adjust": "age", "estimator": estimator}
    found = estimated(rows, **asked).table("effects")
    assert found["arm"].tolist() == ["2", "3", "4"]
    assert found["against"].unique().tolist() == ["1"]
    for estimate, error, truth in zip(
        found["estimate"], found["standard_error"], (-5.0, 8.0, 1.0), strict=True
    ):
        assert abs(estimate - truth) < 4.0 * error < 0.6
    others = estimated(rows, **asked, reference=3).table("effects")
    assert others["against"].unique().tolist() == ["3"]
    assert others["estimate"].iloc[0] == pytest.approx(-found["estimate"].iloc[1], rel=1e-6)


# py-why/dowhy#1651, RobinCar2#69: the sign of an effect hung on the order of labels


@pytest.mark.parametrize(
    ("arms", "outcomes"),
    [  # in the order of the alphabet or against it, each with each
        (("Control", "Drug"), ("no", "yes")),
        (("Control", "Drug"), ("Healthy", "Caries")),
        (("Placebo", "Drug"), ("no", "yes")),
        (("2", "1"), ("1", "0")),
    ],
)
def test_the_sentence_and_the_number_go_together_whatever_the_labels(arms, outcomes):
    rng, n = np.random.default_rng(7), 6000
    x = rng.integers(0, 3, n)
    t = rng.random(n) < 0.3 + 0.15 * x
    y = rng.random(n) < 0.2 + 0.2 * t + 0.08 * x
    rows = pd.DataFrame(
        {"x": np.array(list("abc"))[x], "arm": np.where(t, arms[1], arms[0]),
         "out": np.where(y, outcomes[1], outcomes[0])}
    )  # fmt: skip
    by_x = [y[(x == k) & t].mean() - y[(x == k) & ~t].mean() for k in range(3)]
    truth = np.bincount(x) / n @ by_x
    told = []
    for category, estimator in product((1, 2), ("standardise", "aipw")):
        found = estimated(
            rows, treatment="arm", outcome="out", adjust="x", estimator=estimator,
            outcome_category=category,
        )  # fmt: skip
        named = sorted(outcomes)[category - 1]
        sign = (1 if named == outcomes[1] else -1) * (1 if sorted(arms)[1] == arms[1] else -1)
        told.append(found.finding.estimate)
        assert found.finding.estimate == pytest.approx(sign * truth, abs=0.01)
        line = next(own for own in found.lines() if "difference:" in own)
        assert " against ".join(sorted(arms, reverse=True)) in line
        assert f"the share of out = {named} by " in "\n".join(found.lines())
        ratio = found.table("effects").set_index("scale").loc["ratio", "estimate"]
        assert (ratio > 1.0) == (found.finding.estimate > 0.0)
    assert told[2:] == pytest.approx([-own for own in told[:2]], rel=1e-9)


def test_numbers_have_no_category_that_an_effect_could_be_about():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"arm": rng.integers(0, 2, 900), "y": rng.normal(size=900)})
    with pytest.raises(ParameterError, match="the outcome 'y' has numbers"):
        estimated(rows, treatment="arm", outcome="y", outcome_category=1)


def test_an_effect_of_a_number_names_its_unit(tmp_path):
    rng = np.random.default_rng(1)
    dose = rng.normal(500.0, 90.0, 900)
    rows = pd.DataFrame({"dose": dose, "y": 0.0004 * dose + rng.normal(0.0, 0.01, 900)})
    asked = {"treatment": "dose", "outcome": "y"}
    found = estimated(rows, **asked)
    assert found.finding.estimate == pytest.approx(0.0004, rel=0.05)
    assert "  dose by one unit more, difference: " in "\n".join(found.lines())
    assert "dose by one unit more" in (found.save(tmp_path / "r") / "effects.csv").read_text()
    units = (Column(name="dose", kind="continuous", unit="mg"),
             Column(name="y", kind="continuous", unit="mmol/l"))  # fmt: skip
    told = "\n".join(estimated(rows, schema=Schema(units), **asked).lines())
    assert "The effect of dose on y in mmol/l" in told
    assert "  dose by one mg more, difference: " in told


# BiomedSciAI/causallib#9, #60, pymc-labs/CausalPy#645: propensities of 0 or 1

SEPARATED = ("a category all of one arm", "a number that separates arms")


def no_overlap(name):
    rng, n = np.random.default_rng(8), 4500
    if name == SEPARATED[0]:
        x = rng.integers(0, 3, n)
        t = rng.random(n) < np.array([0.3, 0.5, 1.0])[x]
        y, x = 2.0 * t + x + rng.normal(size=n), np.array(list("abc"))[x]
    else:
        x = rng.normal(size=n)
        t = {
            SEPARATED[1]: x > 0,
            "nearly": rng.random(n) < logit(6.0 * x),
            "all of an arm have it": rng.random(n) < 0.5,
        }[name]
        y = 2.0 * t + x + rng.normal(size=n)
        if name == "all of an arm have it":
            y = np.where(t | (rng.random(n) < 0.4), "ill", "well")
    return pd.DataFrame({"x": x, "t": np.where(t, "yes", "no"), "y": y})


@pytest.mark.parametrize("estimator", ["aipw", "ipw"])
@pytest.mark.parametrize("name", SEPARATED)
def test_weights_where_one_arm_has_no_rows_are_refused(name, estimator):
    with pytest.raises(DataError, match="no finite maximum") as refused:
        estimated(no_overlap(name), treatment="t", outcome="y", adjust="x", estimator=estimator)
    assert "leave such rows out" in str(refused.value)
    assert "regression" not in str(refused.value)  # which would guess in silence


@pytest.mark.parametrize(
    ("name", "estimator"),
    [  # what weights make of separated arms is tested above
        *product(SEPARATED, ("regression", "standardise", "linear")),
        *product(
            ("nearly", "all of an arm have it"),
            ("aipw", "ipw", "regression", "standardise", "linear"),
        ),
    ],
)
def test_without_overlap_it_is_refused_or_doubted_or_right(name, estimator):
    rows = no_overlap(name)
    try:
        found = estimated(rows, treatment="t", outcome="y", adjust="x", estimator=estimator)
    except (DataError, ParameterError):
        return
    (low, high), said = (
        found.finding.interval,
        " ".join(found.report.warnings + found.report.limits),
    )
    assert np.isfinite([found.finding.estimate, found.finding.standard_error, low, high]).all()
    truth = -0.6 if name == "all of an arm have it" else 2.0
    assert low <= truth <= high or "propensity" in said or "guess" in said


def test_scarce_overlap_is_warned_of_and_weights_alone_are_refused():
    asked = {"treatment": "t", "outcome": "y", "adjust": "x"}
    rows = no_overlap("nearly")
    assert "propensity below 0.05" in estimated(rows, **asked).report.warnings[0]
    with pytest.raises(DataError, match="weights are cut"):
        estimated(rows, **asked, estimator="ipw")


def test_strata_of_one_arm_are_left_out_and_said():
    asked = {"treatment": "t", "outcome": "y", "adjust": "x", "estimator": "standardise"}
    found = estimated(no_overlap(SEPARATED[0]), **asked)
    assert found.finding.interval[0] < 2.0 < found.finding.interval[1]
    assert "of the rows are in strata" in found.report.warnings[0]


# CamDavidsonPilon/lifelines#1687, #1641: events at time 0, and the log-rank test


def test_events_at_time_0_count():
    rng, n = np.random.default_rng(3), 1200
    new = rng.integers(0, 2, n)
    dies = rng.exponential(6.0 / np.where(new, 1.6, 1.0)).round(0)
    lost = rng.integers(1, 14, n)
    event, time = dies <= lost, np.minimum(dies, lost).astype(float)
    site = np.repeat([0, 1, 2], n // 3)
    rows = pd.DataFrame(
        {"time": time, "died": np.where(event, "yes", "no"), "arm": np.where(new, "new", "old")}
    )
    sites = {f"s{k}": rows[site == k].reset_index(drop=True) for k in range(3)}
    asked = Survival(
        time="time", event="died", by="arm", adjust=("arm",), censored="after",
        edges=tuple(float(x) for x in range(1, 14)),
    )  # fmt: skip
    found = Federation.simulate(sites, policy=EXACT, device="cpu").run(asked, seed=0)
    survived = 1.0
    for at in (0, 1):  # both in the first bin, up to 1
        risk = (time >= at) & (new == 1)
        survived *= 1.0 - (event & (time == at) & (new == 1)).sum() / risk.sum()
    first = found.table("curves").iloc[0]
    assert (first["group"], first["at_risk"]) == ("new", (new == 1).sum())
    assert first["events"] == (event & (time <= 1) & (new == 1)).sum()
    assert first["survival"] == pytest.approx(survived, rel=0.01)
    cox = sm.PHReg(
        time, (new == 0).astype(float)[:, None], status=event.astype(int), strata=site, ties="efron"
    ).fit()
    ratio = found.table("hazard_ratios").iloc[0]
    assert ratio["log_ratio"] == pytest.approx(cox.params[0], rel=1e-5)
    assert ratio["deviation"] == pytest.approx(cox.bse[0], rel=1e-4)
    assert found.finding.test.statistic == pytest.approx(log_rank(time, event, new, site), rel=1e-9)


def log_rank(time, event, new, site):
    """The chi-square of the log-rank test within sites."""
    away = variance = 0.0
    for k in np.unique(site):
        for at in np.unique(time[(site == k) & event]):
            risk = (site == k) & (time >= at)
            treated, all_rows = (risk & (new == 1)).sum(), risk.sum()
            died = risk & event & (time == at)
            share = treated / all_rows
            away += (died & (new == 1)).sum() - died.sum() * share
            if all_rows > 1:
                left = (all_rows - died.sum()) / (all_rows - 1)
                variance += died.sum() * share * (1.0 - share) * left
    return away**2 / variance


# sites that confound, values that are missing by the outcome


def hospitals(*, seed=3, effect=1.12):
    """Three sites; where the treatment is given most, the outcome is highest anyway."""
    rng, found = np.random.default_rng(seed), {}
    for k, n in enumerate((800, 700, 900)):
        x = rng.normal(size=n)
        t = rng.random(n) < logit(1.2 * (k - 1) + 0.5 * x)
        y = effect * t + x + 3.0 * k + rng.normal(size=n)
        found[f"s{k}"] = pd.DataFrame({"x": x, "t": np.where(t, "yes", "no"), "y": y})
    return found


def over(sites, **asked):
    federation = Federation.simulate(sites, policy=ALLOW, device="cpu")
    return federation.run(Effect(treatment="t", outcome="y", adjust="x", **asked), seed=0)


@pytest.mark.parametrize("estimator", ["aipw", "ipw", "regression", "linear"])
def test_sites_that_confound_are_strata_or_the_first_thing_said(estimator):
    found = over(hospitals(), estimator=estimator)
    assert found.finding.interval[0] < 1.12 < found.finding.interval[1]
    assert not found.report.warnings
    wrong = over(hospitals(), estimator=estimator, site_effect=False)
    assert wrong.finding.interval[0] > 2.0
    assert "disagree beyond chance" in wrong.lines()[1]
    assert any("placebo" in own for own in wrong.report.warnings)


def test_rows_missing_by_the_outcome_are_counted_and_warned_of(tmp_path):
    rng, sites = np.random.default_rng(4), hospitals()
    for name, rows in sites.items():
        gone = rng.random(len(rows)) < np.where(rows["y"] > rows["y"].mean(), 0.4, 0.1)
        sites[name] = rows.assign(x=rows["x"].mask(gone))
    found = over(sites)
    left = sum(int(rows["x"].isna().sum()) for rows in sites.values())
    assert any(own.startswith(f"{left:,} rows of 3 sites miss") for own in found.report.limits)
    assert any("goes with the outcome y" in own for own in found.report.warnings)
    again = type(found).load(found.save(tmp_path / "left-out"))
    assert again.finding.left_out == found.finding.left_out


def test_rows_missing_by_chance_are_counted_without_a_warning():
    chance = []
    for seed in range(12):
        rng, sites = np.random.default_rng(seed), hospitals(seed=seed)
        for name, rows in sites.items():
            sites[name] = rows.assign(x=rows["x"].mask(rng.random(len(rows)) < 0.2))
        chance += [own.z for own in over(sites, estimator="linear").finding.left_out]
    assert len(chance) == 24
    assert np.abs(chance).max() < 4.5
    assert 0.4 < np.std(chance) < 1.8
