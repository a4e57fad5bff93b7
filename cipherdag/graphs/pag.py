"""Partial ancestral graphs: what data tell where causes may be unmeasured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cipherdag.errors import GraphError
from cipherdag.graphs import exports
from cipherdag.graphs.ancestral.classes import check_pag, is_pag, pag_of_dag
from cipherdag.graphs.drawing import figure, picture
from cipherdag.graphs.edges import Mark
from cipherdag.graphs.endpoints import Endpoints
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.mixed_graph import MixedGraph


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartialMixedGraph(MixedGraph):
    """A graph with a tail, an arrowhead or a circle at each end of an edge; nothing is claimed.

    ``A *-> B``: B is no cause of A. ``A --* B``: A is a cause of B, perhaps through others, or of a
    selection variable, where there may be one. A circle: in some graphs that data cannot tell from
    one another it is a tail, in others an arrowhead. Two variables with an edge stay dependent
    given any of the others. Attributes and errors are those of a `MixedGraph`.

    Source: Zhang, Artificial Intelligence 172 (2008), section 2.
    """

    meanings: ClassVar[Mapping[Mark, str]] = {
        "-->": "{0} is a cause of {1}, perhaps through others",
        "<->": "neither causes the other: {0} and {1} share an unmeasured cause",
        "o->": "{1} is no cause of {0}: {0} causes it, or they share an unmeasured cause",
        "o-o": "{0} and {1}: which causes which, or an unmeasured cause of both, is not determined",
        "---": "{0} and {1}: each causes the other or what rows were selected by",
        "o--": "{1} causes {0} or what rows were selected by; the other end is not determined",
    }
    one_way: ClassVar[Mark] = "o->"
    undetermined: ClassVar[Mark] = "o-o"

    def with_edges(
        self, nodes: Iterable[str], edges: Iterable[tuple[str, str, str]]
    ) -> PartialMixedGraph:
        """A graph with other edges, of which nothing is claimed; see `from_marked`."""
        return PartialMixedGraph.from_marked(nodes, edges)

    @property
    def kind(self) -> str:
        """``pag`` by type; else ``pmg``: nothing is claimed of it."""
        return "pmg"

    def to_numpy(self) -> NDArray[np.int8]:
        """A copy of `endpoints`, shape (p, p)."""
        return self.endpoints.copy()

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
    plot = figure.plot
    _repr_html_ = picture.notebook_html


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PAG(PartialMixedGraph):
    """A partial ancestral graph: what all graphs of a Markov equivalence class have in common.

    Raises:
        GraphError: As of a `MixedGraph`, or no maximal ancestral graph's class has exactly these
            marks; the message names an edge.

    Source: Zhang, Artificial Intelligence 172 (2008), section 3.
    """

    def __post_init__(self) -> None:
        PartialMixedGraph.__post_init__(self)
        check_pag(self.nodes, self.endpoints)

    @property
    def kind(self) -> str:
        """``pag``."""
        return "pag"

    @classmethod
    def from_dag(
        cls, dag: CausalGraph, unmeasured: Iterable[str], selected: Iterable[str] = ()
    ) -> Self:
        """What unlimited data of some variables of a DAG tell of it.

        There are no data of the unmeasured; nor of the selected, which decide what rows there are.

        Raises:
            GraphError: It is no DAG, or has no such variable.
        """
        chosen = tuple(selected)
        without = {*unmeasured, *chosen}
        if not dag.is_dag or without - set(dag.nodes):
            raise GraphError("a PAG is made from a DAG and names of its variables")
        measured = [v for v, name in enumerate(dag.nodes) if name not in without]
        endpoints = pag_of_dag(dag.arcs, measured, [dag.nodes.index(name) for name in chosen])
        return cls(tuple(dag.nodes[v] for v in measured), endpoints)


def graph_of_endpoints(nodes: Iterable[str], endpoints: Endpoints) -> PartialMixedGraph:
    """A `PAG` if the marks are those of one; else a graph of which nothing is claimed."""
    return (PAG if is_pag(endpoints) else PartialMixedGraph)(tuple(nodes), endpoints)
