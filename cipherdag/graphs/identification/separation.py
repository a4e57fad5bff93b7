"""d-separation in a DAG: what stays connected given a set, and along which path.

DAGs and sets are bit masks, as in `cipherdag.graphs.dags`.

Sources: Koller and Friedman, "Probabilistic Graphical Models", MIT Press 2009, algorithm 3.1
(active trails); Lauritzen, Dawid, Larsen and Leimer, "Independence properties of directed Markov
fields", Networks 20 (1990) (moral graphs of ancestors).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from cipherdag.graphs.dags import Dag, ancestors, mask_of, members, turned

State = tuple[int, bool]
"""A variable, and whether its trail came to it from a child."""


def closure(steps: list[int] | Dag, start: int) -> int:
    """Bit mask of some variables and all that is reached from them along bit masks of steps."""
    reached, new = start, start
    while new:
        following = 0
        for v in members(new):
            following |= steps[v]
        new = following & ~reached
        reached |= new
    return reached


def connected(dag: Dag, x: int, given: int) -> int:
    """Bit mask of all that is not d-separated from x by the given variables, x left out.

    Args:
        dag: Parents of every variable.
        x: A variable.
        given: Bit mask, without x.
    """
    return mask_of(v for v, _ in _came_from(dag, x, given)) & ~given & ~(1 << x)


def open_path(dag: Dag, x: int, y: int, given: int) -> tuple[int, ...]:
    """A shortest path from x to y that is open given a set; empty where they are d-separated.

    A shortest open trail repeats no variable: the part between two visits could be left out, since
    the variable would stay open (a collider by it has a given descendant on that part).
    """
    before = _came_from(dag, x, given)
    ends = [] if given >> y & 1 else [state for state in before if state[0] == y]
    trail: list[int] = []
    state = ends[0] if ends else None
    while state is not None:
        trail.append(state[0])
        state = before[state]
    return tuple(reversed(trail))


def moral(dag: Dag, x: int, y: int) -> list[int]:
    """Neighbours in the moral graph over x, y and their ancestors; none of the other variables."""
    kept = closure(dag, 1 << x | 1 << y)
    beside = [0] * len(dag)
    for v in members(kept):
        family = dag[v] | 1 << v
        for u in members(family):
            beside[u] |= family & ~(1 << u)
    return beside


def without_arrows_from(dag: Dag, causes: int, effects: int | None = None) -> Dag:
    """The DAG without the arrows from some variables, to all or to some."""
    return tuple(
        parents if effects is not None and not effects >> v & 1 else parents & ~causes
        for v, parents in enumerate(dag)
    )


def _came_from(dag: Dag, x: int, given: int) -> dict[State, State | None]:
    """Every state that an active trail from x reaches, nearest first, with the state before it."""
    children, above = turned(dag), ancestors(dag)
    opened = given
    for v in members(given):
        opened |= above[v]
    before: dict[State, State | None] = {(x, True): None}
    waiting = deque(before)
    while waiting:
        state = waiting.popleft()
        for other in _onward(dag, children, state, given, opened):
            if other not in before:
                before[other] = state
                waiting.append(other)
    return before


def _onward(
    dag: Dag, children: list[int], state: State, given: int, opened: int
) -> Iterator[State]:
    v, from_child = state
    passes = not given >> v & 1
    if passes if from_child else opened >> v & 1:
        yield from ((u, True) for u in members(dag[v]))
    if passes:
        yield from ((w, False) for w in members(children[v]))
