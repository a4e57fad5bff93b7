"""The result of a run that learnt a graph."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cipherdag.errors import OutputError, ParameterError
from cipherdag.findings.conclusion import LearntGraph
from cipherdag.findings.confidence import COLUMNS, CONSENSUS, Confidences
from cipherdag.findings.edge_table import SEPARATION, edge_lines, edge_table, separation_rows
from cipherdag.findings.site_differences import COLUMNS as DIFFERENCE_COLUMNS
from cipherdag.findings.site_differences import DETAIL
from cipherdag.graphs.drawing.figure import draw
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.graphs.exports import csv_text
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.metrics import compare
from cipherdag.results.comparing import COLUMNS as COMPARED
from cipherdag.results.comparing import edge_differences
from cipherdag.results.graph_sections import graph_sections
from cipherdag.results.run import Run, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from cipherdag.graphs.edges import Edge
    from cipherdag.graphs.metrics import GraphMetrics

log = logging.getLogger("cipherdag.result")


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(LearntGraph, Run):
    """A learnt graph by name, what left each site, and what it cost.

    Its fields are those of `LearntGraph` and `Run`.
    """

    kind: ClassVar[str] = "graph"
    template: ClassVar[str] = "graph_run.html.j2"

    __repr__ = Run.__repr__

    def _repr_html_(self) -> str:
        """The graph in a notebook, under a line that says what ran."""
        return f"<p>{escape(self._headline)}</p>{self.graph._repr_html_()}"

    @property
    def _counted(self) -> str:
        return f"{len(self.graph.edges)} edges"

    @property
    def edges(self) -> pd.DataFrame:
        """The edges and what was opened about them; the columns are those of `edge_table`.

        An undirected edge ("---") stands once, its names in the order of the alphabet.
        """
        import pandas as pd

        columns, rows = self.edge_table
        return pd.DataFrame(rows, columns=list(columns))

    @property
    def separations(self) -> pd.DataFrame:
        """Pairs without an edge, and the set that separates each, as far as it was opened.

        Columns ``first``, ``second``, ``given`` (names joined by "; ", "" for the empty set, None
        where no set was found) and ``support``, which ``evidence.support`` says of.
        """
        import pandas as pd

        return pd.DataFrame(separation_rows(self.evidence), columns=list(SEPARATION))

    def consensus(self, threshold: float = CONSENSUS) -> CausalGraph:
        """The marks that enough replicates over drawn rows have.

        Args:
            threshold: Share of the replicates that joins two variables at least, and that has a
                direction at least; an edge without such a direction has none.

        Returns:
            A graph that is directed in part, as a rule no CPDAG, and it may have a cycle.

        Raises:
            ParameterError: There were no replicates, or the threshold is no share.
        """
        if self._confidences is None:
            raise ParameterError(
                "a consensus needs replicates",
                remedy="Run with bootstrap=20 or more; see docs/explanation/confidence.md.",
            )
        return self._confidences.consensus(self.graph.nodes, threshold)

    @property
    def edge_table(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Names of the columns and the rows of `edges`, without pandas."""
        return edge_table(self.graph, self.evidence, self._confidences)

    def compare(self, other: Result | CausalGraph) -> pd.DataFrame:
        """This graph and another one, pair by pair.

        Columns ``from``, ``to``, ``here``, ``there`` (the marks "-->", "<--", "---", or "" where
        the two are not joined) and ``same``. `metrics_cpdag` measures how far apart two graphs are.

        Args:
            other: Another result, or a graph.
        """
        import pandas as pd

        there = other.graph if isinstance(other, Result) else other
        return pd.DataFrame(edge_differences(self.graph, there), columns=list(COMPARED))

    @property
    def confidence(self) -> pd.DataFrame:
        """The edges with the share of replicates over drawn rows that have them.

        Columns ``from``, ``to``, ``mark``, ``confidence`` (the edge as it is) and ``any_edge`` (the
        two joined in any way), both between 0 and 1. Empty without ``FedPC(bootstrap=...)``.
        """
        import pandas as pd

        rows = self._confidences.rows(self.graph) if self._confidences else []
        return pd.DataFrame(rows, columns=list(COLUMNS))

    @property
    def site_differences(self) -> pd.DataFrame:
        """Which variables are distributed differently at the sites.

        Columns ``variable``, ``given`` (its neighbours, or nothing), ``p_value`` (NaN where too few
        sites or rows could be compared), ``differs`` (beyond chance, at level 0.01 over all
        variables) and ``coded`` (some site has one value far from all others again and again, as a
        code for missing values). Empty where that was not asked.
        """
        import pandas as pd

        return pd.DataFrame(self.details.get(DETAIL, []), columns=list(DIFFERENCE_COLUMNS))

    @property
    def _confidences(self) -> Confidences | None:
        known = self.details.get("bootstrap")
        return None if known is None else Confidences(known)

    def metrics(self, truth: CausalGraph) -> GraphMetrics:
        """Compare the DAG with a true DAG over the same names (FedPC, section 4.1.2)."""
        return compare(self.dag, truth)

    def metrics_cpdag(self, truth: CausalGraph) -> GraphMetrics:
        """Compare the CPDAG with the CPDAG of a true DAG."""
        learnt = self.graph.to_cpdag() if self.graph.is_dag else self.graph
        return compare(learnt, truth.to_cpdag())

    def save(self, folder: str | Path, *, truth: CausalGraph | None = None) -> Path:
        """Write the result folder, and the drawing of the graph; see `Run.save`."""
        path = super().save(folder, truth=truth)
        try:
            draw(self.graph, path / "graph.svg")
        except OutputError as error:
            # the rest of the folder is worth having without the picture
            log.warning("%s; %s", error, error.remedy)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error
        return path

    def _found(self, truth: CausalGraph | None) -> dict[str, Any]:
        found: dict[str, Any] = {
            "edges": [self._edge(edge) for edge in self.graph.edges],
            "dag_edges": [self._edge(edge) for edge in self.dag.edges],
            "dag_note": self.dag_note,
            "evidence": _saved_evidence(self.evidence),
        }
        if self.details:
            found["details"] = dict(self.details)
        if truth is not None:
            found["metrics"] = asdict(self.metrics(truth))
            found["metrics_cpdag"] = asdict(self.metrics_cpdag(truth))
        return found

    @classmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        nodes = tuple(report["variables"])
        return {
            "graph": CausalGraph.from_marked(nodes, _marked(report["edges"])),
            "dag": CausalGraph.from_marked(nodes, _marked(report["dag_edges"])),
            "dag_note": report["dag_note"],
            "evidence": msgspec.convert(report["evidence"], GraphEvidence),
            "details": report.get("details", {}),
        }

    def _summary(self) -> list[str]:
        edges = edge_lines(*self.edge_table) or ["(no edge)"]
        lines = ["", f"Learnt graph ({self.graph_kind}):", *shortened(edges)]
        for said in (self.dag_note, *self.evidence.remarks):
            lines += ["", said] if said else []
        return lines

    @property
    def graph_kind(self) -> str:
        """What the graph is: a DAG, the CPDAG of one, or a graph that is directed in part."""
        if self.graph.is_dag:
            return "DAG"
        of_one = self.dag.is_dag and self.dag.to_cpdag() == self.graph
        return "CPDAG" if of_one else "directed in part"

    def _accuracy(self, truth: CausalGraph) -> list[str]:
        return [
            "",
            f"Against the truth: {self.metrics(truth)}  (as a DAG)",
            f"                   {self.metrics_cpdag(truth)}  (as a CPDAG)",
        ]

    def _sections(self, truth: CausalGraph | None) -> dict[str, Any]:
        metrics = {}
        if truth is not None:
            metrics = {
                "as a CPDAG": self.metrics_cpdag(truth),
                "as a DAG": self.metrics(truth),
            }
        edges = self._tables()["edges.csv"]
        return graph_sections(self, truth) | {"metrics": metrics, "edges_csv": edges}

    def _tables(self) -> dict[str, str]:
        columns, rows = self.edge_table
        return {
            "edges.csv": csv_text([columns, *rows]),
            "graph.graphml": self.graph.to_graphml(),
            "separations.csv": csv_text([SEPARATION, *separation_rows(self.evidence)]),
            "graph.dot": self.graph.to_dot(),
        }

    def _edge(self, edge: Edge) -> dict[str, str]:
        return {
            "from": edge.source,
            "to": edge.target,
            "mark": edge.mark,
            "from_id": self.identifiers[edge.source],
            "to_id": self.identifiers[edge.target],
        }


def _saved_evidence(evidence: GraphEvidence) -> dict[str, Any]:
    """The evidence as `result.json` has it: of every edge what is known, and no more."""
    saved = asdict(evidence)
    for edge in saved["edges"]:
        if edge["p_value"] is None and edge["effect"] is None:
            del edge["given"]
        for name in ("p_value", "effect", "consensus"):
            if edge[name] is None:
                del edge[name]
        if not edge["known"]:
            del edge["known"]
    return saved


def _marked(edges: Sequence[Mapping[str, str]]) -> list[tuple[str, str, str]]:
    return [(edge["from"], edge["to"], edge["mark"]) for edge in edges]
