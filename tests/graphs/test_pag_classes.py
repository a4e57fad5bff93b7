"""PAGs are checked: held against every maximal ancestral graph there is, by its definition."""

from itertools import combinations, product

import numpy as np
import pytest
from ancestral import all_mags, true_pags
from hypothesis import given
from hypothesis import strategies as st
from oracle import random_dag

from cipherdag.errors import GraphError
from cipherdag.graphs.ancestral.classes import is_pag, nearest_pag, pag_of_dag, pag_of_mag
from cipherdag.graphs.ancestral.orientation import with_colliders
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL, circles
from cipherdag.graphs.pag import PAG, PartialMixedGraph, graph_of_endpoints

seeds = st.integers(0, 2**32 - 1)


def every_graph(n):
    """All marks over n variables."""
    kinds = [(NONE, NONE), *product((CIRCLE, ARROW, TAIL), repeat=2)]
    for chosen in product(kinds, repeat=n * (n - 1) // 2):
        marks = np.zeros((n, n), dtype=np.int8)
        for (a, b), kind in zip(combinations(range(n), 2), chosen, strict=True):
            marks[b, a], marks[a, b] = kind
        yield marks


def test_marks_over_three_variables_are_pags_iff_a_class_has_them():
    found = {marks.tobytes() for marks in every_graph(3) if is_pag(marks)}
    assert found == true_pags(3)


def test_every_class_over_four_variables_is_a_pag():
    assert all(is_pag(np.frombuffer(own, dtype=np.int8).reshape(4, 4)) for own in true_pags(4))


@given(seeds)
def test_marks_over_four_variables_are_pags_iff_a_class_has_them(seed):
    rng = np.random.default_rng(seed)
    own = sorted(true_pags(4))[int(rng.integers(len(true_pags(4))))]
    marks = np.frombuffer(own, dtype=np.int8).reshape(4, 4).copy()
    edges = np.argwhere(marks)
    if len(edges):
        marks[tuple(edges[rng.integers(len(edges))])] = rng.integers(1, 4)
    assert is_pag(marks) == (marks.tobytes() in true_pags(4))


@given(seeds)
def test_whatever_marks_there_are_a_pag_with_the_same_edges_comes_out(seed):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 8))
    upper = np.triu(rng.random((p, p)) < rng.uniform(0.2, 0.9), k=1)
    marks = np.where(upper | upper.T, rng.integers(1, 4, (p, p)), NONE).astype(np.int8)
    found = nearest_pag(marks)
    assert ((found != NONE) == (marks != NONE)).all()
    assert is_pag(found)
    PAG(tuple("abcdefgh"[:p]), found)


@given(seeds)
def test_a_pag_is_nearest_to_itself(seed):
    rng = np.random.default_rng(seed)
    dag = random_dag(int(rng.integers(2, 9)), 2.5, rng)
    measured = [v for v in range(len(dag)) if rng.random() < 0.7]
    true = pag_of_dag(dag, measured)
    assert is_pag(true)
    assert (nearest_pag(true) == true).all()
    assert type(graph_of_endpoints([f"v{v}" for v in measured], true)) is PAG


@given(seeds)
def test_colliders_that_tests_find_are_in_the_pag(seed):
    """No two contradict each other: neither end of an edge need be a cause."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 7))
    upper = np.triu(rng.random((p, p)) < 0.5, k=1)
    skeleton = upper | upper.T
    triples = [
        (x, y, z)
        for x, z in np.argwhere(np.triu(~skeleton, k=1)).tolist()
        for y in np.flatnonzero(skeleton[x] & skeleton[z]).tolist()
        if rng.random() < 0.5
    ]
    found = nearest_pag(with_colliders(circles(skeleton), triples))
    assert all(found[x, y] == found[z, y] == ARROW for x, y, z in triples)


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([("a", "b", "-->")], "'a' --> 'b' is 'a' o-o 'b'"),
        ([("a", "b", "-->"), ("b", "c", "-->"), ("c", "a", "-->")], "no ancestral graph"),
        ([("a", "b", "<->"), ("b", "c", "o-o")], "is '"),
    ],
)
def test_what_is_none_is_refused_by_name(edges, said):
    with pytest.raises(GraphError, match=said):
        PAG.from_marked("abc", edges)
    assert type(
        graph_of_endpoints("abc", PartialMixedGraph.from_marked("abc", edges).endpoints)
    ) is (PartialMixedGraph)


def test_the_pag_of_a_mag_is_that_of_its_class():
    for mag in all_mags(3):
        marks = np.zeros((3, 3), dtype=np.int8)
        for pair, sign in mag.items():
            marks[pair] = {">": ARROW, "-": TAIL}[sign]
        assert pag_of_mag(marks).tobytes() in true_pags(3)
