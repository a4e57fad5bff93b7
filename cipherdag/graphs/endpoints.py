"""Graphs as matrices: endpoint marks, and arcs of graphs that have tails and arrowheads only.

Endpoint marks are numbered as in the R package pcalg, shape (p, p): ``endpoints[i, j]`` is the mark
at j of the edge between i and j, `NONE` without one. So i --> j has `ARROW` at [i, j] and `TAIL` at
[j, i]. Where every edge is i --> j or i --- j, a boolean matrix says the same: ``arcs[i, j]`` is
True where i --> j or i --- j, so that an undirected edge stands both ways.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError

Endpoints = NDArray[np.int8]
NONE, CIRCLE, ARROW, TAIL = range(4)
SIGNS = {CIRCLE: ("o", "o"), ARROW: ("<", ">"), TAIL: ("-", "-")}
"""How each endpoint is written at the left and at the right end of an edge."""
BOTH_ENDS = "Set both entries of an edge: [i, j] is the mark at j, and [j, i] that at i."
ENDPOINTS = {sign: endpoint for endpoint, signs in SIGNS.items() for sign in signs}
Matrix = TypeVar("Matrix", BoolMatrix, Endpoints)


def _square(matrix: Matrix) -> Matrix:
    if matrix.ndim != len(("rows", "columns")) or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(
            f"a graph is a square matrix, not one of shape {matrix.shape}",
            remedy="Give one row and one column for each variable.",
        )
    return matrix


def checked_arcs(arcs: ArrayLike) -> BoolMatrix:
    """A copy as a boolean matrix of arcs; raises GraphError if it is not square or has a loop."""
    matrix = _square(np.array(arcs, dtype=np.bool_))
    if matrix.diagonal().any():
        first = int(np.flatnonzero(matrix.diagonal())[0])
        raise GraphError(f"the variable at position {first} has an edge to itself")
    return matrix


def checked_endpoints(endpoints: ArrayLike) -> Endpoints:
    """A copy as a matrix of endpoint marks.

    GraphError for no square matrix of marks, an edge from a variable to itself, or one that
    has a mark at one end only.
    """
    matrix = _square(np.array(endpoints, dtype=np.int8))
    if not np.isin(matrix, (NONE, *SIGNS)).all() or matrix.diagonal().any():
        raise GraphError(
            "marks are 0 (no edge), 1 (circle), 2 (arrow) or 3 (tail), and no loops",
            remedy=BOTH_ENDS,
        )
    if ((matrix > 0) != (matrix > 0).T).any():
        raise GraphError("an edge has a mark at one end only", remedy=BOTH_ENDS)
    return matrix


def endpoints_of(arcs: ArrayLike) -> Endpoints:
    """The endpoint marks of a matrix of arcs."""
    matrix = checked_arcs(arcs)
    ends = np.where(matrix & ~matrix.T, ARROW, TAIL)
    return np.where(matrix | matrix.T, ends, NONE).astype(np.int8)


def arcs_of(endpoints: Endpoints) -> BoolMatrix:
    """[i, j] is True where i and j are adjacent, unless only i has an arrowhead; shape (p, p)."""
    into = endpoints == ARROW
    return (endpoints != NONE) & ~(into.T & ~into)


def circles(skeleton: BoolMatrix) -> Endpoints:
    """A skeleton with a circle at every end, shape (p, p)."""
    return np.where(skeleton, CIRCLE, NONE).astype(np.int8)


def mark_between(endpoints: Endpoints, a: int, b: int) -> str:
    """The mark of an edge seen from a, such as "<-o"."""
    return f"{SIGNS[int(endpoints[b, a])][0]}-{SIGNS[int(endpoints[a, b])][1]}"


def directed(endpoints: Endpoints) -> BoolMatrix:
    """[i, j] is True where i --> j, shape (p, p)."""
    return (endpoints == ARROW) & (endpoints.T == TAIL)


def non_adjacent(skeleton: BoolMatrix) -> BoolMatrix:
    """Pairs of different variables that no edge joins, shape (p, p)."""
    pairs = ~skeleton
    np.fill_diagonal(pairs, val=False)
    return pairs
