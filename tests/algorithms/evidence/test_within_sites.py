"""Tests within sites: the textbook's test of all strata, whoever holds them; levels and power."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from driving import drive
from evidence_sites import (
    cut,
    discrete_codes,
    discrete_site,
    gaussian_site,
    gaussian_values,
    sites_of_rare_categories,
    sites_that_turn,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_sites import mixed_site
from scipy import stats
from statsmodels.stats.contingency_tables import StratifiedTable

from cipherdag import Federation, FedPC
from cipherdag.algorithms.evidence.federated_test import P_FLOOR, bracketed_p_values
from cipherdag.algorithms.evidence.options import SECOND_ALPHA, EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.errors import MixedTypesError
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.presence import Presence
from cipherdag.questions.scores.score_bits import RaoBits
from cipherdag.questions.threshold import ContributorCounts, Suppressed

ALPHA = 0.01
NONE = np.zeros((0, 2), dtype=np.int64)


def asking(tests, sites, *, bits, alpha=ALPHA, min_contributors=1, **more):
    own = EvidenceSettings(
        spec=CITestSpec(alpha=alpha), n_variables=sites[0].n_variables, max_rows=1 << 14,
        present=Presence(len(sites)), min_contributors=min_contributors, **more,
    )  # fmt: skip
    source = yield from EVIDENCE["stratified"].source(own, closed=bits)
    found = yield from source.p_values(tests)
    return np.concatenate(found), source


def found(sites, tests, *, bits=False, **more):
    (p_values, source), asked = drive(asking(tests, sites, bits=bits, **more), sites)
    return p_values, source, [part for question in asked for part in question.parts]


# what sites say together


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_the_p_value_is_that_of_one_stratified_table_of_all_rows(seed, n_sites):
    """Mantel and Haenszel's statistic over sites and configurations; sites' own tests beside."""
    rng = np.random.default_rng(seed)
    strata = rng.integers(3, 40, (n_sites, 2, 2, 2))
    sites = [
        discrete_site(
            np.array(
                [(*cell, s) for s, t in enumerate(own) for cell, n in np.ndenumerate(t)
                 for _ in range(n)]
            ),
            (2, 2, 2),
        )
        for own in strata
    ]  # fmt: skip
    (p_value,), _, _ = found(sites, [NONE, np.array([[0, 1, 2]])])
    table = StratifiedTable(list(strata.reshape(-1, 2, 2)))
    r, c, n = strata[..., 0, :].sum(-1), strata[..., 0].sum(-1), strata.sum((-1, -2))
    variance = (r * (n - r) * c * (n - c) / (n * n * (n - 1.0))).sum()
    u2 = table.test_null_odds().statistic * variance
    # U^2 = z^2 V + z^4 / 6, solved for z^2
    squared = 3 * (np.sqrt(variance**2 + 2 * u2 / 3) - variance)
    main = stats.chi2.sf(squared, 1) / 0.9
    assert p_value <= min(main, 1) * (1 + 1e-2)
    if p_value < 0.98 * min(main, 1):  # then the sites' tables by themselves say more
        excess = strata[..., 1, 1] - strata[..., 1, :].sum(-1) * strata[..., 1].sum(-1) / n
        each = excess**2 / (r * (n - r) * c * (n - c) / (n * n * (n - 1.0)))
        assert stats.chi2.sf(each.sum(), each.size) < 0.25 * p_value  # a tenth of it, about
    else:
        assert p_value == pytest.approx(min(main, 1), rel=2e-2)


def test_differences_between_sites_are_no_evidence():
    rng = np.random.default_rng(7)
    count, parts = 24, []
    for _ in range(6):
        chances = rng.dirichlet(np.ones(3), count)
        parts.append(np.column_stack([rng.choice(3, 300, p=own) for own in chances]))
    pairs = np.argwhere(np.triu(np.ones((count, count)), 1))
    p_values, _, _ = found([discrete_site(own, (3,) * count) for own in parts], [pairs])
    assert (p_values <= 0.05).sum() <= stats.binom.isf(1e-6, len(pairs), 0.05)
    pooled = [
        stats.chi2_contingency(
            np.histogram2d(*np.concatenate(parts)[:, own].T, bins=3)[0], correction=False
        ).pvalue
        for own in pairs
    ]
    assert (np.array(pooled) < 0.05).mean() > 0.3


def test_means_and_units_of_a_site_do_not_change_the_p_values():
    rng = np.random.default_rng(9)
    values = gaussian_values(rng, 900, 4)
    shifted = values + np.repeat(rng.normal(0, 5, (3, 4)), 300, axis=0)
    scaled = shifted * np.repeat([[1.0], [10.0], [0.1]], 300, axis=0)
    tests = [np.array([[0, 1], [0, 2], [1, 3]]), np.array([[0, 3, 1], [1, 2, 0]])]
    plain, other = (
        found([gaussian_site(own) for own in np.split(rows, 3)], tests)[0]
        for rows in (values, scaled)
    )
    np.testing.assert_allclose(plain, other, rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("bits", [False, True])
def test_an_association_of_another_direction_at_another_site_is_found(bits):
    """Sums of differences cancel; sums of the sites' own scores do not."""
    p_value = found(sites_that_turn(8), [np.array([[0, 1]])], bits=bits)[0][0]
    assert p_value < 1e-10


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize(("together", "independent"), [(0, True), (1, True), (5, False)])
def test_two_rare_categories_are_independent_unless_they_meet(together, independent, bits):
    sites = sites_of_rare_categories(together)
    p_value = found(sites, [np.array([[0, 1]])], bits=bits)[0][0]
    assert (p_value > ALPHA) == independent


def test_tables_too_near_to_independence_show_no_dependence():
    rows = np.column_stack([np.repeat([0, 1], 100), np.tile([0, 1], 100)])
    sites = [discrete_site(rows, (2, 2)) for _ in range(12)]
    for bits in (False, True):
        assert found(sites, [np.array([[0, 1]])], bits=bits)[0].tolist() == [1.0]


# bits


KINDS = {"categories": (2, 3, 2, 4, 2, 3), "numbers": (0,) * 6, "mixtures": (2, 0, 3, 0, 2, 0)}
TESTS = [
    np.array([[a, b] for a in range(6) for b in range(a)]),
    np.array([[a, b, c] for a in range(6) for b in range(a) for c in range(6) if c not in (a, b)]),
]


def sites_of(kind, rng, n_sites=4):
    categories = KINDS[kind]
    values, codes = (
        gaussian_values(rng, 900, 6),
        discrete_codes(rng, 900, [c or 2 for c in categories]),
    )
    if kind == "mixtures":
        codes = (values > 0) + (np.array(categories) == 3) * (values > 1)
    rows = np.where(np.array(categories) > 0, codes, values)
    return [mixed_site(own, categories) for own in cut(rows, n_sites, rng)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.1])
def test_bits_are_whether_the_p_values_of_sums_are_up_to_alpha(kind, alpha):
    sites = sites_of(kind, np.random.default_rng(len(kind)))
    bits, source, asked = found(sites, TESTS, bits=True, alpha=alpha)
    p_values, opened, _ = found(sites, TESTS, alpha=alpha)
    assert {*bits.tolist()} <= {0.0, 1.0}
    clear = np.abs(np.log(p_values / alpha)) > 0.5
    assert clear.mean() > 0.8
    np.testing.assert_array_equal(bits[clear], (p_values > alpha)[clear])
    assert {type(own) for own in asked} <= {Columns, RaoBits}
    assert (
        dict(source.n_tests_by_method)
        == dict(opened.n_tests_by_method)
        == {"within sites": len(p_values)}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_grades_are_the_middles_of_what_two_levels_leave(kind):
    sites, alpha = sites_of(kind, np.random.default_rng(3)), 0.05

    def grading(bits):
        _, source = yield from asking(TESTS, sites, bits=bits, alpha=alpha)
        return np.concatenate((yield from bracketed_p_values(source, TESTS, alpha)))

    grades, _ = drive(grading(True), sites)
    p_values, _ = drive(grading(False), sites)
    assert (p_values == found(sites, TESTS, alpha=alpha)[0]).all()
    middles = [alpha * P_FLOOR**0.5, (alpha * SECOND_ALPHA) ** 0.5, SECOND_ALPHA**0.5]
    assert {*np.unique(grades)} == {*middles}
    ends = np.array([0.0, alpha, SECOND_ALPHA, 1.0])
    place = np.searchsorted(middles, grades)
    assert ((ends[place] <= p_values) & (p_values <= ends[place + 1])).mean() > 0.96


@pytest.mark.parametrize("n_sites", [1, 2, 5])
def test_what_varies_nowhere_is_independent_by_bits(n_sites):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, (n_sites, 100, 3))
    codes[:, :, 1] = 1
    sites = [discrete_site(own, (2, 2, 2)) for own in codes]
    tests = [np.array([[0, 1]]), np.array([[0, 1, 2], [0, 2, 1]])]
    p_values, source, _ = found(sites, tests, bits=True)
    assert p_values[:2].tolist() == [1.0, 1.0]
    assert source.untestable_pairs().tolist() == [[0, 1]]


@pytest.mark.parametrize("kind", ["categories", "numbers", "mixtures"])
def test_pairs_that_vary_together_at_no_site_are_never_tested_by_bits(kind):
    """x varies at one site alone, y at the other one: 0 with 1 tells nothing, all others do."""
    rng = np.random.default_rng(4)
    parts = rng.integers(0, 2, (2, 300, 3)).astype(float)
    parts[0, :, 0] = parts[1, :, 1] = 1.0
    categories = {"categories": (2, 2, 2), "numbers": (0, 0, 0), "mixtures": (2, 0, 2)}[kind]
    sites = [mixed_site(own, categories) for own in parts]
    pairs = [np.array([[0, 1], [0, 2], [1, 2]])]
    p_values, source, _ = found(sites, pairs, bits=True)
    assert source.untestable_pairs().tolist() == [[0, 1]]
    assert p_values[0] == 1.0

    def stepping():
        _, tests = yield from asking(pairs, sites, bits=True)
        return np.concatenate((yield from tests.smallest_levels(pairs, (0.01, 0.001))))

    steps, _ = drive(stepping(), sites)
    assert np.isnan(steps).tolist() == [True, False, False]


def test_a_test_of_one_informative_site_is_done_by_bits():
    rng = np.random.default_rng(3)
    codes = np.zeros((4, 300, 2), dtype=np.int64)
    codes[0] = rng.integers(0, 2, (300, 1))
    sites = [discrete_site(own, (2, 2)) for own in codes]
    assert found(sites, [np.array([[0, 1]])], bits=True, min_contributors=3)[0].tolist() == [0.0]
    assert found(sites, [np.array([[0, 1]])], min_contributors=3)[0].tolist() == [1.0]


@pytest.mark.parametrize(("n_sites", "rows"), [(5, 40), (40, 50), (100, 400)])
@pytest.mark.parametrize("levels", [2, 3])
def test_what_varies_less_than_a_grid_shows_is_no_evidence(n_sites, rows, levels):
    """One row of a kind at every site: a meeting of two of them is what chance brings."""
    one = np.zeros((rows, 2), dtype=np.int64)
    one[:1, 0], one[-1:, 1] = 1, 1
    apart = [discrete_site(one, (levels, levels)) for _ in range(n_sites)]
    pair = [np.array([[0, 1]])]
    assert found(apart, pair, bits=True)[0].tolist() == [1.0]
    meeting = one.copy()
    meeting[:1, 1], meeting[-1:, 1] = 1, 0
    if n_sites / rows > 0.05:
        apart[0] = discrete_site(meeting, (levels, levels))
        assert found(apart, pair, bits=True)[0].tolist() == [1.0]
    together = [discrete_site(meeting, (levels, levels)) for _ in range(n_sites)]
    assert found(together, pair, bits=True)[0].tolist() == [0.0]


# sums


def test_what_tells_of_fewer_sites_than_the_floor_is_not_opened():
    rng = np.random.default_rng(2)
    parts = [rng.integers(0, 2, (rows, 5)) for rows in (400, 400, 300)]
    parts[0][:, 3] = 0  # two sites alone have its second category
    for own in parts:
        own[:, 4] = own[:, 0]
    sites = [discrete_site(own, (2,) * 5) for own in parts]
    tests = [np.array([[0, 1], [0, 3]]), np.array([[0, 1, 2], [0, 1, 3], [0, 3, 2], [0, 1, 4]])]
    p_values, source, asked = found(sites, tests, min_contributors=3)
    (opened,) = [own for own in asked if isinstance(own, Suppressed)]
    (counted,) = [own for own in asked if isinstance(own, ContributorCounts)]
    able = sum(site.answer(counted) for site in sites)
    assert able[:6].tolist() == [3, 2, 3, 3, 0, 2]  # S ascending
    told = sum(site.answer(opened) for site in sites)
    shown = opened.question.value_mask(able >= 3)
    assert (told[shown] == sum(site.answer(opened.question) for site in sites)[shown]).all()
    assert not told[~shown].any()
    # given nothing it is constant elsewhere; given something nobody can say
    assert p_values[1] == 1.0
    assert np.isnan(p_values).tolist() == [False] * 4 + [True, True]
    assert dict(source.n_tests_by_method) == {
        "within sites": 3,
        "varies at too few sites": 1,
        "no degrees of freedom or too few sites: none": 2,
    }
    # given its own copy a variable is constant: of that no rows say anything
    undone = source.skipped_tests(np.array([[0, 1, 4], [3, 0, 2], [0, 3, 2], [0, 1, 3]]))
    assert undone.tolist() == [False, True, True, False]
    assert source.untestable_pairs().tolist() == [[0, 3]]
    fewer = found(sites, tests, min_contributors=2)[0]
    assert np.isnan(fewer).tolist() == [False] * 5 + [True]


def test_copies_are_not_independent_and_constants_are():
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, (900, 5))
    codes[:, 1], codes[:, 4] = codes[:, 0], 1
    sites = [discrete_site(own, (3,) * 5) for own in np.split(codes, 3)]
    tests = [np.array([[0, 1], [0, 4]]), np.array([[0, 2, 1], [2, 3, 4]])]
    copies, constant, given_copy, given_constant = found(sites, tests)[0]
    assert copies < 1e-100
    assert constant == 1.0
    assert np.isnan(given_copy)
    assert given_constant > 0.001


def test_effects_are_one_step_odds_ratios_and_partial_correlations():
    rng = np.random.default_rng(5)
    z = rng.normal(size=4000)
    numbers = np.column_stack([z, 0.5 * z + rng.normal(size=4000)])
    logits = rng.logistic(size=4000)
    rows = np.column_stack([z + logits > 0, rng.integers(0, 2, 4000), numbers])
    rows[:, 1] = np.where(rng.random(4000) < 0.2, rows[:, 0], rows[:, 1])
    categories = (2, 2, 0, 0)
    sites = [mixed_site(own, categories) for own in np.split(rows, 4)]
    tests = [np.array([[0, 1], [2, 3], [0, 2]]), np.array([[2, 3, 1]])]
    _, source, _ = found(sites, tests)
    odds = source.effect((0, 1))
    table = np.histogram2d(rows[:, 0], rows[:, 1], bins=2)[0]
    exact = table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])
    assert (odds.measure, odds.value, odds.low) == ("association", 1.0, None)  # see `one_step`
    step, deviation = source.estimate((0, 1))
    assert step == pytest.approx(np.log(exact), rel=0.15)
    assert deviation == pytest.approx(np.sqrt((1 / table).sum()), rel=0.15)
    r = source.effect((2, 3))
    assert r.value == pytest.approx(np.corrcoef(numbers.T)[0, 1], abs=0.03)
    assert source.effect((2, 3, 1)).value == pytest.approx(r.value, abs=0.03)
    assert source.effect((0, 2)).value > 0
    assert drive(asking(tests, sites, bits=True), sites)[0][1].effect((0, 1)) is None


def test_pairs_rank_by_how_dependent_they_are():
    sites = sites_of("categories", np.random.default_rng(6))
    p_values, source, _ = found(sites, TESTS[:1], ranked=True)
    scores = source.strengths(TESTS[0])
    assert scores == pytest.approx(stats.norm.isf(np.clip(p_values, 1e-300, 1 - 1e-15)))


def test_a_test_of_numbers_refuses_categories_by_name():
    rng = np.random.default_rng(1)
    sites = [discrete_site(rng.integers(0, 2, (50, 2)), (2, 2)) for _ in range(3)]
    own = EvidenceSettings(spec=CITestSpec(alpha=0.01, name="fisherz"), n_variables=2)
    for closed in (False, True):
        with pytest.raises(MixedTypesError, match="fisherz"):
            drive(EVIDENCE["stratified"].source(own, closed=closed), sites)


# levels


def level(sites, tests, *, most=1.5):
    """Of tests of independent variables no more than 1.5 alpha say dependent, beyond chance."""
    bits = found(sites, tests, bits=True)[0]
    assert not np.isnan(bits).any()
    assert (bits == 0).sum() <= stats.binom.isf(1e-6, len(bits), most * ALPHA)
    return (bits == 0).mean()


def shares(levels, kind):
    if kind == "even":
        return np.full(levels, 1 / levels)
    return np.array([1 - 0.01 * (levels - 1), *[0.01] * (levels - 1)])


@pytest.mark.parametrize(
    ("n_sites", "rows", "configurations"), [(3, 200, 1), (3, 200, 4), (10, 100, 4)]
)
@pytest.mark.parametrize(
    ("x", "y", "kind", "pairs"),
    [
        (2, 2, "even", 1000), (2, 2, "rare", 1000), (4, 4, "rare", 400), (4, 4, "even", 400),
        (6, 6, "even", 200), (8, 8, "rare", 150),
    ],
)  # fmt: skip
def test_the_level_holds_of_categories(n_sites, rows, configurations, x, y, kind, pairs):
    rng = np.random.default_rng([n_sites, configurations, x, y, len(kind)])
    categories = (*(x,) * pairs, *(y,) * pairs, configurations + 1)
    sites = []
    for _ in range(n_sites):
        own = [rng.choice(v, (rows, pairs), p=shares(v, kind)) for v in (x, y)]
        given_ = rng.integers(0, configurations, (rows, 1))
        sites.append(discrete_site(np.hstack([*own, given_]), categories))
    pair = np.column_stack([np.arange(pairs), pairs + np.arange(pairs)])
    tests = [pair]
    if configurations > 1:
        tests = [NONE, np.column_stack([pair, np.full(pairs, 2 * pairs)])]
    level(sites, tests)


@pytest.mark.parametrize("chances", [(0.975, 0.025, 0), (0.96, 0.02, 0.02), (0.96, 0.04, 0, 0)])
def test_the_level_holds_where_categories_have_next_to_no_rows(chances):
    """Of such few, and of none that a schema names, a chi-square is .03 to .08 at level .01."""
    rng, pairs = np.random.default_rng(len(chances)), 1500
    categories = (len(chances),) * (2 * pairs)
    for n_sites, rows in ((5, 40), (3, 100)):
        own = (rng.choice(len(chances), (rows, 2 * pairs), p=chances) for _ in range(n_sites))
        sites = [discrete_site(codes, categories) for codes in own]
        level(sites, [np.arange(2 * pairs).reshape(2, -1).T])


@pytest.mark.parametrize(("n_sites", "rows"), [(3, 200), (10, 100)])
@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "spread"])
def test_the_level_holds_of_numbers(n_sites, rows, size, shape):
    """Spread by S, or lognormal; a weighted mean of z would say 13 to 24 alpha of the former."""
    rng, pairs = np.random.default_rng([n_sites, size, len(shape)]), 400
    sites = []
    for _ in range(n_sites):
        s = rng.normal(size=(rows, 3))
        noise = rng.normal(size=(rows, 2 * pairs))
        if shape == "lognormal":
            noise = np.exp(noise)
        if shape == "spread":
            noise *= np.exp(0.7 * s[:, :1])
        slopes = rng.normal(size=(size, 2 * pairs))
        sites.append(gaussian_site(np.hstack([s[:, :size] @ slopes + noise, s])))
    pair = np.column_stack([np.arange(pairs), pairs + np.arange(pairs)])
    given_ = np.tile(2 * pairs + np.arange(size), (pairs, 1))
    tests = [*(np.zeros((0, 2 + k), dtype=np.int64) for k in range(size))]
    # what S does not have makes two numbers dependent
    most = 2.5 if shape == "spread" else 1.5
    if shape == "spread" and size == 0:
        return
    level(sites, [*tests, np.hstack([pair, given_])], most=most)


@pytest.mark.parametrize(("n_sites", "rows", "size"), [(3, 100, 1), (10, 50, 2), (15, 40, 0)])
def test_the_level_holds_where_levels_and_slopes_are_a_site_s_own(n_sites, rows, size):
    rng, p = np.random.default_rng([n_sites, rows, size]), 300
    categories = (2,) * p + (0,) * p + (0, 0)
    sites = []
    for _ in range(n_sites):
        s = rng.normal(size=(rows, 2))
        slopes = rng.normal(size=(2, p)) * (size > 0)
        own = np.empty((rows, 2 * p + 2))
        own[:, :p] = s[:, :1] * slopes[0] + rng.logistic(size=(rows, p)) > rng.normal()
        own[:, p : 2 * p] = s[:, :1] * slopes[1] + rng.normal(rng.normal(), 1.0, (rows, p))
        own[:, 2 * p :] = s
        sites.append(mixed_site(own, categories))
    pairs = np.column_stack([np.arange(p), p + np.arange(p)])
    given_ = np.tile([2 * p, 2 * p + 1][:size], (p, 1)).reshape(p, size).astype(np.int64)
    empty = [np.zeros((0, 2 + k), dtype=np.int64) for k in range(size)]
    level(sites, [*empty, np.column_stack([pairs, given_])])


# power


def powers(x, y, same, rows, n_sites, exact, *, pairs=200):
    """Of the test by bits, and of a test of the table of all rows; y is x in some of them."""
    rng = np.random.default_rng(len(x) + rows)
    categories, sizes = (len(x),) * pairs + (len(y),) * pairs, (len(x), len(y))
    parts, tables = [], np.zeros((pairs, *sizes))
    for _ in range(n_sites):
        first = rng.choice(len(x), (rows, pairs), p=x)
        second = rng.choice(len(y), (rows, pairs), p=y)
        second = np.where(rng.random((rows, pairs)) < same, first, second)
        parts.append(discrete_site(np.hstack([first, second]), categories))
        for k in range(pairs):
            np.add.at(tables[k], (first[:, k], second[:, k]), 1.0)
    pair = np.column_stack([np.arange(pairs), pairs + np.arange(pairs)])
    ours = (found(parts, [pair], bits=True)[0] == 0).mean()
    return ours, np.mean([exact(table) <= ALPHA for table in tables])


def chi_square(table):
    return stats.chi2_contingency(table, correction=False)[1]


def fisher_exact(table):
    return stats.fisher_exact(table.astype(int))[1]


def even(levels):
    return (1 / levels,) * levels


POWERS = {
    "2 % and 5 %, 3 x 1,000": ((0.98, 0.02), (0.95, 0.05), 0.08, 1000, 3, fisher_exact),
    "10 % and 10 %, 30 x 33": ((0.9, 0.1), (0.9, 0.1), 0.08, 33, 30, fisher_exact),
    "3 x 3, 10 x 100": (even(3), even(3), 0.09, 100, 10, chi_square),
    "2 x 2, 3 x 200": (even(2), even(2), 0.13, 200, 3, chi_square),
    "4 x 4, 3 x 200": (even(4), even(4), 0.11, 200, 3, chi_square),
    "8 x 8, 3 x 200": (even(8), even(8), 0.10, 200, 3, chi_square),
}


@pytest.mark.parametrize("case", POWERS)
def test_power_is_near_that_of_all_rows_together(case):
    ours, all_rows = powers(*POWERS[case])
    assert 0.3 < all_rows < 0.95
    assert ours > 0.82 * all_rows


def test_power_of_numbers_is_near_that_of_the_partial_correlation():
    rng, pairs = np.random.default_rng(8), 400
    parts = []
    z = np.zeros(pairs)
    for _ in range(3):
        s, x = rng.normal(size=(200, 1)), rng.normal(size=(200, pairs))
        y = 0.13 * x + s + rng.normal(size=(200, pairs))
        parts.append(gaussian_site(np.hstack([x + s, y, s])))
        design = np.column_stack([np.ones(200), s])
        left = [own - design @ np.linalg.lstsq(design, own, rcond=None)[0] for own in (x + s, y)]
        r = (left[0] * left[1]).sum(0) / np.sqrt((left[0] ** 2).sum(0) * (left[1] ** 2).sum(0))
        z += 196 * np.arctanh(r)
    exact = (2 * stats.norm.sf(np.abs(z) / np.sqrt(3 * 196)) <= ALPHA).mean()
    test = np.column_stack([np.arange(pairs), pairs + np.arange(pairs), np.full(pairs, 2 * pairs)])
    ours = (found(parts, [NONE, test], bits=True)[0] == 0).mean()
    assert 0.5 < exact < 0.95
    assert ours > exact - 0.08


# whole runs


@cache
def strong_rows():
    """a -> c <- b, c -> d, e -> d, f alone: effects that no sample of this size misses."""
    rng, n = np.random.default_rng(5), 24000

    def noisy(value, share, levels):
        return np.where(rng.random(n) < share, rng.integers(0, levels, n), value)

    a, b, e = rng.integers(0, 3, n), rng.integers(0, 2, n), rng.integers(0, 2, n)
    c = noisy(np.minimum(a + b, 2), 0.3, 3)
    d = noisy(np.minimum(c + e, 2), 0.3, 3)
    f = rng.choice(4, n, p=(0.9, 0.05, 0.03, 0.02))
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": e, "f": f}).astype(str)


@cache
def linear_rows():
    rng, n = np.random.default_rng(7), 6000
    a, b = rng.normal(size=(2, n))
    c = a + b + rng.normal(size=n)
    e = c + rng.normal(size=n) > 0
    return pd.DataFrame({"a": a, "b": b, "c": c, "e": np.where(e, "yes", "no")})


@pytest.mark.parametrize(
    ("rows", "arrows"),
    [
        (strong_rows, {("a", "c"), ("b", "c"), ("c", "d"), ("e", "d")}),
        (linear_rows, {("a", "c"), ("b", "c"), ("c", "e")}),
    ],
)
def test_a_large_sample_gives_the_true_graph_by_bits_and_by_sums(rows, arrows):
    federation = Federation.split(rows(), 4, seed=0, device="cpu")
    bits = federation.run(FedPC(reveal="bits", alpha=1e-4))
    sums = federation.run(FedPC(reveal="sums", alpha=1e-4))
    assert {(e.source, e.target) for e in bits.finding.graph.edges if e.mark == "-->"} == arrows
    assert bits.finding.graph == sums.finding.graph
    kinds = {own.kind for own in bits.rounds} - {"misfit-sums+score-bits+score-sums"}
    assert kinds == {"column-kinds", "score-bits+score-sums"}
    assert all(own.p_value is None for own in bits.finding.evidence.edges)


def test_sites_whose_slopes_differ_draw_no_edge():
    rng = np.random.default_rng(11)
    parts = {}
    for name, slope in {"north": 3.0, "south": 0.4, "west": 2.0, "east": 1.0}.items():
        s = rng.normal(size=400)
        x = np.where(slope * s + rng.logistic(size=400) > 0, "yes", "no")
        parts[name] = pd.DataFrame({"s": s, "x": x, "y": slope * s + rng.normal(size=400)})
    found_ = Federation.simulate(parts, device="cpu").run(FedPC(alpha=0.01, reveal="bits"))
    assert not any({e.source, e.target} == {"x", "y"} for e in found_.finding.graph.edges)
