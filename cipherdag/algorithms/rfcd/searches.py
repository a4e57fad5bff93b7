"""How RFcd goes from the empty graph to the best one it finds.

`algorithm_1` is the paper's: it goes over DAGs and only adds edges. `best_first` goes over Markov
equivalence classes and also deletes and reverses edges, so that it can undo an early edge that
proves wrong.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator
from dataclasses import dataclass

from cipherdag.algorithms.rfcd.objectives import Objective, Valued
from cipherdag.arrays import FloatVector
from cipherdag.graphs.dags import Dag, extensions, extensions_by_class
from cipherdag.graphs.equivalence import PHASES, neighbouring, pattern_of
from cipherdag.questions.question import Question

SearchedGraph = Generator[Question, FloatVector, Valued]
"""Asks the sites, and returns the best graph of a search."""


@dataclass(slots=True)
class Progress:
    """The search so far: the best objective after every step, and how many graphs were asked."""

    curve: list[int]
    candidates: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search from a graph.

    Attributes:
        objective: The objective that is minimised.
        kept: How many of the best graphs are kept.
        equivalent_equal: Whether Markov-equivalent graphs have the same objective: then the sites
            are asked about one of each class.
        progress: Updated after every step.
    """

    objective: Objective
    kept: int
    equivalent_equal: bool
    progress: Progress

    def algorithm_1(self, start: Valued) -> SearchedGraph:
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

    def best_first(self, start: Valued) -> SearchedGraph:
        """Expand the best kept class to all its neighbours, until every kept class is expanded."""
        best, left = [start], set[Dag]()
        asked = {pattern_of(start.dag)}
        while dag := next((graph.dag for graph in best if graph.dag not in left), None):
            left.add(dag)
            around = [item for phase in PHASES for item in neighbouring(dag, phase).items()]
            new: dict[Dag, Hashable] = {near: mark for mark, near in around if mark not in asked}
            asked.update(mark for mark, _ in around)
            if new:
                best = yield from self._best_of(best, new)
        return best[0]

    def _best_of(
        self, before: list[Valued], new: dict[Dag, Hashable]
    ) -> Generator[Question, FloatVector, list[Valued]]:
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
