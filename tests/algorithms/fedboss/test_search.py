"""The search against brute force: trees, moves, orders and deletions, on made-up scores."""

import itertools

import numpy as np
import pytest
import statsmodels.api as sm
from driving import outcome_of
from hypothesis import given, settings
from hypothesis import strategies as st
from regretting import linear_data, linear_model

from cipherdag.algorithms.fedboss.grow_shrink import GrowShrinkTrees
from cipherdag.algorithms.fedboss.moment_scores import BITS, MomentScores
from cipherdag.algorithms.fedboss.moment_search import MomentOrder, ParentSets, best_by_moments
from cipherdag.algorithms.fedboss.order_search import OrderSearch, best_of_starts
from cipherdag.graphs.dags import mask_of, matrix_of, members, topological
from cipherdag.graphs.orientation import cpdag_of


class MadeUp:
    """A whole number for every family, drawn once; no data behind it."""

    bits, least = 0, 1

    def __init__(self, n_variables, seed):
        self.n_variables = n_variables
        rng = np.random.default_rng(seed)
        self._table = rng.integers(-99, 99, (n_variables, 1 << n_variables)).tolist()

    def score(self, v, parents):
        return self._table[v][parents]

    def grown(self, v, parents):
        free = ((1 << self.n_variables) - 1) & ~parents & ~(1 << v)
        return [(self.score(v, parents | 1 << u), u) for u in members(free)]

    def learn(self, nodes):
        del nodes
        yield from ()


class Waiting(MadeUp):
    """The same, of which nothing is known before it was asked for."""

    def __init__(self, n_variables, seed):
        super().__init__(n_variables, seed)
        self.known, self.waves = set(), 0

    def grown(self, v, parents):
        return super().grown(v, parents) if (v, parents) in self.known else None

    def learn(self, nodes):
        assert nodes, "nothing is asked for nothing"
        assert not self.known & set(nodes), "nothing is asked twice"
        self.known |= set(nodes)
        self.waves += 1
        yield from ()


def score_of(search):
    """The score of the graph of a search."""
    families = search._traces if isinstance(search, OrderSearch) else search._parents
    return sum(each.score for each in families)


def plain_trees(scores):
    nothing = [0] * scores.n_variables
    return GrowShrinkTrees(scores, nothing, nothing)


def grow_shrink(scores, v, before):
    """Algorithm 2 in the plainest way: the best addition while one gains, then the best removal."""
    parents = set()
    while True:
        gains = [(-scores.score(v, mask_of(parents | {u})), u) for u in before - parents]
        if not gains or -min(gains)[0] <= scores.score(v, mask_of(parents)):
            break
        parents.add(min(gains)[1])
    while True:
        gains = [(-scores.score(v, mask_of(parents - {u})), u) for u in parents]
        if not gains or -min(gains)[0] <= scores.score(v, mask_of(parents)):
            return scores.score(v, mask_of(parents)), mask_of(parents)
        parents.remove(min(gains)[1])


def total(scores, order):
    return sum(grow_shrink(scores, v, set(order[:k]))[0] for k, v in enumerate(order))


@given(st.integers(0, 10_000), st.integers(2, 6), st.data())
def test_a_trace_is_grow_and_shrink_and_knows_what_would_change_it(seed, p, draw):
    scores = MadeUp(p, seed)
    trees = plain_trees(scores)
    v = draw.draw(st.integers(0, p - 1))
    before = draw.draw(st.sets(st.sampled_from([u for u in range(p) if u != v])))
    trace = trees.trace(v, mask_of(before))
    assert (trace.score, trace.parents) == grow_shrink(scores, v, before)
    for u in set(range(p)) - {v}:
        other = trees.trace(v, mask_of(before ^ {u}))
        same = not (trace.grown if u in before else trace.watched) >> u & 1
        assert not same or other == trace


@given(st.integers(0, 10_000), st.integers(2, 6), st.data())
def test_the_best_move_is_the_best_of_all_places(seed, p, draw):
    scores = MadeUp(p, seed)
    order = draw.draw(st.permutations(range(p)))
    v = draw.draw(st.sampled_from(order))
    search = OrderSearch(plain_trees(scores), order)
    next(search._start(), None)
    move = search._best_move(v)
    rest = [u for u in order if u != v]
    totals = [total(scores, [*rest[:k], v, *rest[k:]]) for k in range(p)]
    assert move.gain == max(totals) - total(scores, order)
    assert totals[move.position] == max(totals)
    search._apply(v, move)
    assert score_of(search) == max(totals)
    assert score_of(search) == total(scores, list(search._order))


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_an_order_is_left_where_no_move_gains(seed, p):
    scores = MadeUp(p, seed)
    search = OrderSearch(plain_trees(scores), range(p))
    assert list(search.run(scores.least)) == []
    for v in search._order:
        rest = [u for u in search._order if u != v]
        for k in range(p):
            assert total(scores, [*rest[:k], v, *rest[k:]]) <= score_of(search)
    assert sorted(topological(search.dag)) == list(range(p))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(0, 6))
def test_waiting_for_scores_changes_nothing(seed, p, restarts):
    found = []
    for scores in (MadeUp(p, seed), waiting := Waiting(p, seed)):
        rng = np.random.default_rng(seed)
        asking = best_of_starts(plain_trees(scores), range(p), restarts, rng)
        found.append(outcome_of(asking))
    assert found[0] == found[1]
    assert waiting.waves <= len(waiting.known)


def correlations(weights, dag, rows=None, seed=0):
    """Of a linear model: exact, or of so many rows."""
    p = len(dag)
    if rows is None:
        through = np.linalg.inv(np.eye(p) - np.where(matrix_of(dag), weights, 0.0))
        covariance = through.T @ through
        scale = np.sqrt(covariance.diagonal())
        return covariance / np.outer(scale, scale)
    return np.corrcoef(linear_data(dag, weights, rows, np.random.default_rng(seed)), rowvar=False)


def by_moments(trees, order, restarts, rng):
    del order
    return best_by_moments(trees, trees.scores, restarts, rng)


both = pytest.mark.parametrize("search", [best_of_starts, by_moments])


@both
@pytest.mark.parametrize("seed", range(12))
def test_with_exact_correlations_it_finds_the_class_of_the_truth(seed, search):
    dag, weights = linear_model(9, seed)
    scores = MomentScores(correlations(weights, dag), 10**7, penalty=1.0, max_parents=12)
    rng = np.random.default_rng(seed)
    found = outcome_of(search(plain_trees(scores), range(9), 10, rng))
    assert (cpdag_of(matrix_of(found.dag)) == cpdag_of(matrix_of(dag))).all()
    assert list(found.curve) == sorted(found.curve)


def best_of_all_orders(scores, p):
    def family(v, before):
        sets = (own for k in range(len(before) + 1) for own in itertools.combinations(before, k))
        return max(scores.score(v, mask_of(own)) for own in sets)

    orders = itertools.permutations(range(p))
    return max(sum(family(v, own[:k]) for k, v in enumerate(own)) for own in orders)


@both
def test_it_finds_the_best_graph_of_five_or_one_as_good_as_it(search):
    gaps = []
    for seed in range(6):
        dag, weights = linear_model(5, seed)
        own = correlations(weights, dag, rows=200, seed=seed)
        scores = MomentScores(own, 200, penalty=1.0, max_parents=4)
        rng = np.random.default_rng(seed)
        found = outcome_of(search(plain_trees(scores), range(5), 20, rng))
        gaps.append((best_of_all_orders(scores, 5) - found.curve[-1]) / 2**BITS)
    # parents are grown greedily, so the best set may be missed, by little
    assert max(gaps) < 0.5
    assert sum(gap < 0.01 for gap in gaps) >= 5


def test_the_score_of_numbers_is_that_of_a_regression():
    dag, weights = linear_model(6, 3)
    rows = linear_data(dag, weights, 400, np.random.default_rng(3))
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    scores = MomentScores(np.corrcoef(rows, rowvar=False), 400, penalty=1.5, max_parents=5)
    alone = sm.OLS(rows[:, 2], np.ones(400)).fit().llf
    for parents in ([], [0], [1, 4], [0, 3, 5]):
        fitted = sm.OLS(rows[:, 2], sm.add_constant(rows[:, parents])) if parents else None
        likelihood = alone if fitted is None else fitted.fit().llf
        expected = likelihood - alone - 1.5 * 0.5 * np.log(400) * len(parents)
        # on a grid, so that how rows are split over sites does not show
        found = scores.score(2, mask_of(parents)) / 2**BITS
        assert found == pytest.approx(expected, abs=2.0 ** -(BITS + 1) + 1e-9)
        exact = scores.exact(2, mask_of(parents))
        assert exact == pytest.approx(expected, abs=1e-9)


@both
def test_of_two_equal_columns_one_suffices(search):
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    rows = np.column_stack([x, x, x + rng.normal(size=1000), np.zeros(1000)])
    with np.errstate(invalid="ignore"):
        own = np.corrcoef(rows, rowvar=False)
    scores = MomentScores(own, 1000, penalty=1.0, max_parents=3)
    found = outcome_of(search(plain_trees(scores), range(4), 5, rng))
    assert matrix_of(found.dag).sum() == 2
    assert found.dag[3] == 0
    assert not any(found.dag[v] >> 3 & 1 for v in range(4))


@both
def test_what_is_required_stands_and_what_is_forbidden_does_not(search):
    dag, weights = linear_model(6, 1)
    scores = MomentScores(correlations(weights, dag), 5000, penalty=1.0, max_parents=5)
    cause, effect = next((u, v) for v in range(6) for u in members(dag[v]))
    forbidden, required = [0] * 6, [0] * 6
    forbidden[effect] = 1 << cause
    required[cause] = 1 << effect
    trees = GrowShrinkTrees(scores, forbidden, required)
    rng = np.random.default_rng(0)
    order = [cause, effect, *(set(range(6)) - {cause, effect})]
    found = outcome_of(search(trees, order, 5, rng))
    assert found.dag[cause] >> effect & 1
    assert not found.dag[effect] >> cause & 1


def moments(p, seed, rows=300):
    dag, weights = linear_model(p, seed)
    own = correlations(weights, dag, rows=rows, seed=seed)
    return MomentScores(own, rows, penalty=1.0, max_parents=p)


@given(st.integers(0, 10_000), st.lists(st.integers(1, 6), max_size=20))
def test_a_regression_is_the_same_whatever_was_swept_before(seed, steps):
    rows = np.random.default_rng(seed).normal(size=(50, 7)) @ np.triu(np.ones((7, 7)))
    rows[:, 5] = -rows[:, 1]
    matrix = np.corrcoef(rows, rowvar=False)
    scores = MomentScores(matrix, 50, penalty=1.0, max_parents=6)
    mask, regression = 0, scores.regression(0)
    for u in steps:
        mask ^= 1 << u
        regression = scores.regression(0, mask, regression)
    swept = [s for s in members(mask) if not (s == 5 and mask >> 1 & 1)]
    rest = [u for u in range(7) if u not in (*swept, 1, 5)]
    coefficients = np.linalg.solve(matrix[np.ix_(swept, swept)], matrix[swept])
    left = matrix - matrix[:, swept] @ coefficients
    assert (regression.given, len(regression.swept)) == (mask, len(swept))
    assert regression.covariances[rest] == pytest.approx(left[0, rest], abs=1e-9)
    assert regression.variances[rest] == pytest.approx(left.diagonal()[rest], abs=1e-9)


@given(st.integers(0, 10_000), st.integers(3, 7), st.data())
def test_a_fit_says_which_steps_raise_the_score(seed, p, draw):
    scores = moments(p, seed)
    v = draw.draw(st.integers(0, p - 1))
    parents = mask_of(draw.draw(st.sets(st.sampled_from([u for u in range(p) if u != v]))))
    forbidden = draw.draw(st.integers(0, (1 << p) - 1)) & ~(1 << v)
    free = np.array([u != v and not forbidden >> u & 1 for u in range(p)])
    fit = scores.fit(scores.regression(v, parents), v, free)
    gains = {
        u: scores.score(v, parents ^ 1 << u) - scores.score(v, parents) for u in set(range(p)) - {v}
    }
    clear = 2  # of the grid: less may be rounding
    assert scores.settled(fit, required=0) == pytest.approx(scores.score(v, parents), abs=1)
    for u, gain in gains.items():
        if not parents >> u & 1 and abs(gain - scores.least) > clear:
            assert fit.better >> u & 1 == (gain > scores.least and not forbidden >> u & 1)
    steps = [gains[u] for u in scores.ranked(fit)]
    assert all(one >= other - clear for one, other in itertools.pairwise(steps))
    losses = {u: gains[u] for u in members(parents)}
    if losses and abs(max(losses.values()) - scores.least) > clear:
        assert (fit.worst >= 0) == (max(losses.values()) > scores.least)
    assert fit.worst < 0 or losses[fit.worst] >= max(losses.values()) - clear


@given(st.integers(0, 10_000), st.integers(3, 9), st.data())
def test_moves_never_lower_the_score_and_say_what_they_gain(seed, p, draw):
    scores = moments(p, seed)
    order = draw.draw(st.permutations(range(p)))
    sets = ParentSets(scores, [0] * p, [0] * p)
    search = MomentOrder(sets, order, least=scores.least, most_lost=scores.most_lost)
    for v in order:
        for towards, end in ((search._towards_first, 0), (search._towards_last, p)):
            before, (_, move) = score_of(search), search._best_move(v, towards(v), end)
            if move.gain >= scores.least:
                search._apply(v, move)
                assert score_of(search) == before + move.gain
        assert sorted(topological(search.dag)) == list(range(p))
    before = score_of(search)
    search.run()
    assert score_of(search) >= before
    total = sum(scores.score(*family) for family in enumerate(search.dag))
    assert score_of(search) == pytest.approx(total, abs=p)


def test_equal_seeds_give_equal_searches_whose_score_never_falls():
    outcomes = []
    for _ in range(2):
        scores, rng = moments(20, 3, rows=2000), np.random.default_rng(5)
        outcomes.append(outcome_of(by_moments(plain_trees(scores), None, 3, rng)))
    assert outcomes[0] == outcomes[1]
    assert list(outcomes[0].curve) == sorted(outcomes[0].curve)
    total = sum(scores.score(*family) for family in enumerate(outcomes[0].dag))
    assert outcomes[0].curve[-1] == total


def test_a_variable_of_many_causes_keeps_them_all():
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(5000, 15))
    rows = np.column_stack([causes, causes.sum(axis=1) + rng.normal(size=5000)])
    scores = MomentScores(np.corrcoef(rows, rowvar=False), 5000, penalty=2.0, max_parents=500)
    reached = outcome_of(by_moments(plain_trees(scores), None, 2, rng))
    assert reached.dag[15] == (1 << 15) - 1
