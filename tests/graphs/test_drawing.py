"""Pictures: everything is on them, nothing overlaps, and the same graph is the same file."""

import sys
import xml.etree.ElementTree as ET
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import random_dag

from cipherdag.errors import OutputError
from cipherdag.graphs.drawing.communities import overview
from cipherdag.graphs.drawing.figure import draw, plot
from cipherdag.graphs.drawing.layout import BOX_HEIGHT, layered
from cipherdag.graphs.exports import export_graph
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.networks import asia

SVG = "{http://www.w3.org/2000/svg}"
CPDAG = asia().graph.to_cpdag()


def svg_of(graph, tmp_path, name="graph.svg"):
    draw(graph, tmp_path / name)
    return (tmp_path / name).read_bytes()


def words(svg):
    return [element.text for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_every_variable_and_edge_is_drawn(tmp_path):
    svg = svg_of(CPDAG, tmp_path)
    assert set(CPDAG.nodes) <= set(words(svg))
    assert "plain line: direction not determined" in words(svg)
    text = svg.decode("utf-8")
    assert text.count("stroke: #34495e") == len(CPDAG.directed)
    assert text.count("stroke: #c8590a") == len(CPDAG.undirected)
    assert "plain line: direction not determined" not in words(svg_of(asia().graph, tmp_path))


def test_the_same_graph_gives_the_same_bytes(tmp_path):
    one = svg_of(CPDAG, tmp_path, "one.svg")
    with mpl.rc_context({"svg.hashsalt": "other", "font.size": 30, "text.usetex": True}):
        assert svg_of(CPDAG, tmp_path, "two.svg") == one
    assert b"<dc:date>" not in one


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.pdf", "a.PNG"])
def test_formats(tmp_path, name):
    draw(CPDAG, tmp_path / name)
    start = (tmp_path / name).read_bytes()[:5]
    assert start in (b"<?xml", b"\x89PNG\r", b"%PDF-")


def test_names_of_every_kind_are_drawn_without_a_warning(tmp_path):
    names = ("$x_1$", "年龄", "<b>&", 'the "one"', "\\alpha", "🫀", "x" * 90, "%", "{", "می")
    svg = svg_of(CausalGraph.from_edges(names, [(names[0], n) for n in names[1:]]), tmp_path)
    shown = words(svg)
    assert shown[:6] == list(names[:6])
    assert shown[6] == "x" * 39 + "…"
    draw(CausalGraph.empty(names), tmp_path / "empty.png")


@pytest.mark.parametrize("graph", [CausalGraph.empty(()), CausalGraph.empty("a")])
def test_the_smallest_graphs(tmp_path, graph):
    assert words(svg_of(graph, tmp_path)) == list(graph.nodes)


def test_a_cycle_is_drawn(tmp_path):
    cycle = CausalGraph.from_edges("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    assert svg_of(cycle, tmp_path).decode().count("stroke: #34495e") == 3


def large_graph(n, degree=2.7):
    dag = random_dag(n, degree, np.random.default_rng(1))
    return CausalGraph.from_arcs([f"p{i}" for i in range(n)], dag)


def test_a_hundred_variables_are_drawn_singly_and_more_as_communities(tmp_path):
    hundred = large_graph(100)
    assert set(hundred.nodes) <= set(words(svg_of(hundred, tmp_path)))
    large = large_graph(441)
    shown = words(svg_of(large, tmp_path))
    assert set(overview(large).graph.nodes) <= set(shown)
    assert len(shown) < 60
    assert any("plain line: edges both ways" in text for text in shown)
    draw(large, tmp_path / "all.svg", most=441)
    assert set(large.nodes) <= set(words((tmp_path / "all.svg").read_bytes()))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_an_overview_loses_no_variable_and_no_edge(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    arcs = random_dag(n, float(rng.uniform(0, 3)), rng)
    arcs |= arcs.T & (rng.random(arcs.shape) < 0.3)
    graph = CausalGraph.from_arcs([f"v{i}" for i in range(n)], arcs)
    assert overview(graph, most=n).graph == graph
    shown = overview(graph, most=n - 1)
    members = [name for own in shown.members.values() for name in own]
    assert sorted(members) == sorted(graph.nodes)
    assert sum(shown.inside.values()) + sum(shown.between.values()) == len(graph.edges)
    home = {name: box for box, own in shown.members.items() for name in own}
    crossing = [e for e in graph.edges if home[e.source] != home[e.target]]
    assert {frozenset((home[e.source], home[e.target])) for e in crossing} == {
        frozenset(pair) for pair in shown.between
    }
    for a, b in shown.graph.directed:  # an arrow stands for edges that all point that way
        own = [e for e in crossing if {home[e.source], home[e.target]} == {a, b}]
        assert all(e.mark == "-->" and home[e.source] == a for e in own)


def test_communities_are_told_apart_from_variables_of_the_same_name():
    names = ("a + 2 more", "a", "b", "c")
    graph = CausalGraph.from_edges(names, [("a", "b"), ("a", "c")])
    shown = overview(graph, most=3)
    assert set(shown.members) == {"a + 2 more", "a + 2 more'"}
    assert shown.members["a + 2 more'"] == ("a", "b", "c")


def test_a_plot_is_a_figure_that_can_be_saved(tmp_path):
    figure = CPDAG.plot()
    assert {text.get_text() for text in figure.axes[0].texts} >= set(CPDAG.nodes)
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
    assert len(plot(large_graph(120), most=120).axes[0].patches) == 120


def test_the_ending_does_not_matter_where_the_format_is_named(tmp_path):
    export_graph(CPDAG, "png", tmp_path / "picture")
    assert (tmp_path / "picture").read_bytes()[:4] == b"\x89PNG"


def test_failures_say_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(OutputError, match="jpg") as caught:
        draw(CPDAG, tmp_path / "a.jpg")
    assert "svg" in caught.value.remedy
    with pytest.raises(OutputError, match="cannot be written"):
        draw(CPDAG, tmp_path / "missing" / "a.svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OutputError, match="matplotlib") as caught:
        draw(CPDAG, tmp_path / "a.svg")
    assert caught.value.remedy == "Run `pip install 'cipherdag[plot]'`."


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_layouts(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    dag = random_dag(n, float(rng.uniform(0, 3)), rng)
    if seed % 3 == 0:
        dag |= dag.T & (rng.random(dag.shape) < 0.5)
    widths = rng.uniform(20, 120, size=n).tolist()
    layout = layered(dag, widths)
    for a, b in combinations(range(n), 2):  # boxes keep clear of each other
        across, down = np.abs(layout.centres[a] - layout.centres[b])
        assert across > (widths[a] + widths[b]) / 2 or down > BOX_HEIGHT
    half = np.array([widths, [BOX_HEIGHT] * n]).T / 2
    assert (layout.centres - half >= -1e-6).all()
    assert (layout.centres + half <= np.array(layout.size) + 1e-6).all()
    for course in layout.routes.values():
        assert (course[::3] >= -1e-6).all()
        assert (course[::3] <= np.array(layout.size) + 1e-6).all()
    drawn = sorted((min(edge), max(edge)) for edge in layout.routes)
    assert drawn == sorted({(int(min(e)), int(max(e))) for e in np.argwhere(dag)})
    for (upper, lower), course in layout.routes.items():
        check_course(course, layout.centres, widths, upper, lower)
        if not dag[lower, upper]:
            assert dag[upper, lower]  # directed edges of an acyclic graph run down


def check_course(course, centres, widths, upper, lower):
    """It leaves a box below and enters a box above, vertically, and never runs upwards."""
    assert len(course) % 3 == 1
    for end, node, side in ((course[0], upper, 1), (course[-1], lower, -1)):
        assert end[1] == pytest.approx(centres[node][1] + side * BOX_HEIGHT / 2)
        assert abs(end[0] - centres[node][0]) <= widths[node] / 2
    assert course[1][0] == pytest.approx(course[0][0])
    assert course[-2][0] == pytest.approx(course[-1][0])
    assert (np.diff(course[:, 1]) > 0).all()


def test_long_edges_keep_clear_of_boxes():
    rng = np.random.default_rng(8)
    share = np.linspace(0, 1, 40)[:, None]
    for _ in range(20):
        dag = random_dag(16, 3.0, rng)
        widths = [60.0] * 16
        layout = layered(dag, widths)
        for (upper, lower), course in layout.routes.items():
            for k in range(0, len(course) - 1, 3):
                a, b, c, d = course[k : k + 4]
                points = (
                    (1 - share) ** 3 * a
                    + 3 * (1 - share) ** 2 * share * b
                    + 3 * (1 - share) * share**2 * c
                    + share**3 * d
                )
                for node in set(range(16)) - {upper, lower}:
                    across, down = np.abs(points - layout.centres[node]).T
                    assert not ((across < 30) & (down < BOX_HEIGHT / 2)).any()
