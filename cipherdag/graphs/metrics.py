"""How far a learnt graph is from the true one: edges, and the marks at their ends."""

from dataclasses import dataclass

import numpy as np

from cipherdag.errors import GraphError
from cipherdag.graphs.endpoints import CIRCLE, NONE, Endpoints
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.mixed_graph import MixedGraph
from cipherdag.graphs.pag import PartialMixedGraph


@dataclass(frozen=True, slots=True)
class GraphMetrics:
    """Counts of unordered pairs, and ratios of them; a ratio with denominator 0 is 0.

    Attributes:
        shd: Structural Hamming distance: reverse + extra + miss.
        reverse: Edges in both graphs with different marks: reversed, or directed in one and
            undirected in the other.
        extra: Edges of the learnt graph only.
        miss: Edges of the true graph only.
        correct: Edges in both graphs with the same marks.
        precision: correct / edges learnt.
        recall: correct / true edges.
        fdr: (reverse + extra) / edges learnt, the false discovery rate.
        f1: Harmonic mean of precision and recall.
        tpr: The same as recall, the true positive rate.
    """

    shd: int
    reverse: int
    extra: int
    miss: int
    correct: int
    precision: float
    recall: float
    fdr: float
    f1: float
    tpr: float

    def __str__(self) -> str:
        return (
            f"SHD {self.shd} (reversed {self.reverse}, extra {self.extra}, missing {self.miss}), "
            f"precision {self.precision:.2f}, recall {self.recall:.2f}, F1 {self.f1:.2f}"
        )


@dataclass(frozen=True, slots=True)
class PAGMetrics:
    """Counts of edges, and of the ends of the edges that both graphs have.

    Attributes:
        common: Edges in both graphs.
        extra: Edges of the learnt graph only.
        miss: Edges of the true graph only.
        right: Ends with the same mark in both.
        contrary: Ends with an arrowhead in one and a tail in the other.
        unfounded: Ends with an arrowhead or a tail that the truth leaves open.
        open: Ends left open that the truth decides.
        f1: Of the edges, whatever their marks: 2 common / (edges learnt + true edges); 0 if none.
        share_right: right / ends of the common edges; 0 if none.
    """

    common: int
    extra: int
    miss: int
    right: int
    contrary: int
    unfounded: int
    open: int
    f1: float
    share_right: float

    def __str__(self) -> str:
        return (
            f"edges: {self.common} common, {self.extra} extra, {self.miss} missing, F1 "
            f"{self.f1:.2f}; ends of common edges: {self.right} right, {self.contrary} contrary, "
            f"{self.unfounded} unfounded, {self.open} left open"
        )


def compare(learned: CausalGraph, truth: CausalGraph) -> GraphMetrics:
    """Compare two DAGs, or two CPDAGs, over the same names in whatever order.

    A DAG compared with a CPDAG is legal but says little: every edge that the CPDAG leaves
    undirected counts as ``reverse``.

    Returns:
        The metrics of Huang et al. (FedPC, section 4.1.2), also for undirected edges, as in
        Tsamardinos, Brown and Aliferis, Machine Learning 65 (2006), for CPDAGs.

    Raises:
        GraphError: The graphs have different names; the message lists the difference.
    """
    ends, true = learned.endpoints, _aligned(learned, truth)
    extra, miss, both = _edge_counts(ends, true)
    same = (ends == true) & (ends == true).T
    correct = int((same & (ends != NONE)).sum()) // 2
    reverse = both - correct
    learnt_edges, true_edges = both + extra, both + miss
    recall = _ratio(correct, true_edges)
    return GraphMetrics(
        shd=reverse + extra + miss,
        reverse=reverse,
        extra=extra,
        miss=miss,
        correct=correct,
        precision=_ratio(correct, learnt_edges),
        recall=recall,
        fdr=_ratio(reverse + extra, learnt_edges),
        f1=_ratio(2 * correct, learnt_edges + true_edges),
        tpr=recall,
    )


def compare_pags(learned: PartialMixedGraph, truth: PartialMixedGraph) -> PAGMetrics:
    """Compare two PAGs over the same names in whatever order.

    GraphError where the graphs have different names; the message lists the difference.
    """
    ends, true = learned.endpoints, _aligned(learned, truth)
    extra, miss, common = _edge_counts(ends, true)
    shared = (ends != NONE) & (true != NONE)
    right = int((shared & (ends == true)).sum())
    unfounded = int((shared & (ends != CIRCLE) & (true == CIRCLE)).sum())
    left_open = int((shared & (ends == CIRCLE) & (true != CIRCLE)).sum())
    return PAGMetrics(
        common=common,
        extra=extra,
        miss=miss,
        right=right,
        contrary=2 * common - right - unfounded - left_open,
        unfounded=unfounded,
        open=left_open,
        f1=_ratio(2 * common, 2 * common + extra + miss),
        share_right=_ratio(right, 2 * common),
    )


def require_graph(other: object) -> None:
    """Raise GraphError for what is no graph, such as a list of edges, in a comparison of graphs."""
    if not isinstance(other, MixedGraph):
        raise GraphError(
            f"a graph is compared with a graph, not with an object of type {type(other).__name__}",
            remedy="Make one of a list of edges: CausalGraph.from_edges(finding.graph.nodes, "
            "directed=edges), or of a CSV of edges: finding.read_graph(Path(file)).",
        )


def _aligned(learned: MixedGraph, truth: MixedGraph) -> Endpoints:
    """The endpoints of the true graph in the order of the learnt one's names."""
    if set(learned.nodes) != set(truth.nodes):
        only_learned = sorted(set(learned.nodes) - set(truth.nodes))
        only_true = sorted(set(truth.nodes) - set(learned.nodes))
        raise GraphError(
            f"the graphs have different variables: only in the learnt graph {only_learned}, "
            f"only in the true graph {only_true}",
            remedy="Compare graphs over one schema.",
        )
    order = [truth.nodes.index(name) for name in learned.nodes]
    return truth.endpoints[np.ix_(order, order)]


def _edge_counts(learned: Endpoints, true: Endpoints) -> tuple[int, int, int]:
    """Edges of the learnt graph only, of the true one only, and of both."""
    learnt, right = learned != NONE, true != NONE
    pairs = (learnt & ~right, ~learnt & right, learnt & right)
    extra, miss, both = (int(count.sum()) // 2 for count in pairs)
    return extra, miss, both


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
