"""The data of RFcd's experiments (section 5): polynomial additive-noise models over random DAGs.

The paper names its generator, the Causal Discovery Toolbox, and not its settings. Taken from that
program: quadratic mechanisms with coefficients uniform in [0, 1], each parent's part cut off at -1
and 1, noise of 0.4 times a scale uniform in [0, 1], roots from a mixture of four Gaussians, every
variable standardised as soon as it is drawn. Ours, because the paper is silent: three neighbours
per variable on average; an intervention draws its variable like a root.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

NEIGHBOURS = 3.0
NOISE = 0.4
MIXTURE = 4


@dataclass(frozen=True)
class Experiment:
    """A true DAG and the rows of every site.

    Attributes:
        dag: Directed edges, shape (d, d).
        sites: One array of shape (n, d) per site, standardised.
        targets: The variable intervened on at every site, None where nothing is.
    """

    dag: np.ndarray
    sites: list[np.ndarray] = field(repr=False)
    targets: list[int | None]


def experiment(d, n_sites, rows, seed, *, noise, interventions):
    """Draw a graph, its mechanisms, and the rows of every site.

    Args:
        d: Number of variables.
        n_sites: Number of sites.
        rows: Rows of every site.
        seed: Seed of everything.
        noise: ``gaussian`` or ``uniform``.
        interventions: A different intervention per site while there are variables left, else none.
    """
    rng = np.random.default_rng((seed, d, int(interventions), noise == "uniform"))
    order = rng.permutation(d)
    above = np.triu(rng.random((d, d)) < min(1.0, NEIGHBOURS / (d - 1)), k=1)
    dag = np.zeros((d, d), dtype=bool)
    dag[np.ix_(order, order)] = above
    coefficients = rng.random((d, d, 3))
    scales = NOISE * rng.random(d)
    roots = [_root(rng) for _ in range(d)]
    targets = [*rng.permutation(d).tolist(), *[None] * n_sites][:n_sites]
    if not interventions:
        targets = [None] * n_sites
    sites = [
        _rows(rows, order, dag, coefficients, scales, roots, noise, target, rng)
        for target in targets
    ]
    return Experiment(dag=dag, sites=sites, targets=targets)


def _rows(rows, order, dag, coefficients, scales, roots, noise, target, rng):
    values = np.zeros((rows, len(dag)))
    for v in order:
        parents = np.flatnonzero(dag[:, v])
        if not len(parents) or v == target:
            weights, means = roots[v]
            part = rng.choice(MIXTURE, size=rows, p=weights)
            own = rng.normal(means[part], 0.5)
        else:
            draw = rng.normal if noise == "gaussian" else rng.uniform
            own = scales[v] * draw(size=rows)
            for u in parents:
                own += np.clip(np.polynomial.polynomial.polyval(values[:, u], coefficients[u, v]),
                               -1.0, 1.0)  # fmt: skip
        values[:, v] = (own - own.mean()) / own.std()
    return values


def _root(rng):
    weights = rng.random(MIXTURE)
    return weights / weights.sum(), 2.0 * rng.normal(size=MIXTURE)
