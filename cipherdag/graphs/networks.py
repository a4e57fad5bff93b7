"""Published discrete Bayesian networks to draw patients from: the truth of the demonstration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import FloatArray
from cipherdag.errors import GraphError, ParameterError
from cipherdag.graphs.extension import topological_order
from cipherdag.graphs.graph import CausalGraph

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteNetwork:
    """A Bayesian network over categories.

    Attributes:
        tables: Conditional probabilities of every variable, by name: shape (categories of its
            first parent, ..., its own categories); the last axis sums to 1.

    Raises:
        GraphError: An unknown parent or a directed cycle.
        ParameterError: A table of another shape, or one that holds no probabilities.
    """

    names: tuple[str, ...]
    parents: Mapping[str, tuple[str, ...]]
    categories: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        if not self.graph.is_dag:
            raise GraphError("the parents of a network form a directed cycle")
        for name in self.names:
            table = self.tables[name]
            shape = tuple(len(self.categories[v]) for v in (*self.parents[name], name))
            if table.shape != shape:
                raise ParameterError(f"the table of '{name}' has shape {table.shape}, not {shape}")
            if (table < 0).any() or not np.allclose(table.sum(axis=-1), 1.0, rtol=0, atol=1e-9):
                raise ParameterError(f"the table of '{name}' does not hold probabilities")

    @property
    def graph(self) -> CausalGraph:
        """The true DAG."""
        edges = [(parent, child) for child in self.names for parent in self.parents[child]]
        return CausalGraph.from_edges(self.names, directed=edges)

    def sample(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        """Draw independent rows as a DataFrame; see `columns`."""
        import pandas as pd

        return pd.DataFrame(self.columns(n, rng))

    def columns(self, n: int, rng: np.random.Generator) -> dict[str, NDArray[np.object_]]:
        """Draw independent rows, every variable after its parents.

        Returns:
            Category strings, shape (n,), of every variable, in the order of ``names``.

        Raises:
            ParameterError: A negative number of rows.
        """
        if n < 0:
            raise ParameterError(f"the number of rows must not be negative, is {n}")
        codes: dict[str, NDArray[np.int64]] = {}
        graph = self.graph
        order = topological_order(graph.arcs)
        for position in [] if order is None else order:
            name = self.names[position]
            given = tuple(codes[parent] for parent in self.parents[name])
            shape = (n, len(self.categories[name]))
            upper = np.broadcast_to(self.tables[name][given], shape).cumsum(axis=1)[:, :-1]
            codes[name] = (rng.random(n)[:, None] >= upper).sum(axis=1)
        return {v: np.array(self.categories[v], dtype=object)[codes[v]] for v in self.names}


def asia() -> DiscreteNetwork:
    """The chest-clinic network ASIA, with its published probabilities and names in full words.

    Source: Lauritzen and Spiegelhalter, "Local computations with probabilities on graphical
    structures and their application to expert systems", JRSS B 50 (1988), 157-224. "TubOrCancer" is
    their "either tuberculosis or lung cancer", which is certain given its parents: data from this
    network are not faithful to its graph there.
    """
    given = {
        "VisitToAsia": ((), [0.01]),
        "Tuberculosis": (("VisitToAsia",), [0.05, 0.01]),
        "Smoking": ((), [0.5]),
        "LungCancer": (("Smoking",), [0.1, 0.01]),
        "Bronchitis": (("Smoking",), [0.6, 0.3]),
        "TubOrCancer": (("Tuberculosis", "LungCancer"), [1.0, 1.0, 1.0, 0.0]),
        "XRay": (("TubOrCancer",), [0.98, 0.05]),
        "Dyspnoea": (("TubOrCancer", "Bronchitis"), [0.9, 0.7, 0.8, 0.1]),
    }
    return DiscreteNetwork(
        names=tuple(given),
        parents={name: parents for name, (parents, _) in given.items()},
        categories=dict.fromkeys(given, ("yes", "no")),
        tables={name: _yes_no(chances) for name, (_, chances) in given.items()},
    )


def _yes_no(chances: list[float]) -> FloatArray:
    """The table of a yes/no variable from its chance of "yes" per configuration of parents."""
    yes = np.array(chances)
    n_parents = int(math.log2(len(chances)))
    return np.stack([yes, 1.0 - yes], axis=-1).reshape((2,) * n_parents + (2,))
