"""Adjustment sets against definitions: linear models, discrete networks, all DAGs of a class."""

from functools import cache
from itertools import permutations

import numpy as np
import pytest
from enumeration import every_extension
from linear_effects import (
    BinaryNetwork,
    Criterion,
    LinearModel,
    minimal,
    reached,
    subsets,
    triangular_dags,
)
from oracle import random_dag

from cipherdag.graphs.dags import mask_of, members
from cipherdag.graphs.identification.criteria import Adjustment
from cipherdag.graphs.identification.maximal import maximal_pattern, possible_descendants
from cipherdag.graphs.orientation import cpdag_of, meek


def pattern(arcs):
    return maximal_pattern([str(v) for v in range(len(arcs))], arcs)


def others(p, *left_out):
    return tuple(v for v in range(p) if v not in left_out)


def a_class(rng, p=8, most=7):
    """A CPDAG, half the time directed further by true knowledge, and all DAGs of its class."""
    while True:
        dag = random_dag(p, float(rng.uniform(1.0, 3.5)), rng)
        arcs = cpdag_of(dag)
        if rng.random() < 0.5:
            known = dag & (rng.random((p, p)) < 0.3)
            arcs = meek(arcs & ~known.T, rules=(1, 2, 3, 4))
        if (arcs & arcs.T).sum() // 2 <= most:
            return arcs, list(every_extension(arcs))


@pytest.mark.parametrize("p", [2, 3, 4])
def test_in_every_dag_a_set_is_valid_iff_regression_gives_the_effect(p):
    rng = np.random.default_rng(p)
    for dag in triangular_dags(p):
        model, graph = LinearModel(dag, rng), pattern(dag)
        for x, y in permutations(range(p), 2):
            asked, criterion = Adjustment(graph, x, y), Criterion(dag, x, y)
            for given in subsets(others(p, x, y)):
                gives = np.isclose(model.coefficient(x, y, given), model.total[x, y], atol=1e-7)
                assert asked.valid(mask_of(given)) == gives == criterion(given), (dag, x, y, given)


def test_in_dags_of_five_the_criterion_gives_all_minimal_sets():
    for dag in [*triangular_dags(5)][::3]:
        graph, below = pattern(dag), reached(dag)
        for x, y in permutations(range(5), 2):
            asked, criterion = Adjustment(graph, x, y), Criterion(dag, x, y)
            valid = [given for given in subsets(others(5, x, y)) if criterion(given)]
            assert [g for g in subsets(others(5, x, y)) if asked.valid(mask_of(g))] == valid
            if not below[x, y]:
                continue
            for observed in subsets(others(5, x, y))[:: 3 + x]:
                usable = [given for given in valid if set(given) <= set(observed)]
                found = asked.minimal(mask_of(observed), 100)
                assert {tuple(members(own)) for own in found} == minimal(usable)
                assert len(found) == len(set(found))
                tried = asked.best_try(mask_of(observed))
                assert bool(asked.still_open(tried)) == (not usable)


def test_sets_give_the_effect_in_distributions_of_any_form():
    rng = np.random.default_rng(7)
    for _ in range(60):
        dag = random_dag(5, 2.5, rng)
        network, below, graph = BinaryNetwork(dag, rng), reached(dag), pattern(dag)
        for x, y in permutations(range(5), 2):
            if below[x, y]:
                for own in Adjustment(graph, x, y).minimal(31, 100):
                    given = list(members(own))
                    found = network.by_adjustment(x, y, given)
                    np.testing.assert_allclose(found, network.effect(x, y), atol=1e-12)


def test_the_optimal_set_has_the_least_variance_of_all_valid_sets():
    rng = np.random.default_rng(8)
    judged = 0
    for _ in range(400):
        dag = random_dag(6, 3.0, rng)
        x, y = rng.choice(6, 2, replace=False).tolist()
        if not reached(dag)[x, y]:
            continue
        model, asked = LinearModel(dag, rng), Adjustment(pattern(dag), x, y)
        best = asked.optimal(63)
        least = model.variance_factor(x, y, list(members(best)))
        for given in filter(Criterion(dag, x, y), subsets(others(6, x, y))):
            assert least <= model.variance_factor(x, y, given) * (1 + 1e-9)
            judged += 1
    assert judged > 300


@cache
def valid_sets(edges, p, x, y):
    """The sets that are valid in one DAG, and whether x is a cause of y there."""
    dag = np.frombuffer(edges, dtype=bool).reshape(p, p)
    sets = filter(Criterion(dag, x, y), subsets(others(p, x, y)))
    return frozenset(sets), bool(reached(dag)[x, y])


def judge(arcs, dags, x, y):
    """Hold a graph's answers against those of all its DAGs; whether some set is valid in them."""
    p, asked = len(arcs), Adjustment(pattern(arcs), x, y)
    sets, caused = zip(*(valid_sets(dag.tobytes(), p, x, y) for dag in dags), strict=True)
    valid = frozenset.intersection(*sets)
    assert {own for own in subsets(others(p, x, y)) if asked.valid(mask_of(own))} == valid
    assert bool(possible_descendants(asked.pattern, x) >> y & 1) == any(caused)
    if not any(caused):
        return False
    # one treatment: where undirected edges leave nothing open, some set is valid
    assert (asked.undirected_start is None) == bool(valid), (arcs, x, y)
    if valid:
        assert all(caused)
        everything = (1 << p) - 1
        found = {tuple(members(own)) for own in asked.minimal(everything, 1000)}
        assert found == minimal(valid)
        best = {Adjustment(pattern(dag), x, y).optimal(everything) for dag in dags}
        assert best == {asked.optimal(everything)}
        assert tuple(members(best.pop())) in valid
    return bool(valid)


def every_maximal_pdag(p):
    """Every class of DAGs but for names, directed further by all true knowledge there may be."""
    seen = set()
    for cpdag in {cpdag_of(dag).tobytes(): cpdag_of(dag) for dag in triangular_dags(p)}.values():
        for dag in every_extension(cpdag):
            for known in subsets(tuple(map(tuple, np.argwhere(dag & cpdag.T).tolist()))):
                arcs = cpdag.copy()
                for cause, effect in known:
                    arcs[effect, cause] = False
                arcs = meek(arcs, rules=(1, 2, 3, 4))
                if arcs.tobytes() not in seen:
                    seen.add(arcs.tobytes())
                    yield arcs


def test_in_every_maximal_pdag_of_four_a_set_is_valid_iff_in_all_dags():
    judged = 0
    for arcs in every_maximal_pdag(4):
        dags = list(every_extension(arcs))
        judged += sum(judge(arcs, dags, x, y) for x, y in permutations(range(4), 2))
    assert judged > 300


def test_in_cpdags_of_eight_a_set_is_valid_iff_in_all_dags():
    rng = np.random.default_rng(11)
    judged = 0
    for _ in range(200):
        arcs, dags = a_class(rng)
        caused = np.argwhere(reached(dags[0]) & ~np.eye(8, dtype=bool))
        for x, y in (rng.permutation(8)[:2], rng.choice(caused)):
            judged += judge(arcs, dags, int(x), int(y)) and len(dags) > 1
    assert judged > 40


def test_any_dag_of_the_class_serves_for_its_back_doors():
    rng = np.random.default_rng(12)
    for _ in range(40):
        arcs, dags = a_class(rng, p=6)
        for x, y in permutations(range(6), 2):
            asked = Adjustment(pattern(arcs), x, y)
            if asked.undirected_start is None and possible_descendants(asked.pattern, x) >> y & 1:
                usual = set(asked.minimal(63, 1000))
                for dag in dags:
                    in_one = Adjustment(pattern(dag), x, y)
                    assert set(in_one.minimal(63 & ~asked.forbidden, 1000)) == usual
