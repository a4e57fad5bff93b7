"""Graphs that fit one matrix: tables and chains against all graphs, and what knowledge allows."""

import math
from functools import reduce
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


def bit(v, u):
    """The bit of u among the sets of all others that may cause v."""
    return 1 << (u - (u > v))


def members(v, p, mask):
    return [u for u in range(p) if u != v and mask & bit(v, u)]


def by_dags(matrix, forbidden, needed):
    """Shares of edges over all DAGs, each as often as orders go along it; log weight; number."""
    p, n_sets = len(matrix), 1 << (len(matrix) - 1)
    scores, sets = np.full((p, n_sets), -np.inf), np.arange(n_sets)
    for v, mask in product(range(p), range(n_sets)):
        parents = members(v, p, mask)
        if not forbidden[parents, v].any() and {*np.flatnonzero(needed[:, v])} <= {*parents}:
            scores[v, mask] = family(matrix, v, parents)
    orders = np.zeros((n_sets,) * p, np.int16)  # along which all edges go; none of a cycle
    for order in permutations(range(p)):
        before = [sum(bit(v, u) for u in order[: order.index(v)]) for v in range(p)]
        orders += reduce(np.multiply.outer, (sets & ~mask == 0 for mask in before))
    tops = scores.max(axis=1)
    weights = orders * reduce(np.multiply.outer, np.exp(scores - tops[:, None]))
    shares = np.zeros((p, p))
    for u, v in permutations(range(p), 2):
        shares[u, v] = weights.take(np.flatnonzero(sets & bit(v, u)), axis=v).sum()
    total = weights.sum()
    return shares / total, math.log(total) + tops.sum(), np.count_nonzero(weights)


def by_orders(matrix, forbidden, needed):
    """The same shares and weight from the package's tables of all candidates, order by order."""
    p, tables = len(matrix), []
    for v in range(p):
        masks = [
            np.array([sum(bit(v, u) for u in np.flatnonzero(one[:, v]))])
            for one in (forbidden, needed)
        ]
        candidates = np.array([[u for u in range(p) if u != v]])
        scores = set_scores(matrix[None], candidates, v, ROWS, *masks)
        tables.append((scores[0], subset_sums(scores)[0]))
    found = []
    for order in permutations(range(p)):
        shares, weight, sets = np.zeros((p, p)), 0.0, np.arange(1 << (p - 1))
        for k, v in enumerate(order):
            before = sum(bit(v, u) for u in order[:k])
            scores, sums = tables[v]
            weight += sums[before]
            if np.isneginf(weight):
                break
            fits = np.where(sets & ~before == 0, np.exp(scores - sums[before]), 0.0)
            for u in order[:k]:
                shares[u, v] = fits[sets & bit(v, u) > 0].sum()
        found.append((weight, shares))
    logs = np.array([weight for weight, _ in found])
    total = np.logaddexp.reduce(logs)
    return np.tensordot(np.exp(logs - total), np.array([one for _, one in found]), 1), total


@pytest.mark.parametrize("known", [False, True], ids=["no knowledge", "knowledge"])
@pytest.mark.parametrize(("p", "n_dags"), [(2, 3), (3, 25), (4, 543), (5, 29_281)])
def test_tables_sum_over_orders_what_all_dags_weigh(p, n_dags, known, monkeypatch):
    monkeypatch.setattr(graph_draws, "on_grid", lambda numbers: numbers)  # its step is 1e-9
    matrix, forbidden, needed = correlated(p, 1), np.zeros((p, p), bool), np.zeros((p, p), bool)
    if known:
        forbidden[0, 1], needed[-2, -1] = True, p > 2
    expected, weight, counted = by_dags(matrix, forbidden, needed)
    shares, total = by_orders(matrix, forbidden, needed)
    assert total == pytest.approx(weight, abs=1e-10, rel=0)
    np.testing.assert_allclose(shares, expected, rtol=0, atol=1e-10)
    assert counted < n_dags if known else counted == n_dags


def test_rounding_of_tables_moves_shares_by_next_to_nothing():
    matrix, nothing = correlated(5, 1), np.zeros((5, 5), bool)
    shares, _ = by_orders(matrix, nothing, nothing)
    np.testing.assert_allclose(shares, by_dags(matrix, nothing, nothing)[0], rtol=0, atol=1e-8)


def test_chains_draw_edges_as_often_as_all_dags_have_them(monkeypatch):
    p, matrix, nothing = 4, correlated(4, 5), np.zeros((4, 4), bool)
    monkeypatch.setattr(
        graph_draws, "wishart_correlations", lambda one, rows, draws, rng: np.array([one] * draws)
    )
    monkeypatch.setattr(graph_draws, "MOVES_EACH", 2000)
    drawn = draw_graphs(matrix, ROWS, Constraints.none(p), np.random.default_rng(2))
    shares, _, _ = by_dags(matrix, nothing, nothing)
    np.testing.assert_allclose(drawn.mean(axis=0), shares, atol=0.08)


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
