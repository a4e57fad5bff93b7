"""All minimal sets that separate two vertices of an undirected graph, in polynomial time each.

Sources: Shen and Liang, "Efficient enumeration of all minimal separators in a graph", Theoretical
Computer Science 180 (1997); van der Zander, Liskiewicz and Textor, "Separators and adjustment sets
in causal graphs: complete criteria and an algorithmic framework", Artificial Intelligence 270
(2019), for moral graphs in which only some variables may be chosen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from cipherdag.graphs.dags import members
from cipherdag.graphs.identification.separation import closure


def minimal_separators(beside: list[int], s: int, t: int, allowed: int) -> Iterator[int]:
    """Every inclusion-minimal set of allowed vertices that cuts s from t, nearest to s first.

    Args:
        beside: Neighbours of every vertex, as bit masks.
        s: A vertex.
        t: Another.
        allowed: Bit mask of the vertices that may be chosen; s and t may not.
    """
    near = _without(beside, ~(allowed | 1 << s | 1 << t))
    if near[s] >> t & 1:
        return
    first = _next_to(near, t, 1 << s)
    seen, waiting = {first}, deque([first])
    while waiting:
        separator = waiting.popleft()
        yield separator
        side = _component(near, s, separator)
        for v in members(separator & ~near[t]):
            further = _next_to(near, t, side | 1 << v)
            if further not in seen:
                seen.add(further)
                waiting.append(further)


def _without(beside: list[int], left_out: int) -> list[int]:
    """The graph without some vertices; neighbours of each are joined in place of paths by it."""
    near = list(beside)
    for v in members(left_out & ((1 << len(near)) - 1)):
        around, near[v] = near[v], 0
        for u in members(around):
            near[u] = (near[u] | around) & ~(1 << u | 1 << v)
    return near


def _component(near: list[int], v: int, removed: int) -> int:
    """Bit mask of what v reaches around the removed vertices, v included."""
    return closure([own & ~removed for own in near], 1 << v)


def _next_to(near: list[int], t: int, side: int) -> int:
    """The separator from t that is nearest to a connected set that t has no edge to."""
    beyond = _component(near, t, side | _around(near, side))
    return _around(near, beyond)


def _around(near: list[int], inside: int) -> int:
    """Neighbours of a set of vertices, the set left out."""
    found = 0
    for v in members(inside):
        found |= near[v]
    return found & ~inside
