"""What a run gives back: a graph by name, what left each site, and what it cost."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cipherdag.errors import OutputError
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.results.folder import run_toml, write_folder
from cipherdag.results.run import releases_frame, run_report

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd

    from cipherdag.findings.confidence import Confidences
    from cipherdag.findings.panel import Panel
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.graphs.metrics import GraphMetrics
    from cipherdag.protocol.progress import DropOut, RoundReport
    from cipherdag.sites.record.ledger import LedgerHead


log = logging.getLogger("cipherdag.results.result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one run.

    Attributes:
        algorithm: Name of the algorithm.
        parameters: Its parameters.
        protection: How answers were protected.
        graph: The CPDAG, with the columns' names.
        dag: A DAG of the class that the CPDAG stands for, never cyclic.
        dag_note: Empty, or what had to change because no consistent extension exists.
        identifiers: The identifier that travelled for each name, "1" for the first in the
            alphabet.
        sites: Names of the sites.
        rounds: One report per round.
        seconds: Wall time of the run.
        bytes_sent_per_site: Bytes that left each site.
        dropouts: Sites that left during the run.
        seed: Seed of the run.
        versions: Versions of Python and the packages that computed it.
        ledgers: Every site's ledger, line by line.
        heads: Where each ledger ended, as the site itself reported.
        source: What `run.toml` needs to repeat the run.
        schema: The schema in TOML.
        evidence: What speaks for the edges, as far as it was opened.
        panels: What else the algorithm has to show in the report.
        details: What the algorithm reports beside the graph, such as RFcd's worst-case regret,
            its curve over the search and the grid of both, or Fed-CD's beliefs, edge entropy per
            round and the edges that it left out.
    """

    algorithm: str
    parameters: Mapping[str, Any]
    protection: str
    graph: CausalGraph
    dag: CausalGraph
    dag_note: str
    identifiers: Mapping[str, str]
    sites: tuple[str, ...]
    rounds: tuple[RoundReport, ...]
    seconds: float
    bytes_sent_per_site: Mapping[str, int]
    dropouts: tuple[DropOut, ...]
    seed: int
    versions: Mapping[str, str]
    ledgers: Mapping[str, tuple[str, ...]] = field(repr=False)
    heads: Mapping[str, LedgerHead] = field(repr=False)
    source: Mapping[str, Any] = field(repr=False, default_factory=dict)
    schema: str = field(repr=False, default="")
    evidence: GraphEvidence = field(repr=False, default_factory=GraphEvidence)
    panels: tuple[Panel, ...] = field(repr=False, default=())
    details: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def releases(self) -> pd.DataFrame:
        """What left each site: one row per record of the ledgers."""
        return releases_frame(self.ledgers)

    @property
    def confidence(self) -> pd.DataFrame:
        """The edges with the share of replicates over drawn rows that have them.

        Columns ``from``, ``to``, ``mark``, ``confidence`` (the edge as it is) and ``any_edge`` (the
        two joined in any way), both between 0 and 1. Empty without ``FedPC(bootstrap=...)``.
        """
        import pandas as pd

        from cipherdag.findings.confidence import COLUMNS

        rows = self._confidences.rows(self.graph) if self._confidences else []
        return pd.DataFrame(rows, columns=list(COLUMNS))

    @property
    def _confidences(self) -> Confidences | None:
        from cipherdag.findings.confidence import Confidences

        known = self.details.get("bootstrap")
        return None if known is None else Confidences(known)

    def metrics(self, truth: CausalGraph) -> GraphMetrics:
        """Compare the DAG with a true DAG over the same names (FedPC, section 4.1.2)."""
        from cipherdag.graphs.metrics import compare

        return compare(self.dag, truth)

    def metrics_cpdag(self, truth: CausalGraph) -> GraphMetrics:
        """Compare the CPDAG with the CPDAG of a true DAG."""
        from cipherdag.graphs.metrics import compare

        learnt = self.graph.to_cpdag() if self.graph == self.dag else self.graph
        return compare(learnt, truth.to_cpdag())

    def to_dict(self, truth: CausalGraph | None = None) -> dict[str, Any]:
        """All of `result.json`, with metrics where a true DAG is given."""
        report = run_report(self) | {
            "edges": [self._edge(edge) for edge in self.graph.edges],
            "dag_edges": [self._edge(edge) for edge in self.dag.edges],
            "dag_note": self.dag_note,
            "evidence": asdict(self.evidence),
        }
        if self.details:
            report["details"] = dict(self.details)
        if truth is not None:
            report["metrics"] = asdict(self.metrics(truth))
            report["metrics_cpdag"] = asdict(self.metrics_cpdag(truth))
        return report

    def save(self, folder: str | Path, *, truth: CausalGraph | None = None) -> Path:
        """Write the result folder.

        Args:
            folder: Where; made if it is not there. A result already in it is replaced.
            truth: A true DAG, to write metrics.

        Returns:
            The folder: ``report.html``, ``result.json``, ``edges.csv``, ``graph.graphml``,
            ``graph.dot``, ``graph.svg``, ``releases/<site>.jsonl``, ``schema.toml``, ``run.toml``.

        Raises:
            OutputError: The folder cannot be written.
        """
        path = write_folder(folder, self._texts(truth), self.ledgers)
        self._draw(path / "graph.svg")
        return path

    def _texts(self, truth: CausalGraph | None) -> dict[str, str]:
        from cipherdag.results.run_page import run_page

        known = self._confidences
        return {
            "report.html": run_page(self, truth=truth, written=datetime.now(UTC)),
            "result.json": json.dumps(self.to_dict(truth), indent=2, ensure_ascii=False) + "\n",
            "edges.csv": known.csv(self.graph) if known else self.graph.to_csv(),
            "graph.graphml": self.graph.to_graphml(),
            "graph.dot": self.graph.to_dot(),
            "run.toml": run_toml(self.source),
            "schema.toml": self.schema,
        }

    def _draw(self, path: Path) -> None:
        from cipherdag.graphs.drawing.figure import draw

        try:
            draw(self.graph, path)
        except OutputError as error:
            # the rest of the folder is worth having without the picture
            log.warning("%s; %s", error, error.remedy)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error

    def _edge(self, edge: Any) -> dict[str, str]:
        return {
            "from": edge.source,
            "to": edge.target,
            "mark": edge.mark,
            "from_id": self.identifiers[edge.source],
            "to_id": self.identifiers[edge.target],
        }
