"""The result of a run that learnt a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cipherdag.errors import GraphError
from cipherdag.findings.conclusion import LearntGraph
from cipherdag.findings.confidence import COLUMNS, CONSENSUS
from cipherdag.graphs.graph import CPDAG, CausalGraph, kind_named
from cipherdag.graphs.identification.maximal import is_completed
from cipherdag.graphs.metrics import GraphMetrics, compare
from cipherdag.graphs.pag import PartialMixedGraph
from cipherdag.results.graph_run import GraphRun, marked
from cipherdag.results.graph_sections import graph_sections
from cipherdag.results.run import Run

if TYPE_CHECKING:
    import pandas as pd


KINDS = {
    "dag": "DAG",
    "cpdag": "CPDAG",
    "mpdag": "MPDAG: a CPDAG that background knowledge directs further",
    "pdag": "directed in part",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(LearntGraph, GraphRun):
    """A learnt graph by name, what left each site, and what it cost.

    Its fields are those of `LearntGraph` and `Run`.
    """

    kind: ClassVar[str] = "graph"
    template: ClassVar[str] = "graph_run.html.j2"
    compared_as: ClassVar[str] = "CPDAGs"

    __repr__ = Run.__repr__

    def consensus(self, threshold: float = CONSENSUS) -> CausalGraph:
        """The marks that enough replicates over drawn rows have.

        Args:
            threshold: Share of the replicates that joins two variables at least, and that has a
                direction at least; an edge without such a direction has none.

        Returns:
            A graph that is directed in part, as a rule no CPDAG. Edges of a directed cycle have no
            direction in it.

        Raises:
            ParameterError: There were no replicates, or the threshold is no share.
        """
        return self._replicates.consensus(self.graph, threshold)

    @property
    def confidence(self) -> pd.DataFrame:
        """The edges with the share of replicates over drawn rows that have them.

        Columns ``from``, ``to``, ``mark``, ``confidence`` (the edge as it is) and ``any_edge`` (the
        two joined in any way), both between 0 and 1; NaN of an edge that stands since tests were
        not done, as it comes back for want of the same tests. Empty without
        ``FedPC(bootstrap=...)``.
        """
        import pandas as pd

        if self._confidences is None:
            return pd.DataFrame([], columns=list(COLUMNS))
        columns, rows = self.edge_table
        return pd.DataFrame(rows, columns=list(columns))[list(COLUMNS)]

    def metrics(self, truth: CausalGraph) -> GraphMetrics:
        """Compare the DAG with a true DAG over the same names (FedPC, section 4.1.2)."""
        return compare(self.dag, truth)

    def metrics_cpdag(self, truth: CausalGraph) -> GraphMetrics:
        """Compare the CPDAG with the CPDAG of a true DAG."""
        return compare(_as_cpdag(self.graph), truth.to_cpdag())

    def apart(self, other: CausalGraph | PartialMixedGraph) -> GraphMetrics:
        """Compare the CPDAGs of this and another graph; see `GraphRun.apart`."""
        if not isinstance(other, CausalGraph):
            raise GraphError(
                "the other graph is a PAG, and marks of the two say different things",
                remedy="Compare it with a graph of another algorithm than FedFCI.",
            )
        return compare(_as_cpdag(self.graph), _as_cpdag(other))

    def read_graph(self, file: Path) -> CausalGraph:
        """See `GraphRun.read_graph`."""
        return CausalGraph.from_csv(file.read_text("utf-8"), nodes=self.graph.nodes)

    def _found(self) -> dict[str, Any]:
        return self._saved() | {
            "dag_edges": [self._edge(edge) for edge in self.dag.edges],
            "dag_note": self.dag_note,
        }

    def _metrics(self, truth: CausalGraph) -> dict[str, Any]:
        return {
            "metrics": asdict(self.metrics(truth)),
            "metrics_cpdag": asdict(self.metrics_cpdag(truth)),
        }

    @classmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        nodes = tuple(report["variables"])
        return {
            "graph": _saved_graph(nodes, report),
            "dag": CausalGraph.from_marked(nodes, marked(report["dag_edges"])),
            "dag_note": report["dag_note"],
            **cls._read_saved(report),
        }

    @property
    def _noted(self) -> tuple[str, ...]:
        return (self.dag_note,)

    @property
    def graph_kind(self) -> str:
        """What the graph is: a CPDAG, an MPDAG, a DAG, or a graph that is directed in part."""
        return KINDS[self.graph.kind]

    def _accuracy(self, truth: CausalGraph) -> list[str]:
        return [
            "",
            f"Against the truth: {self.metrics(truth)}  (as a DAG)",
            f"                   {self.metrics_cpdag(truth)}  (as a CPDAG)",
        ]

    def _sections(self) -> dict[str, Any]:
        return graph_sections(self, None) | self._shown({})

    def _sections_beside(self, truth: CausalGraph) -> dict[str, Any]:
        metrics = {"as a CPDAG": self.metrics_cpdag(truth), "as a DAG": self.metrics(truth)}
        return graph_sections(self, truth) | self._shown(metrics)

    def _shown(self, metrics: dict[str, GraphMetrics]) -> dict[str, Any]:
        return {"metrics": metrics, "against": None, "edges_csv": self._tables()["edges.csv"]}


def _saved_graph(nodes: tuple[str, ...], report: Mapping[str, Any]) -> CausalGraph:
    """The graph as the kind that it was saved as; of earlier revisions a CPDAG where it is one.

    Raises:
        GraphError: It is none of that kind.
    """
    graph = CausalGraph.from_marked(nodes, marked(report["edges"]))
    if "graph_kind" in report:
        return kind_named(report["graph_kind"]).from_arcs(nodes, graph.arcs)
    return CPDAG(nodes, graph.endpoints) if is_completed(graph.arcs) and not graph.is_dag else graph


def _as_cpdag(graph: CausalGraph) -> CausalGraph:
    """The CPDAG of a DAG, and another graph as it is."""
    return graph.to_cpdag() if graph.is_dag else graph
