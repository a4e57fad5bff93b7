"""d-separation, open paths and separators against an oracle and all subsets."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_effects import minimal, subsets
from oracle import OracleTest, random_dag

from cipherdag import CausalGraph
from cipherdag.errors import ParameterError
from cipherdag.graphs.dags import dag_of, mask_of, members
from cipherdag.graphs.identification.criteria import (
    d_connected,
    minimal_separators,
    moral_graph,
    open_path,
)

seeds = st.integers(0, 100_000)


def a_dag(seed, largest=8):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, largest + 1))
    return random_dag(n, float(rng.uniform(0.5, n - 1)), rng), rng


def is_open(dag, path, given):
    """Whether a path is open by the definition of d-separation, triple by triple."""
    below = nx.transitive_closure(nx.from_numpy_array(dag, create_using=nx.DiGraph), reflexive=True)
    for a, b, c in zip(path, path[1:], path[2:], strict=False):
        if dag[a, b] and dag[c, b]:
            if not any(below.has_edge(b, z) for z in given):
                return False
        elif b in given:
            return False
    return True


@settings(max_examples=200)
@given(seeds)
def test_d_connection_is_the_oracle_s_and_has_an_open_path(seed):
    dag, rng = a_dag(seed)
    x, *others = rng.permutation(len(dag)).tolist()
    given = [v for v in others if rng.random() < 0.4]
    found = d_connected(dag_of(dag), x, mask_of(given))
    oracle = OracleTest(dag)
    for y in set(others) - set(given):
        assert bool(found >> y & 1) != oracle.separated(x, y, given)
        path = open_path(dag_of(dag), x, y, mask_of(given))
        assert bool(path) == bool(found >> y & 1)
        if path:
            assert (path[0], path[-1]) == (x, y)
            assert len(set(path)) == len(path)
            assert all((dag | dag.T)[a, b] for a, b in itertools.pairwise(path))
            assert is_open(dag, path, given)


@settings(max_examples=200)
@given(seeds)
def test_minimal_separators_of_a_graph_are_all_found_once(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    graph = nx.gnp_random_graph(n, float(rng.uniform(0.2, 0.8)), seed=seed)
    beside = [mask_of(graph[v]) for v in range(n)]
    s, t = rng.permutation(n)[:2].tolist()
    allowed = tuple(v for v in range(n) if v not in (s, t) and rng.random() < 0.8)
    found = list(minimal_separators(beside, s, t, mask_of(allowed)))
    cutting = [
        own
        for own in subsets(allowed)
        if not nx.has_path(graph.subgraph(set(graph) - set(own)), s, t)
    ]
    assert {tuple(members(own)) for own in found} == minimal(cutting)
    assert len(found) == len(set(found))


@settings(max_examples=100)
@given(seeds)
def test_separators_of_the_moral_graph_are_the_minimal_d_separators(seed):
    dag, rng = a_dag(seed, largest=6)
    x, y, *others = rng.permutation(len(dag)).tolist()
    oracle, allowed = OracleTest(dag), tuple(sorted(others))
    beside = moral_graph(dag_of(dag), x, y)
    found = minimal_separators(beside, x, y, mask_of(allowed))
    cutting = [own for own in subsets(allowed) if oracle.separated(x, y, own)]
    assert {tuple(members(own)) for own in found} == minimal(cutting)


def test_a_graph_says_by_name_what_is_independent():
    graph = CausalGraph.from_edges("abcd", directed=["ac", "bc", "cd"])
    assert graph.d_separated("a", "b")
    assert not graph.d_separated("a", "b", ["d"])
    assert graph.d_separated("a", "d", ["c"])
    chain = CausalGraph.from_edges("abc", undirected=["ab", "bc"])
    assert chain.d_separated("a", "c", ("b",))
    with pytest.raises(ParameterError, match="'a'"):
        graph.d_separated("a", "b", ["a"])
