"""How often the edges of a learnt graph came back when sites drew their rows anew.

Leaks:
    Nothing new: the coordinator counts the edges of graphs that it learnt; see `FedPC.bootstrap`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cipherdag.findings.conclusion import Note
from cipherdag.graphs.edge_evidence import EdgeEvidence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.graphs.edge_evidence import GraphEvidence
    from cipherdag.graphs.edges import Edge
    from cipherdag.graphs.graph import CausalGraph
    from cipherdag.questions.encodings import BoolMatrix, IndexArray

MEASURE = "share of replicates, over rows drawn anew, in which the edge stands as it is drawn"
SHARES = ("confidence", "any_edge")
COLUMNS = ("from", "to", "mark", *SHARES)


@dataclass(frozen=True, slots=True)
class EdgeConfidence:
    """In how many replicates two variables are joined, and how.

    Attributes:
        replicates: How many there were.
        forward: Those with source --> target.
        backward: Those with target --> source.
        undirected: Those with source --- target.
    """

    replicates: int
    forward: int
    backward: int
    undirected: int

    @property
    def joined(self) -> int:
        """Replicates with an edge of any mark."""
        return self.forward + self.backward + self.undirected

    def as_drawn(self, mark: str) -> int:
        """Replicates with the edge source-mark-target."""
        return self.forward if mark == "-->" else self.undirected

    def sentence(self, mark: str) -> str:
        """All counts in words."""
        absent = self.replicates - self.joined
        if mark == "-->":
            others = f"the other way in {self.backward}, without direction in {self.undirected}"
        else:
            others = f"from first to second in {self.forward}, the other way in {self.backward}"
        return (
            f"Stands as drawn in {self.as_drawn(mark)} of {self.replicates} replicates over rows "
            f"drawn anew; {others}, absent in {absent}."
        )


def bootstrap_details(counts: EdgeCounts, names: Sequence[str]) -> dict[str, Any]:
    """The counts of every pair that is joined in some replicate, by name."""
    joined = counts.directed + counts.directed.T + counts.undirected
    return {
        "replicates": counts.replicates,
        "pairs": [
            {
                "from": names[x],
                "to": names[z],
                "forward": int(counts.directed[x, z]),
                "backward": int(counts.directed[z, x]),
                "undirected": int(counts.undirected[x, z]),
            }
            for x, z in np.argwhere(np.triu(joined)).tolist()
        ],
    }


class Confidences:
    """The confidence of edges by name.

    Args:
        details: What a result says of its replicates, as `bootstrap_details`.
    """

    def __init__(self, details: Mapping[str, Any]) -> None:
        self._replicates = int(details["replicates"])
        self._pairs = {(own["from"], own["to"]): own for own in details["pairs"]}

    def of(self, source: str, target: str) -> EdgeConfidence:
        """The counts of one pair, seen from ``source``."""
        turned = self._pairs.get((target, source), {})
        own = self._pairs.get((source, target)) or {
            "forward": turned.get("backward", 0),
            "backward": turned.get("forward", 0),
            "undirected": turned.get("undirected", 0),
        }
        counts = (int(own[kind]) for kind in ("forward", "backward", "undirected"))
        return EdgeConfidence(self._replicates, *counts)

    def rows(self, graph: CausalGraph) -> list[tuple[Any, ...]]:
        """`COLUMNS` of every edge of a graph; shares between 0 and 1."""
        return [(e.source, e.target, e.mark, *self.shares(e)) for e in graph.edges]

    def note(self, graph: CausalGraph) -> Note:
        """Every edge with the share of replicates that have it, as drawn and in any way."""
        lines = (
            f"{exact:4.2f} {joined:4.2f}   {source} {mark} {target}"
            for source, target, mark, exact, joined in self.rows(graph)
        )
        title = (
            f"Share of {self._replicates} replicates that have the edge, and that join the two at "
            "all:"
        )
        return Note(title, tuple(lines))

    def shares(self, edge: Edge) -> tuple[float, float]:
        """In which share of replicates the edge stands as it is, and with any mark."""
        own = self.of(edge.source, edge.target)
        return own.as_drawn(edge.mark) / self._replicates, own.joined / self._replicates

    def evidence(self, known: GraphEvidence, graph: CausalGraph) -> GraphEvidence:
        """The evidence of a graph with the confidence of every edge as its strength."""
        edges = []
        for edge in graph.edges:
            own = self.of(edge.source, edge.target)
            drawn = own.as_drawn(edge.mark)
            before = known.of(edge.source, edge.target)
            edges.append(
                EdgeEvidence(
                    source=edge.source,
                    target=edge.target,
                    strength=drawn / self._replicates,
                    shown=f"{drawn}/{self._replicates}",
                    facts=(own.sentence(edge.mark), *(() if before is None else before.facts)),
                    p_value=None if before is None else before.p_value,
                    given=() if before is None else before.given,
                )
            )
        return replace(known, measure=MEASURE, edges=tuple(edges))


@dataclass(frozen=True, slots=True, eq=False)
class EdgeCounts:
    """In how many replicates every edge occurs; p variables.

    Attributes:
        replicates: How many there were.
        directed: Those with i -> j, shape (p, p).
        undirected: Those with i - j, shape (p, p), symmetric.
    """

    replicates: int
    directed: IndexArray
    undirected: IndexArray

    @classmethod
    def of(cls, graphs: Sequence[BoolMatrix]) -> EdgeCounts:
        """The counts of graphs, at least one, as `FedPCOutcome.arcs`."""
        both = np.array([arcs & arcs.T for arcs in graphs])
        return cls(len(graphs), (np.array(graphs) & ~both).sum(axis=0), both.sum(axis=0))
