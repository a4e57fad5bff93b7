"""Sums of squares of a table's cells: their mean is exact, their variance a bound, no inverse."""

import numpy as np
import pytest
from scipy import stats

from cipherdag.statistics.contingency import table_forms


def strata(rng, rows, columns):
    """Tables of some strata, shape (strata, rows, columns)."""
    shares = [rng.dirichlet(np.full(k, 1.5)) for k in (rows, columns)]
    n = rng.integers(4, 60, rng.integers(1, 5))
    cells = np.outer(*shares).ravel()
    return np.stack([rng.multinomial(own, cells).reshape(rows, columns) for own in n])


def cells(tables):
    """U, V and E added up over strata, shape (rows, columns) each; of two categories one."""
    return [own.sum(axis=0) for own in of_each(tables)]


def of_each(tables):
    """U, V and E of every table."""
    r, c = tables.sum(axis=2)[:, :, None], tables.sum(axis=1)[:, None]
    n = tables.sum(axis=(1, 2))[:, None, None]
    kept = np.s_[:, : 1 if tables.shape[1] == 2 else None, : 1 if tables.shape[2] == 2 else None]
    of_x = r * (n - r) if tables.shape[1] == 2 else r * n
    of_y = c * (n - c) if tables.shape[2] == 2 else c * n
    parts = tables - r * c / n, r * (n - r) * c * (n - c), of_x * of_y
    scale = 1.0, n * n * (n - 1.0), n * n * (n - 1.0)
    return [(own / by)[kept] for own, by in zip(parts, scale, strict=True)]


def with_rows_changed(rng, table, count):
    """So many tables with a table's margins, each as likely as chance makes it."""
    x = np.repeat(np.arange(table.shape[0]), table.sum(axis=1))
    y = np.repeat(np.arange(table.shape[1]), table.sum(axis=0))
    y = rng.permuted(np.tile(y, (count, 1)), axis=1)
    places = (np.arange(count)[:, None] * table.shape[0] + x) * table.shape[1] + y
    return np.bincount(places.ravel(), minlength=count * table.size).reshape(count, *table.shape)


@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (3, 3), (4, 6)])
@pytest.mark.parametrize("seed", range(2))
def test_moments_are_those_of_all_tables_with_the_same_margins(shape, seed):
    """By rows whose categories change places: the mean to its error, the variance at most."""
    rng, count = np.random.default_rng(seed), 4000
    tables = strata(rng, *shape)
    expected = [own[..., None] for own in cells(tables)]
    forms = table_forms(*expected)
    drawn = np.zeros((*expected[0].shape[:2], count))
    for own in tables:
        drawn += np.moveaxis(of_each(with_rows_changed(rng, own, count))[0], 0, -1)
    many = np.broadcast_to(expected[1], drawn.shape), np.broadcast_to(expected[2], drawn.shape)
    form = table_forms(drawn, *many).form
    error = form.std() / np.sqrt(count)
    assert abs(form.mean() - forms.mean[0]) < 5 * error
    spread = np.sqrt(np.var((form - form.mean()) ** 2) / count)
    assert form.var() < forms.variance[0] + 5 * spread


def test_of_one_cell_it_is_the_scaled_square_over_its_variance():
    form, dof = table_forms(*(np.full((1, 1, 1), own) for own in (3.0, 4.0, 4.0))).scaled()
    assert form[0] / dof[0] == pytest.approx(9 / 4)
    assert dof[0] == pytest.approx(1 / (1 + 1 / 8))
    nothing = table_forms(*np.zeros((3, 2, 2, 1))).scaled()
    assert [own[0] for own in nothing] == [0.0, 0.0]


def test_of_an_even_table_it_is_pearson_s_with_its_degrees_of_freedom():
    rng = np.random.default_rng(1)
    table = rng.multinomial(4000, np.full(20, 0.05)).reshape(4, 5)
    form, dof = table_forms(*(own[..., None] for own in cells(table[None]))).scaled()
    pearson = stats.chi2_contingency(table, correction=False)
    assert dof[0] == pytest.approx(12, rel=0.02)
    assert form[0] == pytest.approx(pearson.statistic, rel=0.03)
