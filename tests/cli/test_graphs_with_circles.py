"""``graph show``, ``compare`` and ``export`` of a PAG, whose marks are those that FedFCI learnt."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from pages import Page

from cipherdag import PAG, PAGResult

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


@pytest.fixture
def learnt(call, patients, tmp_path):
    assert call("simulate", "fedfci", patients, "--sites", 3, "--out", tmp_path / "fci")[0] == 0
    return tmp_path / "fci"


def test_it_is_shown_and_exported_with_every_mark(call, learnt, tmp_path):
    graph = PAGResult.load(learnt).graph
    assert "Allergy <-> Asthma" in str(graph)
    assert call("graph", "show", learnt)[1].strip() == str(graph)
    assert call("graph", "show", learnt, "--svg", tmp_path / "drawn.svg")[0] == 0
    file = tmp_path / "edges.csv"
    assert call("graph", "export", learnt, "--format", "csv", "--out", file)[0] == 0
    assert PAG.from_csv(file.read_text("utf-8"), nodes=graph.nodes) == graph
    assert json.loads(call("graph", "compare", learnt, file, "--json")[1])["right"] == 6


def test_two_are_compared_by_their_marks(call, learnt, patients, tmp_path):
    other, page = tmp_path / "other", tmp_path / "page.html"
    chosen = ("--alpha", 1e-300, "--out", other)
    assert call("simulate", "fedfci", patients, "--sites", 3, *chosen)[0] == 0
    code, said, _ = call("graph", "compare", learnt, other, "--html", page)
    assert code == 0
    assert "(PAGs)" in said
    here, there = (PAGResult.load(own) for own in (learnt, other))
    rows = Page(page.read_text("utf-8"))
    columns = (rows.column("edge-table", own) for own in ("First", "Second", "In A", "In B"))
    for names in zip(*columns, strict=True):
        first, second, *marks = names
        for run, mark in zip((here, there), marks, strict=True):
            drawn = (first, second, SHOWN[mark])
            turned = (second, first, SHOWN[mark][::-1].translate(str.maketrans("<>", "><")))
            own = {(edge.source, edge.target, edge.mark) for edge in run.graph.edges}
            assert bool(own & {drawn, turned}) == bool(drawn[2])
    assert len(rows.column("edge-table", "First")) >= len(here.graph.edges)


def test_a_pag_and_a_cpdag_are_not_measured_by_each_other(call, learnt, patients, tmp_path):
    other = tmp_path / "pc"
    assert call("simulate", "fedpc", patients, "--sites", 3, "--out", other)[0] == 0
    for one, two in ((learnt, other), (other, learnt)):
        page = tmp_path / "page.html"
        code, _, said = call("graph", "compare", one, two, "--html", page)
        assert code == 1
        assert "marks of the two say different things" in said
        assert not page.exists()
