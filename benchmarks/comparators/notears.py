"""NOTEARS at single sites and NOTEARS-ADMM over all: linear models by continuous optimisation.

Sources: Zheng, Aragam, Ravikumar and Xing, "DAGs with NO TEARS", NeurIPS 2018 (objective, Eq. 3 and
Theorem 1; augmented Lagrangian, Algorithm 1; W = W+ - W- for the l1 norm, section 4.1); Ng and
Zhang, "Towards federated Bayesian network structure learning with continuous optimization", AISTATS
2022 (section 4, Algorithm 1 and its closed form for linear models). Parameters are the published
programs' defaults; FedPC prunes at 0.3. Both need the rows only through X'X, so rows cost nothing.

Discrete columns enter as the numbers of their categories, as in FedPC's experiments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import expm
from scipy.optimize import minimize

from cipherdag.graphs.extension import topological_order
from cipherdag.graphs.graph import CausalGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cipherdag.sites.table.site_table import SiteTable

    Smooth = Callable[[np.ndarray], tuple[float, np.ndarray]]

THRESHOLD = 0.3
FAR = 1e100


@dataclass(frozen=True)
class Notears:
    """Parameters of NOTEARS (published program)."""

    l1: float = 0.1
    max_iter: int = 100
    h_tol: float = 1e-8
    rho_max: float = 1e16
    progress: float = 0.25
    threshold: float = THRESHOLD


@dataclass(frozen=True)
class NotearsAdmm:
    """Parameters of NOTEARS-ADMM (published program).

    ``settled`` is ours: iterations end once acyclicity and consensus are as close; 0 never ends
    them early, as published.
    """

    l1: float = 0.01
    max_iter: int = 200
    rho: float = 1e-3
    growth_acyclic: float = 1.75
    growth_consensus: float = 1.25
    rho_max: float = 1e16
    settled: float = 0.0
    threshold: float = THRESHOLD


def notears_avg(sites: Sequence[SiteTable], parameters: Notears) -> list[CausalGraph]:
    """NOTEARS-Avg: the graph of every site alone (baseline 1 of FedPC)."""
    return [
        pruned(table, notears(covariance(table, table.rows), parameters), parameters.threshold)
        for table in sites
    ]


def notears_admm(sites: Sequence[SiteTable], parameters: NotearsAdmm) -> list[CausalGraph]:
    """NOTEARS-ADMM: one graph that all sites agree on (baseline 2 of FedPC)."""
    rows = sum(table.rows for table in sites)
    weights = admm([covariance(table, rows) for table in sites], parameters)
    return [pruned(sites[0], weights, parameters.threshold)]


def notears(cov: np.ndarray, parameters: Notears) -> np.ndarray:
    """Weights of a linear DAG, shape (p, p), [i, j] of i -> j, from X'X / n of centred rows."""
    d = len(cov)
    weights, rho, alpha, h = np.zeros((d, d)), 1.0, 0.0, np.inf
    for _ in range(parameters.max_iter):
        while True:
            found = _lagrangian_step(weights, parameters.l1, alpha, rho, _least_squares(cov))
            h_new = acyclicity(found)[0]
            if h_new <= parameters.progress * h or rho >= parameters.rho_max:
                break
            rho *= 10.0
        weights, h = found, h_new
        alpha += rho * h
        if h <= parameters.h_tol or rho >= parameters.rho_max:
            break
    return weights


def admm(covs: Sequence[np.ndarray], parameters: NotearsAdmm) -> np.ndarray:
    """Weights that all sites agree on, shape (p, p), from every site's X'X / (rows of all)."""
    d, sites = len(covs[0]), len(covs)
    weights, rho1, rho2, alpha = np.zeros((d, d)), parameters.rho, parameters.rho, 0.0
    beta = [np.zeros((d, d)) for _ in covs]
    for _ in range(parameters.max_iter):
        own = [
            np.linalg.solve(cov + rho2 * np.eye(d), rho2 * weights - dual + cov)
            for cov, dual in zip(covs, beta, strict=True)
        ]
        # the sites enter the coordinator's step only through two sums
        pull = sum(beta) + rho2 * sum(own)
        weights = _lagrangian_step(
            weights, parameters.l1, alpha, rho1, _consensus(pull, sites * rho2)
        )
        h = acyclicity(weights)[0]
        alpha += rho1 * h
        beta = [dual + rho2 * (b - weights) for dual, b in zip(beta, own, strict=True)]
        apart = max(float(((b - weights) ** 2).sum()) for b in own)
        if max(h, apart) < parameters.settled:
            break
        rho1 *= parameters.growth_acyclic if rho1 < parameters.rho_max else 1.0
        rho2 *= parameters.growth_consensus if rho2 < parameters.rho_max else 1.0
    return weights


def acyclicity(weights: np.ndarray) -> tuple[float, np.ndarray]:
    """h(W) = tr exp(W o W) - p, which is 0 of DAGs only, and its gradient (Theorem 1)."""
    with np.errstate(over="ignore", invalid="ignore"):
        power = expm(weights * weights)
        return float(np.trace(power) - len(weights)), power.T * weights * 2.0


def covariance(table: SiteTable, rows: int) -> np.ndarray:
    """X'X / rows of the table's centred columns, shape (p, p)."""
    values = table.codes.astype(float) if table.values is None else table.values
    centred = values - values.mean(axis=0)
    return centred.T @ centred / rows


def pruned(table: SiteTable, weights: np.ndarray, threshold: float) -> CausalGraph:
    """The graph of weights above the threshold, and of these as many as leave no cycle."""
    size = np.abs(weights)
    kept = size > threshold
    for weakest in np.sort(size[kept]):
        if topological_order(kept) is not None:
            break
        kept &= size > weakest
    return CausalGraph.from_arcs(table.names, kept)


def _lagrangian_step(weights, l1: float, alpha: float, rho: float, loss: Smooth) -> np.ndarray:
    """Minimise loss + alpha h + rho / 2 h^2 + l1 |W| by L-BFGS-B over W = W+ - W-."""
    d = len(weights)
    off = ~np.eye(d, dtype=bool)

    def objective(both):
        plus, minus = both.reshape(2, -1)
        candidate = np.zeros((d, d))
        candidate[off] = plus - minus
        value, gradient = loss(candidate)
        h, h_gradient = acyclicity(candidate)
        value += alpha * h + 0.5 * rho * h * h + l1 * both.sum()
        if not np.isfinite(value):  # the line search stepped too far; it comes back
            return FAR, np.zeros(len(both))
        slope = (gradient + (alpha + rho * h) * h_gradient)[off]
        return value, np.concatenate([slope + l1, l1 - slope])

    start = np.concatenate([np.maximum(weights[off], 0.0), np.maximum(-weights[off], 0.0)])
    best = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start))
    plus, minus = best.x.reshape(2, -1)
    found = np.zeros((d, d))
    found[off] = plus - minus
    return found


def _least_squares(cov: np.ndarray) -> Smooth:
    """1 / (2n) |X - XW|^2 and its gradient, from X'X / n."""

    def loss(weights):
        rest = np.eye(len(cov)) - weights
        product = cov @ rest
        return 0.5 * float((rest * product).sum()), -product

    return loss


def _consensus(pull: np.ndarray, rho: float) -> Smooth:
    """Sum over sites of beta (B - W) + rho / 2 |B - W|^2, less what does not depend on W."""

    def loss(weights):
        value = 0.5 * rho * float((weights**2).sum()) - float((weights * pull).sum())
        return value, rho * weights - pull

    return loss
