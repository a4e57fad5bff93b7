"""Hazard ratios of rows that are visits: intervals count patients; curves and tests are refused."""

import numpy as np
import pandas as pd
import pytest
import simulating
from driving import drive
from report_run import page_of
from simulating import federated, views_of
from statsmodels.duration.hazard_regression import PHReg

from cipherdag import Federation, Run, Survival
from cipherdag.algorithms.algorithm import Facts
from cipherdag.errors import AggregateRangeError, ParameterError, PolicyRefusedError
from cipherdag.questions.estimation.hazards import HazardSteps, HazardSums
from cipherdag.questions.estimation.survival import LogRankSums, SurvivalCounts
from cipherdag.sites.compute.models.risk_sets import RiskSets, SurvivalRows
from cipherdag.sites.table.visits import MAX_VISITS

ASKED = {"time": "months", "event": "died", "adjust": ("age", "drug")}
MODEL = Survival(**ASKED)


def gaps(site, *, patients=50, fewest=2, most=6, seed=1, decimals=6, shared=1.0):
    """Times between events of patients, who share a frailty and a drug, and age within a year."""
    rng = np.random.default_rng((seed, ord(site)))
    whose = np.repeat(np.arange(patients), rng.integers(fewest, most + 1, patients))
    drug, years = rng.integers(0, 2, patients)[whose], rng.normal(size=patients)[whose]
    frailty = rng.gamma(1.0 / shared, shared, patients)[whose] if shared else 1.0
    years = years + 0.2 * rng.normal(size=len(whose))
    gap = rng.exponential(10.0 / (frailty * np.exp(0.5 * years)))
    lost = rng.uniform(1.0, 30.0, len(whose))
    return pd.DataFrame(
        {
            "age": 60.0 + 10.0 * years,
            "died": np.where(gap <= lost, "yes", "no"),
            "drug": np.where(drug == 1, "new", "old"),
            "months": np.minimum(gap, lost).round(decimals),
            "pid": [f"MRN-{site}-{number}" for number in whose],
        }
    )


def three(**options):
    return {site: gaps(site, **options) for site in "abc"}


def run(data, *, least=0, patient="pid", asked=MODEL):
    data = data if patient else {site: own.drop(columns="pid") for site, own in data.items()}
    return federated(data, least, patient=patient).run(asked)


def in_one_place(data):
    """What statsmodels makes of all rows: the model, and what each row adds to its gradient."""
    whole = pd.concat([own.assign(site=site) for site, own in data.items()], ignore_index=True)
    columns = np.column_stack([whole["age"], whole["drug"] == "old"]).astype(float)
    ended = (whole["died"] == "yes").to_numpy(dtype=int)
    about = whole["months"].to_numpy(), columns, ended
    model = PHReg(*about, strata=whole["site"].to_numpy(), ties="breslow")
    fit = model.fit()
    return whole, fit, model.score_residuals(fit.params)


def clustered(data):
    """Deviations by patient, those of several rows times m / (m - 1) of m patients of a site."""
    whole, fit, scores = in_one_place(data)
    products = np.zeros((2, 2))
    for _, own in whole.groupby("site"):
        m = own["pid"].nunique()
        for _, rows in own.groupby("pid"):
            summed = scores[rows.index].sum(axis=0)
            products += np.outer(summed, summed) * (m / (m - 1) if len(rows) > 1 else 1.0)
    inverse = np.linalg.inv(-fit.model.hessian(fit.params))
    return fit.params, np.sqrt(np.diag(inverse @ products @ inverse))


@pytest.mark.parametrize("fewest", [2, 1])
@pytest.mark.parametrize("least", [0, 5])
def test_deviations_are_those_of_sums_of_residuals_by_patient(fewest, least):
    data = three(fewest=fewest)
    found = run(data, least=least).table("hazard_ratios")
    ratios, deviations = clustered(data)
    np.testing.assert_allclose(found["log_ratio"], ratios, rtol=1e-7)
    np.testing.assert_allclose(found["deviation"], deviations, rtol=1e-6)
    assert (np.array(found["deviation"]) > 1.2 * in_one_place(data)[1].bse).all()


@pytest.mark.parametrize("efron", [True, False])
@pytest.mark.parametrize("power", [0, 1])
@pytest.mark.parametrize("decimals", [6, 0])
def test_residuals_add_up_to_the_gradient_and_are_those_of_sums(efron, power, decimals):
    data = gaps("a", patients=20, decimals=decimals)
    ended, time = np.array(data["died"] == "yes"), data["months"].to_numpy()
    design = np.column_stack([data["age"] / 10.0 - 6.0, data["drug"] == "old"]).astype(float)
    at = np.array([0.3, -0.4])
    rows = SurvivalRows(time, ended, np.ones(len(time), dtype=bool))
    sets = RiskSets.of(rows, design, at, efron=efron, power=power)
    each, (_, gradient, _) = sets.residuals(), sets.likelihood()
    np.testing.assert_allclose(each.sum(axis=0), gradient, atol=1e-10)
    np.testing.assert_allclose(each, summed(time, ended, design, at, efron, power), atol=1e-10)
    if not efron and not power:
        known = PHReg(time, design, ended.astype(int)).score_residuals(at)
        reached = time >= time[ended].min()
        np.testing.assert_allclose(each[reached], known[reached], atol=1e-10)
        assert not each[~reached].any()


def summed(time, ended, design, at, efron, power):
    """The residuals event by event and row by row."""
    weights, each, past = np.exp(design @ at), np.zeros_like(design), 0
    for moment in np.unique(time[ended]):
        at_risk, tied = time >= moment, ended & (time == moment)
        count = tied.sum()
        counts = ((past + count / 2.0) / ended.sum() - 0.5) ** power
        for number in range(count):
            share = np.where(tied, 1.0 - efron * number / count, 1.0) * at_risk * weights
            mean = share @ design / share.sum()
            each -= counts * (share / share.sum())[:, None] * (design - mean)
            each[tied] += counts * (design[tied] - mean) / count
        past += count
    return each


def test_with_unique_keys_nothing_changes():
    data = three(fewest=1, most=1, patients=120)
    by_patient, by_row = run(data), run(data, patient=None)
    assert by_patient.finding == by_row.finding
    assert by_patient.finding.curves


def test_a_plan_of_visits_without_any_has_the_usual_ratios():
    data = three(fewest=1, most=1, patients=120)
    data = {site: own.drop(columns="pid") for site, own in data.items()}
    sites = views_of(federated(data))
    names = ("age", "died", "drug", "months")
    usual, _ = drive(MODEL.ask(Facts(4, 3, names=names)), sites)
    persons, _ = drive(
        MODEL.ask(Facts(4, 3, names=names, visits=MAX_VISITS)), [*map(Visiting, sites)]
    )
    assert np.array_equal(usual.fitted.fit.deviations, persons.fitted.fit.deviations)
    assert len(persons.counts) == 1


class Visiting:
    """A site that a plan calls one of visits, and whose patients have a row each."""

    def __init__(self, view):
        self.view = view

    def __getattr__(self, name):
        return getattr(self.view, name)


def test_what_has_no_effect_is_seldom_said_to_have_one():
    wrong, differ = ({"pid": 0, None: 0} for _ in range(2))
    for seed in range(8):
        data = three(seed=seed, patients=60, fewest=8, most=12)
        for key in wrong:
            found = run(data, patient=key, asked=Survival(**ASKED | {"adjust": ("drug",)}))
            wrong[key] += found.finding.model.p_value < 0.05
            differ[key] += any("differ by more than chance" in one for one in found.report.warnings)
    assert wrong["pid"] <= 1
    assert differ["pid"] <= 1
    assert wrong[None] >= 2
    assert differ[None] >= 4


def test_one_sentence_says_whose_rows_they_are_and_no_curve_is_there(tmp_path):
    found = run(three())
    rows = sum(map(len, three().values()))
    assert found.finding.of_patients == f"{rows} visits of 150 patients"
    assert found.lines()[1].startswith(f"{rows} visits of 150 patients, which are counted")
    assert "2 ratios of hazards (died = yes)" in repr(found)
    assert not found.finding.curves
    assert not found.table("curves").size
    assert not found.report.panels
    assert "no curves" in found.report.limits[0]
    assert "Ratios of hazards, all else alike:" in "\n".join(found.lines())
    page = page_of(found)
    assert page.column("ratio-table", "Of") == ["age", "drug old rather than new"]
    found.save(tmp_path / "run")
    assert Run.load(tmp_path / "run").finding == found.finding


@pytest.mark.follows("Leave out by and site_effect, and name columns to adjust for. Or give each")
@pytest.mark.parametrize(
    "more",
    [{"by": "drug"}, {"adjust": ()}, {"site_effect": False}],
    ids=lambda more: next(iter(more)),
)
def test_what_would_count_rows_is_refused(more):
    data = three()
    asked = Survival(**ASKED | more)
    with pytest.raises(ParameterError, match="would take for persons"):
        run(data, asked=asked)
    assert run(data, asked=MODEL)
    first = {site: own.groupby("pid", as_index=False).first() for site, own in data.items()}
    assert run(first, asked=asked).finding.curves


def view_of(data, least=0, patient="pid"):
    (site,) = Federation.simulate({"a": data}, patient=patient).sites
    return simulating.view_of(site.table, least)


def step_of(**more):
    fields = {"categories": (0, 2, 2, 0), "time": 3, "event": 1, "complete_in": (0, 2)}
    asked = {
        "predictors": (0, 2),
        "origins": np.array([60.0, 0.0]).tobytes(),
        "units": np.array([3, 0]).tobytes(),
        "coefficients": np.zeros(2).tobytes(),
    }
    return HazardSteps(**(fields | asked | more))


def test_a_site_of_visits_answers_no_question_that_counts_rows():
    view, step = view_of(gaps("a")), step_of()
    fields = {name: getattr(step, name) for name in ("categories", "time", "event")}
    edges = np.array([5.0, 10.0]).tobytes()
    for question in (
        SurvivalCounts(**fields, edges=edges),
        LogRankSums(**fields),
        HazardSums(model=step, edges=edges),
    ):
        with pytest.raises(PolicyRefusedError, match="counts rows"):
            view.answer(question)
    assert view.answer(step).any()


@pytest.mark.parametrize(("patients", "told"), [(12, False), (13, True)])
def test_a_site_of_few_patients_tells_nothing_in_any_question(patients, told):
    view = view_of(gaps("a", patients=patients, fewest=20, most=30))
    for more in ({}, {"of_patients": True}):
        assert view.answer(step_of(**more)).any() == told


def test_small_counts_are_of_patients():
    data = gaps("a", patients=40, fewest=20, most=30)
    rare = data["pid"].isin([f"MRN-a-{number}" for number in range(4)])
    data["drug"] = np.where(rare, "new", "old")
    assert rare.sum() >= 80
    assert not view_of(data, least=5).answer(step_of()).any()
    assert view_of(data, least=4).answer(step_of()).any()
    assert view_of(data.drop(columns="pid"), least=5, patient=None).answer(step_of()).any()


@pytest.mark.parametrize(("value", "lie"), [(0, -1e6), (3, 0.0)])
def test_products_that_cannot_be_are_noticed(value, lie):
    federation = Federation.simulate(three(), patient="pid")
    tables = [site.table for site in federation.sites]
    views = views_of(federation)

    class Liar(Visiting):
        def answer(self, question):
            answer = self.view.answer(question)
            if getattr(question, "of_patients", False):
                answer[value] = lie
            return answer

    facts = Facts(4, 3, names=tuple(tables[0].names), visits=MAX_VISITS)
    drive(MODEL.ask(facts), views)
    with pytest.raises(AggregateRangeError, match="other sites tell, or squares below 0"):
        drive(MODEL.ask(facts), [Liar(views[0]), *views[1:]])


def test_a_question_is_of_sites_or_of_patients():
    with pytest.raises(ValueError, match="not both"):
        step_of(by_site=True, of_patients=True)
    asked = step_of(of_patients=True)
    assert asked.label == "patients' parts of a Cox model of 2 coefficients"
