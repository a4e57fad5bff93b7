"""The result of a run that learnt a partial ancestral graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cipherdag.errors import GraphError
from cipherdag.findings.conclusion import LearntPAG
from cipherdag.findings.confidence import CONSENSUS, END_COLUMNS
from cipherdag.findings.integration import DETAIL as INTEGRATED
from cipherdag.findings.integration import Integrated
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.metrics import PAGMetrics, compare_pags
from cipherdag.graphs.pag import PAG, PartialMixedGraph
from cipherdag.results.graph_run import GraphRun, marked
from cipherdag.results.graph_sections import pag_sections
from cipherdag.results.run import Run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, repr=False)
class PAGResult(LearntPAG, GraphRun):
    """A learnt partial ancestral graph by name, what left each site, and what it cost.

    Its fields are those of `LearntPAG` and `Run`.
    """

    kind: ClassVar[str] = "pag"
    template: ClassVar[str] = "graph_run.html.j2"
    compared_as: ClassVar[str] = "PAGs"

    __repr__ = Run.__repr__

    def metrics(self, truth: PartialMixedGraph | CausalGraph) -> PAGMetrics:
        """Compare the graph with a true PAG over the same names, or with that of a true DAG.

        Variables that only the DAG has are taken for unmeasured.
        """
        if isinstance(truth, CausalGraph):
            truth = PAG.from_dag(truth, set(truth.nodes) - set(self.graph.nodes))
        return compare_pags(self.graph, truth)

    @property
    def fitting(self) -> tuple[PAG, ...]:
        """The graphs that fit what every group of sites tells, as far as they were found.

        Empty without ``FedFCI(integrate=...)``, or where none fits. The details say whether they
        are all.
        """
        found = self.details.get(INTEGRATED)
        return () if found is None else Integrated(found).graphs(self.graph.nodes)

    def consensus(self, threshold: float = CONSENSUS) -> PartialMixedGraph:
        """The marks that enough replicates over drawn rows have.

        Args:
            threshold: Share of the replicates that joins two variables at least, and that has an
                arrowhead at an end at least, or a tail; else it is a circle.

        Returns:
            Marks that no PAG may have together, as a rule.

        Raises:
            ParameterError: There were no replicates, or the threshold is no share.
        """
        return self._replicates.consensus(self.graph, threshold)

    @property
    def graph_kind(self) -> str:
        """What the graph is: a PAG, or marks that need not be one."""
        return "PAG" if isinstance(self.graph, PAG) else "marks of a PAG, as far as they are known"

    def read_graph(self, file: Path) -> PartialMixedGraph:
        """See `GraphRun.read_graph`."""
        return PartialMixedGraph.from_csv(file.read_text("utf-8"), nodes=self.graph.nodes)

    @property
    def confidence(self) -> pd.DataFrame:
        """Every pair with an edge, or with one in some replicate, and its marks in replicates.

        Columns ``from``, ``to``, ``mark`` ("" where the graph does not join the two), ``no_edge``,
        the share of replicates over drawn rows that do not, and ``from_arrow``, ``from_tail``,
        ``from_circle``, ``to_arrow``, ``to_tail`` and ``to_circle``, the shares that have the mark
        at that end; NaN of an edge that stands since tests were not done. Empty without
        ``FedFCI(bootstrap=...)``.
        """
        import pandas as pd

        rows = self._confidences.end_rows(self.graph) if self._confidences else []
        found = pd.DataFrame(rows, columns=list(END_COLUMNS))
        undone = {frozenset((own.source, own.target)) for own in self.evidence.unsupported}
        unsure = [
            frozenset(pair) in undone for pair in zip(found["from"], found["to"], strict=True)
        ]
        found.loc[unsure, list(END_COLUMNS[3:])] = None
        return found

    def apart(self, other: CausalGraph | PartialMixedGraph) -> PAGMetrics:
        """Compare the graph with another PAG; see `GraphRun.apart`."""
        if not isinstance(other, PartialMixedGraph):
            raise GraphError(
                "the other graph is no PAG, and marks of the two say different things",
                remedy="Compare it with another result of FedFCI, or with a CSV of a PAG's edges.",
            )
        return self.metrics(other)

    def _found(self) -> dict[str, Any]:
        return self._saved()

    def _metrics(self, truth: CausalGraph) -> dict[str, Any]:
        return {"metrics": asdict(self.metrics(truth))}

    @classmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        own = PAG if report.get("graph_kind") == "pag" else PartialMixedGraph
        graph = own.from_marked(tuple(report["variables"]), marked(report["edges"]))
        return {"graph": graph, **cls._read_saved(report)}

    def _accuracy(self, truth: CausalGraph) -> list[str]:
        return ["", f"Against the truth: {self.metrics(truth)}"]

    def _sections(self) -> dict[str, Any]:
        own: dict[str, Any] = {"metrics": {}, "against": None}
        return pag_sections(self) | own | {"edges_csv": self._tables()["edges.csv"]}

    def _sections_beside(self, truth: CausalGraph) -> dict[str, Any]:
        return self._sections() | {"against": self.metrics(truth)}
