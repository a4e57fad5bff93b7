"""What Fed-CD concludes: a DAG of the edges that sites believe in, and the account of a run.

The paper's binary step may leave cycles, of which it says nothing; the published program puts the
variables of a cycle into their likeliest order.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from cipherdag.arrays import BoolMatrix, FloatMatrix
from cipherdag.findings.axes import Curves, Series
from cipherdag.findings.finding import Report
from cipherdag.findings.graph import LearntGraph
from cipherdag.findings.panels import HeatMap, Panel, TablePanel
from cipherdag.graphs.edge_evidence import EdgeEvidence, GraphEvidence
from cipherdag.graphs.graph import CausalGraph

MOST_PERMUTED = 6
"""Up to this many variables on cycles, all orders are tried, as the published program does."""
LEAST_GAIN = 1e-9


@dataclass(frozen=True, slots=True)
class CutEdge:
    """An edge that sites believe in and the DAG leaves out, by position, and the belief in it."""

    source: int
    target: int
    belief: float


def without_cycles(
    graph: BoolMatrix, belief: FloatMatrix
) -> tuple[BoolMatrix, tuple[CutEdge, ...]]:
    """A DAG of the edges believed in most, and the edges that it leaves out.

    Edges are added by descending belief, ties by position; one that would close a cycle is left
    out. Both matrices have shape (p, p); the graph may have both directions of an edge.
    """
    p = len(graph)
    reaches = np.eye(p, dtype=bool)
    arcs = np.zeros_like(graph)
    cut: list[CutEdge] = []
    for edge in _strongest_first(graph, belief):
        i, j = edge.source, edge.target
        if reaches[j, i]:
            cut.append(edge)
            continue
        arcs[i, j] = True
        reaches |= reaches[:, i][:, None] & reaches[j][None, :]
    return arcs, tuple(cut)


def in_likeliest_order(
    graph: BoolMatrix, belief: FloatMatrix, orientation: FloatMatrix
) -> tuple[BoolMatrix, tuple[CutEdge, ...]]:
    """The published program's DAG, and the edges that it leaves out.

    Variables that lie on cycles together are put into the order whose pairs have the largest sum
    of log sigma(theta); edges against it are left out. Of up to six variables all orders are
    tried; of more, single variables are moved as long as one move gains. The published program
    breaks cycles one at a time, which can leave some, and moves one variable once. All matrices
    have shape (p, p); those of ``orientation`` are logits, theta.
    """
    from scipy.sparse.csgraph import connected_components

    n_components, component = connected_components(graph, connection="strong")
    likelihood = -np.logaddexp(0.0, -orientation)
    position = np.zeros(len(graph), dtype=np.int64)
    for number in range(n_components):
        members = np.flatnonzero(component == number)
        order = _likeliest(likelihood[np.ix_(members, members)])
        position[members[order]] = np.arange(len(members))
    together = component[:, None] == component[None, :]
    against = graph & together & (position[:, None] > position[None, :])
    return graph & ~against, tuple(_strongest_first(against, belief))


def _strongest_first(graph: BoolMatrix, belief: FloatMatrix) -> list[CutEdge]:
    edges = np.argwhere(graph)
    order = np.argsort(-belief[edges[:, 0], edges[:, 1]], kind="stable")
    return [CutEdge(i, j, float(belief[i, j])) for i, j in edges[order].tolist()]


def _likeliest(likelihood: FloatMatrix) -> list[int]:
    """The order with the largest sum over its pairs, the first of equals."""
    better = likelihood - likelihood.T
    order = list(range(len(better)))
    if len(order) <= MOST_PERMUTED:
        best: tuple[int, ...] = max(permutations(order), key=lambda order: _forward(better, order))
        return list(best)
    while True:
        gains = _gains_of_moves(better[np.ix_(order, order)])
        source, target = np.unravel_index(gains.argmax(), gains.shape)
        if gains[source, target] <= LEAST_GAIN:
            return order
        order.insert(int(target), order.pop(int(source)))


def _forward(better: FloatMatrix, order: tuple[int, ...]) -> float:
    pairs = ((u, v) for k, u in enumerate(order) for v in order[k + 1 :])
    return math.fsum(better[u, v] for u, v in pairs)


def _gains_of_moves(better: FloatMatrix) -> FloatMatrix:
    """The gain of moving the i-th variable to position k, shape (p, p); better is antisymmetric."""
    passed = np.cumsum(better, axis=1)
    here = np.diagonal(passed)[:, None]
    earlier = np.tri(len(better), k=-1, dtype=bool)
    return np.where(earlier, here - (passed - better), here - passed)


MOST_BELIEVERS = 40  # variables beyond which a matrix of beliefs is wider than any page


@dataclass(frozen=True, slots=True)
class FedCDOutcome:
    """What a Fed-CD run concludes, by position; p variables."""

    arcs: BoolMatrix  # the DAG, shape (p, p)
    belief: FloatMatrix  # aggregated belief in every edge after the last round, shape (p, p)
    cut: tuple[CutEdge, ...]  # those that would have closed a cycle, the strongest first
    entropies: tuple[float, ...]  # average entropy of the sites' graphs after every round, in bits
    agreed: bool  # whether the run stopped because all sites agreed


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
