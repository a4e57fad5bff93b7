"""Maximal PDAGs, their DAGs and the parents that are possible, against all ways to direct edges."""

import itertools
from collections import Counter

import numpy as np
import pytest
from enumeration import any_graph, arcs_of, consensus, every_extension, is_cyclic
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_effects import reached
from oracle import random_dag

from cipherdag import CausalGraph, Knowledge
from cipherdag.errors import GraphError, ParameterError
from cipherdag.graphs.dags import dag_of
from cipherdag.graphs.identification.maximal import (
    every_member,
    maximal_pattern,
    parent_counts,
    possible_descendants,
    possible_parents,
)
from cipherdag.graphs.orientation import cpdag_of, meek

seeds = st.integers(0, 100_000)


def names(arcs):
    return tuple("abcdefgh"[: len(arcs)])


def directed_further(seed):
    """A CPDAG with some true knowledge, completed, and the generator."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    dag = random_dag(n, float(rng.uniform(0.5, min(n - 1, 3.5))), rng)
    known = dag & (rng.random((n, n)) < rng.choice([0.0, 0.3]))
    return meek(cpdag_of(dag) & ~known.T, rules=(1, 2, 3, 4)), dag, rng


@settings(max_examples=300)
@given(seeds)
def test_a_graph_is_accepted_iff_it_is_what_its_dags_share(seed):
    for arcs in (any_graph(seed)[0], directed_further(seed)[0]):
        dags = list(every_extension(arcs))
        maximal = bool(dags) and bool((consensus(dags) == arcs).all())
        if maximal:
            pattern = maximal_pattern(names(arcs), arcs)
            assert set(every_member(pattern)) == {dag_of(dag) for dag in dags}
            continue
        with pytest.raises(GraphError) as caught:
            maximal_pattern(names(arcs), arcs)
        said = caught.value.message
        assert ("cycle: '" in said) == is_cyclic(arcs & ~arcs.T)
        assert ("the others direct" in said) == bool(dags)


@settings(max_examples=150)
@given(seeds)
def test_the_parents_of_ida_are_those_of_all_dags_as_often(seed):
    arcs = directed_further(seed)[0]
    pattern, dags = maximal_pattern(names(arcs), arcs), list(every_extension(arcs))
    assert len(list(every_member(pattern))) == len(dags)
    for v in range(len(arcs)):
        counts = Counter(dag_of(dag)[v] for dag in dags)
        assert parent_counts(pattern, v, 1000) == counts
        assert Counter(possible_parents(pattern, v)) == Counter(dict.fromkeys(counts, 1))
        below = {w for dag in dags for w in np.flatnonzero(reached(dag)[v])}
        assert possible_descendants(pattern, v) == sum(1 << int(w) for w in below)


def test_buckets_multiply_and_large_ones_are_not_counted():
    pairs = [(f"{i}{side}", f"{i}{other}") for i in range(12) for side, other in ("ab", "bc")]
    chains = CausalGraph.from_edges({v for pair in pairs for v in pair}, undirected=pairs)
    pattern = maximal_pattern(chains.nodes, chains.arcs)
    middle = chains.nodes.index("3b")
    assert parent_counts(pattern, middle, 3).total() == 3**12
    assert parent_counts(pattern, middle, 2) is None


def test_large_buckets_and_hubs_are_answered_without_a_count():
    nodes = [f"v{i:03}" for i in range(120)]
    path = CausalGraph.from_edges(nodes, undirected=itertools.pairwise(nodes))
    answer = path.identify("v001", "v003")
    assert [own.parents for own in answer.possibilities] == [(), ("v000",), ("v002",)]
    assert [own.n_dags for own in answer.possibilities] == [None] * 3
    star = CausalGraph.from_edges(nodes, undirected=[("v000", own) for own in nodes[1:]])
    assert len(star.identify("v000", "v001").possibilities) == 120


@settings(max_examples=150)
@given(seeds)
def test_knowledge_leaves_the_dags_that_agree_with_it(seed):
    _, dag, rng = directed_further(seed)
    cpdag = CausalGraph.from_arcs(names(dag), cpdag_of(dag))
    absent = ~dag & ~np.eye(len(dag), dtype=bool)
    required, forbidden = (edges & (rng.random(dag.shape) < 0.3) for edges in (dag, absent))
    known = Knowledge(
        required=tuple((cpdag.nodes[i], cpdag.nodes[j]) for i, j in np.argwhere(required)),
        forbidden=tuple((cpdag.nodes[i], cpdag.nodes[j]) for i, j in np.argwhere(forbidden)),
    )
    agreeing = [
        other
        for other in every_extension(cpdag.arcs)
        if not (required & ~other).any() and not (forbidden & other).any()
    ]
    assert (cpdag.with_knowledge(known).arcs == consensus(agreeing)).all()


@pytest.mark.parametrize(
    ("text", "knowledge", "error", "said"),
    [
        ("a-b", Knowledge(required=(("a", "z"),)), ParameterError, "'z'"),
        ("a-b b-c", Knowledge(required=(("a", "c"),)), GraphError, "no edge 'a' --> 'c'"),
        ("a>b", Knowledge(forbidden=(("a", "b"),)), GraphError, "has the edge 'a' --> 'b'"),
        (
            "a-b b-c",
            Knowledge(required=(("a", "b"), ("c", "b"))),
            GraphError,
            "collider that the graph rules out",
        ),
        ("a-b b-c c-d a-d", Knowledge(), GraphError, "no DAG has this graph's edges"),
        (
            "a-b b-c a-c",
            Knowledge(required=(("a", "b"), ("b", "c")), forbidden=(("a", "c"),)),
            GraphError,
            "cycle",
        ),
    ],
)
def test_knowledge_that_the_graph_contradicts_is_named(text, knowledge, error, said):
    arcs = arcs_of(text)
    with pytest.raises(error, match=said):
        CausalGraph.from_arcs(names(arcs), arcs).with_knowledge(knowledge)


def test_a_graph_that_is_not_complete_is_completed_without_knowledge():
    drawn = CausalGraph.from_edges("abc", directed=["ab"], undirected=["bc"])
    with pytest.raises(GraphError, match="'b' --> 'c'") as caught:
        drawn.identify("a", "c")
    assert "with_knowledge" in caught.value.remedy
    assert "undirected" in caught.value.message
    assert drawn.with_knowledge(Knowledge()) == CausalGraph.from_edges("abc", ["ab", "bc"])
