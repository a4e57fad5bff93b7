"""Score tests within sites: statsmodels' scores, their level, and nothing of few rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from driving import drive
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.tools.numdiff import approx_fprime, approx_hess

from cipherdag import Federation, FedPC, Policy
from cipherdag.algorithms.evidence.kind import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.questions.coverage import Contributors, Covered
from cipherdag.questions.encodings import pack_blocks, segments
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import CITestSpec
from cipherdag.questions.scores.within_scores import WithinScores
from cipherdag.sites.answers.respondent import Respondent
from cipherdag.sites.compute.pooled.own_scores import joined
from cipherdag.sites.compute.pooled.poolable_data import PoolableData
from cipherdag.statistics.quadratic_forms import kronecker_matrices

CATEGORIES = (2, 0, 3, 0, 4, 2)
"""Variables 0, 2 and 5 are categories in no order, 4 in one, 1 and 3 are numbers."""
ORDERED = (4,)


def rows_of(rng, n, *, levels=True):
    """Rows in which all variables depend on the numbers, and levels are a site's own."""
    own = rng.normal(0.0, 1.0 if levels else 0.0, 6)
    a = rng.normal(size=n)
    b = 0.4 * a + rng.normal(size=n)
    found = np.empty((n, 6))
    found[:, 1], found[:, 3] = 5.0 + own[1] + a, 30.0 * (b + own[3])
    found[:, 0] = 0.5 * a + own[0] / 3 + rng.normal(size=n) > 0
    found[:, 2] = np.digitize(0.4 * b + rng.normal(size=n), [-0.5 + own[2] / 5, 0.6])
    found[:, 4] = np.digitize(0.4 * a + rng.normal(size=n), [-0.9, 0.1 + own[4] / 5, 1.0])
    found[:, 5] = rng.random(n) < 0.4
    return found


def site(rows, *, min_cell_size=0, categories=CATEGORIES, ordered=ORDERED):
    codes = np.where(np.isnan(rows), -1, rows).astype(np.int64)
    values = np.where(np.array(categories) == 0, rows, np.nan)
    pool = PoolableData(codes, values, categories, min_cell_size=min_cell_size, ordered=ordered)
    return Respondent(len(categories), lambda spec: None, pool=pool)


def question(tests, *, categories=CATEGORIES, ordered=ORDERED, **more):
    counts, members = pack_blocks(tests)
    return WithinScores(
        categories=categories, counts=counts, members=members, max_rows=1 << 12, ordered=ordered,
        **more,
    )  # fmt: skip


def single(triplet, **more):
    empty = [np.zeros((0, 2 + size), dtype=np.int64) for size in range(len(triplet) - 2)]
    return question([*empty, np.array([triplet])], **more)


def told(own, triplet, **more):
    """Scores (m,), covariances (m, m) and weight of one test at one site."""
    asked = single(triplet, **more)
    scores, triangle, weight = segments(asked.encodings, own.answer(asked))
    return scores, kronecker_matrices(triangle[None], len(scores), 1)[0], weight[0]


def columns(rows, variables, interactions=False):
    """A constant, numbers, and indicators of all categories but the first."""
    parts = [np.ones(len(rows))]
    for v in variables:
        if CATEGORIES[v] == 0:
            parts.append(rows[:, v])
        else:
            parts += [rows[:, v] == k for k in range(1, CATEGORIES[v])]
    return np.column_stack(parts).astype(float)


def standard(rows, z):
    """Indicators, or a number over its standard deviation."""
    found = columns(rows, [z])[:, 1:]
    return found if CATEGORIES[z] else (found - found.mean(axis=0)) / found.std(axis=0)


def efficient(gradient, information, m):
    """Scores of the last m coefficients and their covariances given the others."""
    rest = information[:-m, :-m]
    across = information[-m:, :-m]
    return gradient[-m:], information[-m:, -m:] - across @ np.linalg.solve(rest, across.T)


@pytest.mark.parametrize("triplet", [(0, 1), (0, 1, 3), (0, 3, 1, 2), (5, 2, 1), (0, 5, 3, 4)])
def test_of_two_categories_they_are_those_of_a_logistic_regression(triplet):
    rows = rows_of(np.random.default_rng(len(triplet)), 400)
    x, y, *s = triplet
    response, z = (y, x) if CATEGORIES[y] == 2 and CATEGORIES[x] != 2 else (x, y)
    small, extra = columns(rows, s), standard(rows, z)
    fit = sm.GLM(rows[:, response], small, family=sm.families.Binomial()).fit(tol=1e-12)
    score, covariance, weight = told(site(rows), triplet)
    expected = extra.T @ (rows[:, response] - fit.fittedvalues)
    np.testing.assert_allclose(score, expected, rtol=1e-5, atol=1e-5)
    statistic, p_value = fit.score_test(exog_extra=extra)
    factor = (len(rows) - small.shape[1]) / len(rows)
    own = score @ np.linalg.solve(covariance, score)
    np.testing.assert_allclose(own, statistic * factor, rtol=1e-5)
    assert weight == len(rows) - small.shape[1]
    assert len(score) == extra.shape[1]
    assert 0.0 <= p_value <= 1.0


@pytest.mark.parametrize("triplet", [(2, 1), (2, 3, 1), (1, 2, 3, 5)])
def test_of_several_categories_they_are_those_of_a_multinomial_regression(triplet):
    rows = rows_of(np.random.default_rng(7), 500)
    x, y, *s = triplet
    z = x if CATEGORIES[x] == 0 else y
    design = np.column_stack([columns(rows, s), standard(rows, z)])
    k = design.shape[1] - 1
    fit = sm.MNLogit(rows[:, 2], design[:, :k]).fit(disp=0, method="newton", tol=1e-12)
    padded = np.vstack([fit.params, np.zeros((1, 2))])
    whole = sm.MNLogit(rows[:, 2], design)
    gradient, information = whole.score(padded.ravel("F")), -whole.hessian(padded.ravel("F"))
    order = [0 * (k + 1) + j for j in range(k)] + [k + 1 + j for j in range(k)] + [k, 2 * k + 1]
    expected = efficient(gradient[order], information[np.ix_(order, order)], 2)
    score, covariance, _ = told(site(rows), triplet)
    np.testing.assert_allclose(score, expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(covariance, expected[1] * len(rows) / (len(rows) - k), rtol=1e-4)


@pytest.mark.parametrize("triplet", [(4, 1), (3, 4, 1), (4, 2, 3)])
def test_of_an_order_they_are_those_of_proportional_odds(triplet):
    rows = rows_of(np.random.default_rng(9), 400)
    x, y, *s = triplet
    z = y if x == 4 else x
    small, extra = columns(rows, s)[:, 1:], standard(rows, z)
    codes = rows[:, 4].astype(int)

    def likelihood(parameters, design):
        ends = np.concatenate([[-np.inf], parameters[:3], [np.inf]])
        linear = design @ parameters[3:]
        chance = stats.logistic.cdf(ends[codes + 1] - linear) - stats.logistic.cdf(
            ends[codes] - linear
        )
        return np.log(chance).sum()

    start = np.concatenate([[-1.0, 0.0, 1.0], np.zeros(small.shape[1])])
    scale = np.concatenate([np.ones(3), 1.0 / np.maximum(np.abs(small).max(axis=0), 1.0)])
    best = optimize.minimize(
        lambda own: -likelihood(own * scale, small), start, method="BFGS", options={"gtol": 1e-6}
    )
    both = np.column_stack([small, extra])
    at = np.concatenate([best.x * scale, np.zeros(extra.shape[1])])
    gradient = approx_fprime(at, likelihood, args=(both,), centered=True)
    information = -approx_hess(at, likelihood, args=(both,))
    m = extra.shape[1]
    expected = efficient(gradient, information, m)
    score, covariance, weight = told(site(rows), triplet)
    np.testing.assert_allclose(score, expected[0], atol=0.02)
    factor = len(rows) / weight
    np.testing.assert_allclose(covariance, expected[1] * factor, rtol=0.01, atol=0.05)


@pytest.mark.parametrize("triplet", [(1, 3, 0), (1, 3, 2, 4)])
def test_of_numbers_a_score_is_the_partial_correlation(triplet):
    rows = rows_of(np.random.default_rng(3), 300)
    x, y, *s = triplet
    small = columns(rows, s)
    left = rows[:, [x, y]] - small @ np.linalg.lstsq(small, rows[:, [x, y]], rcond=None)[0]
    r = np.corrcoef(left.T)[0, 1]
    score, covariance, weight = told(site(rows), triplet)
    assert weight == len(rows) - small.shape[1]
    np.testing.assert_allclose(score[0] / np.sqrt(covariance[0, 0]), r * np.sqrt(weight), rtol=1e-6)


def asking(tests, n_sites, *, categories=CATEGORIES, fewest=2, closed=False, alpha=0.01):
    own = EvidenceSettings(
        spec=CITestSpec(alpha=alpha), n_variables=len(categories), max_rows=1 << 12,
        present=Presence(n_sites), fewest=fewest,
    )  # fmt: skip
    source = yield from EVIDENCE["stratified"].source(own, closed=closed)
    found = yield from source.p_values(tests)
    return np.concatenate(found), source


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.integers(3, 6), st.sampled_from([0.0, 0.05]))
def test_p_values_are_chi_square_of_the_summed_scores(seed, n_sites, missing):
    rng = np.random.default_rng(seed)
    parts = [rows_of(rng, int(rng.integers(60, 300))) for _ in range(n_sites)]
    for own in parts:
        own[rng.random(own.shape) < missing] = np.nan
    sites = [site(own) for own in parts]
    tests = [np.array([[0, 1], [2, 3]]), np.array([[0, 3, 1], [2, 4, 1]])]
    (p_values, source), asked = drive(asking(tests, n_sites), sites)
    triplets = [(0, 1), (2, 3), (0, 3, 1), (2, 4, 1)]
    for triplet, p_value in zip(triplets, p_values, strict=True):
        each = [told(own, triplet) for own in sites]
        score = sum(one[0] for one in each)
        covariance = sum(one[1] for one in each)
        form = score @ np.linalg.pinv(covariance) @ score
        expected = stats.chi2.sf(form, len(score))
        # scaled for rare counts, of which there are none here
        np.testing.assert_allclose(np.log(p_value), np.log(expected), rtol=0.1, atol=0.1)
    assert sum(type(q).__name__ != "Columns" for q in asked) == 2
    effect = source.effect((0, 1))
    assert effect is None or effect.measure.startswith(("one-step odds ratio", "association"))


@cache
def null_rates(n_sites, rows, given, closed):
    """How many of independent pairs are found dependent, where levels and slopes are sites' own."""
    rng = np.random.default_rng([n_sites, rows, given])
    p, found = 10, []
    categories = (2,) * p + (0,) * p + (0, 0)
    for _ in range(40):
        parts = []
        for _ in range(n_sites):
            s = rng.normal(size=(rows, 2))
            slopes = rng.normal(size=(2, p)) * (given > 0)
            own = np.empty((rows, 2 * p + 2))
            own[:, :p] = s[:, :1] * slopes[0] + rng.logistic(size=(rows, p)) > rng.normal()
            own[:, p : 2 * p] = s[:, :1] * slopes[1] + rng.normal(rng.normal(), 1.0, (rows, p))
            own[:, 2 * p :] = s
            parts.append(site(own, categories=categories, ordered=()))
        pairs = np.column_stack([np.arange(p), p + np.arange(p)])
        given_too = np.tile([2 * p, 2 * p + 1][:given], (p, 1)).reshape(p, given)
        empty = [np.zeros((0, 2 + k), dtype=np.int64) for k in range(given)]
        tests = [*empty, np.column_stack([pairs, given_too]).astype(np.int64)]
        (own, _), _ = drive(asking(tests, n_sites, categories=categories, closed=closed), parts)
        found.append(own == 0.0 if closed else own < 0.01)
    return np.concatenate(found)


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(("n_sites", "rows", "given"), [(3, 100, 1), (10, 50, 2), (15, 40, 0)])
def test_the_level_holds_though_levels_and_slopes_are_every_site_s_own(
    n_sites, rows, given, closed
):
    dependent = null_rates(n_sites, rows, given, closed)
    assert stats.binomtest(int(dependent.sum()), len(dependent), 0.015).pvalue > 1e-3 or (
        dependent.mean() < 0.015
    )


@pytest.mark.parametrize("tails", ["standard_cauchy", "lognormal"])
def test_few_large_values_make_no_evidence(tails):
    """Not drawn in, 3 % of independent pairs are found dependent at level 0.01."""
    rng, n_pairs, rows = np.random.default_rng(5), 500, 300
    categories = (4, 0) * n_pairs
    parts = []
    for _ in range(3):
        own = np.empty((rows, len(categories)))
        own[:, ::2] = rng.choice(4, (rows, n_pairs), p=(0.7, 0.2, 0.07, 0.03))
        z = getattr(rng, tails)(size=(rows, n_pairs))
        own[:, 1::2] = z**2 if tails == "lognormal" else z
        parts.append(site(own, categories=categories, ordered=()))
    pairs = np.arange(len(categories)).reshape(-1, 2)
    (p_values, _), _ = drive(asking([pairs], 3, categories=categories), parts)
    dependent = int((p_values < 0.01).sum())
    assert stats.binomtest(dependent, n_pairs, 0.01, alternative="greater").pvalue > 1e-3


# what a site does not tell


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 15))
def test_a_category_counts_by_itself_if_it_has_rows_enough(counts, least):
    into = joined(np.array(counts), least)
    together = np.bincount(into, weights=counts, minlength=len(counts))
    if sum(counts) >= least:
        assert ((together == 0) | (together >= least)).all()
    assert together.sum() == sum(counts)
    if not least:
        assert into.tolist() == list(range(len(counts)))
    kept = [k for k in range(len(counts)) if counts[k]]
    assert (np.diff([into[k] for k in kept]) >= 0).all()  # no order is turned


def test_of_a_rare_category_nothing_is_told_and_few_rows_do_no_test():
    rng = np.random.default_rng(1)
    rows = rows_of(rng, 200)
    rows[:, 2] = np.where(np.arange(200) < 6, 2, rng.integers(0, 2, 200))
    rows[:6, 1] += 1000.0  # what they have must not show
    scores, covariance, _ = told(site(rows, min_cell_size=11), (2, 1))
    assert abs(scores[1]) < 2.0**-10  # moved as far as its variance allows, and rounded to 2**-4
    assert np.abs(covariance[1]).max() < 1e-4
    free, _, _ = told(site(rows), (2, 1))
    assert free[1] != 0.0
    assert told(site(rows[:20]), (0, 1, 3, 4))[2] == 0.0
    rows[:, 0] = np.arange(200) < 6
    assert told(site(rows, min_cell_size=11), (0, 1))[2] == 0.0
    rows[:, 1] = 7.0
    assert told(site(rows), (5, 1))[2] == 0.0


def test_a_test_that_too_few_sites_do_is_not_opened():
    rng = np.random.default_rng(2)
    sites = [site(rows_of(rng, n)) for n in (200, 200, 12, 12)]
    tests = [np.array([[0, 1], [2, 3]]), np.array([[0, 3, 2]])]
    (p_values, source), asked = drive(asking(tests, 4, fewest=3), sites)
    assert np.isnan(p_values[2])
    assert source.left_undone(np.array([[0, 3, 2]])).tolist() == [True]
    assert isinstance(asked[1], Contributors)
    enough = asked[2].enough_array() if len(asked) > 2 else np.zeros(3, dtype=bool)
    assert not enough[2]
    if len(asked) > 2:
        assert isinstance(asked[2], Covered)
        answer = sites[0].answer(asked[2])
        kept = asked[2].question.where(enough)
        assert not answer[~kept].any()


@pytest.mark.parametrize("triplet", [(0, 1, 3), (2, 3, 1), (4, 1)])
def test_a_change_of_units_or_of_order_changes_nothing(triplet):
    rows = rows_of(np.random.default_rng(5), 250)
    scores, covariance, weight = told(site(rows), triplet)
    moved = rows.copy()
    moved[:, 1], moved[:, 3] = rows[:, 1] * 1e-3 + 4.0, -rows[:, 3] * 1e4
    other, spread, same = told(site(moved[np.random.default_rng(0).permutation(250)]), triplet)
    np.testing.assert_allclose(np.abs(other), np.abs(scores), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.abs(spread), np.abs(covariance), rtol=1e-5, atol=1e-6)
    assert same == weight


# whole runs


def test_sites_whose_slopes_differ_draw_no_edge_and_the_default_policy_allows_it():
    rng = np.random.default_rng(11)
    parts = {}
    for number, name in enumerate(("north", "south", "west", "east")):
        n = 400
        s = rng.normal(size=n)
        slope = (3.0, 0.4, 2.0, 1.0)[number]
        x = np.where(slope * s + rng.logistic(size=n) > 0, "yes", "no")
        parts[name] = pd.DataFrame({"s": s, "x": x, "y": slope * s + rng.normal(number, 1.0, n)})
    found = Federation.simulate(parts, device="cpu", policy=Policy()).run(FedPC(alpha=0.01))
    assert not any({e.source, e.target} == {"x", "y"} for e in found.graph.edges)
    assert "scores within sites" in str(found.details)


def counts_that_fit(rows, variances, grid):
    """How many pairs of sites, with counts of two categories, have these sums of variances."""

    def own(n):
        count = np.arange(11, n // 2 + 1)
        return count * (n - count) / (n - 1)

    found = 0
    for n in range(30, rows // 2 + 1):
        sums = np.add.outer(own(n), own(rows - n))
        found += np.prod([(np.abs(sums - v) <= grid).sum(dtype=float) for v in variances])
    return found


def test_no_counts_of_the_others_follow_from_the_variances_that_a_site_learns():
    rng = np.random.default_rng(5)
    asked = question([np.array([[0, 1], [0, 2]])], categories=(0, 2, 2), ordered=())
    bits = asked.encodings[1].resolution_bits
    for _ in range(5):
        sizes = rng.integers(60, 110, 2)
        counts = [[rng.integers(11, n // 2) for n in sizes] for _ in range(2)]
        exact = [
            sum(m * (n - m) / (n - 1) for m, n in zip(own, sizes, strict=True)) for own in counts
        ]
        told = np.ldexp(np.rint(np.ldexp(exact, bits)), -bits)
        assert counts_that_fit(int(sizes.sum()), exact, 2.0**-31) == 1.0
        assert counts_that_fit(int(sizes.sum()), told, 2.0**-bits) > 50.0
