"""Marks at the ends of edges, and what only some of them allow.

A graph is a matrix of marks, shape (p, p): ``marks[i, j]`` is the mark at j of the edge between i
and j, `NONE` where there is none. So i --> j has `ARROW` at [i, j] and `TAIL` at [j, i].

Leaks:
    Nothing: a graph is already the coordinator's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs.extension import MATRIX_DIMENSIONS

Marks = NDArray[np.int8]
NONE, CIRCLE, ARROW, TAIL = range(4)
DOUBTFUL = 4
"""No mark of a graph: while rules are applied, that an edge may not be there; then what it was."""
SIGNS = {CIRCLE: ("o", "o"), ARROW: ("<", ">"), TAIL: ("-", "-")}
"""How each mark is written at the left and at the right end of an edge."""


def checked_marks(marks: ArrayLike) -> Marks:
    """A copy as a matrix of marks.

    Raises:
        GraphError: Not a square matrix of marks, an edge from a variable to itself, or one that has
            a mark at one end only.
    """
    found = np.array(marks, dtype=np.int8)
    if found.ndim != MATRIX_DIMENSIONS or found.shape[0] != found.shape[1]:
        raise GraphError(f"a graph is a square matrix, not one of shape {found.shape}")
    if not np.isin(found, (NONE, *SIGNS)).all() or found.diagonal().any():
        raise GraphError("marks are 0 (no edge), 1 (circle), 2 (arrow) or 3 (tail), and no loops")
    if ((found > 0) != (found > 0).T).any():
        raise GraphError("an edge has a mark at one end only")
    return found


def circles(skeleton: BoolMatrix) -> Marks:
    """A skeleton with a circle at every end, shape (p, p)."""
    return np.where(skeleton, CIRCLE, NONE).astype(np.int8)


def written(marks: Marks, a: int, b: int) -> str:
    """The mark of an edge seen from a, such as "<-o"."""
    return f"{SIGNS[int(marks[b, a])][0]}-{SIGNS[int(marks[a, b])][1]}"


def directed(marks: Marks) -> BoolMatrix:
    """[i, j] is True where i --> j, shape (p, p)."""
    return (marks == ARROW) & (marks.T == TAIL)


def apart(marks: Marks) -> BoolMatrix:
    """Pairs of different variables that are not adjacent, shape (p, p)."""
    found: BoolMatrix = marks == NONE
    np.fill_diagonal(found, val=False)
    return found


def bits(matrix: BoolMatrix) -> list[int]:
    """Every row as a bit mask."""
    return [sum(1 << int(v) for v in np.flatnonzero(row)) for row in matrix]
