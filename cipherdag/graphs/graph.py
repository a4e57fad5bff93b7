"""Causal graphs over named variables: directed and undirected edges, as in a DAG or a CPDAG.

CausalGraph     any graph of such edges; nothing more is claimed of it
  MPDAG         stands for a class of DAGs that background knowledge narrows (Meek, 1995)
    CPDAG       stands for a Markov equivalence class of DAGs
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs import exports
from cipherdag.graphs.drawing import figure, notebook
from cipherdag.graphs.edges import Edge, Mark, Pair, listed, writable
from cipherdag.graphs.extension import checked, cyclic_arrows, topological_order
from cipherdag.graphs.identification import implied, query
from cipherdag.graphs.identification.maximal import (
    checked_class,
    directed_further,
    is_completed,
    maximal_pattern,
)
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.graphs.orientation import cpdag_of


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A graph as JSON has it."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str, str], ...]
    kind: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CausalGraph:
    """A graph with directed and undirected edges: a DAG, or of which nothing is claimed.

    Two graphs are equal if they have the same names and the same edges, in whatever order the names
    stand. As CPDAGs, equal graphs are the same Markov equivalence class.

    Attributes:
        nodes: Names of the p variables, all different, not empty, without control characters.
        arcs: Read-only, shape (p, p): ``arcs[i, j]`` is True where nodes[i] --> nodes[j] or
            nodes[i] --- nodes[j], so an undirected edge stands both ways.

    Raises:
        GraphError: A name is repeated or cannot be written, or the matrix is no graph over the
            names.
    """

    between: ClassVar[tuple[Mark, Mark]] = ("-->", "---")

    nodes: tuple[str, ...]
    arcs: BoolMatrix

    def __post_init__(self) -> None:
        arcs = checked(self.arcs)
        arcs.setflags(write=False)
        object.__setattr__(self, "nodes", writable(self.nodes, len(arcs)))
        object.__setattr__(self, "arcs", arcs)

    @classmethod
    def from_arcs(cls, nodes: Iterable[str], matrix: ArrayLike) -> Self:
        """A graph from its matrix, which is copied; see the class for its meaning."""
        return cls(tuple(nodes), np.array(matrix, dtype=np.bool_))

    @classmethod
    def from_edges(
        cls,
        nodes: Iterable[str],
        directed: Iterable[Pair] = (),
        undirected: Iterable[Pair] = (),
    ) -> Self:
        """A graph from pairs of names.

        Args:
            nodes: All names, those without an edge included.
            directed: (cause, effect) pairs.
            undirected: Pairs in either order.

        Raises:
            GraphError: An edge has an unknown name, joins a variable to itself, or joins a pair
                that already has an edge.
        """
        names = tuple(nodes)
        position = {name: index for index, name in enumerate(names)}
        arcs = np.zeros((len(names), len(names)), dtype=np.bool_)
        both = ((directed, False), (undirected, True))
        for (a, b), either_way in ((pair, way) for pairs, way in both for pair in pairs):
            if missing := [name for name in (a, b) if name not in position]:
                raise GraphError(f"an edge names a variable that is not there: {listed(missing)}")
            i, j = position[a], position[b]
            if i == j:
                raise GraphError(f"an edge joins '{a}' to itself")
            if arcs[i, j] or arcs[j, i]:
                raise GraphError(f"'{a}' and '{b}' are joined by two edges")
            arcs[i, j] = True
            arcs[j, i] = either_way
        return cls(names, arcs)

    @classmethod
    def empty(cls, nodes: Iterable[str]) -> Self:
        """A graph without edges."""
        return cls.from_edges(nodes)

    @classmethod
    def from_marked(cls, nodes: Iterable[str], edges: Iterable[tuple[str, str, str]]) -> Self:
        """A graph from (source, target, mark) triples; a mark is ``-->`` or ``---``.

        Raises:
            GraphError: Another mark, or as in `from_edges`.
        """
        pairs: dict[str, list[Pair]] = {mark: [] for mark in exports.MARKS}
        for source, target, mark in edges:
            if mark not in pairs:
                raise GraphError(f"an edge has the mark {mark!r}, not {' or '.join(exports.MARKS)}")
            pairs[mark].append((source, target))
        return cls.from_edges(nodes, directed=pairs["-->"], undirected=pairs["---"])

    @classmethod
    def from_csv(cls, text: str, *, nodes: Iterable[str] | None = None) -> Self:
        """Read a CSV of edges; see `cipherdag.graphs.exports.edges_from_csv`."""
        known = None if nodes is None else tuple(nodes)
        edges = exports.edges_from_csv(text, nodes=known)
        if known is None:
            known = tuple(sorted({name for edge in edges for name in edge[:2]}))
        return cls.from_marked(known, edges)

    @classmethod
    def loads(cls, text: str) -> Self:
        """Read what `dumps` wrote, as the kind of graph that it says to be.

        Raises:
            GraphError: It is something else, or not of that kind.
        """
        try:
            read = msgspec.json.decode(text, type=_Written)
        except (msgspec.DecodeError, RecursionError) as error:
            raise GraphError("a graph is no JSON of nodes and edges") from error
        own = kind_named(read.kind)
        return (own if issubclass(own, cls) else cls).from_marked(read.nodes, read.edges)

    def dumps(self) -> str:
        """The graph and its kind as JSON, those variables included that have no edge."""
        edges = tuple((edge.source, edge.target, edge.mark) for edge in self.edges)
        return msgspec.json.encode(_Written(self.nodes, edges, self.kind)).decode()

    @property
    def directed(self) -> tuple[Pair, ...]:
        """(cause, effect) of every directed edge, sorted."""
        return tuple(sorted(self._pairs(self.arcs & ~self.arcs.T)))

    @property
    def undirected(self) -> tuple[Pair, ...]:
        """Every undirected edge once, the name that sorts first in front, sorted."""
        pairs = self._pairs(np.triu(self.arcs & self.arcs.T))
        return tuple(sorted((min(a, b), max(a, b)) for a, b in pairs))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every edge once, sorted by source, then target."""
        directed = [Edge(a, b, "-->") for a, b in self.directed]
        return tuple(sorted([*directed, *(Edge(a, b, "---") for a, b in self.undirected)]))

    @property
    def is_acyclic(self) -> bool:
        """Whether the directed edges form no directed cycle."""
        return topological_order(self.arcs & ~self.arcs.T) is not None

    @property
    def is_dag(self) -> bool:
        """Whether every edge is directed and none lies on a cycle."""
        return not (self.arcs & self.arcs.T).any() and self.is_acyclic

    @property
    def kind(self) -> str:
        """``cpdag`` and ``mpdag`` by type; else ``dag``, or ``pdag``: nothing is claimed of it."""
        return "dag" if self.is_dag else "pdag"

    def with_edges(
        self, nodes: Iterable[str], edges: Iterable[tuple[str, str, str]]
    ) -> CausalGraph:
        """A graph with other edges, of which nothing is claimed; see `from_marked`."""
        return CausalGraph.from_marked(nodes, edges)

    def without_cycles(self) -> CausalGraph:
        """The same, where arrows of a directed cycle are edges without a direction."""
        return CausalGraph(self.nodes, self.arcs | cyclic_arrows(self.arcs).T)

    def skeleton(self) -> BoolMatrix:
        """Symmetric adjacency, shape (p, p)."""
        return self.arcs | self.arcs.T

    def says(self, edge: Edge) -> str:
        """What an edge says of its variables, in words."""
        if edge.mark == "-->":
            return f"{edge.source} causes {edge.target}"
        return f"{edge.source} and {edge.target}, direction not determined"

    def relabel(self, mapping: Mapping[str, str]) -> Self:
        """The same graph under other names; names that the mapping lacks stay.

        Raises:
            GraphError: The mapping has a name that is not there, or two variables get one name.
        """
        if missing := sorted(set(mapping) - set(self.nodes)):
            raise GraphError(f"a variable to rename is not there: {listed(missing)}")
        return type(self)(tuple(mapping.get(name, name) for name in self.nodes), self.arcs)

    def to_cpdag(self) -> CPDAG:
        """The CPDAG of this DAG: unshielded colliders, completed by Meek's rules.

        Raises:
            GraphError: This is no DAG.
        """
        return CPDAG(self.nodes, cpdag_of(self.arcs))

    def with_knowledge(self, knowledge: Knowledge) -> MPDAG:
        """This CPDAG with what is known of its edges, and all directions that follow.

        Without knowledge, the graph with the directions that follow from its directed edges.

        Args:
            knowledge: Forbidden and required edges and tiers, by name.

        Raises:
            ParameterError: The knowledge names no variable of this graph or contradicts itself.
            GraphError: This graph contradicts it, or stands for no DAG.
        """
        known = knowledge.over(self.nodes)
        return MPDAG(self.nodes, directed_further(self.nodes, self.arcs, known))

    def to_numpy(self) -> NDArray[np.int8]:
        """A copy of `arcs` in 0 and 1, shape (p, p).

        [i, j] is 1 where nodes[i] --> nodes[j] or nodes[i] --- nodes[j]: a directed edge has one 1,
        an undirected edge has two. Rows are causes, columns effects.
        """
        return self.arcs.astype(np.int8)

    to_networkx = exports.to_networkx
    to_graphml = exports.to_graphml
    to_gml = exports.to_gml
    to_dot = exports.to_dot
    to_dagitty = exports.to_dagitty
    to_csv = exports.to_csv
    identify = query.identify
    implied_independences = implied.implied_independences
    is_adjustment_set = query.is_adjustment_set
    d_separated = query.d_separated
    plot = figure.plot
    _repr_html_ = notebook.notebook_html

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CausalGraph):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __str__(self) -> str:
        return "\n".join(str(edge) for edge in self.edges)

    def __repr__(self) -> str:
        directed, undirected = len(self.directed), len(self.undirected)
        size = f"{len(self.nodes)} nodes, {directed} directed and {undirected} undirected edges"
        return f"<{type(self).__name__}: {size}>"

    def _content(self) -> tuple[frozenset[str], frozenset[Edge]]:
        return frozenset(self.nodes), frozenset(self.edges)

    def _pairs(self, matrix: BoolMatrix) -> list[Pair]:
        return [(self.nodes[i], self.nodes[j]) for i, j in np.argwhere(matrix)]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MPDAG(CausalGraph):
    """A maximal PDAG: the class of all DAGs with its skeleton, arrows and unshielded colliders.

    A CPDAG that background knowledge directs further is one (Meek, 1995; Perkovic, Kalisch and
    Maathuis, 2017): every edge without an arrow has either direction in some DAG of the class.

    Raises:
        GraphError: As of a `CausalGraph`; the arrows form a cycle, the graph stands for no DAG, or
            an edge has no arrow though the others direct it. The message names the variables.
    """

    def __post_init__(self) -> None:
        CausalGraph.__post_init__(self)
        self._check()

    def _check(self) -> None:
        maximal_pattern(self.nodes, self.arcs)

    @property
    def kind(self) -> str:
        """``mpdag``."""
        return "mpdag"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CPDAG(MPDAG):
    """A completed PDAG: a Markov equivalence class of DAGs (Andersson, Madigan, Perlman, 1997).

    Raises:
        GraphError: As of an `MPDAG`, or an arrow stands that some DAG of the class turns round.
    """

    def _check(self) -> None:
        checked_class(self.nodes, self.arcs)

    @property
    def kind(self) -> str:
        """``cpdag``."""
        return "cpdag"


def kind_named(kind: str) -> type[CausalGraph]:
    """The type of graphs of a kind; of others than ``cpdag`` and ``mpdag`` a `CausalGraph`."""
    return {"cpdag": CPDAG, "mpdag": MPDAG}.get(kind, CausalGraph)


def class_of_dags(nodes: Iterable[str], arcs: BoolMatrix) -> MPDAG:
    """The class of DAGs that a matrix is: a `CPDAG`, or else an `MPDAG`.

    Raises:
        GraphError: It is neither.
    """
    own = CPDAG if is_completed(arcs) else MPDAG
    return own.from_arcs(nodes, arcs)
