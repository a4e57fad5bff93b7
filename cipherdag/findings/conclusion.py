"""What an algorithm concludes, by name: a graph, features, a description or an effect.

``details`` holds what else the algorithm found, in the form that JSON has, so that a saved result
can be reported on again; `Report` is what the algorithm makes of it.

Leaks:
    Nothing new: the coordinator computed all of it from opened sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from cipherdag.arrays import BoolMatrix
from cipherdag.findings.description import Description
from cipherdag.findings.effect import EstimatedEffect
from cipherdag.findings.graph_check import CheckedGraph
from cipherdag.findings.panel import Panel
from cipherdag.findings.survival import SurvivalAnalysis
from cipherdag.graphs.edge_evidence import GraphEvidence
from cipherdag.graphs.extension import extension_in_code_order
from cipherdag.graphs.graph import CausalGraph, class_of_dags
from cipherdag.graphs.pag import PartialMixedGraph


@dataclass(frozen=True, kw_only=True)
class LearntGraph:
    """A causal graph and what speaks for it.

    Attributes:
        graph: A `CPDAG`, with knowledge an `MPDAG`, or where the data tell more a DAG, with the
            columns' names; any edges by FedPC's reference ``code``.
        dag: A DAG of the class that the CPDAG stands for, never cyclic but by FedPC's reference
            ``code``, whose program does not look.
        dag_note: Empty, or what tests say that no DAG has, or that there is a cycle.
        evidence: What speaks for the edges, as far as it was opened.
        details: What else the algorithm found, such as RFcd's worst-case regret.
    """

    graph: CausalGraph
    dag: CausalGraph
    dag_note: str = ""
    evidence: GraphEvidence = field(repr=False, default_factory=GraphEvidence)
    details: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def decisions(self) -> bytes:
        """The edges of both graphs, in one order: equal graphs, equal bytes."""
        return msgspec.json.encode([sorted(map(str, own.edges)) for own in (self.graph, self.dag)])

    @classmethod
    def in_code_order(cls, names: Sequence[str], arcs: BoolMatrix, **more: Any) -> Self:
        """Edges, shape (p, p), directed to the end as the original FedPC program does."""
        graph = CausalGraph.from_arcs(names, arcs)
        dag = CausalGraph.from_arcs(names, extension_in_code_order(arcs))
        note = "" if dag.is_dag else "The original program's directions form a cycle here."
        return cls(graph=graph, dag=dag, dag_note=note, **more)

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
        """A DAG, shape (p, p), or where the data cannot tell its class apart, its CPDAG with it.

        Args:
            names: The variables.
            arcs: The DAG.
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


@dataclass(frozen=True, kw_only=True)
class LearntPAG:
    """What data tell of causes where some may be unmeasured, and what speaks for it.

    Attributes:
        graph: The `PAG`, with the columns' names; with knowledge, search ``rfci`` or sites that
            lack variables it may be marks of which nothing more is claimed.
        evidence: What speaks for the edges, as far as it was opened.
        details: What else the algorithm found.
    """

    graph: PartialMixedGraph
    evidence: GraphEvidence = field(repr=False, default_factory=GraphEvidence)
    details: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def decisions(self) -> bytes:
        """The edges in one order: equal graphs, equal bytes."""
        return msgspec.json.encode(sorted(map(str, self.graph.edges)))


@dataclass(frozen=True, slots=True)
class SelectedFeature:
    """A feature that is a cause or an effect of a label.

    Attributes:
        feature: Its name.
        strength: Weighted strength of its dependence on the label given nothing (Eq. 2): the
            absolute correlation, or G2 or twice a log likelihood ratio. With other evidence than
            ``weighted_p``: the summed statistic or -2 ln p, or the absolute joint score. None where
            it stayed closed.
        p_value: Weighted p-value of the two given nothing (Eq. 1), or that over all sites; None
            likewise.
        retrieved: Whether FedCFR brought it back from behind a correlated label.
    """

    feature: str
    strength: float | None
    p_value: float | None
    retrieved: bool


@dataclass(frozen=True, kw_only=True)
class SelectedFeatures:
    """The causes and effects of every label.

    Attributes:
        features: For every label its selected features, the strongest first.
        related_labels: For every label the other labels that are its parents or children.
        untested: Variables that no site could test against any label.
        measure: What a strength is, as a phrase with its unit; empty if nothing is known of it.
        least_p: A p-value of 0 stands for one below this.
        details: What else the algorithm found.
    """

    features: Mapping[str, tuple[SelectedFeature, ...]]
    related_labels: Mapping[str, tuple[str, ...]]
    untested: tuple[str, ...]
    measure: str = ""
    least_p: float = 0.0
    details: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def decisions(self) -> bytes:
        """Which features and labels belong to which label: equal choices, equal bytes."""
        chosen = {
            label: [sorted(own.feature for own in features), sorted(self.related_labels[label])]
            for label, features in self.features.items()
        }
        return msgspec.json.encode(chosen, order="deterministic")


Finding = (
    LearntGraph
    | LearntPAG
    | SelectedFeatures
    | Description
    | SurvivalAnalysis
    | EstimatedEffect
    | CheckedGraph
)


@dataclass(frozen=True, slots=True)
class Note:
    """Some lines under a heading, for the end of a run and its report; `lines` may be many."""

    title: str
    lines: tuple[str, ...] = ()

    @classmethod
    def of_columns(cls, title: str, found: Iterable[Sequence[str]]) -> Self:
        """A line for every column and what is said of it; a question keeps its mark."""
        lines = (f"{column}: {said}{'' if said.endswith('?') else '.'}" for column, said in found)
        return cls(title, tuple(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an algorithm adds to the account of a run.

    Attributes:
        panels: Curves, heat maps and tables of the report.
        notes: What the terminal says below the result.
        limits: What to know before the result is used, in sentences.
        warnings: What makes the result doubtful: said first, in report, terminal and log.
    """

    panels: tuple[Panel, ...] = ()
    notes: tuple[Note, ...] = ()
    limits: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
