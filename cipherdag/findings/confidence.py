"""How often the edges of a learnt graph came back when sites drew their rows anew.

Leaks:
    Nothing new: the coordinator counts the edges of graphs that it learnt; see `FedPC.bootstrap`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cipherdag.errors import ParameterError
from cipherdag.findings.conclusion import Note
from cipherdag.graphs.edge_evidence import EdgeEvidence
from cipherdag.graphs.graph import CausalGraph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cipherdag.graphs.edge_evidence import GraphEvidence
    from cipherdag.graphs.edges import Edge
    from cipherdag.questions.encodings import BoolMatrix, IndexArray

MEASURE = "share of replicates, over rows drawn anew, in which the edge stands as it was learnt"
SHARES = ("confidence", "any_edge")
COLUMNS = ("from", "to", "mark", *SHARES)
CONSENSUS = 0.5
"""Share of the replicates that a mark of the consensus has at least."""


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

    def consensus(self, threshold: float) -> str:
        """The mark that enough replicates have: "-->", "<--", "---", or "" where too few join them.

        Args:
            threshold: Share of all replicates, above 0, that joins the two, and that has a
                direction; where neither direction has it, or both have, the edge has none.
        """
        least = threshold * self.replicates
        if self.joined < least:
            return ""
        there, back = self.forward >= least, self.backward >= least
        return "---" if there == back else ("-->" if there else "<--")

    def sentence(self, mark: str) -> str:
        """All counts in words."""
        absent = self.replicates - self.joined
        if mark == "-->":
            others = f"the other way in {self.backward}, without direction in {self.undirected}"
        else:
            others = f"from first to second in {self.forward}, the other way in {self.backward}"
        return (
            f"Stands as learnt in {self.as_drawn(mark)} of {self.replicates} replicates over rows "
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
        """The edges of the consensus."""
        edges = tuple(str(edge) for edge in self.consensus(graph.nodes).edges) or ("(no edge)",)
        return Note(
            f"Consensus, the marks that at least {CONSENSUS:.0%} of {self._replicates} replicates "
            "have:",
            edges,
        )

    def shares(self, edge: Edge) -> tuple[float, float]:
        """In which share of replicates the edge stands as it is, and with any mark."""
        own = self.of(edge.source, edge.target)
        return own.as_drawn(edge.mark) / self._replicates, own.joined / self._replicates

    def consensus(self, nodes: Sequence[str], threshold: float = CONSENSUS) -> CausalGraph:
        """The graph of the marks that enough replicates have; see `EdgeConfidence.consensus`.

        Args:
            nodes: All names.
            threshold: Share of the replicates, above 0 and at most 1.

        Raises:
            ParameterError: Another threshold.
        """
        if not 0.0 < threshold <= 1.0:
            raise ParameterError("the threshold of a consensus must be above 0 and at most 1")
        marks = [(a, b, self.of(a, b).consensus(threshold)) for a, b in self._pairs]
        turned = [(b, a, "-->") if mark == "<--" else (a, b, mark) for a, b, mark in marks]
        return CausalGraph.from_marked(nodes, [own for own in turned if own[2]])

    def evidence(self, known: GraphEvidence, graph: CausalGraph) -> GraphEvidence:
        """The evidence of a graph with the confidence of every edge as its strength."""
        edges = []
        for edge in graph.edges:
            own = self.of(edge.source, edge.target)
            drawn = own.as_drawn(edge.mark)
            before = known.of(edge.source, edge.target) or EdgeEvidence(
                edge.source, edge.target, 0.0, ""
            )
            edges.append(
                replace(
                    before,
                    strength=drawn / self._replicates,
                    shown=f"{drawn}/{self._replicates}",
                    facts=(own.sentence(edge.mark), *before.facts),
                    consensus=own.consensus(CONSENSUS),
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
