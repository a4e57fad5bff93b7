"""A learnt partial ancestral graph: the causes that data tell of where some are unmeasured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import msgspec

from cipherdag.errors import GraphError
from cipherdag.findings.edge_table import ENDS, MARKED, PAG_EDGES
from cipherdag.findings.finding import Accuracy, Cells, Column, Table
from cipherdag.findings.graph_finding import (
    AnyGraph,
    GraphFinding,
    graph_tables,
    marked_edges,
)
from cipherdag.findings.graph_page import pag_sections
from cipherdag.findings.integration import DETAIL as INTEGRATED
from cipherdag.findings.integration import Integrated
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.metrics import PAGMetrics, compare_pags, require_graph
from cipherdag.graphs.pag import PAG, PartialMixedGraph

NO_EDGE = Column("no_edge", float, "The share of replicates that do not join the two.")


@dataclass(frozen=True, kw_only=True)
class LearntPAG(GraphFinding[PartialMixedGraph]):
    """A learnt partial ancestral graph, which allows unmeasured causes, and its evidence.

    Attributes:
        graph: The `PAG`, with the columns' names; with knowledge, search ``rfci`` or sites that
            lack variables it may be marks of which nothing more is claimed.
        evidence: What speaks for the edges, as far as it was opened.
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
