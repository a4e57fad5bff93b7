"""From a DAG some of whose variables nobody measures to the PAG of the others, and back to a DAG.

Sources: Richardson and Spirtes, "Ancestral graph Markov models", Annals of Statistics 30 (2002),
sections 4 (two variables are adjacent unless their ancestors among the measured separate them) and
6 (the canonical DAG of a MAG); Zhang, "On the completeness of orientation rules for causal
discovery in the presence of latent confounders and selection bias", Artificial Intelligence 172
(2008), theorem 2 (a MAG of a PAG's class).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.graphs.ancestral.orientation import Grounds, apply_zhang_rules, with_colliders
from cipherdag.graphs.dags import dag_of, mask_of, matrix_of, members, reachable
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL, Endpoints, circles, directed
from cipherdag.graphs.equivalence import extension
from cipherdag.graphs.extension import topological_order
from cipherdag.graphs.identification.separation import d_connected
from cipherdag.graphs.orientation import colliders_by_sepset


def mag_of_dag(
    arcs: BoolMatrix, measured: Sequence[int], selected: Sequence[int] = ()
) -> tuple[Endpoints, dict[tuple[int, int], frozenset[int]]]:
    """The maximal ancestral graph over some variables, and separating sets of its other pairs.

    The measured, by position, become 0, 1, ...; rows were chosen by ``selected``. There is a set of
    every pair x < z that is not adjacent.
    """
    dag, chosen = dag_of(arcs), mask_of(selected)
    index = {v: k for k, v in enumerate(measured)}
    above = [reachable(dag, 1 << v | chosen) for v in measured]
    endpoints = np.full((len(index), len(index)), NONE, dtype=np.int8)
    sepsets: dict[tuple[int, int], frozenset[int]] = {}
    for (i, x), (j, y) in combinations(enumerate(measured), 2):
        given = (above[i] | above[j]) & mask_of(measured) & ~(1 << x | 1 << y)
        if d_connected(dag, x, given | chosen) >> y & 1:
            endpoints[i, j] = TAIL if above[i] >> y & 1 else ARROW
            endpoints[j, i] = TAIL if above[j] >> x & 1 else ARROW
        else:
            sepsets[i, j] = frozenset(index[v] for v in members(given))
    return endpoints, sepsets


def pag_of_dag(
    arcs: BoolMatrix, measured: Sequence[int], selected: Sequence[int] = ()
) -> Endpoints:
    """The PAG of a DAG over some of its variables; arguments as in `mag_of_dag`."""
    endpoints, sepsets = mag_of_dag(arcs, measured, selected)
    skeleton = endpoints != NONE
    start = with_colliders(circles(skeleton), colliders_by_sepset(skeleton, sepsets))
    return apply_zhang_rules(start, Grounds(sepsets), selection=bool(selected))


def dag_of_pag(endpoints: Endpoints) -> BoolMatrix | None:
    """A DAG whose PAG over its first p variables is this one; None if there is none.

    Its arcs have shape (q, q): variables from p on are unmeasured, one of every double arrow.
    """
    mag = endpoints.copy()
    open_ends = endpoints == CIRCLE
    mag[open_ends & (endpoints.T == ARROW)] = TAIL
    # a MAG if the graph is a PAG: tails for circles at o->, and no new collider among o-o
    chosen = extension([0] * len(endpoints), dag_of(open_ends & open_ends.T))
    if chosen is None or (open_ends & (endpoints.T == TAIL)).any():
        return None
    arrows = matrix_of(chosen)
    mag[arrows], mag[arrows.T] = ARROW, TAIL
    double = np.argwhere(np.triu((mag == ARROW) & (mag.T == ARROW)))
    p, q = len(mag), len(mag) + len(double)
    arcs = np.zeros((q, q), dtype=bool)
    arcs[:p, :p] = directed(mag)
    arcs[np.arange(p, q)[:, None], double] = True
    if topological_order(arcs) is None:
        return None
    return arcs if (pag_of_dag(arcs, range(p)) == endpoints).all() else None
