"""Refutations are the same estimator on rows that are changed, and open no few rows."""

from functools import cache

import msgspec
import numpy as np
import pandas as pd
import plain_effects
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simulating import driven, federated, views_of

from cipherdag import Effect
from cipherdag.errors import DataError
from cipherdag.findings.effect import (
    Contrast,
    Refutation,
    contrasts_after,
    left_out_p_value,
    normal_p_value,
)
from cipherdag.questions.estimation.effect_stages import (
    ArmMeans,
    Contribution,
    Missing,
    ModelSteps,
    PerSite,
)
from cipherdag.questions.estimation.effect_sums import FOLDS, EffectSums
from cipherdag.questions.threshold import ContributorCounts
from cipherdag.results.run import Run
from cipherdag.sites.compute.device import PROCESSOR
from cipherdag.sites.compute.models.effect_answer import (
    effect_answer,
    fold_numbers,
    placebo,
    with_random_cause,
)
from cipherdag.sites.compute.noise import CellKeys
from cipherdag.sites.compute.rows import Rows


@cache
def patients(n=3000, seed=1):
    """Rows of all sites: a drug, two numbers that go with it, a category, and an outcome."""
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(60.0, 10.0, n), rng.normal(size=n)
    sex = rng.integers(0, 2, n)
    drug = rng.random(n) < 1.0 / (1.0 + np.exp(-(age - 60.0) / 12.0 - 0.5 * sex))
    cost = 9.0 * drug + 0.7 * age + 2.0 * sex + rng.normal(0.0, 6.0, n)
    return pd.DataFrame(
        {"age": age, "sex": np.array(["f", "m"])[sex], "dose": dose,
         "drug": np.where(drug, "one", "none"), "cost": cost}
    )  # fmt: skip


def three(rows, sites=3):
    return {f"site-{k}": rows.iloc[k::sites] for k in range(sites)}


OWN = {"treatment": "drug", "outcome": "cost", "adjust": "age,sex", "site_effect": False}


def changes(found, change):
    return [own for own in found.finding.sets[0].refutations if own.change == change]


def drawn(federation):
    """The rows of every site as it has them, and the numbers that it changes them by."""
    return [
        (
            Rows(site.table.codes, site.table.values, site.table.cardinalities),
            CellKeys(site.table.codes, site.table.values),
        )
        for site in federation.sites
    ]


def named(federation):
    """The variables of `OWN`, by position."""
    names = federation.sites[0].table.names
    return tuple(sorted(names.index(own) for own in ("drug", "cost", "age", "sex")))


def frame(federation, rows):
    """Rows of all sites as numbers, categories by their codes; without drawn causes."""
    names = federation.sites[0].table.names
    found = []
    for own in rows:
        columns = [
            own.codes[:, v] if (own.codes[:, v] >= 0).all() else own.values[:, v]  # noqa: PD011
            for v in range(len(names))
        ]
        found.append(pd.DataFrame(dict(zip(names, columns, strict=True))))
    return pd.concat(found)


def least_squares(table, names, robust="HC3"):
    X = sm.add_constant(table[[*names, "drug"]].to_numpy(float))
    known = sm.OLS(table["cost"].to_numpy(), X).fit(cov_type=robust)
    return known.params[-1], known.bse[-1]


def test_every_change_is_least_squares_on_the_changed_rows():
    federation = federated(three(patients()))
    found = federation.run(Effect(**OWN, estimator="linear", refute=True))
    names, sites = federation.sites[0].table.names, drawn(federation)
    drug = names.index("drug")
    whole = [rows for rows, _ in sites]

    def check(own, expected):
        (one,) = own.contrasts
        assert (one.estimate, one.error) == pytest.approx(expected, rel=1e-7)

    for part, own in enumerate(changes(found, "rows left out")):
        kept = [
            rows.take(fold_numbers(rows, named(federation), blur) != part) for rows, blur in sites
        ]
        check(own, least_squares(frame(federation, kept), ["age", "sex"]))
    (own,) = changes(found, "placebo treatment")
    dealt = [placebo(rows, drug, named(federation), blur) for rows, blur in sites]
    check(own, least_squares(frame(federation, dealt), ["age", "sex"]))
    for own, rest in zip(changes(found, "variable left out"), ["sex", "age"], strict=True):
        check(own, least_squares(frame(federation, whole), [rest]))
        assert {own.left_out, rest} == {"age", "sex"}
    (own,) = changes(found, "random common cause")
    table = frame(federation, whole)
    table["drawn"] = np.concatenate(
        [with_random_cause(rows, blur).values[:, -1] for rows, blur in sites]  # noqa: PD011
    )
    check(own, least_squares(table, ["age", "sex", "drawn"]))


@pytest.mark.parametrize("estimator", ["ipw", "regression", "aipw"])
def test_a_part_left_out_is_m_estimation_on_the_others(estimator):
    federation = federated(three(patients()))
    found = federation.run(Effect(**OWN, estimator=estimator, refute=True))
    for part, own in enumerate(changes(found, "rows left out")):
        kept = [
            rows.take(fold_numbers(rows, named(federation), blur) != part)
            for rows, blur in drawn(federation)
        ]
        table = frame(federation, kept)
        X = plain_effects.design(table["age"].to_numpy(), table["sex"].to_numpy())
        y, t = table["cost"].to_numpy(), table["drug"].to_numpy().astype(int)
        means, covariance = plain_effects.arm_means(y, t, X, estimator, truncate=0.01)
        (one,) = own.contrasts
        assert one.estimate == pytest.approx(means[1] - means[0], rel=1e-6)
        error = np.sqrt(np.array([-1, 1]) @ covariance @ np.array([-1, 1]))
        assert one.error == pytest.approx(error, rel=1e-6)


def test_sites_constants_are_in_every_question_or_in_none():
    """Sums with and without them differ by those of the sites' means."""
    for site_effect in (False, True):
        own = {"estimator": "linear", "site_effect": site_effect, "refute": True}
        _, asked = asked_of(three(patients()), 5, **OWN | own)
        inner = [getattr(part, "question", part) for part in asked]
        effects = [part for part in inner if isinstance(part, EffectSums)]
        assert {part.site_effect for part in effects} == {site_effect}


@cache
def counted(seed=1):
    """Three sites of 60 to 110 rows, of two categories each, with about as many of either."""
    rng = np.random.default_rng(seed)
    found = {}
    for site, n in enumerate(rng.integers(60, 110, 3)):
        drug = rng.random(n) < (0.3, 0.5, 0.6)[site]
        cost = 2.0 * drug + site + rng.normal(size=n)
        found[f"site-{site}"] = pd.DataFrame({"drug": np.where(drug, "one", "none"), "cost": cost})
    return found


def opened(least):
    """The treatment's sum of squares about the sites' means, as the first step opens it."""
    _, asked = asked_of(counted(), least, treatment="drug", outcome="cost", estimator="linear",
                        site_effect=True)  # fmt: skip
    inner = [getattr(part, "question", part) for part in asked]
    first = next(
        own for own in inner if isinstance(own, EffectSums) and isinstance(own.stage, ModelSteps)
    )
    return sum(site.answer(first) for site in views_of(federated(counted()), least))[5]


def solutions(total, rows):
    """All tables of three sites, up to which category is which, whose squares add up to this."""
    found = []
    for n1 in range(22, rows // 3 + 1):
        n2 = np.arange(n1, (rows - n1) // 2 + 1)[:, None, None]
        n3 = (rows - n1 - n2).astype(float)
        t1 = np.arange(11, n1 // 2 + 1)[None, :, None]
        t2 = np.arange(11, rows // 4 + 1)[None, None, :]
        left = total - t1 * (n1 - t1) / n1 - t2 * (n2 - t2) / n2
        real = (t2 <= n2 // 2) & (left >= 0) & (n3 * n3 >= 4 * n3 * left)
        t3 = np.rint((n3 - np.sqrt(np.where(real, n3 * n3 - 4 * n3 * left, 0.0))) / 2)
        hits = real & (np.abs(t3 * (n3 - t3) / n3 - left) < 1e-9) & (t3 >= 11)
        found += [
            sorted([(n1, int(t1[0, j, 0])), (int(n2[i, 0, 0]), int(t2[0, 0, k])),
                    (int(n3[i, 0, 0]), int(t3[i, j, k]))])
            for i, j, k in np.argwhere(hits)
        ]  # fmt: skip
    return found


def test_sums_about_the_means_of_three_sites_do_not_tell_their_counts():
    """They do where small counts may leave: rows and both categories of every site."""
    data = counted().values()
    ones = [int(own["drug"].eq("one").sum()) for own in data]
    sizes = [len(own) for own in data]
    truth = sorted((n, min(t, n - t)) for n, t in zip(sizes, ones, strict=True))
    assert truth in solutions(opened(0), sum(sizes))
    assert truth not in solutions(opened(11), sum(sizes))


def test_with_constants_of_their_own_it_is_weighted_least_squares():
    data = three(patients())
    data["site-0"] = data["site-0"].assign(cost=data["site-0"]["cost"] + 50.0)
    exact, weighed = federated(data), federated(data, least=11)
    own = Effect(**OWN | {"site_effect": True}, estimator="linear")
    before, found = exact.run(own), weighed.run(own)
    table, weights = [], []
    for number, (rows, blur) in enumerate(drawn(weighed)):
        table.append(frame(weighed, [rows]).assign(site=number))
        chance = 1.0 + 0.1 * blur.uniform(b"row weights", (len(rows),))
        weights.append(chance / chance.mean())
    whole = pd.concat(table)
    X = plain_effects.design(*(whole[v].to_numpy(float) for v in ("age", "sex", "drug")))
    X = np.column_stack([X, whole["site"] == 1, whole["site"] == 2]).astype(float)
    known = sm.WLS(whole["cost"], X, weights=np.concatenate(weights)).fit(cov_type="HC3")
    assert found.finding.estimate == pytest.approx(known.params.iloc[3], rel=1e-7)
    assert found.finding.standard_error == pytest.approx(known.bse.iloc[3], rel=1e-6)
    assert found.finding.sets[0].rows == before.finding.sets[0].rows == len(whole)
    assert (
        abs(found.finding.estimate - before.finding.estimate) < 0.3 * before.finding.standard_error
    )


@pytest.mark.parametrize("estimator", ["ipw", "regression", "aipw", "standardise"])
def test_within_sites_small_counts_are_of_rows_that_weigh_differently(estimator):
    """Exact sums within three sites would tell their counts; the estimate is hardly another."""
    own = {"treatment": "drug", "outcome": "cost", "adjust": "sex", "estimator": estimator}
    data = three(patients())
    before, found = (federated(data, least=least).run(Effect(**own)) for least in (0, 11))
    assert (
        1e-6
        < abs(found.finding.estimate - before.finding.estimate)
        < 0.3 * before.finding.standard_error
    )
    assert found.finding.standard_error == pytest.approx(before.finding.standard_error, rel=0.05)
    assert found.finding.sets[0].rows == before.finding.sets[0].rows == 3000


def test_it_takes_no_more_rounds_and_leaves_the_estimate_as_it_is():
    federation = federated(three(patients()), least=5)
    plain, refuted = (federation.run(Effect(**OWN, refute=own)) for own in (False, True))
    assert len(refuted.rounds) <= len(plain.rounds) + 1
    assert refuted.table("effects").equals(plain.table("effects"))
    assert [own.change for own in plain.finding.sets[0].refutations] == ["placebo treatment"]
    assert len(refuted.finding.sets[0].refutations) == 2 + FOLDS + 2
    assert "a fifth of the rows" in " ".join(refuted.disclosures)
    assert "a fifth of the rows" not in " ".join(plain.disclosures)


def test_strata_are_refuted_without_a_random_number():
    own = {"treatment": "drug", "outcome": "cost", "adjust": "sex"}
    found = federated(three(patients())).run(Effect(**own, estimator="standardise", refute=True))
    made = {one.change for one in found.finding.sets[0].refutations}
    assert made == {"placebo treatment", "rows left out", "variable left out"}
    assert all(one.contrasts for one in found.finding.sets[0].refutations)


def test_every_set_of_a_graph_is_refuted():
    sets = '[{"adjust": ["age"], "parents": ["age"]}, {"adjust": [], "parents": []}]'
    own = {"treatment": "drug", "outcome": "cost", "adjust": sets}
    found = federated(three(patients())).run(Effect(**own, refute=True))
    left_out = [
        [one.left_out for one in own.refutations if one.left_out] for own in found.finding.sets
    ]
    parts = [str(part + 1) for part in range(FOLDS)]
    assert left_out == [[*parts, "age"], parts]
    assert set(found.table("refutations")["set"]) == {1, 2}
    # without its one variable the first set is the second
    last = found.table("refutations")[found.table("refutations")["left_out"] == "age"][
        "estimate"
    ].item()
    assert last == pytest.approx(found.finding.sets[1].contrasts[0].estimate, rel=1e-9)


# what they say


def one(estimate, error, arm=1):
    return Contrast(
        arm=arm, scale="difference", estimate=estimate, error=error,
        low=estimate - 2 * error, high=estimate + 2 * error,
    )  # fmt: skip


def test_placebos_and_parts_are_extreme_as_often_as_by_chance():
    placebos, parts = [], []
    for seed in range(60):
        rows = three(patients(400, seed + 10))
        outcome, _ = asked_of(rows, 0, **OWN, estimator="linear", refute=True)
        own, (whole,) = outcome.effects[0].refutations, outcome.effects[0].contrasts
        placebos.append(normal_p_value(contrasts_after(own, "placebo treatment", 1)[0]))
        parts.append(left_out_p_value(contrasts_after(own, "rows left out", 1), whole.error))
        (beside,) = contrasts_after(own, "random common cause", 1)
        assert abs(beside.estimate - whole.estimate) < 0.5 * whole.error
    assert stats.kstest(placebos, "uniform").pvalue > 1e-3
    assert stats.kstest(parts, "uniform").pvalue > 1e-3


def test_sites_that_confound_are_found_by_the_placebo():
    """Both drug and cost are higher at one site, and nothing that is adjusted for says so."""
    data = three(patients())
    rng = np.random.default_rng(3)
    more = rng.random(len(data["site-0"])) < 0.8
    data["site-0"] = data["site-0"].assign(
        drug=np.where(more, "one", data["site-0"]["drug"]), cost=data["site-0"]["cost"] + 30.0
    )
    found = federated(data).run(Effect(**OWN, refute=True))
    (own,) = (said for said in found.report.warnings if "placebo" in said)
    assert "sites differ" in own
    apart = federated(data).run(
        Effect(**OWN | {"site_effect": True}, estimator="linear", refute=True)
    )
    assert not any("placebo" in said for said in apart.report.warnings)


def test_few_rows_that_decide_an_estimate_are_found():
    parts = [one(3.0, 1.0), one(3.1, 1.0), one(2.9, 1.0), one(3.0, 1.0)]
    assert left_out_p_value([*parts, one(-4.0, 1.0)], 1.0) < 1e-6
    assert left_out_p_value([*parts, one(3.05, 1.0)], 1.0) > 0.9
    assert left_out_p_value(parts[:1], 1.0) == left_out_p_value(parts, 0.0) == 1.0


def test_the_p_value_of_parts_is_that_of_a_jackknife_of_groups():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        groups = rng.normal(2.0, 3.0, FOLDS)
        rest = [(groups.sum() - own) / (FOLDS - 1) for own in groups]
        found.append(left_out_p_value([one(own, 1.0) for own in rest], 3.0 / np.sqrt(FOLDS)))
    assert stats.kstest(found, "uniform").pvalue > 1e-3


def test_it_is_said_on_the_page_in_the_terminal_and_in_a_table(tmp_path):
    rows = patients().rename(columns={"age": "<b>age</b>"})
    own = OWN | {"adjust": "<b>age</b>,sex"}
    found = federated(three(rows)).run(Effect(**own, refute=True))
    told = "\n".join(found.lines())
    for words in ("placebo treatment: ", "and 0 is expected", "without <b>age</b>: ",
                  "a fifth of the rows left out, each in turn: "):  # fmt: skip
        assert words in told
    found.save(tmp_path / "effect")
    page = (tmp_path / "effect" / "report.html").read_text("utf-8")
    assert "Refutations" in page
    assert "<b>age" not in page
    table = pd.read_csv(tmp_path / "effect" / "refutations.csv")
    assert table["estimate"].to_numpy() == pytest.approx(
        found.table("refutations")["estimate"].to_numpy()
    )
    assert Run.load(tmp_path / "effect").finding.sets == found.finding.sets


# what they open


def asked_of(data, least, **own):
    outcome, asked = driven(Effect(**own), federated(data), least=least)
    return outcome, [part for whole in asked for part in whole.parts]


def test_no_change_counts_propensities_or_asks_one_site_s_estimate():
    _, asked = asked_of(three(patients()), 5, **OWN, refute=True)
    inner = [getattr(own, "question", own) for own in asked]
    effects = [own for own in inner if isinstance(own, EffectSums)]
    assert sum(own.stage.overlap for own in effects if isinstance(own.stage, ArmMeans)) == 1
    assert {own.refutation for own in effects if own.stage.per_part} == {""}
    assert {own.refutation for own in effects} == {"", "placebo", "random-cause", "subset"}
    counted = [own.question for own in asked if isinstance(own, ContributorCounts)]
    assert {type(own.stage) for own in counted} == {Contribution, PerSite, Missing}


def test_the_fold_of_a_row_repeats_itself_and_depends_on_all_values():
    rows = patients()
    (own, blur), *_ = drawn(federated(three(rows)))
    assert (
        fold_numbers(own, (0, 1), blur)
        == fold_numbers(own, (0, 1), CellKeys(own.codes, own.values))
    ).all()
    other = np.array(own.values)
    other[7, 0] = np.nextafter(other[7, 0], np.inf)
    anew = Rows(own.codes, other, own.categories)
    share = (
        fold_numbers(own, (0, 1), blur) == fold_numbers(anew, (0, 1), CellKeys(own.codes, other))
    ).mean()
    assert share == pytest.approx(1.0 / FOLDS, abs=0.06)
    elsewhere = fold_numbers(own, (0, 2), blur) == fold_numbers(own, (0, 1), blur)
    assert elsewhere.mean() == pytest.approx(1.0 / FOLDS, abs=0.06)
    sizes = np.bincount(fold_numbers(own, (0, 1), blur).astype(int))
    assert len(sizes) == FOLDS
    assert stats.chisquare(sizes).pvalue > 1e-4


def test_two_runs_with_other_seeds_open_the_same():
    """Else each run would be another equation in single rows."""
    federation = federated(three(patients()), least=5)
    first, second = (federation.run(Effect(**OWN, refute=True), seed=own) for own in (1, 2))
    assert first.table("refutations").equals(second.table("refutations"))


@st.composite
def small_sites(draw):
    """Rows of a drug, a category, and a number, at one site: few, or enough for its parts."""
    n = draw(st.integers(4, 1200))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    codes = np.column_stack(
        [rng.random(n) < draw(st.floats(0.05, 0.95)), rng.integers(0, 2, n), np.full(n, -1)]
    ).astype(np.int64)
    values = np.column_stack([np.full((n, 2), np.nan), rng.normal(size=n)])
    return codes, values


@settings(max_examples=150, deadline=None)
@given(data=small_sites(), least=st.integers(2, 12), part=st.integers(0, FOLDS - 1))
def test_what_is_told_less_what_is_told_of_a_part_is_of_no_few_rows(data, least, part):
    codes, values = data
    question = EffectSums(
        categories=(2, 2, 0), origins=np.zeros(3).tobytes(), units=np.zeros(3).tobytes(),
        treatment=0, outcome=2, adjust=(1,), estimator="linear",
        stage=ModelSteps((0,), np.zeros(3).tobytes()),
        site_effect=False,  # else the Hessian has deviations in place of rows
    )  # fmt: skip
    blur = CellKeys(codes, values)
    whole, rest = (
        effect_answer(msgspec.structs.replace(question, **own), Rows(codes, values, (2, 2, 0)),
                      min_cell_size=least, blur=blur, device=PROCESSOR)
        for own in ({}, {"refutation": "subset", "fold": part})
    )  # fmt: skip
    if not rest.any():
        return
    assert whole.any(), "a site tells of a change only where it tells of its rows"
    # the Hessian has rows, those of a category, of an arm, and of both
    gone = (whole - rest)[4:10]
    counts = np.array([gone[0], gone[1], gone[2], gone[4]])
    n, sex, drug, both = counts
    cells = np.array([n - sex - drug + both, sex - both, drug - both, both])
    assert (np.isclose(cells, 0.0) | (cells >= least - 1e-9)).all()
    assert n >= 3


def test_parts_are_left_out_where_a_site_has_few_rows_of_one():
    outcome, asked = asked_of(three(patients(300)), 11, treatment="drug", outcome="cost",
                              adjust="age", refute=True)  # fmt: skip
    told = outcome.effects[0].refutations
    assert {own.why for own in told if own.change == "rows left out"} == {
        "0 of 3 sites have enough rows that are changed so"
    }
    opened = [own.question for own in asked if not isinstance(own, ContributorCounts)
              and isinstance(getattr(own, "question", None), EffectSums)]  # fmt: skip
    assert not any(own.refutation == "subset" for own in opened)
    assert any(own.refutation == "placebo" for own in opened)


def test_a_refutation_of_fewer_sites_than_the_effect_is_withheld():
    """Else the sums of all parts, less those of the rows, would be of the site between."""
    data = three(patients(2400), 5)
    few = data["site-0"].head(260)  # enough for the table, too few for every part of it
    share = few["drug"].eq("one") & (np.arange(len(few)) > 60)
    data["site-0"] = few.assign(drug=np.where(share, "none", few["drug"]))
    federation = federated(data, least=11)
    own = {"treatment": "drug", "outcome": "cost", "adjust": "age"}
    for more in ({}, {"withheld": "leave-out"}):
        found = federation.run(Effect(**own, refute=True, **more))
        assert found.finding.sets[0].sites == 5
        parts = changes(found, "rows left out")
        assert {one.why for one in parts} == {"4 of 5 sites have enough rows that are changed so"}
        assert not any(one.contrasts for one in parts)
        assert "a fifth of the rows left out: 4 of 5 sites" in "\n".join(found.lines())


def test_no_change_is_asked_for_where_the_rows_are_not_disclosed():
    rows = patients(300).assign(drug="none")
    rows.iloc[:9, rows.columns.get_loc("drug")] = "one"
    with pytest.raises(DataError, match="min_cell_size"):
        asked_of(three(rows), 11, **OWN, refute=True)


def test_a_table_of_categories_alone_is_changed_by_chance_alone():
    """Given the table of all sites, that of a part is multinomial, whoever the rows are of."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        values = rng.normal(size=(40, 1))  # what makes the digests differ
        codes = np.column_stack([np.arange(40) % 2, np.arange(40) // 20])
        values = np.column_stack([np.full((40, 1), np.nan), values])
        numbers = fold_numbers(Rows(codes, values, (2, 2)), (0, 1), CellKeys(codes, values))
        found.append(np.bincount(codes[numbers == 0] @ [1, 2], minlength=4))
    mean, covariance = np.mean(found, axis=0), np.cov(np.transpose(found))
    chance = 1.0 / FOLDS
    assert mean == pytest.approx([10 * chance] * 4, abs=0.25)
    expected = np.eye(4) * 10 * chance * (1 - chance)
    assert np.abs(covariance - expected).max() < 0.4


def test_refutations_have_their_kind():
    own = Refutation(change="rows left out", left_out="1", contrasts=(one(1.0, 1.0, arm=2),))
    assert contrasts_after([own], "rows left out", 2) == own.contrasts
    assert not contrasts_after([own], "rows left out", 1)
    assert not contrasts_after([own], "placebo treatment", 2)
    assert normal_p_value(one(1.96, 1.0)) == pytest.approx(0.05, abs=1e-4)
    assert normal_p_value(one(1.0, 0.0)) == 1.0


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"fold": 1}, "folds"),
        ({"refutation": "subset", "fold": FOLDS}, "folds"),
        ({"refutation": "random-cause"}, "random cause"),
        ({"refutation": "placebo", "stage": {"type": "per-site"}}, "as they are"),
        ({"refutation": "half"}, "half"),
    ],
)
def test_a_change_that_cannot_be_is_none(own, said):
    sound = {
        "categories": (2, 2, 0), "origins": np.zeros(3).tobytes(), "units": np.zeros(3).tobytes(),
        "treatment": 0, "outcome": 2, "adjust": (1,),
    }  # fmt: skip
    EffectSums(**sound)
    with pytest.raises(ValueError, match=said):
        msgspec.convert(sound | own, EffectSums)
