"""A result and a federation in the hand: what they print, hold as a table, and are compared by."""

import json
from functools import cache

import numpy as np
import pytest

import cipherdag
from cipherdag.algorithms.fedpc.algorithm import FedPC
from cipherdag.errors import GraphError, ParameterError
from cipherdag.federation.simulated import Federation
from cipherdag.findings.edge_table import edge_differences
from cipherdag.findings.graph import LearntGraph
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.networks import asia
from cipherdag.results.run import Run


@cache
def federation():
    return Federation.split(asia().sample(1500, np.random.default_rng(0)), 3, device="cpu")


@cache
def result():
    return federation().run(FedPC(reveal="sums"))


@cache
def by_bits():
    return federation().run(FedPC())


def test_what_is_printed_is_one_short_line():
    assert repr(federation()) == (
        "Federation(3 sites: site-1, site-2, site-3; 8 variables, masking)"
    )
    many = Federation(sites=tuple(
        type(own)(f"s{k}", own.table, own.policy) for k, own in enumerate(federation().sites * 4)
    ))  # fmt: skip
    assert len(repr(many)) < 100


def test_a_result_prints_its_lines_and_has_its_graph():
    assert str(result()).split("\n") == result().lines()[1:]
    assert result().graph == result().finding.graph


def test_the_package_has_its_public_names_and_no_other():
    assert dir(cipherdag) == sorted(cipherdag.__all__)
    assert all(getattr(cipherdag, name).__name__ == name for name in cipherdag.__all__)


def test_edges_are_a_table_that_makes_the_graph_again():
    status = ["status", "why"]
    effect = [f"association{more}" for more in ("", "_low", "_high", "_measure", "_sign", "_of")]
    tested = ["p_value", "given", *effect, *status]
    assert list(result().table("edges").columns) == ["from", "to", "mark", *tested]
    rows = result().table("edges")[["from", "to", "mark"]].itertuples(index=False, name=None)
    assert CausalGraph.from_marked(result().finding.graph.nodes, rows) == result().finding.graph
    assert list(by_bits().table("edges").columns) == ["from", "to", "mark", *status]
    again = federation().run(FedPC(bootstrap=3, reveal="sums"))
    shares = ["confidence", "any_edge", "consensus"]
    assert list(again.table("edges").columns) == ["from", "to", "mark", *shares, *tested]
    assert (
        again.finding.consensus(0.01).skeleton().sum() >= again.finding.consensus().skeleton().sum()
    )
    with pytest.raises(ParameterError, match="replicates"):
        result().finding.consensus()
    assert again.table("edges")["p_value"].equals(result().table("edges")["p_value"])
    undone = result().table("edges")["p_value"].isna()
    assert (result().table("edges")["status"][undone].isin(["undone", "untested"])).all()
    assert (result().table("edges")["status"][~undone] == "tested").all()
    assert (result().table("edges")["why"] != "")[undone].all()
    voted = federation().run(FedPC(evidence="vote")).table("edges")
    assert list(voted.columns) == ["from", "to", "mark", "strength", *status]
    assert voted["strength"][voted["status"] == "tested"].between(0.3, 1).all()
    assert voted["strength"][voted["status"] != "tested"].isna().all()
    assert list(again.table("edges")["from"]) == list(result().table("edges")["from"])


def test_a_saved_graph_that_is_not_what_it_claims_is_refused(tmp_path):
    file = result().save(tmp_path / "out") / "result.json"
    saved = json.loads(file.read_text("utf-8"))
    assert saved["graph_kind"] == "cpdag"
    names = list(result().finding.graph.nodes)[:3]
    turns = zip(names, [*names[1:], names[0]], strict=True)
    saved["edges"] = [{"from": a, "to": b, "mark": "-->"} for a, b in turns]
    file.write_text(json.dumps(saved), "utf-8")
    with pytest.raises(GraphError, match="the directed edges form a cycle"):
        Run.load(tmp_path / "out", LearntGraph)
    del saved["graph_kind"]  # as earlier revisions wrote it: nothing is claimed
    file.write_text(json.dumps(saved), "utf-8")
    assert Run.load(tmp_path / "out", LearntGraph).finding.graph.kind == "pdag"


def graph(*edges):
    return CausalGraph.from_marked(tuple("abc"), [tuple(edge.split()) for edge in edges])


def marked(*edges):
    return graph(*((f"{e.split()[0]} {e.split()[2]} {e.split()[1]}") for e in edges))


def test_two_graphs_pair_by_pair():
    here = marked("b --> a", "b --- c")
    there = marked("a --> b", "b --- c", "a --- c")
    assert edge_differences(here, there) == [
        ("a", "b", "<--", "-->", False),
        ("a", "c", "", "---", False),
        ("b", "c", "---", "---", True),
    ]
    turned = [(x, y, two, one, same) for x, y, one, two, same in edge_differences(there, here)]
    assert turned == edge_differences(here, there)
    assert all(row[-1] for row in edge_differences(here, here))
    frame = result().finding.compare(CausalGraph.empty(result().finding.graph.nodes))
    assert list(frame.columns) == ["from", "to", "here", "there", "same"]
    assert len(frame) == len(result().table("edges"))
    assert not frame["same"].any()


@pytest.mark.parametrize("name", ["fedpc", "FedPC", " fedpc "])
def test_an_algorithm_may_be_named(name):
    assert federation().run(name).finding.graph == by_bits().finding.graph


@pytest.mark.parametrize(
    ("given", "remedy"),
    [("fedpx", "'fedpc'"), ("nothing", "Known are describe, fedpc"), (FedPC, "Write FedPC()")],
)
def test_a_name_or_class_that_is_no_algorithm_is_named(given, remedy):
    with pytest.raises(ParameterError) as caught:
        federation().run(given)
    assert remedy in caught.value.remedy
