"""``graph compare`` says which edges differ, and in what."""

import html
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cipherdag import CausalGraph, FedBOSS, Federation, FedPC, LearntGraph, Run
from cipherdag.cli.main import MOST_SAID
from cipherdag.graphs.networks import asia
from cipherdag.pages.numerals import share_shown


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rows = asia().sample(4000, np.random.default_rng(1))
    folder = tmp_path_factory.mktemp("saved") / "result"
    Federation.split(rows, 3, seed=1, device="cpu").run(FedPC(alpha=0.01)).save(folder)
    return folder


@pytest.fixture
def other(tmp_path):
    """Writes a graph over the columns of ASIA as a CSV of edges."""

    def write(edges):
        file = tmp_path / "other.csv"
        file.write_text(CausalGraph.from_marked(asia().graph.nodes, edges).to_csv(), "utf-8")
        return file

    return write


def test_an_edge_in_which_two_graphs_differ_is_a_sentence(call, saved, other):
    edges = list(Run.load(saved, LearntGraph).finding.graph.edges)
    turned, dropped, *_ = [edge for edge in edges if edge.mark == "-->"]
    assert any(edge.mark == "---" for edge in edges)  # so that marks are compared as they are
    edges = [edge for edge in edges if edge not in (turned, dropped)]
    marked = [(edge.source, edge.target, edge.mark) for edge in edges]
    file = other([*marked, (turned.target, turned.source, "-->")])
    code, said, error = call("graph", "compare", saved, file)
    assert code == 0, error
    first, *sentences = said.splitlines()
    assert first.startswith("SHD 2 (reversed 1, extra 1, missing 0)")
    there = f"{turned.target} --> {turned.source} in {file}."
    assert set(sentences) == {
        f"{turned.source} --> {turned.target} in {saved} is {there}",
        f"{dropped.source} --> {dropped.target} is in {saved} only.",
    }


def test_the_same_graph_differs_in_no_edge(call, saved):
    code, said, _ = call("graph", "compare", saved, saved)
    assert code == 0
    assert len(said.splitlines()) == 1
    assert json.loads(call("graph", "compare", saved, saved, "--json")[1])["differences"] == []


def test_most_are_said_and_json_lists_all(call, saved, other):
    nodes = asia().graph.nodes
    file = other([(a, b, "-->") for k, a in enumerate(nodes) for b in nodes[k + 1 :]])
    _, said, _ = call("graph", "compare", saved, file)
    compared = json.loads(call("graph", "compare", saved, file, "--json")[1])
    count = len(compared["differences"])
    assert count == compared["shd"] > MOST_SAID
    lines = said.splitlines()
    assert lines[-1] == f"and {count - MOST_SAID} more, which --json lists."
    assert len(lines) == MOST_SAID + 2
    assert compared["differences"][0].keys() == {"source", "target", "here", "there"}


def test_edges_that_two_searches_dispute_have_shares(call, tmp_path):
    rng = np.random.default_rng(6)
    a, b, noise, other = rng.normal(size=(4, 900))
    rows = pd.DataFrame({"a": a, "b": a + b, "c": a - b + other, "d": noise})
    sites = Federation.split(rows, 3, seed=1, device="cpu")
    by_scores, by_tests = tmp_path / "scores", tmp_path / "tests"
    found, other = sites.run(FedBOSS()), sites.run(FedPC(alpha=0.01))
    found.save(by_scores)
    shown = found.finding.graph
    assert not any({"b", "d"} == {edge.source, edge.target} for edge in shown.edges)
    graph = CausalGraph.from_marked(shown.nodes, [("b", "d", "---")])
    replace(other, finding=replace(other.finding, graph=graph, dag=graph)).save(by_tests)
    code, said, error = call("graph", "compare", by_tests, by_scores, "--html", tmp_path / "c.html")
    assert code == 0, error
    arrows = found.finding.sample.arrows
    b, d = (shown.nodes.index(name) for name in "bd")
    joined, arrow = (share_shown(x) for x in (arrows[b, d] + arrows[d, b], arrows[b, d]))
    share = f"in {joined} of graphs, with b as the cause in {arrow}"
    assert f"b --- d is in {by_tests} only. Of {by_scores} it is {share}." in said
    assert f"B: {html.escape(share)}" in (tmp_path / "c.html").read_text("utf-8")
