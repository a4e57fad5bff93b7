"""Two runs on one page: every pair and mark that either has, and what each opened of it."""

import numpy as np
import pytest
from pages import Page
from report_run import altered

from cipherdag import Federation, FedPC
from cipherdag.findings.edge_table import edge_differences
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.networks import asia
from cipherdag.results.compared_page import compared_page

MARKS = {"→": "-->", "←": "<--", "—": "---", "none": ""}


@pytest.fixture(scope="module")
def runs():
    federation = Federation.split(asia().sample(1500, np.random.default_rng(0)), 3, device="cpu")
    return federation.run(FedPC()), federation.run(FedPC(evidence="vote", alpha=0.05))


def page_of(here, there):
    page = Page(compared_page(here, there, ("june", "july")))
    page.check_offline()
    return page


def rows_of(page):
    columns = ("First", "Second", "In A", "In B", "Found")
    return list(zip(*(page.column("edge-table", own) for own in columns), strict=True))


def test_every_difference_of_two_runs_is_on_the_page(runs):
    here, there = runs
    page = page_of(here, there)
    turned = {"-->": "<--", "<--": "-->"}
    found = set()
    for source, target, one, two, said in rows_of(page):
        marks = [MARKS[one], MARKS[two]]
        if source > target:
            marks = [turned.get(mark, mark) for mark in marks]
        same = said == "the same"
        assert same == (marks[0] == marks[1])
        assert (said == "in A only") == (marks[1] == "")
        assert (said == "in B only") == (marks[0] == "")
        found.add((min(source, target), max(source, target), *marks, same))
    assert found == set(edge_differences(here.finding.graph, there.finding.graph))
    evidence = " ".join(page.column("edge-table", "Evidence"))
    assert "A: " in evidence
    assert evidence.count("p ") >= sum(
        own.p_value is not None for own in here.finding.evidence.edges
    )
    settings = page.texts["body"]
    assert "Settings that differ" in settings
    assert "vote" in settings


def test_a_run_and_itself_differ_in_nothing(runs):
    page = page_of(runs[0], runs[0])
    assert {own[-1] for own in rows_of(page)} == {"the same"}
    assert "None: algorithm, parameters" in page.texts["main"]
    drawn = [own["class"] for _, own in page.elements if "cd-edge" in own.get("class", "")]
    assert not any("only" in own or "other" in own for own in drawn)


def test_graphs_over_other_and_hostile_names_are_compared(runs):
    names = ("a", "<script>alert(1)</script>", "年龄", '"><img src=x>')
    one = CausalGraph.from_edges(names[:3], [(names[1], names[0])])
    two = CausalGraph.from_edges(names[1:], [(names[2], names[1])], [names[2:]])
    here, there = (
        altered(runs[0], graph=own, dag=own, evidence=GraphEvidence(), details={})
        for own in (one, two)
    )
    page = page_of(here, there)
    boxes = {own["data-node"] for _, own in page.elements if "data-node" in own}
    assert boxes == set(names)
    assert sorted(own[-1] for own in rows_of(page)) == ["in A only", "in B only", "in B only"]
    empty = CausalGraph.empty(names)
    nothing = altered(here, graph=empty, dag=empty)
    assert "Neither run has an edge." in page_of(nothing, nothing).texts["main"]


def test_the_command_writes_the_page(runs, tmp_path, call):
    folders = [own.save(tmp_path / name) for own, name in zip(runs, ("one", "two"), strict=True)]
    target = tmp_path / "both.html"
    code, shown, _ = call("graph", "compare", *folders, "--html", target)
    assert code == 0
    assert "SHD" in shown
    Page(target.read_text("utf-8")).check_offline()
    edges = tmp_path / "one" / "edges.csv"
    assert call("graph", "compare", folders[0], edges, "--html", tmp_path / "new.html")[0] == 2
    missing = tmp_path / "no" / "both.html"
    assert call("graph", "compare", *folders, "--html", missing)[0] != 0
