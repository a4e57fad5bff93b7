"""No site's tables follow from the statistics of tests that a run opens.

The attack: the coordinator and a site that sides with it subtract that site's part from the sums of
three sites, and look for the tables in whole numbers that the other two may have. Of exact sums
there is one solution, counts below `min_cell_size` included.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
import torch
from cipherdag.sites.compute.ci_tests.moved_test import MOVE, MovedCorrelations, few_valued
from driving import drive
from scipy.stats import chi2, kstest, norm

from cipherdag import FedCMFS, Federation, FedPC
from cipherdag.algorithms.algorithm import Facts
from cipherdag.questions.ci_tests import CITestSpec
from cipherdag.questions.combined_evidence import COMBINATIONS, CombinedEvidence
from cipherdag.questions.coverage import Contributors
from cipherdag.questions.encodings import pack_blocks, segments
from cipherdag.questions.separators import CandidateScores, SeparatorSearch
from cipherdag.questions.skeleton import Skeleton
from cipherdag.questions.weighted_evidence import WeightedEvidence
from cipherdag.sites.answers.table_respondent import table_respondent
from cipherdag.sites.compute.ci_tests import correlations
from cipherdag.sites.compute.ci_tests.combined_summands import combined_evidence
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest
from cipherdag.sites.compute.pooled.blur import Blur
from cipherdag.statistics.chi_square_moments import conditional_variances, moment_matched

LEAST = 11
NAMES = ["v1", "v2", "v3", "v4"]
PAIRS = [(0, 1), (0, 2), (1, 2)]
FARTHEST = 3.0
"""Of what moves a test: standard deviations that an attacker reckons with."""


def drawn(rows, seed, rare):
    rng = np.random.default_rng(seed)
    first = rng.random(rows) < 0.35
    second = rng.random(rows) < 0.2 + 0.12 * first
    third = rng.random(rows) < rare + 0.02 * first
    fourth = rng.random(rows) < 0.3 + 0.1 * second
    return np.column_stack([first, second, third, fourth]).astype(int)


def tables_of(arrays, names=NAMES):
    """The sites' own tables, of columns of two categories."""
    frames = {}
    for name, own in zip("ABCDEFGH", arrays, strict=False):
        columns = {v: pd.Categorical(own[:, k], categories=[0, 1]) for k, v in enumerate(names)}
        frames[name] = pd.DataFrame(columns)
    return [site.table for site in Federation.simulate(frames, labels=["v1"]).sites]


def respondents(arrays, least, names=NAMES):
    return [
        table_respondent(own, min_cell_size=least, device="cpu") for own in tables_of(arrays, names)
    ]


class Listening:
    """A site that keeps what it is asked and tells of tests, as it is encoded."""

    def __init__(self, own):
        self.own, self.told = own, []

    def answer(self, question):
        found = self.own.answer(question)
        inner = getattr(question, "question", question)
        kinds = WeightedEvidence | CombinedEvidence
        if isinstance(inner, kinds) and not isinstance(question, Contributors):
            self.told.append((inner, found))
        return found


def opened(asking, arrays, least, names=NAMES):
    """What is opened of every triplet: the first two segments' sums less the last site's part."""
    sites = [Listening(own) for own in respondents(arrays, least, names)]
    drive(asking, sites)
    found = {}
    for parts in zip(*(own.told for own in sites), strict=True):
        question = parts[0][0]
        left = sum(answer for _, answer in parts[:-1])
        first, second, *_ = segments(question.encodings, left)
        rows = [tuple(row) for block in question.rows() for row in block.tolist()]
        for place, row in enumerate(rows):
            found[row] = first[place], second[place] if place < len(second) else np.nan
    return found


def cells(codes, x, y):
    """Rows with both, with x alone, with y alone, and with neither."""
    own, other = codes[:, x] == 1, codes[:, y] == 1
    parts = (own & other, own & ~other, ~own & other, ~own & ~other)
    return np.array([part.sum() for part in parts])


def g2(table):
    table = np.asarray(table, dtype=float)
    n = table.sum(-1)
    a, b = table[..., 0] + table[..., 1], table[..., 0] + table[..., 2]
    expected = np.stack([a * b, a * (n - b), (n - a) * b, (n - a) * (n - b)], -1) / n[..., None]
    with np.errstate(all="ignore"):
        return 2 * np.where(table > 0, table * np.log(table / expected), 0).sum(-1)


def told(strata):
    """What a site tells of two columns given a third: of tables, shape (..., strata, 4)."""
    strata = np.asarray(strata, dtype=float)
    n = strata.sum(-1)
    a, b = strata[..., 0] + strata[..., 1], strata[..., 0] + strata[..., 2]
    excess = strata[..., 0] * strata[..., 3] - strata[..., 1] * strata[..., 2]
    margins = a * (n - a) * b * (n - b)
    pearson = np.where(margins > 0, excess**2 * (n - 1) / np.maximum(margins, 1), 0.0).sum(-1)
    sides = []
    for own in (a, b):
        both = np.stack([own, n - own], -1)
        levels = (both > 0).sum(-1)
        shares = np.where(both > 0, n[..., None] / np.maximum(both, 1), 0.0).sum(-1)
        sides.append((levels, torch.from_numpy(shares)))
    dof = np.prod([np.maximum(levels - 1, 0) for levels, _ in sides], axis=0).sum(-1)
    sides = [(torch.from_numpy(levels).double(), shares) for levels, shares in sides]
    variance = conditional_variances(torch.from_numpy(n), *sides).sum(-1).numpy()
    return moment_matched(pearson, dof.astype(float), variance)


def all_tables(n, *, ordered):
    """Margins of at most half, and how many rows have both: all of n rows, but for names."""
    margin = np.arange(1, n // 2 + 1)
    a, b, both = np.meshgrid(margin, margin, np.arange(n // 2 + 1), indexing="ij")
    kept = (both <= np.minimum(a, b)) & ((a <= b) | ordered)
    a, b, both = a[kept], b[kept], both[kept]
    return np.stack([both, a - both, b - both, n - a - b + both], -1)


def alike(table):
    """All namings of the two categories and the two columns."""
    square = np.array(table).reshape(2, 2)
    turns = [square, square.T]
    return {tuple(t[:: i or 1, :: j or 1].ravel()) for t in turns for i in (1, -1) for j in (1, -1)}


CMFS = [drawn(150, 5, 0.02), drawn(190, 2, 0.02), drawn(160, 3, 0.02)]


def fedcmfs(least):
    facts = Facts(4, 3, labels=(0,), fewest=3)
    return opened(FedCMFS().ask(facts), CMFS, least)


def pairs_that_fit(pair_sums, first, second):
    """Pairs of tables of two sites whose exact sums of n p and n G2 are these."""
    weighted, strength = pair_sums
    n, m = first[0].sum(), second[0].sum()
    one, two = g2(first), g2(second)
    order = np.argsort(two)
    wanted = (strength - n * one) / m
    tolerance = 3e-6
    low, high = (np.searchsorted(two[order], wanted + way * tolerance / m) for way in (-1, 1))
    fits = [(i, order[k]) for i in np.flatnonzero(high > low) for k in range(low[i], high[i])]
    p_value = n * chi2.sf(one, 1), m * chi2.sf(two, 1)
    return [(i, k) for i, k in fits if abs(p_value[0][i] + p_value[1][k] - weighted) < tolerance]


def test_exact_sums_of_p_and_strength_have_one_solution_which_is_the_sites_tables():
    found = fedcmfs(0)
    first, second = (all_tables(n, ordered=False) for n in (150, 190))
    for y in (1, 2, 3):
        ((i, k),) = pairs_that_fit(found[0, y], first, second)
        assert alike(first[i]) == alike(cells(CMFS[0], 0, y))
        assert alike(second[k]) == alike(cells(CMFS[1], 0, y))


def test_what_sites_that_restrict_counts_open_of_p_and_strength_fits_thousands_of_tables():
    found = fedcmfs(LEAST)
    first, second = (all_tables(n, ordered=False) for n in (150, 190))
    for y in (1, 2, 3):
        assert pairs_that_fit(found[0, y], first, second) == []
        # two sums are two equations in two moved statistics: these follow, at best
        weighted, strength = found[0, y]
        own = np.linspace(0.0, strength / 150, 20001)
        other = (strength - 150 * own) / 190
        left = 150 * chi2.sf(own, 1) + 190 * chi2.sf(other, 1) - weighted
        turns = np.flatnonzero(np.sign(left[1:]) != np.sign(left[:-1]))
        assert len(turns)
        for place in turns:
            fits = np.abs(np.sqrt(g2(first)) - np.sqrt(own[place] * (1 + MOVE**2)))
            fitting = first[fits <= FARTHEST * MOVE]
            assert len(fitting) > 3000
            margins = fitting[:, 0] + fitting[:, 1]
            assert np.ptp(margins) > 50


THREE = NAMES[:3]
TRIANGLE = [drawn(90, 5, 0.04)[:, :3], drawn(110, 2, 0.04)[:, :3], drawn(100, 4, 0.04)[:, :3]]


def fedpc(least):
    facts = Facts(3, 3, names=tuple(THREE), fewest=3)
    return opened(FedPC(evidence="statistic").ask(facts), TRIANGLE, least, THREE)


def triangles(found):
    """Counts of three columns at two sites that have the exact sums of statistics."""
    first, second = (all_tables(n, ordered=True) for n in (90, 110))
    one, two = told(first[:, None]), told(second[:, None])
    order = np.argsort(two)
    margins = [np.stack([t[:, 0] + t[:, 1], t[:, 0] + t[:, 2]], -1) for t in (first, second)]
    fits = {}
    for pair in PAIRS:
        wanted = found[pair][0] - one
        low, high = (np.searchsorted(two[order], wanted + way * 1.5e-7) for way in (-1, 1))
        hits = np.flatnonzero(high > low)
        fits[pair] = [(i, order[k]) for i in hits for k in range(low[i], high[i])]
    by_first, by_both = defaultdict(list), defaultdict(list)
    for i, k in fits[0, 1]:
        by_first[margins[0][i, 0], margins[1][k, 0]].append((i, k))
    for i, k in fits[1, 2]:
        by_both[(*margins[0][i], *margins[1][k])].append((i, k))
    return [
        tuple((first[a].tolist(), second[b].tolist()) for a, b in ((i, k), (g, h), (e, f)))
        for i, k in fits[0, 2]
        for g, h in by_first[margins[0][i, 0], margins[1][k, 0]]
        for e, f in by_both[margins[0][g, 1], margins[0][i, 1], margins[1][h, 1], margins[1][k, 1]]
    ]


def test_exact_sums_of_statistics_of_three_columns_have_one_solution():
    true = tuple(
        tuple(cells(own, *pair).tolist() for own in TRIANGLE[:2])
        for pair in ((0, 2), (0, 1), (1, 2))
    )
    assert triangles(fedpc(0)) == [true]


def test_moved_sums_of_statistics_have_no_solution_or_not_the_true_one():
    true = cells(TRIANGLE[0], 0, 2).tolist()
    assert all(found[0][0] != true for found in triangles(fedpc(LEAST)))


def test_not_even_of_one_site_alone_do_tests_given_different_columns_tell_its_rows():
    """Of a site whose companions all side with the coordinator, six tests of three columns."""
    codes = TRIANGLE[0]
    triplets = [np.array(PAIRS), np.array([(0, 1, 2), (0, 2, 1), (1, 2, 0)])]
    question = asked("statistic", triplets, 3)
    (own,) = respondents([codes], LEAST, THREE)
    moved, dof, _ = segments(question.encodings, own.answer(question))

    def statistics(counts):
        cube = counts.reshape(2, 2, 2)
        found = []
        for x, y in PAIRS:
            (s,) = {0, 1, 2} - {x, y}
            strata = cube.transpose(s, x, y)[:, ::-1, ::-1].reshape(2, 4)
            found.append((told(strata.sum(axis=0)[None, None]), told(strata[None])))
        return np.array(found, dtype=float).T.ravel()

    counts = np.bincount(codes @ [4, 2, 1], minlength=8)
    (open_site,) = respondents([codes], 0, THREE)
    exact = segments(question.encodings, open_site.answer(question))[0]
    assert statistics(counts) == pytest.approx(exact)

    def fits(counts):
        reach = np.abs(np.sqrt(statistics(counts)) - np.sqrt(moved * (1 + MOVE**2)))
        return (reach <= MOVE * np.sqrt(FARTHEST**2 + dof - 1)).all()

    rng = np.random.default_rng(0)
    assert fits(counts)
    met = set()
    for out, into in rng.integers(0, 8, (20_000, 2)):
        nearby = counts.copy()
        nearby[out] -= 1
        nearby[into] += 1
        if (nearby >= 0).all() and fits(nearby):
            counts = nearby
            met.add(tuple(counts.tolist()))
    assert len(met) > 3000
    # of each column, and of rows with any two of them
    cubes = np.array(list(met)).reshape(-1, 2, 2, 2)
    for axis in range(3):
        assert np.ptp(cubes.take(1, axis=axis + 1).sum(axis=(1, 2))) > 15
    assert np.ptp(cubes[:, 1, 1].sum(axis=1)) > 10


def asked(combination, triplets, width, **settings):
    counts, members = pack_blocks(triplets)
    return CombinedEvidence(
        n_variables=width,
        test=CITestSpec(alpha=0.05, name="exact-mean", min_rows_per_cell=1.0),
        combination=combination,
        counts=counts,
        members=members,
        **settings,
    )


TRIPLETS = [np.array([(0, 1), (0, 2)]), np.array([(0, 1, 2)])]


def p_values(site, width=4, triplets=TRIPLETS, combination="statistic"):
    """A site's own p-values, from what it adds."""
    question = asked(combination, triplets, width)
    first, second, *rest = segments(question.encodings, site.answer(question))
    if combination == "statistic":
        return chi2.sf(first, second)
    if combination == "fisher":
        return np.exp(-first / 2)
    return norm.sf(second / np.sqrt(rest[0])) if combination == "stouffer" else first / second


def test_all_combinations_another_order_and_other_names_are_one_equation():
    codes = drawn(300, 9, 0.2)
    (site,), (again,), (exact,) = (respondents([codes], least) for least in (LEAST, LEAST, 0))
    found = p_values(site)
    assert (p_values(again) == found).all()
    assert np.abs(p_values(exact) - found).min() > 1e-4
    for combination in COMBINATIONS:
        assert p_values(site, combination=combination) == pytest.approx(found, abs=1e-9)
    (other,) = respondents([1 - codes], LEAST)
    assert p_values(other) == pytest.approx(found, abs=1e-9)
    (turned,) = respondents([codes[:, ::-1]], LEAST)
    mirrored = [np.array([(3, 2), (3, 1)]), np.array([(2, 3, 1)])]
    assert p_values(turned, 4, mirrored) == pytest.approx(found, abs=1e-9)


def test_a_copy_of_a_column_tells_the_same_and_averages_nothing_out():
    codes = drawn(300, 9, 0.2)
    codes[:, 3] = codes[:, 1]
    (site,) = respondents([codes], LEAST)
    one, other = p_values(site, 4, [np.array([(0, 1), (0, 3)])])
    assert one == other


def test_means_of_p_values_of_separating_sets_and_best_ones_are_moved_and_votes_are_not():
    codes = drawn(300, 9, 0.2)
    search = SeparatorSearch(
        skeleton=Skeleton.from_matrix(
            np.array([[0, 0, 1, 0], [0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]) > 0
        ),
        pairs=np.array([(0, 1)], dtype="<i8").tobytes(),
        test=CITestSpec(alpha=0.001),
    )
    (moved,), (exact,) = respondents([codes], LEAST), respondents([codes], 0)
    mean = CandidateScores(search=search, first=0, count=2, score="mean")
    told, own = (site.answer(mean) for site in (moved, exact))
    assert (told[:2] != own[:2]).all()
    assert (told[2:] == own[2:]).all()
    votes = CandidateScores(search=search, first=0, count=2, score="vote")
    assert (moved.answer(votes) == exact.answer(votes)).all()


def test_moved_statistics_are_chi_squares_where_the_exact_ones_are():
    """Of different degrees of freedom; so every combination keeps its level."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        codes = rng.integers(0, 2, (400, 12))
        codes[:, 6:] = rng.integers(0, 2, (400, 6))
        names = [f"v{k + 1:02}" for k in range(12)]
        names[0] = "v1"
        (site,) = respondents([codes], LEAST, sorted(names))
        triplets = [np.zeros((0, 2)), np.zeros((0, 3)), np.arange(12).reshape(3, 4)]
        found.append(p_values(site, 12, triplets))
    assert kstest(np.concatenate(found), "uniform").pvalue > 0.01


def test_rows_drawn_for_a_replicate_are_moved_as_the_rows_and_once_more():
    from cipherdag.questions.question import Resampled

    codes = drawn(400, 9, 0.2)
    question = asked("statistic", [np.array([(0, 1)])], 4)
    (moved,), (exact,) = respondents([codes], LEAST), respondents([codes], 0)

    def roots(site, number=None):
        own = question if number is None else Resampled(question=question, replicate=number, seed=1)
        return np.sqrt(site.answer(own)[0])

    of_rows = (roots(moved) * np.sqrt(1 + MOVE**2) - roots(exact)) / MOVE
    beside = []
    for number in range(1, 200):
        own = roots(exact, number)
        once = (own + MOVE * of_rows) / np.sqrt(1 + MOVE**2)
        if own > 4 * MOVE:  # else the root may have lost its sign
            beside.append((roots(moved, number) * np.sqrt(1 + MOVE**2) - once) / MOVE)
    # two replicates may have one table
    assert len(np.unique(np.round(beside, 9))) > 0.9 * len(beside) > 30
    assert abs(np.mean(beside)) < 4 / np.sqrt(len(beside))
    assert np.std(beside) == pytest.approx(1.0, abs=4 / np.sqrt(2 * len(beside)))


def told_z(table, least, triplets, number=None):
    """What a site tells of numbers: Fisher's z, shape (B,)."""
    from cipherdag.questions.question import Resampled

    counts, members = pack_blocks(triplets)
    question = CombinedEvidence(
        n_variables=len(table.names),
        test=CITestSpec(alpha=0.05, name="fisherz"),
        combination="stouffer",
        counts=counts,
        members=members,
    )
    site = table_respondent(table, min_cell_size=least, device="cpu")
    own = question if number is None else Resampled(question=question, replicate=number, seed=1)
    _, products, weights, _ = segments(question.encodings, site.answer(own))
    return products / np.sqrt(weights)


def table_of_numbers(values, names=None):
    """The table of a site that tells its columns as numbers, in the order of their names."""
    names = [f"v{k + 1:02}" for k in range(values.shape[1])] if names is None else names
    frame = pd.DataFrame(values, columns=names)
    (table,) = (site.table for site in Federation.simulate({"A": frame}).sites)
    return table


def test_numbers_are_moved_where_one_column_has_few_values_and_not_where_all_have_many():
    rng = np.random.default_rng(0)
    few = rng.integers(0, 2, (300, 2)) + 0.5
    many = np.column_stack([rng.integers(18, 95, 300), rng.normal(size=300)])
    table = table_of_numbers(np.column_stack([few, many]))
    triplets = [np.array([(0, 1), (2, 3), (0, 2)]), np.array([(0, 1, 2), (2, 3, 0)])]
    told, own = (told_z(table, least, triplets) for least in (LEAST, 1))
    assert (told[[0, 2, 3, 4]] != own[[0, 2, 3, 4]]).all()
    assert told[1] == own[1]


COLUMNS = 12


def numbers_of_two_values(seed, rows=200):
    rng = np.random.default_rng(seed)
    values = (rng.random((rows, COLUMNS)) < rng.uniform(0.1, 0.5, COLUMNS)).astype(float)
    values[:, 1::2] += values[:, ::2] * (rng.random((rows, COLUMNS // 2)) < 0.4)
    return np.minimum(values, 1.0) + 0.5  # a table takes 0 and 1 for categories


def test_of_numbers_many_tests_of_a_pair_tell_no_more_of_its_cell_than_one():
    """All z follow from those given nothing: with margins known a cell is as far off as these."""
    errors = []
    x, y = np.triu_indices(COLUMNS, 1)
    for seed in range(6):
        values = numbers_of_two_values(seed)
        ones = values - 0.5
        n, a, both = len(ones), ones.sum(axis=0), (ones[:, x] * ones[:, y]).sum(axis=0)
        given = np.array([(u, v, w) for u, v in zip(x, y, strict=True) for w in range(COLUMNS)])
        given = given[(given[:, 2] != given[:, 0]) & (given[:, 2] != given[:, 1])]
        table = table_of_numbers(values)
        told = told_z(table, LEAST, [np.column_stack([x, y]), given])
        correlation = np.tanh(told * np.sqrt((1 + MOVE**2) / (n - 3)))
        matrix = np.eye(COLUMNS)
        matrix[x, y] = matrix[y, x] = correlation[: len(x)]
        first, second, third = given.T
        partial = matrix[first, second] - matrix[first, third] * matrix[second, third]
        partial /= np.sqrt((1 - matrix[first, third] ** 2) * (1 - matrix[second, third] ** 2))
        z = np.arctanh(partial) * np.sqrt((n - 4) / (1 + MOVE**2))
        assert told[len(x) :] == pytest.approx(z, abs=1e-2)  # weights are whole numbers
        spread = np.sqrt(a[x] * (n - a[x]) * a[y] * (n - a[y]))
        errors.append((correlation[: len(x)] * spread + a[x] * a[y]) / n - both)
        one_test = MOVE * spread / n**1.5
        assert np.sqrt((errors[-1] ** 2).mean() / (one_test**2).mean()) > 0.6
    assert np.sqrt((np.concatenate(errors) ** 2).mean()) > 0.5


def test_of_numbers_another_order_units_and_copies_tell_the_same_and_other_rows_do_not():
    values = numbers_of_two_values(1)
    values[:, 5] = values[:, 3]
    pairs = [np.array([(0, 1), (0, 3), (0, 5)]), np.array([(0, 1, 3), (0, 1, 5)])]
    told = told_z(table_of_numbers(values), LEAST, pairs)
    assert (told_z(table_of_numbers(values), LEAST, pairs) == told).all()
    assert told[1] == told[2]
    assert told[3] == told[4]
    turned = table_of_numbers(values[:, ::-1])
    last = [COLUMNS - 1 - own for own in pairs]
    assert told_z(turned, LEAST, last) == pytest.approx(told, abs=1e-9)
    other = told_z(table_of_numbers(values[::-1].copy()), LEAST, pairs)
    assert np.abs(other - told).min() > 1e-4


def test_replicates_of_numbers_are_moved_as_the_rows_and_once_more():
    values = numbers_of_two_values(2)
    table, pair = table_of_numbers(values), [np.array([(0, 1)])]
    of_rows = told_z(table, LEAST, pair) * np.sqrt(1 + MOVE**2) - told_z(table, 1, pair)
    beside = []
    for number in range(1, 121):
        twice = told_z(table, LEAST, pair, number) * np.sqrt(1 + 2 * MOVE**2)
        beside.append(twice - told_z(table, 1, pair, number) - of_rows)
    beside = np.concatenate(beside) / MOVE
    assert abs(beside.mean()) < 4 / np.sqrt(len(beside))
    assert beside.std() == pytest.approx(1.0, abs=4 / np.sqrt(len(beside)))


@pytest.mark.parametrize("missing", [0.0, 0.01])
def test_moved_tests_of_numbers_keep_their_level(missing):
    """Of a column of 0 and 1 and a number given two others, 0 and 1; of two of 0 and 1 alone."""
    rng, found = np.random.default_rng(3), []
    tests = 125 if missing else 500
    for _ in range(8 if missing else 20):
        given = rng.random((200, tests, 2)) < (0.5, 0.3)
        x = given @ (0.5, 0.4) + rng.normal(size=(200, tests))
        y = rng.random((200, tests)) < 0.3 + 0.3 * given[..., 0]
        values = np.stack([x, y, given[..., 0], given[..., 1]], axis=2).reshape(200, -1)
        values[rng.random(values.shape) < missing] = np.nan
        exact, moved = (FisherZTest(values, blur=own) for own in (None, Blur(None, values)))
        test = MovedCorrelations((exact,), (moved,), few_valued(None, values))
        places = np.arange(4 * tests).reshape(-1, 4)
        found.append(test.evaluate(places[:, 0], places[:, 1], places[:, 2:]).p_value)
        pairs = np.column_stack([places[:-1, 1], places[1:, 1]])
        none = np.zeros((len(pairs), 0), dtype=int)
        found.append(test.evaluate(*pairs.T, none).p_value)
    found = np.concatenate(found)
    assert (found <= 0.01).mean() < (0.02 if missing else 0.015)
    assert (found <= 0.05).mean() < 0.065


def test_missing_values_leave_moves_nearly_as_they_were_and_no_batch_changes_a_bit():
    values = numbers_of_two_values(4)
    holed = values.copy()
    holed[::40, :4] = np.nan
    blur = Blur(None, values)
    x, y = np.triu_indices(COLUMNS, 1)
    tests = x, y, np.zeros((len(x), 0), dtype=int)

    def z(own, by):
        return FisherZTest(own, blur=by).evaluate(*tests).statistic

    move = z(values, blur) - z(values, None)
    assert z(holed, blur) - z(holed, None) == pytest.approx(move, abs=0.7 * MOVE)
    alone = FisherZTest(holed, blur=blur, memory_bytes=1).evaluate(*tests)
    assert (alone.statistic == z(holed, blur)).all()


def test_correlations_that_are_kept_once_are_moved_alike(monkeypatch):
    values = numbers_of_two_values(5)
    x, y = np.triu_indices(COLUMNS, 1)
    tests = x, y, np.zeros((len(x), 0), dtype=int)
    whole = FisherZTest(values, blur=Blur(None, values)).evaluate(*tests).statistic
    monkeypatch.setattr(correlations, "WHOLE_UP_TO", 4)
    half = FisherZTest(values, blur=Blur(None, values)).evaluate(*tests).statistic
    assert half == pytest.approx(whole, abs=1e-9)


def test_estimates_of_moved_tests_are_unbiased_and_their_intervals_cover():
    rng, true, hit, found = np.random.default_rng(0), np.arctanh(0.5), 0, []
    for _ in range(200):
        amount = weight = 0.0
        for _ in range(3):
            one = rng.random(2000) < 0.5
            other = np.where(rng.random(2000) < 0.5, one, rng.random(2000) < 0.5)
            values = np.column_stack([one, other]) + 0.5
            few, blur = few_valued(None, values), Blur(None, values)
            exact, moved = FisherZTest(values), FisherZTest(values, blur=blur)
            test = MovedCorrelations((exact,), (moved,), few)
            question = asked("stouffer", [np.array([(0, 1)])], 2)
            answer = combined_evidence(test, question, None)
            _, own, share, _ = segments(question.encodings, answer)
            amount, weight = amount + own[0], weight + share[0]
        found.append(amount / weight)
        hit += abs(amount / weight - true) < 1.96 / np.sqrt(weight)
    assert np.mean(found) == pytest.approx(true, abs=4 * np.std(found) / np.sqrt(len(found)))
    assert hit / len(found) > 0.88
