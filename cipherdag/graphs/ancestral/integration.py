"""Integration of overlapping data: all PAGs over all variables that PAGs over some of them allow.

A graph fits if among the variables of every group it has the group's PAG. The search decides pair
by pair whether there is an edge, then triple by triple and path by path what collides. It drops
what contradicts the groups, and checks by the definition every graph that is left.

Source: Tillman and Spirtes, "Learning equivalence classes of acyclic models with latent and
selection variables from multiple datasets with overlapping variables", AISTATS 2011. Its algorithm
goes through all sets of edges and of triples; here branches end as soon as ancestors contradict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.graphs.ancestral.classes import dag_of_pag, mag_of_dag, pag_of_dag
from cipherdag.graphs.ancestral.orientation import Grounds, apply_zhang_rules
from cipherdag.graphs.ancestral.partial_graph import GroupConstraints, Pair, PartialGraph
from cipherdag.graphs.ancestral.paths import deciding, possibly_directed, transitive_closure
from cipherdag.graphs.dags import mask_of, members
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL, Endpoints, directed


@dataclass(frozen=True, slots=True, eq=False)
class LocalPAG:
    """A PAG over k of p variables, at ascending positions; endpoints have shape (k, k)."""

    variables: tuple[int, ...]
    endpoints: Endpoints


@dataclass(frozen=True, slots=True, eq=False)
class Integration:
    """The PAGs that fit."""

    pags: tuple[Endpoints, ...]
    complete: bool  # whether these are all PAGs that fit
    looked_at: int  # how many graphs were looked at, including those decided in part
    entailed: Endpoints  # what `entailed` gives without a search, shape (p, p)

    @property
    def common(self) -> Endpoints:
        """Every edge of some PAG that fits, with the marks that hold in all of them, shape (p, p).

        A tail at b says that b causes the other end in all graphs, an arrowhead that in none.
        If the list is not complete, or empty, this is ``entailed``.
        """
        if not self.pags or not self.complete:
            return self.entailed
        joined = np.any([pag != NONE for pag in self.pags], axis=0)
        tails = np.all([transitive_closure(directed(pag)) for pag in self.pags], axis=0)
        arrows = np.all([_no_ancestors(pag) for pag in self.pags], axis=0)
        marks = np.select([tails.T, arrows.T], [TAIL, ARROW], CIRCLE)
        return np.where(joined, marks, NONE).astype(np.int8)


def _no_ancestors(endpoints: Endpoints) -> BoolMatrix:
    """[i, j] is True where i is no ancestor of j: by a mark, or for want of a path."""
    return (endpoints == ARROW).T | ~transitive_closure(possibly_directed(endpoints))


def integrate_pags(
    n_variables: int,
    groups: Sequence[LocalPAG],
    *,
    most: int,
    progress: Callable[[int, int], None] | None = None,
) -> Integration:
    """All PAGs without selection that have the PAG of every group among its variables.

    Where a group's graph is no PAG (`dag_of_pag` gives none), nothing fits. After looking at
    ``most`` graphs the search ends, perhaps without all PAGs. ``progress`` is called after every
    graph with how many were looked at and how many fit.
    """
    certain, sets = entailed(n_variables, groups), _separating_sets(groups)
    if sets is None:
        return Integration((), complete=True, looked_at=0, entailed=certain)
    constraints = _constraints(n_variables, groups, sets)
    sepsets = {pair: frozenset(members(masks[0])) for pair, masks in sets.items()}
    waiting: list[PartialGraph | _PathChoices] = [_start(n_variables, groups)]
    pags: dict[bytes, Endpoints] = {}
    looked_at = 0
    while waiting and looked_at < most:
        graph = waiting.pop()
        looked_at += 1
        if isinstance(graph, PartialGraph):
            if graph.propagate(constraints):
                waiting += graph.branches(constraints) or [_PathChoices(graph.marks(), sepsets)]
        elif further := graph.branches():
            waiting += further
        elif _fits(graph.endpoints, groups):
            pags[graph.endpoints.tobytes()] = graph.endpoints
        if progress is not None:
            progress(looked_at, len(pags))
    return Integration(tuple(pags.values()), not waiting, looked_at, certain)


def entailed(n_variables: int, groups: Sequence[LocalPAG]) -> Endpoints:
    """The edges that no group separates, and the marks that follow without a search.

    Where groups contradict one another, marks are those that some group has and none contradicts.
    """
    graph, sets = _start(n_variables, groups), _separating_sets(groups)
    if sets is None or not graph.propagate(_constraints(n_variables, groups, sets)):
        graph = _start(n_variables, groups)
    return graph.marks()


SeparatingMasks = dict[Pair, list[int]]
"""By pair x < y, a separating set as a bit mask from every group that separates the pair."""


def _separating_sets(groups: Sequence[LocalPAG]) -> SeparatingMasks | None:
    """A separating set of every pair and group; None where some group's graph is no PAG."""
    sets: SeparatingMasks = {}
    for group in groups:
        arcs, variables = dag_of_pag(group.endpoints), group.variables
        if arcs is None:
            return None
        for (i, j), given in mag_of_dag(arcs, range(len(variables)))[1].items():
            mask = mask_of(variables[v] for v in given)
            sets.setdefault((variables[i], variables[j]), []).append(mask)
    return sets


def _constraints(
    n_variables: int, groups: Sequence[LocalPAG], sets: SeparatingMasks
) -> GroupConstraints:
    """What groups say, over all variables."""
    everything = (1 << n_variables) - 1
    constraints = GroupConstraints()
    for pair, masks in sets.items():
        for given in masks:
            constraints.inside[pair] = constraints.inside.get(pair, 0) | given
            constraints.outside[pair] = constraints.outside.get(pair, 0) | everything & ~given
    for group in groups:
        variables, lacking = group.variables, everything & ~mask_of(group.variables)
        for i, j in np.argwhere(np.triu(group.endpoints)).tolist():
            pair = variables[i], variables[j]
            constraints.induced[pair] = (*constraints.induced.get(pair, ()), lacking)
    return constraints


def _start(n_variables: int, groups: Sequence[LocalPAG]) -> PartialGraph:
    """The start: edges are possible unless a group separates their ends; the groups' ancestors."""
    everything = (1 << n_variables) - 1
    possible = [everything & ~(1 << v) for v in range(n_variables)]
    descendants, not_descendants = [0] * n_variables, [0] * n_variables
    for group in groups:
        endpoints, variables = group.endpoints, group.variables
        for i, j in np.argwhere(endpoints == NONE).tolist():
            possible[variables[i]] &= ~(1 << variables[j])
        for i, j in np.argwhere(endpoints == TAIL).tolist():
            descendants[variables[j]] |= 1 << variables[i]
        for i, j in np.argwhere(_no_ancestors(endpoints)).tolist():
            not_descendants[variables[i]] |= 1 << variables[j]
    return PartialGraph([0] * n_variables, possible, descendants, not_descendants)


@dataclass(slots=True)
class _PathChoices:
    """A graph whose edges and triples are decided, but not its discriminating paths.

    Where no group separates a path's two ends, ``assumed`` says whether their separating set holds
    the last variable but one; its keys are the ends and that variable.
    """

    endpoints: Endpoints
    sepsets: dict[Pair, frozenset[int]]
    assumed: dict[tuple[Pair, int], bool] = field(default_factory=dict)

    def branches(self) -> list[_PathChoices]:
        """Orient all that follows; a graph for each answer to the next undecided path, if any."""
        sets = self.sepsets.copy()
        for (pair, b), inside in self.assumed.items():
            sets[pair] = sets.get(pair, frozenset()) | ({b} if inside else set())
        paths: set[tuple[int, ...]] = set()
        while True:
            grounds = Grounds(sets, paths=paths)
            self.endpoints = apply_zhang_rules(self.endpoints, grounds, selection=False)
            new = [path for path in deciding(self.endpoints) if path not in paths]
            ready = [path for path in new if self._decided(path)]
            if new and not ready:
                choice = _ends(new[0]), new[0][-2]
                return [
                    _PathChoices(
                        self.endpoints.copy(), self.sepsets, {**self.assumed, choice: inside}
                    )
                    for inside in (True, False)
                ]
            if not ready:
                return []
            paths.update(ready)

    def _decided(self, path: tuple[int, ...]) -> bool:
        pair = _ends(path)
        return pair in self.sepsets or (pair, path[-2]) in self.assumed


def _ends(path: tuple[int, ...]) -> Pair:
    return min(path[0], path[-1]), max(path[0], path[-1])


def _fits(endpoints: Endpoints, groups: Sequence[LocalPAG]) -> bool:
    """Whether it is a PAG that has each group's PAG among the group's variables."""
    arcs = dag_of_pag(endpoints)
    return arcs is not None and all(
        (pag_of_dag(arcs, group.variables) == group.endpoints).all() for group in groups
    )
