"""Fed-CD's account of a run: beliefs, what was left out, and how the sites came to agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cipherdag.algorithms.fedcd.cycles import CutEdge
from cipherdag.arrays import BoolMatrix, FloatMatrix
from cipherdag.findings.axes import Curves, Series
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.findings.panels import HeatMap, Panel, TablePanel
from cipherdag.graphs.edge_evidence import EdgeEvidence, GraphEvidence
from cipherdag.graphs.graph import CausalGraph

MOST_BELIEVERS = 40  # variables beyond which a matrix of beliefs is wider than any page


@dataclass(frozen=True, slots=True)
class FedCDOutcome:
    """What a Fed-CD run concludes, by position; p variables.

    Attributes:
        arcs: The DAG, shape (p, p).
        belief: Aggregated belief in every edge after the last round, shape (p, p).
        cut: Edges believed in that would have closed a cycle, the strongest first.
        entropies: Average edge entropy of the sites' binary graphs after every round, in bits.
        agreed: Whether the run stopped because all sites agreed.
    """

    arcs: BoolMatrix
    belief: FloatMatrix
    cut: tuple[CutEdge, ...]
    entropies: tuple[float, ...]
    agreed: bool


def concluded(outcome: FedCDOutcome, names: Sequence[str]) -> LearntGraph:
    """The DAG by name, beliefs by tail and head, entropy per round, and the edges left out."""
    cut = ", ".join(f"{names[e.source]} --> {names[e.target]}" for e in outcome.cut)
    belief = {
        name: dict(zip(names, row, strict=True))
        for name, row in zip(names, outcome.belief.tolist(), strict=True)
    }
    conclusion = LearntGraph.of_dag(
        names,
        outcome.arcs,
        dag_note=f"Left out, since it would close a cycle: {cut}" if cut else "",
        details={
            "belief": belief,
            "edge_entropy": list(outcome.entropies),
            "agreed": outcome.agreed,
            "cut": [
                {"from": names[e.source], "to": names[e.target], "belief": e.belief}
                for e in outcome.cut
            ],
        },
    )
    return replace(conclusion, evidence=belief_evidence(belief, conclusion.graph))


def reported(conclusion: LearntGraph) -> Report:
    """The entropy curve, the matrix of beliefs, and the edges left out."""
    details = conclusion.details
    points = tuple((float(n), bits) for n, bits in enumerate(details["edge_entropy"], start=1))
    agreement = Curves(
        title="Agreement of the sites",
        note="Average entropy over all ordered pairs of the share of sites that believe in the "
        "edge; 0 where all sites have the same graph.",
        x_label="round",
        y_label="bits",
        series=(Series("average edge entropy", points),),
    )
    return Report(panels=(agreement, *_beliefs(details["belief"]), *_cut(details["cut"])))


def belief_evidence(belief: Mapping[str, Mapping[str, float]], graph: CausalGraph) -> GraphEvidence:
    """The aggregated beliefs, by tail and head, as the strengths of a graph's edges."""
    return GraphEvidence(
        measure="aggregated belief of the sites in the edge",
        edges=tuple(_believed(belief, edge.source, edge.target) for edge in graph.edges),
    )


def _believed(belief: Mapping[str, Mapping[str, float]], a: str, b: str) -> EdgeEvidence:
    there, back = belief[a][b], belief[b][a]
    fact = f"Belief {there:.3g} in this direction, {back:.3g} in the other."
    return EdgeEvidence(a, b, there, f"{there:.2f}", (fact,))


def _beliefs(belief: Mapping[str, Mapping[str, float]]) -> Iterator[Panel]:
    names = tuple(belief)
    if not names or len(names) > MOST_BELIEVERS:
        return
    entries = [belief[a][b] for a in names for b in names if a != b]
    yield HeatMap(
        title="Beliefs",
        note="Aggregated belief of the sites in every edge after the last round.",
        rows=names,
        columns=names,
        values=tuple(tuple(None if a == b else belief[a][b] for b in names) for a in names),
        # fixed-point sums may leave [0, 1] by a rounding
        low=min([0.0, *entries]),
        high=max([1.0, *entries]),
    )


def _cut(cut: Sequence[Mapping[str, Any]]) -> Iterator[Panel]:
    if cut:
        yield TablePanel(
            title="Edges left out",
            note="Edges that the sites believe in and that would have closed a cycle.",
            columns=("From", "To", "Belief"),
            rows=tuple((edge["from"], edge["to"], edge["belief"]) for edge in cut),
        )
