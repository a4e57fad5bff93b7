"""Partial ancestral graphs over named variables: what data tell where causes may be unmeasured.

PartialMixedGraph   any graph of such marks; nothing more is claimed of it
  PAG               stands for a Markov equivalence class of maximal ancestral graphs
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs import exports
from cipherdag.graphs.ancestral.classes import check_pag, is_pag
from cipherdag.graphs.ancestral.marks import ARROW, SIGNS, Marks, checked_marks, written
from cipherdag.graphs.ancestral.projection import pag_of
from cipherdag.graphs.drawing import figure, notebook
from cipherdag.graphs.edges import Edge, Mark, straight, writable
from cipherdag.graphs.graph import CausalGraph

SAID: dict[Mark, str] = {
    "-->": "{0} is a cause of {1}, perhaps through others",
    "<->": "neither causes the other: {0} and {1} share an unmeasured cause",
    "o->": "{1} is no cause of {0}: {0} causes it, or they share an unmeasured cause",
    "o-o": "{0} and {1}: which causes which, or an unmeasured cause of both, is not determined",
    "---": "{0} and {1}: each causes the other or what rows were selected by",
    "o--": "{1} causes {0} or what rows were selected by; the other end is not determined",
}
"""What an edge of each kind says of its two variables."""
_KNOWN: dict[str, Mark] = {mark: mark for mark in SAID}
_MARKS = {sign[side]: mark for side in (0, 1) for mark, sign in SIGNS.items()}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartialMixedGraph:
    """A graph with a tail, an arrowhead or a circle at each end of an edge; nothing is claimed.

    ``A *-> B``: B is no cause of A. ``A --* B``: A is a cause of B, perhaps through others, or of a
    selection variable, where there may be one. A circle: in some graphs that data cannot tell apart
    it is a tail, in others an arrowhead. Two variables with an edge stay dependent given any of the
    others. Two graphs are equal if they have the same names and edges.

    Attributes:
        nodes: Names of the p variables, all different, not empty, without control characters.
        marks: Read-only, shape (p, p): the mark at nodes[j] of the edge between nodes[i] and
            nodes[j]: 0 without an edge, 1 a circle, 2 an arrowhead, 3 a tail, as the R package
            pcalg numbers them.

    Raises:
        GraphError: A name is repeated or cannot be written, or the matrix is no graph over the
            names.

    Source: Zhang, Artificial Intelligence 172 (2008), section 2.
    """

    between: ClassVar[tuple[Mark, Mark]] = ("o->", "o-o")

    nodes: tuple[str, ...]
    marks: Marks

    def __post_init__(self) -> None:
        marks = checked_marks(self.marks)
        marks.setflags(write=False)
        object.__setattr__(self, "nodes", writable(self.nodes, len(marks)))
        object.__setattr__(self, "marks", marks)

    @classmethod
    def from_marked(cls, nodes: Iterable[str], edges: Iterable[tuple[str, str, str]]) -> Self:
        """A graph from (source, target, mark) triples with marks such as ``o->``.

        Raises:
            GraphError: Another mark, an unknown name, a loop, or two edges between one pair.
        """
        names = tuple(nodes)
        position = {name: index for index, name in enumerate(names)}
        marks = np.zeros((len(names), len(names)), dtype=np.int8)
        for source, target, mark in edges:
            if {source, target} - set(names) or source == target:
                raise GraphError(f"no edge can join '{source}' and '{target}'")
            i, j = position[source], position[target]
            if mark not in SAID:
                raise GraphError(f"an edge has the mark {mark!r}, not one of {', '.join(SAID)}")
            if marks[i, j]:
                raise GraphError(f"'{source}' and '{target}' are joined by two edges")
            marks[j, i], marks[i, j] = _MARKS[mark[0]], _MARKS[mark[2]]
        return cls(names, marks)

    @classmethod
    def from_csv(cls, text: str, *, nodes: Iterable[str] | None = None) -> Self:
        """Read a CSV of edges; see `cipherdag.graphs.exports.edges_from_csv`."""
        known = None if nodes is None else tuple(nodes)
        edges = exports.edges_from_csv(text, nodes=known, marks=tuple(SAID))
        if known is None:
            known = tuple(sorted({name for edge in edges for name in edge[:2]}))
        return cls.from_marked(known, edges)

    def with_edges(
        self, nodes: Iterable[str], edges: Iterable[tuple[str, str, str]]
    ) -> PartialMixedGraph:
        """A graph with other edges, of which nothing is claimed; see `from_marked`."""
        return PartialMixedGraph.from_marked(nodes, edges)

    @property
    def arcs(self) -> BoolMatrix:
        """Shape (p, p): True from i to j where only j has an arrowhead, else both ways."""
        into, joined = self.marks == ARROW, self.skeleton()
        return joined & ~(into.T & ~into)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every edge once, sorted by source, then target.

        The one of two that sorts first is the source, unless the mark is then written the other
        way round, as ``<-o`` is.
        """
        found = []
        for i, j in np.argwhere(np.triu(self.marks)).tolist():
            a, b = sorted((i, j), key=self.nodes.__getitem__)
            first, second, mark = straight(self.nodes[a], self.nodes[b], written(self.marks, a, b))
            found.append(Edge(first, second, _KNOWN[mark]))
        return tuple(sorted(found))

    @property
    def kind(self) -> str:
        """``pag`` by type; else ``pmg``: nothing is claimed of it."""
        return "pmg"

    def skeleton(self) -> BoolMatrix:
        """Symmetric adjacency, shape (p, p)."""
        return self.marks > 0

    def says(self, edge: Edge) -> str:
        """What an edge says of its variables, in words."""
        return SAID[edge.mark].format(edge.source, edge.target)

    def to_numpy(self) -> NDArray[np.int8]:
        """A copy of `marks`, shape (p, p)."""
        return self.marks.copy()

    to_networkx = exports.to_networkx
    to_graphml = exports.to_graphml
    to_gml = exports.to_gml
    to_dot = exports.to_dot
    to_dagitty = exports.to_dagitty
    to_csv = exports.to_csv
    plot = figure.plot
    _repr_html_ = notebook.notebook_html

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartialMixedGraph):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __str__(self) -> str:
        return "\n".join(str(edge) for edge in self.edges)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.nodes)} nodes, {len(self.edges)} edges>"

    def _content(self) -> tuple[frozenset[str], frozenset[Edge]]:
        return frozenset(self.nodes), frozenset(self.edges)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PAG(PartialMixedGraph):
    """A partial ancestral graph: what all graphs of a Markov equivalence class have in common.

    Raises:
        GraphError: As of a `PartialMixedGraph`, or no maximal ancestral graph's class has exactly
            these marks; the message names an edge.

    Source: Zhang, Artificial Intelligence 172 (2008), section 3.
    """

    def __post_init__(self) -> None:
        PartialMixedGraph.__post_init__(self)
        check_pag(self.nodes, self.marks)

    @property
    def kind(self) -> str:
        """``pag``."""
        return "pag"

    @classmethod
    def from_dag(
        cls, dag: CausalGraph, unmeasured: Iterable[str], selected: Iterable[str] = ()
    ) -> Self:
        """What unlimited data of some variables of a DAG tell of it.

        Args:
            dag: The DAG.
            unmeasured: Variables without data.
            selected: Variables, without data too, by which rows were selected.

        Raises:
            GraphError: It is no DAG, or has no such variable.
        """
        chosen = tuple(selected)
        without = {*unmeasured, *chosen}
        if not dag.is_dag or without - set(dag.nodes):
            raise GraphError("a PAG is made from a DAG and names of its variables")
        measured = [v for v, name in enumerate(dag.nodes) if name not in without]
        marks = pag_of(dag.arcs, measured, [dag.nodes.index(name) for name in chosen])
        return cls(tuple(dag.nodes[v] for v in measured), marks)


def graph_of_marks(nodes: Iterable[str], marks: Marks) -> PartialMixedGraph:
    """A `PAG` where marks are one; else a graph of which nothing is claimed."""
    own = PAG if is_pag(marks) else PartialMixedGraph
    return own(tuple(nodes), marks)
