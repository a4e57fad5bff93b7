"""How RFcd goes from the empty graph to the best one it finds.

A regret is a score at a site, which is a cost, less that of the site's best graph. Minimised are:
``graph``, the paper's objective, the largest regret of a graph over sites (Eq. 2), by a secure
search that resolves the best alone. ``nodewise`` sums each family's largest regret over
sites (PERI), ``sum`` the regrets of all sites; the coordinator asks once for each family's value.

`algorithm_1` is the paper's: it goes over DAGs and only adds edges. `best_first` goes over Markov
equivalence classes and also deletes and reverses edges, so that it can undo an early edge that
proves wrong.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cipherdag.arrays import IndexArray
from cipherdag.graphs.dags import (
    Dag,
    Family,
    arcs_in_order,
    extensions,
    extensions_by_class,
    n_edges,
)
from cipherdag.graphs.equivalence import PHASES, neighbouring, pattern_of
from cipherdag.questions.comparison import secure_lowest
from cipherdag.questions.encodings import require_possible
from cipherdag.questions.question import Asking
from cipherdag.questions.regrets import (
    FamilyRegretExceeds,
    FamilyRegrets,
    GraphRegretExceeds,
    ScoreSpec,
    largest_on_grid,
    pack_families,
    pack_graphs,
    pack_thresholds,
)


@dataclass(frozen=True, slots=True)
class Valued:
    """A graph and its objective on the grid."""

    value: int
    dag: Dag

    @property
    def rank(self) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        """Smallest objective, then fewest edges, then first in lexicographic order."""
        return self.value, n_edges(self.dag), arcs_in_order(self.dag)


class Objective(Protocol):
    """Finds the best of some graphs."""

    def best(
        self, graphs: Mapping[Dag, Hashable], *, keep: int, near: int, worst: int | None
    ) -> Asking[list[Valued]]:
        """The ``keep`` best of candidate graphs, best first; ``graphs`` gives each a mark.

        Graphs of the same mark have the same objective. ``near`` is a guess at the best objective,
        where a search starts; graphs above ``worst`` are left out, unless it is None.
        """
        ...


BEYOND = "a regret beyond the grid"


@dataclass(frozen=True, slots=True)
class WorstGraphRegret:
    """max_i R_i(G), the objective of the paper (Eq. 2)."""

    n_variables: int
    spec: ScoreSpec
    grid_bits: int

    def best(
        self, graphs: Mapping[Dag, Hashable], *, keep: int, near: int, worst: int | None
    ) -> Asking[list[Valued]]:
        """As `Objective.best`; one secure search asks about one graph of every mark."""
        if not graphs:
            return []
        limit = largest_on_grid(self.grid_bits)
        by_mark: dict[Hashable, list[Dag]] = {}
        for dag, mark in graphs.items():
            by_mark.setdefault(mark, []).append(dag)
        groups = list(by_mark.values())
        indices, values = yield from secure_lowest(
            lambda asked, t: self._question([groups[k][0] for k in asked.tolist()], t),
            len(groups),
            sizes=np.array(list(map(len, groups)), dtype=np.int64),
            lowest=-limit,
            highest=limit if worst is None else worst,
            near=near,
            keep=keep,
        )
        valued = [
            Valued(value, dag)
            for index, value in zip(indices.tolist(), values.tolist(), strict=True)
            for dag in groups[index]
        ]
        return sorted(valued, key=lambda graph: graph.rank)[:keep]

    def _question(self, graphs: Sequence[Dag], thresholds: IndexArray) -> GraphRegretExceeds:
        families, packed = pack_graphs(graphs)
        return GraphRegretExceeds(
            n_variables=self.n_variables,
            spec=self.spec,
            families=families,
            graphs=packed,
            n_graphs=len(graphs),
            thresholds=pack_thresholds(thresholds),
            grid_bits=self.grid_bits,
        )


class SumOverFamilies:
    """Objectives that are sums over families, on the grid: ``nodewise`` and ``sum``.

    In the ``worst_case`` a family counts with its largest regret over sites, else with the sum.
    """

    def __init__(
        self, n_variables: int, spec: ScoreSpec, grid_bits: int, *, worst_case: bool
    ) -> None:
        self._n_variables = n_variables
        self._spec = spec
        self._grid_bits = grid_bits
        self._worst_case = worst_case
        self._values: dict[Family, int] = {}

    def best(
        self, graphs: Mapping[Dag, Hashable], *, keep: int, near: int, worst: int | None
    ) -> Asking[list[Valued]]:
        """As `Objective.best`; asks for the families that are not known yet."""
        del near
        asked = dict.fromkeys(family for dag in graphs for family in enumerate(dag))
        new = [family for family in asked if family not in self._values]
        if new:
            values = yield from self._largest(new) if self._worst_case else self._sums(new)
            self._values |= zip(new, values, strict=True)
        valued = [
            Valued(sum(self._values[family] for family in enumerate(dag)), dag) for dag in graphs
        ]
        limit = math.inf if worst is None else worst
        within = [graph for graph in valued if graph.value <= limit]
        return sorted(within, key=lambda graph: graph.rank)[:keep]

    def _largest(self, families: Sequence[Family]) -> Asking[list[int]]:
        limit = largest_on_grid(self._grid_bits)
        _, values = yield from secure_lowest(
            lambda asked, t: FamilyRegretExceeds(
                n_variables=self._n_variables,
                spec=self._spec,
                families=pack_families([families[k] for k in asked.tolist()], self._n_variables),
                thresholds=pack_thresholds(t),
                grid_bits=self._grid_bits,
            ),
            len(families),
            lowest=-limit,
            highest=limit,
            near=0,
            keep=len(families),
        )
        require_possible("regrets of families", BEYOND, holds=len(values) == len(families))
        return values.tolist()

    def _sums(self, families: Sequence[Family]) -> Asking[list[int]]:
        sums = yield FamilyRegrets(
            n_variables=self._n_variables,
            spec=self._spec,
            families=pack_families(families, self._n_variables),
            grid_bits=self._grid_bits,
        )
        return np.rint(np.ldexp(sums, self._grid_bits)).astype(np.int64).tolist()


@dataclass(slots=True)
class Progress:
    """The search so far: the best objective after every step, and how many graphs were asked."""

    curve: list[int]
    candidates: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search from a graph, which keeps the ``kept`` best.

    Where Markov-equivalent graphs have the same objective (``equivalent_equal``), the sites are
    asked about one of each class. ``progress`` is updated after every step.
    """

    objective: Objective
    kept: int
    equivalent_equal: bool
    progress: Progress

    def algorithm_1(self, start: Valued) -> Asking[Valued]:
        """Lines 8 to 17: ask about all extensions of the beam, until none is new."""
        beam, extended = [start], set[Dag]()
        asked = {start.dag}
        while True:
            # a graph asked before is in the beam already, or was worse than what is in it now
            fresh = [graph.dag for graph in beam if graph.dag not in extended]
            new = {
                other: mark
                for dag in fresh
                for other, mark in self._extensions(dag)
                if other not in asked
            }
            extended.update(fresh)
            if not new:
                return beam[0]
            asked.update(new)
            beam = yield from self._best_of(beam, new)

    def best_first(self, start: Valued) -> Asking[Valued]:
        """Expand the best kept class to all its neighbours, until every kept class is expanded."""
        best, expanded = [start], set[Dag]()
        asked = {pattern_of(start.dag)}
        while dag := next((graph.dag for graph in best if graph.dag not in expanded), None):
            expanded.add(dag)
            around = [item for phase in PHASES for item in neighbouring(dag, phase).items()]
            new: dict[Dag, Hashable] = {other: mark for mark, other in around if mark not in asked}
            asked.update(mark for mark, _ in around)
            if new:
                best = yield from self._best_of(best, new)
        return best[0]

    def _best_of(self, before: list[Valued], new: dict[Dag, Hashable]) -> Asking[list[Valued]]:
        """The best of the graphs kept before and the new ones, which are asked about."""
        self.progress.candidates += len(new)
        better = yield from self.objective.best(
            new,
            keep=self.kept,
            near=before[0].value,
            worst=before[-1].value if len(before) >= self.kept else None,
        )
        best = sorted([*before, *better], key=lambda graph: graph.rank)[: self.kept]
        self.progress.curve.append(best[0].value)
        return best

    def _extensions(self, dag: Dag) -> Iterator[tuple[Dag, Hashable]]:
        """Extensions, each with a mark; those with the same mark have the same objective."""
        if self.equivalent_equal:
            return extensions_by_class(dag)
        return ((other, other) for other in extensions(dag))
