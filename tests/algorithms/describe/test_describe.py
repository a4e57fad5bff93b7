"""Describe over sites is pandas over all their rows, as far as small counts allow."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from driving import plain_sum
from msgspec import structs
from simulating import driven, federated, views_of

from cipherdag import Describe, Federation, Policy, Schema
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.describe.algorithm import remarks
from cipherdag.algorithms.describe.summaries import (
    TICKS,
    Spreads,
    exact_summaries,
    marks_about,
    quantiles_of,
)
from cipherdag.errors import AggregateRangeError, PolicyRefusedError, SiteUnreachableError
from cipherdag.findings.description import QUANTILES, ColumnSummary, Description
from cipherdag.questions.descriptions import ColumnSums, ValueCounts
from cipherdag.questions.encodings import pack_integers, segments
from cipherdag.questions.estimation.rounded_totals import RoundedTotals
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.threshold import Suppressed
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import QUESTION_KINDS

STAGES = ["I", "II", "III", "IV"]


def clinic(n, seed):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "age": rng.normal(60.0, 10.0, n).round(),
            "crp": rng.lognormal(1.0, 0.8, n),
            "year": rng.uniform(0.0, 1.0, n) * 1e-6 + 2020.0,
            "sex": rng.choice(["f", "m"], n),
            "stage": rng.choice(STAGES, n, p=[0.55, 0.3, 0.1, 0.05]),
        }
    )
    rows.loc[rng.random(n) < 0.1, "crp"] = np.nan
    rows.loc[rng.random(n) < 0.4, "stage"] = None
    return rows


CLINICS = {"north": clinic(400, 1), "south": clinic(900, 2), "west": clinic(260, 3)}


def loose(schema):
    """The schema that lets any column be constant, and leaves none out."""
    return Schema(
        tuple(
            replace(own, kind=own.kind.replace("ignore", "continuous"), allow_constant=True)
            for own in schema.columns
        )
    )


def described(data, *, least=0, schema=None):
    schema = schema or infer_schema(list(data.values()))
    return federated(data, least, schema=schema).run(Describe())


def test_without_restrictions_it_is_pandas_over_all_rows():
    found, whole = described(CLINICS), pd.concat(CLINICS.values())
    assert found.finding.rows == len(whole)
    table = found.table("columns").set_index("column")
    for name in ("age", "crp", "year"):
        own = table.loc[name]
        assert (own["values"], own["missing"]) == (whole[name].count(), whole[name].isna().sum())
        assert own["mean"] == pytest.approx(whole[name].mean(), rel=1e-14)
        assert own["sd"] == pytest.approx(whole[name].std(), rel=1e-6 if name == "year" else 1e-12)
    shares = found.table("categories").set_index(["column", "category"])
    for name in ("sex", "stage"):
        for category, share in whole[name].value_counts(normalize=True).items():
            assert shares.loc[name, category]["share"] == share
            assert shares.loc[name, category]["share_at_most"] == share
    assert (table["values"] == table["values_at_most"]).all()
    assert (table["missing"] == table["missing_at_most"]).all()


@pytest.mark.parametrize("least", [0, 11])
def test_quantiles_lie_within_the_marks_about_the_true_ones(least):
    found, whole = described(CLINICS, least=least), pd.concat(CLINICS.values())
    for name in ("age", "crp"):
        own = found.finding.columns[name]
        (marks,) = marks_about(np.array([own.mean]), np.array([own.deviation]))
        values = np.sort(whole[name].dropna())
        slack = 1.5 * (least or 1) / len(values)  # a multiple of 11 is reached, and n is a range
        for share, quantile in zip(QUANTILES, own.quantiles, strict=True):
            ends = np.clip([share - slack, share + slack], 0.0, 1.0)
            low, high = np.quantile(values, ends)
            below = marks[marks < low].max(initial=-np.inf)
            assert below <= quantile <= marks[marks >= high].min(initial=np.inf)


def test_counts_are_ranges_and_means_near_where_small_counts_stay():
    found, whole = described(CLINICS, least=11), pd.concat(CLINICS.values())
    table = found.table("columns").set_index("column")
    assert table.loc["age", "mean"] == pytest.approx(whole["age"].mean(), rel=1e-3)
    assert table.loc["crp", "mean"] == pytest.approx(whole["crp"].mean(), rel=0.01)
    assert table.loc["crp", "sd"] == pytest.approx(whole["crp"].std(), rel=0.01)
    assert found.finding.rounded_to == 11
    assert found.finding.rows <= len(whole) <= found.finding.rows + 10
    for name, count in whole.count().items():
        least, most = table.loc[name, ["values", "values_at_most"]]
        assert most - 10 == least <= count <= most
        least, most = table.loc[name, ["missing", "missing_at_most"]]
        assert least <= len(whole) - count <= most <= least + 20
    counts = found.table("categories").set_index(["column", "category"])
    for name in ("sex", "stage"):
        for category, rows in whole[name].value_counts().items():
            least, most, low, high = counts.loc[(name, category)]
            assert least <= rows <= most <= least + (20 if name == "sex" else 10)
            assert low <= rows / whole[name].count() <= high


def opened(data, schema):
    """Kinds and marks that the coordinator opens, and the columns by name."""
    federation = federated(data, schema=schema)
    answers = views_of(federation, 11)
    outcome, asked = driven(Describe(), federation, least=11)
    (columns,) = (
        own for own in asked if isinstance(own, Suppressed) and isinstance(own.question, Columns)
    )
    sums = segments(columns.encodings, plain_sum(columns, answers))
    return dict(zip(schema.names, outcome.summaries.columns, strict=True)), sums, answers


def test_no_mark_is_of_a_column_that_one_site_alone_has():
    data = {name: own.assign(lab=np.nan, dose=0.0) for name, own in CLINICS.items()}
    rng = np.random.default_rng(1)
    schema = loose(
        infer_schema([own.assign(lab=own["age"], dose=own["age"]) for own in [*data.values()]])
    )
    data["west"]["lab"] = rng.normal(1234.5, 3.0, 260)
    data["west"].loc[5:40, "dose"] = rng.lognormal(1.0, 1.0, 36)
    columns, (_, _, place, *marks, _), _ = opened(data, schema)
    for name in ("lab", "dose"):
        v = schema.names.index(name)
        assert place[v] == 0.0
        assert [own[v] for own in marks] == [0.0] * 4
    assert columns["lab"].n_rows is None
    assert place[schema.names.index("age")] > 0.0


def test_one_complete_row_of_a_site_is_in_no_mark():
    data = {name: own.assign(lab=own["age"] / 10.0) for name, own in CLINICS.items()}
    data["west"]["lab"] = np.nan
    data["west"].loc[100, ["lab", "crp", "stage"]] = [7.77, 3.3, "I"]
    schema = loose(infer_schema([own.assign(lab=own["age"]) for own in data.values()]))
    _, _, answers = opened(data, schema)
    columns = Columns(n_variables=len(schema.names))
    third = plain_sum(columns, answers) - sum(own.answer(columns) for own in answers[:2])
    header, _, place, *_ = segments(columns.encodings, third)
    assert header.tolist() == [1, 0]
    assert place[schema.names.index("lab")] == 0.0


def told_of(values, schema=None):
    """The column as sites of these values tell of it."""
    rng = np.random.default_rng(3)
    data = {
        f"s{k}": pd.DataFrame({"x": own, "other": rng.normal(size=len(own))})
        for k, own in enumerate(values)
    }
    schema = loose(infer_schema([own.assign(x=own["other"]) for own in data.values()]))
    found = described(data, schema=schema, least=11)
    return found.finding.columns["x"], [
        said for name, said in remarks(found.finding) if name == "x"
    ]


def test_a_patient_who_differs_from_all_others_moves_no_sum():
    zeros = [np.zeros(n) for n in (400, 900, 260)]
    column, _ = told_of(zeros)
    zeros[2][17] = 37.25
    found, said = told_of(zeros)
    assert (found.mean, found.deviation, found.drawn) == (0.0, 0.0, True)
    assert structs.replace(found, drawn=False) == column
    assert "drawn in" in found.line
    assert not any("typing" in own for own in said)  # others are the same, not near


@pytest.mark.parametrize("largest", [9e5, 9_876_543.0, 1e15])
def test_a_patient_s_cost_does_not_follow_from_mean_and_deviation(largest):
    rng = np.random.default_rng(3)
    costs = [rng.lognormal(8.0, 0.5, n) for n in (400, 900, 260)]
    whole = np.concatenate(costs)
    costs[2][3] = largest
    found, said = told_of(costs)
    n = found.n_rows
    assert found.mean + found.deviation * (n - 1) / np.sqrt(n) < 0.5 * largest
    assert found.deviation == pytest.approx(whole.std(), rel=0.05)
    assert found.drawn
    assert not found.beyond
    assert found.far == any("typing errors" in own for own in said)
    assert found.far


def test_a_column_that_few_rows_do_not_dominate_stays_as_it_is():
    rng = np.random.default_rng(3)
    values = [rng.lognormal(1.0, 0.8, n) for n in (400, 900, 260)]
    found, _ = told_of(values)
    assert not found.drawn
    assert found.deviation == pytest.approx(np.concatenate(values).std(ddof=1), rel=1e-12)


def test_a_site_too_large_to_add_is_in_no_mean():
    rng = np.random.default_rng(3)
    values = [rng.normal(100.0, 5.0, n) for n in (400, 900, 260, 317)]
    values[3][:20] = 1e15
    found, said = told_of(values)
    assert found.beyond
    assert found.values_between[0] <= 1877 <= found.values_between[1]
    assert found.mean == pytest.approx(np.concatenate(values[:3]).mean(), rel=1e-12)
    expected = np.quantile(np.concatenate(values), QUANTILES)
    np.testing.assert_allclose(found.quantiles, expected, atol=1.75)
    assert any("typing error, or another unit?" in own for own in said)


@pytest.mark.parametrize("seed", range(6))
def test_the_true_share_lies_between_the_two(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(61.0, 11.0, 1500).round(),
            "crp": np.where(rng.random(1500) < 0.1, np.nan, rng.lognormal(1.0, 0.8, 1500)),
            "stage": rng.choice(STAGES, 1500, p=[0.6, 0.3, 0.09, 0.01]),
        }
    )
    found = described({f"s{k}": table[k::3] for k in range(3)}, least=11)
    truth = table["stage"].value_counts(normalize=True)
    assert len(found.table("categories")) == 4
    for own in found.table("categories").itertuples():
        assert own.share - 1e-12 <= truth[own.category] <= own.share_at_most + 1e-12


def _at_three(values):
    return {name: pd.DataFrame({"x": values[k::3]}) for k, name in enumerate("abc")}


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("sigma", [1.0, 2.0, 2.5])
def test_quartiles_of_skewed_numbers_are_told_to_a_tenth(sigma, sign):
    own = sign * np.random.default_rng(0).lognormal(0.0, sigma, 3000)
    (found,) = described(_at_three(own)).finding.columns.values()
    right = np.quantile(own, [0.25, 0.5, 0.75])
    assert np.allclose(found.quantiles[1:4], right, rtol=0.12)
    assert (np.array(found.quantiles) * sign > 0.0).all()


def test_quartiles_of_numbers_many_of_which_are_zero():
    rng = np.random.default_rng(0)
    own = np.where(rng.random(3000) < 0.4, 0.0, rng.exponential(3.0, 3000))
    (found,) = described(_at_three(own)).finding.columns.values()
    assert found.quantiles[:2] == (0.0, 0.0)
    assert np.allclose(found.quantiles[2:4], np.quantile(own, [0.5, 0.75]), rtol=0.12)


def test_marks_do_not_move_with_a_few_rows():
    rng = np.random.default_rng(0)
    mean, deviation = rng.normal(60.0, 9.0, 500), rng.uniform(1.0, 30.0, 500)
    before = marks_about(mean, deviation)
    after = marks_about(mean + 1e-4 * deviation, deviation * (1.0 + 1e-4))
    apart = np.abs(after - before)
    # they stay where they are, or move by a part of a deviation that holds many rows
    moved = apart > 1e-9
    assert moved.any(axis=1).mean() < 0.02
    assert (np.abs(before - mean[:, None]).min(axis=1) <= deviation / 6.0).all()
    assert (np.diff(before, axis=1) >= 0.0).all()


def test_a_column_that_too_few_sites_have_is_not_told_of():
    data = {name: own.copy() for name, own in CLINICS.items()}
    data["north"]["crp"] = np.nan
    schema = loose(infer_schema(list(CLINICS.values())))
    found = described(data, schema=schema)
    assert found.finding.columns["crp"].n_rows is None
    assert np.isnan(found.table("columns").set_index("column").loc["crp", "mean"])
    assert ("crp", "withheld: too few sites have enough values") in remarks(found.finding)
    assert found.finding.columns["age"].n_rows == found.finding.rows


def test_sites_that_leave_end_it_by_name():
    facts, sites = Facts(5, 3), views_of(federated(CLINICS))
    asking = Describe().ask(facts)
    question = asking.send(None)
    facts.present.n_sites = 2
    with pytest.raises(SiteUnreachableError, match="a site left"):
        asking.send(plain_sum(question, sites[:2]))


def test_a_site_whose_policy_does_not_allow_the_questions_refuses():
    with pytest.raises(PolicyRefusedError, match="column-sums"):
        Federation.simulate(
            CLINICS, policy=Policy(questions=QUESTION_KINDS - {"column-sums"}), device="cpu"
        ).run(Describe())


# what is odd is said


def odd(**columns):
    """What is said of columns that every site has alike, in random rows."""
    rng = np.random.default_rng(5)
    n = len(next(iter(columns.values())))
    rows = pd.DataFrame(columns | {"other": rng.normal(size=n)}).sample(
        frac=1.0, random_state=1, ignore_index=True
    )
    schema = loose(infer_schema(rows))
    data = {f"s{k}": rows[k::3] for k in range(3)}
    return [
        said for name, said in remarks(described(data, schema=schema).finding) if name != "other"
    ]


def test_plain_columns_have_nothing_odd():
    rng = np.random.default_rng(2)
    assert odd(age=rng.normal(50, 9, 900), sex=rng.choice(["f", "m"], 900)) == []


def test_a_nearly_empty_column_is_named():
    values = np.where(np.arange(900) < 27, np.arange(900.0), np.nan)
    (said, *_) = odd(lab=values)
    assert said == "nearly empty: 3.0% of the rows tell a value"


def test_a_column_of_which_most_is_missing_is_named():
    rng = np.random.default_rng(2)
    assert odd(lab=np.where(np.arange(900) < 360, rng.normal(size=900), np.nan)) == [
        "only 40% of the rows tell a value"
    ]


@pytest.mark.parametrize("value", [0.0, 36.6, 1e-30, -3e20])
def test_a_constant_column_is_named(value):
    assert "one value only, or values too near each other beside their size" in odd(
        device=np.full(900, value)
    )


def test_a_unit_that_some_rows_have_and_a_code_are_pointed_out():
    rng = np.random.default_rng(2)
    weight = rng.normal(75.0, 10.0, 900)
    said = odd(weight=np.where(np.arange(900) < 20, weight * 1000.0, weight))
    assert any("some lie far off" in own for own in said)
    coded = np.where(np.arange(900) < 60, -999.0, weight)
    assert any("again and again" in own for own in odd(weight=coded))


def test_rare_and_unused_categories_are_pointed_out():
    stages = np.repeat(["I", "II", "III"], [600, 295, 5])
    assert odd(stage=stages) == ["1 of its 3 categories have less than 1% of the rows"]


def test_a_category_is_said_never_to_occur_only_where_that_is_known():
    def said(unit):
        own = ColumnSummary(categories=3, n_rows=2000, counts=(900, 1100, 0), rounded_to=unit)
        return " ".join(text for _, text in remarks(Description(rows=2000, columns={"x": own})))

    assert said(1) == "1 of its 3 categories never occur"
    assert said(10) == "1 of its 3 categories have less than 1% of the rows"


def test_a_typing_error_does_not_end_the_run():
    rng = np.random.default_rng(2)
    values = rng.normal(size=900)
    values[4] = 1e15
    assert any("typing error" in own for own in odd(lab=values))


def test_a_site_that_differs_is_noticed_but_not_named():
    data = {name: own.copy() for name, own in CLINICS.items()}
    data["south"]["age"] += 8.0
    found = described(data, least=11)
    said = dict(remarks(found.finding))
    assert said["age"].startswith("distributed differently at the sites")
    assert not any(name in said["age"] for name in CLINICS)


def test_what_is_said_ends_in_one_mark_and_missing_is_a_range():
    coded = CLINICS["west"].assign(
        age=np.where(np.arange(260) < 20, -999.0, CLINICS["west"]["age"])
    )
    data = CLINICS | {"west": coded, "south": CLINICS["south"].assign(crp=1.0 + np.arange(900.0))}
    data["south"].loc[:3, "crp"] = np.nan
    lines = described(data, least=11).lines()
    text = "\n".join(lines)
    assert "a missing value?" in text
    assert "?." not in text
    assert "1,551 to 1,561 rows of 3 sites together:" in text
    assert re.search(r"\d+ to \d+ missing", text)


@pytest.mark.parametrize("seed", range(3))
def test_clean_numbers_of_small_sites_have_no_typing_errors(seed):
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.normal(60.0, 10.0, 450).round(),
        "weight": rng.normal(80.0, 14.0, 450),
        "crp": rng.lognormal(1.0, 0.8, 450),
        "days": rng.exponential(4.0, 450).round(),
        "score": rng.uniform(0.0, 100.0, 450),
    }
    rows = pd.DataFrame(columns)
    schema = loose(infer_schema(rows))
    found = described({f"s{k}": rows[k::5] for k in range(5)}, schema=schema, least=11)
    assert any(own.drawn for own in found.finding.columns.values())
    assert not any("typing" in said for _, said in remarks(found.finding))
    rows.loc[rows.index[7], "age"] = 610.0
    found = described({f"s{k}": rows[k::5] for k in range(5)}, schema=schema, least=11)
    assert [name for name, said in remarks(found.finding) if "typing" in said] == ["age"]


def test_one_cause_in_several_columns_is_one_line():
    data = {name: own[["age", "crp", "year"]].fillna(2.0) for name, own in CLINICS.items()}
    data["south"].loc[7] = [6100.0, 900.0, 999999.0]
    found = described(data, schema=loose(infer_schema(list(data.values()))), least=11)
    lines = [line for line in found.lines() if "ten times as far" in line]
    assert len(lines) == 1
    assert lines[0].startswith("  age, crp, year: ")


def test_shares_that_units_bound_leave_each_other_room():
    for sides in (2, 3, 5):
        counts = tuple(range(30, 30 + 10 * sides, 10))
        summary = ColumnSummary(
            categories=sides, n_rows=sum(counts), rounded_to=10, counts=counts, missing=0
        )
        lows, highs = zip(*summary.shares, strict=True)
        for low, high in summary.shares:
            assert high <= 1.0 - (sum(lows) - low) + 1e-12
            assert low >= 1.0 - (sum(highs) - high) - 1e-12
        # every count that the units allow is within
        rng = np.random.default_rng(sides)
        for _ in range(200):
            rows = np.array([rng.integers(low, high + 1) for low, high in summary.ranges])
            if summary.values_between[0] <= rows.sum() <= summary.values_between[1]:
                share = rows / rows.sum()
                assert (share >= np.array(lows) - 1e-12).all()
                assert (share <= np.array(highs) + 1e-12).all()


@pytest.mark.parametrize("unit", [2, 11])
def test_quartiles_from_units_are_near_those_from_counts(unit):
    """Off by no more than 1.5 units of rows, beside what the marks are apart."""
    rng = np.random.default_rng(unit)
    rows = pd.DataFrame(
        {
            "age": rng.normal(61.0, 11.0, 1500),
            "crp": rng.lognormal(0.0, 2.5, 1500),
            "wait": np.where(rng.random(1500) < 0.4, 0.0, rng.exponential(3.0, 1500)),
        }
    )
    data = {f"s{k}": rows[k::3] for k in range(3)}
    exact, rounded = (described(data, least=least).finding.columns for least in (0, unit))
    for name, values in rows.items():
        for share, one, other in zip(
            QUANTILES[1:4], exact[name].quantiles[1:4], rounded[name].quantiles[1:4], strict=True
        ):
            low, high = np.quantile(values, [share - 1.5 * unit / 1500, share + 1.5 * unit / 1500])
            grid = 0.05 * exact[name].deviation if name == "age" else 0.12 * abs(one)
            assert low - grid <= other <= high + grid


def test_no_quantile_is_near_the_largest_or_smallest_value():
    """Nobody learns where a value lies beyond which there are fewer than a unit less one."""
    rng = np.random.default_rng(4)
    for n in (66, 77, 220):
        rows = pd.DataFrame({"x": np.sort(rng.normal(size=n)), "y": rng.normal(size=n)})
        data = {f"s{k}": rows[k::3] for k in range(3)}
        federation = federated(data, schema=infer_schema(rows))
        outcome, asked = driven(Describe(), federation, least=11)
        for one in asked:
            if isinstance(one, RoundedTotals) and one.question.marks:
                units = one.unit_array().ravel() + 1
                assert units.min() >= 1
                assert 11 * units.max() <= n - 11
        quantiles = outcome.summaries.columns[0].quantiles
        assert (quantiles[-1] is None) == (n < 220)
        assert None not in quantiles[1:4]


def test_rounds_and_comparisons_stay_few():
    exact, rounded = (described(CLINICS, least=least) for least in (0, 11))
    assert len(exact.rounds) == 6
    assert len(rounded.rounds) <= 11
    compared = [report["values"] for report in rounded.to_dict()["round_reports"]]
    assert sum(compared[-3:]) == 300 * 3  # for quantiles of three columns of numbers


# the arithmetic


def test_quantiles_between_marks_are_interpolated_uniformly():
    marks, up_to = np.array([0.0, 8.0, 16.0]), np.array([10.0, 60.0, 100.0])
    assert quantiles_of(marks, up_to, 100.0, (0.1, 0.35, 0.6, 0.8, 1.0)) == (
        None, 4.0, 8.0, 12.0, 16.0,
    )  # fmt: skip
    assert quantiles_of(marks, up_to, 100.0, (0.36,)) == (4.0,)  # 4.16, but not known so well
    assert quantiles_of(marks, np.array([0.0, 0.0, 40.0]), 100.0, (0.5,)) == (None,)
    assert quantiles_of(np.full(3, 7.0), np.full(3, 9.0), 9.0, (0.5,)) == (7.0,)
    assert quantiles_of(marks, np.zeros(3), 0.0, (0.5,)) == (None,)


def questions(categories):
    numbers = categories.count(0)
    units = pack_integers(np.zeros(numbers, dtype=np.int64))
    sums = ColumnSums(categories=categories, origins=bytes(8 * numbers), units=units)
    marks = np.tile(TICKS, (numbers, 1)).astype("<f8").tobytes()
    scales = {"origins": sums.origins, "units": sums.units}
    return sums, ValueCounts(categories=categories, marks=marks, **scales)


@pytest.mark.parametrize(
    ("first", "second", "used", "message"),
    [(0.0, 90.0, 101.0, "more values than rows"), (50.0, 10.0, 100.0, "less spread")],
)
def test_sums_that_no_rows_have_are_refused(first, second, used, message):
    sums, _ = questions((0,))
    with pytest.raises(AggregateRangeError, match=message):
        Spreads.of(sums, np.array([100.0, first, second, *[0.0] * 3, used]))


def test_counts_that_no_rows_have_are_refused():
    sums, counts = questions((2, 0))
    spreads = Spreads.of(sums, np.array([100.0, 0.0, 90.0, *[0.0] * 6, 100.0, 100.0]))
    even = np.linspace(0.0, 100.0, len(TICKS))
    fine = np.concatenate([[40.0, 60.0], even, [100.0, 100.0]])
    assert exact_summaries(spreads, counts, fine).columns[0].counts == (40, 60)
    with pytest.raises(AggregateRangeError, match="too many"):
        exact_summaries(spreads, counts, np.concatenate([[41.0, 60.0], fine[2:]]))
    with pytest.raises(AggregateRangeError, match="falling"):
        exact_summaries(spreads, counts, np.concatenate([fine[:2], even[::-1], fine[-2:]]))


def test_a_column_of_categories_that_few_rows_have_is_withheld():
    rows = pd.DataFrame({"drug": list("AB") * 22, "age": np.arange(44.0) / 2.0})
    found = Federation.split(rows, 3).run(Describe()).finding
    assert found.columns["drug"].categories == 2
    assert found.columns["drug"].n_rows is None
    assert "withheld" in "\n".join(found.lines(3))
