"""An effect over sites is the same estimator on all rows in one place, with its standard error."""

from functools import cache, partial

import msgspec
import numpy as np
import pandas as pd
import plain_effects
import pytest
import statsmodels.api as sm
from driving import drive, plain_sum
from scipy import stats
from simulating import driven, federated, view_of, views_of
from statsmodels.treatment.treatment_effects import TreatmentEffect

from cipherdag import CausalGraph, Effect, Federation, FedPC, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.effect.report import UNADJUSTED
from cipherdag.errors import DataError, ParameterError, PolicyRefusedError, SiteUnreachableError
from cipherdag.questions.estimation.effect_stages import (
    ArmMeans,
    Contribution,
    ModelSteps,
    PerSite,
    Variance,
)
from cipherdag.questions.estimation.effect_sums import EffectSums
from cipherdag.questions.threshold import ContributorCounts, Suppressed
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import QUESTION_KINDS
from cipherdag.sites.session.round import Coverage
from cipherdag.sites.table.site_table import load_table
from cipherdag.statistics.regression_models import PROPENSITY_EDGES

restricted = partial(federated, least=11)
ARMS = ("ipw", "regression", "aipw")
ADJUST = "age,sex,stage"


@cache
def patients(n=1500, seed=1, arms=2):
    """Rows of all sites; treatment and outcome depend on age, sex and stage."""
    rng = np.random.default_rng(seed)
    age, sex = rng.normal(60.0, 10.0, n), rng.integers(0, 2, n)
    stage = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    push = (age - 60.0) / 25.0 + 0.4 * sex - 0.3 * stage
    draw = rng.gumbel(size=(n, arms)) + push[:, None] * np.linspace(0.0, 1.0, arms)
    drug = draw.argmax(axis=1)
    cost = 900.0 + 40.0 * drug + age + 12.0 * sex * drug + 30.0 * stage + rng.normal(0, 25.0, n)
    well = rng.random(n) < 1.0 / (1.0 + np.exp(0.5 - 0.8 * drug + push))
    return pd.DataFrame(
        {
            "age": age, "sex": np.array(["f", "m"])[sex], "stage": np.array(list("abc"))[stage],
            "drug": np.array(["none", "one", "two"])[drug], "cost": cost,
            "well": np.where(well, "yes", "no"),
        }
    )  # fmt: skip


def hospitals(rows, sites=3):
    """The rows dealt to sites of uneven sizes."""
    cuts = np.linspace(0.0, 1.0, sites + 1)[1:-1] ** 1.3 * len(rows)
    parts = np.split(np.arange(len(rows)), cuts.astype(int))
    return {f"site-{k}": rows.iloc[own] for k, own in enumerate(parts)}


def estimated(rows, *, least=0, **parameters):
    """Over sites that are alike, unless told otherwise."""
    asked = Effect(**{"site_effect": False} | parameters)
    return federated(hospitals(rows), least).run(asked)


def plain_design(rows, names=("age", "sex", "stage")):
    return plain_effects.design(*(rows[name].to_numpy() for name in names))


def codes(column):
    return pd.factorize(column, sort=True)[0]


def with_sites(rows):
    """The rows with the site of each, whose costs differ."""
    own = hospitals(rows)
    return pd.concat([part.assign(site=name) for name, part in own.items()])


@pytest.mark.parametrize(("arms", "site_effect"), [(2, False), (3, True)])
@pytest.mark.parametrize("outcome", ["cost", "well"])
@pytest.mark.parametrize("estimator", ARMS)
def test_it_is_m_estimation_on_all_rows(estimator, outcome, arms, site_effect):
    """With an indicator of every site, where sites have constants of their own."""
    rows = patients(arms=arms, n=300 if site_effect else 1500)
    found = estimated(
        rows, treatment="drug", outcome=outcome, adjust=ADJUST, estimator=estimator,
        site_effect=site_effect,
    )  # fmt: skip
    binary, whole = outcome == "well", with_sites(rows)
    y = codes(whole["well"]).astype(float) if binary else whole["cost"].to_numpy()
    X = plain_design(whole, ("age", "sex", "stage", "site")[: 3 + site_effect])
    means, covariance = plain_effects.arm_means(
        y, codes(whole["drug"]), X, estimator, truncate=0.01, binary=binary
    )
    (own,) = found.finding.sets
    assert own.rows == len(rows)
    assert own.sites == 3
    assert [one.mean for one in own.means] == pytest.approx(means, rel=1e-7)
    errors = np.sqrt(covariance.diagonal())
    assert [one.error for one in own.means] == pytest.approx(errors, rel=1e-6)
    for arm in range(1, arms):
        weights = np.eye(arms)[arm] - np.eye(arms)[0]
        (own_difference,) = (
            one for one in own.contrasts if (one.arm, one.scale) == (arm, "difference")
        )
        assert own_difference.estimate == pytest.approx(means[arm] - means[0], rel=1e-6)
        expected = np.sqrt(weights @ covariance @ weights)
        assert own_difference.error == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sizes", [(50, 70, 900), (700, 900, 800)])
@pytest.mark.parametrize("outcome", ["cost", "well"])
@pytest.mark.parametrize("estimator", ARMS)
def test_a_site_with_many_rows_fits_models_of_its_own(estimator, outcome, sizes):
    """Others share slopes with all sites; where all have many rows, there is nothing to share."""
    rows, site = patients(n=sum(sizes)), np.repeat(np.arange(3), sizes)
    data = {f"site-{k}": rows[site == k] for k in range(3)}
    asked = Effect(treatment="drug", outcome=outcome, adjust=ADJUST, estimator=estimator)
    found = federated(data).run(asked)
    binary = outcome == "well"
    y = codes(rows["well"]).astype(float) if binary else rows["cost"].to_numpy()
    X = plain_design(rows.assign(site=site.astype(str)), ("age", "sex", "stage", "site"))
    many = site == 2
    if min(sizes) > 100:  # slopes of every site, and its constant, are columns
        X = np.column_stack([plain_design(rows) * (site == k)[:, None] for k in range(3)])
        many = None
    means, covariance = plain_effects.arm_means(
        y, codes(rows["drug"]), X, estimator, truncate=0.01, binary=binary, alone=many
    )
    (own,) = found.finding.sets
    assert [one.mean for one in own.means] == pytest.approx(means, rel=1e-7)
    errors = np.sqrt(covariance.diagonal())
    assert [one.error for one in own.means] == pytest.approx(errors, rel=1e-5)


@pytest.mark.parametrize(
    ("estimator", "theirs"), [(e, t) for e, t in zip(ARMS, ("ipw", "ra", "aipw"), strict=True)]
)
def test_it_is_what_statsmodels_estimates(estimator, theirs):
    rows = patients()
    X, t = plain_design(rows), codes(rows["drug"])
    treated = sm.Logit(t, X).fit(disp=0, method="newton", tol=1e-13)
    known = TreatmentEffect(sm.OLS(rows["cost"].to_numpy(), X), t, results_select=treated)
    wanted = getattr(known, theirs)(disp=False)
    found = estimated(
        rows, treatment="drug", outcome="cost", adjust=ADJUST, estimator=estimator, truncate=1e-4
    )
    assert found.finding.estimate == pytest.approx(wanted.effect[0], rel=1e-6)
    near = 1e-5 if estimator == "ipw" else 0.02  # theirs takes residuals as they are
    assert found.finding.standard_error == pytest.approx(wanted.results_gmm.bse[0], rel=near)


@pytest.mark.parametrize("site_effect", [False, True])
@pytest.mark.parametrize(("treatment", "outcome"), [("age", "cost"), ("drug", "well")])
def test_linear_is_ordinary_least_squares_with_robust_errors(treatment, outcome, site_effect):
    """A constant of every site is an indicator of every site."""
    data = hospitals(patients(arms=3))
    for number, name in enumerate(data):
        data[name] = data[name].assign(cost=data[name]["cost"] + 200.0 * number * site_effect)
    others = [name for name in ("age", "sex", "stage") if name != treatment]
    asked = {"treatment": treatment, "outcome": outcome, "adjust": ",".join(others)}
    found = federated(data).run(Effect(**asked, estimator="linear", site_effect=site_effect))
    whole = pd.concat([rows.assign(site=name) for name, rows in data.items()])
    y = whole["cost"] if outcome == "cost" else codes(whole["well"])
    X = plain_design(whole, [*["site"] * site_effect, *others, treatment])
    known = sm.OLS(np.asarray(y, float), X).fit(cov_type="HC3")
    contrasts = found.finding.sets[0].contrasts
    k = X.shape[1] - len(contrasts)
    assert [one.estimate for one in contrasts] == pytest.approx(known.params[k:], rel=1e-8)
    assert [one.error for one in contrasts] == pytest.approx(known.bse[k:], rel=1e-6)


@pytest.mark.parametrize("estimator", [*ARMS, "linear", "standardise"])
@pytest.mark.parametrize("outcome", ["cost", "well"])
def test_the_scatter_between_sites_is_that_of_their_estimates(estimator, outcome):
    data = hospitals(patients(n=2400, arms=3))
    own = {"treatment": "drug", "outcome": outcome, "adjust": "sex", "reference": 2}
    effect, federation = Effect(**own, estimator=estimator), federated(data)
    found = federation.run(effect)
    facts = Facts(6, 1, names=federation.sites[0].table.names)
    outcomes = (drive(effect.ask(facts), [site])[0] for site in views_of(federation))
    alone = [outcome.effects[0].contrasts for outcome in outcomes]
    assert [one.arm for one in found.finding.sets[0].between] == [0, 2]
    for place, one in enumerate(found.finding.sets[0].between):
        effects = np.array([told[place].estimate for told in alone])
        weights = np.array([told[place].error for told in alone]) ** -2.0
        mean = weights @ effects / weights.sum()
        assert one.sites == 3
        assert one.estimate == pytest.approx(mean, rel=1e-8)
        assert one.error == pytest.approx(weights.sum() ** -0.5, rel=1e-8)
        assert one.q == pytest.approx(weights @ (effects - mean) ** 2, rel=1e-5)
        assert one.p_value == pytest.approx(stats.chi2.sf(one.q, 2))


def test_sites_whose_effects_differ_are_warned_of_and_others_are_not():
    data = hospitals(patients(n=2400))
    own = Effect(treatment="drug", outcome="cost", adjust="age,sex")
    alike = restricted(data).run(own)
    assert not alike.report.warnings
    first = data["site-0"]
    data["site-0"] = first.assign(cost=first["cost"] + 60.0 * (first["drug"] == "one"))
    found = restricted(data).run(own)
    (said,) = found.report.warnings
    assert "differ by more than chance" in said
    assert found.table("between_sites")["i2"][0] > 0.8


def test_of_two_sites_that_tell_their_own_effect_nothing_is_opened():
    """The third has a category of one arm alone, so that it fits no model of its own."""
    data = hospitals(patients(n=3000).drop(columns=["well", "stage"]))
    first = data["site-0"]
    data["site-0"] = first[(first["sex"] == "f") | (first["drug"] == "one")]
    own = Effect(treatment="drug", outcome="cost", adjust="sex")
    assert restricted(data).run(own).finding.sets[0].between == ()


@pytest.mark.parametrize(("arms", "outcome"), [(2, "well"), (3, "cost")])
def test_standardising_is_a_saturated_regression_within_sites(outcome, arms):
    rows = patients(n=4500, arms=arms)
    found = estimated(
        rows, treatment="drug", outcome=outcome, adjust="stage,sex", estimator="standardise",
        site_effect=True,
    )  # fmt: skip
    whole = with_sites(rows)
    both = (whole["site"] + whole["sex"] + whole["stage"]).to_numpy()
    y = codes(whole["well"]).astype(float) if outcome == "well" else whole["cost"].to_numpy()
    means, covariance = plain_effects.arm_means(
        y, codes(whole["drug"]), plain_effects.design(both), "regression"
    )
    (own,) = found.finding.sets
    assert (own.rows, own.doubts) == (len(rows), ())
    assert [one.mean for one in own.means] == pytest.approx(means, rel=1e-9)
    errors = np.sqrt(covariance.diagonal())
    assert [one.error for one in own.means] == pytest.approx(errors, rel=1e-6)
    weights = np.eye(arms)[1] - np.eye(arms)[0]
    expected = np.sqrt(weights @ covariance @ weights)
    assert own.contrasts[0].error == pytest.approx(expected, rel=1e-6)


def test_strata_that_lack_an_arm_at_a_site_are_left_out_and_named():
    data = hospitals(patients(n=6000))
    data["site-0"] = data["site-0"][data["site-0"]["stage"] != "c"]
    west = data["site-1"]
    data["site-1"] = west[(west["stage"] != "b") | (west["drug"] == "none")]
    own = Effect(treatment="drug", outcome="cost", adjust="stage", estimator="standardise")
    found = federated(data).run(own)
    whole = pd.concat([part.assign(site=name) for name, part in data.items()])
    left = whole[(whole["site"] != "site-1") | (whole["stage"] != "b")]
    cells = left.pivot_table("cost", ["site", "stage"], "drug")
    sizes = left.groupby(["site", "stage"]).size()
    expected = (cells["one"] - cells["none"]) @ sizes / sizes.sum()
    assert found.finding.estimate == pytest.approx(expected, rel=1e-9)
    (warned,) = found.report.warnings
    assert f"{1 - len(left) / len(whole):.0%} of the rows are in strata" in warned


def test_a_site_without_an_arm_is_named_and_can_be_left_out():
    data = hospitals(patients(n=6000), sites=4)
    data["site-0"] = data["site-0"][data["site-0"]["drug"] == "one"]
    own = {"treatment": "drug", "outcome": "cost", "adjust": "sex"}
    with pytest.raises(
        DataError, match="1 of 4 sites have .* no row of some category of the treat"
    ):
        restricted(data).run(Effect(**own))
    found = restricted(data).run(Effect(**own, withheld="leave-out"))
    assert found.finding.sets[0].sites == 3
    assert restricted(data).run(Effect(**own, site_effect=False)).finding.sets[0].sites == 4


def test_ratios_and_their_intervals_follow_by_the_delta_method():
    rows = patients()
    found = estimated(rows, treatment="drug", outcome="well", adjust=ADJUST, estimator="aipw")
    means, covariance = plain_effects.arm_means(
        codes(rows["well"]).astype(float), codes(rows["drug"]), plain_design(rows), "aipw",
        truncate=0.01, binary=True,
    )  # fmt: skip
    table = found.table("effects").set_index("scale")
    for scale, slope in (("ratio", 1 / means), ("odds ratio", 1 / (means * (1 - means)))):
        log = np.log(means if scale == "ratio" else means / (1 - means)) @ [-1.0, 1.0]
        error = np.sqrt((slope * [-1, 1]) @ covariance @ (slope * [-1, 1]))
        own = table.loc[scale]
        assert own["estimate"] == pytest.approx(np.exp(log), rel=1e-7)
        assert own["standard_error"] == pytest.approx(error, rel=1e-6)
        width = np.log(own["high"] / own["estimate"])
        assert np.log(own["estimate"] / own["low"]) == pytest.approx(width, rel=1e-9)
        # Student's t of a few hundred rows, and variances with the coefficients taken off
        assert 1.959964 * error < width < 1.02 * 1.959964 * error


def test_another_reference_turns_the_effect_round():
    one = estimated(patients(), treatment="drug", outcome="cost", adjust=ADJUST)
    other = estimated(patients(), treatment="drug", outcome="cost", adjust=ADJUST, reference=2)
    assert other.finding.estimate == -one.finding.estimate
    assert other.finding.interval == (-one.finding.interval[1], -one.finding.interval[0])
    assert other.table("effects").loc[0, ["arm", "against"]].tolist() == ["none", "one"]


@pytest.mark.parametrize("adjust", ["", "age"])
def test_an_effect_adjusted_for_nothing_says_what_is_in_it(adjust):
    result = estimated(patients(), treatment="drug", outcome="cost", adjust=adjust)
    assert (UNADJUSTED in "\n".join(result.lines())) == (adjust == "")


def test_rows_that_miss_a_value_are_left_out():
    rows = patients().copy()
    rng = np.random.default_rng(3)
    for name in ("age", "sex", "drug", "cost"):
        rows.loc[rng.random(len(rows)) < 0.05, name] = np.nan if name in ("age", "cost") else None
    whole = estimated(rows, treatment="drug", outcome="cost", adjust="age,sex")
    complete = rows.dropna(subset=["age", "sex", "drug", "cost"])
    assert whole.finding.sets[0].rows == len(complete)
    assert f"{len(complete):,} of {len(rows):,} rows of 3 sites" in "\n".join(whole.lines())
    assert any("rows are not in it" in own for own in whole.report.limits)
    again = estimated(complete, treatment="drug", outcome="cost", adjust="age,sex")
    assert whole.finding.estimate == pytest.approx(again.finding.estimate, rel=1e-9)
    assert whole.finding.standard_error == pytest.approx(again.finding.standard_error, rel=1e-9)


def test_overlap_counts_every_row_by_its_propensity():
    rows = patients()
    found = estimated(rows, treatment="drug", outcome="cost", adjust=ADJUST)
    X, t = plain_design(rows), codes(rows["drug"])
    chance = sm.Logit(t, X).fit(disp=0, method="newton", tol=1e-13).predict()
    own = found.table("overlap").set_index(["arm", "from"])["rows"]
    for arm, name in enumerate(("none", "one")):
        counts, _ = np.histogram(chance[t == arm], [*PROPENSITY_EDGES, 1.0])
        assert own.loc[name].tolist() == counts.tolist()


def test_a_site_s_small_counts_of_propensities_are_left_out():
    found = estimated(
        patients(n=4000), least=11, treatment="drug", outcome="cost", adjust="age,sex"
    )
    counts = found.table("overlap")["rows"]
    assert counts.sum() < found.finding.sets[0].rows
    assert not ((counts > 0) & (counts < 11)).any()


# what the graph says


def test_a_query_says_what_to_adjust_for():
    graph = CausalGraph.from_edges(
        ["age", "sex", "stage", "drug", "cost", "well"],
        directed=[("age", "drug"), ("age", "cost"), ("sex", "drug"), ("sex", "cost"),
                  ("stage", "drug"), ("stage", "cost"), ("drug", "cost")],
    )  # fmt: skip
    query = graph.identify("drug", "cost")
    own = Effect(query)
    assert (own.treatment, own.outcome) == ("drug", "cost")
    federation = federated(hospitals(patients()))
    by_query = federation.run(own)
    by_name = federation.run(Effect(treatment="drug", outcome="cost", adjust=ADJUST))
    assert by_query.finding.sets == by_name.finding.sets
    assert by_query.finding.sets[0].adjust == ("age", "sex", "stage")


def test_every_set_of_a_graph_is_estimated_in_the_same_rounds():
    graph = CausalGraph.from_edges(
        ["age", "drug", "cost"],
        directed=[("age", "drug"), ("drug", "cost"), ("age", "cost")],
    )
    query = graph.to_cpdag().identify("drug", "cost")
    rows = patients().drop(columns=["sex", "stage", "well"])
    found = estimated(rows, **_fields(Effect(query, estimator="regression")))
    assert len(found.finding.sets) == len(query.possibilities) > 1
    assert [own.parents for own in found.finding.sets] == [
        own.parents for own in query.possibilities
    ]
    assert [own.n_dags for own in found.finding.sets] == [own.n_dags for own in query.possibilities]
    alone = {}
    for own, possible in zip(found.finding.sets, query.possibilities, strict=True):
        if possible.answer.method == "no effect":
            assert own.why == "no effect"
            continue
        assert own.adjust == possible.answer.chosen
        alone[own.adjust] = estimated(
            rows, treatment="drug", outcome="cost", adjust=",".join(own.adjust),
            estimator="regression",
        )  # fmt: skip
        assert own.contrasts == alone[own.adjust].finding.sets[0].contrasts
    told = [0.0 if own.why else own.contrasts[0].estimate for own in found.finding.sets]
    ends = [
        (own.contrasts[0].low, own.contrasts[0].high) for own in found.finding.sets if not own.why
    ]
    low, high = zip(*ends, (0.0, 0.0), strict=True)
    assert found.finding.range == (min(low), max(high))
    assert found.finding.range[1] > max(told)
    assert len(found.rounds) == max(len(own.rounds) for own in alone.values())
    assert sorted(set(found.table("effects")["estimate"])) == sorted(set(told))


def _fields(effect):
    names = ("treatment", "outcome", "adjust", "estimator")
    return {name: getattr(effect, name) for name in names}


def test_what_is_not_identified_by_adjustment_is_refused_and_says_why():
    hidden = CausalGraph.from_edges(
        ["u", "x", "m", "y"], directed=[("u", "x"), ("u", "y"), ("x", "m"), ("m", "y")]
    )
    query = hidden.identify("x", "y", unobserved=["u", "m"])
    with pytest.raises(ParameterError, match="leaves the path x <-- u --> y open"):
        Effect(query)
    with pytest.raises(ParameterError, match="front door through m"):
        Effect(hidden.identify("x", "y", unobserved=["u"]))
    with pytest.raises(ParameterError, match="x has no effect on u.* the effect is 0"):
        Effect(hidden.identify("x", "u"))
    with pytest.raises(ParameterError, match="follow from what the graph says"):
        Effect(hidden.identify("u", "y"), treatment="u")
    with pytest.raises(ParameterError, match="is not what a graph says"):
        Effect("x")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"treatment": ""}, "needs the names"),
        ({"treatment": "dose"}, "there is no column 'dose'"),
        ({"adjust": "age,nobody"}, "there is no column 'nobody'"),
        ({"adjust": "age,drug"}, "names 'drug' twice; adjust names neither"),
        ({"estimator": "standardise"}, "it goes with site_effect"),
        ({"adjust": '["age"'}, "no list of names in JSON"),
        ({"outcome": "stage"}, "'stage' has 3 categories"),
        ({"treatment": "age", "adjust": "sex", "estimator": "aipw"}, "choose linear"),
        ({"reference": 3}, "reference 3 is no category"),
        (
            {"estimator": "standardise", "site_effect": True},
            "standardise takes categories, and 'age' has numbers",
        ),
        ({"truncate": 0.5}, "truncate must be"),
        ({"truncate": 0.011}, "truncate must be one of 0.0001, 0.001, 0.01, 0.05, 0.1"),
    ],
)
def test_what_cannot_be_asked_is_named(changes, said):
    with pytest.raises(ParameterError, match=said):
        estimated(patients(), **{"treatment": "drug", "outcome": "cost", "adjust": "age"} | changes)


def test_names_with_commas_are_written_in_json():
    rows = patients().rename(columns={"age": "age, in years"})
    found = estimated(rows, treatment="drug", outcome="cost", adjust='["age, in years", "sex"]')
    assert found.finding.sets[0].adjust == ("age, in years", "sex")


# what the rows do not tell


def test_a_treatment_that_a_category_decides_is_refused_or_guessed():
    rows = patients().copy()
    rows.loc[rows["stage"] == "c", "drug"] = "one"
    asked = {"treatment": "drug", "outcome": "cost", "adjust": "stage"}
    for estimator in ("ipw", "aipw"):
        with pytest.raises(DataError, match="no finite maximum"):
            estimated(rows, **asked, estimator=estimator)
    found = estimated(rows, **asked, estimator="regression")
    assert any("a guess" in said for said in found.report.warnings)
    assert "WARNING" in "\n".join(found.lines())


def test_variables_that_say_the_same_change_nothing_but_a_warning():
    rows = patients().copy()
    rows["months"] = rows["age"] * 12.0
    twice = estimated(rows, treatment="drug", outcome="cost", adjust="age,months")
    once = estimated(rows, treatment="drug", outcome="cost", adjust="age")
    assert twice.finding.estimate == pytest.approx(once.finding.estimate, rel=1e-6)
    assert twice.finding.standard_error == pytest.approx(once.finding.standard_error, rel=1e-5)
    assert any("unless two variables say the same" in said for said in twice.report.warnings)


def test_a_number_that_follows_from_the_others_has_no_effect():
    rows = patients().copy()
    rows["months"] = rows["age"] * 12.0
    with pytest.raises(DataError, match="a linear combination of what is adjusted for"):
        estimated(rows, treatment="months", outcome="cost", adjust="age,sex")


def test_rows_with_hardly_any_overlap_are_warned_of():
    rng = np.random.default_rng(5)
    x = rng.normal(size=3000)
    drug = rng.random(3000) < 1.0 / (1.0 + np.exp(-4.0 * x))
    rows = pd.DataFrame({"x": x, "drug": drug, "y": x + drug + rng.normal(size=3000)})
    own = {"treatment": "drug", "outcome": "y", "adjust": "x", "estimator": "ipw"}
    with pytest.raises(DataError, match="25% of the rows have a propensity beyond 0.01 or 0.99"):
        estimated(rows, **own)
    found = estimated(rows, **own, truncate=0.001)
    assert any("below 0.05 or above 0.95" in said for said in found.report.warnings)
    plain, covariance = plain_effects.arm_means(
        rows["y"].to_numpy(), codes(drug), plain_design(rows, ["x"]), "ipw", truncate=0.001
    )
    assert found.finding.estimate == pytest.approx(plain[1] - plain[0], rel=1e-7)
    error = np.sqrt([-1, 1] @ covariance @ [-1, 1])
    # some rows lie where the truncated weight has a corner
    assert found.finding.standard_error == pytest.approx(error, rel=1e-3)


# sites with few rows


def rare(sites=3):
    """One site has three rows of an arm."""
    rows = patients(n=3000).drop(columns=["stage", "well", "sex"])
    data = hospitals(rows, sites)
    few = data["site-0"].copy()
    few["drug"] = "none"
    few.iloc[:3, few.columns.get_loc("drug")] = "one"
    return data | {"site-0": few}


def test_a_site_with_few_rows_of_an_arm_stops_it_or_is_left_out():
    own = {"treatment": "drug", "outcome": "cost", "adjust": "age"}
    with pytest.raises(DataError, match="1 of 4 sites have a count below their min_cell_size"):
        restricted(rare(4)).run(Effect(**own))
    found = restricted(rare(4)).run(Effect(**own, withheld="leave-out"))
    rest = {name: rows for name, rows in rare(4).items() if name != "site-0"}
    alone = restricted(rest).run(Effect(**own))
    assert found.finding.sets[0].sites == 3
    assert found.report.warnings[0].startswith("1 of 4 sites are left out")
    assert found.finding.estimate == pytest.approx(alone.finding.estimate, rel=1e-9)
    assert found.finding.standard_error == pytest.approx(alone.finding.standard_error, rel=1e-9)
    with pytest.raises(DataError, match="2 sites may tell of these rows, and 3 have to"):
        restricted(rare(3)).run(Effect(**own, withheld="leave-out"))


def test_an_arm_that_two_sites_have_is_not_told():
    data = {
        name: rows.assign(drug="none") if name == "site-0" else rows
        for name, rows in hospitals(patients(n=3000)).items()
    }
    with pytest.raises(DataError, match="2 sites have rows of arm 2, and 3 have to"):
        restricted(data).run(
            Effect(treatment="drug", outcome="cost", adjust="age", site_effect=False)
        )


def test_between_the_count_and_the_models_no_site_may_leave():
    federation = restricted(hospitals(patients(n=3000), 4))
    sites = views_of(federation, 11)
    facts = Facts(6, 4, names=federation.sites[0].table.names, min_contributors=3)
    asking = Effect(treatment="drug", outcome="cost", adjust="age").ask(facts)
    question = next(asking)
    for _ in range(3):
        question = asking.send(plain_sum(question, sites))
    facts.present.n_sites = 3
    with pytest.raises(SiteUnreachableError, match="a site left"):
        asking.send(plain_sum(question, sites[1:]))


def test_a_policy_can_refuse_it():
    policy = Policy(questions=QUESTION_KINDS - {"effect-sums"})
    federation = Federation.simulate(hospitals(patients(n=3000)), policy=policy, device="cpu")
    with pytest.raises(PolicyRefusedError, match="effect-sums"):
        federation.run(Effect(treatment="drug", outcome="cost", adjust="age"))
    assert "effect-sums" not in Policy().questions


# what a coordinator may try


def question(**changes):
    """An effect of variable 0 on variable 1; 2 is a number, 3 has three categories."""
    fields = {
        "categories": (2, 2, 0, 3), "origins": bytes(32), "units": bytes(32),
        "treatment": 0, "outcome": 1, "adjust": (2, 3),
    }  # fmt: skip
    return EffectSums(**fields | changes)


INFINITE = np.array([np.inf]).tobytes()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"adjust": (3, 2)}, "ascend"),
        ({"adjust": (0,)}, "other variables"),
        ({"adjust": (2,), "complete_in": (2,)}, "other variables"),
        ({"adjust": (9,)}, "other variables"),
        ({"treatment": 2, "adjust": ()}, "must have categories"),
        ({"outcome": 3, "adjust": ()}, "two categories"),
        ({"truncate": 0.0100001}, "one of a few"),
        ({"stage": ModelSteps((0, -1), b"")}, "ascend"),
        ({"stage": ModelSteps((2,), b"")}, "ascend"),
        ({"estimator": "ipw", "stage": ModelSteps((0,), b"")}, "ascend"),
        ({"stage": ArmMeans(b"")}, "length of the models"),
        ({"stage": ModelSteps((), bytes(8))}, "length of the models"),
        ({"estimator": "standardise"}, "strata are of categories"),
        ({"estimator": "standardise", "site_effect": False, "adjust": ()}, "those of each site"),
        ({"stage": PerSite(2)}, "reference is a category"),
        ({"estimator": "ipw", "stage": ModelSteps((-1,), bytes(24) + INFINITE)}, "finite"),
        ({"origins": bytes(24)}, "length of the study"),
    ],
)
def test_a_question_that_cannot_be_is_none(changes, said):
    with pytest.raises(ValueError, match=said):
        question(**changes)


def test_a_site_answers_no_sums_that_were_not_counted():
    """Nor those of another set, of another arm's rows, or of sites that were too few."""
    coverage = Coverage(min_contributors=3, planned=3)
    models = question(estimator="ipw", stage=ModelSteps((-1,), np.zeros(4).tobytes()))
    every = np.packbits(np.ones(3, dtype=bool)).tobytes()
    for asked in (models, question(estimator="ipw")):
        with pytest.raises(PolicyRefusedError, match="counted first"):
            coverage.check(asked, 4)
    with pytest.raises(PolicyRefusedError, match="contribute"):
        coverage.check(Suppressed(question=models, enough=every), 4)
    coverage.opened(ContributorCounts(question=models.counted_as), np.array([4.0, 4.0, 3.0]), 4)
    for _ in range(2):  # every stage of the same scope, as often as the plan asks
        coverage.check(Suppressed(question=models, enough=every), 4)
        coverage.opened(Suppressed(question=models, enough=every), np.zeros(18), 4)
    other = msgspec.structs.replace(
        models, adjust=(3,), complete_in=(2,), stage=ModelSteps((-1,), np.zeros(3).tobytes())
    )
    with pytest.raises(PolicyRefusedError, match="contribute"):
        coverage.check(Suppressed(question=other, enough=every), 4)
    per_site = question(estimator="ipw", stage=PerSite())
    with pytest.raises(PolicyRefusedError, match="contribute"):
        coverage.check(Suppressed(question=per_site, enough=every[:1]), 4)
    few = Coverage(min_contributors=3, planned=3)
    few.opened(ContributorCounts(question=models.counted_as), np.array([4.0, 4.0, 2.0]), 4)
    with pytest.raises(PolicyRefusedError, match="contribute"):
        few.check(Suppressed(question=models, enough=every), 4)


def test_after_a_site_may_have_left_that_was_counted_nothing_is_told():
    coverage = Coverage(min_contributors=3, planned=3)
    models = question(estimator="ipw", stage=ModelSteps((-1,), np.zeros(4).tobytes()))
    asked = Suppressed(question=models, enough=np.packbits(np.ones(3, dtype=bool)).tobytes())
    coverage.opened(ContributorCounts(question=models.counted_as), np.array([4.0, 4.0, 3.0]), 4)
    answer = np.ones(models.n_values)
    assert (coverage.suppress(asked, answer, 4) == 1.0).all()
    assert not coverage.suppress(asked, answer, 3).any()


def test_a_site_with_small_counts_answers_zeros_whatever_is_asked():
    """In every stage: nothing of it is in any sum, nor does it refuse, which would tell."""
    rows = patients(n=300).drop(columns=["well", "age"])
    few = rows[(rows["drug"] == "none") | (rows.index < 15)]
    schema = infer_schema([rows])
    site = view_of(load_table(few, schema), 11)
    other = view_of(load_table(rows, schema))
    own = Effect(treatment="drug", outcome="cost", adjust="sex,stage", estimator="aipw")
    asked = drive(own.ask(Facts(4, 1, names=schema.names)), [other])[1]
    stages = [part for whole in asked for part in whole.parts if isinstance(part, EffectSums)]
    asked_for = {type(part.stage) for part in stages}
    assert asked_for == {Contribution, ModelSteps, ArmMeans, Variance, PerSite}
    for part in stages:
        assert not site.answer(part).any()


def test_no_sum_of_a_run_tells_who_misses_a_value_by_another_run_s():
    """Rows, means and squares of an arm are of the same rows, whatever is adjusted for."""
    rows = patients()
    rows.loc[rows.index[7], "age"] = np.nan
    federation, counts = federated(hospitals(rows)), []
    for adjust in ("age", "sex", ""):
        own = Effect(treatment="drug", outcome="cost", adjust=adjust)
        (found,) = driven(own, federation, least=11)[0].effects
        counts.append([one.rows for one in found.means])
    assert counts[1:] == counts[:-1]
    assert sum(counts[0]) == len(rows) - 1


def test_to_leave_sites_out_is_offered_where_enough_are_left():
    data = hospitals(patients(n=3000))
    few = data["site-0"]
    data["site-0"] = few[(few["sex"] == "f") | (np.arange(len(few)) < 9)]
    asked = Effect(treatment="drug", outcome="cost", adjust="sex")
    with pytest.raises(DataError, match="some category of the treatment$"):
        restricted(data).run(asked)
    data["site-3"] = patients(n=1000, seed=8)
    with pytest.raises(DataError, match="withheld=leave-out"):
        restricted(data).run(asked)


def test_the_range_spans_the_sets_of_several_graphs():
    names = ["age", "sex", "drug", "cost"]
    shared = [("age", "drug"), ("age", "cost"), ("drug", "cost")]
    graphs = [
        CausalGraph.from_edges(names, directed=[*shared, *more])
        for more in ([], [("sex", "drug"), ("sex", "cost")], [])
    ]
    found = estimated(
        patients(), **_fields(Effect(graphs=graphs, treatment="drug", outcome="cost"))
    )
    assert [own.adjust for own in found.finding.sets] == [("age",), ("age", "sex")]
    ends = [own.contrasts[0] for own in found.finding.sets]
    assert found.finding.range == (min(e.low for e in ends), max(e.high for e in ends))
    with pytest.raises(ParameterError, match="give no other"):
        Effect(graphs=graphs, treatment="drug", outcome="cost", adjust="age")


def test_replicates_are_graphs_that_an_effect_takes():
    rng = np.random.default_rng(8)
    a = rng.normal(size=600)
    rows = pd.DataFrame({"a": a, "b": a + rng.normal(size=600), "c": rng.normal(size=600)})
    found = Federation.split(rows, 3, device="cpu").run(FedPC(bootstrap=5), seed=3).finding
    counted = found.confidences.of("a", "b")
    drawn = [graph.edges for graph in found.replicates]
    assert len(drawn) == 5
    assert sum(("a", "b") in [(e.source, e.target) for e in edges] for edges in drawn) == 5
    assert counted.joined == 5
    assert Effect(graphs=[found.graph, *found.replicates], treatment="a", outcome="b").adjust
