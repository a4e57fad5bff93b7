"""Columns that determine one another, rows that are no sample, and what every run says of them.

In the spirit of reports to other projects; the data are drawn here.
"""

import logging
import socket
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from cipherdag import Effect, FedBOSS, Federation, FedFCI, FedPC, LearntGraph, Policy, Run, Schema
from cipherdag.errors import BoundExceededError
from cipherdag.sites.drafts.inference import infer_schema
from cipherdag.sites.policy.policy import QUESTION_KINDS

ALLOW = Policy(min_cell_size=0, questions=QUESTION_KINDS)
TESTED = {
    "default": FedPC(),
    "glm": FedPC(evidence="glm"),
    "verdicts": FedPC(reveal="bits"),
    "fci": FedFCI(),
}
OF_NUMBERS = TESTED | {
    "pooled": FedPC(evidence="pooled"),
    "vote": FedPC(evidence="vote"),
    "fisher": FedPC(evidence="fisher"),
    "weighted": FedPC(evidence="weighted_p"),
}


def over(rows, policy=ALLOW, schema=None):
    return Federation.split(rows, 3, seed=1, policy=policy, schema=schema, device="cpu")


def learnt(rows, algorithm):
    return over(rows).run(algorithm, seed=0)


def pairs(result):
    return {frozenset((own.source, own.target)) for own in result.finding.graph.edges}


def statuses(result):
    return {
        frozenset((own.source, own.target)): own.status for own in result.finding.evidence.edges
    }


def joined(*names):
    return {frozenset(name.split("-")) for name in names}


def threshold(n=1500):
    rng = np.random.default_rng(4)
    age = rng.uniform(5, 40, n)
    income = np.where(age >= 18, 10.0, 0.0) + 5.0 * rng.normal(size=n)
    return pd.DataFrame({"age": age, "adult": np.where(age >= 18, "yes", "no"), "income": income})


# py-why/causal-learn#155, #29, cmu-phil/tetrad#317: no cause is lost given what determines it


@pytest.mark.parametrize("own", TESTED.values(), ids=TESTED)
def test_a_category_cut_from_a_number_keeps_its_effect(own):
    result = learnt(threshold(), own)
    assert pairs(result) == joined("age-adult", "adult-income")
    assert statuses(result)[frozenset(("adult", "income"))] == "undone"
    (edge,) = (
        own for own in result.finding.evidence.edges if {own.source, own.target} >= {"income"}
    )
    assert edge.p_value is None
    assert "follows from what is given" in edge.tests.why
    assert "'adult' follows from 'age'" in result.report.warnings[0]


@pytest.mark.parametrize("own", OF_NUMBERS.values(), ids=OF_NUMBERS)
@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_a_copy_keeps_all_edges_without_direction(own, noise):
    rng = np.random.default_rng(0)
    x, e, z = rng.normal(size=(3, 1500))
    rows = pd.DataFrame({"X": x, "Xcopy": 2.54 * x + noise * z, "Y": x + e, "Z": z})
    result = learnt(rows, own)
    assert pairs(result) == joined("X-Xcopy", "X-Y", "Xcopy-Y")
    assert not any(edge.mark == "-->" for edge in result.finding.graph.edges)
    assert "'X' and 'Xcopy' are one variable" in result.report.warnings[0]


@pytest.mark.parametrize("own", TESTED.values(), ids=TESTED)
def test_a_code_and_its_name_keep_both_causes(own):
    rng, n = np.random.default_rng(1), 3000
    g = rng.integers(0, 4, n)
    drug = np.where(rng.random(n) < 0.5, g % 2, rng.integers(0, 2, n))
    stay = np.where(rng.random(n) < 0.5, g // 2, rng.integers(0, 2, n))
    rows = pd.DataFrame(
        {
            "code": np.array(["I10", "I20", "J45", "N18"])[g],
            "name": np.array(["hyp", "ang", "ast", "ckd"])[g],
            "drug": np.array(["no", "yes"])[drug],
            "stay": np.array(["short", "long"])[stay],
        }
    )
    result = learnt(rows, own)
    wanted = joined("code-name", "code-drug", "name-drug", "code-stay", "name-stay")
    assert pairs(result) == wanted
    assert {statuses(result)[own] for own in wanted} == {"tested", "undone"}


# cmu-phil/tetrad#1703: all one-hot columns of a category


@pytest.mark.parametrize("own", [FedPC(), FedFCI(), FedPC(reveal="bits")])
def test_one_hot_columns_are_named_and_have_no_direction(own):
    rng, n = np.random.default_rng(0), 1500
    g = rng.integers(0, 4, n)
    rows = pd.DataFrame({f"type_{c}": (g == k).astype(float) for k, c in enumerate("ABCD")})
    rows["u"] = 0.6 * g + rng.normal(size=n)
    result = learnt(rows, own)
    hot = [f"type_{c}" for c in "ABCD"]
    assert joined(*(f"{a}-{b}" for a in hot for b in hot if a < b)) <= pairs(result)
    assert {edge.mark for edge in result.finding.graph.edges} <= {"---", "o-o"}
    assert "'type_D' one is set in every row" in result.report.warnings[0]


def test_a_category_beside_its_dummies_is_named():
    rng, n = np.random.default_rng(3), 900
    g = rng.integers(0, 3, n)
    rows = pd.DataFrame({"group": np.array(list("abc"))[g], "x": rng.normal(size=n)})
    rows["is_a"], rows["is_b"] = np.where(g == 0, "y", "n"), (g == 1).astype(int)
    assert (
        "'group' is what 'is_a' and 'is_b' are together" in learnt(rows, FedPC()).report.warnings[0]
    )


@pytest.mark.parametrize("own", OF_NUMBERS.values(), ids=OF_NUMBERS)
def test_a_total_is_the_effect_of_its_parts(own):
    rng, n = np.random.default_rng(0), 1500
    a, b, c, e = rng.normal(size=(4, n))
    rows = pd.DataFrame({"a": a, "b": b, "c": c, "total": a + b + c, "y": a + e})
    result = learnt(rows, own)
    assert pairs(result) == joined("a-total", "b-total", "c-total", "a-y")
    assert "'total' is constant" in result.report.warnings[0]


@pytest.mark.parametrize("rounded", [False, True])
def test_a_body_mass_index_is_known_for_what_it_is(rounded):
    rng, n = np.random.default_rng(1), 3000
    height = rng.normal(1.7, 0.09, n).round(2)
    weight = (25 * height**2 + rng.normal(0, 9, n)).round(1)
    index = weight / height**2
    rows = pd.DataFrame(
        {
            "height": height,
            "weight": weight,
            "bmi": index.round(1) if rounded else index,
            "knee": 0.08 * weight + rng.normal(size=n),
        }
    )
    (relation,) = infer_schema(rows).relations
    assert relation.form == "product"
    assert {*relation.columns} == {"bmi", "height", "weight"}
    assert frozenset(("weight", "knee")) in pairs(learnt(rows, FedPC()))


@pytest.mark.parametrize("own", [FedBOSS(), FedBOSS(within_sites=False)])
def test_scores_say_it_first_and_give_no_direction_to_copies(own):
    rng = np.random.default_rng(0)
    x, e, z = rng.normal(size=(3, 1500))
    result = learnt(pd.DataFrame({"X": x, "copy": x, "Y": x + e, "W": x + e + z}), own)
    assert "one variable" in result.report.warnings[0]
    for edge in result.finding.graph.edges:
        assert edge.mark == "---" or not {edge.source, edge.target} & {"X", "copy"}


def test_what_determines_the_treatment_makes_an_effect_a_guess():
    rng, n = np.random.default_rng(8), 3000
    z = rng.normal(size=n)
    rows = pd.DataFrame({"x": z, "t": np.where(z > 0, "yes", "no"), "y": z + rng.normal(size=n)})
    own = Effect(treatment="t", outcome="y", adjust="x", estimator="regression")
    assert any("a guess of the model" in said for said in learnt(rows, own).report.warnings)


def test_columns_that_are_merely_dependent_are_related_by_nothing():
    rng, n = np.random.default_rng(5), 2000
    x = rng.normal(size=n)
    rows = pd.DataFrame(
        {
            "x": x,
            "near": x + 0.01 * rng.normal(size=n),
            "rare": np.where(rng.random(n) < 0.003, "yes", "no"),
            "rarer": np.where(rng.random(n) < 0.002, "yes", "no"),
            "high": np.where(x + 0.3 * rng.logistic(size=n) > 0, "yes", "no"),
            "whole": rng.poisson(3.0, n),
        }
    )
    assert infer_schema(rows).relations == ()
    result = learnt(rows, FedPC())
    assert not any("determine one another" in said for said in result.report.warnings)


def test_a_relation_travels_through_schema_and_result(tmp_path):
    schema = infer_schema(threshold())
    text = schema.dumps()
    assert "LOOK: 'adult' follows from 'age'" in text.replace("\n# ", " ")
    again = Schema.loads(text)
    assert again == schema
    assert again.canonical() == schema.canonical()
    assert again.canonical() != Schema(schema.columns).canonical()
    result = over(threshold(), schema=again).run(FedPC(), seed=0)
    loaded = Run.load(result.save(tmp_path / "out"), LearntGraph)
    assert loaded.report.warnings == result.report.warnings
    assert loaded.relations == result.relations == schema.relations


# rows that are no sample of independent ones


def look(rows, caplog):
    with caplog.at_level(logging.WARNING, logger="cipherdag.data"):
        caplog.clear()
        over(rows)
    return caplog.text, infer_schema(rows).dumps()


def series(n=800):
    e = np.random.default_rng(0).normal(size=(n, 4))
    for t in range(1, n):
        e[t] += 0.9 * e[t - 1]
    return pd.DataFrame(e, columns=list("abcd"))


def test_a_time_series_is_pointed_out_before_a_run(caplog):
    for text in look(series(), caplog):
        assert "as in a time series" in text.replace("\n# ", " ")
    for text in look(series().sample(frac=1.0, random_state=0), caplog):
        assert "as in a time series" not in text.replace("\n# ", " ")
    whole = series().assign(day=np.arange(800.0) / 24.0)
    assert "as in a time series" in look(whole, caplog)[0]


@pytest.mark.parametrize("by", ["x", "g"])
def test_a_sorted_file_is_no_time_series(by, caplog):
    rng, n = np.random.default_rng(0), 1000
    x = rng.normal(size=n)
    rows = pd.DataFrame({"x": x, "y": x + rng.normal(size=n), "g": np.where(x > 1, "a", "b")})
    assert "as in a time series" not in look(rows.sort_values(by), caplog)[0]


def test_copied_rows_are_pointed_out(caplog):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("xyz"))
    coins = pd.DataFrame(rng.choice(["a", "b"], (300, 3)), columns=list("xyz"))
    assert "several times" in look(pd.concat([rows] * 3), caplog)[0]
    assert "several times" in look(pd.concat([rows, rows[:60]]), caplog)[1]
    assert "several times" not in look(rows, caplog)[0]
    assert "several times" not in look(coins, caplog)[0]
    logged, drafted = look(pd.concat([rows, rows[:4]]), caplog)
    assert "4 of 304 rows repeat another" in logged
    assert "several times" in drafted
    assert "304" not in drafted  # a draft may leave


@pytest.mark.parametrize("own", [FedBOSS(), FedPC(), FedFCI()])
def test_more_columns_than_rows_are_the_first_thing_said(own, caplog):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(40, 50)), columns=[f"v{k}" for k in range(50)])
    assert "more columns than rows" in look(rows, caplog)[0].lower()
    result = learnt(rows, own)
    assert "more columns than rows: 40 rows" in result.report.warnings[0]
    if isinstance(own, FedBOSS):
        assert all(
            edge.effect is None or edge.effect.low is None for edge in result.finding.evidence.edges
        )


# one number far from all others


@pytest.mark.parametrize(
    "own", [FedBOSS(), FedPC(evidence="pooled"), Effect(treatment="t", outcome="y", adjust="x")]
)
def test_a_number_that_ends_a_run_is_named_with_a_remedy_that_works(own):
    rng, n = np.random.default_rng(0), 600
    x = rng.normal(size=n)
    rows = pd.DataFrame({"x": x, "y": x + rng.normal(size=n), "z": rng.normal(size=n)})
    if isinstance(own, Effect):
        rows["t"] = rng.choice(["no", "yes"], n)
    rows.loc[3, "y"] = 1e9
    policy = Policy(questions=QUESTION_KINDS)
    with pytest.raises(BoundExceededError, match="column 'y'") as raised:
        over(rows, policy).run(own, seed=0)
    assert "missing of 'y'" in raised.value.remedy
    text = infer_schema(rows).dumps()
    told = text.replace(
        '[columns.y]\nkind = "continuous"', '[columns.y]\nkind = "continuous"\nmissing = [1e9]'
    )
    over(rows, policy, Schema.loads(told)).run(own, seed=0)


# signs and sizes


@pytest.mark.parametrize(("words", "sign"), [(["lo", "hi"], "negative"), (["0", "1"], "positive")])
def test_a_sign_says_of_which_category_it_is(words, sign, tmp_path):
    rng, n = np.random.default_rng(0), 3000
    x = rng.normal(size=n)
    flag = (x + rng.logistic(size=n) > 0).astype(int)
    result = learnt(pd.DataFrame({"x": x, "flag": np.array(words)[flag]}), FedPC(reveal="sums"))
    low, high = sorted(words)
    said = f"flag = {high} (against {low})"
    (row,) = result.table("edges").to_dict("records")
    assert (row["association_sign"], row["association_of"]) == (sign, said)
    assert row["association_measure"] != "association" or np.isnan(row["association"])
    assert said in "\n".join(result.lines())
    assert said in result.page()
    (edge,) = result.to_dict()["evidence"]["edges"]
    assert edge["effect"]["of"] == said
    assert said in (result.save(tmp_path / "out") / "edges.csv").read_text("utf-8")


# rare outcomes


def test_a_pair_that_too_few_sites_could_test_names_the_rare_category():
    rng, n = np.random.default_rng(5), 3000
    x = rng.random(n) < 0.4
    rows = pd.DataFrame({"x": np.where(x, "yes", "no"), "z": rng.choice(["a", "b"], n)})
    rows["y"] = np.where(rng.random(n) < np.where(x, 0.0012, 0.0004), "event", "none")
    own = Federation.split(rows, 10, seed=1, policy=Policy(questions=QUESTION_KINDS), device="cpu")
    said = " ".join(own.run(FedPC(evidence="glm"), seed=0).report.warnings)
    assert "at the others y does not vary" in said
    assert "min_cell_size = 0" in said


# bd2kccd/py-causal#101: codes with decimals, and with leading zeros


def test_codes_with_decimals_are_one_and_leading_zeros_are_named():
    plain = pd.DataFrame({"code": ["1", "2", "3", "-1"] * 30, "x": np.arange(120.0)})
    decimal = pd.DataFrame({"code": ["1.0", "2.0", "3.0", "-1.0"] * 30, "x": np.arange(120.0)})
    padded = pd.DataFrame({"code": ["01", "02", "03", "-1"] * 30, "x": np.arange(120.0)})
    codes = {own.name: own for own in infer_schema([plain, decimal]).columns}
    assert codes["code"].categories == ("-1", "1", "2", "3")
    said = next(own.comment for own in infer_schema([plain, padded]).columns if own.name == "code")
    assert 'synonyms = { "1" = ["01"], "2" = ["02"], "3" = ["03"] }' in said
    assert "look like one category" not in said


# NVIDIA/NVFlare#2952: another process holds the port


@pytest.mark.parametrize("address", ["127.0.0.1", ""])
def test_a_coordinator_whose_port_is_taken_says_so_and_ends(address, tmp_path):
    pytest.importorskip("nvflare")
    with socket.create_server((address, 0)) as held:
        port = str(held.getsockname()[1])
        folder = str(tmp_path / "coordinator")
        command = [sys.executable, "-m", "cipherdag", "coordinator"]
        new = ["new", "--study", "s", "--host", "localhost", "--port", port, "--dir", folder]
        assert subprocess.run([*command, *new], check=False, capture_output=True).returncode == 0
        started = subprocess.run(
            [*command, "start", "--dir", folder],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
    output = started.stdout + started.stderr
    assert started.returncode == 5
    assert "Started" not in output
    assert f"port {port} is taken" in output
    assert "coordinator new --port" in output


def test_a_column_that_two_others_determine_together_keeps_its_edges():
    rng, n = np.random.default_rng(3), 3000
    a, b = rng.random(n) < 0.1, rng.random(n) < 0.05
    either = a | b
    sign = np.where(rng.random(n) < 0.9, either, rng.random(n) < 0.1)
    names = {"a": a, "b": b, "either": either, "sign": sign}
    rows = pd.DataFrame({name: np.where(own, "yes", "no") for name, own in names.items()})
    result = learnt(rows, FedPC())
    assert "'either' follows from 'a' and 'b'" in result.report.warnings[0]
    assert joined("a-either", "b-either", "either-sign") == pairs(result)
    assert statuses(result)[frozenset({"either", "sign"})] == "undone"
