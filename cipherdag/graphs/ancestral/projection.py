"""From a DAG some of whose variables nobody measures to the PAG of the others.

Source: Richardson and Spirtes, "Ancestral graph Markov models", Annals of Statistics 30 (2002),
section 4: two variables are adjacent unless their ancestors among the measured separate them.

Leaks:
    Nothing: the graph is already the coordinator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.graphs.ancestral.orientation import Grounds, completed, with_colliders
from cipherdag.graphs.dags import dag_of, mask_of, members, reachable
from cipherdag.graphs.endpoints import ARROW, NONE, TAIL, Endpoints, circles
from cipherdag.graphs.identification.separation import d_connected
from cipherdag.graphs.orientation import colliders_by_sepset


def projected(
    arcs: BoolMatrix, measured: Sequence[int], selected: Sequence[int] = ()
) -> tuple[Endpoints, dict[tuple[int, int], frozenset[int]]]:
    """The maximal ancestral graph over some variables, and separating sets of its other pairs.

    Args:
        arcs: A DAG, shape (p, p).
        measured: Positions, which become 0, 1, ...
        selected: Positions of what rows were selected by.

    Returns:
        Its marks, and a set of every pair x < z that is not adjacent.
    """
    dag, chosen = dag_of(arcs), mask_of(selected)
    place = {v: k for k, v in enumerate(measured)}
    above = [reachable(dag, 1 << v | chosen) for v in measured]
    marks = np.full((len(place), len(place)), NONE, dtype=np.int8)
    sepsets: dict[tuple[int, int], frozenset[int]] = {}
    for (i, x), (j, y) in combinations(enumerate(measured), 2):
        given = (above[i] | above[j]) & mask_of(measured) & ~(1 << x | 1 << y)
        if d_connected(dag, x, given | chosen) >> y & 1:
            marks[i, j] = TAIL if above[i] >> y & 1 else ARROW
            marks[j, i] = TAIL if above[j] >> x & 1 else ARROW
        else:
            sepsets[i, j] = frozenset(place[v] for v in members(given))
    return marks, sepsets


def pag_of(arcs: BoolMatrix, measured: Sequence[int], selected: Sequence[int] = ()) -> Endpoints:
    """The PAG of a DAG over some of its variables; arguments as in `projected`."""
    marks, sepsets = projected(arcs, measured, selected)
    skeleton = marks != NONE
    start = with_colliders(circles(skeleton), colliders_by_sepset(skeleton, sepsets))
    return completed(start, Grounds(sepsets), selection=bool(selected))
