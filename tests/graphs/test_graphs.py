"""Causal graphs: values, edges by name, and every export read back by another program."""

import csv
import io
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pydot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_dagitty import read_dagitty
from reading_r import from_bnlearn, from_pcalg

from cipherdag.errors import GraphError, OutputError
from cipherdag.graphs.drawing.figure import PICTURES
from cipherdag.graphs.edges import Edge
from cipherdag.graphs.exports import EXPORTS, export_graph
from cipherdag.graphs.graph import CausalGraph
from cipherdag.pages.files import csv_text

ODD_NAMES = (
    'the "quoted" one',
    "comma, and; semicolon",
    "back\\slash",
    'back\\n and \\"',
    "<b>&amp;</b>",
    "Größe [cm]",
    "年龄",
    "-->",
    "$x_1$",
    "{graph}",
    "port:ne",
    " ",
    "node",
    "#1",
    "'single'",
    "می\u200cخواهم",  # noqa: RUF001
    "🫀",
)
HEALTH = CausalGraph.from_edges(
    ("T2D", "Age", "BMI", "Sex"), directed=[("Age", "BMI")], undirected=[("T2D", "BMI")]
)


@st.composite
def graphs(draw, names=ODD_NAMES):
    nodes = draw(st.lists(st.sampled_from(names), min_size=1, max_size=7, unique=True))
    kinds = st.sampled_from(["none", "none", "out", "in", "plain"])
    arcs = np.zeros((len(nodes), len(nodes)), dtype=bool)
    for i in range(len(nodes)):
        for j in range(i):
            kind = draw(kinds)
            arcs[i, j], arcs[j, i] = kind in ("out", "plain"), kind in ("in", "plain")
    return CausalGraph.from_arcs(nodes, arcs)


def test_edges_by_name_and_as_text():
    assert HEALTH.directed == (("Age", "BMI"),)
    assert HEALTH.undirected == (("BMI", "T2D"),)
    assert HEALTH.edges == (Edge("Age", "BMI", "-->"), Edge("BMI", "T2D", "---"))
    assert str(HEALTH) == "Age --> BMI\nBMI --- T2D"
    assert repr(HEALTH) == "<CausalGraph: 4 nodes, 1 directed and 1 undirected edges>"
    assert str(CausalGraph.empty("ab")) == ""
    assert "Age --&gt; BMI" in HEALTH._repr_html_()


def test_the_matrix_is_a_read_only_copy():
    matrix = np.zeros((2, 2), dtype=bool)
    graph = CausalGraph.from_arcs("ab", matrix)
    matrix[0, 1] = True
    assert graph.edges == ()
    with pytest.raises(ValueError, match="read-only"):
        graph.arcs[0, 1] = True
    with pytest.raises(AttributeError):
        graph.nodes = ("c", "d")
    values = HEALTH.to_numpy()
    values[:] = 0
    assert HEALTH.to_numpy().sum() == 3


def test_matrix_entries_read_from_row_to_column():
    assert HEALTH.to_numpy().tolist() == [[0, 0, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert (HEALTH.skeleton() == (HEALTH.arcs | HEALTH.arcs.T)).all()


@given(graphs(), st.randoms(use_true_random=False))
def test_equality_goes_by_names_and_not_by_their_order(graph, random):
    order = list(range(len(graph.nodes)))
    random.shuffle(order)
    other = CausalGraph.from_arcs([graph.nodes[i] for i in order], graph.arcs[np.ix_(order, order)])
    assert other == graph
    assert hash(other) == hash(graph)
    assert str(other) == str(graph)
    if graph.edges:
        assert CausalGraph.empty(graph.nodes) != graph
    assert CausalGraph.from_arcs([*graph.nodes, "new"], np.pad(graph.arcs, (0, 1))) != graph
    assert graph != str(graph)


@given(graphs())
def test_edges_rebuild_the_graph(graph):
    assert CausalGraph.from_edges(graph.nodes, graph.directed, graph.undirected) == graph


@pytest.mark.parametrize(
    ("directed", "undirected", "match"),
    [
        ([("Age", "Weight")], [], "'Weight'"),
        ([("Age", "Age")], [], "'Age' to itself"),
        ([("Age", "BMI"), ("Age", "BMI")], [], "two edges"),
        ([("Age", "BMI"), ("BMI", "Age")], [], "two edges"),
        ([("Age", "BMI")], [("BMI", "Age")], "two edges"),
    ],
)
def test_wrong_edges_are_named(directed, undirected, match):
    with pytest.raises(GraphError, match=match):
        CausalGraph.from_edges(("Age", "BMI"), directed, undirected)


@pytest.mark.parametrize(
    ("nodes", "matrix", "match"),
    [
        (("a", "b"), np.eye(2), "itself"),
        (("a", "b"), np.zeros((2, 3)), "square"),
        (("a", "b"), np.zeros((3, 3)), "2 names"),
        (("a", "a"), np.zeros((2, 2)), "'a'"),
        (("a", ""), np.zeros((2, 2)), "empty"),
        (("a", "b\x00"), np.zeros((2, 2)), "control"),
        (("a", "b\nc"), np.zeros((2, 2)), "control"),
        (("a", "\ud800"), np.zeros((2, 2)), "control"),
    ],
)
def test_what_is_no_graph_is_refused(nodes, matrix, match):
    with pytest.raises(GraphError, match=match):
        CausalGraph.from_arcs(nodes, matrix)


def test_kinds_of_graphs():
    chain = CausalGraph.from_edges("abc", [("a", "b"), ("b", "c")])
    collider = CausalGraph.from_edges("abc", [("a", "b"), ("c", "b")])
    cycle = CausalGraph.from_edges("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    assert chain.is_dag
    assert cycle.is_acyclic is cycle.is_dag is False
    assert HEALTH.is_acyclic
    assert not HEALTH.is_dag
    assert chain.to_cpdag().undirected == (("a", "b"), ("b", "c"))
    assert collider.to_cpdag() == collider
    for graph in (cycle, HEALTH):
        with pytest.raises(GraphError, match="DAG"):
            graph.to_cpdag()


def test_relabelling():
    assert str(HEALTH.relabel({"T2D": "Diabetes"})) == "Age --> BMI\nBMI --- Diabetes"
    assert HEALTH.relabel({"Age": "BMI", "BMI": "Age"}).directed == (("BMI", "Age"),)
    with pytest.raises(GraphError, match="'Weight'"):
        HEALTH.relabel({"Weight": "W"})
    with pytest.raises(GraphError, match="'BMI'"):
        HEALTH.relabel({"Age": "BMI"})


def from_networkx(graph):
    """Edges of a networkx graph, checking that marks and arcs agree."""
    for a, b, mark in graph.edges(data="mark"):
        assert (mark == "---") == graph.has_edge(b, a)
    return CausalGraph.from_arcs(graph.nodes, nx.to_numpy_array(graph, weight=None))


@given(graphs())
def test_networkx_and_graphml_keep_everything(graph):
    assert from_networkx(graph.to_networkx(two_arcs=True)) == graph
    assert list(graph.to_networkx().nodes) == list(graph.nodes)
    own = graph.to_networkx()
    assert own.graph["kind"] == graph.kind
    assert own.is_directed() == graph.is_dag  # no two arcs that algorithms take for a cycle
    marked = {
        (e.get("source", a), e.get("target", b), e["mark"]) for a, b, e in own.edges(data=True)
    }
    assert CausalGraph.from_marked(graph.nodes, marked) == graph
    assert from_networkx(nx.parse_graphml(graph.to_graphml())) == graph


@given(graphs())
def test_gml_keeps_everything(graph):
    assert from_networkx(nx.parse_gml(graph.to_gml())) == graph


def read_dot(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydot calls old names of its parser library
        (parsed,) = pydot.graph_from_dot_data(text)
    return parsed


def dot_name(quoted):
    assert quoted[0] == quoted[-1] == '"'
    return re.sub(r"\\(.)", r"\1", quoted[1:-1])


def from_dot(text):
    parsed = read_dot(text)
    edges = [
        (dot_name(e.get_source()), dot_name(e.get_destination()), e.get("dir"))
        for e in parsed.get_edges()
    ]
    nodes = [dot_name(n.get_name()) for n in parsed.get_nodes() if n.get_name() != "node"]
    return CausalGraph.from_edges(
        nodes,
        directed=[(a, b) for a, b, kind in edges if kind is None],
        undirected=[(a, b) for a, b, kind in edges if kind == "none"],
    )


@settings(max_examples=40)
@given(graphs())
def test_dot_keeps_everything(graph):
    assert from_dot(graph.to_dot()) == graph


def from_dagitty(text):
    """By the published grammar: a backslash escapes quotation marks only."""
    kind, names, edges = read_dagitty(text)
    graph = CausalGraph.from_marked(names, edges)
    assert kind == ("dag" if graph.is_dag else "pdag")
    return graph


@given(graphs([name for name in ODD_NAMES if name != "node" and not name.endswith("\\")]))
def test_dagitty_keeps_everything(graph):
    assert from_dagitty(graph.to_dagitty()) == graph


def test_dagitty_refuses_what_its_grammar_cannot_write():
    graph = CausalGraph.empty(("a\\", "b"))
    with pytest.raises(OutputError, match="backslash"):
        graph.to_dagitty()
    for name in ("graph", "node"):
        with pytest.raises(OutputError, match="for a setting") as caught:
            CausalGraph.empty((name, "b")).to_dagitty()
        assert caught.value.remedy.startswith("Rename the variable")
    parsed = read_dot(graph.to_dot())
    assert dot_name(parsed.get_nodes()[1].get_name()) == "a\\"


@given(graphs())
def test_csv_keeps_everything(graph):
    text = graph.to_csv()
    assert text.splitlines()[0] == "from,to,mark"
    assert CausalGraph.from_csv(text, nodes=graph.nodes) == graph
    joined = [name for name in graph.nodes if graph.skeleton()[graph.nodes.index(name)].any()]
    assert set(CausalGraph.from_csv(text).nodes) == set(joined)


FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "'=1", "''-1", '=cmd|" /C calc"!A0')


def test_no_name_in_a_csv_is_a_formula_to_a_spreadsheet():
    names = (*FORMULAS, "plain", "'quoted'", "a=b")
    graph = CausalGraph.from_marked(names, [(name, "plain", "-->") for name in FORMULAS])
    text = graph.to_csv()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[0] for row in rows[1:]] == ["'" + own.source for own in graph.edges]
    assert {row[2] for row in rows[1:]} == {"-->"}
    assert CausalGraph.from_csv(text, nodes=names) == graph
    assert set(CausalGraph.from_csv(text).nodes) == {*FORMULAS, "plain"}


def test_the_csv_of_another_program_keeps_its_apostrophes():
    graph = CausalGraph.from_csv("parent,child\n'=a,'b'\n", nodes=("'=a", "'b'"))
    assert graph.directed == (("'=a", "'b'"),)


def test_numbers_and_further_columns_of_a_csv_stay_as_they_are():
    rows = [("=a", -1.5, None, True), ("b", "-2", "---", 0), ("\tc", "d", "e=f", "'g")]
    shown = "'=a,-1.5,,True\nb,'-2,---,0\n'\tc,d,e=f,'g\n"
    assert csv_text(rows) == shown
    assert csv_text([["\r=d"]]).strip('"\n') == "'\r'=d"


READ_BACK = {
    "graphml": lambda text: from_networkx(nx.parse_graphml(text)),
    "gml": lambda text: from_networkx(nx.parse_gml(text)),
    "dot": from_dot,
    "dagitty": from_dagitty,
    "csv": lambda text: CausalGraph.from_csv(text, nodes=HEALTH.nodes),
    "bnlearn": from_bnlearn,
    "pcalg": lambda text: CausalGraph.from_arcs(from_pcalg(text)[1], from_pcalg(text)[2].T),
}
BEGINNINGS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.mark.parametrize("kind", EXPORTS)
def test_every_format_is_written_and_read_back(kind, tmp_path):
    path = tmp_path / "graph of any ending"
    export_graph(HEALTH, kind, path)
    if kind in PICTURES:
        assert path.read_bytes().startswith(BEGINNINGS[kind])
    else:
        assert READ_BACK[kind](path.read_text("utf-8")) == HEALTH
        assert getattr(HEALTH, f"to_{kind}")() == path.read_text("utf-8")


def test_the_page_on_exports_names_every_format():
    page = Path(__file__).parents[2] / "docs" / "howto" / "export.md"
    table = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
    named = [kind for line in table for kind in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert named == list(EXPORTS)


def test_an_unknown_format_names_the_known_ones(tmp_path):
    with pytest.raises(OutputError, match="'jpg'") as caught:
        export_graph(HEALTH, "jpg", tmp_path / "graph.jpg")
    assert all(kind in caught.value.remedy for kind in EXPORTS)
    with pytest.raises(OutputError, match="cannot be written"):
        export_graph(HEALTH, "csv", tmp_path / "missing" / "edges.csv")


def test_an_edge_of_another_mark_is_refused():
    with pytest.raises(GraphError, match="<->"):
        CausalGraph.from_marked("ab", [("a", "b", "<->")])


def test_csv_of_a_true_dag():
    graph = CausalGraph.from_csv("parent,child\nAge,BMI\n\nBMI,T2D\n")
    assert graph.directed == (("Age", "BMI"), ("BMI", "T2D"))
    assert graph.nodes == ("Age", "BMI", "T2D")
    bom = CausalGraph.from_csv("\ufeffFrom , to, mark,p\r\nAge,BMI, ---,0.1\r\n")
    assert bom.undirected == (("Age", "BMI"),)


def test_names_in_a_csv_are_compared_in_normal_form():
    graph = CausalGraph.from_csv("parent,child\nGro\u0308\u00dfe, BMI\n", nodes=("Größe", "BMI"))
    assert graph.directed == (("Größe", "BMI"),)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "header"),
        ("a,b\n1,2\n", "header"),
        ("from,to,mark\na,b\n", "line 2"),
        ("from,to,mark\na,b,-->\nb,c,<->\n", "line 3.*'<->'"),
        ("parent,child\na,b\nb,a\n", "two edges"),
        ("parent,child\na,a\n", "itself"),
        ('parent,child\n"a,b\n', "line"),
    ],
)
def test_wrong_csv_is_named_by_line(text, match):
    with pytest.raises(GraphError, match=match):
        CausalGraph.from_csv(text)


def test_a_csv_with_a_foreign_name():
    with pytest.raises(GraphError, match="'X'"):
        CausalGraph.from_csv("parent,child\nX,BMI\n", nodes=("BMI", "Age"))


def test_import_of_graphs_stays_light():
    code = (
        "import sys, json, cipherdag.graphs.graph, cipherdag.graphs.networks;"
        "import cipherdag.graphs.drawing.figure;"
        "print(json.dumps([m for m in ('networkx','matplotlib','pandas','torch','scipy')"
        " if m in sys.modules]))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert json.loads(done.stdout) == []
