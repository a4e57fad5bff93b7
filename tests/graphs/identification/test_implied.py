"""One independence for every pair without an edge, true of the graph, given as few as can be."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag import CausalGraph
from cipherdag.errors import GraphError


@st.composite
def dags(draw):
    p = draw(st.integers(2, 7))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    arcs = np.triu(rng.random((p, p)) < draw(st.floats(0.1, 0.8)), 1)
    order = rng.permutation(p)
    return CausalGraph.from_arcs([f"v{k}" for k in range(p)], arcs[np.ix_(order, order)])


def d_separated(graph, x, y, given):
    known = nx.DiGraph(graph.directed)
    known.add_nodes_from(graph.nodes)
    return nx.is_d_separator(known, {x}, {y}, set(given))


@settings(max_examples=150, deadline=None)
@given(graph=dags())
def test_every_missing_edge_has_a_smallest_set_that_separates(graph):
    found = graph.implied_independences()
    joined = {frozenset(pair) for pair in graph.directed}
    pairs = {frozenset(own) for own in combinations(graph.nodes, 2)}
    assert {frozenset(own[:2]) for own in found} == pairs - joined
    assert len(found) == len(pairs - joined)
    for x, y, sets in found:
        assert d_separated(graph, x, y, sets)
        others = [name for name in graph.nodes if name not in (x, y)]
        fewer = (own for size in range(len(sets)) for own in combinations(others, size))
        assert not any(d_separated(graph, x, y, own) for own in fewer)


@settings(max_examples=60, deadline=None)
@given(graph=dags())
def test_a_class_implies_what_each_of_its_dags_does(graph):
    found = graph.to_cpdag().implied_independences()
    assert all(d_separated(graph, *own) for own in found)
    own = {frozenset(own[:2]) for own in graph.implied_independences()}
    assert {frozenset(own[:2]) for own in found} == own


def test_a_graph_that_stands_for_no_dag_implies_nothing():
    cycle = CausalGraph.from_edges("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    with pytest.raises(GraphError, match="cycle"):
        cycle.implied_independences()


def test_a_written_graph_is_read_with_its_variables_without_edges():
    graph = CausalGraph.from_edges(["b", "<a>", "é,\"'"], [("b", "<a>")], [("b", "é,\"'")])
    lonely = CausalGraph.empty(["x", "=y"])
    for own in (graph, lonely):
        again = CausalGraph.loads(own.dumps())
        assert again == own
        assert again.nodes == own.nodes
    for text in ("", "{}", "[]", "nodes", '{"nodes": ["a"], "edges": [["a"]]}', "[" * 100_000):
        with pytest.raises(GraphError, match="JSON"):
            CausalGraph.loads(text)
    with pytest.raises(GraphError, match="mark"):
        CausalGraph.loads('{"nodes": ["a", "b"], "edges": [["a", "b", "->"]]}')
