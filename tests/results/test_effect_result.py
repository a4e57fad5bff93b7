"""The result of an effect: tables, folder, page, terminal; numbers in each are the result's."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_run import page_of

from cipherdag import CausalGraph, Effect, EffectResult, Federation
from cipherdag.errors import OutputError, ParameterError
from cipherdag.results.kinds import load_run
from cipherdag.results.result import Result

NAME = "<b>cured</b>"


@pytest.fixture(scope="module")
def result():
    """Of a graph that leaves open whether age or the drug came first, by hostile names."""
    rng = np.random.default_rng(0)
    age = rng.normal(60.0, 10.0, 2400)
    drug = rng.random(2400) < 1.0 / (1.0 + np.exp(-(age - 60.0) / 10.0))
    cured = rng.random(2400) < 1.0 / (1.0 + np.exp(-(0.8 * drug + (age - 60.0) / 15.0)))
    table = pd.DataFrame({"age": age, "drug": drug, NAME: np.where(cured, "yes", "<i>no</i>")})
    graph = CausalGraph.from_edges(
        list(table.columns), undirected=[("age", "drug"), ("age", NAME), ("drug", NAME)]
    )
    return Federation.split(table, 3, seed=1).run(Effect(graph.identify("drug", NAME)))


def test_it_is_one_short_line_and_a_table(result):
    assert repr(result) == (
        "EffectResult(effect over 3 sites, masking: 3 variables, the effect of drug on "
        f"{NAME}, {len(result.rounds)} rounds)"
    )
    assert result._repr_html_().count("<table") == 1
    assert NAME not in result._repr_html_()


def test_the_tables_have_every_number_of_the_sets(result):
    table = result.by_graph
    told = [own for own in result.sets if own.contrasts]
    assert len(told) == 2
    assert table.loc[0, "estimate"] == result.estimate == told[0].contrasts[0].estimate
    assert result.interval == (table.loc[0, "low"], table.loc[0, "high"])
    assert result.standard_error == table.loc[0, "standard_error"]
    assert len(table) == 3 * len(told) + len(result.sets) - len(told)
    none = table[table["note"] == "no effect"]
    assert (none["estimate"] == 0.0).all()
    assert result.range == (0.0, max(own.contrasts[0].estimate for own in told))
    assert set(table["scale"]) == {"difference", "ratio", "odds ratio"}
    assert set(result.overlap["arm"]) == {"False", "True"}
    assert len(result.between_sites) == len(told)


def test_the_page_has_them_too_and_says_nothing_else(result):
    page = page_of(result)
    shown = page.column("effect-table", "Estimate", values=True)
    assert shown == [[str(row[7])] for row in result.effect_rows()]
    means = page.column("arm-table", "Mean", values=True)
    assert means == [[str(row[3])] for row in result.mean_rows()]
    assert page.column("between-table", "Arm") == [row[1] for row in result.between_rows()]
    for sentence in result.disclosures:
        assert sentence in page.texts["main"]
    assert NAME in page.texts["main"]  # as text, hence escaped
    assert "<b>cured</b>" not in result.page()


def test_the_terminal_says_the_effect_and_how_far_the_graph_leaves_it_open(result):
    text = "\n".join(result.lines())
    assert f"The effect of drug on {NAME} (aipw):" in text
    assert "if the direct causes are age, adjusted for age: 2,400 rows of 3 sites" in text
    assert "True against False, odds ratio:" in text
    assert "told by 3 sites alone" in text
    assert "as the graph leaves it open" in text


def test_a_saved_effect_is_the_same_and_says_its_kind(result, tmp_path):
    folder = result.save(tmp_path / "out")
    loaded = load_run(folder)
    assert isinstance(loaded, EffectResult)
    assert loaded.to_dict() == result.to_dict()
    assert loaded.sets == result.sets
    assert loaded.by_graph.equals(result.by_graph)
    written = pd.read_csv(folder / "effects.csv")
    assert written["estimate"].tolist() == pytest.approx(result.by_graph["estimate"].tolist())
    assert json.loads((folder / "result.json").read_text("utf-8"))["kind"] == "effect"
    with pytest.raises(OutputError, match="of the kind effect, not graph") as caught:
        Result.load(folder)
    assert "effects.csv" in caught.value.remedy


def test_there_is_no_truth_to_compare_with(result):
    with pytest.raises(ParameterError, match="not compared with a true graph"):
        result.to_dict(truth=CausalGraph.from_edges(["a", "b"]))


def test_of_a_first_set_without_an_estimate_the_number_is_missing_not_made_up(result):
    first = replace(result.sets[0], contrasts=(), why="not identified")
    bare = replace(result, sets=(first, *result.sets[1:]))
    assert math.isnan(bare.estimate)
    assert bare.by_graph.loc[0, "note"] == "not identified"
    assert "not identified" in bare.page()
