"""Classes of maximal ancestral graphs (MAGs): the PAG of one or of a DAG, and back to a DAG.

A MAG has a tail or an arrowhead at every end, and no arrowhead at an ancestor of the other end.
Some set separates every two variables without an edge.

Sources: Richardson and Spirtes, "Ancestral graph Markov models", Annals of Statistics 30 (2002),
sections 3, 4 (two variables are adjacent unless their ancestors among the measured separate them)
and 6 (the canonical DAG of a MAG); Zhang, "On the completeness of orientation rules for causal
discovery in the presence of latent confounders and selection bias", Artificial Intelligence 172
(2008), theorems 2 and 3 (a MAG of a PAG's class).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs.ancestral.orientation import Grounds, apply_zhang_rules, with_colliders
from cipherdag.graphs.dags import (
    dag_of,
    mask_of,
    matrix_of,
    members,
    reachable,
    row_masks,
    turned,
    unshielded_colliders,
)
from cipherdag.graphs.endpoints import (
    ARROW,
    CIRCLE,
    NONE,
    TAIL,
    Endpoints,
    circles,
    directed,
    mark_between,
    non_adjacent,
)
from cipherdag.graphs.equivalence import extension
from cipherdag.graphs.extension import directed_to_the_end, ranks, topological_order
from cipherdag.graphs.identification.criteria import d_connected
from cipherdag.graphs.orientation import Triple, colliders_by_sepset

CLOSE_BY = "Correct the edges, or keep them as a PartialMixedGraph, which claims nothing."


def is_pag(endpoints: Endpoints) -> bool:
    """Whether marks, shape (p, p), are exactly those of the class of some MAG."""
    mag = _mag_of(endpoints)
    return not _wrong_tails(mag).any() and bool((pag_of_mag(mag) == endpoints).all())


def check_pag(names: Sequence[str], endpoints: Endpoints) -> None:
    """Raise GraphError, which says what is wrong, unless a class of MAGs has these marks."""
    mag = _mag_of(endpoints)
    if (wrong := _wrong_tails(mag)).any():
        j, i = np.argwhere(wrong)[0]
        raise GraphError(
            f"no ancestral graph has these marks: '{names[i]}' {mark_between(mag, i, j)} "
            f"'{names[j]}' contradicts the other edges",
            remedy=CLOSE_BY,
        )
    wanted = pag_of_mag(mag)
    if (wanted != endpoints).any():
        i, j = np.argwhere((wanted != endpoints) | (wanted != endpoints).T)[0]
        given, right = mark_between(endpoints, i, j), mark_between(wanted, i, j)
        raise GraphError(
            f"the edge '{names[i]}' {given} '{names[j]}' is '{names[i]}' {right} '{names[j]}' in "
            "the graphs that have the other edges",
            remedy=CLOSE_BY,
        )


def nearest_pag(endpoints: Endpoints, open_triples: Collection[Triple] = ()) -> Endpoints:
    """The PAG of a MAG that has the edges and as many of the marks as one can; a copy.

    Where marks contradict each other tails give way to arrowheads: an arrowhead rests on a test of
    a collider, a tail on several such tests.

    ``open_triples`` are unshielded triples that may be colliders or not.
    """
    mag = _mag_of(endpoints, open_triples)
    while (wrong := _wrong_tails(mag)).any():
        mag[wrong] = ARROW
    return pag_of_mag(mag)


def pag_of_mag(mag: Endpoints) -> Endpoints:
    """The PAG of the class of a MAG, shape (p, p)."""
    skeleton = mag != NONE
    selection = bool(((mag == TAIL) & (mag.T == TAIL)).any())
    colliders = unshielded_colliders(row_masks((mag == ARROW).T), row_masks(skeleton))
    start = with_colliders(circles(skeleton), colliders)
    return apply_zhang_rules(start, Grounds(_SeparatingSets(mag)), selection=selection)


class _SeparatingSets(Mapping[tuple[int, int], frozenset[int]]):
    """For every pair of a MAG without an edge, the variables that are anterior to either."""

    def __init__(self, mag: Endpoints) -> None:
        # from j back to i where i --> j or i --- j
        back = row_masks(((mag != NONE) & (mag.T == TAIL)).T)
        self._anterior = [reachable(back, 1 << v) for v in range(len(mag))]
        self._pairs = np.triu(non_adjacent(mag != NONE))

    def __getitem__(self, pair: tuple[int, int]) -> frozenset[int]:
        x, z = pair
        if not self._pairs[x, z]:
            raise KeyError(pair)
        anterior = self._anterior[x] | self._anterior[z]
        return frozenset(members(anterior & ~(1 << x | 1 << z)))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((int(x), int(z)) for x, z in np.argwhere(self._pairs))

    def __len__(self) -> int:
        return int(self._pairs.sum())


def _mag_of(endpoints: Endpoints, open_triples: Collection[Triple] = ()) -> Endpoints:
    """Marks with all circles replaced: a MAG if the marks were those of a PAG (Zhang 2008).

    A circle becomes a tail, and an edge with two circles an arrow, in the direction that makes few
    further colliders.
    """
    mag = endpoints.copy()
    loose = (endpoints == CIRCLE) & (endpoints.T == CIRCLE)
    mag[(endpoints == CIRCLE) & ~loose] = TAIL
    arcs = directed_to_the_end(loose, ranks(loose), open_triples)
    mag[arcs & loose] = ARROW
    mag[(arcs & loose).T] = TAIL
    return mag


def _wrong_tails(mag: Endpoints) -> BoolMatrix:
    """Tails, [i, j] at j, at least one of which is wrong in every MAG with the arrowheads.

    None where the graph is a MAG. Of the three kinds only the first that occurs is returned.
    """
    into, tails = (mag == ARROW).any(axis=0), mag == TAIL
    undirected = tails & tails.T & into[None, :]
    if undirected.any():  # an arrowhead meets an undirected edge
        return undirected
    children = row_masks(directed(mag))
    below = [reachable(children, steps) for steps in children]
    cyclic = _closing_tails(mag, below)
    return cyclic if cyclic.any() else _inducing_tails(mag, children, below)


def _closing_tails(mag: Endpoints, below: Sequence[int]) -> BoolMatrix:
    """Tails of arrows i --> j, where j, or some v with j <-> v, leads to i by arrows.

    ``below`` has bit masks of what arrows lead to from every variable.
    """
    wrong = np.zeros(mag.shape, dtype=bool)
    parents = row_masks(directed(mag).T)
    doubles = row_masks((mag == ARROW) & (mag.T == ARROW))
    for j, double in enumerate(doubles):
        reached = below[j]
        for v in members(double):
            reached |= below[v] | 1 << v
        wrong[j, list(members(reached & parents[j]))] = True
    return wrong


def _inducing_tails(mag: Endpoints, children: Sequence[int], below: Sequence[int]) -> BoolMatrix:
    """Tails of arrows that make inner variables of inducing paths ancestors of the ends."""
    wrong = np.zeros(mag.shape, dtype=bool)
    doubles, heads = row_masks((mag == ARROW) & (mag.T == ARROW)), row_masks(mag == ARROW)
    if not any(doubles):
        return wrong  # every pair without an edge is separated
    above = [1 << v | ancestors for v, ancestors in enumerate(turned(below))]
    for x, y in np.argwhere(np.triu(non_adjacent(mag != NONE))).tolist():
        ends = above[x] | above[y]
        inside = ends & ~(1 << x | 1 << y)
        if not (heads[x] & inside and heads[y] & inside):
            continue
        steps = [double & inside for double in doubles]
        inner = reachable(steps, heads[x] & inside) & reachable(steps, heads[y] & inside)
        for q in members(inner):
            wrong[list(members(children[q] & ends)), q] = True
    return wrong


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

    Its arcs have shape (q, q): variables from p on are unmeasured, one for every double arrow.
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
