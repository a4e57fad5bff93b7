"""Graphs that fit one matrix: tables and chains against all graphs, and what knowledge allows."""

import math
from itertools import permutations, product

import numpy as np
import pytest

from cipherdag.algorithms.fedboss import graph_draws
from cipherdag.algorithms.fedboss.graph_draws import (
    draw_graphs,
    set_scores,
    subset_sums,
    wishart_correlations,
)
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.knowledge import Constraints

ROWS = 300


def correlated(p, seed, weights=None):
    rng = np.random.default_rng(seed)
    if weights is None:
        weights = np.triu(rng.normal(0, 0.5, (p, p)) * (rng.random((p, p)) < 0.6), 1)
    rows = rng.normal(size=(ROWS, p)) @ np.linalg.inv(np.eye(p) - weights)
    return np.corrcoef(rows.T)


def family(matrix, v, parents):
    """The score of a family by a linear system, which the package does not solve."""
    p, left = len(matrix), 1.0
    if parents:
        given = list(parents)
        left -= matrix[given, v] @ np.linalg.solve(matrix[np.ix_(given, given)], matrix[given, v])
    cost = 0.5 * math.log(ROWS) * len(parents) + math.log(math.comb(p - 1, len(parents)))
    return -0.5 * ROWS * math.log(left) - cost


def all_dags(p, allowed):
    """Parents of every variable, of every DAG of which all families are allowed."""
    subsets = [
        [
            frozenset(u for u in range(p) if u != v and mask >> u & 1)
            for mask in range(1 << p)
            if not mask >> v & 1
        ]
        for v in range(p)
    ]
    for parents in product(*([s for s in subsets[v] if allowed(v, s)] for v in range(p))):
        orders = sum(
            all(parents[v] <= {*order[:k]} for k, v in enumerate(order))
            for order in permutations(range(p))
        )
        if orders:
            yield parents, orders


def orders_weighed(matrix, forbidden, needed):
    """The log weight of every order, from tables of all candidates."""
    p = len(matrix)
    sums = {}
    for v in range(p):
        candidates = np.array([u for u in range(p) if u != v])
        bits = {u: 1 << k for k, u in enumerate(candidates.tolist())}
        masks = [
            np.array([sum(bits[u] for u in bits if knowledge[u, v])])
            for knowledge in (forbidden, needed)
        ]
        scores = set_scores(matrix[None], candidates[None], v, ROWS, *masks)
        sums[v] = subset_sums(scores)[0], bits
    return {
        order: sum(sums[v][0][sum(sums[v][1][u] for u in order[:k])] for k, v in enumerate(order))
        for order in permutations(range(p))
    }


@pytest.mark.parametrize("known", [False, True], ids=["no knowledge", "knowledge"])
def test_tables_weigh_orders_as_all_dags_do(known):
    p, matrix = 4, correlated(4, 1)
    forbidden, needed = np.zeros((p, p), bool), np.zeros((p, p), bool)
    if known:
        forbidden[0, 1] = needed[2, 3] = True
    weights = orders_weighed(matrix, forbidden, needed)

    def allowed(v, parents):
        return not forbidden[[*parents], v].any() and {*np.flatnonzero(needed[:, v])} <= parents

    of_dags = [
        sum(family(matrix, v, parents[v]) for v in range(p)) + math.log(orders)
        for parents, orders in all_dags(p, allowed)
    ]
    by_orders = np.logaddexp.reduce([*weights.values()])
    assert by_orders == pytest.approx(np.logaddexp.reduce(of_dags), abs=1e-6)


def test_chains_draw_edges_as_often_as_all_dags_have_them(monkeypatch):
    p, matrix = 4, correlated(4, 5)
    monkeypatch.setattr(
        graph_draws, "wishart_correlations", lambda one, rows, draws, rng: np.array([one] * draws)
    )
    monkeypatch.setattr(graph_draws, "MOVES_EACH", 2000)
    drawn = draw_graphs(matrix, ROWS, Constraints.none(p), np.random.default_rng(2))
    shares, total = np.zeros((p, p)), 0.0
    for parents, orders in all_dags(p, lambda v, parents: True):
        weight = orders * math.exp(sum(family(matrix, v, s) for v, s in enumerate(parents)))
        total += weight
        for v in range(p):
            shares[[*parents[v]], v] += weight
    np.testing.assert_allclose(drawn.mean(axis=0), shares / total, atol=0.08)


def test_drawn_matrices_scatter_as_those_of_new_rows_do():
    matrix = correlated(3, 4)
    drawn = wishart_correlations(matrix, ROWS, 4000, np.random.default_rng(0))
    np.testing.assert_allclose(np.diagonal(drawn, axis1=1, axis2=2), 1.0, atol=1e-8)
    expected = (1 - matrix**2) / math.sqrt(ROWS)  # the error of a correlation of normal rows
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(drawn.std(axis=0)[off], expected[off], rtol=0.06)
    np.testing.assert_allclose(drawn.mean(axis=0), matrix, atol=0.01)


def test_every_graph_is_acyclic_and_obeys_knowledge():
    p, matrix = 6, correlated(6, 7)
    forbidden, required = np.zeros((p, p), bool), np.zeros((p, p), bool)
    required[5, 0] = forbidden[0, 5] = forbidden[1, 2] = True
    drawn = draw_graphs(matrix, ROWS, Constraints(forbidden, required), np.random.default_rng(3))
    assert drawn.shape == (500, p, p)
    assert drawn[:, 5, 0].all()
    assert not drawn[:, forbidden].any()
    assert not np.diagonal(GraphSample(tuple("abcdef"), drawn).causes).any()


def test_a_seed_decides_all_graphs():
    matrix, none = correlated(5, 8), Constraints.none(5)
    one, same, other = (
        draw_graphs(matrix, ROWS, none, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_a_variable_keeps_its_six_direct_causes():
    weights = np.zeros((9, 9))
    weights[:6, 8] = 0.6
    drawn = draw_graphs(
        correlated(9, 9, weights), ROWS, Constraints.none(9), np.random.default_rng(4)
    )
    assert (drawn.sum(axis=1)[:, 8] >= 6).mean() > 0.95


def test_a_copied_column_ends_no_run():
    matrix = correlated(4, 10)
    copied = np.block([[matrix, matrix[:, :1]], [matrix[:1], np.ones((1, 1))]])
    drawn = draw_graphs(copied, ROWS, Constraints.none(5), np.random.default_rng(5))
    joined = drawn | drawn.transpose(0, 2, 1)
    assert joined[:, 0, 4].mean() > 0.9
