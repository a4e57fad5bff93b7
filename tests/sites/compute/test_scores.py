"""Family scores, classes of graphs and local searches against independent references."""

import math
from itertools import product

import numpy as np
import pytest
from enumeration import small_dag
from exact_graphs import exact_search
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import random_dag
from regretting import MadeUpScore, every_dag, gaussian, linear_data, linear_sites

from cipherdag.errors import ParameterError, TooFewRowsError
from cipherdag.graphs.dags import (
    ancestors,
    dag_of,
    extensions,
    extensions_by_class,
    matrix_of,
    members,
    submasks,
    topological,
)
from cipherdag.graphs.equivalence import PHASES, allowed, applied, families, moves, pattern_of
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.sites.compute.scores.learners import best_graph
from cipherdag.sites.compute.scores.scores import DiscreteBic, GaussianBic, LocalScores

seeds = st.integers(0, 2**32)


def any_families(p, rng, count=40):
    drawn = []
    for _ in range(count):
        v = int(rng.integers(p))
        drawn.append((v, int(rng.integers(1 << p)) & ~(1 << v)))
    return drawn


@pytest.mark.parametrize("seed", range(5))
def test_gaussian_bic_is_that_of_least_squares(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(80, 6)) @ rng.normal(size=(6, 6)) + rng.normal(size=6) * 100
    asked = any_families(6, rng)
    scores = GaussianBic(values, device="cpu").evaluate(asked)
    for (v, own), score in zip(asked, scores, strict=True):
        parents = list(members(own))
        design = np.column_stack([np.ones(80), values[:, parents]])
        residual = values[:, v] - design @ np.linalg.lstsq(design, values[:, v], rcond=None)[0]
        share = residual.var() / values[:, v].var()
        assert score == pytest.approx(40 * np.log(share) + 0.5 * np.log(80) * len(parents))


@pytest.mark.parametrize("seed", range(5))
def test_discrete_bic_is_that_of_the_counts(seed):
    rng = np.random.default_rng(seed)
    levels = [2, 3, 4, 2, 5]
    codes = np.column_stack([rng.integers(0, k, 60) for k in levels]).astype(np.int32)
    asked = any_families(5, rng, 25)
    scores = DiscreteBic(codes, levels, device="cpu").evaluate(asked)
    for (v, own), score in zip(asked, scores, strict=True):
        parents = list(members(own))
        likelihood, configurations = 0.0, 1
        for values in product(*(range(levels[u]) for u in parents)):
            rows = codes[(codes[:, parents] == values).all(axis=1), v]
            counts = np.bincount(rows, minlength=levels[v])
            likelihood += sum(n * math.log(n / len(rows)) for n in counts if n)
        for u in parents:
            configurations *= levels[u]
        cost = 0.5 * math.log(60) * (levels[v] - 1) * configurations
        assert score == pytest.approx(cost - likelihood)


def test_large_tables_are_renumbered_without_changing_the_score():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 40, (200, 5)).astype(np.int32)
    score = DiscreteBic(codes, [40] * 5, device="cpu").evaluate([(0, 0b11110)])[0]
    assert score == pytest.approx(0.5 * math.log(200) * 39 * 40**4 - 0.0, rel=1e-9)


def test_the_same_family_has_the_same_bits_whatever_is_asked_with_it():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(100, 7))
    codes = rng.integers(0, 3, (100, 7)).astype(np.int32)
    for score in (GaussianBic(values, device="cpu"), DiscreteBic(codes, [3] * 7, device="cpu")):
        asked = any_families(7, rng, 60)
        together = score.evaluate(asked)
        alone = [score.evaluate([family])[0] for family in asked]
        assert together.tolist() == alone


def test_constant_determined_and_missing_values(caplog):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(50, 4))
    values[:, 1] = 7.0
    values[:, 3] = 2 * values[:, 0]
    score = GaussianBic(values, device="cpu")
    cost = 0.5 * math.log(50)
    found = score.evaluate([(1, 0), (1, 0b1), (0, 0b10), (0, 0b1000), (0, 0b1010), (2, 0b1001)])
    assert found[:3] == pytest.approx([0.0, cost, cost], abs=1e-9)
    assert found[3] == pytest.approx(25 * math.log(1e-12) + cost)
    assert np.isfinite(found).all()
    gaps = values.copy()
    gaps[10:, 2] = np.nan
    with_gaps = GaussianBic(gaps, device="cpu").evaluate([(0, 0b100)])
    (said,) = caplog.messages
    assert said == "40 of 50 rows miss a value; scores leave them out"
    assert with_gaps == GaussianBic(values[:10], device="cpu").evaluate([(0, 0b100)])
    with pytest.raises(TooFewRowsError):
        GaussianBic(np.full((5, 2), np.nan), device="cpu")
    with pytest.raises(TooFewRowsError):
        DiscreteBic(np.full((5, 2), -1, dtype=np.int32), [2, 2], device="cpu")


def test_bic_is_the_same_for_equivalent_graphs():
    _, tables = linear_sites(5, 1, 300, 3)
    scores = gaussian(tables)[0]
    by_class = {}
    for dag in every_dag(5)[::97]:
        by_class.setdefault(pattern_of(dag), []).append(scores.total(dag))
    assert all(max(own) - min(own) < 1e-6 for own in by_class.values())


@given(seed=seeds)
def test_the_pattern_of_a_dag_is_its_cpdag(seed):
    matrix, _ = small_dag(seed, largest=8)
    pattern = pattern_of(dag_of(matrix))
    p = len(matrix)
    arcs = np.zeros((p, p), dtype=bool)
    for v in range(p):
        arcs[list(members(pattern.parents[v])), v] = True
        arcs[list(members(pattern.neighbours[v])), v] = True
        assert all(pattern.parents[u] >> v & 1 for u in members(pattern.children[v]))
    assert (arcs == cpdag_of(matrix)).all()


@given(seed=seeds)
def test_dags_as_masks(seed):
    matrix, _ = small_dag(seed, largest=7)
    dag = dag_of(matrix)
    assert (matrix_of(dag) == matrix).all()
    reach = np.linalg.matrix_power(np.eye(len(dag)) + matrix, len(dag)) > 0
    p = range(len(dag))
    above = [sum(1 << u for u in p if u != v and reach[u, v]) for v in p]
    assert ancestors(dag) == above
    order = topological(dag)
    assert all(order.index(u) < order.index(v) for u, v in np.argwhere(matrix).tolist())
    free = [(u, v) for u, v in np.argwhere(~reach.T & ~matrix).tolist() if u != v]
    grown = [np.argwhere(matrix_of(g) & ~matrix).tolist() for g in extensions(dag)]
    assert sorted(grown) == sorted([[u, v]] for u, v in free)


@given(seed=seeds)
def test_extensions_share_a_key_where_they_are_markov_equivalent(seed):
    matrix, rng = small_dag(seed, largest=7)
    patterns = {}
    for base in (dag_of(matrix), dag_of(random_dag(len(matrix), 1.0, rng))):
        found = list(extensions_by_class(base))
        assert [dag for dag, _ in found] == list(extensions(base))
        for dag, key in found:
            assert patterns.setdefault(key, pattern_of(dag)) == pattern_of(dag)
    assert len(set(patterns.values())) == len(patterns)


def test_a_directed_cycle_has_no_order():
    with pytest.raises(ValueError):
        topological((0b10, 0b01))


def reachable(dag, phase):
    """All classes that a changed edge of any DAG of the class makes, by brute force."""
    own = pattern_of(dag)
    found = set()
    for other in every_dag(len(dag)):
        if pattern_of(other) != own:
            continue
        if phase == "insert":
            near = list(extensions(other))
        else:
            near = []
            for v in range(len(dag)):
                for u in members(other[v]):
                    less = (*other[:v], other[v] ^ 1 << u, *other[v + 1 :])
                    if phase == "delete":
                        near.append(less)
                    elif not ancestors(less)[v] >> u & 1:
                        near.append((*less[:u], less[u] | 1 << v, *less[u + 1 :]))
        found |= {pattern_of(g) for g in near}
    return found - {own}


@pytest.mark.parametrize("phase", PHASES)
def test_moves_lead_to_every_neighbouring_class_and_nowhere_else(phase):
    for dag in {pattern_of(g): g for g in every_dag(4)}.values():
        pattern = pattern_of(dag)
        reached = set()
        for move in moves(pattern, phase):
            if not allowed(pattern, move):
                continue
            other = applied(pattern, move)
            if other is not None:
                topological(other)
                reached.add(pattern_of(other))
        assert reached - {pattern} == reachable(dag, phase)


@settings(max_examples=30)
@given(seed=seeds)
def test_the_gain_of_a_move_is_the_difference_of_the_two_graphs(seed):
    matrix, rng = small_dag(seed, largest=6)
    dag = dag_of(matrix)
    values = linear_data(dag, rng.normal(size=matrix.shape), 60, rng)
    scores = LocalScores(GaussianBic(values, device="cpu"))
    pattern = pattern_of(dag)
    for phase in ("insert", "delete"):
        for move in moves(pattern, phase):
            if allowed(pattern, move) and (other := applied(pattern, move)) is not None:
                new, old = families(pattern, move)
                gain = scores.of(old) - scores.of(new)
                assert gain == pytest.approx(scores.total(dag) - scores.total(other), abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_the_exact_search_finds_the_best_dag(seed):
    rng = np.random.default_rng(seed)
    made_up = LocalScores(MadeUpScore(4, rng))
    scores = made_up if seed % 2 else gaussian(linear_sites(4, 1, 90, seed)[1])[0]
    best = exact_search(scores)
    topological(best)
    assert scores.total(best) == pytest.approx(min(map(scores.total, every_dag(4))), abs=1e-9)


@pytest.mark.parametrize("learnt", [best_graph, exact_search])
def test_local_searches_find_a_planted_class(learnt):
    rng = np.random.default_rng(11)
    for _ in range(3):
        dag = dag_of(random_dag(6, 2.0, rng))
        weights = rng.uniform(0.6, 1.2, (6, 6))
        scores = LocalScores(GaussianBic(linear_data(dag, weights, 20_000, rng), device="cpu"))
        found = learnt(scores)
        assert scores.total(found) <= scores.total(dag) + 1e-6
        assert pattern_of(found) == pattern_of(dag)


@pytest.mark.parametrize("seed", range(4))
def test_ges_ends_where_causal_learn_ends_or_better(seed):
    from causallearn.search.ScoreBased.GES import ges

    rng = np.random.default_rng(seed)
    dag = dag_of(random_dag(8, 2.5, rng))
    values = linear_data(dag, rng.uniform(0.5, 1.5, (8, 8)), 500, rng)
    ours = gaussian([values])[0]
    graph = ges(values, parameters={"lambda_value": 0.5})["G"].graph
    arcs = (graph.T == 1) | ((graph == -1) & (graph.T == -1))
    from extensions import consistent_extension

    theirs = consistent_extension(arcs)
    assert ours.total(best_graph(ours)) <= ours.total(dag_of(theirs)) + 1e-6


def test_subsets_of_a_mask():
    assert list(submasks(0b101)) == [0, 0b1, 0b100, 0b101]
    assert list(submasks(0)) == [0]


def test_spending_may_refuse():
    def spend(count):
        if count > 2:
            raise ParameterError("too many")

    scores = LocalScores(MadeUpScore(4, np.random.default_rng(0)), spend)
    scores.evaluate([(0, 0), (1, 0), (0, 0)])
    with pytest.raises(ParameterError):
        scores.evaluate([(2, 0), (3, 0), (1, 1)])
