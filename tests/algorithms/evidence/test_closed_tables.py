"""Verdicts on tables: the test by hand, its level, and nothing of cells that too few sites have."""

from __future__ import annotations

from functools import cache
from itertools import product

import msgspec
import numpy as np
import pandas as pd
import pytest
from driving import drive, plain_sum, plain_verdicts
from evidence_sites import (
    discrete_codes,
    discrete_site,
    sites_of_rare_categories,
    sites_that_turn,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from cipherdag import Federation, FedPC, Policy
from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.evidence.closed_cells import largest_difference
from cipherdag.algorithms.evidence.closed_tables import cell_limits
from cipherdag.algorithms.evidence.kind import EvidenceSettings
from cipherdag.algorithms.evidence.registry import EVIDENCE
from cipherdag.errors import ParameterError, PolicyRefusedError
from cipherdag.graphs.networks import asia
from cipherdag.questions.closed.words import SUM_BITS
from cipherdag.questions.coverage import Contributors, Covered
from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.lockstep import parts_of
from cipherdag.questions.pooled_data import Columns
from cipherdag.questions.presence import Presence
from cipherdag.questions.question import CITestSpec, StratifiedTables, finds_verdicts
from cipherdag.questions.stratified import TableCells
from cipherdag.questions.verdicts import CellVerdicts

MAX_ROWS = 1 << 12


def asking(tests, n_variables, n_sites, *, alpha=0.01, fewest=3, **more):
    spec = CITestSpec(alpha=alpha, min_rows_per_cell=1e-6)
    own = EvidenceSettings(
        spec=spec, n_variables=n_variables, max_rows=MAX_ROWS, present=Presence(n_sites),
        fewest=fewest, **more,
    )  # fmt: skip
    source = yield from EVIDENCE["stratified"].source(own, closed=True)
    found = yield from source.p_values(tests)
    return np.concatenate(found), dict(source.tally), source


def cells(categories, tests, *, differences=True):
    counts, members = pack_blocks(tests)
    tables = StratifiedTables(
        categories=categories, counts=counts, members=members, max_rows=MAX_ROWS
    )
    return TableCells(tables=tables, differences=differences)


def moments(rows, categories, x, y, given, least=2):
    """Differences and variances of all cells of one site, configuration by configuration."""
    found = np.zeros((2, categories[x], categories[y]))
    for configuration in product(*(range(categories[v]) for v in given)):
        own = rows[(rows[:, given] == configuration).all(axis=1)]
        own = own[(own[:, [x, y]] >= 0).all(axis=1)]
        if (n := len(own)) < least:
            continue
        table = np.zeros(found.shape[1:])
        np.add.at(table, (own[:, x], own[:, y]), 1)
        expected = stats.contingency.expected_freq(table)
        found[0] += table - expected
        for i, j in np.ndindex(table.shape):
            found[1, i, j] += variance_of(n, int(table[i].sum()), int(table[:, j].sum()))
    return found


@cache
def variance_of(n, row, column):
    """Of the count of a cell given the margins, by its definition."""
    count = np.arange(n + 1)
    mass = stats.hypergeom.pmf(count, n, row, column)
    variance = mass @ (count - mass @ count) ** 2
    return variance if variance > 1e-12 else 0.0


def by_hand(parts, categories, triplet, alpha, fewest, scores):
    """1 for independent, 0 for dependent, NaN if not done; how close it was.

    ``scores``: of the sites' own tests, each with 1 where there is one, shape (sites, 2).
    """
    x, y, *given = triplet
    own = np.array([moments(rows, categories, x, y, given) for rows in parts])
    difference, variance = own.sum(axis=0)
    if not given and (own[:, 1] > 0).any(axis=(1, 2)).sum() < fewest:
        return 1.0, True  # x or y is the same throughout the other sites
    able = (own[:, 1] > 0).sum(axis=0)
    # rows and columns add up to 0: of two, one says all
    distinct = np.ix_(*(range(1 if categories[v] == 2 else categories[v]) for v in (x, y)))
    difference, variance, able = difference[distinct], variance[distinct], able[distinct]
    # opened variances lie on a grid, and what each site may be off by is allowed for
    rounding = able * 2.0**-11
    compared = (able >= fewest) & (variance > 0.25)
    close = (able >= fewest) & (np.abs(variance - 0.25) <= rounding + 1e-9)
    total, k = scores.sum(axis=0)
    if not compared.any():
        return np.nan, (able < fewest).all() and k < fewest  # else what next to nothing tells
    weight = (0.5 if given else 0.2) if k >= fewest else 0.0
    level = alpha / (1.0 + weight)
    share = 1.0 - (1.0 - level) ** (1.0 / compared.sum())
    far = []
    for v in (variance[compared], variance[compared] + 2 * rounding[compared]):
        dof = 1.0 / (1.0 + 0.5 / v)
        limit = np.sqrt(stats.chi2.isf(share, dof) / dof * v)
        if len(v) > 1:
            limit = np.array([poisson_limit(own, share) for own in v])
        far.append(np.abs(difference[compared]) / limit)
        if k >= fewest:
            own_limit = stats.norm.isf(level * weight) * np.sqrt(k)
            far[-1] = np.append(far[-1], total / own_limit)
    most, least = far
    clear = not close.any() and ((most < 0.97) | (least > 1.03)).all()
    return float((most <= 1.0).all()), clear


def poisson_limit(variance, share):
    """How far above its mean the upper tail of a Poisson variate falls to half a share."""
    return optimize.brentq(
        lambda t: special.gammainc(variance + t, variance) - share / 2, 0.0, 60 + 20 * variance
    )


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(2, 4), min_size=4, max_size=4),
    st.integers(3, 6),
    st.sampled_from([8, 40, 300]),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([0.001, 0.01, 0.1]),
    st.sampled_from([2, 3]),
)
def test_verdicts_are_those_of_the_test_by_hand(
    seed, categories, n_sites, rows, missing, alpha, fewest
):
    rng = np.random.default_rng(seed)
    parts = [discrete_codes(rng, rows, categories, missing) for _ in range(n_sites)]
    sites = [discrete_site(own, categories) for own in parts]
    tests = [np.array([[0, 1], [0, 2], [0, 3]]), np.array([[0, 2, 1], [1, 3, 2]]),
             np.array([[0, 3, 1, 2]])]  # fmt: skip
    (found, _, _), _ = drive(asking(tests, 4, n_sites, alpha=alpha, fewest=fewest), sites)
    triplets = [row.tolist() for block in tests for row in block]
    tables = cells(tuple(categories), tests).tables
    own = np.array([site.answer(tables)[tables.widths[: tables.n_tests].sum() :] for site in sites])
    own = own.reshape(n_sites, 2, tables.n_tests, 2)
    for number, triplet in enumerate(triplets):
        scores = own[:, min(len(triplet) - 2, 1), number]
        expected, clear = by_hand(parts, categories, triplet, alpha, fewest, scores)
        if clear:
            np.testing.assert_equal(found[number], expected)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.lists(st.integers(2, 4), min_size=3, max_size=3))
def test_a_site_answers_differences_and_variances_of_its_cells_and_scores(seed, categories):
    rng = np.random.default_rng(seed)
    rows = discrete_codes(rng, int(rng.integers(5, 200)), categories, 0.1)
    tests = [np.array([[0, 1], [1, 2]]), np.array([[0, 1, 2], [0, 2, 1]])]
    question = cells(tuple(categories), tests)
    answer = discrete_site(rows, categories).answer(question)
    site, n_cells = discrete_site(rows, categories), len(question.owner) - question.n_tests
    values = answer[: 2 * len(question.owner)].reshape(2, -1)
    expected = [
        moments(rows, categories, x, y, given)[
            :, : 1 if categories[x] == 2 else None, : 1 if categories[y] == 2 else None
        ].reshape(2, -1)
        for x, y, *given in (row.tolist() for block in tests for row in block)
    ]
    np.testing.assert_allclose(values[:, :n_cells], np.hstack(expected), atol=1e-9)
    # given nothing of the test of all rows, else of those of the configurations
    told = site.answer(question.tables)[-4 * question.n_tests :].reshape(2, -1, 2)
    assert (np.concatenate([told[0, :2], told[1, 2:]]) == values[:, n_cells:].T).all()
    varies = [float((own[1] > 0).any()) for own in expected]
    assert answer[2 * len(question.owner) :].tolist() == varies
    alone = cells(tuple(categories), tests, differences=False)
    assert (site.answer(alone) == answer[len(question.owner) :]).all()


@pytest.mark.parametrize(
    ("sites", "rows", "x", "y", "configurations"),
    [
        (3, 1000, (0.5, 0.5), (0.4, 0.6), 1),
        (10, 300, (0.25,) * 4, (0.25,) * 4, 1),
        (10, 100, (0.95, 0.05), (0.95, 0.05), 6),
        (15, 40, (0.02, 0.98), (0.9, 0.1), 1),
        (15, 40, (0.9, 0.05, 0.05), (0.8, 0.1, 0.1), 6),
        (10, 100, (0.9, 0.04, 0.03, 0.03), (0.7, 0.1, 0.1, 0.1), 4),
    ],
)
def test_the_level_holds_where_counts_are_rare_too(sites, rows, x, y, configurations):
    """Of 10,000 tests of independent variables no more than 1.5 alpha say dependent."""
    rng, pairs, alpha = np.random.default_rng(sites * rows + len(x)), 1000, 0.01
    categories = (*(len(x),) * pairs, *(len(y),) * pairs, configurations)
    pair = np.column_stack([np.arange(pairs), pairs + np.arange(pairs)])
    tests = [pair]
    if configurations > 1:
        tests = [pair[:0], np.column_stack([pair, np.full(pairs, 2 * pairs)])]
    found = []
    for _ in range(10):
        parts = []
        for _ in range(sites):
            own = [rng.choice(len(p), (rows, pairs), p=p).astype(np.int8) for p in (x, y)]
            own.append(rng.integers(0, configurations, (rows, 1)).astype(np.int8))
            parts.append(discrete_site(np.hstack(own), categories))
        (verdicts, _, _), _ = drive(asking(tests, len(categories), sites, alpha=alpha), parts)
        found.append(verdicts[~np.isnan(verdicts)])
    done = np.concatenate(found)
    assert len(done) > 3000
    dependent = int((done == 0).sum())
    assert stats.binomtest(dependent, len(done), 1.5 * alpha, alternative="greater").pvalue > 0.01


# what is opened


def spread(counts):
    """Codes of x, y of three categories at sites; site k has the categories that counts names."""
    rng = np.random.default_rng(7)
    return [
        np.column_stack([rng.choice(own, 400), rng.integers(0, 2, 400)]).astype(np.int64)
        for own in counts
    ]


def answered(generator, sites):
    """Every question with what came back."""
    heard, total = [], None
    while True:
        try:
            question = generator.send(total)
        except StopIteration as finished:
            return finished.value, heard
        total = plain_sum(question, sites)
        heard.append((question, total))


@pytest.mark.parametrize(("together", "independent"), [(0, 1.0), (1, 1.0), (5, 0.0)])
def test_two_rare_categories_are_independent_unless_they_meet(together, independent):
    sites = sites_of_rare_categories(together)
    (found, tally, _), _ = answered(asking([np.array([[0, 1]])], 2, 5), sites)
    assert found.tolist() == [independent]
    assert tally == {"stratified": 1}


@pytest.mark.parametrize(
    ("n_sites", "rows", "rare"), [(5, 40, 1), (10, 50, 1), (10, 100, 2), (40, 50, 1), (4, 3000, 1)]
)
def test_what_varies_less_than_the_grid_shows_is_compared_all_the_same(n_sites, rows, rare):
    """One row of a kind at every site: its variance is opened as 0, and the test is done."""
    one = np.zeros((rows, 2), dtype=np.int64)
    one[:rare, 0], one[-rare:, 1] = 1, 1
    sites = [discrete_site(one, (2, 2)) for _ in range(n_sites)]
    (found, tally, _), _ = answered(asking([np.array([[0, 1]])], 2, n_sites), sites)
    assert (found.tolist(), tally) == ([1.0], {"stratified": 1})
    one[:rare, 1] = 1  # and where they meet, at every site
    sites = [discrete_site(one, (2, 2)) for _ in range(n_sites)]
    (found, _, _), _ = answered(asking([np.array([[0, 1]])], 2, n_sites), sites)
    assert found.tolist() == [0.0]


def test_the_level_holds_where_many_sites_round_alike():
    """A variance that every site's grid rounds off by a third."""
    rng, n_sites, tests = np.random.default_rng(5), 60, 4000
    x = np.zeros((40, tests), dtype=np.int8)
    x[:2] = 1
    parts = [np.hstack([x, rng.permuted(x, axis=0)]) for _ in range(n_sites)]
    sites = [discrete_site(own, (2,) * (2 * tests)) for own in parts]
    pairs = np.column_stack([np.arange(tests), tests + np.arange(tests)])
    (found, _, _), _ = drive(asking([pairs], 2 * tests, n_sites), sites)
    assert not np.isnan(found).any()
    assert int((found == 0).sum()) <= stats.binom.isf(0.001, tests, 0.015)


def test_of_a_cell_that_too_few_sites_have_nothing_is_opened():
    # category 2 is at two sites; 0 and 1 at all four
    parts = spread([(0, 1), (0, 1), (0, 1, 2), (0, 1, 2)])
    sites = [discrete_site(own, (3, 2)) for own in parts]
    (found, tally, _), heard = answered(asking([np.array([[0, 1]])], 2, 4), sites)
    columns, (counted, counts), (opened, variances), (compared, bits) = heard
    assert isinstance(columns[0], Columns)
    assert isinstance(counted, Contributors)
    assert counts.tolist() == [4, 4, 2, 4, 4]  # three cells, the sites' own tests, and the test
    assert isinstance(opened, Covered)
    assert (variances[:2] > 0).all()
    assert variances[2:].tolist() == [0, 4, 0]  # neither the third cell nor the whole test
    assert isinstance(compared, CellVerdicts)
    assert finds_verdicts(compared)
    assert bits.tolist() == [0, 0, 0]
    assert found.tolist() == [1.0]
    assert tally == {"stratified": 1}


def test_of_a_test_that_too_few_sites_have_only_their_number_is_opened():
    parts = spread([(0, 1), (0, 1), (0,), (0,)])
    sites = [discrete_site(own, (3, 2)) for own in parts]
    (found, tally, _), heard = answered(asking([np.array([[0, 1]])], 2, 4), sites)
    assert len(heard) == 2
    assert heard[1][1].tolist() == [2, 2, 0, 2, 2]
    assert found.tolist() == [1.0]  # x varies at too few sites
    assert tally == {"varies at too few sites": 1}


def test_a_test_whose_cells_are_at_few_sites_each_is_told_by_the_sites_own_tests():
    """x varies at every site, but each of its categories at two: no cell may be opened."""
    parts = spread([(0, 1), (1, 2), (0, 2)])
    sites = [discrete_site(own, (3, 2)) for own in parts]
    (found, tally, source), heard = answered(asking([np.array([[0, 1]])], 2, 3), sites)
    assert heard[1][1].tolist() == [2, 2, 2, 3, 3]
    assert heard[2][1].tolist() == [0, 0, 0, 3, 0]
    assert (heard[3][1].tolist(), found.tolist()) == ([0], [1.0])
    assert tally == {"stratified": 1}
    assert source.kinds is None  # so that sites are not compared, in sums


def test_an_association_of_another_direction_at_another_site_is_found():
    sites = sites_that_turn(8)
    (found, _, _), heard = answered(asking([np.array([[0, 1]])], 2, 4), sites)
    assert heard[-1][1].tolist() == [0, 1]  # the differences cancel, the scores do not
    assert found.tolist() == [0.0]


def test_scores_are_compared_to_one_side_only():
    """Tables that are nearer to independence than chance has it are no dependence."""
    rows = np.column_stack([np.repeat([0, 1], 100), np.tile([0, 1], 100)])
    sites = [discrete_site(rows, (2, 2)) for _ in range(12)]
    (found, _, _), heard = answered(asking([np.array([[0, 1]])], 2, 12), sites)
    question = heard[-1][0].question
    score = sites[0].answer(question)[1]
    assert score * 12 < -stats.norm.isf(0.01 * 0.2 / 1.2 / 2) * np.sqrt(12)
    assert (heard[-1][1].tolist(), found.tolist()) == ([0, 0], [1.0])


def test_too_large_a_table_is_not_done():
    rng = np.random.default_rng(2)
    sites = [discrete_site(discrete_codes(rng, 100, (3, 3, 3)), (3, 3, 3)) for _ in range(3)]
    tests = [np.array([[0, 1]]), np.array([[0, 1, 2]])]
    (found, tally, _), heard = answered(asking(tests, 3, 3, max_cells=10), sites)
    assert np.isnan(found).tolist() == [False, True]
    assert tally == {"stratified": 1, "too large: none": 1}
    assert all(finds_verdicts(q) or n < 3 for n, (q, _) in enumerate(heard))


# the sums of which a bit is true


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.booleans(), st.integers(0, 2**32))
def test_a_bit_is_true_of_large_differences_alone(n_sites, single, seed):
    """Of the sum of all sites; however few of them say anything."""
    rng = np.random.default_rng(seed)
    largest, bits = largest_difference(16, n_sites, quarters=1)
    limits = rng.integers(0, 1 << (bits + 3), 20)
    question = CellVerdicts(
        question=cells((2,) * 21, [np.array([[0, k] for k in range(1, 21)])]),
        grid_bits=bits,
        largest=largest,
        cells=pack_integers(np.arange(20)),
        limits=pack_integers(limits),
    )
    speaking = 1 if single else n_sites
    for sign in (-1, 1):
        for more in (0, 1):
            words = np.zeros((n_sites, 20), dtype=np.int64)
            total = np.minimum(limits + more, speaking * largest)
            for site in range(speaking):
                words[site] = sign * (total // speaking + (site < total % speaking))
            assert (plain_verdicts(question, words) == (total > limits)).all()


@pytest.mark.parametrize("n_sites", [3, 10, 50, 150])
def test_the_grid_is_fine_enough_and_sums_fit(n_sites):
    largest, bits = largest_difference(1 << 20, n_sites, quarters=1)
    assert n_sites * largest < 1 << SUM_BITS - 1
    assert largest == 1 << (18 + bits)
    if n_sites <= 50:  # a step of each site rounds off less than the least deviation, 1/2
        assert n_sites * 2.0 ** -(bits + 1) < 8 * 0.5
    with pytest.raises(ParameterError, match="smaller max_rows"):
        largest_difference(1 << 35, n_sites, quarters=1)


def test_thresholds_lie_on_a_grid_that_hides_a_platform_s_last_digit():
    question = cells((3, 4), [np.array([[0, 1]])], differences=False)
    variances = np.append(np.random.default_rng(1).uniform(0.0, 40.0, 12), 5.0)
    variances[3] = 0.25
    heard = np.full(13, 4.0)
    limits = cell_limits(question, heard, variances, 0.01)
    assert limits[3] == 0
    assert limits[12] ** 2 / 5 * 2**10 == pytest.approx(round(limits[12] ** 2 / 5 * 2**10))
    limits, variances = limits[:12], variances[:12] + 4 * 2.0**-11
    variances[3] = 0.25
    own = variances > 0.25
    squares = limits[own] ** 2 / variances[own] * 2**10
    np.testing.assert_allclose(squares, np.rint(squares), rtol=1e-12)
    assert (np.diff(squares[np.argsort(variances[own])]) <= 0).all()


def test_verdicts_that_cannot_be_are_refused():
    largest, bits = largest_difference(16, 3, quarters=1)
    good = {
        "question": cells((2, 2), [np.array([[0, 1]])]), "largest": largest, "grid_bits": bits,
        "cells": pack_integers(np.array([0])), "limits": pack_integers(np.array([5])),
    }  # fmt: skip
    CellVerdicts(**good)
    for changes in (
        {"question": cells((2, 2), [np.array([[0, 1]])], differences=False)},
        {"grid_bits": 35}, {"cells": pack_integers(np.array([2]))},
        {"cells": pack_integers(np.array([0, 0]))}, {"largest": 0}, {"limits": b"\0" * 7},
        {"limits": pack_integers(np.array([-1]))},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="."):
            CellVerdicts(**(good | changes))
    assert msgspec.msgpack.decode(
        msgspec.msgpack.encode(CellVerdicts(**good)), type=CellVerdicts
    ) == CellVerdicts(**good)


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
def strong(protection):
    federation = Federation.split(strong_rows(), 4, seed=0, protection=protection, device="cpu")
    return federation.run(FedPC(reveal="verdicts", alpha=1e-4))


def test_of_a_large_sample_the_graph_is_the_true_one():
    arrows = {(edge.source, edge.target) for edge in strong("masking").graph.edges}
    assert arrows == {("a", "c"), ("b", "c"), ("c", "d"), ("e", "d")}
    assert {edge.mark for edge in strong("masking").graph.edges} == {"-->"}


def test_auto_stands_for_it_and_its_words_say_what_is_opened():
    assert FedPC(reveal="verdicts").decided_by == "stratified"
    (said,) = FedPC(reveal="verdicts").disclosures()
    for word in ("at how many sites it varies", "variances", "stands out", "rows of all sites"):
        assert word in said
    found = strong("masking")
    assert found.details["reveal"] == "verdicts"
    assert "site_differences" not in found.details
    edges = found.evidence.edges
    assert all(own.p_value is None for own in edges)
    assert all("that could be done." in own.facts[0] for own in edges)
    kinds = {own.kind for own in found.rounds}
    assert kinds == {
        "columns", "contributors+table-cells", "covered+table-cells", "cell-verdicts+table-cells",
    }  # fmt: skip


def test_a_site_may_allow_variances_and_no_other_sum():
    rows = asia().sample(900, np.random.default_rng(1))
    spread_only = Federation.split(rows, 3, policy=Policy(reveal="variances"), device="cpu")
    assert spread_only.run(FedPC(reveal="verdicts", max_cond_size=0, bootstrap=1)).rounds
    assert spread_only.run(FedPC(evidence="fisher", reveal="verdicts", max_cond_size=0)).rounds
    with pytest.raises(PolicyRefusedError, match="no sum but variances"):
        spread_only.run(FedPC(max_cond_size=0))
    nothing = Federation.split(rows, 3, policy=Policy(reveal="verdicts"), device="cpu")
    with pytest.raises(PolicyRefusedError, match="no question that opens a sum"):
        nothing.run(FedPC(reveal="verdicts", max_cond_size=0))


def test_a_question_of_differences_is_none_that_such_a_site_answers():
    question = cells((2, 2), [np.array([[0, 1]])])
    policy = Policy(reveal="variances")
    policy.check_question(Contributors(question=question), round_number=1, values_so_far=0)
    for own in (question, Covered(question=question, enough=b"\xff")):
        with pytest.raises(PolicyRefusedError, match="no sum but variances"):
            policy.check_question(own, round_number=1, values_so_far=0)


def test_one_site_alone_is_refused_and_two_are_not():
    with pytest.raises(ParameterError, match="needs 2 sites"):
        next(FedPC(reveal="verdicts").ask(Facts(3, 1, fewest=1)))
    assert next(FedPC(reveal="verdicts").ask(Facts(3, 2, fewest=2)))


def test_contributors_and_variances_alone_are_told_beside_bits():
    rng = np.random.default_rng(3)
    sites = [discrete_site(discrete_codes(rng, 300, (2, 3, 4)), (2, 3, 4)) for _ in range(4)]
    facts = Facts(3, 4, names=("a", "b", "c"), fewest=3)
    _, heard = answered(FedPC(reveal="verdicts").ask(facts), sites)
    for question, total in heard:
        for part in parts_of(question):
            inner = part.question if isinstance(part, Covered | Contributors) else part
            if isinstance(part, Columns):
                continue
            assert isinstance(inner, TableCells | CellVerdicts)
            assert isinstance(inner, CellVerdicts) or not inner.differences
        if finds_verdicts(question):
            assert set(total.tolist()) <= {0.0, 1.0}
