import numpy as np
import pytest
import torch
from margins import exact_moments, tables_of
from scipy import stats

from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.statistics.chi_square_moments import moment_matched
from cipherdag.statistics.contingency import Margins, PearsonChiSquare

MARGINS = [
    ((1,), (1,)),
    ((1, 1), (1, 1)),
    ((1, 1, 1), (1, 2)),
    ((1, 2), (1, 2)),
    ((7,), (3, 4)),
    ((2, 2), (1, 3)),
    ((1, 6), (1, 6)),
    ((1, 2, 4), (3, 4)),
    ((1, 2, 3), (1, 1, 4)),
    ((2, 2, 2), (2, 2, 2)),
    ((1, 1, 13), (2, 3, 10)),
    ((1, 39), (2, 38)),
]


@pytest.mark.parametrize(("rows", "columns"), MARGINS)
def test_moments_are_those_of_all_tables_with_the_margins(rows, columns):
    mean, variance = exact_moments(rows, columns)
    pearson = PearsonChiSquare(sum(rows), 3, exact_mean=True)
    tables = torch.tensor([*tables_of(rows, columns)]).permute(1, 2, 0)[None]
    margins = Margins.of(tables)
    found = pearson.dense_variances(margins).numpy() / pearson.variance_scale
    np.testing.assert_allclose(found, variance, rtol=1e-9, atol=1e-9)
    assert margins.dof().numpy() == pytest.approx(mean)


def test_variances_of_configurations_add_up_and_do_not_see_empty_ones():
    pearson = PearsonChiSquare(100, 4, exact_mean=True)
    tables = torch.zeros((3, 4, 3, 1), dtype=torch.long)
    expected = 0.0
    for place, (rows, columns) in enumerate((MARGINS[7], MARGINS[6])):
        table = torch.tensor(next(tables_of(rows, columns)))
        tables[2 * place, : len(rows), : len(columns), 0] = table
        expected += exact_moments(rows, columns)[1]
    for turned in (tables, tables.transpose(1, 2).flip(0)):
        (found,) = pearson.dense_variances(Margins.of(turned)).tolist()
        assert found / pearson.variance_scale == pytest.approx(expected)


@pytest.mark.parametrize(("dof", "variance"), [(1, 60.0), (9, 30.0), (9, 18.0), (9, 12.0)])
def test_a_matched_statistic_is_as_unlikely_as_a_multiple_of_a_chi_square(dof, variance):
    statistic = np.linspace(0.0, 80.0, 161)
    found = moment_matched(statistic, np.full(161, float(dof)), np.full(161, variance))
    scale = 2 * dof / variance
    tail, usual = stats.chi2.sf(statistic * scale, dof * scale), stats.chi2.sf(statistic, dof)
    expected = np.maximum(tail, usual) if scale < 1.0 else tail
    np.testing.assert_allclose(stats.chi2.sf(found, dof), expected, rtol=1e-7)
    assert (np.diff(found) >= 0.0).all()


def test_matched_statistics_grow_beyond_every_tail_and_stay_near_their_own():
    statistic = np.geomspace(1.0, 1e9, 2000)
    for dof in (1.0, 9.0, 1e4):
        for variance in (0.0, 0.9, 1.0, 2.1, 1e3):
            found = moment_matched(statistic, np.full(2000, dof), np.full(2000, variance * dof))
            assert (np.diff(found) >= 0.0).all()
            assert found[-1] > 0.9e9
            assert (found <= 2.0 * statistic).all()
    none = np.zeros(1)
    assert moment_matched(none, none, none).tolist() == [0.0]


def test_sums_over_sites_keep_their_level_where_categories_are_rare():
    """At 15 sites of 60 rows, pairs of four categories of which two are rare."""
    rng = np.random.default_rng(0)
    tests, beyond = 2000, np.cumsum([0.01, 0.02, 0.3])
    x, y = np.arange(0, 2 * tests, 2), np.arange(1, 2 * tests, 2)
    given = np.zeros((tests, 0), dtype=np.int64)
    statistic, dof = np.zeros(tests), np.zeros(tests)
    for _ in range(15):
        codes = (rng.random((60, 2 * tests, 1)) > beyond).sum(axis=2)
        own = DiscreteTest(codes, statistic="exact-mean", min_rows_per_cell=1.0)
        found = own.evaluate(x, y, given)
        done = ~np.isnan(found.p_value)
        statistic[done] += found.statistic[done]
        dof[done] += found.dof[done]
    assert (stats.chi2.sf(statistic, dof) <= 0.01).mean() <= 0.015
    assert (stats.chi2.sf(statistic, dof) <= 0.05).mean() <= 0.06
