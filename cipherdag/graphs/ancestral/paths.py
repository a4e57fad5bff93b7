"""Paths that orienting a PAG looks for: discriminating, uncovered, and possible d-separation.

Sources: Zhang, "On the completeness of orientation rules for causal discovery in the presence of
latent confounders and selection bias", Artificial Intelligence 172 (2008); Spirtes, Glymour and
Scheines, "Causation, Prediction, and Search", MIT Press 2000, section 6.7 (Possible-D-SEP).
"""

from collections import deque
from collections.abc import Iterator

import numpy as np

from cipherdag.arrays import BoolMatrix, IndexArray
from cipherdag.graphs.dags import members, reachable, row_masks, walk_steps
from cipherdag.graphs.endpoints import ARROW, CIRCLE, NONE, TAIL, Endpoints, directed


def discriminating(endpoints: Endpoints, b: int, c: int) -> Iterator[tuple[int, ...]]:
    """Shortest paths (t, ..., a, b, c) that discriminate b, one for every start t and every a.

    t and c are not adjacent; every variable between t and b is a collider on the path and a parent
    of c.
    """
    parents = directed(endpoints)[:, c]
    for a in np.flatnonzero(parents & (endpoints[b] == ARROW)).tolist():
        before: dict[int, int] = {a: b}
        frontier, starts = [a], list[int]()
        while frontier and not starts:
            onward: list[int] = []
            for v in frontier:
                for w in np.flatnonzero(endpoints[:, v] == ARROW).tolist():
                    if w in before or w in (b, c):
                        continue
                    if endpoints[w, c] == NONE:
                        before[w] = v
                        starts.append(w)
                    elif parents[w] and endpoints[v, w] == ARROW:
                        before[w] = v
                        onward.append(w)
            frontier = onward
        for start in starts:
            path = [start]
            while path[-1] != b:
                path.append(before[path[-1]])
            yield (*path, c)


def deciding(endpoints: Endpoints) -> Iterator[tuple[int, ...]]:
    """The discriminating paths (..., b, c) that could direct an edge: it has a circle at b."""
    for c, b in np.argwhere(endpoints == CIRCLE).tolist():
        yield from discriminating(endpoints, b, c)


class Uncovered:
    """Looks for uncovered paths, on which no variable is adjacent to the one after the next.

    ``steps``, shape (p, p), is True at [i, j] where a path may go from i to j.
    """

    def __init__(self, endpoints: Endpoints, steps: BoolMatrix) -> None:
        self.adjacent = row_masks(endpoints != NONE)
        self.steps = row_masks(steps)

    def reaches(self, start: int, first: int, targets: int, *, last: int = -1) -> bool:
        """Whether such a path leads from ``start`` by way of ``first`` to one of the targets.

        ``targets`` and ``last`` are bit masks; ``last`` has what may stand before the target.
        """
        if targets >> first & 1:
            return bool(last >> start & 1)
        # a cheap check first: where no walk, which may repeat variables, there is no path
        walk = walk_steps([(start, first)], self._onward)
        if not any(self._onward(u, v) & targets for u, v in walk):
            return False
        waiting = deque([(start, first, 1 << start | 1 << first)])
        while waiting:
            u, v, seen = waiting.popleft()
            onward = self._onward(u, v) & ~seen
            if onward & targets and last >> v & 1:
                return True
            waiting.extend((v, w, seen | 1 << w) for w in members(onward & ~targets))
        return False

    def _onward(self, u: int, v: int) -> int:
        return self.steps[v] & ~self.adjacent[u]


def possibly_directed(endpoints: Endpoints) -> BoolMatrix:
    """[i, j] is True where i *-* j has no arrowhead at i and no tail at j, shape (p, p)."""
    return (endpoints != NONE) & (endpoints.T != ARROW) & (endpoints != TAIL)


def transitive_closure(steps: BoolMatrix) -> BoolMatrix:
    """[i, j] is True where steps lead from i to j, or i is j, shape (p, p)."""
    masks, closure = row_masks(steps), np.zeros_like(steps)
    for v in range(len(steps)):
        closure[v, list(members(reachable(masks, 1 << v)))] = True
    return closure


def possible_d_sep(
    endpoints: Endpoints, x: int, y: int, among: BoolMatrix | None = None
) -> IndexArray:
    """Possible-D-SEP(x, y), ascending: what may be in a set that separates x and y, seen from x.

    A variable is in it if it is reached from x along edges of which every two that follow one
    another meet in a collider or lie in a triangle, and not through y. Were x and y dependent given
    all variables reached so, the path that makes them dependent would be an inducing path.

    The path stays inside ``among``, shape (p,), if it is given; see `blocks_of`.
    """
    inside = np.ones(len(endpoints), dtype=bool) if among is None else among.copy()
    inside[[x, y]] = False
    near = row_masks((endpoints != NONE) & inside)
    into = row_masks((endpoints == ARROW).T & inside)

    def onward(a: int, b: int) -> int:
        collider = into[b] >> a & 1 or (a == x and endpoints[x, b] == ARROW)
        return (near[b] & near[a] | (into[b] if collider else 0)) & ~(1 << a)

    steps = walk_steps([(x, v) for v in members(near[x])], onward)
    return np.array(sorted({v for _, v in steps}), dtype=np.int64)


def blocks_of(skeleton: BoolMatrix) -> IndexArray:
    """The number of the block that each edge lies in, shape (p, p); -1 where there is no edge.

    Two edges are in one block if a cycle has both. So all paths between two adjacent variables stay
    in the block of their edge. A set that separates the two once their edge is removed needs no
    variable of other blocks: these lie on no such path, and could only make colliders active.

    Source: Hopcroft and Tarjan, "Algorithm 447", Communications of the ACM 16 (1973).
    """
    blocks = np.full(skeleton.shape, -1, dtype=np.int64)
    near = [np.flatnonzero(row).tolist() for row in skeleton]
    depth: dict[int, int] = {}
    for root in range(len(skeleton)):
        if root not in depth:
            depth[root] = 0
            _number_blocks(root, near, depth, blocks)
    return blocks


def _number_blocks(
    root: int, near: list[list[int]], depth: dict[int, int], blocks: IndexArray
) -> None:
    """Number the blocks of one component, walking in depth; `depth` has what was seen."""
    low, edges = {root: 0}, list[tuple[int, int]]()
    walk = [(root, -1, iter(near[root]))]
    while walk:
        v, parent, onward = walk[-1]
        w = next(onward, None)
        if w is None:
            walk.pop()
            if parent < 0:
                continue
            low[parent] = min(low[parent], low[v])
            if low[v] >= depth[parent]:  # parent cuts v and what is below it off
                start = edges.index((parent, v))
                a, b = np.array(edges[start:]).T
                blocks[a, b] = blocks[b, a] = blocks.max() + 1
                del edges[start:]
        elif w not in depth:
            edges.append((v, w))
            depth[w] = low[w] = depth[v] + 1
            walk.append((w, v, iter(near[w])))
        elif w != parent and depth[w] < depth[v]:
            edges.append((v, w))
            low[v] = min(low[v], depth[w])
