"""Integration of overlapping data: all PAGs over all variables that PAGs over some of them allow.

A graph fits if among the variables of every group it has the group's own PAG. The search decides
pair by pair whether there is an edge, then triple by triple and path by path what collides, leaves
what contradicts what is told, and checks every graph that is left by its definition.

Source: Tillman and Spirtes, "Learning equivalence classes of acyclic models with latent and
selection variables from multiple datasets with overlapping variables", AISTATS 2011. That goes
through all sets of edges and of triples; here branches end as soon as ancestors contradict.

Leaks:
    Nothing: the graphs are already the coordinator's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.graphs.ancestral.orientation import Grounds, completed
from cipherdag.graphs.ancestral.partial import Pair, Partial, Told
from cipherdag.graphs.ancestral.paths import deciding, possibly_directed, reached
from cipherdag.graphs.ancestral.projection import pag_of, projected
from cipherdag.graphs.ancestral.representative import dag_behind
from cipherdag.graphs.dags import mask_of, members
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL, Endpoints, directed


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A PAG over some of p variables.

    Attributes:
        variables: Their positions, ascending.
        marks: Shape (k, k), in their order.
    """

    variables: tuple[int, ...]
    marks: Endpoints


@dataclass(frozen=True, slots=True, eq=False)
class Integrations:
    """The PAGs that fit.

    Attributes:
        pags: Shape (p, p) each.
        complete: Whether they are all.
        looked_at: How many graphs were looked at, those of which not all was decided among them.
        sure: What `followed` finds without a search, shape (p, p).
    """

    pags: tuple[Endpoints, ...]
    complete: bool
    looked_at: int
    sure: Endpoints

    @property
    def common(self) -> Endpoints:
        """Every edge that some graph may have, with what holds in all as marks, shape (p, p).

        A tail or an arrowhead at b: in all graphs b is a cause of the other end, or in none.
        Where the list is not complete, or empty, what follows without it.
        """
        if not self.pags or not self.complete:
            return self.sure
        joined = np.any([own != NONE for own in self.pags], axis=0)
        tails = np.all([_ancestors(own) for own in self.pags], axis=0)
        arrows = np.all([_no_ancestors(own) for own in self.pags], axis=0)
        found = np.select([tails.T, arrows.T], [TAIL, ARROW], CIRCLE)
        return np.where(joined, found, NONE).astype(np.int8)


def _ancestors(marks: Endpoints) -> BoolMatrix:
    """[i, j] is True where directed edges lead from i to j, shape (p, p)."""
    return reached(directed(marks))


def _no_ancestors(marks: Endpoints) -> BoolMatrix:
    """[i, j] is True where i is no ancestor of j: by a mark, or for want of a path."""
    return (marks == ARROW).T | ~reached(possibly_directed(marks))


def integrated(
    n_variables: int,
    groups: Sequence[Local],
    *,
    most: int,
    heard: Callable[[int, int], None] | None = None,
) -> Integrations:
    """All PAGs without selection that have the PAG of every group among its variables.

    Args:
        n_variables: How many variables there are in all, p.
        groups: What is known. Where one is no PAG (`dag_behind` finds nothing), nothing fits.
        most: Graphs to look at; then the search ends, and its list may lack some.
        heard: Told of every graph how many were looked at and how many fit.
    """
    sure, sets = followed(n_variables, groups), _separating(groups)
    if sets is None:
        return Integrations((), complete=True, looked_at=0, sure=sure)
    told = _told(n_variables, groups, sets)
    known = {pair: frozenset(members(own[0])) for pair, own in sets.items()}
    waiting: list[Partial | _Directing] = [_start(n_variables, groups)]
    found: dict[bytes, Endpoints] = {}
    looked_at = 0
    while waiting and looked_at < most:
        graph = waiting.pop()
        looked_at += 1
        if isinstance(graph, Partial):
            if graph.settles(told):
                waiting += graph.branches(told) or [_Directing(graph.marks(), known)]
        elif further := graph.branches():
            waiting += further
        elif _fits(graph.marks, groups):
            found[graph.marks.tobytes()] = graph.marks
        if heard is not None:
            heard(looked_at, len(found))
    return Integrations(tuple(found.values()), not waiting, looked_at, sure)


def followed(n_variables: int, groups: Sequence[Local]) -> Endpoints:
    """The edges that no group separates, and the marks that follow without a search.

    Where groups contradict one another, marks are those that some group has and none gainsays.
    """
    known, sets = _start(n_variables, groups), _separating(groups)
    if sets is None or not known.settles(_told(n_variables, groups, sets)):
        known = _start(n_variables, groups)
    return known.marks()


Separating = dict[Pair, list[int]]
"""Of pairs x < y that some groups separate, a separating set of each group as a bit mask."""


def _separating(groups: Sequence[Local]) -> Separating | None:
    """None where some group's graph is no PAG."""
    found: Separating = {}
    for own in groups:
        arcs, place = dag_behind(own.marks), own.variables
        if arcs is None:
            return None
        for (i, j), given in projected(arcs, range(len(place)))[1].items():
            mask = mask_of(place[v] for v in given)
            found.setdefault((place[i], place[j]), []).append(mask)
    return found


def _told(n_variables: int, groups: Sequence[Local], sets: Separating) -> Told:
    """What groups say, over all variables."""
    everything = (1 << n_variables) - 1
    told = Told()
    for pair, own in sets.items():
        for given in own:
            told.inside[pair] = told.inside.get(pair, 0) | given
            told.outside[pair] = told.outside.get(pair, 0) | everything & ~given
    for own_group in groups:
        place, lacking = own_group.variables, everything & ~mask_of(own_group.variables)
        for i, j in np.argwhere(np.triu(own_group.marks)).tolist():
            pair = place[i], place[j]
            told.induced[pair] = (*told.induced.get(pair, ()), lacking)
    return told


def _start(n_variables: int, groups: Sequence[Local]) -> Partial:
    """Edges but of pairs that some group separates, and the ancestors that groups tell."""
    everything = (1 << n_variables) - 1
    loose = [everything & ~(1 << v) for v in range(n_variables)]
    for own in groups:
        for i, j in np.argwhere(own.marks == NONE).tolist():
            loose[own.variables[i]] &= ~(1 << own.variables[j])
    below, never = [0] * n_variables, [0] * n_variables
    for own in groups:
        place, marks = own.variables, own.marks
        for i, j in np.argwhere(marks == TAIL).tolist():
            below[place[j]] |= 1 << place[i]
        for i, j in np.argwhere(_no_ancestors(marks)).tolist():
            never[place[i]] |= 1 << place[j]
    return Partial([0] * n_variables, loose, below, never)


@dataclass(slots=True)
class _Directing:
    """A graph of which edges and triples are decided, and paths that discriminate are left.

    Attributes:
        marks: Shape (p, p).
        told: Separating sets that groups tell.
        assumed: Whether the variable before the end of a path is in what separates its ends, by
            the pair of those and the variable, where no group tells.
    """

    marks: Endpoints
    told: dict[Pair, frozenset[int]]
    assumed: dict[tuple[Pair, int], bool] = field(default_factory=dict)

    def branches(self) -> list[_Directing]:
        """Direct all that follows; the graphs in which it is assumed of one path more, if any."""
        sets = self.told.copy()
        for (pair, b), inside in self.assumed.items():
            sets[pair] = sets.get(pair, frozenset()) | ({b} if inside else set())
        paths: set[tuple[int, ...]] = set()
        while True:
            self.marks = completed(self.marks, Grounds(sets, paths=paths), selection=False)
            new = [own for own in deciding(self.marks) if own not in paths]
            ready = [own for own in new if self._known(own)]
            if new and not ready:
                return self._either(new[0])
            if not ready:
                return []
            paths.update(ready)

    def _known(self, path: tuple[int, ...]) -> bool:
        pair = _ends(path)
        return pair in self.told or (pair, path[-2]) in self.assumed

    def _either(self, path: tuple[int, ...]) -> list[_Directing]:
        choice = _ends(path), path[-2]
        return [
            _Directing(self.marks.copy(), self.told, {**self.assumed, choice: inside})
            for inside in (True, False)
        ]


def _ends(path: tuple[int, ...]) -> Pair:
    return min(path[0], path[-1]), max(path[0], path[-1])


def _fits(marks: Endpoints, groups: Sequence[Local]) -> bool:
    """Whether it is a PAG that has every group's among the variables of the group."""
    arcs = dag_behind(marks)
    return arcs is not None and all(
        (pag_of(arcs, own.variables) == own.marks).all() for own in groups
    )
