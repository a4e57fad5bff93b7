"""Discrete and Gaussian rows, cut over sites that answer from them."""

import numpy as np

from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.ci_tests.discrete import DiscreteTest
from cipherdag.sites.compute.ci_tests.fisherz import FisherZTest


def discrete_codes(rng, rows, levels, missing=0.0):
    """Codes that depend on their left neighbours; a share of them is missing."""
    codes = np.zeros((rows, len(levels)), dtype=np.int64)
    for v, count in enumerate(levels):
        parents = codes[:, max(v - 2, 0) : v].sum(axis=1)
        noise = rng.integers(0, count, rows)
        codes[:, v] = np.where(rng.random(rows) < 0.3, parents % count, noise)
    codes[rng.random(codes.shape) < missing] = -1
    return codes


def gaussian_values(rng, rows, n):
    values = rng.standard_normal((rows, n))
    for v in range(1, n):
        parents = rng.choice(v, size=min(v, 2), replace=False)
        values[:, v] += values[:, parents] @ rng.uniform(-0.6, 0.6, len(parents))
    return values


def cut(array, n_sites, rng):
    """Uneven parts of at least 20 rows."""
    inner = np.sort(rng.choice(len(array) // 20 - 1, n_sites - 1, replace=False) + 1) * 20
    return np.split(array, inner)


def discrete_site(codes, categories, min_cell_size=0):
    return SiteView(
        codes,
        None,
        tuple(categories),
        min_cell_size=min_cell_size,
        make_test=lambda spec: DiscreteTest(
            codes, min_rows_per_cell=spec.min_rows_per_cell, dof=spec.dof, statistic=_table(spec)
        ),
    )


def sites_of_rare_categories(together):
    """Five sites at which two categories have three rows each, and at so many sites meet in one."""
    codes = np.zeros((5, 400, 2), dtype=np.int64)
    codes[:, :3, 0] = 1
    codes[:, 3:6, 1] = 1  # never beside the first
    codes[:together, 0, 0], codes[:together, 3, 0] = 0, 1
    return [discrete_site(own, (2, 2)) for own in codes]


def sites_that_turn(seed):
    """Four sites, at two of which the association of two columns has the other direction."""
    rng = np.random.default_rng(seed)
    parts = []
    for site in range(4):
        x, noise = rng.integers(0, 2, 300), rng.random(300) < 0.3
        parts.append(np.column_stack([x, x ^ noise ^ (site % 2)]).astype(np.int64))
    return [discrete_site(own, (2, 2)) for own in parts]


def _table(spec):
    return "pearson" if spec.name.startswith("pearson") else "g2"


def gaussian_site(values, min_cell_size=0):
    return SiteView(
        None,
        values,
        (0,) * values.shape[1],
        min_cell_size=min_cell_size,
        make_test=lambda spec: FisherZTest(values),
    )
