"""The score test: bits are p-values against a level, and the level is that of simulated scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag.questions.scores.score_test import (
    SITES_SHARE,
    form_level,
    form_threshold,
    most_of_threshold,
    p_values,
    rare_constant,
    site_line,
    site_threshold,
)


def bits_at(alpha, sizes, scores, means, spreads, site_scores, sites, n_sites):
    """Comparison by comparison, as the module's table says it."""
    level = form_level(alpha)
    parts = form_threshold(means, spreads, level)
    a, b = site_line(site_threshold(alpha), n_sites)
    bits = []
    for test, scored in enumerate(np.split(scores, np.cumsum(sizes)[:-1])):
        more = rare_constant(level) if sizes[test] == 1 else 0.0
        of_form = (scored**2).sum() > parts[test] + more
        bits.append(of_form or site_scores[test] > a + b * sites[test])
    return np.array(bits)


def random_sums(rng, n_tests, n_sites):
    """What sites may state: scores, means, spreads, own scores, sites that have one."""
    sizes = rng.choice([1, 1, 3, 9, 16], n_tests)
    scale = rng.choice([0.3, 1.0, 2.0, 5.0], n_tests)
    variances = rng.uniform(0.2, 30.0, sizes.sum()) * rng.choice([0.01, 1.0], sizes.sum())
    owner = np.repeat(np.arange(n_tests), sizes)
    means = np.bincount(owner, weights=variances)
    spreads = means * np.where(sizes > 1, rng.uniform(0.05, 3.0, n_tests), 1.0)
    scores = rng.normal(size=len(owner)) * np.sqrt(variances) * scale[owner]
    sites = rng.integers(0, n_sites + 1, n_tests).astype(float)
    return sizes, scores, means, spreads, sites * rng.normal(0.2, 0.5, n_tests), sites, n_sites


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_a_bit_is_whether_the_p_value_is_up_to_the_level(seed, n_sites):
    sums = random_sums(np.random.default_rng(seed), 12, n_sites)
    p_value = p_values(*sums)
    assert ((p_value >= 0) & (p_value <= 1)).all()
    for test, p in enumerate(p_value.tolist()):
        if 1e-200 < p < 0.89:  # beyond them the quantile has no digits left
            assert bits_at(p * (1 + 1e-6), *sums)[test]
            assert not bits_at(p * (1 - 1e-6), *sums)[test]
    for alpha in (1e-5, 0.01, 0.3):
        assert (bits_at(alpha, *sums) == (p_value <= alpha)).all()


def test_where_nothing_varies_the_p_value_is_one_at_every_level():
    sizes = np.array([1, 9, 3])
    none = np.zeros(13), *np.zeros((4, 3))
    assert (p_values(sizes, *none, 3) == 1.0).all()
    assert not bits_at(0.999, sizes, *none, 3).any()


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.floats(1.0, 3.0))
def test_p_falls_with_scores_and_rises_with_variance_and_silent_sites(seed, factor):
    sizes, scores, means, spreads, site_scores, sites, _ = random_sums(
        np.random.default_rng(seed), 10, 6
    )
    base = p_values(sizes, scores, means, spreads, site_scores, sites, 8)
    more = 1 + 1e-9
    larger = p_values(sizes, factor * scores, means, spreads, site_scores, sites, 8)
    assert (larger <= base * more).all()
    varied = p_values(sizes, scores, factor * means, factor * spreads, site_scores, sites, 8)
    assert (varied * more >= base).all()
    assert (p_values(sizes, scores, means, spreads, site_scores + factor, sites, 8) <= base).all()
    high = np.abs(site_scores)
    low = p_values(sizes, scores, means, spreads, high, sites, 8)
    assert (p_values(sizes, scores, means, spreads, high, sites + 2, 8) * more >= low).all()


@pytest.mark.parametrize("level", [0.02, 0.01, 1e-3, 1e-6])
def test_parts_of_sites_add_up_to_the_threshold_of_sums_or_more(level):
    rng = np.random.default_rng(7)
    means = rng.uniform(0.0, 4.0, (200, 5)) * (rng.random((200, 5)) < 0.8)
    spreads = means * rng.uniform(0.02, 4.0, means.shape)
    parts = sum(form_threshold(a, f, level) for a, f in zip(means.T, spreads.T, strict=True))
    whole = form_threshold(means.sum(axis=1), spreads.sum(axis=1), level)
    # the allowance for uneven directions is not quite convex
    assert (parts >= whole * 0.985).all()
    same = form_threshold(5 * means[:, 0], 5 * spreads[:, 0], level)
    np.testing.assert_allclose(5 * form_threshold(means[:, 0], spreads[:, 0], level), same)


@pytest.mark.parametrize("level", [0.4, 0.05, 0.009, 1e-4])
@pytest.mark.parametrize("dof", [1, 2, 5, 30, 400])
def test_the_threshold_of_even_directions_is_chi_square_or_a_bit_more(level, dof):
    threshold = form_threshold(np.array([float(dof)]), np.array([dof**0.5]), level)[0]
    exact = stats.chi2.isf(level, dof)
    assert exact * (1 - 1e-9) <= threshold
    # uneven directions are allowed for, which one direction cannot be
    assert threshold <= exact * (1 + 1e-9 if dof == 1 else 1.35)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(0.0, 1.0)), min_size=1, max_size=8),
    st.sampled_from([0.45, 0.1, 0.009, 1e-5, 1e-12]),
)
def test_no_parts_add_up_to_more_than_their_bound(sites, level):
    means = np.array([mean for mean, _ in sites])
    spreads = np.array([np.sqrt(share * (mean**2 + mean / 2)) for mean, share in sites])
    total = form_threshold(means, spreads, level).sum()
    bound = most_of_threshold(np.array([means.sum()]), len(sites), level)[0]
    assert total <= bound * (1 + 1e-9)


WEIGHTS = {
    "even": np.ones(9),
    "two sizes": np.array([1.0] * 4 + [0.1] * 12),
    "halving": 0.5 ** np.arange(8),
    "one and many small": np.array([1.0] + [0.02] * 100),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.001])
def test_the_level_of_normal_scores_of_uneven_variance_holds(name, alpha):
    weights, rng, n = WEIGHTS[name], np.random.default_rng(5), 100_000
    sizes, counts = np.unique(weights, return_counts=True)
    forms = sum(size * rng.chisquare(count, n) for size, count in zip(sizes, counts, strict=True))
    mean, spread = np.array([weights.sum()]), np.array([np.sqrt((weights**2).sum())])
    beyond = int((forms > form_threshold(mean, spread, alpha)[0]).sum())
    assert stats.binom.isf(1 - 1e-6, n, 0.4 * alpha) < beyond
    # one large direction beside a hundred small ones is the limit of the two moments
    most = {0.05: 1.4, 0.01: 1.9, 0.001: 3.6} if name == "one and many small" else {}
    assert beyond < stats.binom.isf(1e-6, n, most.get(alpha, 1.4) * alpha)


@pytest.mark.parametrize(("alpha", "most"), [(0.05, 1.2), (0.01, 1.15), (1e-3, 1.3), (1e-5, 2.1)])
def test_a_rare_count_keeps_the_level_of_one_component(alpha, most):
    worst = 0.0
    for mean in np.exp(np.linspace(np.log(1e-4), np.log(300), 4000)):
        variance = np.array([mean])
        reach = np.sqrt(form_threshold(variance, variance, alpha)[0] + rare_constant(alpha))
        above = stats.poisson.sf(np.floor(mean + reach), mean)
        below = stats.poisson.cdf(np.ceil(mean - reach) - 1, mean) if mean > reach else 0.0
        worst = max(worst, above + below)
    assert alpha < worst < most * alpha


def test_the_levels_of_form_and_sites_add_up_to_alpha():
    """Of independent normal scores, the worst case of which is that both exclude each other."""
    rng, alpha, n = np.random.default_rng(2), 0.05, 40_000
    sizes = np.full(n, 4)
    scores = rng.normal(size=4 * n) * 100
    means, spreads = np.full(n, 4e4), np.full(n, 2e4)
    sites = rng.integers(0, 6, n).astype(float)
    site_scores = rng.normal(size=n) * np.sqrt(sites)
    dependent = (p_values(sizes, scores, means, spreads, site_scores, sites, 5) <= alpha).sum()
    assert stats.binom.isf(1 - 1e-6, n, 0.7 * alpha) < dependent < stats.binom.isf(1e-6, n, alpha)
    assert form_level(alpha) + SITES_SHARE * alpha == pytest.approx(alpha)
    assert stats.norm.sf(site_threshold(alpha)) == pytest.approx(SITES_SHARE * alpha)


@pytest.mark.parametrize("n_sites", [1, 2, 3, 10, 200])
def test_the_line_of_the_sites_lies_above_the_root_and_near_it(n_sites):
    constant, slope = site_line(1.0, n_sites)
    k = np.arange(1, n_sites + 1)
    ratio = (constant + slope * k) / np.sqrt(k)
    assert (ratio >= 1 - 1e-12).all()
    assert (ratio[4 * k >= n_sites] <= 1.0607).all()
    assert site_line(3.0, n_sites) == pytest.approx((3 * constant, 3 * slope))
