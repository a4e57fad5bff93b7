"""The data of FedPC's experiments (section 4.1.1), by name and number of the sample.

Networks: 5000 rows drawn from the published network. Linear models: the paper names its generator,
the Causal Discovery Toolbox, and its noise coefficient of 0.4, and no graph. Taken from that
program: coefficients uniform in [0, 1], noise of 0.4 times a scale uniform in [0, 1], at most five
parents, every variable standardised as soon as it is drawn. Ours: Gaussian roots, and a uniformly
random graph with exactly as many edges as the paper's (its tables give them: misses and TPR).
Non-linear models (supplement S-1-3), where the paper gives neither rows nor graph: each parent's
part is a function from a Gaussian process of kernel exp(-d^2 / 2), drawn by 1000 random Fourier
features, and the noise as above; 5000 rows, as many edges as the paper's TPR implies.
Sachs: the 853 observational rows and 17 edges; a sample is another split of the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from bif import read_bif

from cipherdag import CausalGraph, Schema
from cipherdag.sites.table.column import Column

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 5000
NETWORKS = {"insurance": 27, "alarm": 37, "win95pts": 76, "andes": 223, "pigs": 441}
LINEAR = {"linear-10": 15, "linear-20": 27, "linear-50": 71, "linear-100": 158, "linear-300": 409}
NONLINEAR = {"nonlinear-10": 11, "nonlinear-20": 28}
VARIABLES = {
    "nonlinear-10": 10, "linear-10": 10, "sachs": 11, "nonlinear-20": 20, "linear-20": 20,
    "insurance": 27, "alarm": 37, "linear-50": 50,
    "win95pts": 76, "linear-100": 100, "andes": 223, "linear-300": 300, "pigs": 441,
}  # fmt: skip
"""Data sets and their numbers of variables, small ones first."""
MAX_PARENTS = 5
NOISE = 0.4
FEATURES = 1000


def draw(name: str, folder: Path, seed: int, rows: int = ROWS):
    """Rows, schema (None to infer it) and true DAG of one sample; see the module.

    Args:
        name: One of `VARIABLES`, or another network in the folder.
        folder: Holds ``bn/<network>.bif.gz`` and ``sachs/``.
        seed: Number of the sample.
        rows: How many rows; Sachs has those that there are.
    """
    if name in NETWORKS or name not in VARIABLES:
        network = read_bif(folder / "bn" / f"{name}.bif.gz", numbered=True)
        columns = [
            Column(own, "discrete", categories=network.categories[own], allow_constant=True)
            for own in network.names
        ]
        data = network.sample(rows, np.random.default_rng(seed))
        return data, Schema(tuple(columns)), network.graph
    if name == "sachs":
        data = pd.read_csv(folder / "sachs/sachs_obs_853.csv.gz")
        edges = (folder / "sachs/sachs_edges_17.csv").read_text("utf-8")
        return data, None, CausalGraph.from_csv(edges, nodes=data.columns)
    linear = name in LINEAR
    rng = np.random.default_rng((seed, VARIABLES[name]) if linear else (seed, VARIABLES[name], 1))
    dag = random_dag(VARIABLES[name], (LINEAR | NONLINEAR)[name], rng)
    names = [f"v{k:03d}" for k in range(VARIABLES[name])]
    data = pd.DataFrame(model_rows(dag, rows, rng, linear=linear), columns=names)
    return data, None, CausalGraph.from_arcs(names, dag)


def random_dag(variables: int, edges: int, rng: np.random.Generator):
    """Edges drawn one after the other over a random order, none beyond five parents."""
    order = rng.permutation(variables)
    above = np.argwhere(np.triu(np.ones((variables, variables), dtype=bool), k=1))
    dag = np.zeros((variables, variables), dtype=bool)
    for cause, effect in order[rng.permutation(above)]:
        if dag.sum() < edges and dag[:, effect].sum() < MAX_PARENTS:
            dag[cause, effect] = True
    return dag


def model_rows(dag, rows: int, rng: np.random.Generator, *, linear: bool):
    """Rows of an additive model with Gaussian noise, shape (rows, p), standardised."""
    from cipherdag.graphs.extension import topological_order

    values = np.zeros((rows, len(dag)))
    for v in topological_order(dag):
        parents = np.flatnonzero(dag[:, v])
        own = rng.normal(size=rows)
        if len(parents):
            own *= NOISE * rng.random()
            if linear:
                own += values[:, parents] @ rng.random(len(parents))
            else:
                own += sum(drawn_function(values[:, v], rng) for v in parents)
        values[:, v] = (own - own.mean()) / own.std()
    return values


def drawn_function(values, rng: np.random.Generator):
    """A function from a Gaussian process of kernel exp(-d^2 / 2) at the values, shape (n,)."""
    frequency, weight = rng.normal(size=(2, FEATURES))
    phase = rng.uniform(0.0, 2.0 * np.pi, FEATURES)
    return np.cos(np.outer(values, frequency) + phase) @ weight * np.sqrt(2.0 / FEATURES)
