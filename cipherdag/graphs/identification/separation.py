"""d-separation in a DAG, and all minimal separators of an undirected graph.

DAGs, graphs and sets are bit masks, as in `cipherdag.graphs.dags`.

Sources: Koller and Friedman, "Probabilistic Graphical Models", MIT Press 2009, algorithm 3.1
(active trails); Lauritzen, Dawid, Larsen and Leimer, "Independence properties of directed Markov
fields", Networks 20 (1990) (moral graphs of ancestors); Shen and Liang, "Efficient enumeration of
all minimal separators in a graph", Theoretical Computer Science 180 (1997); van der Zander,
Liskiewicz and Textor, "Separators and adjustment sets in causal graphs: complete criteria and an
algorithmic framework", Artificial Intelligence 270 (2019) (only some variables may be chosen).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from cipherdag.graphs.dags import Dag, ancestors, mask_of, members, reachable, turned

State = tuple[int, bool]
"""A variable, and whether its trail came to it from a child."""


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
    """The DAG without the arrows from some variables to some, or to all."""
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
    """The graph without some vertices, the neighbours of each joined instead of paths by it."""
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
