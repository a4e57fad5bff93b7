"""Shares of graphs: paths, sets of direct causes, and what a saved sample may be."""

import base64
import json
import zlib
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherdag import CausalGraph
from cipherdag.errors import GraphError
from cipherdag.graphs.graph_sample import GraphSample

NAMES = tuple("abcde")


def drawn(seed, n=30):
    rng = np.random.default_rng(seed)
    arcs = np.triu(rng.random((n, 5, 5)) < 0.4, 1)
    orders = rng.permuted(np.tile(np.arange(5), (n, 1)), axis=1)
    rows = np.arange(n)[:, None, None]
    return GraphSample(NAMES, arcs[rows, orders[:, :, None], orders[:, None, :]])


@given(st.integers(0, 2**32))
def test_paths_are_those_of_networkx(seed):
    sample = drawn(seed, 4)
    paths = np.zeros((5, 5))
    for arcs in sample.arcs:
        closed = nx.transitive_closure_dag(nx.from_numpy_array(arcs, create_using=nx.DiGraph))
        paths += nx.to_numpy_array(closed, nodelist=range(5))
    np.testing.assert_allclose(sample.causes, paths / 4)


def test_direct_causes_count_graphs_with_a_path_alone():
    chain, fork = np.zeros((2, 5, 5), bool)
    chain[0, 1] = chain[1, 2] = True  # a to b to c
    fork[1, 0] = fork[1, 2] = True
    sample = GraphSample(NAMES, np.array([chain, chain, fork]))
    assert sample.parents_with_path("b", "c") == Counter({("a",): 2, (): 1})
    assert sample.parents_with_path("a", "c") == Counter({(): 2})
    with pytest.raises(GraphError, match="no variable 'x'"):
        sample.parents_with_path("x", "c")


@given(st.integers(0, 2**32))
def test_a_saved_sample_is_read_as_it_was(seed):
    sample = drawn(seed)
    again = GraphSample.from_saved(NAMES, len(sample), sample.saved())
    assert np.array_equal(again.arcs, sample.arcs)


def cpdag_and_sample():
    arcs = np.zeros((3, 5, 5), bool)
    arcs[0, 0, 1] = arcs[1, 1, 0] = arcs[:2, 1, 2] = True  # a -> b -> c, a <- b -> c, nothing
    graph = CausalGraph.from_edges(NAMES, [("b", "c")], undirected=[("a", "b")])
    return graph, GraphSample(NAMES, arcs)


@pytest.mark.parametrize("two_arcs", [False, True])
def test_networkx_has_shares_of_edges_arrows_and_causes(two_arcs):
    graph, sample = cpdag_and_sample()
    made = graph.to_networkx(sample=sample, two_arcs=two_arcs)
    assert made.edges["a", "b"]["in_graphs"] == pytest.approx(2 / 3)
    assert made.edges["a", "b"]["arrow_in_graphs"] == pytest.approx(1 / 3)
    assert made.edges["b", "c"]["arrow_in_graphs"] == pytest.approx(2 / 3)
    assert made.graph["causes"]["a"]["c"] == pytest.approx(1 / 3)
    assert made.graph["causes"]["c"] == dict.fromkeys("abde", 0.0)
    assert CausalGraph.from_networkx(made) == graph
    assert "causes" not in graph.to_networkx(two_arcs=two_arcs).graph


def test_graphml_has_the_shares_and_is_read_again():
    graph, sample = cpdag_and_sample()
    read = nx.parse_graphml(graph.to_graphml(sample=sample))
    assert read.edges["b", "a"]["arrow_in_graphs"] == pytest.approx(1 / 3)
    assert json.loads(read.graph["causes"])["b"]["c"] == pytest.approx(2 / 3)
    assert CausalGraph.from_networkx(read) == graph
    assert "in_graphs" not in graph.to_graphml()


@pytest.mark.parametrize(
    "text",
    [
        "%",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"short")).decode(),
        base64.b64encode(zlib.compress(bytes(10**8))).decode(),
    ],
    ids=["no base64", "no zlib", "too short", "a bomb"],
)
def test_a_sample_that_is_none_is_refused(text):
    with pytest.raises(GraphError):
        GraphSample.from_saved(NAMES, 30, text)


def test_a_sample_of_too_many_graphs_is_refused():
    with pytest.raises(GraphError, match="1 to 10000 graphs"):
        GraphSample.from_saved(NAMES, 10**9, drawn(0).saved())
