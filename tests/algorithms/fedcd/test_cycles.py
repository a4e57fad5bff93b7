"""Fed-CD's ways out of cycles: by belief, and by the published program's orders."""

import itertools
import math

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cipherdag.algorithms.fedcd.algorithm import antisymmetric
from cipherdag.algorithms.fedcd.report import in_likeliest_order, without_cycles


def digraph(arcs):
    """The same as a networkx graph."""
    found = nx.DiGraph(list(zip(*np.nonzero(arcs), strict=True)))
    found.add_nodes_from(range(len(arcs)))
    return found


@given(st.integers(2, 7), st.integers(0, 2**31))
def test_a_graph_loses_only_what_closes_a_cycle(p, seed):
    rng = np.random.default_rng(seed)
    belief = rng.random((p, p))
    graph = belief > rng.random()
    np.fill_diagonal(graph, val=False)
    arcs, cut = without_cycles(graph, belief)
    dag = digraph(arcs)
    assert nx.is_directed_acyclic_graph(dag)
    assert arcs.sum() + len(cut) == graph.sum()
    assert not (arcs & ~graph).any()
    for edge in cut:  # each closes a cycle with edges that are believed in at least as much
        stronger = arcs & (belief >= edge.belief)
        paths = digraph(stronger)
        assert nx.has_path(paths, edge.target, edge.source)
    given_graph = digraph(graph)
    if nx.is_directed_acyclic_graph(given_graph):
        assert not cut


def drawn(p, seed):
    """A random graph without pairs of both directions, its beliefs and orientation logits."""
    rng = np.random.default_rng(seed)
    theta = antisymmetric(rng.normal(size=(p, p)))
    graph = (theta > 0) & (rng.random((p, p)) < 0.7)
    return graph, rng.random((p, p)), theta


def frames(graph):
    """The program's cycles: what lies on paths from i to the last variable that points to i < j."""
    found = []
    for i in range(len(graph)):
        back = [j for j in range(i + 1, len(graph)) if graph[j, i]]
        if back:
            paths = nx.all_simple_paths(digraph(graph), i, max(back))
            nodes = sorted(set().union(*map(set, paths)))
            if nodes and nodes not in found:
                found.append(nodes)
    return found


def as_the_program_does(graph, theta):
    """Every cycle in turn: its likeliest order replaces the orientations of its pairs."""
    sigma = 1 / (1 + np.exp(-theta))
    for nodes in frames(graph):
        best = max(
            itertools.permutations(nodes),
            key=lambda order: sum(
                math.log(sigma[u, v] + 1e-10) for u, v in itertools.combinations(order, 2)
            ),
        )
        for u, v in itertools.combinations(best, 2):
            sigma[u, v], sigma[v, u] = 1.0, 0.0
    return graph & (sigma > 0.5)


def test_orders_are_the_programs_where_its_cycles_are_apart():
    compared = 0
    for seed in range(600):
        graph, belief, theta = drawn(int(3 + seed % 4), seed)
        parts = [sorted(own) for own in nx.strongly_connected_components(digraph(graph))]
        if sorted(frames(graph)) != sorted(own for own in parts if len(own) > 1):
            continue
        compared += any(len(own) > 1 for own in parts)
        arcs, cut = in_likeliest_order(graph, belief, theta)
        assert (arcs == as_the_program_does(graph, theta)).all()
        assert {(e.source, e.target) for e in cut} == set(
            zip(*np.nonzero(graph & ~arcs), strict=True)
        )
    assert compared > 100


def score(order, theta):
    """Sum of log sigma(theta) over the pairs of an order."""
    return -sum(math.log1p(math.exp(-theta[u, v])) for u, v in itertools.combinations(order, 2))


@given(st.integers(2, 9), st.integers(0, 2**31))
def test_no_move_betters_the_order(p, seed):
    """Where every edge is believed in both ways the DAG is the order."""
    _, belief, theta = drawn(p, seed)
    arcs, cut = in_likeliest_order(~np.eye(p, dtype=bool), belief, theta)
    (order,) = nx.all_topological_sorts(digraph(arcs))
    assert len(cut) == p * (p - 1) / 2
    assert [e.belief for e in cut] == sorted((e.belief for e in cut), reverse=True)
    for v in order:
        rest = [u for u in order if u != v]
        for k in range(p):
            assert score([*rest[:k], v, *rest[k:]], theta) <= score(order, theta) + 1e-9


@given(st.integers(2, 12), st.integers(0, 2**31))
def test_no_cycle_is_left_and_without_one_no_edge_is_cut(p, seed):
    graph, belief, theta = drawn(p, seed)
    arcs, cut = in_likeliest_order(graph, belief, theta)
    assert nx.is_directed_acyclic_graph(digraph(arcs))
    assert not (arcs & ~graph).any()
    assert arcs.sum() + len(cut) == graph.sum()
    ordered = np.triu(belief > 0.5, 1)
    arcs, cut = in_likeliest_order(ordered, belief, theta)
    assert (arcs == ordered).all()
    assert not cut
