"""Stratified evidence: the textbook's test of all strata, whoever holds them, and silent of one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from driving import drive, plain_sum
from evidence_sites import (
    discrete_codes,
    discrete_site,
    gaussian_site,
    gaussian_values,
    sites_of_rare_categories,
    sites_that_turn,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import random_tests
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import StratifiedTable

from cipherdag import FedCMFS, FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.kind import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.algorithms.evidence.stratified_forms import (
    LEAST_VARIANCE,
    OWN_WEIGHT,
    cauchy_combination,
    faint_p,
    stratified_forms,
)
from cipherdag.errors import AggregateRangeError, MixedTypesError, ParameterError
from cipherdag.questions.coverage import Contributors, Covered
from cipherdag.questions.encodings import pack_blocks
from cipherdag.questions.lockstep import parts_of
from cipherdag.questions.question import CITestSpec, StratifiedTables
from cipherdag.questions.stratified import CELL_BITS, JOLT, SPREAD_VARIANCE
from cipherdag.statistics.normal_scores import normal_scores
from cipherdag.statistics.quadratic_forms import quadratic_forms

SPEC = CITestSpec(alpha=0.01)
CENTRES = [
    [[11, 25], [10, 27]], [[16, 4], [22, 10]], [[14, 5], [7, 12]], [[2, 14], [1, 16]],
    [[6, 11], [0, 12]], [[1, 10], [0, 10]], [[1, 4], [1, 8]], [[4, 2], [6, 1]],
]  # fmt: skip
"""Eight centres, drug or control by success or failure (Agresti, 2002, Table 6.9)."""


def about(categories, tests):
    counts, members = pack_blocks(tests)
    return StratifiedTables(categories=categories, counts=counts, members=members, max_rows=1 << 12)


def settings_for(n_variables, **more):
    return EvidenceSettings(spec=SPEC, n_variables=n_variables, max_rows=1 << 12, **more)


def found(sites, tests, **more):
    """P-values, what was tallied and the questions, bundles taken apart."""

    def asking():
        source = yield from EVIDENCE["stratified"].open(settings_for(sites[0].n_variables, **more))
        p_values = yield from source.p_values(tests)
        return np.concatenate(p_values), dict(source.tally)

    (p_values, tally), asked = drive(asking(), sites)
    return p_values, tally, [part for question in asked for part in parts_of(question)]


def rows_of(table):
    """Codes whose table this is."""
    return np.array([cell for cell, n in np.ndenumerate(table) for _ in range(n)])


def by_hand(parts, categories, x, y, given, *, least=2):
    """Differences and variances of all cells, site by site, configuration by configuration."""
    found = np.zeros((2, categories[x], categories[y]))
    for configuration in product(*(range(categories[v]) for v in given)):
        for rows in parts:
            own = rows[(rows[:, given] == configuration).all(axis=1)]
            own = own[(own[:, [x, y]] >= 0).all(axis=1)]
            if (n := len(own)) < least:
                continue
            table = np.zeros((categories[x], categories[y]))
            np.add.at(table, (own[:, x], own[:, y]), 1)
            r, c = table.sum(axis=1), table.sum(axis=0)
            found[0] += table - np.outer(r, c) / n
            found[1] += np.outer(r * (n - r), c * (n - c)) / (n * n * (n - 1))
    return found[:, : cells_of(categories[x]), : cells_of(categories[y])]


def cells_of(levels):
    return 1 if levels == 2 else levels


def test_the_textbooks_example_of_eight_centres():
    sites = [discrete_site(rows_of(np.array(own)), (2, 2)) for own in CENTRES]
    question = about((2, 2), [np.array([[0, 1]])])
    forms = stratified_forms(question, plain_sum(question, sites), len(sites) * np.ones(1))
    statistic = forms.whole[0] / forms.whole_dof[0]
    assert statistic == pytest.approx(6.38, abs=0.01)
    assert forms.turning_sites[0] == 0
    p_values, tally, _ = found(sites, [np.array([[0, 1]])])
    ours = StratifiedTable([np.array(own) for own in CENTRES]).test_null_odds()
    assert statistic == pytest.approx(ours.statistic, rel=1e-3)
    # at three centres the successes vary by less than 1
    variances = [variance_of(np.array(own)) for own in CENTRES]
    by_centre = [StratifiedTable([np.array(own)]).test_null_odds().statistic for own in CENTRES]
    scores = [score_of(by_centre[k], [variances[k]]) for k in (0, 1, 2, 4)]
    assert forms.own[0] == pytest.approx(sum(scores), abs=8 * 2**-11)
    assert forms.own_sites[0] == 4
    wider = 1 + 1 / (2 * sum(variances)) + SPREAD_VARIANCE / 8 / 2
    own = stats.norm.sf(sum(scores) / 2)
    parts = [[stats.chi2.sf(ours.statistic / wider, 1 / wider)], [own]]
    expected = cauchy_combination(np.array(parts), np.array([[1.0], [OWN_WEIGHT]]))[0]
    assert p_values[0] == pytest.approx(expected, rel=1e-2)
    assert tally == {"stratified": 1}


def variance_of(table):
    """Of the first cell, given the margins."""
    r, c, n = table[0].sum(), table[:, 0].sum(), table.sum()
    return r * (n - r) * c * (n - c) / (n * n * (n - 1.0))


def score_of(form, variances):
    """The normal score of a sum of squares over variances, scaled to that of Poisson counts."""
    count = len(variances)
    scale = 1 / (1 + np.sum(1 / np.array(variances)) / (2 * count))
    return stats.norm.isf(min(stats.chi2.sf(form * scale, count * scale), 1 - 1e-3))


@pytest.mark.parametrize(
    ("sites", "rows", "share", "configurations"),
    [
        (10, 100, 0.05, 4),
        (5, 500, 0.02, 4),
        (10, 200, 0.02, 1),
        (15, 20, 0.05, 1),
        (15, 500, 0.05, 1),
    ],
)
def test_rare_categories_make_no_evidence(sites, rows, share, configurations):
    """Their differences are far from normal: chi-square tails gave up to 0.03 and 0.01 here."""
    rng, pairs = np.random.default_rng(sites * rows), 2500
    categories = (*(2,) * (2 * pairs), configurations)
    parts = []
    for _ in range(sites):
        rare = rng.random((rows, 2 * pairs)) < share
        parts.append(np.column_stack([rare, rng.integers(0, configurations, rows)]).astype(np.int8))
    tests = np.arange(2 * pairs).reshape(pairs, 2)
    asked = [tests]
    if configurations > 1:
        asked = [tests[:0], np.column_stack([tests, np.full(pairs, 2 * pairs)])]
    p_values = found([discrete_site(own, categories) for own in parts], asked, fewest=3)[0]
    done = p_values[~np.isnan(p_values)]
    assert len(done) > 0.9 * pairs
    assert (done <= 0.01).mean() <= 0.015
    assert (done <= 0.001).mean() <= 0.004


@pytest.mark.parametrize("least", [0, 11])
@pytest.mark.parametrize(
    ("sides", "sites", "rows"), [((8, 8), 10, 100), ((12, 10), 3, 200), ((12, 10), 10, 100)]
)
def test_the_level_holds_for_tables_of_many_cells(sides, sites, rows, least):
    """Inverted covariances, each told to a sixteenth, gave .12 to .67 of these."""
    rng, pairs = np.random.default_rng(rows + sides[0]), 400
    categories = sides * pairs
    parts = [rng.integers(0, categories, (rows, 2 * pairs)) for _ in range(sites)]
    test = [np.arange(2 * pairs).reshape(-1, 2)]
    p_value, _, _ = found([discrete_site(own, categories, least) for own in parts], test, fewest=3)
    assert not np.isnan(p_value).any()
    # at a level of 1.5 alpha one run in a million has more
    assert (p_value <= 0.01).sum() <= stats.binom.isf(1e-6, pairs, 0.015)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_bound_where_next_to_nothing_varies_is_one(seed):
    rng = np.random.default_rng(seed)
    mass, expected, variance = np.ones(1), 0.0, 0.0
    while True:
        n = int(rng.integers(2, 60))
        row, column = rng.integers(1, max(n // 8, 2), 2).tolist()
        variance += row * (n - row) * column * (n - column) / (n * n * (n - 1.0))
        if variance > LEAST_VARIANCE:
            break
        own = stats.hypergeom.pmf(np.arange(min(row, column) + 1), n, row, column)
        mass = np.convolve(mass, own)
        expected += row * column / n
    distance = np.abs(np.arange(len(mass)) - expected)
    at_least = np.array([mass[distance >= own - 1e-12].sum() for own in distance])
    bound = faint_p(distance, np.ones(len(mass), dtype=np.int64), np.zeros(len(mass)))
    assert (at_least <= bound + 1e-12).all()


@pytest.mark.parametrize(("together", "independent"), [(0, True), (1, True), (5, False)])
def test_two_rare_categories_are_independent_unless_they_meet(together, independent):
    sites = sites_of_rare_categories(together)
    (p_value,), tally, _ = found(sites, [np.array([[0, 1]])], fewest=3)
    assert (p_value > SPEC.alpha) == independent
    assert tally == {"stratified": 1}


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_of_two_categories_statsmodels_says_the_same(seed):
    rng = np.random.default_rng(seed)
    strata = rng.integers(2, 30, (4, 3, 2, 2))  # sites, configurations
    parts = [
        np.concatenate(
            [np.column_stack([rows_of(t), np.full(int(t.sum()), s)]) for s, t in enumerate(own)]
        )
        for own in strata
    ]
    question = about((2, 2, 3), [np.zeros((0, 2), dtype=int), np.array([[0, 1, 2]])])
    sites = [discrete_site(own, (2, 2, 3)) for own in parts]
    forms = stratified_forms(question, plain_sum(question, sites), len(sites) * np.ones(1))
    whole = StratifiedTable(list(strata.reshape(-1, 2, 2))).test_null_odds()
    # each of four sites rounds its difference and its variance to 2**-10
    assert forms.whole[0] / forms.whole_dof[0] == pytest.approx(
        whole.statistic, abs=0.01 * (1 + whole.statistic)
    )


@given(seed=st.integers(0, 2**32), missing=st.sampled_from([0.0, 0.1]))
@settings(max_examples=20, deadline=None)
def test_it_is_the_stratified_test_of_all_rows_by_hand(seed, missing):
    rng = np.random.default_rng(seed)
    categories = tuple(rng.integers(2, 5, 5).tolist())
    codes = discrete_codes(rng, 1500, categories, missing)
    parts = np.split(codes, [200, 500, 900])
    tests = random_tests(5, [3, 4, 3], rng)
    question = about(categories, tests)
    sites = [discrete_site(own, categories) for own in parts]
    sums = plain_sum(question, sites)
    forms = stratified_forms(question, sums, np.full(question.n_tests, 4.0))
    starts = np.cumsum(question.widths) - question.widths
    complete = [own[(own >= 0).all(axis=1)] for own in parts] if missing else parts
    rows = [row.tolist() for block in tests for row in block]
    for number, (x, y, *given_) in enumerate(rows):
        if missing:
            complete = [own[(own[:, [x, y, *given_]] >= 0).all(axis=1)] for own in parts]
        d, v = by_hand(complete, categories, x, y, given_)
        told = sums[starts[number] : starts[number] + question.widths[number]]
        np.testing.assert_allclose(told, np.array([d, v]).ravel(), atol=4 * 2**-11 + 1e-9)
        statistic, dof = spread_by_hand(d, v)
        assert forms.whole[number] == pytest.approx(statistic, rel=0.02, abs=0.02)
        assert forms.whole_dof[number] == pytest.approx(dof, rel=0.02)


def spread_by_hand(d, v):
    """The sum of squares of all cells as a chi-square of the moments that its bound gives it."""
    expected = v.copy()
    for axis in (0, 1):
        if v.shape[axis] > 1:
            p = shares_by_hand(v.sum(axis=1 - axis))
            expected /= np.expand_dims(1.0 - p, 1 - axis)
    weight = np.maximum(expected, 1.0)
    mean = (v / weight).sum()
    variance = (2 * v * expected / weight**2 + v / weight**2).sum() + mean**2 * SPREAD_VARIANCE / 4
    return (d**2 / weight).sum() * 2 * mean / variance, 2 * mean**2 / variance


def shares_by_hand(spread):
    """Shares p with p (1 - p) in these proportions that add up to 1, by scipy's root finder."""
    relative, most = spread / spread.max(), np.arange(len(spread)) == spread.argmax()

    def p(scale, turned):
        root = np.sqrt(1 - scale * relative)
        return (1 + np.where(most & turned, root, -root)) / 2

    turned = p(1.0, False).sum() < 1
    scale = optimize.brentq(lambda own: p(own, turned).sum() - 1, 1e-9, 1.0)
    return p(scale, turned)


def test_the_variances_are_those_of_all_tables_with_the_same_margins():
    x, y = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 0, 1, 0])
    tables = []
    for order in permutations(range(6)):
        table = np.zeros((3, 3))
        np.add.at(table, (x, y[list(order)]), 1)
        tables.append(table.ravel())
    question = about((3, 3), [np.array([[0, 1]])])
    answer = discrete_site(np.column_stack([x, y]), (3, 3)).answer(question)
    observed = np.zeros((3, 3))
    np.add.at(observed, (x, y), 1)
    assert np.allclose(answer[:9], observed.ravel() - np.mean(tables, axis=0))
    assert np.allclose(answer[9:18], np.var(tables, axis=0))


def test_sites_with_marginals_of_their_own_make_no_evidence():
    rng = np.random.default_rng(7)
    count = 24
    parts = []
    for _ in range(6):
        chances = rng.dirichlet(np.ones(3), count)
        parts.append(
            np.column_stack([rng.choice(3, 300, p=own) for own in chances]).astype(np.int64)
        )
    pairs = np.argwhere(np.triu(np.ones((count, count)), 1))
    sites = [discrete_site(own, (3,) * count) for own in parts]
    p_values, _, _ = found(sites, [pairs])
    deviation = np.sqrt(0.05 * 0.95 / len(pairs))
    assert abs((p_values < 0.05).mean() - 0.05) < 4 * deviation
    pooled = [
        stats.chi2_contingency(
            np.histogram2d(*np.concatenate(parts)[:, own].T, bins=3)[0], correction=False
        ).pvalue
        for own in pairs
    ]
    assert (np.array(pooled) < 0.05).mean() > 0.3


def test_what_tells_of_fewer_sites_than_the_floor_is_not_opened():
    rng = np.random.default_rng(2)
    parts = [rng.integers(0, 2, (rows, 4)) for rows in (400, 400, 300)]
    parts[0][:, 3] = 0  # two sites alone have its second category
    sites = [discrete_site(own, (2,) * 4) for own in parts]
    tests = [np.array([[0, 1], [0, 3]]), np.array([[0, 1, 3], [0, 3, 2]])]
    p_values, tally, asked = found(sites, tests, fewest=3)
    counted = [own for own in asked if isinstance(own, Contributors)]
    (opened,) = [own for own in asked if isinstance(own, Covered)]
    assert len(counted) == 1
    assert plain_sum(counted[0], sites).tolist() == [3, 2, 3, 2, 3, 2, 3, 2, 0, 0, 3, 2]
    # of the first test and the third, what all sites' configurations come to, and their own tests
    told = plain_sum(opened, sites)
    whole = plain_sum(counted[0].question, sites)
    shown = counted[0].question.where(np.array([True, False] * 6))
    assert (told[shown] == whole[shown]).all()
    assert not told[~shown].any()
    assert p_values[1] == 1.0
    assert np.isnan(p_values).tolist() == [False, False, False, True]
    assert tally == {
        "stratified": 2,
        "varies at too few sites": 1,
        "no degrees of freedom or too few sites: none": 1,
    }
    assert found(sites, tests)[0][0] == pytest.approx(p_values[0], rel=2e-3)


def test_of_columns_that_split_rows_alike_no_two_sums_tell_more_than_one():
    """Whatever configurations are called, and however many there are that no row has."""
    rng = np.random.default_rng(0)
    fine, x, y = rng.choice(3, 300, p=[0.6, 0.4, 0.0]), *rng.integers(0, 2, (2, 300))
    finer = np.where(np.arange(300) < 4, 2, fine)  # four rows have a category of their own
    codes = np.column_stack([fine == 0, fine, finer, x, y]).astype(np.int64)
    site = discrete_site(codes, (2, 3, 3, 2, 2), 2)
    tests = [np.zeros((0, 2), int), np.array([[3, 4, 0], [3, 4, 1], [3, 4, 2]])]
    question = about((2, 3, 3, 2, 2), [*tests, np.array([[3, 4, 0, 1]])])
    told = site.answer(question)[: 2 * question.n_tests].reshape(-1, 2)
    assert (told[[1, 3]] == told[0]).all()
    # what four rows more or less would change is far less than what both are moved by
    exact = discrete_site(codes, (2, 3, 3, 2, 2)).answer(question)[: 2 * question.n_tests]
    moved, few = told[2] - told[0], np.diff(exact.reshape(-1, 2)[[0, 2]], axis=0)[0]
    assert abs(moved[1]) > 3 * abs(few[1])


def test_a_sum_over_configurations_is_opened_where_enough_sites_have_any():
    rng = np.random.default_rng(6)
    parts = []
    for site in range(3):  # each varies given another configuration of the last column
        rows = rng.integers(0, 2, (300, 2))
        given = np.repeat([site, (site + 1) % 3], 150)
        rows[150:, 0] = 0
        parts.append(np.column_stack([rows, given]).astype(np.int64))
    sites = [discrete_site(own, (2, 2, 3)) for own in parts]
    tests = [np.zeros((0, 2), int), np.array([[0, 1, 2]])]
    p_values, tally, asked = found(sites, tests, fewest=3)
    (opened,) = [own for own in asked if isinstance(own, Covered)]
    whole = by_hand(parts, (2, 2, 3), 0, 1, [2]).ravel()
    assert plain_sum(opened, sites)[:2] == pytest.approx(whole, abs=3 * 2**-11)
    assert tally == {"stratified": 1}
    assert 0.0 < p_values[0] < 1.0
    # two sites with anything to say are too few
    assert np.isnan(found(sites[:2], tests, fewest=3)[0]).all()


def test_tests_are_remembered_of_which_rows_say_what_too_few_sites_may():
    rng = np.random.default_rng(2)
    parts = [rng.integers(0, 2, (400, 5)) for _ in range(3)]
    parts[0][:, 3] = 0  # two sites alone have its second category
    for own in parts:
        own[:, 4] = own[:, 0]
    sites = [discrete_site(own, (2,) * 5) for own in parts]

    def asking(fewest):
        settings_of = settings_for(5, fewest=fewest)
        source = yield from EVIDENCE["stratified"].open(settings_of)
        tests = np.array([[0, 1, 2], [3, 0, 1], [0, 1, 4]])
        p_values = yield from source.p_values([tests[:0, :2], tests])
        return p_values[1], source.left_undone(
            np.array([[0, 1, 4], [0, 3, 1], [3, 0, 1], [0, 3, 2], [1, 3, 0], [0, 1, 2]])
        )

    (p_value, undone), _ = drive(asking(3), sites)
    # given its own copy a variable is constant: of that no rows say anything
    assert np.isnan(p_value).tolist() == [False, True, True]
    assert undone.tolist() == [False, True, True, False, False, False]
    (p_value, undone), _ = drive(asking(1), sites)
    assert np.isnan(p_value).tolist() == [False, False, True]
    assert not undone.any()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_the_sites_own_tests_are_those_of_each_sites_strata(seed):
    rng = np.random.default_rng(seed)
    tables = rng.integers(0, 12, (4, 3, 2, 2))  # sites, configurations
    expected = np.zeros(4)
    for own in tables:
        r, c, n = own[:, 0].sum(axis=1), own[:, :, 0].sum(axis=1), own.sum(axis=(1, 2))
        difference = own[:, 0, 0] - r * c / np.maximum(n, 1)
        variance = r * (n - r) * c * (n - c) / np.maximum(n * n * (n - 1.0), 1.0)
        if variance.sum() > 1:
            form = difference.sum() ** 2 / variance.sum()
            expected[:2] += score_of(form, [variance.sum()]), 1
        if (enough := variance > 1).any():
            forms = difference[enough] ** 2 / variance[enough]
            expected[2:] += score_of(forms.sum(), variance[enough]), 1
    sites = [
        discrete_site(
            np.concatenate([np.c_[rows_of(t), np.full(t.sum(), s)] for s, t in enumerate(own)]),
            (2, 2, 3),
        )
        for own in tables
    ]
    question = about((2, 2, 3), [np.zeros((0, 2), dtype=int), np.array([[0, 1, 2]])])
    forms = stratified_forms(question, plain_sum(question, sites), len(sites) * np.ones(1))
    own = [forms.own[0], forms.own_sites[0], forms.turning[0], forms.turning_sites[0]]
    assert own == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_an_association_of_another_direction_at_another_site_is_found():
    """Sums of differences cancel; sums of the sites' own chi-squares do not."""
    sites = sites_that_turn(8)
    question = about((2, 2), [np.array([[0, 1]])])
    forms = stratified_forms(question, plain_sum(question, sites), len(sites) * np.ones(1))
    assert stats.chi2.sf(forms.whole[0], 1) > 0.01
    assert found(sites, [np.array([[0, 1]])])[0][0] < 1e-10


def test_strata_below_a_sites_smallest_count_add_nothing():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (60, 3))
    codes[:8, 2], codes[8:, 2] = 1, 0
    question = about((2, 2, 2), [np.zeros((0, 2), dtype=int), np.array([[0, 1, 2]])])
    free, strict = (discrete_site(codes, (2, 2, 2), k).answer(question) for k in (0, 11))
    marginal = about((2, 2, 2), [np.array([[0, 1]])])
    larger = discrete_site(codes[8:], (2, 2, 2)).answer(marginal)
    assert (free[:2] != larger[:2]).all()
    assert (strict[:2] != larger[:2]).all()  # blurred, as small counts are restricted
    assert abs(strict[0] - larger[0]) <= 4 * JOLT * np.sqrt(larger[1])
    assert 0.9**2 <= strict[1] / larger[1] <= 1.1**2
    # what is left of the site's own tests is that of the larger one
    assert (strict[2:4] == strict[4:]).all()
    # who knows that its variance was moved, by a factor of that variance, allows for it
    score = score_of(strict[0] ** 2 / strict[1], [1 / (1 / strict[1] + SPREAD_VARIANCE)])
    assert strict[2:4] == pytest.approx([score, 1])


def test_copies_are_not_independent_and_constants_are():
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, (900, 5))
    codes[:, 1] = codes[:, 0]
    codes[:, 4] = 1
    sites = [discrete_site(own, (3,) * 5) for own in np.split(codes, 3)]
    tests = [np.array([[0, 1], [0, 4]]), np.array([[0, 2, 1], [2, 3, 4]])]
    (copies, constant, given_copy, given_constant), tally, _ = found(sites, tests)
    assert copies < 1e-100
    assert constant == 1.0
    assert np.isnan(given_copy)
    assert given_constant > 0.001
    assert tally["varies at too few sites"] == 1
    assert tally["no degrees of freedom or too few sites: none"] == 1


def test_an_association_of_either_kind_is_found():
    rng = np.random.default_rng(6)
    z = rng.integers(0, 4, 3000)
    x = rng.integers(0, 2, 3000)
    turned = np.where(rng.random(3000) < 0.6, x ^ (z & 1), 1 - (x ^ (z & 1)))
    along = np.where(rng.random(3000) < 0.55, x, 1 - x)
    sites = [
        discrete_site(own, (2, 2, 2, 4))
        for own in np.split(np.column_stack([x, turned, along, z]), 5)
    ]
    marginal, *p_values = found(sites, [np.array([[0, 1]]), np.array([[0, 1, 3], [0, 2, 3]])])[0]
    assert marginal > 0.001
    assert max(p_values) < 1e-4


def test_tests_too_large_fall_back_and_hopeless_ones_are_not_asked():
    rng = np.random.default_rng(8)
    sites = [discrete_site(rng.integers(0, 4, (400, 4)), (4,) * 4) for _ in range(3)]
    tests = [np.array([[0, 1]]), np.array([[0, 1, 2]]), np.array([[0, 1, 2, 3]])]
    p_values, tally, _ = found(sites, tests, max_cells=16)
    assert tally == {
        "stratified": 1, "too large: statistic": 1, "too few rows: none": 1
    }  # fmt: skip
    assert np.isnan(p_values).tolist() == [False, False, True]


def test_numbers_are_tested_within_sites():
    rng = np.random.default_rng(9)
    values = gaussian_values(rng, 900, 4)
    shifted = values + np.repeat(rng.normal(0, 5, (3, 4)), 300, axis=0)
    scaled = shifted * np.repeat([[1.0], [10.0], [0.1]], 300, axis=0)
    tests = random_tests(4, [4, 3], rng)
    plain, other = (
        found([gaussian_site(own) for own in np.split(rows, 3)], tests)[0]
        for rows in (values, scaled)
    )
    assert np.allclose(plain, other, atol=1e-6)


def test_a_test_of_numbers_refuses_categories_by_name():
    rng = np.random.default_rng(1)
    sites = [discrete_site(rng.integers(0, 2, (50, 2)), (2, 2)) for _ in range(3)]
    own = EvidenceSettings(spec=CITestSpec(alpha=0.01, name="fisherz"), n_variables=2)
    with pytest.raises(MixedTypesError, match="fisherz"):
        drive(EVIDENCE["stratified"].open(own), sites)


def test_sums_that_no_tables_add_up_to_are_refused():
    question = about((2, 2), [np.array([[0, 1]])])
    with pytest.raises(AggregateRangeError, match="negative variance"):
        stratified_forms(question, np.array([0.0, -1.0, 0.0, 0.0, 0.0, 0.0]), np.full(1, 3.0))


def test_a_replicate_adds_no_stratum_that_its_rows_do_not_have():
    from cipherdag.sites.compute.pooled.poolable_data import PoolableData

    codes = np.zeros((40, 3), dtype=np.int64)
    codes[:, 0], codes[:, 1] = np.arange(40) % 2, np.arange(40) // 2 % 2
    codes[:5, 2] = 1
    whole = PoolableData(codes, None, (2, 2, 2), min_cell_size=11)
    drawn = codes[np.repeat(np.arange(5), 8)]
    replicate = PoolableData(drawn, None, (2, 2, 2), min_cell_size=11, within=whole)
    question = about((2, 2, 2), [np.zeros((0, 2), dtype=int), np.array([[0, 1, 2]])])
    assert not replicate.answer(question).any()
    assert PoolableData(drawn, None, (2, 2, 2), min_cell_size=11).answer(question).any()


@pytest.mark.parametrize(
    "changes",
    [
        {"categories": (2, 1, 3)},
        {"categories": (2, -2, 3)},
        {"categories": (2, 0, 3)},
        {"members": b"\x00\x00\x00\x00"},
        {"members": b"\x00\x00\x09\x00"},
        {"categories": (4096, 8192, 3)},
    ],
)
def test_questions_about_nothing_cannot_be_made(changes):
    counts, members = pack_blocks([np.array([[0, 1]])])
    asked = {"categories": (2, 3, 3), "counts": counts, "members": members}
    StratifiedTables(**asked)
    with pytest.raises(ValueError, match=r"\w"):
        StratifiedTables(**(asked | changes))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_quadratic_forms_are_those_of_the_pseudo_inverse(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 7))
    factors = rng.normal(size=(5, size, int(rng.integers(1, size + 1))))
    matrices = factors @ factors.transpose(0, 2, 1)
    differences = (matrices @ rng.normal(size=(5, size, 1)))[:, :, 0]
    form, rank, _ = quadratic_forms(differences, matrices, tolerance=1e-9)
    expected = np.einsum("bi,bij,bj->b", differences, np.linalg.pinv(matrices, 1e-9), differences)
    assert np.allclose(form, expected, rtol=1e-5)
    assert (rank == factors.shape[2]).all()


def test_what_rare_counts_add_does_not_know_which_category_is_left_out():
    rng = np.random.default_rng(3)
    margins = rng.integers(2, 40, (2, 4))
    spreads = [own.sum() * np.diag(own) - np.outer(own, own) for own in margins]
    found_with = [
        quadratic_forms(
            np.zeros((1, 9)),
            np.kron(*(np.delete(np.delete(own, k, 0), k, 1) for own in spreads))[None] / 1e4,
            tolerance=1e-9,
        )[2][0]
        for k in range(4)
    ]
    assert found_with == pytest.approx([found_with[0]] * 4)
    assert quadratic_forms(np.ones((1, 1)), np.full((1, 1, 1), 0.4), tolerance=0.1)[2][0] == (
        pytest.approx(2.5)
    )


def test_the_cauchy_combination_keeps_the_level_of_dependent_tests():
    rng = np.random.default_rng(5)
    for correlation in (0.0, 0.7):
        z = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], 200_000)
        p = cauchy_combination(2 * stats.norm.sf(abs(z.T)), np.array([[1.0], [0.4]]))
        assert (p < 0.01).mean() < 0.0115
    even = np.ones((2, 1))
    assert cauchy_combination(np.array([[0.3], [0.3]]), even)[0] == pytest.approx(0.3)
    assert cauchy_combination(np.array([[0.3], [np.nan]]), np.eye(2)[:, :1])[0] == pytest.approx(
        0.3
    )
    assert np.isnan(cauchy_combination(np.array([[0.3], [0.3]]), 0 * even)[0])
    tiny = cauchy_combination(np.array([[1e-200, 0.0], [1.0, 1.0]]), even)
    assert (tiny > 0).all()
    assert tiny[0] == pytest.approx(2e-200, rel=1e-6)


def test_fedcmfs_finds_the_features_of_its_labels_where_sites_differ():
    rng = np.random.default_rng(10)
    parts = []
    for _ in range(4):
        own = rng.dirichlet(np.ones(3), 4)
        codes = np.column_stack([rng.choice(3, 400, p=chance) for chance in own])
        label = np.where(rng.random(400) < 0.5, codes[:, 0], rng.integers(0, 3, 400))
        parts.append(np.column_stack([label, codes]))
    sites = [discrete_site(own, (3,) * 5) for own in parts]
    facts = Facts(5, 4, labels=(0,), fewest=3)
    outcome, _ = drive(FedCMFS(evidence="stratified").ask(facts), sites)
    assert outcome.by_label[0].features == (1,)
    strength = outcome.by_label[0].marginals.strength
    assert strength[1] == np.nanmax(strength) > 10.0


def test_fedcmfs_takes_no_test_beside_it():
    with pytest.raises(ParameterError, match="stratified has tests of its own"):
        FedCMFS(evidence="stratified", test="g2")


@pytest.mark.parametrize("test", ["g2", "pearson", "regression", "kci"])
def test_a_test_that_is_named_needs_evidence_that_takes_it(test):
    for evidence in ("auto", "stratified"):
        with pytest.raises(ParameterError, match=f"for test {test} choose evidence vote, "):
            FedPC(evidence=evidence, test=test)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({}, "stratified"),
        ({"alpha": 0.05, "sepset": "search"}, "stratified"),
        ({"reference": "paper"}, "vote"),
        ({"reference": "code"}, "vote"),
        ({"sepset": "mean"}, "vote"),
        ({"sepset": "vote"}, "vote"),
        ({"vote_share": 0.5}, "vote"),
        ({"evidence": "fisher"}, "fisher"),
    ],
)
def test_what_the_default_evidence_comes_to(choices, expected):
    algorithm = FedPC(**choices)
    assert algorithm.decided_by == expected
    assert replace(algorithm, evidence=expected).disclosures() == algorithm.disclosures()


def test_scores_do_not_underflow_and_rank_as_p_values_do():
    statistic, dof = np.array([5.0, 9.0, 9.0, 4000.0, 5000.0, 0.0]), np.array([1, 1, 4, 4, 4, 0])
    scores = normal_scores(statistic, dof.astype(float))
    assert scores[0] == pytest.approx(stats.norm.isf(stats.chi2.sf(5, 1)), abs=0.05)
    assert scores[2] < scores[1] < scores[3] < scores[4]
    assert scores[5] == 0.0


@pytest.mark.parametrize("rows_per_cell", [1, 2, 5])
def test_sums_of_table_statistics_over_many_sparse_sites_keep_their_level(rows_per_cell):
    rng = np.random.default_rng(rows_per_cell)
    count, cells = 300, 36
    codes = rng.integers(0, [3, 3, 4] * count, (15, cells * rows_per_cell, 3 * count))
    sites = [discrete_site(own, (3, 3, 4) * count) for own in codes]
    tests = [np.zeros((0, 2), dtype=int), np.arange(3 * count).reshape(-1, 3)]

    def asking(kind):
        source = yield from EVIDENCE[kind].open(settings_for(3 * count))
        return (yield from source.p_values(tests))

    for kind in ("statistic", "fisher", "stouffer"):
        p_value = drive(asking(kind), sites)[0][1]
        assert not np.isnan(p_value).any()
        assert (p_value < 0.05).mean() < 0.075 + 2 * np.sqrt(0.05 * 0.95 / count)


def test_moves_are_the_same_in_any_order_of_columns_and_categories_and_for_replicates():
    """Else a mean over plans that look alike would tell what one does not."""
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.integers(0, k, 200) for k in (2, 3, 3)])
    categories = (2, 3, 3)

    def answer(codes, order, test, names):
        renamed = np.column_stack([names[k][codes[:, k]] for k in range(3)])[:, order]
        question = about(
            tuple(categories[k] for k in order), [np.zeros((0, 2), int), np.array([test])]
        )
        site = discrete_site(renamed, question.categories, 11)
        return site.answer(question)[:18].reshape(2, 9)

    same = [np.arange(k) for k in categories]
    d, v = answer(codes, [0, 1, 2], (1, 2, 0), same)
    turned = answer(codes, [2, 0, 1], (0, 2, 1), same)  # y and x, given what is now second
    across = np.arange(9).reshape(3, 3).T.ravel()
    np.testing.assert_allclose(turned[0], d[across])
    np.testing.assert_allclose(turned[1], v[across])
    other = [np.array(own) for own in ([1, 0], [1, 0, 2], [0, 1, 2])]
    renamed = answer(codes, [0, 1, 2], (1, 2, 0), other)
    rows = [3, 4, 5, 0, 1, 2, 6, 7, 8]
    np.testing.assert_allclose(renamed[0], d[rows])
    np.testing.assert_allclose(renamed[1], v[rows])
    wider = about((2, 4, 5), [np.zeros((0, 2), int), np.array([[1, 2, 0]])])
    told = discrete_site(codes, (2, 4, 5), 11).answer(wider)[: 4 * 5].reshape(4, 5)
    # of three categories, now of four and five of which rows have three
    np.testing.assert_allclose(told[:3, :3].ravel(), d, atol=1e-12)


def test_replicates_are_moved_as_the_rows_that_they_were_drawn_from():
    from cipherdag.sites.compute.pooled.poolable_data import PoolableData

    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, (150, 2))
    question = about((2, 2), [np.array([[0, 1]])])
    whole = PoolableData(codes, None, (2, 2), min_cell_size=11)
    factor = whole.answer(question)[1] / PoolableData(codes, None, (2, 2)).answer(question)[1]
    for _ in range(5):
        drawn = codes[rng.integers(0, 150, 150)]
        told = PoolableData(drawn, None, (2, 2), min_cell_size=11, within=whole).answer(question)
        exact = PoolableData(drawn, None, (2, 2)).answer(question)
        assert told[1] / exact[1] == pytest.approx(factor)


def test_a_site_that_restricts_small_counts_moves_variances_alike_at_every_asking():
    """Exact ones, or a factor for every variable, have one solution: the sites' margins."""
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 2, (90, 8))
    pairs = [np.array(list(itertools.combinations(range(8), 2)))]
    question = about((2,) * 8, pairs)
    exact, moved, again, other = (
        discrete_site(rows, (2,) * 8, least).answer(question)[1 : 2 * len(pairs[0]) : 2]
        for rows, least in ((codes, 0), (codes, 11), (codes.copy(), 11), (codes[1:], 11))
    )
    np.testing.assert_array_equal(moved, again)
    share = moved / exact
    assert ((share >= 0.9**2) & (share <= 1.1**2)).all()
    assert (np.abs(other / moved - 1.0) > 1e-3).any()  # another row, other numbers
    # the best factor for every variable explains no more of them than chance does
    indicator = np.zeros((len(pairs[0]), 8))
    indicator[np.arange(len(pairs[0]))[:, None], pairs[0]] = 1.0
    left = np.linalg.lstsq(indicator, np.log(share), rcond=None)[1][0]
    assert left > 0.4 * (np.log(share) ** 2).sum()


def test_moved_differences_vary_as_the_tables_do_and_constants_stay_0():
    rng = np.random.default_rng(4)
    codes = np.column_stack([rng.integers(0, 3, (300, 40)), np.full(300, 2)])
    pairs = [np.array(list(itertools.combinations(range(41), 2)))]
    question = about((3,) * 41, pairs)
    free, strict = (discrete_site(codes, (3,) * 41, k).answer(question) for k in (0, 11))
    free, strict = (own[: 18 * len(pairs[0])].reshape(-1, 2, 9) for own in (free, strict))
    constant = pairs[0][:, 1] == 40
    assert (strict[constant] == 0.0).all()
    free, strict = free[~constant], strict[~constant]
    chi_square = []
    for own, moved in zip(free, strict, strict=True):
        np.testing.assert_allclose(moved[1] / own[1], moved[1, 0] / own[1, 0])  # one factor
        jolt = moved[0] * np.sqrt(1.0 + JOLT**2 / 3.0) - own[0]
        chi_square.append([(jolt**2 / own[1]).sum(), (moved[0] ** 2 / own[1]).sum()])
    jolts, tables = np.mean(chi_square, axis=0)
    assert jolts == pytest.approx(9 * JOLT**2 / 3.0, rel=0.1)
    assert tables == pytest.approx(9.0, rel=0.15)


def test_what_is_opened_of_cells_is_told_on_one_grid():
    question = about((2,) * 3, [np.array([[0, 1], [0, 2]]), np.array([[0, 1, 2]])])
    assert {own.resolution_bits for own in question.encodings} == {CELL_BITS}
