"""The score test: bits are p-values against a level, and the level is that of simulated tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cipherdag.questions.scores.score_test import (
    LEAST_EXPECTED,
    SITES_SHARE,
    TRACE_SHARE,
    Components,
    Thresholds,
    components_of,
    p_values,
    site_line,
)


def shares_of(rng, categories):
    """What `components_of` takes of a variable: of two categories one share, of a number none."""
    own = rng.dirichlet(np.full(max(categories, 1), 0.7)) + 1e-3
    own /= own.sum()
    return own[: 1 if categories == 2 else categories]


def random_components(rng, n_tests, rows):
    sides = rng.choice([0, 2, 2, 3, 4, 6], (n_tests, 2)).tolist()
    return components_of([(shares_of(rng, a), shares_of(rng, b)) for a, b in sides], rows)


def bits_at(alpha, tests, scores, variances, site_scores, sites, n_sites):
    """Comparison by comparison, as the module's table says it."""
    found = Thresholds.at(alpha, tests)
    a, b = site_line(found.site, n_sites)
    bits = []
    for test in range(len(tests.sizes)):
        own = tests.owner == test
        u, v, e = scores[own], variances[own], tests.expected[own]
        each = u**2 > found.squared[test] * v + found.squared[test] ** 2 / 6
        dependent = (each & tests.alone[own]).any()
        if tests.several[test]:
            dependent |= (u**2 / e).sum() > found.quantile[test] * (v / e).sum()
        bits.append(dependent or site_scores[test] > a + b * sites[test])
    return np.array(bits)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([30.0, 900.0, 1e5]))
def test_a_bit_is_whether_the_p_value_is_up_to_the_level(seed, n_sites, rows):
    rng = np.random.default_rng(seed)
    tests = random_components(rng, 12, rows)
    scale = rng.choice([0.3, 1.0, 2.0, 5.0], len(tests.sizes))[tests.owner]
    variances = tests.expected * rng.uniform(0.2, 1.0, len(tests.expected))
    scores = rng.normal(size=len(variances)) * np.sqrt(variances) * scale
    sites = rng.integers(0, n_sites + 1, len(tests.sizes)).astype(float)
    site_scores = sites * rng.normal(0.2, 0.5, len(sites))
    told = tests, scores, variances, site_scores, sites, n_sites
    p_value = p_values(*told)
    assert ((p_value >= 0) & (p_value <= 1)).all()
    for test, p in enumerate(p_value.tolist()):
        if 1e-200 < p < 0.99:  # beyond them the quantile has no digits left
            assert bits_at(p * (1 + 1e-6), *told)[test]
            assert not bits_at(p * (1 - 1e-6), *told)[test]
    for alpha in (1e-5, 0.01, 0.3):
        assert (bits_at(alpha, *told) == (p_value <= alpha)).all()


def test_where_nothing_varies_the_p_value_is_one_at_every_level():
    rng = np.random.default_rng(1)
    tests = random_components(rng, 6, 100.0)
    none = np.zeros(len(tests.expected)), np.zeros(len(tests.expected)), np.zeros(6), np.zeros(6)
    assert (p_values(tests, *none, 3) == 1.0).all()
    assert not bits_at(0.999, tests, *none, 3).any()


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.floats(1.0, 3.0))
def test_more_score_is_less_p_and_more_variance_or_more_silent_sites_more(seed, factor):
    rng = np.random.default_rng(seed)
    tests = random_components(rng, 10, 500.0)
    variances = tests.expected * rng.uniform(0.2, 1.0, len(tests.expected))
    scores = rng.normal(size=len(variances)) * np.sqrt(variances) * 2
    sites = rng.integers(1, 6, 10).astype(float)
    site_scores = rng.normal(size=10) * 2
    base = p_values(tests, scores, variances, site_scores, sites, 8)
    more = 1 + 1e-12
    assert (p_values(tests, factor * scores, variances, site_scores, sites, 8) <= base * more).all()
    assert (p_values(tests, scores, factor * variances, site_scores, sites, 8) * more >= base).all()
    assert (p_values(tests, scores, variances, site_scores + factor, sites, 8) <= base * more).all()
    high = np.abs(site_scores)
    low = p_values(tests, scores, variances, high, sites, 8)
    assert (p_values(tests, scores, variances, high, sites + 2, 8) * more >= low).all()


@pytest.mark.parametrize(("alpha", "most"), [(0.05, 1.2), (0.01, 1.15), (1e-3, 1.3), (1e-5, 2.1)])
def test_a_rare_count_keeps_the_level_of_one_component_whatever_its_mean(alpha, most):
    one = Components(
        np.array([1]), np.ones(1), np.zeros(1), np.ones(1, dtype=bool)
    )  # fmt: skip
    found = Thresholds.at(alpha / (1 - SITES_SHARE), one)
    assert stats.chi2.sf(found.squared[0], 1) == pytest.approx(alpha)
    worst = 0.0
    for mean in np.exp(np.linspace(np.log(1e-4), np.log(300), 4000)):
        reach = np.sqrt(found.squared[0] * mean + found.constant[0])
        above = stats.poisson.sf(np.floor(mean + reach), mean)
        below = stats.poisson.cdf(np.ceil(mean - reach) - 1, mean) if mean > reach else 0.0
        worst = max(worst, above + below)
    assert alpha < worst < most * alpha


@pytest.mark.parametrize("count", [1, 2, 9, 64])
def test_the_level_of_the_components_is_sidaks(count):
    tests = Components(
        np.array([count]), np.ones(count), np.array([5.0]), np.ones(count, dtype=bool)
    )  # fmt: skip
    alpha = 0.01
    each = stats.chi2.sf(Thresholds.at(alpha, tests).squared[0], 1)
    main = (1 - SITES_SHARE) * alpha
    level = main if count == 1 else main * (1 - TRACE_SHARE)
    assert 1 - (1 - each) ** count == pytest.approx(level)
    assert stats.norm.sf(Thresholds.at(alpha, tests).site) == pytest.approx(SITES_SHARE * alpha)


def test_levels_add_up_to_no_more_than_alpha():
    """Of independent normal scores, the worst case of which is that parts exclude each other."""
    rng, alpha, n = np.random.default_rng(2), 0.05, 40_000
    tests = Components(
        np.full(n, 4), np.full(4 * n, 64.0), np.full(n, 4.0), np.ones(4 * n, dtype=bool)
    )  # fmt: skip
    variances = np.full(4 * n, 1e4)  # so that the constant says nothing
    scores = rng.normal(size=4 * n) * 100
    sites = rng.integers(0, 6, n).astype(float)
    site_scores = rng.normal(size=n) * np.sqrt(sites)
    dependent = (p_values(tests, scores, variances, site_scores, sites, 5) <= alpha).sum()
    assert stats.binom.isf(1 - 1e-6, n, 0.7 * alpha) < dependent < stats.binom.isf(1e-6, n, alpha)


@pytest.mark.parametrize("n_sites", [1, 2, 3, 10, 200])
def test_the_line_of_the_sites_lies_above_the_root_and_near_it(n_sites):
    constant, slope = site_line(1.0, n_sites)
    k = np.arange(1, n_sites + 1)
    ratio = (constant + slope * k) / np.sqrt(k)
    assert (ratio >= 1 - 1e-12).all()
    assert (ratio[4 * k >= n_sites] <= 1.0607).all()
    assert site_line(3.0, n_sites) == pytest.approx((3 * constant, 3 * slope))


SIDES = {
    "2x3": ([0.6, 0.4], [0.2, 0.3, 0.5]),
    "3x3": ([0.2, 0.3, 0.5], [0.1, 0.2, 0.7]),
    "rare": ([0.01, 0.04, 0.95], [0.02, 0.08, 0.9]),
    "8x8": ([0.125] * 8, [0.05, 0.05, 0.1, 0.1, 0.1, 0.1, 0.2, 0.3]),
    "number by 4": ([], [0.1, 0.2, 0.3, 0.4]),
}


@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("rows", [100, 3000])
def test_the_trace_of_simulated_tables_has_the_moments_of_its_chi_square(name, rows):
    rng, replicates = np.random.default_rng(rows + len(name)), 20_000
    x, y = (np.array(own) for own in SIDES[name])
    used = [own[:1] if len(own) == 2 else own for own in (x, y)]
    tests = components_of([tuple(used)], float(rows))
    u, v = simulated(rng, x, y, rows, replicates)
    sides = [len(own) or 1 for own in used]
    u, v = (own[:, : sides[0], : sides[1]].reshape(replicates, -1) for own in (u, v))
    form, mean = (u**2 / tests.expected).sum(axis=1), (v / tests.expected).sum(axis=1)
    ratio = form / mean.mean()
    assert ratio.mean() == pytest.approx(1.0, abs=5 * ratio.std() / np.sqrt(replicates))
    # rare counts are far from normal, and margins are given
    measured = 2 / ratio.var()
    assert 0.65 * measured < tests.dof[0] < (1.35 if name == "rare" else 1.15) * measured
    quantile = stats.chi2.isf(0.01, tests.dof[0]) / tests.dof[0]
    beyond = int((form > quantile * mean).sum())
    assert stats.binom.isf(1 - 1e-6, replicates, 0.002) < beyond
    # the trace has less than half of alpha, so that twice of it is within 1.5 alpha
    assert beyond < stats.binom.isf(1e-6, replicates, 0.021 if name == "rare" else 0.0125)


def simulated(rng, x, y, rows, replicates):
    """Differences and variances of independent tables; of numbers where x has no categories."""
    if not len(x):
        counts = rng.multinomial(rows, y, replicates)[:, None]
        sums = rng.normal(size=counts.shape) * np.sqrt(counts)
        difference = sums - counts / rows * sums.sum(axis=2, keepdims=True)
        return difference, counts * (rows - counts) / rows
    tables = rng.multinomial(rows, np.outer(x, y).ravel(), replicates)
    tables = tables.reshape(-1, len(x), len(y))
    r, c = tables.sum(axis=2)[:, :, None], tables.sum(axis=1)[:, None]
    variance = r * (rows - r) * (c * (rows - c)) / (rows * rows * (rows - 1.0))
    return tables - r * c / rows, variance


def test_weights_are_powers_of_two_and_no_smaller_than_a_row():
    tests = random_components(np.random.default_rng(3), 40, 700.0)
    exponents = np.log2(tests.expected)
    assert (exponents == np.rint(exponents)).all()
    assert (tests.expected >= LEAST_EXPECTED).all()
    assert (tests.dof > 0).all()


def test_the_rarest_category_of_several_is_compared_in_the_trace_alone():
    shares = np.array([0.5, 0.1, 0.4]), np.array([0.3, 0.3, 0.3, 0.1])
    tests = components_of([shares, (shares[0], np.array([0.2])), (np.zeros(0), shares[1])], 100.0)
    assert tests.sizes.tolist() == [12, 3, 4]
    expected = np.ones((3, 4), dtype=bool)
    expected[1], expected[:, 3] = False, False
    assert tests.alone.tolist() == [*expected.ravel(), True, False, True, True, True, True, False]
    assert tests.n_alone.tolist() == [6, 2, 3]


def test_few_tests_of_one_shape_are_computed_once_and_equal_those_alone():
    rng = np.random.default_rng(4)
    shapes = [(shares_of(rng, a), shares_of(rng, b)) for a, b in [(2, 3), (4, 4), (0, 0), (2, 2)]]
    both = components_of(shapes * 3, 400.0)
    alone = [components_of([own], 400.0) for own in shapes]
    assert (both.expected == np.tile(np.concatenate([o.expected for o in alone]), 3)).all()
    assert (both.dof == np.tile([o.dof[0] for o in alone], 3)).all()
    assert both.sizes.tolist() == [o.sizes[0] for o in alone] * 3
