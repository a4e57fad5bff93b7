"""Orientation against enumeration: every DAG of a skeleton is listed and compared."""

from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from enumeration import (
    any_graph,
    arcs_of,
    consensus,
    every_extension,
    is_cyclic,
    pattern_of,
    relabelled,
    small_dag,
)
from extensions import consistent_extension
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OracleTest, random_dag

from cipherdag.errors import GraphError, ParameterError
from cipherdag.graphs.extension import acyclic_extension, extension_in_code_order
from cipherdag.graphs.orientation import (
    DENSE_UP_TO,
    colliders_by_sepset,
    colliders_in_code_order,
    compose,
    cpdag_of,
    meek,
    meek_in_code_order,
    unshielded_pairs,
)

seeds = st.integers(0, 100_000)


def orient_colliders(skeleton, sepsets):
    """Colliders by separating set, directed."""
    return colliders_in_code_order(skeleton, colliders_by_sepset(skeleton, sepsets))


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_the_oracle_answers_by_d_separation(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    dag = random_dag(n, float(rng.uniform(0, n - 1)), rng)
    graph = nx.from_numpy_array(dag, create_using=nx.DiGraph)
    oracle = OracleTest(dag)
    for _ in range(12):
        x, y, *others = rng.permutation(n)
        some = rng.permutation(others)[: int(rng.integers(0, len(others) + 1))].astype(int)
        evidence = oracle.evaluate(np.array([x]), np.array([y]), some[None, :])
        expected = nx.is_d_separator(graph, {x}, {y}, set(some.tolist()))
        assert evidence.p_value[0] == float(expected)
        assert evidence.dependence[0] == evidence.statistic[0] == 1.0 - float(expected)
        assert oracle.separated(y, x, some.tolist()) == expected


def test_the_oracle_takes_batches():
    oracle = OracleTest(arcs_of("a>b b>c"))
    nothing = np.zeros((2, 0), dtype=int)
    assert oracle.evaluate(np.array([0, 2]), np.array([2, 1]), nothing).p_value.tolist() == [0, 0]
    middle = np.array([[1]])
    assert oracle.evaluate(np.array([0]), np.array([2]), middle).p_value.tolist() == [1]
    assert oracle.n_variables == 3


def test_random_dags_have_the_expected_degree():
    rng = np.random.default_rng(0)
    dags = [random_dag(20, 3.0, rng) for _ in range(100)]
    assert not any(is_cyclic(dag) for dag in dags)
    assert np.mean([2 * dag.sum() / 20 for dag in dags]) == pytest.approx(3.0, abs=0.15)
    assert random_dag(1, 2.0, rng).shape == (1, 1)


@given(seeds)
def test_unshielded_pairs(seed):
    arcs, _ = any_graph(seed, largest=7)
    pairs = unshielded_pairs(arcs)
    adjacent = arcs | arcs.T
    expected = [
        [x, z]
        for x, z in combinations(range(len(arcs)), 2)
        if not adjacent[x, z] and (adjacent[x] & adjacent[z]).any()
    ]
    assert pairs.tolist() == expected
    assert pairs.shape == (len(expected), 2)
    assert pairs.dtype == np.int64


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_meek_completes_the_pattern_of_a_dag(seed):
    dag, _ = small_dag(seed)
    expected = consensus(every_extension(pattern_of(dag)))
    for found in (
        cpdag_of(dag),
        meek(pattern_of(dag)),
        meek(pattern_of(dag), rules=(1, 2, 3, 4)),
        meek_in_code_order(pattern_of(dag)),
    ):
        assert (found == expected).all()


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_meek_with_rule_4_completes_background_knowledge(seed):
    dag, rng = small_dag(seed)
    graph = cpdag_of(dag)
    known = dag & (rng.random(dag.shape) < 0.5)
    graph &= ~known.T
    expected = consensus(every_extension(graph))
    assert (meek(graph, rules=(1, 2, 3, 4)) == expected).all()


@pytest.mark.parametrize(
    ("before", "after", "rules"),
    [
        ("a>b b-c", "a>b b>c", (1,)),
        ("a>b b-c a-c", "a>b b-c a-c", (1,)),
        ("a>c c>b a-b", "a>c c>b a>b", (2,)),
        ("a-b a-c a-d c>b d>b", "a>b a-c a-d c>b d>b", (3,)),
        ("a-b a-c a-d c>d d>b", "a>b a-c a-d c>d d>b", (4,)),
        ("a>b b-c c-d d-e", "a>b b>c c>d d>e", (1, 2, 3)),
    ],
)
def test_each_of_meeks_rules(before, after, rules):
    assert (meek(arcs_of(before), rules=rules) == arcs_of(after)).all()
    others = [rule for rule in (1, 2, 3, 4) if rule not in rules]
    assert (meek(arcs_of(before), rules=others) == arcs_of(before)).all()


@given(seeds)
def test_meek_does_not_depend_on_the_order_of_variables(seed):
    arcs, rng = any_graph(seed, largest=7)
    order = rng.permutation(len(arcs))
    for rules in ((1, 2, 3), (1, 2, 3, 4)):
        completed = meek(arcs, rules=rules)
        assert (meek(relabelled(arcs, order), rules=rules) == relabelled(completed, order)).all()
        assert ((completed | completed.T) == (arcs | arcs.T)).all()
        assert not (completed & ~arcs).any()
        assert (meek(completed, rules=rules) == completed).all()


def code_order(arcs):
    """The original program's three loops on its own signs: -1 directed, 1 undirected."""
    n = len(arcs)
    adjacent = arcs | arcs.T
    sign = np.where(arcs, np.where(arcs.T, 1, -1), 0)
    heads_first = [(a, b) for b in range(n) for a in range(n)]

    def direct(a, b):
        sign[a, b], sign[b, a] = -1, 0

    while True:
        before = sign.copy()
        for a, b in [(a, b) for a, b in heads_first if sign[a, b] == -1]:
            for c in range(n):
                if sign[b, c] == 1 and not adjacent[a, c]:
                    direct(b, c)
        for a, b in [(a, b) for a, b in heads_first if sign[a, b] == 1]:
            if any(sign[a, c] == -1 and sign[c, b] == -1 for c in range(n)):
                direct(a, b)
        for a, b in [(a, b) for a, b in heads_first if sign[a, b] == 1]:
            middle = [c for c in range(n) if sign[a, c] == 1 and sign[c, b] == -1]
            if any(not adjacent[c, d] for c, d in combinations(middle, 2)):
                direct(a, b)
        if (sign == before).all():
            return sign != 0


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_meek_in_code_order_follows_the_loops(seed):
    arcs, _ = any_graph(seed, largest=7)
    assert (meek_in_code_order(arcs) == code_order(arcs)).all()


def test_contradictions_stay_open_or_go_by_code_order():
    arcs = arcs_of("a>b b-c d>c")
    assert (meek(arcs) == arcs).all()
    assert (meek_in_code_order(arcs) == arcs_of("a>b b>c d>c")).all()


def test_meek_refuses_unknown_rules_and_what_is_no_graph():
    with pytest.raises(ParameterError, match="5"):
        meek(arcs_of("a-b"), rules=(1, 5))
    with pytest.raises(GraphError, match="itself"):
        meek(np.eye(3))
    with pytest.raises(GraphError, match="square"):
        meek(np.zeros((2, 3)))
    for wrong in ("a-b", "a>b b>c c>a"):
        with pytest.raises(GraphError, match="DAG"):
            cpdag_of(arcs_of(wrong))


@given(seeds)
def test_true_separating_sets_give_the_true_pattern(seed):
    rng = np.random.default_rng(seed)
    dag = random_dag(int(rng.integers(3, 9)), 2.5, rng)
    oracle, sepsets = OracleTest(dag), {}
    for x, z in unshielded_pairs(dag).tolist():
        parents = (np.flatnonzero(dag[:, v]).tolist() for v in (x, z))
        sepsets[x, z] = next(frozenset(s) for s in parents if oracle.separated(x, z, s))
    found = orient_colliders(dag | dag.T, sepsets)
    assert (found == pattern_of(dag)).all()
    assert (meek(found) == cpdag_of(dag)).all()


def test_ambiguous_pairs_are_no_colliders():
    skeleton = arcs_of("a-b b-c")
    assert (orient_colliders(skeleton, {(0, 2): None}) == skeleton).all()
    assert (orient_colliders(skeleton, {(0, 2): frozenset({1})}) == skeleton).all()
    assert (orient_colliders(skeleton, {(0, 2): frozenset()}) == arcs_of("a>b c>b")).all()


def test_a_later_collider_turns_arrows_of_an_earlier_one():
    both = {(0, 2): frozenset(), (1, 3): frozenset()}  # wants a>b<c and b>c<d
    assert (orient_colliders(arcs_of("a-b b-c c-d"), both) == arcs_of("a>b b>c d>c")).all()


@given(seeds)
def test_overwriting_follows_the_original_visit(seed):
    arcs, rng = any_graph(seed, largest=7)
    skeleton = arcs | arcs.T
    n = len(skeleton)
    sepsets = {
        (x, z): None if rng.random() < 0.2 else frozenset(np.flatnonzero(rng.random(n) < 0.4))
        for x, z in unshielded_pairs(skeleton).tolist()
    }
    expected = skeleton.copy()
    for y, x, z in product(range(n), repeat=3):
        if x == z or not (skeleton[x, y] and skeleton[y, z]) or skeleton[x, z]:
            continue
        sepset = sepsets[min(x, z), max(x, z)]
        if sepset is not None and y not in sepset:
            expected[x, y] = expected[z, y] = True
            expected[y, x] = expected[y, z] = False
    assert (orient_colliders(skeleton, sepsets) == expected).all()


def test_colliders_refuse_what_is_missing():
    with pytest.raises(GraphError, match=r"\(0, 2\)"):
        orient_colliders(arcs_of("a-b b-c"), {})


def test_empty_and_single():
    for n in (0, 1, 4):
        nothing = np.zeros((n, n), dtype=bool)
        for step in (meek, meek_in_code_order, cpdag_of, consistent_extension, acyclic_extension):
            assert (step(nothing) == nothing).all()
        assert (extension_in_code_order(nothing) == nothing).all()
        assert unshielded_pairs(nothing).shape == (0, 2)


def test_inputs_are_left_as_they_are():
    arcs = arcs_of("a>b b-c d>c c-e").copy()
    before = arcs.copy()
    for step in (meek, meek_in_code_order, consistent_extension, acyclic_extension):
        step(arcs)
    extension_in_code_order(arcs)
    orient_colliders(arcs | arcs.T, dict.fromkeys(map(tuple, unshielded_pairs(arcs).tolist())))
    assert (arcs == before).all()


@pytest.mark.parametrize(("inside", "beside"), [(0.01, 0.5), (0.5, 0.01), (0.0, 0.3), (0.02, 0.02)])
def test_large_graphs_compose_as_matrices_do(inside, beside):
    rng = np.random.default_rng(0)
    p = DENSE_UP_TO + 20
    first, second = rng.random((p, p)) < inside, rng.random((p, p)) < beside
    wanted = first.astype(np.int64) @ second.astype(np.int64) > 0
    assert (compose(first, second) == wanted).all()


def test_meek_of_a_large_graph_is_that_of_its_small_parts():
    """Parts of 40 variables that no edge joins."""
    rng = np.random.default_rng(1)
    parts, found = [], []
    for _ in range(8):
        dag = np.triu(rng.random((40, 40)) < 0.1, k=1)
        adjacent = dag | dag.T
        colliders = [
            (x, y, z)
            for x, z in unshielded_pairs(adjacent).tolist()
            for y in np.flatnonzero(dag[x] & dag[z]).tolist()
        ]
        sure = [own for own in colliders if rng.random() < 0.7]
        arcs = colliders_in_code_order(adjacent, sure)
        parts.append(arcs)
        found.append(meek(arcs))
    whole, wanted = np.zeros((2, 320, 320), dtype=bool)
    for number, (arcs, own) in enumerate(zip(parts, found, strict=True)):
        place = slice(40 * number, 40 * number + 40)
        whole[place, place], wanted[place, place] = arcs, own
    assert len(whole) > DENSE_UP_TO
    assert (meek(whole) == wanted).all()
