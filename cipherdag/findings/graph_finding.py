"""What all learnt graphs have in common: their tables, their drawing and their evidence."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from cipherdag.errors import OutputError, ParameterError
from cipherdag.findings.confidence import CONSENSUS, Confidences, EdgeCounts
from cipherdag.findings.doubts import COMPARED, DIFFERING, row_warnings
from cipherdag.findings.edge_table import (
    DIFFERENCES,
    SEPARATIONS,
    WHAT_HELPS,
    Difference,
    edge_columns,
    edge_differences,
    edge_lines,
    edge_rows,
    separation_rows,
    why,
)
from cipherdag.findings.finding import Column, Finding, Report, Table, plain, shortened
from cipherdag.graphs.drawing.figure import draw
from cipherdag.graphs.edge_evidence import FOLLOWS, EdgeEvidence, GraphEvidence
from cipherdag.graphs.edges import Edge
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.metrics import GraphMetrics, PAGMetrics
from cipherdag.graphs.pag import PartialMixedGraph
from cipherdag.pages.numerals import counted, share_shown

if TYPE_CHECKING:
    import pandas as pd

CHECK = (
    "Test the graph on rows that did not make it: cipherdag run graphcheck FILES --graph FOLDER, "
    "where FOLDER is that of this report."
)
CLASSES = {
    "dag": "DAG",
    "cpdag": "CPDAG",
    "mpdag": "MPDAG: a CPDAG that background knowledge directs further",
    "pdag": "directed in part",
    "pag": "PAG",
    "pmg": "marks of a PAG, as far as they are determined",
}
OPEN_ENDS = {
    "---": "An edge without an arrow has a direction in reality; these data and tests cannot tell "
    "which.",
    "o-o": "A circle at an end is an arrowhead or none in reality; these data and tests cannot "
    "tell which.",
}
"""What to know of edges with this mark, or one of its ends."""
IN_GRAPHS = (
    "Shares are of {n} graphs that fit these data. They hold if nothing unmeasured causes two of "
    "these variables, and if relations are straight lines."
)
ASK = (
    "Whether one causes another, and how strongly, over these graphs:",
    "  cipherdag effect FOLDER --of CAUSE --on OUTCOME    (FOLDER: where --out saved this run)",
    "What you know of time directs edges: run again with --tiers.",
)
LEAVE_OUT = (
    'Leave out columns that are computed from others (kind = "ignore"), unless your question needs '
    "them, and run again."
)
SAMPLE = "sample"  # where the details have the graphs of a `GraphSample`
log = logging.getLogger("cipherdag.result")
AnyGraph = CausalGraph | PartialMixedGraph
Graph_co = TypeVar("Graph_co", bound=AnyGraph, covariant=True)


@dataclass(frozen=True, kw_only=True)
class GraphFinding(Finding, Generic[Graph_co]):
    """A learnt graph; `LearntGraph` and `LearntPAG` are the kinds."""

    kind: ClassVar[str] = "graph"
    template: ClassVar[str] = "graph_run.html.j2"
    compared_as: ClassVar[str]  # the plural of what `distance_to` compares

    graph: Graph_co
    evidence: GraphEvidence = field(repr=False, default_factory=GraphEvidence)

    @property
    def graph_kind(self) -> str:
        """The class of the graph in a word or two, such as CPDAG."""
        return CLASSES[self.graph.kind]

    @abstractmethod
    def distance_to(self, other: AnyGraph) -> GraphMetrics | PAGMetrics:
        """The structural distance of this graph to another one over the same names.

        Raises:
            GraphError: The other one is of another kind, or has other names.
        """

    def differences_to(self, other: AnyGraph) -> list[Difference]:
        """The pairs of `edge_differences`, with the marks that `distance_to` compares."""
        return edge_differences(self.graph, other)

    def read_graph(self, file: Path) -> AnyGraph:
        """A CSV of edges as a graph over this one's variables, of which nothing more is claimed.

        Raises:
            GraphError: The file holds none.
        """
        text, nodes = file.read_text("utf-8"), self.graph.nodes
        if isinstance(self.graph, CausalGraph):
            return CausalGraph.from_csv(text, nodes=nodes)
        return PartialMixedGraph.from_csv(text, nodes=nodes)

    @property
    def headline(self) -> str:
        return counted(len(self.graph.edges), "edge")

    @property
    def edge_lines(self) -> list[str]:
        """Every edge, and why one stands that tests do not speak for."""
        reasons = {(edge.source, edge.target): why(edge) for edge in self.evidence.unsupported}
        edges = [(edge, reasons.get((edge.source, edge.target), "")) for edge in self.graph.edges]
        return [f"{edge}   {reason}" if reason else str(edge) for edge, reason in edges]

    def compare(self, other: GraphFinding[AnyGraph] | AnyGraph) -> pd.DataFrame:
        """This graph and another one, pair by pair; `distance_to` counts their differences.

        Returns:
            Columns ``from``, ``to``, ``here``, ``there`` (the marks, such as "-->", "<--" or "---",
            or "" where the two are not joined) and ``same``.
        """
        import pandas as pd

        there = other.graph if isinstance(other, GraphFinding) else other
        return pd.DataFrame(edge_differences(self.graph, there), columns=list(DIFFERENCES))

    @property
    def confidences(self) -> Confidences | None:
        """The shares of bootstrap replicates that have each edge; None without replicates."""
        counts = self.details.get("bootstrap")
        return None if counts is None else Confidences(counts)

    @cached_property
    def sample(self) -> GraphSample | None:
        """Graphs that fit the data, as FedBOSS draws them from numbers; None of other runs."""
        saved = self.details.get(SAMPLE)
        return None if saved is None else GraphSample.from_saved(self.graph.nodes, **saved)

    def with_sample(self, sample: GraphSample | None) -> Self:
        """This finding with a sample of graphs that fit the data; itself if there is none."""
        if sample is None:
            return self
        saved = {"n_graphs": len(sample), "text": sample.saved()}
        edges = tuple(_with_shares(edge, sample) for edge in self.evidence.edges)
        evidence = replace(self.evidence, edges=edges)
        return replace(self, evidence=evidence, details={**self.details, SAMPLE: saved})

    def consensus(self, threshold: float = CONSENSUS) -> Graph_co:
        """The edges and marks that at least ``threshold`` of the bootstrap replicates share.

        Args:
            threshold: Least share of the replicates that must have an edge for it to be kept, and
                a direction (in a PAG, the arrowhead or tail at an end) for it to be drawn; else
                the edge has no direction (the end is a circle).

        Returns:
            A graph that is directed in part, as a rule no CPDAG and no PAG. Edges of a directed
            cycle have no direction in it.

        Raises:
            ParameterError: There were no replicates, or the threshold is no share.
        """
        if (confidences := self.confidences) is None:
            raise ParameterError(
                "a consensus needs replicates",
                remedy="Run with bootstrap=20 or more; see docs/explanation/confidence.md.",
            )
        return cast(Graph_co, confidences.consensus(self.graph, threshold))

    def with_replicates(self, counts: EdgeCounts | None) -> Self:
        """This finding with shares of replicates as edges' strengths; itself if there are none."""
        if counts is None:
            return self
        details = counts.details(self.graph.nodes)
        evidence = Confidences(details).evidence(self.evidence, self.graph)
        return replace(self, evidence=evidence, details={**self.details, "bootstrap": details})

    def lines(self, n_sites: int) -> list[str]:
        del n_sites
        names, rows = self.content("edges")
        edges = edge_lines(names, rows) or ["(no edge)"]
        said = [*self._notes, *self.evidence.remarks]
        return [
            *([""] if said else []),
            *said,
            "",
            f"Learnt graph ({self.graph_kind}):",
            *shortened(edges),
            *([] if self.sample is None else ["", IN_GRAPHS.format(n=len(self.sample)), *ASK]),
        ]

    @property
    def _notes(self) -> tuple[str, ...]:
        """The sentences on how the graph is to be read."""
        return ()

    def report(self) -> Report:
        doubtful = counted(len(self.evidence.unsupported), "edge")
        steps = []
        if self.evidence.unsupported:
            steps.append(
                f"Look at {doubtful} first: tests that could remove them were not done, and the "
                f"reason stands with each. {what_helps(self.evidence.unsupported)}"
            )
        open_mark = self.graph.undetermined
        undetermined = any("o" in e.mark or e.mark == open_mark for e in self.graph.edges)
        return Report(
            limits=(*[OPEN_ENDS[open_mark]] * undetermined, *self._notes),
            warnings=tuple(row_warnings(self.details, len(self.graph.nodes))),
            remarks=self.evidence.remarks,
            steps=(*steps, CHECK),
        )

    def files(self) -> dict[str, str]:
        graph = self.graph
        return super().files() | {
            "graph.graphml": graph.to_graphml(sample=self.sample),
            "graph.dot": graph.to_dot(),
        }

    def draw(self, folder: Path) -> None:
        try:
            draw(self.graph, folder / "graph.svg")
        except OutputError as error:
            # the rest of the folder is worth having without the picture
            log.warning("%s; %s", error, error.remedy)
        except OSError as error:
            raise OutputError(f"{folder} cannot be written: {error.strerror}") from error

    def to_json(self, identifiers: Mapping[str, str]) -> dict[str, Any]:
        entries: dict[str, Any] = {
            "edges": [saved_edge(edge, identifiers) for edge in self.graph.edges],
            "graph_kind": self.graph.kind,
            "evidence": _saved_evidence(self.evidence),
        }
        return entries | ({"details": dict(self.details)} if self.details else {})

    def _repr_html_(self) -> str:
        return self.graph._repr_html_()


def _with_shares(edge: EdgeEvidence, sample: GraphSample) -> EdgeEvidence:
    """The evidence of an edge, and how many graphs that fit have it."""
    there, back = sample.shares(edge.source, edge.target)
    fact = (
        f"In {share_shown(there + back)} of graphs that fit, and with {edge.source} as the cause "
        f"in {share_shown(there)}."
    )
    return replace(edge, facts=(*edge.facts, fact))


def what_helps(unsupported: Sequence[EdgeEvidence]) -> str:
    """How the tests that edges lack may be done; more rows do not help if a column is computed."""
    follow = [edge.tests is not None and edge.tests.why == FOLLOWS for edge in unsupported]
    return " ".join([*([LEAVE_OUT] if any(follow) else []), *([] if all(follow) else [WHAT_HELPS])])


def graph_tables(edges: Sequence[Column], *more: Table) -> tuple[Table, ...]:
    """The tables of a kind of graph: its edges with these columns, and what it has besides."""
    return (
        Table(
            name="edges",
            doc="One row per edge, with the columns of which the run has something to say.",
            columns=tuple(edges),
            rows=lambda finding: edge_rows(
                edges, finding.graph, finding.evidence, finding.confidences, finding.sample
            ),
            present=lambda finding: edge_columns(
                finding.evidence, finding.confidences, finding.sample
            ),
        ),
        Table(
            name="separations",
            doc="One row per pair without an edge, and the set that separates it, as far as it was "
            "disclosed.",
            columns=SEPARATIONS,
            rows=lambda finding: separation_rows(finding.evidence),
        ),
        *more,
        Table(
            name=DIFFERING,
            doc="One row per variable, and whether it is distributed differently at the sites; no "
            "row where that was not asked.",
            columns=COMPARED,
            rows=lambda finding: [
                tuple(row[column.name] for column in COMPARED)
                for row in finding.details.get(DIFFERING, [])
            ],
            saved="never",
        ),
    )


def marked_edges(edges: Sequence[Mapping[str, str]]) -> list[tuple[str, str, str]]:
    """(source, target, mark) of edges as `result.json` has them."""
    return [(edge["from"], edge["to"], edge["mark"]) for edge in edges]


def saved_edge(edge: Edge, identifiers: Mapping[str, str]) -> dict[str, str]:
    """An edge as `result.json` has it."""
    return {
        "from": edge.source,
        "to": edge.target,
        "mark": edge.mark,
        "from_id": identifiers[edge.source],
        "to_id": identifiers[edge.target],
    }


def _saved_evidence(evidence: GraphEvidence) -> dict[str, Any]:
    """The evidence as `result.json` has it: of every edge what was opened, and no more."""
    saved: dict[str, Any] = plain(evidence)
    for edge in saved["edges"]:
        if edge["p_value"] is None and edge["effect"] is None:
            del edge["given"]
        for name in ("p_value", "effect", "consensus", "tests"):
            if edge[name] is None:
                del edge[name]
        for name in ("known", "status"):
            if not edge[name]:
                del edge[name]
    return saved
