"""The result of a run that learnt a partial ancestral graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from cipherdag.errors import GraphError, ParameterError
from cipherdag.findings.conclusion import LearntPAG
from cipherdag.graphs.ancestral.metrics import compare_pags
from cipherdag.graphs.ancestral.pag import PAG
from cipherdag.results.graph_run import GraphRun, marked
from cipherdag.results.graph_sections import pag_sections
from cipherdag.results.run import Run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cipherdag.graphs.ancestral.metrics import PAGMetrics
    from cipherdag.graphs.graph import CausalGraph


@dataclass(frozen=True, kw_only=True, repr=False)
class PAGResult(LearntPAG, GraphRun):
    """A learnt partial ancestral graph by name, what left each site, and what it cost.

    Its fields are those of `LearntPAG` and `Run`.
    """

    kind: ClassVar[str] = "pag"
    template: ClassVar[str] = "graph_run.html.j2"
    graph_kind: ClassVar[str] = "PAG"
    compared_as: ClassVar[str] = "PAGs"

    __repr__ = Run.__repr__

    def metrics(self, truth: PAG) -> PAGMetrics:
        """Compare the graph with a true PAG over the same names."""
        return compare_pags(self.graph, truth)

    def apart(self, other: CausalGraph | PAG) -> PAGMetrics:
        """Compare the graph with another PAG; see `GraphRun.apart`."""
        if not isinstance(other, PAG):
            raise GraphError(
                "the other graph is no PAG, and marks of the two say different things",
                remedy="Compare it with another result of FedFCI, or with a CSV of a PAG's edges.",
            )
        return self.metrics(other)

    def _found(self, truth: CausalGraph | None) -> dict[str, Any]:
        _no_truth(truth)
        return self._saved()

    @classmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        graph = PAG.from_marked(tuple(report["variables"]), marked(report["edges"]))
        return {"graph": graph, **cls._read_saved(report)}

    def _accuracy(self, truth: CausalGraph) -> list[str]:
        _no_truth(truth)
        return []

    def _sections(self, truth: CausalGraph | None) -> dict[str, Any]:
        _no_truth(truth)
        return pag_sections(self) | {"metrics": {}, "edges_csv": self._tables()["edges.csv"]}


def _no_truth(truth: CausalGraph | None) -> None:
    if truth is not None:
        raise ParameterError(
            "a PAG is not compared with a true DAG",
            remedy="Compare it with a true PAG by PAGResult.metrics.",
        )
