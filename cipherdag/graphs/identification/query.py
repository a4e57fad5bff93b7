"""Questions to a graph by name: effects, adjustment sets, d-separation, implied independences.

Positions are those of the sorted names, so that the order of a graph's variables decides nothing.

Sources: Pearl and Paz, "Graphoids" (1986), and Textor et al., "Robust causal inference using
directed acyclic graphs: the R package dagitty", Int. J. Epidemiology 45 (2016) (implied
independences, one for every pair without an edge); and the sources of `criteria` and `maximal`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice, pairwise

import numpy as np

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import ParameterError
from cipherdag.graphs.dags import mask_of, members
from cipherdag.graphs.equivalence import Pattern
from cipherdag.graphs.identification.answers import (
    Answer,
    Identified,
    Instrument,
    Names,
    NotIdentified,
    Possibility,
    PossibleSets,
    set_in_words,
)
from cipherdag.graphs.identification.criteria import (
    Adjustment,
    conditional_instruments,
    d_connected,
    front_door_set,
    minimal_separators,
    moral_graph,
)
from cipherdag.graphs.identification.maximal import (
    close_under_meek,
    maximal_pattern,
    parent_counts,
    possible_descendants,
    possible_parents,
    some_member,
    with_parents,
)
from cipherdag.graphs.mixed_graph import MixedGraph

MOST_SETS = 100
MOST_DAGS = 1000
MOST_SEPARATORS_COMPARED = 50
"""Minimal separating sets from either variable that are compared to find a smallest one."""
Independence = tuple[str, str, tuple[str, ...]]


def identify(
    graph: MixedGraph,
    treatment: str,
    outcome: str,
    *,
    unobserved: Collection[str] = (),
    linear: bool = False,
) -> Answer:
    """What identifies the total effect of one variable on another, from the graph alone.

    The graph is a DAG, a CPDAG, or one that background knowledge directs further, and all common
    causes are variables of it. Adjustment is tried first, then in a DAG the front door and, if all
    effects are linear, instruments.

    Args:
        graph: The graph.
        treatment: The cause.
        outcome: The variable that it may act on.
        unobserved: Variables of which there are no data.
        linear: Whether every effect may be taken as linear, so that instruments count.

    Returns:
        `Identified`, or `PossibleSets` where undirected edges leave the effect open (IDA), or
        `NotIdentified`, which says why.

    Raises:
        ParameterError: A name is unknown, or one variable is both treatment and outcome, or one of
            the two is unobserved.
        GraphError: The graph has a directed cycle, stands for no DAG, or is not complete.
    """
    return _EffectQuery.of(graph, treatment, outcome, unobserved, linear=linear).answer()


def parent_sets(graph: MixedGraph, variable: str) -> tuple[tuple[str, ...], ...]:
    """What the direct causes of a variable are in some DAG of the graph, each set once (IDA).

    GraphError where the graph has a directed cycle, stands for no DAG, or is not complete.
    """
    names, arcs = _sorted_arcs(graph)
    every = possible_parents(maximal_pattern(names, arcs), names.index(variable))
    return tuple(tuple(names[v] for v in members(parents)) for parents in every)


def is_adjustment_set(
    graph: MixedGraph, treatment: str, outcome: str, variables: Collection[str]
) -> bool:
    """Whether adjusting for these variables gives the total effect in every DAG of the graph.

    Where the treatment is no cause of the outcome, whether they make the two independent.
    """
    query = _EffectQuery.of(graph, treatment, outcome, variables)
    return Adjustment(query.pattern, query.x, query.y).valid(query.others)


def d_separated(graph: MixedGraph, first: str, second: str, given: Collection[str] = ()) -> bool:
    """Whether the graph says that two variables are independent given others.

    All DAGs of a class say the same.
    """
    query = _EffectQuery.of(graph, first, second, given)
    return not d_connected(some_member(query.pattern), query.x, query.others) >> query.y & 1


def implied_independences(graph: MixedGraph) -> tuple[Independence, ...]:
    """Two variables without an edge, and a smallest set given which they are independent.

    A distribution that has one such independence for every pair has all that the graph implies,
    unless dependences cancel out (pairwise Markov).

    Returns:
        One for every pair, names in alphabetical order. The set is the smallest among the first
        minimal ones; where several are, positions in the alphabet decide.

    Raises:
        GraphError: The graph has a directed cycle, stands for no DAG, or is not complete.
    """
    names, arcs = _sorted_arcs(graph)
    dag = some_member(maximal_pattern(names, arcs))
    joined = arcs | arcs.T
    independences = []
    for x, y in combinations(range(len(names)), 2):
        if not joined[x, y]:
            separator = _smallest(moral_graph(dag, x, y), x, y)
            independences.append((names[x], names[y], tuple(names[v] for v in members(separator))))
    return tuple(independences)


def implies_any(graph: MixedGraph) -> bool:
    """Whether the graph implies any independence: whether a pair has no edge."""
    maximal_pattern(*_sorted_arcs(graph))
    p = len(graph.nodes)
    return int(graph.skeleton().sum()) < p * (p - 1)


def _sorted_arcs(graph: MixedGraph) -> tuple[Names, BoolMatrix]:
    names = tuple(sorted(graph.nodes))
    order = [graph.nodes.index(name) for name in names]
    return names, graph.arcs[np.ix_(order, order)]


def _smallest(neighbours: Sequence[int], x: int, y: int) -> int:
    """Bit mask of a smallest separator among some minimal ones."""
    allowed = ~(1 << x | 1 << y) & ((1 << len(neighbours)) - 1)
    separators = [
        separator
        for ends in ((x, y), (y, x))
        for separator in islice(
            minimal_separators(neighbours, *ends, allowed), MOST_SEPARATORS_COMPARED
        )
    ]
    return min(separators, key=lambda mask: (mask.bit_count(), mask))


@dataclass(frozen=True, slots=True, kw_only=True)
class _EffectQuery:
    """A graph and a question by position; ``observed`` is a bit mask."""

    names: Names
    pattern: Pattern
    x: int
    y: int
    observed: int
    linear: bool

    @classmethod
    def of(
        cls,
        graph: MixedGraph,
        first: str,
        second: str,
        others: Collection[str],
        *,
        linear: bool = False,
    ) -> _EffectQuery:
        """A question by name; ``others`` are the variables not observed, or given."""
        names, arcs = _sorted_arcs(graph)
        if isinstance(others, str):
            raise ParameterError(f"'{others}' is one name: give a list of names")
        if unknown := [name for name in (first, second, *others) if name not in names]:
            raise ParameterError(
                f"'{unknown[0]}' is no variable of this graph",
                remedy=f"Its variables are {set_in_words(names[:20])}.",
            )
        if first == second:
            raise ParameterError(f"'{first}' is named twice: an effect needs two variables")
        if twice := [name for name in (first, second) if name in others]:
            raise ParameterError(f"'{twice[0]}' cannot be among the other variables")
        return cls(
            names=names,
            pattern=maximal_pattern(names, arcs),
            x=names.index(first),
            y=names.index(second),
            observed=mask_of(v for v, name in enumerate(names) if name not in others),
            linear=linear,
        )

    @property
    def others(self) -> int:
        """Bit mask of the variables that are not ``observed``, or are given."""
        return ((1 << len(self.names)) - 1) & ~self.observed

    @property
    def is_dag(self) -> bool:
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
        identified = partial(Identified, treatment=self.names[self.x], outcome=self.names[self.y])
        if not self._possible:
            return identified(method="no effect")
        given = adjustment.best_try(self.observed)
        if not (path := adjustment.still_open(given)):
            optimal = adjustment.optimal(self.observed)
            return identified(
                method="adjustment",
                sets=self._sorted(adjustment.minimal(self.observed, MOST_SETS)),
                optimal=None if optimal is None else self._named(optimal),
            )
        if self.is_dag:
            dag = self.pattern.parents
            mediators = front_door_set(dag, self.x, self.y, self.observed)
            if mediators is not None:
                return identified(method="front door", sets=self._sorted([mediators]))
            if self.linear and (instruments := self._instruments()):
                return identified(method="instrument", instruments=instruments)
        return self._not_identified(path, given)

    def _over_the_class(self, undecided: int) -> PossibleSets | NotIdentified:
        """The answers of all DAGs, by what causes the treatment in them (IDA)."""
        counts = parent_counts(self.pattern, self.x, MOST_DAGS)
        possibilities = [
            Possibility(
                parents=self._named(parents),
                answer=self._if_caused_by(parents),
                n_dags=None if counts is None else counts[parents],
            )
            for parents in possible_parents(self.pattern, self.x)
        ]
        possibilities.sort(key=lambda each: (len(each.parents), each.parents))
        answers = [each.answer for each in possibilities]
        refused = [answer for answer in answers if isinstance(answer, NotIdentified)]
        if len(refused) == len(answers):
            causes = set_in_words(possibilities[0].parents)
            why = f"even if the direct causes of {refused[0].treatment} are {causes}, "
            return replace(refused[0], why=why + refused[0].why)
        return PossibleSets(
            treatment=self.names[self.x],
            outcome=self.names[self.y],
            possibilities=tuple(possibilities),
            undecided=self.names[undecided],
        )

    def _if_caused_by(self, parents: int) -> Identified | NotIdentified:
        """The answer of the DAGs in which the treatment has these parents."""
        pattern = close_under_meek(with_parents(self.pattern, self.x, parents))
        return replace(self, pattern=pattern).amenable(Adjustment(pattern, self.x, self.y))

    def _instruments(self) -> tuple[Instrument, ...]:
        pairs = conditional_instruments(self.pattern.parents, self.x, self.y, self.observed)
        instruments = [Instrument(self.names[z], self._named(given)) for z, given in pairs]
        return tuple(
            sorted(instruments, key=lambda each: (len(each.given), each.variable, each.given))
        )

    def _not_identified(self, path: tuple[int, ...], given: int) -> NotIdentified:
        """The answer where all methods failed; the path is open given all that could block it."""
        tried = self._named(given)
        return NotIdentified(
            treatment=self.names[self.x],
            outcome=self.names[self.y],
            why=(
                f"adjusting for {set_in_words(tried)} leaves the path {self._path(path)} open, and "
                f"no other observed variables block all paths; {self._what_else()}"
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

    def _path(self, path: tuple[int, ...]) -> str:
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
        return tuple(sorted(map(self._named, masks), key=lambda names: (len(names), names)))
