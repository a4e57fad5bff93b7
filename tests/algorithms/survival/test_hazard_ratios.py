"""Cox models over sites are those of statsmodels over all their rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from followed_patients import EDGES, binned, ward, wards
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import driven, federated
from statsmodels.duration.hazard_regression import PHReg

from cipherdag import Federation, Policy, Schema, Survival
from cipherdag.errors import ParameterError, PolicyRefusedError
from cipherdag.questions.estimation.hazards import HazardSteps, HazardSums
from cipherdag.questions.regression_steps import values_per_step
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.sites.compute.models.risk_sets import RiskSets, SurvivalRows
from cipherdag.sites.compute.models.survival_rows import hazard_sums
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.statistics.survival import HazardFit, RiskSums, partial_likelihood

STAGES = ("I", "II", "III")


def staged():
    """The patients with a stage, and a column that some miss."""
    found = {}
    for k, (name, own) in enumerate(wards().items()):
        rng = np.random.default_rng(10 + k)
        crp = rng.lognormal(1.0, 0.5, len(own)).round(2)
        crp[rng.random(len(own)) < 0.05] = np.nan
        found[name] = own.assign(stage=rng.choice(STAGES, len(own)), crp=crp)
    return found


def fitted(data, *, least=0, schema=None, policy=None, **parameters):
    schema = schema or infer_schema(list(data.values()), min_cell_size=0)
    federation = federated(data, least, schema=schema)
    if policy:
        federation = Federation.simulate(data, schema=schema, policy=policy, device="cpu")
    own = {"time": "months", "event": "died", "edges": EDGES} | parameters
    return federation.run(Survival(**own))


def known(rows, ties, times=None, ended=None, strata=None):
    """What statsmodels makes of age, arm and stage."""
    ended = rows["died"] == "yes" if ended is None else ended
    design = np.column_stack(
        [rows["age"], rows["arm"] == "old", rows["stage"] == "II", rows["stage"] == "III"]
    ).astype(float)
    times = rows["months"] if times is None else times
    return PHReg(times, design, np.asarray(ended, dtype=int), strata=strata, ties=ties).fit()


def same(result, expected):
    table = result.table("hazard_ratios")
    assert np.abs(table["log_ratio"] - expected.params).max() < 1e-9
    assert np.abs(table["deviation"] - expected.bse).max() < 1e-6
    assert np.abs(table["p_value"] - expected.pvalues).max() < 1e-6
    np.testing.assert_allclose(np.log(table[["low", "high"]]), expected.conf_int(), atol=1e-5)
    assert result.finding.model.value == pytest.approx(expected.llf, abs=1e-6)


@pytest.mark.parametrize("least", [0, 11])
def test_a_hazard_per_site_is_that_of_strata_at_exact_times(least):
    data = {name: own.assign(months=own["months"].round(1)) for name, own in staged().items()}
    result = fitted(data, least=least, adjust=("age", "arm", "stage"))
    whole = pd.concat([own.assign(site=name) for name, own in data.items()])
    if least:  # all tables are of rows without any missing value
        whole = whole.dropna()
    same(result, known(whole, "efron", strata=whole["site"]))
    assert result.finding.model.site_hazards
    assert result.finding.model.sites == 3
    null = PHReg(
        whole["months"],
        np.zeros((len(whole), 1)),
        whole["died"] == "yes",
        strata=whole["site"],
        ties="efron",
    ).loglike(np.zeros(1))
    assert result.finding.model.null == pytest.approx(null, abs=1e-6)
    assert result.finding.model.statistic == pytest.approx(
        2 * (result.finding.model.value - null), abs=1e-5
    )
    assert result.finding.model.dof == 4


def test_a_site_without_events_still_has_rows_at_risk_of_one_hazard():
    data = staged()
    data["west"]["died"] = "no"
    schema, adjust = loose([*staged().values()]), ("age", "arm", "stage")
    together = fitted(data, schema=schema, adjust=adjust, site_effect=False)
    whole = pd.concat(data.values())
    same(together, known(whole, "efron", *binned(whole)))


def loose(data):
    """A schema that lets every column be constant."""
    schema = infer_schema(data, min_cell_size=0)
    return Schema(tuple(replace(own, allow_constant=True) for own in schema.columns))


def test_rows_with_a_missing_value_in_a_used_column_do_not_count():
    result = fitted(staged(), adjust=("crp",))
    whole = pd.concat([own.assign(site=name) for name, own in staged().items()]).dropna()
    expected = PHReg(
        whole["months"], whole[["crp"]], whole["died"] == "yes", strata=whole["site"], ties="efron"
    ).fit()
    assert result.table("hazard_ratios")["log_ratio"][0] == pytest.approx(
        expected.params[0], abs=1e-9
    )
    assert result.finding.curves[0].at_risk[0] == len(whole)


def test_the_unit_of_a_number_is_that_of_the_data():
    data = {name: own.assign(age=own["age"] * 1e6 + 3e9) for name, own in wards().items()}
    large, plain = (fitted(own, adjust=("age",)).table("hazard_ratios") for own in (data, wards()))
    assert large["log_ratio"][0] * 1e6 == pytest.approx(plain["log_ratio"][0], rel=1e-6)
    assert large["deviation"][0] * 1e6 == pytest.approx(plain["deviation"][0], rel=1e-6)


def test_columns_that_follow_from_others_are_named():
    data = {
        name: own.assign(double=2 * own["age"] - 7, copy=own["arm"])
        for name, own in wards().items()
    }
    result = fitted(data, adjust=("age", "arm", "copy", "double"))
    table = result.table("hazard_ratios")
    plain = fitted(data, adjust=("age", "arm"))
    assert (table["fault"] == "not determined").sum() == 2
    assert result.finding.model.dof == 2
    assert result.finding.model.value == pytest.approx(plain.finding.model.value, abs=1e-6)
    assert sum("follows from the other columns" in own for own in result.report.warnings) == 2


@pytest.mark.parametrize("site_effect", [True, False])
def test_a_likelihood_that_rises_without_end_is_named(site_effect):
    data = {}
    for name, own in wards().items():
        safe = np.where(own["died"] == "no", np.random.default_rng(1).random(len(own)) < 0.5, False)
        data[name] = own.assign(safe=np.where(safe, "yes", "no"))
    result = fitted(data, adjust=("age", "safe"), site_effect=site_effect)
    table = result.table("hazard_ratios").set_index("of")
    assert table.loc["safe yes rather than no", "fault"] == "endless down"
    assert np.isnan(table.loc["safe yes rather than no", "ratio"])
    assert table.loc["age", "fault"] == ""
    assert result.finding.model.statistic is None
    assert any("rises without end" in own for own in result.report.warnings)
    assert "endless down" in result.page()
    assert "safe" not in "\n".join(result.lines()).split("Ratios of hazards")[1].split("\n\n")[0]


def test_sites_with_small_counts_stay_out_and_it_is_said():
    data = wards() | {"east": ward(200, 9)}
    for own in data.values():
        own["stage"] = np.where(np.arange(len(own)) % 2 == 0, "I", "II")
    data["east"]["stage"] = np.where(np.arange(200) < 7, "I", "II")
    result = fitted(data, least=11, adjust=("arm", "stage"))
    others = fitted({name: data[name] for name in wards()}, least=11, adjust=("arm", "stage"))
    assert result.finding.model.sites == 3
    pd.testing.assert_frame_equal(
        result.table("hazard_ratios"), others.table("hazard_ratios"), rtol=1e-9
    )
    assert any("1 of 4 sites tell nothing of the Cox model" in s for s in result.report.warnings)
    del data["west"]
    with_two = fitted(data, least=11, adjust=("arm", "stage"))
    assert with_two.finding.model.sites == 0
    assert "there are no ratios" in with_two.page()
    assert "ratio-table" not in with_two.page()
    assert (with_two.table("hazard_ratios")["fault"] == "withheld").all()
    assert any("Too few sites tell of the Cox model" in own for own in with_two.report.warnings)


def with_stages(**sites):
    """The patients of as many hospitals, with these stages."""
    return {
        name: ward(400, k).assign(stage=np.random.default_rng(k).choice(stages, 400))
        for k, (name, stages) in enumerate(sites.items())
    }


def opened(data, site_effect):
    """What the coordinator asks of a model of stages, and the outcome."""
    own = Survival(time="months", event="died", adjust=("stage",), site_effect=site_effect)
    outcome, asked = driven(own, federated(data, schema=loose([*data.values()])))
    kinds = HazardSteps | HazardSums
    return outcome.fitted, [
        q for q in asked if isinstance(q, Suppressed) and isinstance(q.question, kinds)
    ]


@pytest.mark.parametrize("site_effect", [True, False])
@pytest.mark.parametrize(
    ("sites", "few"),
    [
        (("I II III", "I II", "I II"), [2]),
        (("I II", "II III", "II I", "II III I"), [2]),
        (("I II", "I II", "I II", "I III", "I III", "I II III"), [1, 2]),  # together at one site
    ],
)
def test_what_one_site_alone_has_in_a_model_is_not_opened(sites, few, site_effect):
    data = with_stages(**{f"s{k}": own.split() for k, own in enumerate(sites)})
    found, asked = opened(data, site_effect)
    assert not asked
    assert found.fit is None
    assert [code for _, code in found.few] == few


def test_rows_that_are_never_at_risk_count_for_no_category():
    """They are in neither gradient nor Hessian: what is told would be the other site's own."""
    data = with_stages(a=STAGES, b=STAGES, c=STAGES)
    for name in "bc":
        early = data[name]["stage"] == "III"
        data[name].loc[early, ["died", "months"]] = "no", 0.0
        data[name].loc[~early, "months"] += 0.5
    found, asked = opened(data, site_effect=True)
    assert not asked
    assert [code for _, code in found.few] == [2]


@pytest.mark.parametrize("site_effect", [True, False])
def test_a_site_that_leaves_after_counting_closes_the_whole_step(site_effect):
    data = with_stages(a=STAGES, b=STAGES, c=STAGES, d=STAGES[:2], e=STAGES[:2], f=STAGES[:2])
    _, (question, *_) = opened(data, site_effect)
    answer = np.ones(question.n_values)
    lost = np.arange(len(question.enough_array())) == 2
    assert question.without(answer, np.zeros_like(lost)).any()
    assert not question.without(answer, lost).any()


def test_a_category_that_few_sites_have_is_named():
    data = with_stages(north=STAGES, south=STAGES[:2], west=STAGES[:2])
    schema = loose([*data.values()])
    result = fitted(data, schema=schema, least=11, adjust=("age", "stage"))
    (said,) = [own for own in result.report.warnings if "Cox model" in own]
    assert "stage III. Join" in said
    assert result.finding.model.sites == 0
    assert (result.table("hazard_ratios")["fault"] == "withheld").all()


@pytest.mark.parametrize("site_effect", [True, False])
def test_a_category_that_enough_sites_have_or_none_is_in_the_model(site_effect):
    data = with_stages(a=STAGES, b=STAGES, c=STAGES, d=STAGES[:2])
    found, asked = opened(data, site_effect)
    assert (found.sites, found.few, found.fit.rank) == (4, (), 2)
    assert asked
    schema = loose([*data.values(), ward(9, 1).assign(stage="IV")])
    result = fitted(data, schema=schema, adjust=("stage",), site_effect=site_effect)
    assert result.table("hazard_ratios")["fault"].tolist() == ["", "", "not determined"]


def test_one_hazard_needs_sites_that_restrict_no_small_counts():
    with pytest.raises(ParameterError, match="restricts small counts"):
        fitted(wards(), least=11, adjust=("arm",), site_effect=False)


@pytest.mark.parametrize(("site_effect", "kind"), [(True, "steps"), (False, "sums")])
def test_a_site_answers_only_if_its_policy_names_the_kind(site_effect, kind):
    policy = Policy(min_cell_size=0, questions=Policy().questions - {"edge-votes"})
    with pytest.raises(PolicyRefusedError, match=f"hazard-{kind}"):
        fitted(wards(), policy=policy, adjust=("arm",), site_effect=site_effect)
    assert fitted(wards(), policy=policy).finding.model is None


@pytest.mark.parametrize(
    ("adjust", "said"),
    [
        (("weeks",), "no column 'weeks'"),
        (("age", "age"), "different columns"),
        (("months",), "neither time nor event"),
        (("",), "different columns"),
        (["age"], "a tuple of str"),
        ((1,), "a tuple of str"),
    ],
)
def test_columns_of_a_model_that_cannot_be_are_named(adjust, said):
    with pytest.raises(ParameterError, match=said):
        fitted(wards(), adjust=adjust)


@pytest.mark.parametrize("site_effect", [True, False])
def test_nothing_is_opened_that_was_not_counted(site_effect):
    own = Survival(time="months", event="died", adjust=("arm",), site_effect=site_effect)
    _, asked = driven(own, federated(wards()))
    assert all(isinstance(question, Suppressed | ContributorCounts) for question in asked)
    kind = HazardSteps if site_effect else HazardSums
    assert sum(isinstance(q.question, kind) for q in asked) == len(asked) - 4 >= 6


# two ways to one likelihood: of rows at the site, and of sums over risk sets


@st.composite
def rows(draw):
    n, m = draw(st.integers(2, 40)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    time = rng.integers(1, draw(st.integers(2, 12)), n).astype(float)
    ended = rng.random(n) < 0.6
    ended[0] = True
    return (
        SurvivalRows(time, ended, np.ones(n, dtype=bool)),
        rng.normal(size=(n, m)),
        rng.normal(size=m),
    )


@given(rows(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_rows_and_sums_have_the_likelihood_of_statsmodels(drawn, efron):
    own, design, coefficients = drawn
    table = np.column_stack([own.time, own.ended, design])
    m = design.shape[1]
    model = HazardSteps(
        categories=(0, 2) + (0,) * m,
        time=0,
        event=1,
        complete_in=tuple(range(2, 2 + m)),
        predictors=tuple(range(2, 2 + m)),
        origins=np.zeros(m).tobytes(),
        units=np.zeros(m, dtype="<i8").tobytes(),
        coefficients=coefficients.tobytes(),
        efron=efron,
    )
    edges = np.arange(1.0, 13.0)
    sums = hazard_sums(
        HazardSums(model=model, edges=edges.tobytes()), lambda v: table[:, v], min_cell_size=0
    )
    at_risk, tied = sums[12 + m : -1].reshape(2, 12, values_per_step(m))
    assert sums[-1] == 1.0
    parts = RiskSums(sums[:12], sums[12 : 12 + m], at_risk, tied)
    for value, gradient, hessian in (
        RiskSets.of(own, design, coefficients, efron=efron).likelihood(),
        partial_likelihood(parts, coefficients, efron=efron),
    ):
        truly = PHReg(own.time, design, own.ended.astype(int), ties="efron" if efron else "breslow")
        np.testing.assert_allclose(value, truly.loglike(coefficients), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(gradient, truly.score(coefficients), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(-hessian, truly.hessian(coefficients), rtol=1e-7, atol=1e-7)


def test_a_step_too_far_is_halved_and_the_maximum_found():
    """A quartic that Newton's step overshoots."""
    fit = HazardFit(np.array([0.0]))
    asked = []
    while not fit.finished:
        b = float(fit.proposed[0])
        asked.append(b)
        root = np.sqrt(1.0 + (b - 3.0) ** 2)
        slope, bend = -(b - 3.0) / root, 1.0 / root**3
        fit.update(-float(root), np.array([slope]), np.array([[bend]]))
    assert fit.coefficients[0] == pytest.approx(3.0, abs=1e-6) or fit.separated[0]
    assert len(asked) < 40


def test_one_value_far_from_all_others_ends_in_numbers_or_by_name():
    data = wards()
    data["west"].loc[5, "age"] = 5e4
    for site_effect in (True, False):
        result = fitted(data, adjust=("age",), site_effect=site_effect)
        (own,) = result.finding.model.ratios
        assert own.fault or 0.0 < own.low <= own.ratio <= own.high


@pytest.mark.parametrize(
    "changes",
    [
        {"predictors": ()},
        {"predictors": (2, 2)},
        {"predictors": (0,)},
        {"predictors": (3,)},
        {"coefficients": np.array([np.nan]).tobytes()},
        {"coefficients": np.array([65.0]).tobytes()},
        {"coefficients": np.zeros(2).tobytes()},
        {"origins": np.array([np.inf]).tobytes()},
        {"units": b""},
        {"categories": (0, 2, 1)},
        {"categories": (0, 2, 300)},
    ],
)
def test_a_hostile_question_cannot_be_made(changes):
    fields = {
        "categories": (0, 2, 0),
        "time": 0,
        "event": 1,
        "complete_in": (2,),
        "predictors": (2,),
        "origins": np.zeros(1).tobytes(),
        "units": np.zeros(1, dtype="<i8").tobytes(),
        "coefficients": np.zeros(1).tobytes(),
    }
    model = HazardSteps(**fields)
    with pytest.raises(ValueError, match="."):
        HazardSteps(**fields | changes)
    with pytest.raises(ValueError, match="edges"):
        HazardSums(model=model, edges=np.zeros(1).tobytes())
