"""Graphs as other programs hold them, and back: networkx, pgmpy, causal-learn, DoWhy and R."""

import shutil
import subprocess
import sys

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from causallearn.graph.Endpoint import Endpoint
from causallearn.search.ConstraintBased.PC import pc
from hypothesis import given
from pgmpy.base import DAG, PDAG
from reading_dagitty import read_dagitty
from reading_r import from_bnlearn, from_pcalg
from test_graphs import HEALTH, graphs
from test_pag import CLINIC, pags

from cipherdag.errors import GraphError, OutputError
from cipherdag.graphs.graph import CPDAG, CausalGraph
from cipherdag.graphs.pag import PartialMixedGraph

ARROWS = CausalGraph.from_edges("abcd", [("a", "c"), ("b", "c"), ("c", "d")])
KITE = CausalGraph.from_edges("abcd", (), ["ab", "bc", "cd", "ad"])


@given(graphs())
def test_networkx_gives_back_every_edge(graph):
    for there in (graph.to_networkx(), graph.to_networkx(two_arcs=True)):
        again = CausalGraph.from_networkx(there)
        assert (again, again.nodes) == (graph, graph.nodes)
    assert CausalGraph.from_networkx(nx.parse_graphml(graph.to_graphml())) == graph


@given(pags())
def test_networkx_and_causal_learn_give_back_every_mark(graph):
    assert PartialMixedGraph.from_networkx(graph.to_networkx()) == graph
    assert PartialMixedGraph.from_networkx(graph.to_networkx(two_arcs=True)) == graph
    assert PartialMixedGraph.from_causallearn(graph.to_causallearn()) == graph


@given(graphs())
def test_causal_learn_gives_back_every_edge(graph):
    there = graph.to_causallearn()
    again = CausalGraph.from_causallearn(there)
    assert (again, again.nodes) == (graph, graph.nodes)
    assert there.get_num_edges() == len(graph.edges)


@given(graphs())
def test_pgmpy_gives_back_every_edge(graph):
    there = graph.to_pgmpy()
    assert type(there) is (DAG if graph.is_dag else PDAG)
    assert CausalGraph.from_networkx(there) == graph
    if not graph.is_dag:
        assert there.directed_edges == set(graph.directed)
        assert there.undirected_edges == set(graph.undirected)


def test_a_graph_that_causal_learn_learnt_is_read_by_its_names():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 900))
    data = np.column_stack([a, b, a + b + rng.normal(size=900)])
    learnt = pc(data, show_progress=False, node_names=["a", "b", "sum"])
    graph = CPDAG.from_causallearn(learnt.G)
    assert graph.directed == (("a", "sum"), ("b", "sum"))
    with pytest.raises(GraphError, match="no GeneralGraph") as caught:
        CausalGraph.from_causallearn(learnt)
    assert "the attribute G" in caught.value.remedy


def test_a_graph_without_marks_has_arrows_and_plain_edges():
    arcs = nx.DiGraph([(1, 2), (2, 3), (3, 2)])
    assert str(CausalGraph.from_networkx(arcs)) == "1 --> 2\n2 --- 3"
    assert str(CausalGraph.from_networkx(nx.path_graph(3))) == "0 --- 1\n1 --- 2"


def test_what_cannot_be_read_is_named():
    for wrong, said in (
        (nx.MultiDiGraph([(1, 2)]), "multigraph"),
        ([("a", "b")], "a list is no graph of networkx"),
        (nx.DiGraph([("a", "a")]), "joins 'a' to itself"),
        (CLINIC.to_networkx(), "not one of -->, ---"),
    ):
        with pytest.raises(GraphError, match=said):
            CausalGraph.from_networkx(wrong)
    both_ways = nx.DiGraph()
    both_ways.add_edge("a", "b", mark="-->")
    both_ways.add_edge("b", "a", mark="-->")
    with pytest.raises(GraphError, match="joined by two edges"):
        CausalGraph.from_networkx(both_ways)
    starred = HEALTH.to_causallearn()
    starred.graph[starred.graph != 0] = Endpoint.STAR.value
    starred.get_graph_edges = lambda: [starred.get_edge(*starred.nodes[1:3])]
    with pytest.raises(GraphError, match="the mark STAR"):
        CausalGraph.from_causallearn(starred)


def test_a_class_of_dags_has_a_dag_and_a_kite_has_none():
    pattern = ARROWS.to_cpdag()
    assert pattern.to_dag() == ARROWS.to_dag() == ARROWS
    assert HEALTH.to_dag().to_cpdag() != HEALTH.to_dag()
    assert HEALTH.to_dag().directed == (("Age", "BMI"), ("BMI", "T2D"))
    with pytest.raises(GraphError, match="no DAG has this graph's edges"):
        KITE.to_dag()


def test_dowhy_takes_a_dag_alone():
    assert CausalGraph.from_networkx(ARROWS.to_dowhy()) == ARROWS
    with pytest.raises(OutputError, match="this graph is a PDAG") as caught:
        HEALTH.to_dowhy()
    assert "graph.to_dag()" in caught.value.remedy
    with pytest.raises(OutputError, match="this graph is a PMG") as caught:
        CLINIC.to_dowhy()
    assert "where no cause is hidden" in caught.value.remedy


@pytest.mark.filterwarnings("ignore")
def test_dowhy_has_common_causes_by_the_graph():
    dowhy = pytest.importorskip("dowhy", reason="DoWhy is large, and no part of the extra 'dev'")
    rng = np.random.default_rng(1)
    data = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcd"))
    confounded = CausalGraph.from_edges("abcd", [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")])
    for given_as in (confounded.to_dowhy(), confounded.to_gml(), confounded.to_dot()):
        model = dowhy.CausalModel(data, treatment="b", outcome="c", graph=given_as)
        assert model.get_common_causes() == ["a"]
        assert CausalGraph.from_networkx(model._graph._graph) == confounded


@pytest.mark.parametrize("name", ["pgmpy", "bnlearn"])
def test_what_cannot_hold_a_pag_refuses_it_by_name(name):
    with pytest.raises(OutputError, match=f"{name} cannot hold a PMG") as caught:
        getattr(CLINIC, f"to_{name}")()
    assert "causal-learn" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("to_pgmpy", "pgmpy.base", "pgmpy"),
        ("to_causallearn", "causallearn.graph.Edge", "causal-learn"),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_command(monkeypatch, name, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(OutputError, match=f"needs {package}") as caught:
        getattr(HEALTH, name)()
    assert caught.value.remedy == f"Run `pip install {package}`."


def test_no_export_loads_the_library_of_another():
    code = (
        "import sys\nfrom cipherdag import CausalGraph\n"
        "graph = CausalGraph.from_edges('ab', ['ab'])\n"
        "graph.to_networkx(), graph.to_dowhy(), graph.to_bnlearn(), graph.to_dagitty()\n"
        "print({'pgmpy', 'causallearn', 'dowhy', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# dagitty and R


@given(pags())
def test_dagitty_is_given_every_mark(graph):
    kind, names, edges = read_dagitty(graph.to_dagitty())
    assert (kind, names) == ("pag", list(graph.nodes))
    assert PartialMixedGraph.from_marked(names, edges) == graph


@given(graphs())
def test_r_is_given_every_edge_in_plain_ascii(graph):
    if graph.is_acyclic:
        assert graph.to_bnlearn().isascii()
        assert from_bnlearn(graph.to_bnlearn()) == graph
    else:
        with pytest.raises(OutputError, match="arrows form a cycle"):
            graph.to_bnlearn()
    assert graph.to_pcalg().isascii()
    kind, names, matrix = from_pcalg(graph.to_pcalg())
    assert kind == "# amat.cpdag"
    # pcalg, help("amatType"): [a, b] = 0 and [b, a] = 1 is a --> b
    assert CausalGraph.from_arcs(names, matrix.T == 1) == graph


@given(pags())
def test_pcalg_is_given_every_mark(graph):
    kind, names, matrix = from_pcalg(graph.to_pcalg())
    assert kind == "# amat.pag"
    assert PartialMixedGraph(tuple(names), matrix) == graph


READ_IN_R = """
if (requireNamespace("bnlearn", quietly = TRUE)) {
  graph <- dget("bnlearn.R")
  cat("directed", t(bnlearn::directed.arcs(graph)), "\\n")
  cat("undirected", t(bnlearn::undirected.arcs(graph)), "\\n")
}
amat <- dget("pcalg.R")
cat("names", rownames(amat), colnames(amat), "\\n")
cat("marks", amat["Age", "BMI"], amat["BMI", "Age"], amat["T2D", "BMI"], sum(amat), "\\n")
if (requireNamespace("pcalg", quietly = TRUE)) {
  cat("valid", pcalg::isValidGraph(amat, type = "pdag"), "\\n")
}
if (requireNamespace("dagitty", quietly = TRUE)) {
  edges <- dagitty::edges(dagitty::dagitty(paste(readLines("graph.dagitty"), collapse = "\\n")))
  cat("dagitty", paste(edges$v, edges$e, edges$w), "\\n")
}
"""


def test_r_reads_what_is_written(tmp_path):
    program = shutil.which("Rscript")
    if program is None:
        pytest.skip("R is not installed")
    for name, text in (
        ("bnlearn.R", HEALTH.to_bnlearn()),
        ("pcalg.R", HEALTH.to_pcalg()),
        ("graph.dagitty", HEALTH.to_dagitty()),
        ("read.R", READ_IN_R),
    ):
        (tmp_path / name).write_text(text, "utf-8")
    done = subprocess.run(
        [program, "read.R"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = dict(line.strip().split(" ", 1) for line in done.stdout.splitlines())
    assert lines["names"] == "T2D Age BMI Sex T2D Age BMI Sex"
    assert lines["marks"] == "0 1 1 3"
    assert lines.get("directed", "Age BMI") == "Age BMI"
    assert lines.get("undirected", "BMI T2D T2D BMI") == "BMI T2D T2D BMI"
    assert lines.get("valid", "TRUE") == "TRUE"
    assert lines.get("dagitty", "Age -> BMI BMI -- T2D") == "Age -> BMI BMI -- T2D"
