"""What the results of runs have in common that learnt a graph, of whatever kind."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cipherdag.errors import OutputError, ParameterError
from cipherdag.findings.confidence import Confidences
from cipherdag.findings.edge_status import why
from cipherdag.findings.edge_table import SEPARATION, edge_lines, edge_table, separation_rows
from cipherdag.findings.site_differences import COLUMNS as DIFFERENCE_COLUMNS
from cipherdag.findings.site_differences import DETAIL
from cipherdag.graphs.drawing.figure import draw
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.graphs.edges import Edge
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.metrics import GraphMetrics, PAGMetrics
from cipherdag.graphs.pag import PartialMixedGraph
from cipherdag.pages.numerals import counted
from cipherdag.pages.sheets import csv_text
from cipherdag.results.comparing import COLUMNS as COMPARED
from cipherdag.results.comparing import edge_differences
from cipherdag.results.run import Run, shortened

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("cipherdag.result")


class GraphRun(Run):
    """A run that learnt a graph; `Result` and `PAGResult` are the kinds.

    Attributes:
        compared_as: What `apart` compares.
        graph: The graph.
        evidence: What speaks for its edges.
        details: What else the algorithm found.
    """

    compared_as: ClassVar[str]

    graph: CausalGraph | PartialMixedGraph
    evidence: GraphEvidence
    details: Mapping[str, Any]

    @property
    @abstractmethod
    def graph_kind(self) -> str:
        """What the graph is, in a word or two."""

    @abstractmethod
    def apart(self, other: CausalGraph | PartialMixedGraph) -> GraphMetrics | PAGMetrics:
        """How far this graph is from another one over the same names.

        Raises:
            GraphError: The other one is of another kind, or has other names.
        """

    @abstractmethod
    def read_graph(self, file: Path) -> CausalGraph | PartialMixedGraph:
        """A CSV of edges as a graph over this one's variables, of which nothing more is claimed.

        Raises:
            GraphError: The file holds none.
        """

    @property
    def _noted(self) -> tuple[str, ...]:
        """What to know of the graph, in sentences."""
        return ()

    def _repr_html_(self) -> str:
        """The graph in a notebook, under a line that says what ran."""
        return f"<p>{escape(self._headline)}</p>{self.graph._repr_html_()}"

    @property
    def _counted(self) -> str:
        return counted(len(self.graph.edges), "edge")

    @property
    def edges(self) -> pd.DataFrame:
        """The edges and what was opened about them; the columns are those of `edge_table`.

        An edge with the same at both ends stands once, its names in the order of the alphabet.
        """
        import pandas as pd

        columns, rows = self.edge_table
        return pd.DataFrame(rows, columns=list(columns))

    @property
    def separations(self) -> pd.DataFrame:
        """Pairs without an edge, and the set that separates each, as far as it was opened.

        Columns ``first``, ``second``, ``given`` (names joined by "; ", "" for the empty set, None
        where no set was found) and ``support``, which ``evidence.support`` says of; None where the
        two count as independent though too few sites could test them.
        """
        import pandas as pd

        return pd.DataFrame(separation_rows(self.evidence), columns=list(SEPARATION))

    @property
    def edge_table(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Names of the columns and the rows of `edges`, without pandas."""
        return edge_table(self.graph, self.evidence, self._confidences)

    @property
    def edge_lines(self) -> list[str]:
        """Every edge, and why one stands that tests do not speak for."""
        said = {(own.source, own.target): why(own) for own in self.evidence.unsupported}
        edges = [(str(edge), said.get((edge.source, edge.target), "")) for edge in self.graph.edges]
        return [f"{edge}   {own}" if own else edge for edge, own in edges]

    def compare(self, other: GraphRun | CausalGraph | PartialMixedGraph) -> pd.DataFrame:
        """This graph and another one, pair by pair.

        Columns ``from``, ``to``, ``here``, ``there`` (the marks, such as "-->", "<--" or "---", or
        "" where the two are not joined) and ``same``. `apart` measures how far apart they are.

        Args:
            other: Another result, or a graph.
        """
        import pandas as pd

        there = other.graph if isinstance(other, GraphRun) else other
        return pd.DataFrame(edge_differences(self.graph, there), columns=list(COMPARED))

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

    @property
    def _replicates(self) -> Confidences:
        """What replicates say.

        Raises:
            ParameterError: There were none.
        """
        if (found := self._confidences) is None:
            raise ParameterError(
                "a consensus needs replicates",
                remedy="Run with bootstrap=20 or more; see docs/explanation/confidence.md.",
            )
        return found

    def save(
        self, folder: str | Path, *, truth: CausalGraph | None = None, force: bool = False
    ) -> Path:
        """Write the result folder, and the drawing of the graph; see `Run.save`."""
        path = super().save(folder, truth=truth, force=force)
        try:
            draw(self.graph, path / "graph.svg")
        except OutputError as error:
            # the rest of the folder is worth having without the picture
            log.warning("%s; %s", error, error.remedy)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error
        return path

    def _saved(self) -> dict[str, Any]:
        """What `result.json` has of every kind of graph."""
        found: dict[str, Any] = {
            "edges": [self._edge(edge) for edge in self.graph.edges],
            "graph_kind": self.graph.kind,
            "evidence": _saved_evidence(self.evidence),
        }
        return found | ({"details": dict(self.details)} if self.details else {})

    @classmethod
    def _read_saved(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "evidence": msgspec.convert(report["evidence"], GraphEvidence),
            "details": report.get("details", {}),
        }

    def _summary(self) -> list[str]:
        edges = edge_lines(*self.edge_table) or ["(no edge)"]
        lines = ["", f"Learnt graph ({self.graph_kind}):", *shortened(edges)]
        for said in (*self._noted, *self.evidence.remarks):
            lines += ["", said] if said else []
        return lines

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
    # an algorithm of another package may give numbers of numpy
    saved: dict[str, Any] = msgspec.to_builtins(evidence, enc_hook=lambda own: own.item())
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


def marked(edges: Sequence[Mapping[str, str]]) -> list[tuple[str, str, str]]:
    """(source, target, mark) of edges as `result.json` has them."""
    return [(edge["from"], edge["to"], edge["mark"]) for edge in edges]
