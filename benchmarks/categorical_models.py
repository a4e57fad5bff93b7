"""Random causal models over categorical variables, as in Fed-CD's experiments (Appendix B).

Graphs: Erdos-Renyi ER-n, with n d expected edges; chain, bidiag, collider, full and jungle; and
those of a file of edges.
Mechanisms: roots draw from softmax(N(0, 1)); every other variable from a network with random
weights: embeddings of its parents' categories, 48 hidden units, LeakyReLU, softmax (Lippe et al.,
ENCO, appendix on synthetic data). An intervention draws its variable uniformly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cipherdag import CausalGraph
from cipherdag.graphs.extension import topological_order

EMBEDDING, HIDDEN, SLOPE, GAIN = 4, 48, 0.1, 2.5
STRUCTURES = ("chain", "bidiag", "collider", "full", "jungle")
INTERVENED = "intervened"


@dataclass(frozen=True)
class CategoricalModel:
    """A DAG over d variables, arcs[i, j] True where i -> j, and every variable's mechanism.

    ``mechanisms[j]`` maps the parents' categories, shape (n, M), to probabilities, shape (n, C).
    """

    names: tuple[str, ...]
    arcs: np.ndarray
    categories: int
    mechanisms: tuple

    @property
    def graph(self) -> CausalGraph:
        return CausalGraph.from_arcs(self.names, self.arcs)

    def sample(self, rows: int, rng: np.random.Generator, *, intervene: int | None = None):
        """Rows of categories, shape (rows, d); one variable may be drawn uniformly instead."""
        codes = np.zeros((rows, len(self.names)), dtype=np.int64)
        for j in topological_order(self.arcs):
            if j == intervene:
                codes[:, j] = rng.integers(0, self.categories, rows)
                continue
            chances = self.mechanisms[j](codes[:, np.flatnonzero(self.arcs[:, j])])
            upper = chances.cumsum(axis=1)[:, :-1]
            codes[:, j] = (rng.random(rows)[:, None] >= upper).sum(axis=1)
        return codes

    def frame(self, observational: int, per_variable: int, rng: np.random.Generator):
        """Observational rows and rows of an intervention on every variable, in one table."""
        blocks = [self.sample(observational, rng)]
        marks = [""] * observational
        for j, name in enumerate(self.names):
            blocks.append(self.sample(per_variable, rng, intervene=j))
            marks += [name] * per_variable
        frame = pd.DataFrame(np.concatenate(blocks), columns=list(self.names))
        return frame.assign(**{INTERVENED: marks})


def random_model(structure: str, d: int, rng: np.random.Generator, *, categories: int = 10):
    """A model over d variables; ``structure`` is er-N, one of STRUCTURES, or a CSV file of edges.

    A file (``parent,child``) has its own variables, and d is of no account.
    """
    arcs = arcs_of(Path(structure)) if structure.endswith(".csv") else graph_of(structure, d, rng)
    mechanisms = tuple(_mechanism(int(own.sum()), categories, rng) for own in arcs.T)
    names = tuple(f"X{j:02d}" for j in range(len(arcs)))
    return CategoricalModel(names, arcs, categories, mechanisms)


def arcs_of(path: Path) -> np.ndarray:
    """The graph of a file of edges."""
    edges = pd.read_csv(path)
    names = sorted({*edges["parent"], *edges["child"]})
    arcs = np.zeros((len(names),) * 2, dtype=bool)
    for parent, child in edges.itertuples(index=False):
        arcs[names.index(parent), names.index(child)] = True
    return arcs


def graph_of(structure: str, d: int, rng: np.random.Generator) -> np.ndarray:
    """Arcs over d variables in a random causal order."""
    upper = np.zeros((d, d), dtype=bool)
    if structure.startswith("er-"):
        chance = min(1.0, 2.0 * float(structure[3:]) / (d - 1))
        upper = np.triu(rng.random((d, d)) < chance, 1)
        for j in np.flatnonzero(~(upper | upper.T).any(axis=0)):  # no variable without an edge
            other = int(rng.choice([v for v in range(d) if v != j]))
            upper[min(j, other), max(j, other)] = True
    else:
        for j in range(1, d):
            upper[_parents(structure, j, d), j] = True
    order = rng.permutation(d)
    arcs = np.zeros_like(upper)
    arcs[np.ix_(order, order)] = upper
    return arcs


def _parents(structure: str, j: int, d: int) -> list[int]:
    above = (j + 1) // 2 - 1
    return {
        "chain": [j - 1],
        "bidiag": list(range(max(0, j - 2), j)),
        "collider": list(range(j)) if j == d - 1 else [],
        "full": list(range(j)),
        # a binary tree whose nodes also hang on their parent's parent
        "jungle": [above] + ([(above + 1) // 2 - 1] if above > 0 else []),
    }[structure]


def _mechanism(parents: int, categories: int, rng: np.random.Generator):
    if parents == 0:
        root = _softmax(rng.standard_normal((1, categories)))
        return lambda codes: np.repeat(root, len(codes), axis=0)
    embedding = rng.standard_normal((parents, categories, EMBEDDING))
    first = _orthogonal(EMBEDDING * parents, HIDDEN, rng)
    bias = rng.uniform(-0.5, 0.5, HIDDEN)
    second = _orthogonal(HIDDEN, categories, rng)

    def chances(codes: np.ndarray) -> np.ndarray:
        embedded = embedding[np.arange(parents), codes].reshape(len(codes), -1)
        hidden = embedded @ first + bias
        return _softmax(np.where(hidden > 0, hidden, SLOPE * hidden) @ second)

    return chances


def _orthogonal(rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """A random matrix with orthogonal rows or columns, times the gain."""
    square = rng.standard_normal((max(rows, columns), min(rows, columns)))
    basis, triangle = np.linalg.qr(square)
    basis = basis * np.sign(np.diag(triangle))
    return GAIN * (basis if rows >= columns else basis.T)


def _softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
