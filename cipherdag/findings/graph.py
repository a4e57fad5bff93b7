"""The graph of causes that most algorithms learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import msgspec

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.findings.edge_table import (
    EDGES,
    MARKED,
    REPLICATED,
    Difference,
    edge_differences,
    edge_rows,
)
from cipherdag.findings.finding import Accuracy, Cells, Table
from cipherdag.findings.graph_finding import (
    AnyGraph,
    GraphFinding,
    graph_tables,
    marked_edges,
    saved_edge,
)
from cipherdag.findings.graph_page import graph_sections
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.graphs.graph import CPDAG, CausalGraph, class_of_dags, kind_named
from cipherdag.graphs.identification.maximal import is_completed
from cipherdag.graphs.metrics import GraphMetrics, compare, require_graph


@dataclass(frozen=True, kw_only=True)
class LearntGraph(GraphFinding[CausalGraph]):
    """A causal graph and the evidence for it.

    Attributes:
        graph: A `CPDAG`, with knowledge an `MPDAG`, or where the data tell more a DAG, with the
            columns' names; any edges by FedPC's reference ``code``.
        dag: A DAG of the class that the CPDAG stands for cyclic but by FedPC's reference
            ``code``, whose program does not look.
        dag_note: Empty, or what tests say that no DAG has, or that there is a cycle.
        evidence: The evidence for the edges, as far as it was opened.
        details: What else the algorithm found, such as RFcd's worst-case regret.
    """

    kind: ClassVar[str] = "graph"
    compared_as: ClassVar[str] = "CPDAGs"
    promise: ClassVar[str] = (
        "a graph that says which of the study's variables probably cause which."
    )

    graph: CausalGraph
    dag: CausalGraph
    dag_note: str = ""

    @property
    def decisions(self) -> bytes:
        return msgspec.json.encode(
            [sorted(map(str, graph.edges)) for graph in (self.graph, self.dag)]
        )

    @classmethod
    def of_dag(
        cls,
        names: Sequence[str],
        arcs: BoolMatrix,
        *,
        cpdag: BoolMatrix | None = None,
        open_edges: BoolMatrix | None = None,
        **more: Any,
    ) -> Self:
        """Make the finding from a DAG.

        Pass its CPDAG too where the data cannot distinguish the members of its equivalence class.

        Args:
            names: The variables.
            arcs: The DAG, shape (p, p).
            cpdag: Its CPDAG, or with knowledge the maximal PDAG that it is in, shape (p, p).
            open_edges: Edges of which it is open whether they are there, shape (p, p): they have no
                direction, and where the class gives them one, no class is claimed of the graph.
            more: Note, evidence and details.

        Raises:
            GraphError: The class is none.
        """
        dag = CausalGraph.from_arcs(names, arcs)
        graph = dag if cpdag is None else class_of_dags(names, cpdag)
        if cpdag is not None and open_edges is not None and (open_edges & ~cpdag).any():
            graph = CausalGraph.from_arcs(names, cpdag | open_edges)
        return cls(graph=graph, dag=dag, **more)

    def metrics(self, truth: CausalGraph) -> GraphMetrics:
        """Compare the DAG with a true DAG over the same names (FedPC, section 4.1.2)."""
        require_graph(truth)
        return compare(self.dag, truth)

    def metrics_cpdag(self, truth: CausalGraph) -> GraphMetrics:
        """Compare the CPDAG with the CPDAG of a true DAG."""
        require_graph(truth)
        return compare(_as_cpdag(self.graph), truth.to_cpdag())

    def distance_to(self, other: AnyGraph) -> GraphMetrics:
        require_graph(other)
        if not isinstance(other, CausalGraph):
            raise GraphError(
                "the other graph is a PAG, and marks of the two say different things",
                remedy="Compare it with a graph of another algorithm than FedFCI.",
            )
        return compare(_as_cpdag(self.graph), _as_cpdag(other))

    def differences_to(self, other: AnyGraph) -> list[Difference]:
        there = _as_cpdag(other) if isinstance(other, CausalGraph) else other
        return edge_differences(_as_cpdag(self.graph), there)

    @property
    def _notes(self) -> tuple[str, ...]:
        return (self.dag_note,) if self.dag_note else ()

    def sections(self, truth: CausalGraph | None) -> dict[str, Any]:
        metrics = {}
        if truth is not None:
            metrics = {"as a CPDAG": self.metrics_cpdag(truth), "as a DAG": self.metrics(truth)}
        return graph_sections(self, truth) | {"metrics": metrics, "against": None}

    def accuracy(self, truth: CausalGraph) -> Accuracy:
        as_dag, as_cpdag = self.metrics(truth), self.metrics_cpdag(truth)
        return Accuracy(
            {"metrics": asdict(as_dag), "metrics_cpdag": asdict(as_cpdag)},
            (
                "",
                f"Against the truth: {as_dag}  (as a DAG)",
                f"                   {as_cpdag}  (as a CPDAG)",
            ),
        )

    def to_json(self, identifiers: Mapping[str, str]) -> dict[str, Any]:
        return super().to_json(identifiers) | {
            "dag_edges": [saved_edge(edge, identifiers) for edge in self.dag.edges],
            "dag_note": self.dag_note,
        }

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Self:
        nodes = tuple(report["variables"])
        return cls(
            graph=_saved_graph(nodes, report),
            dag=CausalGraph.from_marked(nodes, marked_edges(report["dag_edges"])),
            dag_note=report["dag_note"],
            evidence=msgspec.convert(report["evidence"], GraphEvidence),
            details=report.get("details", {}),
        )

    def _confidence_rows(self) -> Cells:
        if self.confidences is None:
            return []
        return edge_rows((*MARKED, *REPLICATED), self.graph, self.evidence, self.confidences)

    tables = graph_tables(
        EDGES,
        Table(
            name="confidence",
            doc="One row per edge with its share of replicates; no row without replicates. Both "
            "shares are NaN where the edge stands since tests were not done.",
            columns=(*MARKED, *REPLICATED),
            rows=_confidence_rows,
            saved="never",
        ),
    )


def _saved_graph(nodes: tuple[str, ...], report: Mapping[str, Any]) -> CausalGraph:
    """Read the graph as the kind it was saved as.

    Files of earlier versions name none, and are read as a CPDAG where they are one.

    Raises:
        GraphError: It is none of that kind.
    """
    graph = CausalGraph.from_marked(nodes, marked_edges(report["edges"]))
    if "graph_kind" in report:
        return kind_named(report["graph_kind"]).from_arcs(nodes, graph.arcs)
    return CPDAG(nodes, graph.endpoints) if is_completed(graph.arcs) and not graph.is_dag else graph


def _as_cpdag(graph: CausalGraph) -> CausalGraph:
    """The CPDAG of a DAG, and another graph as it is."""
    return graph.to_cpdag() if graph.is_dag else graph
