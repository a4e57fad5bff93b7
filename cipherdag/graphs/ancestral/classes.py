"""Classes of maximal ancestral graphs: the PAG of one, whether marks are a PAG, and one near marks.

A MAG has a tail or an arrowhead at every end, no arrowhead at what its arrows make an ancestor of
the other end, and no two variables without an edge that no set separates.

Sources: Richardson and Spirtes, "Ancestral graph Markov models", Annals of Statistics 30 (2002),
sections 3 and 4; Zhang, "On the completeness of orientation rules for causal discovery in the
presence of latent confounders and selection bias", Artificial Intelligence 172 (2008), theorems 2
and 3 (a MAG of a PAG's class).

Leaks:
    Nothing: graphs only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs.ancestral.orientation import Grounds, completed, with_colliders
from cipherdag.graphs.dags import members, reachable
from cipherdag.graphs.endpoints import (
    ARROW,
    CIRCLE,
    NONE,
    TAIL,
    Endpoints,
    bits,
    circles,
    directed,
    mark_between,
    non_adjacent,
)
from cipherdag.graphs.extension import directed_to_the_end
from cipherdag.graphs.orientation import Triple
from cipherdag.graphs.ranks import ranks

CLOSE_BY = "Correct the edges, or keep them as a PartialMixedGraph, of which nothing is claimed."


def is_pag(marks: Endpoints) -> bool:
    """Whether marks, shape (p, p), are exactly those of the class of some MAG."""
    mag = _mag_of(marks)
    return _is_mag(mag) and bool((pag_of_mag(mag) == marks).all())


def check_pag(names: Sequence[str], marks: Endpoints) -> None:
    """Refuse marks that are no PAG, and say what is wrong with them.

    Args:
        names: The variables, for messages.
        marks: A graph, shape (p, p).

    Raises:
        GraphError: No class of MAGs has exactly these marks.
    """
    mag = _mag_of(marks)
    if not _is_mag(mag):
        raise GraphError(
            f"no ancestral graph has these marks: {_fault(names, mag)}", remedy=CLOSE_BY
        )
    wanted = pag_of_mag(mag)
    if (wanted != marks).any():
        i, j = np.argwhere((wanted != marks) | (wanted != marks).T)[0]
        said, right = mark_between(marks, i, j), mark_between(wanted, i, j)
        raise GraphError(
            f"the edge '{names[i]}' {said} '{names[j]}' is '{names[i]}' {right} '{names[j]}' in "
            "the graphs that have the other edges",
            remedy=CLOSE_BY,
        )


def nearest_pag(marks: Endpoints, open_triples: Collection[Triple] = ()) -> Endpoints:
    """The PAG of a MAG that has the edges and as many of the marks as one can; a copy.

    Where marks contradict each other tails give way to arrowheads, since what says that something
    is no cause are tests of colliders, and a tail follows from several of these.

    Args:
        marks: A graph, shape (p, p).
        open_triples: Unshielded triples of which it is open whether they are colliders.

    Returns:
        Endpoints for which `is_pag` holds.
    """
    mag = _mag_of(marks, open_triples)
    while (turned := _tails_in_the_way(mag)).any():
        mag[turned] = ARROW
    return pag_of_mag(mag)


def pag_of_mag(mag: Endpoints) -> Endpoints:
    """The PAG of the class of a MAG, shape (p, p)."""
    skeleton = mag != NONE
    selection = bool(((mag == TAIL) & (mag.T == TAIL)).any())
    start = with_colliders(circles(skeleton), _colliders(mag))
    return completed(start, Grounds(_SeparatingSets(mag)), selection=selection)


class _SeparatingSets(Mapping[tuple[int, int], frozenset[int]]):
    """Of every pair of a MAG without an edge what is anterior to one of the two."""

    def __init__(self, mag: Endpoints) -> None:
        self._above = _anterior(mag)
        self._apart = np.triu(non_adjacent(mag != NONE))

    def __getitem__(self, pair: tuple[int, int]) -> frozenset[int]:
        x, z = pair
        if not self._apart[x, z]:
            raise KeyError(pair)
        return frozenset(members((self._above[x] | self._above[z]) & ~(1 << x | 1 << z)))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((int(x), int(z)) for x, z in np.argwhere(self._apart))

    def __len__(self) -> int:
        return int(self._apart.sum())


def _mag_of(marks: Endpoints, open_triples: Collection[Triple] = ()) -> Endpoints:
    """Endpoints with no circles, a MAG if they are a PAG (Zhang 2008).

    A circle becomes a tail, and an edge with two of them an arrow, so that few further triples are
    colliders.
    """
    found = marks.copy()
    loose = (marks == CIRCLE) & (marks.T == CIRCLE)
    found[(marks == CIRCLE) & ~loose] = TAIL
    arcs = directed_to_the_end(loose, ranks(loose), open_triples)
    found[arcs & loose] = ARROW
    found[(arcs & loose).T] = TAIL
    return found


def _colliders(mag: Endpoints) -> Iterator[Triple]:
    """The unshielded colliders (x, y, z), x < z."""
    into, beside = bits((mag == ARROW).T), bits(mag != NONE)
    for y, own in enumerate(into):
        for x in members(own):
            for z in members(own & ~beside[x] & ~((2 << x) - 1)):
                yield x, y, z


def _anterior(mag: Endpoints) -> list[int]:
    """Bit mask of every variable and all that paths without arrowheads against them lead from."""
    # from j back to i where i --> j or i --- j
    back = bits(((mag != NONE) & (mag.T == TAIL)).T)
    return [reachable(back, 1 << v) for v in range(len(mag))]


def _is_mag(mag: Endpoints) -> bool:
    """Whether marks without circles are a maximal ancestral graph."""
    return not _tails_in_the_way(mag).any()


def _tails_in_the_way(mag: Endpoints) -> BoolMatrix:
    """Tails, [i, j] at j, at least one of which is wrong in every MAG with the arrowheads.

    None where the graph is a MAG. Of the three kinds only the first found is told.
    """
    into, tails = (mag == ARROW).any(axis=0), mag == TAIL
    undirected: BoolMatrix = tails & tails.T & into[None, :]
    if undirected.any():  # an arrowhead meets an undirected edge
        return undirected
    children = bits(directed(mag))
    below = [reachable(children, own) for own in children]
    cyclic = _closing(mag, below)
    return cyclic if cyclic.any() else _inducing(mag, children, below)


def _closing(mag: Endpoints, below: Sequence[int]) -> BoolMatrix:
    """Tails of arrows i --> j, where j, or what has an arrowhead at both ends with it, leads to i.

    Args:
        mag: Endpoints without circles, shape (p, p).
        below: Bit masks of what arrows lead to from every variable.
    """
    found = np.zeros(mag.shape, dtype=bool)
    parents = bits(directed(mag).T)
    doubles = bits((mag == ARROW) & (mag.T == ARROW))
    for j, (own, beside) in enumerate(zip(parents, doubles, strict=True)):
        reached = below[j]
        for v in members(beside):
            reached |= below[v] | 1 << v
        found[j, list(members(reached & own))] = True
    return found


def _inducing(mag: Endpoints, children: Sequence[int], below: Sequence[int]) -> BoolMatrix:
    """Tails of arrows that make inner variables of inducing paths ancestors of the ends.

    Arguments as of `_closing`, and the bit masks of every variable's children.
    """
    found = np.zeros(mag.shape, dtype=bool)
    doubles, heads = bits((mag == ARROW) & (mag.T == ARROW)), bits(mag == ARROW)
    if not any(doubles):
        return found  # every pair without an edge is separated
    above = [1 << v | own for v, own in enumerate(_turned(below))]
    for x, y in np.argwhere(np.triu(non_adjacent(mag != NONE))).tolist():
        ends = above[x] | above[y]
        inside = ends & ~(1 << x | 1 << y)
        if not (heads[x] & inside and heads[y] & inside):
            continue
        steps = [own & inside for own in doubles]
        inner = reachable(steps, heads[x] & inside) & reachable(steps, heads[y] & inside)
        for q in members(inner):
            found[list(members(children[q] & ends)), q] = True
    return found


def _turned(below: Sequence[int]) -> list[int]:
    """What leads to every variable, from what every variable leads to."""
    found = [0] * len(below)
    for v, own in enumerate(below):
        for w in members(own):
            found[w] |= 1 << v
    return found


def _fault(names: Sequence[str], mag: Endpoints) -> str:
    """One of the arrows that contradict the others, in words."""
    j, i = np.argwhere(_tails_in_the_way(mag))[0]
    return f"'{names[i]}' {mark_between(mag, i, j)} '{names[j]}' contradicts the other edges"
