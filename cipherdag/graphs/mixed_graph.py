"""Mixed graphs over named variables: a tail, an arrowhead or a circle at each end of an edge.

MixedGraph            any such graph
  CausalGraph         --> and --- only: a DAG, or a graph of which nothing is claimed
    MPDAG             a class of DAGs that background knowledge narrows (Meek, 1995)
      CPDAG           a Markov equivalence class of DAGs
  PartialMixedGraph   every mark; nothing is claimed
    PAG               a Markov equivalence class of maximal ancestral graphs
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs.edges import (
    Edge,
    Mark,
    canonical,
    checked_names,
    edges_from_causallearn,
    edges_from_csv,
    edges_from_networkx,
    quoted,
)
from cipherdag.graphs.endpoints import (
    ENDPOINTS,
    Endpoints,
    arcs_of,
    checked_endpoints,
    mark_between,
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MixedGraph(ABC):
    """A graph with a mark at each end of an edge.

    Two graphs are equal if they have the same names and the same edges, in whatever order the names
    stand.

    Attributes:
        nodes: Names of the p variables, all different, not empty, without control characters.
        endpoints: Read-only, shape (p, p): the mark at nodes[j] of the edge between nodes[i] and
            nodes[j]: 0 without an edge, 1 a circle, 2 an arrowhead, 3 a tail, as the R package
            pcalg numbers them.
        arcs: Read-only, shape (p, p): ``arcs[i, j]`` is True where nodes[i] and nodes[j] are
            adjacent, unless only nodes[i] has an arrowhead. So a directed edge stands one way, an
            undirected one both ways.

    Raises:
        GraphError: A name is repeated or cannot be written, or the matrix is no graph over the
            names.
    """

    meanings: ClassVar[Mapping[Mark, str]]
    """What an edge of each mark says of its variables; other marks no graph of this kind has."""
    one_way: ClassVar[Mark]
    """Where a large graph is drawn as boxes of variables: the mark if all edges lead one way."""
    undetermined: ClassVar[Mark]  # the mark of an edge of which neither end is determined

    nodes: tuple[str, ...]
    endpoints: Endpoints
    arcs: BoolMatrix = field(init=False)

    def __post_init__(self) -> None:
        endpoints = checked_endpoints(self.endpoints)
        arcs = arcs_of(endpoints)
        endpoints.setflags(write=False)
        arcs.setflags(write=False)
        object.__setattr__(self, "nodes", checked_names(self.nodes, len(endpoints)))
        object.__setattr__(self, "endpoints", endpoints)
        object.__setattr__(self, "arcs", arcs)

    @classmethod
    def from_marked(cls, nodes: Iterable[str], edges: Iterable[tuple[str, str, str]]) -> Self:
        """A graph from (source, target, mark) triples with marks such as ``-->``.

        Raises:
            GraphError: An edge has an unknown name or a mark that this kind of graph does not have,
                joins a variable to itself, or joins a pair that already has an edge.
        """
        names = tuple(nodes)
        position = {name: index for index, name in enumerate(names)}
        endpoints = np.zeros((len(names), len(names)), dtype=np.int8)
        for source, target, mark in edges:
            if mark not in cls.meanings:
                marks = ", ".join(cls.meanings)
                raise GraphError(f"an edge has the mark {mark!r}, not one of {marks}")
            if missing := [name for name in (source, target) if name not in position]:
                raise GraphError(
                    f"an edge names a variable that is not there: {quoted(missing)}",
                    remedy=f"The variables are {', '.join(names)}.",
                )
            i, j = position[source], position[target]
            if i == j:
                raise GraphError(f"an edge joins '{source}' to itself")
            if endpoints[i, j]:
                raise GraphError(f"'{source}' and '{target}' are joined by two edges")
            endpoints[j, i], endpoints[i, j] = ENDPOINTS[mark[0]], ENDPOINTS[mark[2]]
        return cls(names, endpoints)

    @classmethod
    def from_csv(cls, text: str, *, nodes: Iterable[str] | None = None) -> Self:
        """Read a CSV of edges; see `cipherdag.graphs.edges.edges_from_csv`."""
        names = None if nodes is None else tuple(nodes)
        edges = edges_from_csv(text, nodes=names, marks=tuple(cls.meanings))
        if names is None:
            names = tuple(sorted({name for edge in edges for name in edge[:2]}))
        return cls.from_marked(names, edges)

    @classmethod
    def from_networkx(cls, graph: Any) -> Self:
        """Read a graph of networkx, pgmpy or DoWhy; `edges_from_networkx` says how."""
        edges = edges_from_networkx(graph)
        return cls.from_marked(map(str, graph.nodes), edges)

    @classmethod
    def from_causallearn(cls, graph: Any) -> Self:
        """Read a ``GeneralGraph`` of causal-learn."""
        edges = edges_from_causallearn(graph)
        return cls.from_marked((node.get_name() for node in graph.get_nodes()), edges)

    @abstractmethod
    def with_edges(self, nodes: Iterable[str], edges: Iterable[tuple[str, str, str]]) -> MixedGraph:
        """A graph with other edges, of which nothing is claimed; see `from_marked`."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every edge once, sorted by source, then target.

        The one of two that sorts first is the source, unless the mark is then written the other
        way round, as ``<-o`` is.
        """
        edges = []
        for i, j in np.argwhere(np.triu(self.endpoints)).tolist():
            a, b = (i, j) if self.nodes[i] < self.nodes[j] else (j, i)
            mark = mark_between(self.endpoints, a, b)
            source, target, mark = canonical(self.nodes[a], self.nodes[b], mark)
            edges.append(Edge(source, target, cast(Mark, mark)))
        return tuple(sorted(edges))

    @property
    @abstractmethod
    def kind(self) -> str:
        """``dag``, ``cpdag``, ``mpdag``, ``pag``; ``pdag`` and ``pmg`` where nothing is claimed."""

    def skeleton(self) -> BoolMatrix:
        """Symmetric adjacency, shape (p, p)."""
        return self.endpoints > 0

    def describe(self, edge: Edge) -> str:
        """What an edge says of its variables, in words."""
        return self.meanings[edge.mark].format(edge.source, edge.target)

    def relabel(self, mapping: Mapping[str, str]) -> Self:
        """The same graph under other names; names that the mapping lacks stay.

        Raises:
            GraphError: The mapping has a name that is not there, or two variables get one name.
        """
        if missing := sorted(set(mapping) - set(self.nodes)):
            raise GraphError(
                f"a variable to rename is not there: {quoted(missing)}",
                remedy=f"The variables are {', '.join(self.nodes)}.",
            )
        return type(self)(tuple(mapping.get(name, name) for name in self.nodes), self.endpoints)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MixedGraph):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __str__(self) -> str:
        return "\n".join(str(edge) for edge in self.edges)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.nodes)} nodes, {len(self.edges)} edges>"

    def _content(self) -> tuple[str, frozenset[str], frozenset[Edge]]:
        return self.undetermined, frozenset(self.nodes), frozenset(self.edges)
