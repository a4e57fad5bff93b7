"""A site's likelihoods of sets of columns, and its moments within the site, against plain numpy."""

import math
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherdag.algorithms.evidence.pooled_moments import spreads_differ
from cipherdag.questions.encodings import pack_blocks, pack_integers
from cipherdag.questions.pooled_data import Moments
from cipherdag.questions.scores.likelihoods import LARGEST_DISCOUNT, LogLikelihoods
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.device import PROCESSOR
from cipherdag.sites.compute.models.set_likelihoods import SetLikelihoods
from cipherdag.sites.compute.noise import VARIANCE_JITTER
from cipherdag.sites.compute.rows import Rows

SETS = [np.array([[0], [2]]), np.array([[0, 1], [1, 2]]), np.array([[0, 1, 2]])]


def plain(codes, members, discount):
    """Sum of n ln(n / rows) over the cells that occur, less the discount."""
    rows = [tuple(row) for row in codes[:, members].tolist()]
    counts = Counter(rows).values()
    likelihood = sum(n * math.log(n / len(rows)) for n in counts)
    return likelihood - discount / 2 * (len(counts) - 1)


@pytest.mark.parametrize("discount", [0, 1, 3])
def test_of_categories_it_is_the_entropy_of_the_rows_less_a_discount(discount):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (200, 3)).astype(np.int32)
    codes[::17, 1] = -1  # a row that misses one value tells nothing of any set
    found = SetLikelihoods(Rows(codes, None, np.array([3, 4, 3])), PROCESSOR).answer(SETS, discount)
    complete = codes[(codes >= 0).all(axis=1)]
    expected = [plain(complete, row, discount) for rows in SETS for row in rows]
    assert found == pytest.approx(expected, abs=1e-9)


def test_of_numbers_it_is_what_correlations_explain():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3)) + 5.0
    values[::29, 0] = np.nan
    found = SetLikelihoods(Rows(None, values, np.zeros(3, dtype=np.int64)), PROCESSOR).answer(
        SETS, 1
    )
    complete = values[~np.isnan(values).any(axis=1)]
    matrix = np.corrcoef(complete, rowvar=False)
    expected = []
    for rows in SETS:
        for own in rows:
            k = len(own)
            determinant = np.linalg.det(matrix[np.ix_(own, own)])
            expected.append(-len(complete) / 2 * math.log(determinant) - k * (k - 1) / 4)
    assert found == pytest.approx(expected, abs=1e-8)


def test_of_independent_numbers_nothing_is_explained_on_average():
    rng = np.random.default_rng(2)
    sets = [
        np.zeros((0, 1), dtype=np.int64),
        np.zeros((0, 2), dtype=np.int64),
        np.array([[0, 1, 2]]),
    ]
    kinds = np.zeros(3, dtype=np.int64)
    found = [
        SetLikelihoods(Rows(None, rng.normal(size=(80, 3)), kinds), PROCESSOR).answer(sets, 1)[0]
        for _ in range(2000)
    ]
    # chi-square with three degrees of freedom, halved, less 3 / 2
    assert abs(np.mean(found)) < 4 * math.sqrt(1.5 / 2000) + 0.06


def test_a_constant_column_explains_nothing_and_a_copy_is_bounded():
    values = np.zeros((50, 3))
    values[:, 1] = values[:, 2] = np.arange(50.0)
    found = SetLikelihoods(Rows(None, values, np.zeros(3, dtype=np.int64)), PROCESSOR).answer(
        SETS, 0
    )
    assert found[2] == 0.0
    assert np.isfinite(found).all()
    question = asked(3)
    assert (np.abs(found) <= question.encodings[0].bound).all()


KINDS = np.array([3, 0, 2, 0, 0])
"""Two columns of categories and three of numbers."""
MIXED = [
    np.array([[0], [1]]), np.array([[0, 1], [0, 2], [1, 3]]),
    np.array([[0, 1, 2], [0, 1, 3], [1, 3, 4]]), np.array([[0, 1, 2, 3], [0, 1, 3, 4]]),
]  # fmt: skip


def mixed_rows(rng, rows=240):
    codes = np.full((rows, 5), -1, dtype=np.int32)
    codes[:, 0], codes[:, 2] = rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    values = np.full((rows, 5), np.nan)
    values[:, 1] = codes[:, 0] + rng.normal(size=rows)
    values[:, 3] = values[:, 1] - codes[:, 2] + rng.normal(size=rows)
    values[:, 4] = rng.normal(size=rows)
    return codes, values


def by_regressions(codes, values, members, discount):
    """The table of the categories, and every number regressed on them and the numbers before it."""
    discrete = [v for v in members if KINDS[v]]
    numbers = [v for v in members if not KINDS[v]]
    total = plain(codes, discrete, discount) if discrete else 0.0
    design = [np.ones(len(codes))]
    for v in discrete:
        design += [codes[:, v] == level for level in range(1, KINDS[v])]
    indicators = len(design) - 1
    for count, v in enumerate(numbers):
        column = values[:, v]
        _, (rest,), *_ = np.linalg.lstsq(np.column_stack(design), column, rcond=None)
        total -= len(codes) / 2 * math.log(rest / ((column - column.mean()) ** 2).sum())
        total -= discount / 2 * (indicators + count)
        design.append(column)
    return total


@pytest.mark.parametrize("discount", [0, 3])
def test_of_both_kinds_it_is_a_table_and_a_regression_of_each_number(discount):
    codes, values = mixed_rows(np.random.default_rng(6))
    codes[::31, 2], values[::37, 4] = -1, np.nan
    found = SetLikelihoods(Rows(codes, values, KINDS), PROCESSOR).answer(MIXED, discount)
    whole = (codes[:, [0, 2]] >= 0).all(axis=1) & ~np.isnan(values[:, 4])
    expected = [
        by_regressions(codes[whole], values[whole], row, discount)
        for rows in MIXED
        for row in rows.tolist()
    ]
    assert found == pytest.approx(expected, abs=1e-5)


def test_categories_that_determine_each_other_explain_no_more():
    codes, values = mixed_rows(np.random.default_rng(7))
    codes[:, 2] = codes[:, 0] > 0
    site = SetLikelihoods(Rows(codes, values, KINDS), PROCESSOR)
    alone, both = site.answer([np.zeros((0, 1)), np.array([[0, 1]]), np.array([[0, 1, 2]])], 0)
    assert both == pytest.approx(alone, abs=1e-3)  # the table of the two is that of the one


def asked(n_variables, discount=1):
    counts, members = pack_blocks(SETS)
    return LogLikelihoods(
        n_variables=n_variables, counts=counts, members=members, discount=discount
    )


def test_a_question_that_cannot_be_is_refused():
    assert asked(3).encodings[0].length == 5
    with pytest.raises(ValueError, match="larger than the study"):
        asked(2)
    counts, members = pack_blocks([np.array([[3]])])
    with pytest.raises(ValueError, match="beyond"):
        LogLikelihoods(n_variables=3, counts=counts, members=members)
    for discount in (-1, LARGEST_DISCOUNT + 1):
        with pytest.raises(ValueError, match="discount"):
            asked(3, discount)
    counts, members = pack_blocks([np.zeros((0, 1)), np.array([[1, 0]])])
    with pytest.raises(ValueError, match="ascend"):
        LogLikelihoods(n_variables=3, counts=counts, members=members)
    with pytest.raises(ValueError, match="length"):
        LogLikelihoods(n_variables=3, counts=(5,), members=b"")


def test_moments_within_a_site_are_free_of_its_means():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(9000, 3)) + np.array([3.0, -2.0, 900.0])
    pool = SiteView(None, values, (0, 0, 0))
    question = Moments(
        n_variables=3,
        variables=pack_integers(np.arange(3)),
        origins=np.zeros(3).tobytes(),
        units=pack_integers(np.array([0, 1, -1])),
        centred=True,
    )
    rows, total, products, _ = np.split(pool.answer(question), [1, 4, 10])
    assert rows == 9000
    assert np.abs(total).max() < 1e-6
    scaled = (values - values.mean(axis=0)) / np.array([1.0, 2.0, 0.5])
    assert products == pytest.approx((scaled.T @ scaled)[np.triu_indices(3)], rel=1e-9)


def within_sites(variables):
    """Of so many columns, none of them scaled."""
    return Moments(
        n_variables=variables,
        variables=pack_integers(np.arange(variables)),
        origins=np.zeros(variables).tobytes(),
        units=pack_integers(np.zeros(variables)),
        centred=True,
    )


def test_moments_within_three_sites_do_not_tell_their_counts():
    """Nor where one of them sides with the coordinator: two counts are left to be found."""
    rng = np.random.default_rng(4)
    sites = [(rng.random(rows) < 0.4).astype(float) for rows in (230, 310)]
    true = [int(own.sum()) for own in sites]
    question = within_sites(1)

    def found(least):
        """Which counts have the sum of squares, to a millionth."""
        answers = [
            SiteView(None, own[:, None], (0,), min_cell_size=least).answer(question)
            for own in sites
        ]
        for rows, total, *_ in answers:
            assert rows in (230, 310)
            assert abs(total) < 1e-9
        first, second = np.arange(231)[:, None], np.arange(311)
        squares = first * (230 - first) / 230 + second * (310 - second) / 310
        return np.argwhere(np.abs(squares - sum(answers)[2]) < 1e-6).tolist()

    exact = found(0)
    assert true in exact
    assert len(exact) == 4  # either category of either site
    assert true not in found(11)


def test_standardised_moments_hold_no_levels_or_units_of_a_site():
    values = np.random.default_rng(6).normal(size=(500, 3))
    question = msgspec.structs.replace(within_sites(3), standardised=bytes([1, 1, 1]))
    plain = SiteView(None, values, (0, 0, 0), min_cell_size=0).answer(question)
    other = values * np.array([1000.0, 0.01, -3.0]) + np.array([5.0, -70.0, 0.0])
    changed = SiteView(None, other, (0, 0, 0), min_cell_size=0).answer(question)
    turned = np.array([1, 1, 1, 1, 1, 1, -1, 1, -1, 1])
    assert changed[:10] == pytest.approx(plain[:10] * turned, rel=1e-9, abs=1e-6)
    assert plain[[4, 7, 9]] == pytest.approx([500.0] * 3)
    assert changed[10:] == pytest.approx(500 * np.log2(other.var(axis=0)), rel=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 12), st.integers(0, 2**32))
def test_spreads_differ_where_they_do_and_hardly_elsewhere(n_sites, seed):
    rng = np.random.default_rng(seed)
    units = rng.permutation(np.geomspace(0.5, 2.0, n_sites))
    answers = []
    for unit in units:
        rows = rng.normal(size=(int(rng.integers(200, 600)), 3)) + rng.normal(size=3)
        rows[:, 1] = rng.standard_t(9, len(rows))
        rows[:, 2] *= unit
        answers.append(SiteView(None, rows, (0, 0, 0), min_cell_size=0).answer(within_sites(3)))
    assert spreads_differ(sum(answers), 3, n_sites).tolist() == [False, False, True]


@pytest.mark.parametrize("flags", [b"\x01", bytes([0, 1, 2])])
def test_flags_of_other_columns_are_refused(flags):
    with pytest.raises(ValueError, match="standardised"):
        msgspec.structs.replace(within_sites(3), standardised=flags)
    with pytest.raises(ValueError, match="standardised"):
        msgspec.structs.replace(within_sites(3), centred=False, standardised=bytes(3))


def test_moments_weighed_by_chance_are_those_of_weighted_rows():
    values = np.random.default_rng(5).normal(size=(9000, 3)) + 7.0
    pool = SiteView(None, values, (0, 0, 0), min_cell_size=11)
    question = within_sites(3)
    _, total, products, _ = np.split(pool.answer(question), [1, 4, 10])
    weights = pool.cell_keys.weights(9000)
    assert (np.abs(weights - 1.0) <= VARIANCE_JITTER).all()
    centred = values - np.average(values, axis=0, weights=weights)
    assert (total == 0.0).all()
    expected = (centred.T * weights) @ centred
    assert products == pytest.approx(expected[np.triu_indices(3)], rel=1e-9)
    assert (pool.answer(question) == pool.answer(question)).all()
