"""How far a learnt PAG is from the true one: edges, and the marks at the ends of shared edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cipherdag.errors import GraphError
from cipherdag.graphs.ancestral.marks import CIRCLE, NONE
from cipherdag.graphs.ancestral.pag import PartialMixedGraph


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
        f1: Of the edges, whatever their marks: 2 common / (edges learnt + true edges), 0 of none.
        share_right: right / ends of the common edges, 0 of none.
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


def compare_pags(learned: PartialMixedGraph, truth: PartialMixedGraph) -> PAGMetrics:
    """Compare two PAGs over the same names in whatever order.

    Args:
        learned: The learnt graph.
        truth: The true PAG, such as that of a true DAG's maximal ancestral graph.

    Raises:
        GraphError: The graphs have different names.
    """
    if set(learned.nodes) != set(truth.nodes):
        apart = sorted(set(learned.nodes) ^ set(truth.nodes))
        raise GraphError(
            f"the graphs have different variables: only one has {apart}",
            remedy="Compare graphs over one schema.",
        )
    order = [truth.nodes.index(name) for name in learned.nodes]
    found, true = learned.marks, truth.marks[np.ix_(order, order)]
    both = (found != NONE) & (true != NONE)
    right = int((both & (found == true)).sum())
    unfounded = int((both & (found != CIRCLE) & (true == CIRCLE)).sum())
    left_open = int((both & (found == CIRCLE) & (true != CIRCLE)).sum())
    ends = int(both.sum())
    edges = int((found != NONE).sum()) + int((true != NONE).sum())
    return PAGMetrics(
        common=ends // 2,
        extra=int((found != NONE).sum() - ends) // 2,
        miss=int((true != NONE).sum() - ends) // 2,
        right=right,
        contrary=ends - right - unfounded - left_open,
        unfounded=unfounded,
        open=left_open,
        f1=2 * ends / edges if edges else 0.0,
        share_right=right / ends if ends else 0.0,
    )
