"""Graphs whose edges are directed or undirected, as in a DAG, a CPDAG or an MPDAG."""

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
from cipherdag.graphs.dags import matrix_of
from cipherdag.graphs.drawing import figure, picture
from cipherdag.graphs.edges import Mark, Pair
from cipherdag.graphs.endpoints import endpoints_of
from cipherdag.graphs.equivalence import Pattern
from cipherdag.graphs.extension import cyclic_arrows, topological_order
from cipherdag.graphs.identification import query
from cipherdag.graphs.identification.maximal import (
    check_cpdag,
    is_completed,
    maximal_pattern,
    some_member,
    with_constraints,
)
from cipherdag.graphs.knowledge import Knowledge
from cipherdag.graphs.mixed_graph import MixedGraph
from cipherdag.graphs.orientation import cpdag_of
from cipherdag.pages.files import from_json


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A graph as JSON has it."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str, str], ...]
    kind: str = ""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CausalGraph(MixedGraph):
    """A graph with directed and undirected edges: a DAG, or of which nothing is claimed.

    Equal CPDAGs are the same Markov equivalence class. Make a graph by `from_edges`,
    `from_arcs` or `from_csv`.

    Attributes:
        arcs: Read-only, shape (p, p): ``arcs[i, j]`` is True where nodes[i] --> nodes[j] or
            nodes[i] --- nodes[j], so an undirected edge stands both ways.

    Raises:
        GraphError: As of a `MixedGraph`, or an edge is neither directed nor undirected.
    """

    meanings: ClassVar[Mapping[Mark, str]] = {
        "-->": "{0} causes {1}",
        "---": "{0} and {1}, direction not determined",
    }
    one_way: ClassVar[Mark] = "-->"
    undetermined: ClassVar[Mark] = "---"

    def __post_init__(self) -> None:
        MixedGraph.__post_init__(self)
        if (endpoints_of(self.arcs) != self.endpoints).any():
            raise GraphError(
                "an edge is neither directed nor undirected",
                remedy="Make graphs of a matrix of arcs with `from_arcs`; one of other marks is a "
                "PartialMixedGraph.",
            )

    @classmethod
    def from_arcs(cls, nodes: Iterable[str], matrix: ArrayLike) -> Self:
        """A graph from its matrix `arcs`, which is copied; see the class for its meaning."""
        return cls(tuple(nodes), endpoints_of(matrix))

    @classmethod
    def from_edges(
        cls, nodes: Iterable[str], directed: Iterable[Pair] = (), undirected: Iterable[Pair] = ()
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
        arrows = [(cause, effect, "-->") for cause, effect in directed]
        return cls.from_marked(nodes, [*arrows, *((a, b, "---") for a, b in undirected)])

    @classmethod
    def empty(cls, nodes: Iterable[str]) -> Self:
        """A graph without edges."""
        return cls.from_marked(nodes, ())

    @classmethod
    def loads(cls, text: str) -> Self:
        """What `dumps` wrote, as the kind of graph that it says to be, or a GraphError."""
        try:
            read = from_json(text, _Written)
        except ValueError as error:
            raise GraphError(
                "a graph is no JSON of nodes and edges",
                remedy="Give the text that `dumps` of a graph wrote.",
            ) from error
        written = kind_named(read.kind)
        return (written if issubclass(written, cls) else cls).from_marked(read.nodes, read.edges)

    def dumps(self) -> str:
        """The graph and its kind as JSON, those variables included that have no edge."""
        edges = tuple((edge.source, edge.target, edge.mark) for edge in self.edges)
        return msgspec.json.encode(_Written(self.nodes, edges, self.kind)).decode()

    @property
    def directed(self) -> tuple[Pair, ...]:
        """(cause, effect) of every directed edge, sorted."""
        return tuple((edge.source, edge.target) for edge in self.edges if not edge.symmetric)

    @property
    def undirected(self) -> tuple[Pair, ...]:
        """Every undirected edge once, the name that sorts first in front, sorted."""
        return tuple((edge.source, edge.target) for edge in self.edges if edge.symmetric)

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
        """This graph with every arrow that lies on a directed cycle made undirected."""
        return CausalGraph.from_arcs(self.nodes, self.arcs | cyclic_arrows(self.arcs).T)

    def to_cpdag(self) -> CPDAG:
        """The CPDAG of this DAG, by Meek's rules from its unshielded colliders; or a GraphError."""
        return CPDAG.from_arcs(self.nodes, cpdag_of(self.arcs))

    def to_dag(self) -> CausalGraph:
        """A DAG with these edges, these arrows and no other unshielded collider.

        Of a CPDAG or an MPDAG it is some DAG of the class; `finding.dag` is the one that was
        learnt.

        Raises:
            GraphError: There is no such DAG.
        """
        dag = some_member(Pattern.of_arcs(self.arcs))
        return CausalGraph.from_arcs(self.nodes, matrix_of(dag))

    def with_knowledge(self, knowledge: Knowledge) -> MPDAG:
        """This CPDAG with background knowledge of its edges, and all directions that follow.

        Without knowledge, the graph with the directions that follow from its directed edges.

        Raises:
            ParameterError: The knowledge has a name that this graph lacks, or contradicts itself.
            GraphError: This graph contradicts it, or stands for no DAG.
        """
        constraints = knowledge.over(self.nodes)
        arcs = with_constraints(self.nodes, self.arcs, constraints)
        return MPDAG.from_arcs(self.nodes, arcs)

    def to_numpy(self) -> NDArray[np.int8]:
        """A copy of `arcs` in 0 and 1, shape (p, p).

        [i, j] is 1 where nodes[i] --> nodes[j] or nodes[i] --- nodes[j]: a directed edge has one 1,
        an undirected edge has two. Rows are causes, columns effects.
        """
        return self.arcs.astype(np.int8)

    to_networkx = exports.to_networkx
    to_dowhy = exports.to_dowhy
    to_pgmpy = exports.to_pgmpy
    to_causallearn = exports.to_causallearn
    to_graphml = exports.to_graphml
    to_gml = exports.to_gml
    to_dot = exports.to_dot
    to_dagitty = exports.to_dagitty
    to_bnlearn = exports.to_bnlearn
    to_pcalg = exports.to_pcalg
    to_csv = exports.to_csv
    identify = query.identify
    implied_independences = query.implied_independences
    is_adjustment_set = query.is_adjustment_set
    d_separated = query.d_separated
    plot = figure.plot
    _repr_html_ = picture.notebook_html

    def __repr__(self) -> str:
        directed, undirected = len(self.directed), len(self.undirected)
        size = f"{len(self.nodes)} nodes, {directed} directed and {undirected} undirected edges"
        return f"<{type(self).__name__}: {size}>"


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
        check_cpdag(self.nodes, self.arcs)

    @property
    def kind(self) -> str:
        """``cpdag``."""
        return "cpdag"


def kind_named(kind: str) -> type[CausalGraph]:
    """The type of graphs of a kind: `CPDAG`, `MPDAG`, or else `CausalGraph`."""
    return {"cpdag": CPDAG, "mpdag": MPDAG}.get(kind, CausalGraph)


def class_of_dags(nodes: Iterable[str], arcs: BoolMatrix) -> MPDAG:
    """The class of DAGs that a matrix is, a `CPDAG` or else an `MPDAG`; or raises GraphError."""
    return (CPDAG if is_completed(arcs) else MPDAG).from_arcs(nodes, arcs)
