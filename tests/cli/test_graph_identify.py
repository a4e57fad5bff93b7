"""``graph identify``: answers in words and JSON, and questions that make no sense."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

from cipherdag import CausalGraph, EstimatedEffect, Run


@pytest.fixture
def drawn(tmp_path):
    file = tmp_path / "drawn.csv"
    edges = [("u", "x"), ("u", "y"), ("z", "x"), ("x", "y")]
    file.write_text(CausalGraph.from_edges("uxyz", edges).to_csv(), "utf-8")
    return file


def test_answers_in_words_and_as_json(call, drawn):
    asked = ("graph", "identify", drawn, "--treatment", "x", "--outcome", "y")
    code, said, _ = call(*asked)
    assert code == 0
    assert "identified: adjust for u" in said
    assert f"run effect FILES --graph {drawn} --treatment x --outcome y" in said
    answer = json.loads(call(*asked, "--json")[1])
    assert (answer["method"], answer["sets"], answer["optimal"]) == ("adjustment", [["u"]], ["u"])
    code, said, _ = call(*asked, "--unobserved", "u")
    assert code == 0  # an honest no is an answer
    assert "not identified" in said
    assert "run effect" not in said
    by_instrument = json.loads(call(*asked, "--unobserved", "u", "--linear", "--json")[1])
    assert by_instrument["instruments"] == [{"variable": "z", "given": []}]


def test_an_unknown_variable_is_named(call, drawn):
    code, _, said = call("graph", "identify", drawn, "--treatment", "q", "--outcome", "y")
    assert code == 2
    assert "'q'" in said
    assert "u, x, y, z" in said


def test_a_graph_that_is_open_lists_what_is_possible(call, tmp_path):
    file = tmp_path / "open.csv"
    file.write_text(CausalGraph.from_edges("xy", undirected=["xy"]).to_csv(), "utf-8")
    asked = ("graph", "identify", file, "--treatment", "x", "--outcome", "y")
    answer = json.loads(call(*asked, "--json")[1])
    parents = [(own["parents"], own["n_dags"]) for own in answer["possibilities"]]
    assert parents == [([], 1), (["y"], 1)]
    assert "is one of 2" in call(*asked)[1]


def test_a_graph_names_the_command_with_what_to_adjust_for(call, drawn, tmp_path):
    rng = np.random.default_rng(0)
    u, z = rng.normal(size=(2, 900))
    x = rng.random(900) < 1.0 / (1.0 + np.exp(-u - z))
    rows = pd.DataFrame({"u": u, "z": z, "x": x, "y": 2.0 * x + u + rng.normal(size=900)})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    asked = ("simulate", "effect", tmp_path / "rows.csv", "--treatment", "x", "--outcome", "y")
    code, said, _ = call(*asked, "--graph", drawn, "--out", tmp_path / "by_graph")
    assert code == 0
    assert "adjusted for u: 900 rows" in said
    call(*asked, "--adjust", "u", "--out", tmp_path / "by_hand")
    found = [
        Run.load(tmp_path / own, EstimatedEffect).table("effects")
        for own in ("by_graph", "by_hand")
    ]
    assert found[0].equals(found[1])
    code, _, said = call(*asked, "--graph", drawn, "--adjust", "u")
    assert code == 2
    assert "the graph says what to adjust for" in said
    turned = ("simulate", "effect", tmp_path / "rows.csv", "--treatment", "y", "--outcome", "x")
    code, _, said = call(*turned, "--graph", drawn)
    assert code == 2
    assert "no effect" in said
    assert "repeat" not in call("repeat", tmp_path / "by_graph")[2]


def test_the_named_command_estimates_the_effect_over_the_same_data(call, tmp_path):
    for k, name in enumerate("abc"):
        rng = np.random.default_rng(k)
        cause = rng.normal(size=400)
        treated = (cause + rng.normal(size=400) > 0).astype(int)
        rows = {"cause": cause, "treated": treated, "y": cause + treated + rng.normal(size=400)}
        pd.DataFrame(rows).round(3).to_csv(tmp_path / f"{name}.csv", index=False)
    files, knowledge = [tmp_path / f"{name}.csv" for name in "abc"], tmp_path / "knowledge.toml"
    knowledge.write_text('tiers = [["cause"], ["treated"], ["y"]]\n', "utf-8")
    for command in (("run", "fedpc", *files), ("simulate", "fedpc", files[0], "--sites", 4)):
        result = tmp_path / f"by-{command[0]}"
        code, _, error = call(*command, "--knowledge", knowledge, "--out", result)
        assert code == 0, error
        effect = ("--treatment", "treated", "--outcome", "y")
        _, said, _ = call("graph", "identify", result, *effect)
        (line,) = [line for line in said.splitlines() if line.startswith("To estimate it: ")]
        words = shlex.split(line.split(": cipherdag ")[1])
        code, said, error = call(*words)
        assert code == 0, error
        assert "adjusted for cause" in said
        assert f"{len(files) if command[0] == 'run' else 4} sites" in said


def test_an_effect_that_small_counts_forbid_names_the_other_sets(call, tmp_path):
    """The set that is chosen has a rare category at each site, the other one has none."""
    for k, name in enumerate("abc"):
        rng = np.random.default_rng(k)
        cause = rng.integers(0, 2, 900)
        treated = (rng.random(900) < 0.3 + 0.4 * cause).astype(int)
        rare = np.where(np.arange(900) < 4, 2, cause)
        rows = {"cause": cause, "rare": rare, "treated": treated}
        rows["y"] = (rng.random(900) < 0.2 + 0.2 * treated + 0.3 * cause).astype(int)
        pd.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
    edges = [("cause", "rare"), ("cause", "treated"), ("rare", "y"), ("treated", "y")]
    (tmp_path / "drawn.csv").write_text(
        CausalGraph.from_edges(["cause", "rare", "treated", "y"], edges).to_csv(), "utf-8"
    )
    asked = ("--graph", tmp_path / "drawn.csv", "--treatment", "treated", "--outcome", "y")
    files = [tmp_path / f"{name}.csv" for name in "abc"]
    code, _, error = call("run", "effect", *files, *asked)
    assert code == 6
    assert "min_cell_size" in error
    assert "give --treatment treated --outcome y --adjust cause." in error
    _, said, _ = call("graph", "identify", *asked[1:])
    *_, line = said.splitlines()
    assert line == "  cipherdag run effect FILES --treatment treated --outcome y --adjust cause"
    assert "a count of treatment, outcome and what is adjusted for is small" in said
    words = line.split()[4:]
    code, said, error = call("run", "effect", *files, *words)
    assert code == 0, error
    assert "adjusted for cause" in said


def test_a_folder_with_a_sample_gives_the_share_of_graphs(call, tmp_path):
    rng = np.random.default_rng(2)
    x, other, noise = rng.normal(size=(3, 600))
    rows = pd.DataFrame({"x": x, "other": other, "y": x + other + noise})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    over = (tmp_path / "rows.csv", "--sites", 3)
    assert call("simulate", "fedboss", *over, "--out", tmp_path / "g")[0] == 0
    asked = ("simulate", "effect", *over, "--graph", tmp_path / "g")
    code, said, _ = call(*asked, "--treatment", "x", "--outcome", "y")
    assert code == 0
    assert "x causes y in" in said


def test_one_command_goes_from_a_folder_to_the_effect(call, tmp_path):
    rng = np.random.default_rng(2)
    x, other, noise = rng.normal(size=(3, 600))
    rows = pd.DataFrame({"x": x, "other": other, "y": x + other + noise})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    over = (tmp_path / "rows.csv", "--sites", 3, "--seed", 4)
    assert call("simulate", "fedboss", *over, "--out", tmp_path / "g")[0] == 0
    asked = ("--out", tmp_path / "e", "--of", "x", "--on", "y")
    code, said, _ = call("effect", tmp_path / "g", *asked)
    assert code == 0
    learnt, found = Run.load(tmp_path / "g").finding, Run.load(tmp_path / "e", EstimatedEffect)
    share = learnt.sample.causes[
        [*learnt.sample.nodes].index("x"), [*learnt.sample.nodes].index("y")
    ]
    assert found.finding.share_with_effect == pytest.approx(share)
    assert "x causes y in" in said
    by_options = ("--graph", tmp_path / "g", "--treatment", "x", "--outcome", "y")
    assert call("simulate", "effect", *over, *by_options, "--out", tmp_path / "same")[0] == 0
    same = Run.load(tmp_path / "same", EstimatedEffect)
    assert same.finding.decisions == found.finding.decisions
    page = (tmp_path / "e" / "report.html").read_text("utf-8")
    caption = "1 set to adjust for" if share == 1.0 else "and the graphs without an effect"
    assert caption in page
    assert "In graphs" in page


def test_one_command_adjusts_by_a_graph_without_a_sample(call, tmp_path):
    rng = np.random.default_rng(3)
    x, other, noise = rng.normal(size=(3, 900))
    rows = pd.DataFrame({"x": x, "other": other, "y": x + other + noise})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    over = (tmp_path / "rows.csv", "--sites", 3)
    assert call("simulate", "fedpc", *over, "--out", tmp_path / "g")[0] == 0
    code, said, _ = call("effect", tmp_path / "g", "--of", "x", "--on", "y")
    assert code == 0
    assert "x by one unit more, difference" in said
    code, _, error = call("effect", tmp_path / "g", "--of", "x", "--on", "q")
    assert code == 2
    assert "'q' is no variable of this graph" in error


def test_a_run_over_real_sites_names_whom_to_ask(call, tmp_path):
    (tmp_path / "run.toml").write_text('command = "coordinator run"\nalgorithm = "fedboss"\n')
    code, _, error = call("effect", tmp_path, "--of", "x", "--on", "y")
    assert code == 1
    pair = "--treatment x --outcome y --purpose"
    assert f"coordinator run effect --graph {tmp_path} {pair}" in error
