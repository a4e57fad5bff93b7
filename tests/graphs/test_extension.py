"""DAG extensions against enumeration of every direction of every edge."""

import networkx as nx
import numpy as np
import pytest
from enumeration import any_graph, arcs_of, colliders_of, every_extension, is_cyclic, relabelled
from extensions import consistent_extension
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import random_dag

from cipherdag.graphs.extension import (
    acyclic_extension,
    topological_order,
)
from cipherdag.graphs.orientation import cpdag_of

seeds = st.integers(0, 100_000)


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_a_consistent_extension_is_found_exactly_where_there_is_one(seed):
    arcs, _ = any_graph(seed)
    every = list(every_extension(arcs))
    found = consistent_extension(arcs)
    assert (found is not None) == bool(every)
    if found is not None:
        assert any((found == dag).all() for dag in every)


@given(seeds)
def test_extensions_of_a_cpdag_have_that_cpdag(seed):
    rng = np.random.default_rng(seed)
    cpdag = cpdag_of(random_dag(int(rng.integers(2, 15)), 3.0, rng))
    found = consistent_extension(cpdag)
    assert found is not None
    assert (cpdag_of(found) == cpdag).all()
    extension = acyclic_extension(cpdag)
    assert (cpdag_of(extension) == cpdag).all()
    assert colliders_of(extension) == colliders_of(cpdag)


@pytest.mark.parametrize(
    "text",
    [
        "a-b b-c c-d d-a",  # a hole: every DAG of a square has a collider
        "a>b b-c d>c",  # a collider either way
        "a>b b>c c>a",
        "a-b b-c c-d d-e e-a",
        "a>b b-c c>d d-a",
    ],
)
def test_graphs_without_a_consistent_extension(text):
    assert consistent_extension(arcs_of(text)) is None
    extension = acyclic_extension(arcs_of(text))
    assert not is_cyclic(extension)


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_an_acyclic_extension_is_acyclic_and_changes_the_least(seed):
    arcs, _ = any_graph(seed, largest=8)
    dag = acyclic_extension(arcs)
    assert not is_cyclic(dag)
    assert not (dag & dag.T).any()
    assert ((dag | dag.T) == (arcs | arcs.T)).all()
    directed = arcs & ~arcs.T
    turned = {(int(i), int(j)) for i, j in np.argwhere(directed & ~dag)}
    added = colliders_of(dag) - colliders_of(arcs)
    assert (consistent_extension(arcs) is not None) == (not turned and not added)
    # only edges on a directed cycle are turned, and at most half of those
    graph = nx.from_numpy_array(directed, create_using=nx.DiGraph)
    on_cycles = [c for c in nx.strongly_connected_components(graph) if len(c) > 1]
    inside = [(i, j) for i, j in graph.edges if any({i, j} <= c for c in on_cycles)]
    assert turned <= set(inside)
    assert 2 * len(turned) <= len(inside)


def test_one_edge_of_a_cycle_is_turned():
    arcs = arcs_of("a>b b>c c>d d>a d>e")
    extension = acyclic_extension(arcs)
    assert (arcs & ~extension).sum() == 1
    assert extension[3, 4]


def test_fewest_colliders_are_added_to_a_hole():
    for hole in ("a-b b-c c-d d-a", "a-b b-c c-d d-e e-a"):
        assert len(colliders_of(acyclic_extension(arcs_of(hole)))) == 1


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_helpers_of_extensions(seed):
    arcs, _ = any_graph(seed, largest=7)
    directed = arcs & ~arcs.T
    order = topological_order(directed)
    assert (order is None) == is_cyclic(directed)
    if order is not None:
        assert sorted(order) == list(range(len(arcs)))
        assert not np.tril(relabelled(directed, order)).any()
