"""PAGs by name: marks, words, exports, drawings, and the distance to a true one."""

import re
from collections import Counter
from itertools import product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.errors import GraphError
from cipherdag.graphs.drawing.communities import overview
from cipherdag.graphs.drawing.figure import picture_file
from cipherdag.graphs.drawing.picture import graph_picture, overview_picture
from cipherdag.graphs.endpoints import ARROW, CIRCLE, TAIL
from cipherdag.graphs.exports import EXPORTS
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.metrics import compare_pags
from cipherdag.graphs.pag import PAG, PartialMixedGraph

CLINIC = PartialMixedGraph.from_marked(
    ["Smoking", "Income", "Asthma", "Cough", "Ward"],
    [
        ("Income", "Smoking", "o->"),
        ("Smoking", "Cough", "-->"),
        ("Cough", "Asthma", "<->"),
        ("Ward", "Income", "o-o"),
    ],
)


@st.composite
def pags(draw, largest=6):
    n = draw(st.integers(1, largest))
    marks = np.zeros((n, n), dtype=np.int8)
    for i, j in product(range(n), repeat=2):
        if i < j and draw(st.booleans()):
            marks[i, j], marks[j, i] = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    names = draw(st.lists(st.text("ab,\"'é-", min_size=1), min_size=n, max_size=n, unique=True))
    return PartialMixedGraph(tuple(names), marks)


@given(pags())
def test_edges_and_csv_hold_every_mark(graph):
    assert (
        PartialMixedGraph.from_marked(
            graph.nodes, [(e.source, e.target, e.mark) for e in graph.edges]
        )
        == graph
    )
    assert PartialMixedGraph.from_csv(graph.to_csv(), nodes=graph.nodes) == graph
    assert len(graph.edges) == graph.skeleton().sum() // 2
    assert (graph.skeleton() == (graph.arcs | graph.arcs.T)).all()


@given(pags())
def test_networkx_and_graphml_hold_every_mark(graph):
    for own in (graph.to_networkx(two_arcs=True), nx.parse_graphml(graph.to_graphml())):
        marked = {
            (a, b, data["mark"])
            for a, b, data in own.edges(data=True)
            if data["mark"][0] != data["mark"][2].replace(">", "<") or a < b
        }
        assert PartialMixedGraph.from_marked(graph.nodes, marked) == graph


@given(pags(), st.randoms(use_true_random=False))
def test_equal_graphs_may_have_their_names_in_another_order(graph, random):
    order = list(range(len(graph.nodes)))
    random.shuffle(order)
    other = PartialMixedGraph(
        tuple(graph.nodes[v] for v in order), graph.endpoints[np.ix_(order, order)]
    )
    assert other == graph
    assert hash(other) == hash(graph)
    assert compare_pags(other, graph).share_right == (1.0 if graph.edges else 0.0)


def test_marks_are_read_as_picture_file():
    a, b, c, d, e = (
        CLINIC.nodes.index(own) for own in ("Smoking", "Income", "Asthma", "Cough", "Ward")
    )
    assert (CLINIC.endpoints[b, a], CLINIC.endpoints[a, b]) == (ARROW, CIRCLE)
    assert (CLINIC.endpoints[a, d], CLINIC.endpoints[d, a]) == (ARROW, TAIL)
    assert CLINIC.endpoints[c, d] == CLINIC.endpoints[d, c] == ARROW
    assert CLINIC.endpoints[b, e] == CLINIC.endpoints[e, b] == CIRCLE
    assert str(CLINIC).splitlines() == [
        "Asthma <-> Cough",
        "Income o-> Smoking",
        "Income o-o Ward",
        "Smoking --> Cough",
    ]


def test_every_kind_of_edge_is_said_in_words():
    said = {edge.mark: CLINIC.describe(edge) for edge in CLINIC.edges}
    assert said["<->"].endswith("Asthma and Cough share an unmeasured cause")
    assert said["o->"].startswith("Smoking is no cause of Income")
    assert said["-->"].startswith("Smoking is a cause of Cough")
    assert len({words.format("A", "B") for words in PartialMixedGraph.meanings.values()}) == len(
        PartialMixedGraph.meanings
    )


def test_every_mark_is_drawn_at_its_end():
    lines = {(line.source, line.target): line for line in graph_picture(CLINIC).lines}
    ends = {pair: (len(own.heads), len(own.circles)) for pair, own in lines.items()}
    assert ends == {
        ("Asthma", "Cough"): (2, 0),
        ("Income", "Smoking"): (1, 1),
        ("Income", "Ward"): (0, 2),
        ("Smoking", "Cough"): (1, 0),
    }
    own, boxes = lines["Income", "Smoking"], {box.name: box for box in graph_picture(CLINIC).boxes}
    x, y = own.circles[0]
    tip = tuple(map(float, own.heads[0].split()[0].split(",")))
    for place, name in (((x, y), "Income"), (tip, "Smoking")):
        nearest = min(boxes.values(), key=lambda box: abs(box.y - place[1]))
        assert nearest.y == boxes[name].y
    svg = CLINIC._repr_html_()
    assert svg.count('class="cd-circle"') == 3
    assert svg.count('class="cd-head"') == 4
    assert b"circle: arrowhead or none" in picture_file(CLINIC, "svg")


def test_single_variables_keep_their_marks_beside_groups_and_in_files():
    assert overview(CLINIC).graph == CLINIC
    svg = picture_file(CLINIC, "svg").decode()
    assert svg.count("stroke: #1b2a41; stroke-width: 1.2") == 3  # circles
    shown = overview(CLINIC, most=3)
    assert shown.collapsed
    lines = overview_picture(shown, CLINIC).lines
    assert all(edge.mark in ("o->", "o-o") or edge in CLINIC.edges for edge in shown.graph.edges)
    assert len(lines) == len(shown.graph.edges)


def test_graphviz_draws_every_mark():
    dot = CLINIC.to_dot()
    assert '"Asthma" -> "Cough" [dir=both, arrowtail=normal, arrowhead=normal];' in dot
    assert '"Income" -> "Smoking" [dir=both, arrowtail=odot, arrowhead=normal];' in dot
    assert '"Smoking" -> "Cough";' in dot
    assert all(EXPORTS[kind](CLINIC) for kind in EXPORTS if kind != "bnlearn")
    assert CLINIC.to_dagitty().splitlines()[0] == "pag {"
    assert '"Income" @-> "Smoking"' in CLINIC.to_dagitty()
    assert Counter(re.findall(r"mark \"(.*)\"", CLINIC.to_gml()))["o-o"] == 2


def test_metrics_count_edges_and_ends():
    other = PartialMixedGraph.from_marked(
        CLINIC.nodes,
        [
            ("Smoking", "Income", "o->"),  # contrary is none: circle for arrow, arrow for circle
            ("Cough", "Smoking", "-->"),
            ("Cough", "Asthma", "<->"),
            ("Ward", "Cough", "o-o"),
        ],
    )
    own = compare_pags(other, CLINIC)
    assert (own.common, own.extra, own.miss) == (3, 1, 1)
    assert (own.right, own.contrary, own.unfounded, own.open) == (2, 2, 1, 1)
    assert own.f1 == pytest.approx(0.75)
    assert own.share_right == pytest.approx(1 / 3)
    assert "2 contrary" in str(own)
    with pytest.raises(GraphError, match="different variables"):
        compare_pags(CLINIC, PAG(("x",), np.zeros((1, 1))))


def test_the_true_pag_of_a_dag_by_name():
    dag = CausalGraph.from_edges("abcdh", directed=[("a", "b"), ("d", "c"), ("h", "b"), ("h", "c")])
    found = PAG.from_dag(dag, ["h"])
    assert str(found).splitlines() == ["a o-> b", "b <-> c", "d o-> c"]
    for graph, names in ((dag, ["x"]), (dag.to_cpdag(), ["h"]), (CausalGraph.empty("ab"), "c")):
        if not graph.is_dag or set(names) - set(graph.nodes):
            with pytest.raises(GraphError, match="from a DAG"):
                PAG.from_dag(graph, names)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([[0, 1], [0, 0]], "one end only"),
        ([[0, 4], [1, 0]], "marks are"),
        ([[1, 0], [0, 0]], "marks are"),
        ([[0, 1, 0], [1, 0, 0]], "square"),
    ],
)
def test_what_is_no_pag_is_refused(matrix, said):
    with pytest.raises(GraphError, match=said):
        PAG(("a", "b"), matrix)


def test_edges_that_cannot_be_are_refused():
    for edges, said in [
        ([("a", "b", "->")], "not one of"),
        ([("a", "c", "-->")], "'c'"),
        ([("a", "a", "-->")], "'a' to itself"),
        ([("a", "b", "-->"), ("b", "a", "o-o")], "two edges"),
    ]:
        with pytest.raises(GraphError, match=said):
            PAG.from_marked(("a", "b"), edges)
    with pytest.raises(GraphError, match="named twice"):
        PAG(("a", "a"), np.zeros((2, 2)))
    assert CIRCLE == 1
