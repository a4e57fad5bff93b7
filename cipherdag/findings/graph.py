"""The graphs of causes that algorithms learn: of directed and undirected edges, or a PAG."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.findings.edge_table import (
    EDGES,
    ENDS,
    MARKED,
    PAG_EDGES,
    REPLICATED,
    Difference,
    edge_differences,
    edge_rows,
)
from cipherdag.findings.finding import Accuracy, Cells, Column, Table
from cipherdag.findings.graph_finding import (
    AnyGraph,
    GraphFinding,
    graph_tables,
    marked_edges,
    saved_edge,
)
from cipherdag.findings.graph_page import graph_sections, pag_sections
from cipherdag.findings.integration import DETAIL as INTEGRATED
from cipherdag.findings.integration import Integrated
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.graphs.graph import CPDAG, CausalGraph, class_of_dags, kind_named
from cipherdag.graphs.identification.maximal import is_completed
from cipherdag.graphs.metrics import GraphMetrics, PAGMetrics, compare, compare_pags, require_graph
from cipherdag.graphs.pag import PAG, PartialMixedGraph


@dataclass(frozen=True, kw_only=True)
class LearntGraph(GraphFinding[CausalGraph]):
    """A causal graph and the evidence for it.

    Attributes:
        graph: A `CPDAG`, with knowledge an `MPDAG`, or where the data tell more a DAG, with the
            columns' names; any edges by FedPC's reference ``code``.
        dag: A DAG of the class that the CPDAG stands for cyclic but by FedPC's reference
            ``code``, whose program does not look.
        dag_note: Empty, or what tests say that no DAG has, or that there is a cycle.
        evidence: The evidence for the edges, as far as it was disclosed.
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

        Matrices have shape (p, p). With knowledge its CPDAG is the maximal PDAG that it is in. Open
        edges, of which it is open whether they are there, have no direction; where the class gives
        them one, no class is claimed of the graph. ``more`` are note, evidence and details.

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
    def replicates(self) -> tuple[CausalGraph, ...]:
        """The graph of every bootstrap replicate; none without replicates, or of an old result."""
        return () if self.confidences is None else self.confidences.graphs(self.graph)

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

    def _cause_rows(self) -> Cells:
        if self.sample is None:
            return []
        return [
            (self.graph.nodes[x], self.graph.nodes[z], float(share))
            for (x, z), share in np.ndenumerate(self.sample.causes)
            if x != z
        ]

    tables = graph_tables(
        EDGES,
        Table(
            name="causes",
            doc="One row per ordered pair of variables; no row where no graphs were drawn.",
            columns=(
                Column("from", str, "The variable that may be the cause."),
                Column("to", str, "The variable that may be its effect."),
                Column("share", float, "The share of graphs with a directed path between them."),
            ),
            rows=_cause_rows,
            saved="with rows",
        ),
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


NO_EDGE = Column("no_edge", float, "The share of replicates that do not join the two.")


@dataclass(frozen=True, kw_only=True)
class LearntPAG(GraphFinding[PartialMixedGraph]):
    """A learnt partial ancestral graph, which allows unmeasured causes, and its evidence.

    Attributes:
        graph: The `PAG`, with the columns' names; with knowledge, search ``rfci`` or sites that
            lack variables it may be marks of which nothing more is claimed.
        evidence: What speaks for the edges, as far as it was disclosed.
        details: What else the algorithm found.
    """

    kind: ClassVar[str] = "pag"
    compared_as: ClassVar[str] = "PAGs"
    promise: ClassVar[str] = (
        "a graph that says which of the study's variables probably cause which, and which "
        "may share a cause that nobody measured."
    )

    graph: PartialMixedGraph

    @property
    def decisions(self) -> bytes:
        return msgspec.json.encode(sorted(map(str, self.graph.edges)))

    @property
    def fitting(self) -> tuple[PAG, ...]:
        """The graphs that fit what every group of sites tells, as far as they were found.

        Empty without ``FedFCI(search="integrate")``, or where none fits. The details say whether
        they are all.
        """
        integrated = self.details.get(INTEGRATED)
        return () if integrated is None else Integrated(integrated).graphs(self.graph.nodes)

    def metrics(self, truth: PartialMixedGraph | CausalGraph) -> PAGMetrics:
        """Compare the graph with a true PAG over the same names, or with that of a true DAG.

        Variables that only the DAG has are taken for unmeasured.
        """
        if isinstance(truth, CausalGraph):
            truth = PAG.from_dag(truth, set(truth.nodes) - set(self.graph.nodes))
        require_graph(truth)
        return compare_pags(self.graph, truth)

    def distance_to(self, other: AnyGraph) -> PAGMetrics:
        require_graph(other)
        if not isinstance(other, PartialMixedGraph):
            raise GraphError(
                "the other graph is no PAG, and marks of the two say different things",
                remedy="Compare it with another result of FedFCI, or with a CSV of a PAG's edges.",
            )
        return self.metrics(other)

    def sections(self, truth: CausalGraph | None) -> dict[str, Any]:
        against = None if truth is None else self.metrics(truth)
        return pag_sections(self) | {"metrics": {}, "against": against}

    def accuracy(self, truth: CausalGraph) -> Accuracy:
        metrics = self.metrics(truth)
        return Accuracy({"metrics": asdict(metrics)}, ("", f"Against the truth: {metrics}"))

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Self:
        kind = PAG if report.get("graph_kind") == "pag" else PartialMixedGraph
        return cls(
            graph=kind.from_marked(tuple(report["variables"]), marked_edges(report["edges"])),
            evidence=msgspec.convert(report["evidence"], GraphEvidence),
            details=report.get("details", {}),
        )

    def _confidence_rows(self) -> Cells:
        """The shares of every pair; None of an edge that stands since tests were not done."""
        if self.confidences is None:
            return []
        unsupported = {frozenset((edge.source, edge.target)) for edge in self.evidence.unsupported}
        return [
            (a, b, mark, *(None,) * (1 + len(ENDS)))
            if {a, b} in unsupported
            else (a, b, mark, 1.0 - counts.any_edge, *counts.end_shares)
            for a, b, mark, counts in self.confidences.pairs(self.graph)
        ]

    tables = graph_tables(
        PAG_EDGES,
        Table(
            name="confidence",
            doc="One row per pair with an edge, here or in a replicate, and the marks at its ends "
            "in replicates; no row without replicates. All shares are NaN where the edge stands "
            "since tests were not done.",
            columns=(*MARKED, NO_EDGE, *ENDS),
            rows=_confidence_rows,
            saved="never",
        ),
    )
