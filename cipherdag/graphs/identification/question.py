"""A question to a graph by position, and its answers by name.

Positions are those of the sorted names, so that the order of a graph's variables decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from cipherdag.errors import ParameterError
from cipherdag.graphs.dags import mask_of, members
from cipherdag.graphs.equivalence import Pattern
from cipherdag.graphs.identification.adjustment import Adjustment
from cipherdag.graphs.identification.answers import (
    Answer,
    Identified,
    Instrument,
    Method,
    Names,
    NotIdentified,
    Possibility,
    PossibleSets,
    listed,
)
from cipherdag.graphs.identification.front_door import front_door_set
from cipherdag.graphs.identification.instruments import conditional_instruments
from cipherdag.graphs.identification.maximal import (
    completed,
    directed,
    maximal_pattern,
    possible_descendants,
)
from cipherdag.graphs.identification.members import parent_counts, possible_parents
from cipherdag.graphs.mixed_graph import MixedGraph

MOST_SETS = 100
MOST_DAGS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A graph and a question by position; ``observed`` is a bit mask."""

    names: Names
    pattern: Pattern
    x: int
    y: int
    observed: int
    linear: bool

    @classmethod
    def of(
        cls, graph: MixedGraph, first: str, second: str, others: Collection[str], *, linear: bool
    ) -> Question:
        """A question by name; ``others`` are the variables not observed, or given.

        Raises:
            ParameterError: A name is unknown or stands twice.
            GraphError: The graph is no maximal PDAG.
        """
        place = {name: position for position, name in enumerate(sorted(graph.nodes))}
        if isinstance(others, str):
            raise ParameterError(f"'{others}' is one name: give a list of names")
        if unknown := [name for name in (first, second, *others) if name not in place]:
            raise ParameterError(
                f"'{unknown[0]}' is no variable of this graph",
                remedy=f"Its variables are {listed(tuple(place)[:20])}.",
            )
        if first == second:
            raise ParameterError(f"'{first}' is named twice: an effect needs two variables")
        if twice := [name for name in (first, second) if name in others]:
            raise ParameterError(f"'{twice[0]}' cannot be among the other variables")
        order = [graph.nodes.index(name) for name in place]
        return cls(
            names=tuple(place),
            pattern=maximal_pattern(tuple(place), graph.arcs[np.ix_(order, order)]),
            x=place[first],
            y=place[second],
            observed=mask_of(place[name] for name in place if name not in others),
            linear=linear,
        )

    @property
    def others(self) -> int:
        """Bit mask of the variables that are not ``observed``, or are given."""
        return ((1 << len(self.names)) - 1) & ~self.observed

    @property
    def treatment(self) -> str:
        """Name of the first variable."""
        return self.names[self.x]

    @property
    def outcome(self) -> str:
        """Name of the second variable."""
        return self.names[self.y]

    @property
    def is_dag(self) -> bool:
        """Whether every edge is directed."""
        return not any(self.pattern.neighbours)

    def answer(self) -> Answer:
        """What the graph says."""
        adjustment = Adjustment(self.pattern, self.x, self.y)
        if not self._possible or adjustment.undirected_start is None:
            return self.amenable(adjustment)
        return self._over_the_class(adjustment.undirected_start)

    @property
    def _possible(self) -> bool:
        """Whether the treatment causes the outcome in some DAG of the class."""
        return bool(possible_descendants(self.pattern, self.x) >> self.y & 1)

    def amenable(self, adjustment: Adjustment) -> Identified | NotIdentified:
        """The answer where no undirected edge leaves open how the treatment acts."""
        if not self._possible:
            return self._identified("no effect")
        given = adjustment.best_try(self.observed)
        if not (path := adjustment.still_open(given)):
            optimal = adjustment.optimal(self.observed)
            return self._identified(
                "adjustment",
                sets=self._sorted(adjustment.minimal(self.observed, MOST_SETS)),
                optimal=None if optimal is None else self._named(optimal),
            )
        return self._otherwise() or self._not_identified(path, given)

    def _over_the_class(self, undecided: int) -> PossibleSets | NotIdentified:
        """The answers of all DAGs, by what causes the treatment in them (IDA)."""
        counts = parent_counts(self.pattern, self.x, MOST_DAGS)
        found = [
            Possibility(
                parents=self._named(parents),
                answer=self._if_caused_by(parents),
                n_dags=None if counts is None else counts[parents],
            )
            for parents in possible_parents(self.pattern, self.x)
        ]
        found.sort(key=lambda own: (len(own.parents), own.parents))
        refused = [own.answer for own in found if isinstance(own.answer, NotIdentified)]
        if len(refused) == len(found):
            causes = listed(found[0].parents)
            why = f"even if the direct causes of {self.treatment} are {causes}, {refused[0].why}"
            return replace(refused[0], why=why)
        return PossibleSets(
            treatment=self.treatment,
            outcome=self.outcome,
            possibilities=tuple(found),
            undecided=self.names[undecided],
        )

    def _if_caused_by(self, parents: int) -> Identified | NotIdentified:
        """The answer of the DAGs in which the treatment has these parents."""
        pattern = completed(directed(self.pattern, self.x, parents))
        return replace(self, pattern=pattern).amenable(Adjustment(pattern, self.x, self.y))

    def _otherwise(self) -> Identified | None:
        """What identifies the effect in a DAG where no observed set can be adjusted for."""
        if not self.is_dag:
            return None
        dag = self.pattern.parents
        mediators = front_door_set(dag, self.x, self.y, self.observed)
        if mediators is not None:
            return self._identified("front door", sets=self._sorted([mediators]))
        if self.linear and (instruments := self._instruments()):
            return self._identified("instrument", instruments=instruments)
        return None

    def _instruments(self) -> tuple[Instrument, ...]:
        pairs = conditional_instruments(self.pattern.parents, self.x, self.y, self.observed)
        found = [Instrument(self.names[z], self._named(given)) for z, given in pairs]
        return tuple(sorted(found, key=lambda own: (len(own.given), own.variable, own.given)))

    def _identified(
        self,
        method: Method,
        *,
        sets: tuple[Names, ...] = (),
        optimal: Names | None = None,
        instruments: tuple[Instrument, ...] = (),
    ) -> Identified:
        return Identified(
            treatment=self.treatment,
            outcome=self.outcome,
            method=method,
            sets=sets,
            optimal=optimal,
            instruments=instruments,
        )

    def _not_identified(self, path: tuple[int, ...], given: int) -> NotIdentified:
        """The answer where all methods failed; the path is open given all that could block it."""
        tried = self._named(given)
        return NotIdentified(
            treatment=self.treatment,
            outcome=self.outcome,
            why=(
                f"adjusting for {listed(tried)} leaves the path {self._drawn(path)} open, and no "
                f"other observed variables block all paths; {self._what_else()}"
            ),
            open_path=tuple(self.names[v] for v in path),
            given=tried,
        )

    def _what_else(self) -> str:
        """Why the other methods did not help, and which assumption would."""
        if not self.is_dag:
            return "front-door sets and instruments are looked for in DAGs only"
        if self.linear:
            return "there is neither a front-door set nor an instrument"
        if instruments := self._instruments():
            return (
                "there is no front-door set; if all effects are linear, "
                f"{instruments[0]} is an instrument (linear=True)"
            )
        return "there is no front-door set"

    def _drawn(self, path: tuple[int, ...]) -> str:
        """The path with the marks of the graph."""
        words = [self.names[path[0]]]
        for u, v in pairwise(path):
            arrow = "-->" if self.pattern.parents[v] >> u & 1 else "<--"
            words += ["---" if self.pattern.neighbours[v] >> u & 1 else arrow, self.names[v]]
        return " ".join(words)

    def _named(self, mask: int) -> Names:
        return tuple(self.names[v] for v in members(mask))

    def _sorted(self, masks: list[int]) -> tuple[Names, ...]:
        """Sets by name, the smallest first."""
        return tuple(sorted(map(self._named, masks), key=lambda own: (len(own), own)))
