"""From a PAG without selection to a DAG behind it, so that what holds in a DAG is asked of a PAG.

Sources: Zhang, "On the completeness of orientation rules for causal discovery in the presence of
latent confounders and selection bias", Artificial Intelligence 172 (2008), theorem 2 (a MAG of the
class); Richardson and Spirtes, "Ancestral graph Markov models", Annals of Statistics 30 (2002),
section 6 (its canonical DAG).

Leaks:
    Nothing: the graph is already the coordinator's.
"""

from __future__ import annotations

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.graphs.ancestral.projection import pag_of
from cipherdag.graphs.dags import dag_of, matrix_of
from cipherdag.graphs.endpoints import ARROW, CIRCLE, TAIL, Endpoints, directed
from cipherdag.graphs.equivalence import extension
from cipherdag.graphs.extension import topological_order


def dag_behind(marks: Endpoints) -> BoolMatrix | None:
    """A DAG whose PAG over its first p variables is this one; None if there is none.

    Args:
        marks: A graph, shape (p, p).

    Returns:
        Its arcs, shape (q, q): variables from p on are unmeasured, one of every double arrow.
    """
    mag = _mag_of_class(marks)
    if mag is None:
        return None
    arcs = _canonical(mag)
    if topological_order(arcs) is None:
        return None
    same = (pag_of(arcs, range(len(marks))) == marks).all()
    return arcs if same else None


def _mag_of_class(marks: Endpoints) -> Endpoints | None:
    """A MAG if the graph is a PAG: tails for circles at o->, and no new collider among o-o."""
    found = marks.copy()
    open_ends = marks == CIRCLE
    found[open_ends & (marks.T == ARROW)] = TAIL
    chosen = extension([0] * len(marks), list(dag_of(open_ends & open_ends.T)))
    if chosen is None or (open_ends & (marks.T == TAIL)).any():
        return None
    arcs = matrix_of(chosen)
    found[arcs], found[arcs.T] = ARROW, TAIL
    return found


def _canonical(mag: Endpoints) -> BoolMatrix:
    """The DAG of a MAG without undirected edges: an unmeasured cause for every double arrow."""
    double = np.argwhere(np.triu((mag == ARROW) & (mag.T == ARROW)))
    p, q = len(mag), len(mag) + len(double)
    arcs = np.zeros((q, q), dtype=bool)
    arcs[:p, :p] = directed(mag)
    arcs[np.arange(p, q)[:, None], double] = True
    return arcs
