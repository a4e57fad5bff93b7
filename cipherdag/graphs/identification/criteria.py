"""Graphical criteria: d-separation, and what identifies the effect of a treatment on an outcome.

DAGs, graphs and sets are bit masks, as in `cipherdag.graphs.dags`. *Adjustment* is judged in
a maximal PDAG, *front door* in a DAG, *conditional instruments* in a linear DAG: there z is an
instrument given W if, with the arrows from the treatment x cut, W separates z from the outcome y
and not from x, and neither z nor W is an effect of x. Then y less the effect of x is independent of
z given W, and cov(z, y | W) / cov(z, x | W) is the total effect of x on y.

Sources: Koller and Friedman, "Probabilistic Graphical Models", MIT Press 2009, algorithm 3.1
(active trails); Lauritzen, Dawid, Larsen and Leimer, "Independence properties of directed Markov
fields", Networks 20 (1990) (moral graphs of ancestors); Shen and Liang, "Efficient enumeration of
all minimal separators in a graph", Theoretical Computer Science 180 (1997); Perkovic, Textor,
Kalisch and Maathuis, "Complete graphical characterization and construction of adjustment sets in
Markov equivalence classes of ancestral graphs", JMLR 18 (2018) (amenable, forbidden, blocked);
Perkovic, Kalisch and Maathuis, "Interpreting and using CPDAGs with background knowledge", UAI 2017
(the same with background knowledge); van der Zander, Liskiewicz and Textor, Artificial Intelligence
270 (2019) (the back-door graph and minimal sets); Henckel, Perkovic and Maathuis, "Graphical
criteria for efficient total effect estimation via adjustment in causal linear models", JRSS B 84
(2022) (the optimal set); Pearl, "Causal diagrams for empirical research", Biometrika 82 (1995),
definition 3 (front door); Jeong, Tian and Bareinboim, "Finding and listing front-door adjustment
sets", NeurIPS 2022 (the largest set, by which one is found in polynomial time); Pearl, "Causality",
Cambridge 2009, definition 7.4.1, and Brito and Pearl, "Generalized instrumental variables", UAI
2002 (instruments); van der Zander, Textor and Liskiewicz, "Efficiently finding conditional
instruments for causal inference", IJCAI 2015 (separators near the outcome).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from cipherdag.graphs.dags import Dag, ancestors, mask_of, members, reachable, turned
from cipherdag.graphs.equivalence import Pattern
from cipherdag.graphs.identification.maximal import (
    close_under_meek,
    possible_descendants,
    some_member,
    with_arrow,
)

MOST_SEPARATORS = 100


@dataclass(frozen=True)
class Adjustment:
    """The adjustment criterion for a treatment x and an outcome y in a maximal PDAG."""

    pattern: Pattern
    x: int
    y: int

    @cached_property
    def undirected_start(self) -> int | None:
        """A neighbour of x through which x causes y in some DAGs only; None if amenable."""
        for v in members(self.pattern.neighbours[self.x]):
            directed = close_under_meek(with_arrow(self.pattern, self.x, v))
            if possible_descendants(directed, v) >> self.y & 1:
                return v
        return None

    @cached_property
    def causal(self) -> int:
        """Bit mask of what x causes in all DAGs and what is y or causes y in some of them."""
        below = reachable(self.pattern.children, 1 << self.x) & ~(1 << self.x)
        reach = [(v, possible_descendants(self.pattern, v)) for v in members(below)]
        return sum(1 << v for v, descendants in reach if descendants >> self.y & 1)

    @cached_property
    def forbidden(self) -> int:
        """Bit mask of x, y and what causal variables may cause: adjusting for it would bias."""
        forbidden = 1 << self.x | 1 << self.y
        for v in members(self.causal):
            forbidden |= possible_descendants(self.pattern, v)
        return forbidden

    @cached_property
    def back_doors(self) -> Dag:
        """A DAG of the class without the arrows that begin a causal path from x to y.

        If `undirected_start` is None, a set of allowed variables blocks here iff in all DAGs.
        """
        dag = some_member(self.pattern)
        return without_arrows_from(dag, 1 << self.x, reachable(dag, 1 << self.y))

    def valid(self, given: int) -> bool:
        """Whether adjusting for a set gives the effect in every DAG of the class."""
        if self.undirected_start is not None or given & self.forbidden:
            return False
        return not d_connected(self.back_doors, self.x, given) >> self.y & 1

    def minimal(self, observed: int, most: int) -> list[int]:
        """Valid sets of observed variables of which no part is valid, at most ``most`` of them."""
        moral = moral_graph(self.back_doors, self.x, self.y)
        separators = minimal_separators(moral, self.x, self.y, observed & ~self.forbidden)
        return list(islice(separators, most))

    def optimal(self, observed: int) -> int | None:
        """The valid set of least asymptotic variance; None where part of it is not observed."""
        parents = 0
        for v in members(self.causal):
            parents |= self.pattern.parents[v]
        parents &= ~self.forbidden
        return None if parents & ~observed or not self.valid(parents) else parents

    def best_try(self, observed: int) -> int:
        """The observed variables that block if any do: ancestors of x and y that may be chosen."""
        ancestral = reachable(self.back_doors, 1 << self.x | 1 << self.y)
        return ancestral & observed & ~self.forbidden

    def still_open(self, given: int) -> tuple[int, ...]:
        """A path that is open given a set; empty where the set blocks all but causal ones."""
        return open_path(self.back_doors, self.x, self.y, given)


def front_door_set(dag: Dag, x: int, y: int, observed: int) -> int | None:
    """Observed mediators through which all of x's effect on y goes; no smaller part will do.

    y is a descendant of x, ``observed`` a bit mask of what may be chosen; None without any set.
    """
    free = ~d_connected(without_arrows_from(dag, 1 << x), x, 0)
    chosen = _largest_front_door(dag, x, y, observed & free & ~(1 << x | 1 << y))
    if not _intercepts(dag, x, y, chosen):
        return None
    for v in members(chosen):
        fewer = _largest_front_door(dag, x, y, chosen & ~(1 << v))
        if _intercepts(dag, x, y, fewer):
            chosen = fewer
    return chosen


def _largest_front_door(dag: Dag, x: int, y: int, candidates: int) -> int:
    """The largest set of candidates whose back doors to y are all blocked by x.

    A variable whose back door is open though the arrows from all candidates are cut is in no
    smaller set either: that would cut fewer arrows.
    """
    while True:
        cut = without_arrows_from(dag, candidates)
        blocked = candidates & ~d_connected(cut, y, 1 << x)
        if blocked == candidates:
            return blocked
        candidates = blocked


def _intercepts(dag: Dag, x: int, y: int, mediators: int) -> bool:
    """Whether every directed path from x to y goes through one of the mediators."""
    steps = [children & ~mediators for children in turned(dag)]
    return not reachable(steps, 1 << x) >> y & 1


def conditional_instruments(dag: Dag, x: int, y: int, observed: int) -> Iterator[tuple[int, int]]:
    """Every instrument z that the search finds, with a bit mask of the W given which it is one."""
    cut = without_arrows_from(dag, 1 << x)
    usable = observed & ~reachable(turned(dag), 1 << x) & ~(1 << y)
    for z in members(usable):
        separators = minimal_separators(moral_graph(cut, y, z), y, z, usable & ~(1 << z))
        for given in islice(separators, MOST_SEPARATORS):  # the nearest to y comes first
            if d_connected(cut, z, given) >> x & 1:
                yield z, given
                break


State = tuple[int, bool]  # a variable, and whether its trail came to it from a child


def d_connected(dag: Dag, x: int, given: int) -> int:
    """Bit mask of all that is not d-separated from x by the given variables, x left out."""
    return mask_of(v for v, _ in _predecessors(dag, x, given)) & ~given & ~(1 << x)


def open_path(dag: Dag, x: int, y: int, given: int) -> tuple[int, ...]:
    """A shortest path from x to y that is open given a set; empty where they are d-separated.

    A shortest open trail repeats no variable: the part between two visits could be left out, since
    the variable would stay open (a collider by it has a given descendant on that part).
    """
    before = _predecessors(dag, x, given)
    ends = [] if given >> y & 1 else [state for state in before if state[0] == y]
    trail: list[int] = []
    state = ends[0] if ends else None
    while state is not None:
        trail.append(state[0])
        state = before[state]
    return tuple(reversed(trail))


def moral_graph(dag: Dag, x: int, y: int) -> list[int]:
    """Neighbours in the moral graph over x, y and their ancestors; none of the other variables."""
    neighbours = [0] * len(dag)
    for v in members(reachable(dag, 1 << x | 1 << y)):
        family = dag[v] | 1 << v
        for u in members(family):
            neighbours[u] |= family & ~(1 << u)
    return neighbours


def without_arrows_from(dag: Dag, causes: int, effects: int = -1) -> Dag:
    """The DAG without the arrows from ``causes`` to ``effects``, by default to all variables."""
    return tuple(
        parents & ~causes if effects >> v & 1 else parents for v, parents in enumerate(dag)
    )


def minimal_separators(neighbours: Sequence[int], s: int, t: int, allowed: int) -> Iterator[int]:
    """Every inclusion-minimal set of allowed vertices that cuts s from t, nearest to s first.

    Only vertices of the bit mask ``allowed`` may be chosen, and neither s nor t.
    """
    near = _eliminate(neighbours, ~(allowed | 1 << s | 1 << t))
    if near[s] >> t & 1:
        return
    first = _nearest_separator(near, t, 1 << s)
    seen, waiting = {first}, deque([first])
    while waiting:
        separator = waiting.popleft()
        yield separator
        side = _component(near, s, separator)
        for v in members(separator & ~near[t]):
            further = _nearest_separator(near, t, side | 1 << v)
            if further not in seen:
                seen.add(further)
                waiting.append(further)


def _predecessors(dag: Dag, x: int, given: int) -> dict[State, State | None]:
    """Every state that an active trail from x reaches, nearest first, with the state before it."""
    children, above = turned(dag), ancestors(dag)
    opened = given
    for v in members(given):
        opened |= above[v]
    before: dict[State, State | None] = {(x, True): None}
    waiting = deque(before)
    while waiting:
        state = waiting.popleft()
        v, from_child = state
        passes = not given >> v & 1
        onward = []
        if passes if from_child else opened >> v & 1:
            onward += [(u, True) for u in members(dag[v])]
        if passes:
            onward += [(w, False) for w in members(children[v])]
        for other in onward:
            if other not in before:
                before[other] = state
                waiting.append(other)
    return before


def _eliminate(neighbours: Sequence[int], removed: int) -> list[int]:
    """The graph without some vertices, with the neighbours of each joined to one another."""
    near = list(neighbours)
    for v in members(removed & ((1 << len(near)) - 1)):
        around, near[v] = near[v], 0
        for u in members(around):
            near[u] = (near[u] | around) & ~(1 << u | 1 << v)
    return near


def _component(near: list[int], v: int, removed: int) -> int:
    """Bit mask of what v reaches around the removed vertices, v included."""
    return reachable([vertices & ~removed for vertices in near], 1 << v)


def _nearest_separator(near: list[int], t: int, side: int) -> int:
    """The separator from t that is nearest to a connected set that t has no edge to."""
    beyond = _component(near, t, side | _boundary(near, side))
    return _boundary(near, beyond)


def _boundary(near: list[int], inside: int) -> int:
    """Neighbours of a set of vertices, the set left out."""
    around = 0
    for v in members(inside):
        around |= near[v]
    return around & ~inside
