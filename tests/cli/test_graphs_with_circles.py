"""``graph show``, ``compare`` and ``export`` of a PAG, whose marks are those that FedFCI learnt."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from pages import Page

from cipherdag import PAG, CausalGraph, LearntPAG, Run
from cipherdag.cli.main import cli
from cipherdag.graphs.metrics import compare_pags

SHOWN = {"→": "-->", "←": "<--", "—": "---", "↔": "<->", "o→": "o->", "←o": "<-o", "none": ""} | {
    "o—o": "o-o",
    "o—": "o--",
    "—o": "--o",
}


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """Two diseases with a cause that no column has, and of each one that a column has."""
    rng = np.random.default_rng(0)
    smoke, pollen, inherited = rng.normal(size=(3, 3000))
    rows = {
        "Smoke": smoke,
        "Pollen": pollen,
        "Asthma": smoke + inherited + rng.normal(size=3000),
        "Allergy": pollen + inherited + rng.normal(size=3000),
    }
    file = tmp_path_factory.mktemp("rows") / "patients.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    return file


@pytest.fixture(scope="module")
def learnt(patients, tmp_path_factory):
    """The folder of a result, to read."""
    out = tmp_path_factory.mktemp("learnt") / "fci"
    words = ["simulate", "fedfci", str(patients), "--sites", "3", "--out", str(out)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    return out


def test_it_is_shown_and_exported_with_every_mark(call, learnt, tmp_path):
    graph = Run.load(learnt, LearntPAG).finding.graph
    assert "Allergy <-> Asthma" in str(graph)
    assert call("graph", "show", learnt)[1].strip() == str(graph)
    assert call("graph", "show", learnt, "--svg", tmp_path / "drawn.svg")[0] == 0
    file = tmp_path / "edges.csv"
    assert call("graph", "export", learnt, "--format", "csv", "--out", file)[0] == 0
    assert PAG.from_csv(file.read_text("utf-8"), nodes=graph.nodes) == graph
    assert json.loads(call("graph", "compare", learnt, file, "--json")[1])["right"] == 6


def test_two_are_compared_by_their_marks(call, learnt, patients, tmp_path):
    other, page = tmp_path / "other", tmp_path / "page.html"
    chosen = ("--alpha", 1e-12, "--out", other)
    assert call("simulate", "fedfci", patients, "--sites", 3, *chosen)[0] == 0
    code, said, _ = call("graph", "compare", learnt, other, "--html", page)
    assert code == 0
    assert "(PAGs)" in said
    here, there = (Run.load(own, LearntPAG) for own in (learnt, other))
    rows = Page(page.read_text("utf-8"))
    columns = (rows.column("edge-table", own) for own in ("First", "Second", "In A", "In B"))
    for names in zip(*columns, strict=True):
        first, second, *marks = names
        for run, mark in zip((here, there), marks, strict=True):
            drawn = (first, second, SHOWN[mark])
            turned = (second, first, SHOWN[mark][::-1].translate(str.maketrans("<>", "><")))
            own = {(edge.source, edge.target, edge.mark) for edge in run.finding.graph.edges}
            assert bool(own & {drawn, turned}) == bool(drawn[2])
    assert len(rows.column("edge-table", "First")) >= len(here.finding.graph.edges)


def test_a_pag_and_a_cpdag_are_not_measured_by_each_other(call, learnt, patients, tmp_path):
    other = tmp_path / "pc"
    assert call("simulate", "fedpc", patients, "--sites", 3, "--out", other)[0] == 0
    for one, two in ((learnt, other), (other, learnt)):
        page = tmp_path / "page.html"
        code, _, said = call("graph", "compare", one, two, "--html", page)
        assert code == 1
        assert "marks of the two say different things" in said
        assert not page.exists()


@pytest.mark.parametrize("measured_only", [False, True])
def test_a_true_dag_is_held_against_it_by_its_own_pag(call, patients, tmp_path, measured_only):
    """What only the true graph names was not measured."""
    arcs = [("Smoke", "Asthma"), ("Pollen", "Allergy")]
    if not measured_only:
        arcs += [("Inherited", "Asthma"), ("Inherited", "Allergy")]
    names = dict.fromkeys(["Smoke", "Pollen", "Asthma", "Allergy", *(a for a, _ in arcs)])
    dag = CausalGraph.from_edges(tuple(names), arcs)
    truth, out = tmp_path / "truth.csv", tmp_path / "out"
    truth.write_text(dag.to_csv(), "utf-8")
    words = ("--sites", 3, "--truth", truth, "--out", out)
    code, said, _ = call("simulate", "fedfci", patients, *words)
    assert code == 0
    result = Run.load(out, LearntPAG)
    expected = compare_pags(
        result.finding.graph, PAG.from_dag(dag, names.keys() - set(result.finding.graph.nodes))
    )
    assert f"Against the truth: {expected}" in said
    assert (expected.extra, expected.miss) == ((1, 0) if measured_only else (0, 0))
    assert (expected.right, expected.unfounded) == ((2, 2) if measured_only else (6, 0))
    saved = json.loads((out / "result.json").read_text("utf-8"))["metrics"]
    assert saved["right"] == expected.right
    (out / "report.html").unlink()
    assert call("report", out, "--truth", truth)[0] == 0
    page = Page((out / "report.html").read_text("utf-8"))
    assert "Against the PAG of the true graph" in page.texts["main"]
