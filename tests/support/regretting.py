"""Sites with made-up or real family scores, and what RFcd must find among all DAGs."""

from functools import cache

import numpy as np
import pandas as pd
from oracle import random_dag

from cipherdag.algorithms.rfcd.searches import Valued
from cipherdag.graphs.dags import dag_of, empty_dag, extensions, members, topological
from cipherdag.sites.answers.regret_answers import on_grid
from cipherdag.sites.answers.site_view import SiteView
from cipherdag.sites.compute.scores.learners import best_graph
from cipherdag.sites.compute.scores.scores import GaussianBic, LocalScores


class MadeUpScore:
    """A number for every family, drawn once; no data behind it."""

    def __init__(self, n_variables, rng, spread=30.0):
        self.n_variables = n_variables
        self._table = rng.normal(0.0, spread, (n_variables, 1 << n_variables))
        self.computed = []

    def evaluate(self, families):
        self.computed += families
        return np.array([self._table[v, own] for v, own in families])


def linear_data(dag, weights, rows, rng):
    """A linear Gaussian model, shape (rows, p)."""
    values = rng.normal(size=(rows, len(dag)))
    for v in topological(dag):
        for u in members(dag[v]):
            values[:, v] += weights[u, v] * values[:, u]
    return values


def linear_sites(p, n_sites, rows, seed, *, degree=2.0):
    """A true DAG and one table per site: the same graph, other weights at every site."""
    rng = np.random.default_rng(seed)
    dag = dag_of(random_dag(p, degree, rng))
    tables = []
    for _ in range(n_sites):
        weights = rng.uniform(0.5, 1.5, (p, p)) * rng.choice([-1, 1], (p, p))
        tables.append(linear_data(dag, weights, rows, rng))
    return dag, tables


def frames(tables):
    names = [f"v{k:02d}" for k in range(tables[0].shape[1])]
    return {f"site{k}": pd.DataFrame(own, columns=names) for k, own in enumerate(tables)}


def scored(scores):
    """A site whose every score is this one."""
    return SiteView(None, None, (0,) * scores.n_variables, make_scores=lambda spec: scores)


def linear_model(p, seed):
    """A DAG and weights of a linear model."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, (p, p)) * rng.choice([-1, 1], (p, p))
    return dag_of(random_dag(p, 2.0, rng)), weights


def gaussian(tables):
    return [LocalScores(GaussianBic(own, device="cpu")) for own in tables]


@cache
def every_dag(p):
    """All DAGs over p variables: 3, 25, 543, 29281 for p = 2, 3, 4, 5."""
    found = frontier = {empty_dag(p)}
    while frontier:
        frontier = {other for dag in frontier for other in extensions(dag)}
        found = found | frontier
    return tuple(sorted(found))


def worst_regrets(scores, graphs, grid_bits=10):
    """max_i R_i(G) on the grid of every graph, computed in the clear."""
    worst = np.full(len(graphs), np.iinfo(np.int64).min)
    for own in scores:
        best = best_graph(own)
        base = sum(own.of(family) for family in enumerate(best))
        regrets = [sum(own.of(family) for family in enumerate(dag)) - base for dag in graphs]
        worst = np.maximum(worst, on_grid(np.array(regrets), grid_bits))
    return dict(zip(graphs, worst.tolist(), strict=True))


def algorithm_1(values, n_variables, width):
    """The best graph after every step of RFcd's beam of this width, all regrets being known."""
    beam, steps = [], [Valued(values[empty_dag(n_variables)], empty_dag(n_variables))]
    after = steps[:]
    while after != beam:
        beam = after
        queue = {own.dag for own in beam} | {g for own in beam for g in extensions(own.dag)}
        after = sorted((Valued(values[g], g) for g in queue), key=lambda own: own.rank)[:width]
        steps += after[:1] if after != beam else []
    return steps
