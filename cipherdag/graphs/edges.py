"""The edges of a graph, by name, and what drawings and exports read of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

BoolMatrix = NDArray[np.bool_]
IndexArray = NDArray[np.int64]
Pair = tuple[str, str]
Mark = Literal["-->", "---"]


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """One edge; of an undirected one the source is the name that sorts first."""

    source: str
    target: str
    mark: Mark

    def __str__(self) -> str:
        return f"{self.source} {self.mark} {self.target}"


class Graph(Protocol):
    """A graph as drawings and exports read it; `cipherdag.graphs.graph.CausalGraph` is one."""

    @classmethod
    def from_arcs(cls, nodes: Iterable[str], matrix: ArrayLike) -> Self:
        """A graph of the same kind from names and arcs."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the p variables."""

    @property
    def arcs(self) -> BoolMatrix:
        """Shape (p, p): ``arcs[i, j]`` is True where i --> j or i --- j."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every edge once, sorted."""

    @property
    def is_dag(self) -> bool:
        """Whether every edge is directed and none lies on a cycle."""

    def skeleton(self) -> BoolMatrix:
        """Symmetric adjacency, shape (p, p)."""
