"""How far a learnt graph is from the true one, edge by edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cipherdag.errors import GraphError
from cipherdag.graphs.graph import CausalGraph


@dataclass(frozen=True, slots=True)
class GraphMetrics:
    """Counts of unordered pairs, and ratios of them; a ratio of nothing is 0.

    Attributes:
        shd: Structural Hamming distance: reverse + extra + miss.
        reverse: Edges in both graphs with different marks: turned round, or directed in one and
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


def compare(learned: CausalGraph, truth: CausalGraph) -> GraphMetrics:
    """Compare two DAGs, or two CPDAGs, over the same names in whatever order.

    A DAG compared with a CPDAG is legal but says little: every edge that the CPDAG leaves
    undirected counts as ``reverse``.

    Args:
        learned: The learnt graph.
        truth: The true graph.

    Returns:
        The metrics of Huang et al. (FedPC, section 4.1.2), also for undirected edges, as in
        Tsamardinos, Brown and Aliferis, Machine Learning 65 (2006), for CPDAGs.

    Raises:
        GraphError: The graphs have different names; the message lists the difference.
    """
    if set(learned.nodes) != set(truth.nodes):
        raise GraphError(_difference(learned, truth), remedy="Compare graphs over one schema.")
    order = [truth.nodes.index(name) for name in learned.nodes]
    found, true = learned.arcs, truth.arcs[np.ix_(order, order)]
    upper = np.triu(np.ones_like(found), k=1)
    in_found, in_true = (found | found.T) & upper, (true | true.T) & upper
    same = (found == true) & (found == true).T
    correct = int((in_found & in_true & same).sum())
    reverse = int((in_found & in_true & ~same).sum())
    extra = int((in_found & ~in_true).sum())
    miss = int((in_true & ~in_found).sum())
    learnt_edges, true_edges = correct + reverse + extra, correct + reverse + miss
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


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _difference(learned: CausalGraph, truth: CausalGraph) -> str:
    only_learned = sorted(set(learned.nodes) - set(truth.nodes))
    only_true = sorted(set(truth.nodes) - set(learned.nodes))
    return (
        f"the graphs have different variables: only in the learnt graph {only_learned}, "
        f"only in the true graph {only_true}"
    )
