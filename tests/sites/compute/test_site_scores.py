"""A site's scores: those of textbook tests and statsmodels, whatever the order of rows."""

import warnings
from functools import cache
from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm
from bent_columns import with_curves
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import StratifiedTable
from statsmodels.tools.numdiff import approx_fprime, approx_hess

from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.scores.score_sums import RaoSums
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.score_tests import tables

CATEGORIES = (2, 0, 3, 0, 4, 2)
"""Variables 0, 2 and 5 are categories in no order, 4 in one, 1 and 3 are numbers."""
ORDERED = (4,)
SITES = 4
"""As many as have the site's rows together, for the weights of scores."""


def answer(rows, tests, categories, ordered=(), **more):
    codes = np.where(np.isnan(rows), -1, rows).astype(np.int64)
    numbers = np.array(categories) == 0
    values = np.where(numbers, rows, np.nan) if numbers.any() else None
    codes[:, numbers] = -1
    pool = SiteView(None if numbers.all() else codes, values, categories, ordered=ordered, **more)
    counts, members = pack_blocks(tests)
    question = RaoSums(
        categories=categories, counts=counts, members=members, n_rows=SITES * len(rows),
        max_rows=1 << 15, ordered=ordered,
    )  # fmt: skip
    return question, question.read(pool.answer(question))


def one(rows, triplet, categories=CATEGORIES, ordered=ORDERED, **more):
    """Scores (rows, columns), a and f of one test, and its own score, site count and rows."""
    empty = [np.zeros((0, 2 + k), dtype=np.int64) for k in range(len(triplet) - 2)]
    question, found = answer(rows, [*empty, np.array([triplet])], categories, ordered, **more)
    shape = tuple(question.shapes[0])
    return (
        found.scores.reshape(shape), found.means[0], question.spreads(found)[0],
        found.site_scores[0], found.sites[0], found.rows[0],
    )  # fmt: skip


def weighted(scores, covariance, weights, share):
    """Scores as they are weighted, a and f, from all covariances and weights."""
    scale = np.sqrt(weights)
    sigma = covariance * np.outer(scale, scale)
    rare = (weights**2 * covariance.diagonal()).sum() * share
    return scale * scores, np.trace(sigma), np.sqrt(np.trace(sigma @ sigma) + rare / 2)


# categories


def strata_of(rows, categories, x, y, given):
    for configuration in product(*(range(categories[v]) for v in given)):
        own = rows[(rows[:, given] == configuration).all(axis=1)]
        own = own[(own[:, [x, y]] >= 0).all(axis=1)]
        table = np.zeros((categories[x], categories[y]))
        np.add.at(table, (own[:, x].astype(int), own[:, y].astype(int)), 1)
        if table.sum() > 1:
            yield table


@cache
def variance_of(n, row, column):
    """Of the count of a cell given the margins, by its definition."""
    count = np.arange(n + 1)
    mass = stats.hypergeom.pmf(count, n, row, column)
    return mass @ (count - mass @ count) ** 2


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(2, 5), min_size=4, max_size=4),
    st.sampled_from([3, 20, 300]),
    st.sampled_from([0.0, 0.15]),
)
def test_scores_are_observed_less_expected_hypergeometric_counts(seed, levels, n, missing):
    rng = np.random.default_rng(seed)
    categories = tuple(levels)
    rows = rng.integers(0, categories, (n, 4)).astype(float)
    rows[rng.random(rows.shape) < missing] = np.nan
    codes = np.where(np.isnan(rows), -1, rows)
    for x, y, *given_ in ([0, 1], [1, 0], [0, 2, 1], [3, 1, 0], [2, 3, 0, 1]):
        expected, counted = by_definition(codes, categories, (x, y, *given_), SITES * n)
        u, mean, spread, _, _, used = one(rows, (x, y, *given_), categories, ())
        for found, value in zip((u.ravel(), mean, spread), expected, strict=True):
            np.testing.assert_allclose(found, value, atol=1e-9)
        assert used == counted


def by_definition(codes, categories, test, n_rows):
    """Weighted scores, a and f of a test of categories, and its rows, stratum by stratum."""
    x, y, *given_ = test
    sides = [1 if categories[v] == 2 else categories[v] for v in (x, y)]
    scores, covariance, counted = np.zeros(sides), np.zeros((np.prod(sides),) * 2), 0
    spreads = [np.zeros(side) for side in sides]
    for table in strata_of(codes, categories, x, y, given_):
        r, c, total = table.sum(axis=1), table.sum(axis=0), table.sum()
        if (r > 0).sum() < 2 or (c > 0).sum() < 2:
            continue
        scores += (table - stats.contingency.expected_freq(table))[: sides[0], : sides[1]]
        of_one = [
            (np.diag(own / total) - np.outer(own, own) / total**2)[:side, :side]
            for own, side in zip((r, c), sides, strict=True)
        ]
        covariance += np.kron(*of_one) * total**2 / (total - 1)
        for i, j in np.ndindex(*sides):
            exact = variance_of(int(total), int(r[i]), int(c[j]))
            assert np.kron(*of_one)[i * sides[1] + j, i * sides[1] + j] * total**2 / (
                total - 1
            ) == pytest.approx(exact)
        for spread, each in zip(spreads, of_one, strict=True):
            spread[:] += total * each.diagonal()
        counted += total
    if len(covariance) == 1:
        return (scores.ravel(), covariance[0, 0], covariance[0, 0]), counted
    least = n_rows**-0.5
    of_x, of_y = (np.maximum(own / max(counted, 1), least) for own in spreads)
    weights = 1 / (n_rows * np.outer(of_x, of_y).ravel())
    return weighted(scores.ravel(), covariance, weights, counted / n_rows), counted


def rows_of(strata):
    """Codes of x, y and the stratum whose tables these are."""
    return np.array(
        [(*cell, s) for s, t in enumerate(strata) for cell, n in np.ndenumerate(t)
         for _ in range(int(n))]
    ).astype(float)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_of_two_categories_the_statistic_is_cochran_mantel_haenszel(seed, n_strata):
    rng = np.random.default_rng(seed)
    strata = rng.integers(1, 30, (n_strata, 2, 2))
    u, v, _, _, _, rows = one(rows_of(strata), (0, 1, 2), (2, 2, n_strata + 1), ())
    expected = StratifiedTable(list(strata)).test_null_odds()
    assert u[0, 0] ** 2 / v == pytest.approx(expected.statistic, rel=1e-9)
    assert rows == strata.sum()


CENTRES = [
    [[11, 25], [10, 27]], [[16, 4], [22, 10]], [[14, 5], [7, 12]], [[2, 14], [1, 16]],
    [[6, 11], [0, 12]], [[1, 10], [0, 10]], [[1, 4], [1, 8]], [[4, 2], [6, 1]],
]  # fmt: skip
"""Eight centres, drug or control by success or failure (Agresti, 2002, Table 6.9)."""


def test_the_textbooks_example_of_eight_centres():
    u, v, *_ = one(rows_of(CENTRES), (0, 1, 2), (2, 2, 8), ())
    assert u[0, 0] ** 2 / v == pytest.approx(6.38, abs=0.01)
    each = [one(rows_of([own]), (0, 1), (2, 2, 2), ()) for own in CENTRES]
    assert sum(own[0][0, 0] for own in each) == pytest.approx(u[0, 0])
    assert sum(own[1] for own in each) == pytest.approx(v)
    # at four of the centres more varies than a row
    assert [own[4] for own in each] == [1, 1, 1, 0, 1, 0, 0, 0]


def test_a_site_s_score_is_that_of_its_table_shrunk_for_rare_counts():
    table = np.array([[40, 20], [25, 35]])
    u, variance, _, score, sites, _ = one(rows_of([table]), (0, 1), (2, 2, 2), ())
    form = u[0, 0] ** 2 / variance
    plain = stats.norm.isf(stats.chi2.sf(form, 1))
    assert sites == 1
    assert 0.9 * plain < score < plain
    assert variance > tables.LEAST_SITE_VARIANCE


def test_strata_of_opposite_directions_have_a_score():
    strata = [[[40, 10], [10, 40]], [[10, 40], [40, 10]]]
    u, _, _, score, sites, _ = one(rows_of(strata), (0, 1, 2), (2, 2, 2), ())
    assert u[0, 0] == pytest.approx(0.0)
    assert sites == 1
    assert score > 7


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_strata_counted_sparsely_have_the_moments_counted_densely(missing, monkeypatch):
    rng = np.random.default_rng(3)
    categories = (2, 3, 7, 7, 5)
    rows = rng.integers(0, categories, (400, 5)).astype(float)
    rows[rng.random(rows.shape) < missing] = np.nan
    empty = [np.zeros((0, 2 + k), dtype=np.int64) for k in range(3)]
    tests = [*empty, np.array([[0, 1, 2, 3, 4], [1, 0, 2, 3, 4], [2, 3, 0, 1, 4]])]
    _, dense = answer(rows, tests, categories)
    monkeypatch.setattr(tables, "DENSE_CELLS", 1)
    _, sparse = answer(rows, tests, categories)
    for own, other in zip(dense, sparse, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-9)
    assert dense.means.any()


def test_moments_one_test_after_the_other_are_those_of_all_at_once(monkeypatch):
    rng = np.random.default_rng(8)
    categories = (3, 6, 2, 3, 9)
    rows = rng.integers(0, categories, (500, 5)).astype(float)
    tests = [
        np.array([[0, 1], [0, 4], [1, 4]]),
        np.array([[0, 1, 2], [0, 1, 3], [4, 1, 0]]),
        np.array([[0, 3, 1, 4], [2, 0, 4, 1]]),
    ]
    _, together = answer(rows, tests, categories)
    monkeypatch.setattr(tables, "AT_ONCE", 0)
    _, each = answer(rows, tests, categories)
    for own, other in zip(together, each, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9)
    assert (together.spreads > 0).all()


def test_what_does_not_vary_says_nothing_to_the_last_bit():
    rng = np.random.default_rng(4)
    rows = np.column_stack([rng.integers(0, 3, 500), np.full(500, 2), rng.integers(0, 3, 500)])
    rows = np.column_stack([rows, rows[:, 0]]).astype(float)
    for triplet in [(0, 1), (0, 1, 2), (0, 2, 3), (3, 2, 0)]:
        u, *others = one(rows, triplet, (3, 3, 3, 3), ())
        assert not u.any()
        assert others == [0, 0, 0, 0, 0]


# numbers


ROWS = 400


def mixed_rows(rng, n):
    """Rows in which all variables depend on the numbers."""
    a = rng.normal(size=n)
    b = 0.4 * a + rng.normal(size=n)
    found = np.empty((n, 6))
    found[:, 1], found[:, 3] = 5.0 + a, 30.0 * b
    found[:, 0] = 0.5 * a + rng.normal(size=n) > 0
    found[:, 2] = np.digitize(0.4 * b + rng.normal(size=n), [-0.5, 0.6])
    found[:, 4] = np.digitize(0.4 * a + rng.normal(size=n), [-0.9, 0.1, 1.0])
    found[:, 5] = rng.random(n) < 0.4
    return found


def by_hand(x, y, given_, all_rows):
    """U, V and degrees of freedom of two numbers: clipped residuals, and products of them."""
    scaled = (given_ - given_.mean(axis=0)) / given_.std(axis=0)
    z = np.column_stack([np.ones(len(x)), with_curves(scaled, all_rows=all_rows)])
    rest = len(x) - z.shape[1]

    def residual(own):
        r = sm.OLS(own, z).fit().resid
        r = np.clip(r / np.sqrt((r**2).sum() / rest), -2.5, 2.5)
        r -= r.mean()
        return np.clip(r / np.sqrt((r**2).sum() / rest), -4.0, 4.0)

    product_ = residual(x) * residual(y)
    variance = (product_**2).sum() * len(x) / rest
    return product_.sum(), max(variance, 2 / 3 * rest), rest


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(0, 3),
    st.sampled_from([25, 60, 400]),
    st.sampled_from(["normal", "standard_cauchy", "exponential"]),
    st.sampled_from([0.0, 0.1]),
)
def test_of_numbers_it_is_the_product_of_clipped_residuals(seed, k, n, shape, missing):
    rng = np.random.default_rng(seed)
    if shape == "standard_cauchy" and k > 1:
        shape = "lognormal"  # rounding decides which products of Cauchy's values are fitted
    rows = getattr(rng, shape)(size=(n, 2 + k))
    rows[:, 0] += 0.5 * rows[:, -1] + 10.0
    rows *= 10.0 ** rng.integers(-3, 4, 2 + k)
    rows[rng.random(rows.shape) < missing] = np.nan
    whole = rows[~np.isnan(rows).any(axis=1)]
    # curves are of deviations from the mean of all rows that have the variable
    if k and missing and len(whole) >= 10 * k:
        return
    u, v, _, _, sites, rest = one(rows, tuple(range(2 + k)), (0,) * (2 + k), ())
    if len(whole) - 1 - k < 10:
        assert (u[0, 0], v, sites, rest) == (0, 0, 0, 0)
        return
    expected = by_hand(whole[:, 0], whole[:, 1], whole[:, 2:], SITES * n)
    near = 1e-3 if shape == "standard_cauchy" else 1e-5  # hinges far out are nearly collinear
    assert u[0, 0] == pytest.approx(expected[0], rel=near, abs=near * np.sqrt(v))
    assert v == pytest.approx(expected[1], rel=near)
    assert rest == expected[2]


def test_variances_of_numbers_are_those_of_white_whatever_the_spread():
    """Products of residuals are those of the robust (HC1) test of a slope, but for its null."""
    rng = np.random.default_rng(6)
    n = 20_000
    z = rng.uniform(-1, 1, n)
    spread = np.exp(z)
    rows = np.column_stack([z + spread * rng.normal(size=n), z + spread * rng.normal(size=n), z])
    u, v, *_ = one(rows, (0, 1, 2), (0, 0, 0), ())
    z = np.column_stack([np.ones(n), rows[:, 2], rows[:, 2] ** 2])
    x = np.column_stack([sm.OLS(rows[:, 1], z).fit().resid, z])
    robust = sm.OLS(rows[:, 0], x).fit(cov_type="HC1")
    assert u[0, 0] / np.sqrt(v) == pytest.approx(robust.tvalues[0], abs=0.4)
    plain = sm.OLS(rows[:, 0], x).fit()
    assert v / n == pytest.approx(
        (robust.bse[0] / plain.bse[0]) ** 2, rel=0.2
    )  # and not 1, as of correlations
    assert v / n > 1.2


def test_a_copy_of_what_is_given_leaves_nothing_to_test():
    rng = np.random.default_rng(7)
    a = rng.normal(size=200)
    rows = np.column_stack([a, rng.normal(size=200), 3 * a - 5, np.full(200, 4.0)])
    for triplet in [(0, 1, 2), (0, 3), (3, 1, 0)]:
        assert one(rows, triplet, (0,) * 4, ())[5] == 0
    assert one(rows, (0, 1, 3), (0,) * 4, ())[5] == 199
    assert one(rows, (0, 2), (0,) * 4, ())[0][0, 0] == pytest.approx(199, rel=0.02)


# categories and numbers


def columns(rows, variables):
    """A constant, numbers, and indicators of all categories but the first."""
    parts = [np.ones(len(rows))]
    for v in variables:
        if CATEGORIES[v] == 0:
            parts.append(rows[:, v])
        else:
            parts += [rows[:, v] == k for k in range(1, CATEGORIES[v])]
    return np.column_stack(parts).astype(float)


def null_design(rows, s, z, response):
    """With curves of the numbers, for which 400 rows are enough."""
    numbers = [v for v in s if CATEGORIES[v] == 0]
    deviations = {v: (rows[:, v] - rows[:, v].mean()) / rows[:, v].std() for v in numbers}
    sides = [deviations[v][:, None] if v in numbers else columns(rows, [v])[:, 1:] for v in s]
    plain = columns(rows, s)
    events = len(rows) - np.bincount(rows[:, response].astype(int)).max()
    made = with_curves(
        np.column_stack([*deviations.values(), np.zeros((len(rows), 0))]),
        all_rows=SITES * len(rows),
        sides=sides,
        events=int(events),
        before=plain.shape[1] - len(numbers) + scored(rows, z).shape[1],
    )
    return np.column_stack([plain, made[:, len(numbers) :]])


def scored(rows, z):
    """Indicators, or a number in standard deviations."""
    found = columns(rows, [z])[:, 1:]
    return found if CATEGORIES[z] else (found - found.mean(axis=0)) / found.std(axis=0)


@pytest.mark.parametrize(
    "triplet", [(0, 1), (0, 1, 3), (0, 3, 1, 2), (5, 2, 1), (0, 5, 3, 4), (1, 0, 3)]
)
def test_of_two_categories_they_are_those_of_a_logistic_regression(triplet):
    rows = mixed_rows(np.random.default_rng(len(triplet)), ROWS)
    x, y, *s = triplet
    response, z = (x, y) if CATEGORIES[x] == 2 else (y, x)
    small, extra = null_design(rows, s, z, response), scored(rows, z)
    fit = sm.GLM(rows[:, response], small, family=sm.families.Binomial()).fit(tol=1e-12)
    u, mean, spread, score, sites, weight = one(rows, triplet)
    chance, design = fit.fittedvalues, np.column_stack([small, extra])
    scores, covariance = efficient(
        design.T @ (rows[:, response] - chance),
        (design * (chance * (1 - chance))[:, None]).T @ design,
        extra.shape[1],
    )
    factor = (len(rows) - small.shape[1]) / len(rows)
    assert_moments((u, mean, spread), scores, covariance / factor, weight)
    statistic = float(np.squeeze(fit.score_test(exog_extra=extra)[0]))
    assert weight == len(rows) - small.shape[1]
    assert sites == 1
    own = stats.chi2.sf(statistic * factor, extra.shape[1])
    assert score == pytest.approx(stats.norm.isf(min(own, 0.999)), abs=1e-3)


def assert_moments(found, scores, covariance, rest, **tolerance):
    """As all components have them, a first category's among them, if they are of several."""
    tolerance = {"rtol": 1e-4, "atol": 1e-5} | tolerance
    if len(scores) == 1:
        expected = scores, covariance[0, 0], covariance[0, 0]
    else:
        each = np.vstack([-np.ones(len(scores)), np.eye(len(scores))])
        scores, covariance = each @ scores, each @ covariance @ each.T
        share = rest / (SITES * ROWS)
        weights = 1 / np.maximum(covariance.diagonal() / share, 1.0)
        expected = weighted(scores, covariance, weights, share)
    for own, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.ravel(own), np.ravel(value), **tolerance)


@pytest.mark.parametrize("triplet", [(2, 1), (2, 3, 1), (1, 2, 5)])
def test_of_several_categories_they_are_of_multinomial_regression(triplet):
    rows = mixed_rows(np.random.default_rng(7), ROWS)
    x, y, *s = triplet
    z = x if CATEGORIES[x] == 0 else y
    design = np.column_stack([null_design(rows, s, z, 2), scored(rows, z)])
    k = design.shape[1] - 1
    fit = sm.MNLogit(rows[:, 2], design[:, :k]).fit(disp=0, method="newton", tol=1e-9)
    padded = np.vstack([fit.params, np.zeros((1, 2))])
    whole = sm.MNLogit(rows[:, 2], design)
    gradient, information = whole.score(padded.ravel("F")), -whole.hessian(padded.ravel("F"))
    order = [*range(k), *range(k + 1, 2 * k + 1), k, 2 * k + 1]
    *found, _, _, rest = one(rows, triplet)
    scores, covariance = efficient(gradient[order], information[np.ix_(order, order)], 2)
    assert_moments(found, scores, covariance * len(rows) / (len(rows) - k), rest)


def efficient(gradient, information, m):
    """Scores of the last m coefficients and their covariances given the others."""
    across = information[-m:, :-m]
    return gradient[-m:], information[-m:, -m:] - across @ np.linalg.solve(
        information[:-m, :-m], across.T
    )


@pytest.mark.parametrize("triplet", [(4, 1), (3, 4, 1), (4, 1, 2)])
def test_of_an_order_they_are_those_of_proportional_odds(triplet):
    rows = mixed_rows(np.random.default_rng(9), 100)
    x, y, *s = triplet
    z = y if x == 4 else x
    small, extra = null_design(rows, s, z, 4)[:, 1:], scored(rows, z)
    codes = rows[:, 4].astype(int)

    def likelihood(parameters, design):
        ends = np.concatenate([[-np.inf], parameters[:3], [np.inf]])
        linear = design @ parameters[3:]
        chance = stats.logistic.cdf(ends[codes + 1] - linear)
        chance -= stats.logistic.cdf(ends[codes] - linear)
        return np.log(np.maximum(chance, 1e-300)).sum()

    start = np.concatenate([[-1.0, 0.0, 1.0], np.zeros(small.shape[1])])
    scale = np.concatenate([np.ones(3), 1.0 / np.maximum(np.abs(small).max(axis=0), 1.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        best = optimize.minimize(
            lambda own: -likelihood(own * scale, small), start, options={"gtol": 1e-6}
        )
    both = np.column_stack([small, extra])
    at = np.concatenate([best.x * scale, np.zeros(extra.shape[1])])
    gradient = approx_fprime(at, likelihood, args=(both,), centered=True)
    information = -approx_hess(at, likelihood, args=(both,))
    scores, covariance = efficient(gradient, information, extra.shape[1])
    u, v, _, _, _, weight = one(rows, triplet)
    assert u.shape == (1, 1)
    assert u[0, 0] == pytest.approx(scores[0], abs=0.05)
    assert v == pytest.approx(covariance[0, 0] * len(rows) / weight, rel=0.01)


def test_two_numbers_given_mixed_columns_are_tested_by_residuals():
    rows = mixed_rows(np.random.default_rng(3), 300)
    u, v, *_, rest = one(rows, (1, 3, 2))
    z = columns(rows, [2])
    left = rows[:, [1, 3]] - z @ np.linalg.lstsq(z, rows[:, [1, 3]], rcond=None)[0]
    r = np.corrcoef(left.T)[0, 1]
    assert rest == 297
    assert u[0, 0] / rest == pytest.approx(r, abs=0.03)
    assert 2 / 3 <= v / rest < 2


def test_few_rows_and_rare_responses_do_no_test():
    rng = np.random.default_rng(1)
    rows = mixed_rows(rng, 200)
    assert one(rows[:12], (0, 1, 3, 4))[5] == 0
    rows[:, 0] = np.arange(200) < 3
    assert one(rows, (0, 1, 3))[4] == 0
    rows[:, 1] = 7.0
    assert one(rows, (5, 1))[5] == 0
    assert one(rows, (5, 3))[5] == 199


# any of them


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.08]))
def test_a_score_depends_on_no_order_of_rows_or_columns_and_no_units(seed, missing):
    rng = np.random.default_rng(seed)
    rows = mixed_rows(rng, 250)
    rows[rng.random(rows.shape) < missing] = np.nan
    tests = [
        np.array([[0, 5], [0, 1], [1, 3], [2, 4], [2, 1], [4, 3]]),
        np.array([[0, 5, 2], [0, 1, 3], [1, 3, 0], [2, 4, 1], [1, 3, 4]]),
        np.array([[0, 5, 2, 4], [0, 2, 1, 3]]),
    ]
    _, plain = answer(rows, tests, CATEGORIES, ORDERED)
    other = rows[rng.permutation(250)]
    other[:, 1], other[:, 3] = other[:, 1] * 1e-3 + 4.0, other[:, 3] * 1e4
    order = rng.permutation(6)
    place = np.argsort(order)
    ordered = tuple(place[list(ORDERED)].tolist())
    categories = tuple(np.array(CATEGORIES)[order].tolist())
    _, found = answer(other[:, order], [place[own] for own in tests], categories, ordered)
    for own, again in zip(plain, found, strict=True):
        np.testing.assert_allclose(again, own, rtol=1e-4, atol=1e-4)


def test_x_and_y_may_change_places():
    rows = mixed_rows(np.random.default_rng(2), 300)
    for triplet in [(0, 5), (2, 4, 0), (1, 3, 2), (2, 1, 3), (2, 1)]:
        x, y, *s = triplet
        u, *rest = one(rows, triplet)
        turned, *other = one(rows, (y, x, *s))
        if CATEGORIES[x] and CATEGORIES[y]:
            turned = turned.T
        np.testing.assert_allclose(turned, u, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other, rest, rtol=1e-9)


def test_many_tests_at_once_are_those_one_by_one():
    rng = np.random.default_rng(5)
    rows = mixed_rows(rng, 200)
    triplets = [(x, y, s) for x in range(6) for y in range(x) for s in range(6) if s not in (x, y)]
    question, found = answer(
        rows, [np.zeros((0, 2), dtype=int), np.array(triplets)], CATEGORIES, ORDERED
    )
    starts = np.cumsum(question.sizes) - question.sizes
    for place in range(0, len(triplets), 5):
        u, *rest = one(rows, triplets[place])
        at = slice(starts[place], starts[place] + question.sizes[place])
        np.testing.assert_allclose(found.scores[at], u.ravel(), rtol=1e-9, atol=1e-9)
        together = found._replace(spreads=question.spreads(found))
        assert [own[place] for own in together[1:]] == pytest.approx(rest)
