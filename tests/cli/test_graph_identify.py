"""``graph identify``: answers in words and JSON, and questions that make no sense."""

from __future__ import annotations

import json

import pytest

from cipherdag import CausalGraph


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
    assert "identified by adjustment for u" in said
    answer = json.loads(call(*asked, "--json")[1])
    assert (answer["method"], answer["sets"], answer["optimal"]) == ("adjustment", [["u"]], ["u"])
    code, said, _ = call(*asked, "--unobserved", "u")
    assert code == 0  # an honest no is an answer
    assert "not identified" in said
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
