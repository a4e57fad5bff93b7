"""Scores of discrete families against the sums that the papers write down, term by term."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from cipherdag.statistics.reproducible import logarithm
from cipherdag.statistics.set_scores import (
    SetScore,
    grid_bits,
    least_consistent_prior,
    multinomial_regret,
)

ROWS = 700


def data(seed=0, levels=(2, 3, 4, 2)):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, own, ROWS) for own in levels]
    columns[1] = np.where(rng.random(ROWS) < 0.6, columns[0], columns[1])
    return np.column_stack(columns), levels


def counts(codes, levels, members):
    members = list(members)
    if not members:
        return np.array(len(codes))
    table = np.zeros([levels[v] for v in members], dtype=np.int64)
    np.add.at(table, tuple(codes[:, list(members)].T), 1)
    return table


def of_set(score, codes, levels, members):
    table = counts(codes, levels, members).ravel()
    cells = float(math.prod(levels[v] for v in members))
    return int(score.of_tables(table, np.array([table.size]), np.array([cells]))[0])


def family(score, codes, levels, child, parents):
    both = of_set(score, codes, levels, sorted({child, *parents}))
    return math.ldexp(both - of_set(score, codes, levels, sorted(parents)), -score.bits)


def by_configuration(codes, levels, child, parents):
    """Counts of the child in every configuration of its parents, one by one."""
    for configuration in itertools.product(*(range(levels[v]) for v in parents)):
        rows = codes[(codes[:, list(parents)] == configuration).all(axis=1)]
        yield np.array([(rows[:, child] == k).sum() for k in range(levels[child])])


def plain_likelihood(codes, levels, child, parents):
    likelihood = 0.0
    for own in by_configuration(codes, levels, child, parents):
        likelihood += sum(n * math.log(n / own.sum()) for n in own if n)
    return likelihood


def exact_regret(rows, cells):
    """The sum over all counts: Kontkanen and Myllymäki (2007), a recursion over categories."""
    k = np.arange(rows + 1)
    logs = gammaln(rows + 1) - gammaln(k + 1) - gammaln(rows - k + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs += np.where(k > 0, k * np.log(k / rows), 0.0)
        logs += np.where(k < rows, (rows - k) * np.log((rows - k) / rows), 0.0)
    scale, one, two = 0.0, 1.0, np.exp(logs).sum()
    if cells == 1:
        return 0.0
    for own in range(3, cells + 1):
        one, two = two, two + rows / (own - 2) * one
        if two > 1e200:
            one, two, scale = one / two, 1.0, scale + math.log(two)
    return scale + math.log(two)


def expanded(rows, cells):
    """Szpankowski and Weinberger (2012), theorem 2, as Silander et al. (2018) write it."""
    a = cells / rows
    c = 0.5 + 0.5 * math.sqrt(1 + 4 / a)
    if cells == 1:
        return 0.0
    return rows * (math.log(a) + (a + 2) * math.log(c) - 1 / c) - 0.5 * math.log(c + 2 / a)


FAMILIES = [(0, ()), (1, (0,)), (2, (0, 1)), (3, (0, 1, 2)), (0, (1, 3))]


@pytest.mark.parametrize(("child", "parents"), FAMILIES)
def test_qnml_is_the_likelihood_less_what_both_sets_regret(child, parents):
    codes, levels = data()
    score = SetScore(rows=ROWS, bits=grid_bits(ROWS))
    q = math.prod(levels[v] for v in parents)
    expected = plain_likelihood(codes, levels, child, parents)
    assert family(score.plain, codes, levels, child, parents) == pytest.approx(expected, abs=1e-9)
    found = family(score, codes, levels, child, parents)
    exact = exact_regret(ROWS, q * levels[child]) - exact_regret(ROWS, q)
    # the expansion of the regret is good to a tenth of a nat
    assert found == pytest.approx(expected - exact, abs=0.1)
    expected -= expanded(ROWS, q * levels[child]) - expanded(ROWS, q)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rows", [50, 1000])
@pytest.mark.parametrize("cells", [1, 2, 7, 60, 3000])
def test_the_regret_is_near_the_exact_one(rows, cells):
    found = multinomial_regret(rows, np.array([float(cells)]))[0]
    assert found == pytest.approx(exact_regret(rows, cells), abs=0.1)


@given(st.permutations(range(4)), st.booleans(), st.integers(0, 5))
def test_every_order_of_a_complete_graph_has_the_same_score_bits(order, penalised, seed):
    codes, levels = data(seed)
    score = SetScore(penalised=penalised, rows=ROWS, bits=grid_bits(ROWS))
    sets = [of_set(score, codes, levels, sorted(order[:k])) for k in range(5)]
    total = sum(sets[k + 1] - sets[k] for k in range(4))
    assert total == of_set(score, codes, levels, range(4)) - of_set(score, codes, levels, [])


@pytest.mark.parametrize("penalised", [False, True])
def test_many_tables_at_once_score_as_each_alone(penalised):
    codes, levels = data()
    score = SetScore(penalised=penalised, rows=ROWS, bits=grid_bits(ROWS))
    sets = [own for k in range(1, 5) for own in itertools.combinations(range(4), k)]
    tables = [counts(codes, levels, own).ravel() for own in sets]
    sizes = np.array([own.size for own in tables])
    together = score.of_tables(np.concatenate(tables), sizes, sizes.astype(float))
    assert together.tolist() == [of_set(score, codes, levels, own) for own in sets]


@pytest.mark.parametrize("rows", [1, 5000, 10**7, 2**40])
def test_sums_over_a_table_fit_a_word(rows):
    assert 4 * rows * math.log2(rows + 2) * 2.0 ** grid_bits(rows) <= 2.0**61


@given(st.floats(1e-300, 1e300))
def test_the_logarithm_is_the_library_s_within_a_few_last_places(number):
    found = logarithm(np.array([number]))[0]
    assert found == pytest.approx(math.log(number), rel=1e-15, abs=1e-16)


def test_the_least_consistent_prior_is_what_few_rows_add():
    assert least_consistent_prior(100, 400) == pytest.approx(math.log(100) - math.log(400) / 2)
    assert least_consistent_prior(100, 10_000) == pytest.approx(0.0, abs=1e-12)
    assert least_consistent_prior(100, 100_000) == 0.0
