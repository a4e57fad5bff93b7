"""Where the variables of a graph stand on paper: layers from causes down to effects.

Source: Sugiyama, Tagawa and Toda, IEEE SMC 11 (1981): layers, barycentres to cut crossings, then
coordinates; the coordinates are least squares under order and distance constraints. All lengths
are in points (1/72 inch), x to the right and y downwards. No random choice anywhere.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cipherdag.arrays import BoolMatrix, FloatArray
from cipherdag.graphs.edges import End
from cipherdag.graphs.extension import acyclic_extension, topological_order

Links = list[list[int]]

BOX_HEIGHT = 24.0
SIDE_GAP = 16.0
BEND_WIDTH = 2.0
LAYER_GAP = 34.0
COMPONENT_GAP = 36.0
ORDERING_SWEEPS = 24
PLACING_SWEEPS = 60
STEEPEST = 0.8  # sideways over down, where a course passes between two boxes
HEAD_CUT = 0.8  # an edge ends this share of its arrowhead's length before the tip
SHAPE = 1.5  # width over height that packing aims at


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Positions of boxes, and courses of edges, which leave and arrive vertically."""

    centres: FloatArray  # centre of every box, shape (p, 2)
    routes: dict[tuple[int, int], FloatArray]  # (i, j), i above j: Bezier curves, (3 k + 1, 2)
    size: tuple[float, float]  # width and height of the drawing


def layered(arcs: BoolMatrix, widths: Sequence[float]) -> Layout:
    """Lay a graph out; undirected edges run down like the directed ones of a DAG extension.

    The graph may have cycles. Components stand side by side, the largest first, isolated variables
    last.
    """
    dag = acyclic_extension(arcs)
    parts = [_Component(dag, nodes, widths) for nodes in _components(dag)]
    parts.sort(key=lambda part: -len(part.nodes))
    centres = np.zeros((len(dag), 2))
    routes: dict[tuple[int, int], FloatArray] = {}
    shelf_width = _shelf_width(parts)
    left = top = shelf_height = right = 0.0
    for part in parts:
        width, height = part.size
        if left > 0 and left + width > shelf_width:
            left, top, shelf_height = 0.0, top + shelf_height + COMPONENT_GAP, 0.0
        shift = np.array([left, top])
        centres[part.nodes] = part.centres() + shift
        routes |= {edge: points + shift for edge, points in part.routes().items()}
        right, shelf_height = max(right, left + width), max(shelf_height, height)
        left += width + COMPONENT_GAP
    return Layout(centres=centres, routes=routes, size=(right, top + shelf_height))


def _components(dag: BoolMatrix) -> list[list[int]]:
    """Connected components, each ascending, ordered by their first variable."""
    from scipy.sparse.csgraph import connected_components

    count, component = connected_components(dag, directed=False)
    return sorted(np.flatnonzero(component == number).tolist() for number in range(count))


def _shelf_width(parts: Sequence[_Component]) -> float:
    area = sum((w + COMPONENT_GAP) * (h + COMPONENT_GAP) for w, h in (part.size for part in parts))
    return max([float(np.sqrt(area * SHAPE)), *(part.size[0] for part in parts)])


class _Component:
    """One connected part: its vertices are variables, then bends, one per layer an edge skips."""

    def __init__(self, dag: BoolMatrix, nodes: list[int], widths: Sequence[float]) -> None:
        self.nodes = nodes
        arcs = dag[np.ix_(nodes, nodes)]
        self.rank = _ranks(arcs)
        self.width = [widths[node] for node in nodes]
        self.chains: dict[tuple[int, int], list[int]] = {}
        for i, j in np.argwhere(arcs).tolist():
            bends = range(self.rank[i] + 1, self.rank[j])
            first = len(self.rank)
            self.chains[i, j] = [i, *range(first, first + len(bends)), j]
            self.rank += bends
            self.width += [BEND_WIDTH] * len(bends)
        self.above: Links = [[] for _ in self.rank]
        self.below: Links = [[] for _ in self.rank]
        for chain in self.chains.values():
            for upper, lower in pairwise(chain):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
        self.layers = _ordered(self.rank, self.above, self.below)
        self.x = self._place()
        self.y = self._heights()
        self.size = (
            max(self.x[v] + self.width[v] / 2 for v in range(len(self.x))),
            self.y[-1] + BOX_HEIGHT / 2,
        )

    def centres(self) -> FloatArray:
        """Centres of the variables, shape (nodes, 2)."""
        return np.array([(self.x[v], self.y[self.rank[v]]) for v in range(len(self.nodes))])

    def routes(self) -> dict[tuple[int, int], FloatArray]:
        """Course of every edge, keyed by positions in the whole graph."""
        leaving, arriving = self._ports(self.below), self._ports(self.above)
        routes = {}
        for (i, j), chain in self.chains.items():
            start = (self.x[i] + leaving[i, chain[1]], self.y[self.rank[i]] + BOX_HEIGHT / 2)
            end = (self.x[j] + arriving[j, chain[-2]], self.y[self.rank[j]] - BOX_HEIGHT / 2)
            bends = [(self.x[bend], self.y[self.rank[bend]]) for bend in chain[1:-1]]
            routes[self.nodes[i], self.nodes[j]] = _course([start, *bends, end])
        return routes

    def _ports(self, towards: Links) -> dict[tuple[int, int], float]:
        """Where along its box an edge starts or ends, off the centre: arrows do not meet."""
        ports: dict[tuple[int, int], float] = {}
        for vertex, others in enumerate(towards):
            around = sorted(others, key=lambda other: (self.x[other], other))
            step = min(13.0, 0.75 * self.width[vertex] / max(1, len(around)))
            for index, other in enumerate(around):
                ports[vertex, other] = step * (index - (len(around) - 1) / 2)
        return ports

    def _place(self) -> list[float]:
        """Horizontal positions: sweeps make edges short and straight, chains of bends most."""
        x = [0.0] * len(self.rank)
        for layer in self.layers:
            spots = np.cumsum([0.0, *self._gaps(layer)])
            for vertex, spot in zip(layer, spots - spots[-1] / 2, strict=True):
                x[vertex] = float(spot)
        for sweep in range(PLACING_SWEEPS):
            both = sweep >= PLACING_SWEEPS // 2
            down = sweep % 2 == 0
            for layer in self.layers if down else reversed(self.layers):
                wishes, weights = zip(
                    *(self._wish(v, x, up=down or both, down=not down or both) for v in layer),
                    strict=True,
                )
                for vertex, spot in zip(
                    layer, _spaced(wishes, weights, self._gaps(layer)), strict=True
                ):
                    x[vertex] = spot
        left = min(x[v] - self.width[v] / 2 for v in range(len(x)))
        return [spot - left for spot in x]

    def _wish(self, vertex: int, x: list[float], *, up: bool, down: bool) -> tuple[float, float]:
        """Where a vertex would like to stand, and how much."""
        total = weight = 0.0
        for other in [*(self.above[vertex] if up else ()), *(self.below[vertex] if down else ())]:
            bends = (vertex >= len(self.nodes)) + (other >= len(self.nodes))
            pull = (1.0, 2.0, 8.0)[bends]
            total += pull * x[other]
            weight += pull
        return (total / weight, weight) if weight else (x[vertex], 0.1)

    def _gaps(self, layer: list[int]) -> list[float]:
        """Least distances between the centres of neighbours in a layer."""
        return [(self.width[a] + self.width[b]) / 2 + SIDE_GAP for a, b in pairwise(layer)]

    def _heights(self) -> list[float]:
        """Vertical centre of every layer; wide jumps get more room."""
        heights = [BOX_HEIGHT / 2]
        for layer in self.layers[:-1]:
            jump = max(abs(self.x[v] - self.x[w]) for v in layer for w in self.below[v])
            gap = LAYER_GAP + min(60.0, 0.12 * jump)
            heights.append(heights[-1] + BOX_HEIGHT + gap)
        return heights


def _course(points: list[tuple[float, float]]) -> FloatArray:
    """A smooth course through the points, nearly straight where it passes a layer.

    Slopes are harmonic means of the slopes on both sides, or 0 at a turn, so that no course swings
    past its bends (Fritsch and Carlson, SIAM J. Numer. Anal. 17, 1980).
    """
    slopes = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(points)]
    knots = [(points[0], 0.0)]
    for (x, y), before, after in zip(points[1:-1], slopes, slopes[1:], strict=False):
        slope = 0.0 if before * after <= 0 else 2 * before * after / (before + after)
        slope = max(-STEEPEST, min(STEEPEST, slope))
        knots += [((x + slope * d, y + d), slope) for d in (-BOX_HEIGHT / 2, BOX_HEIGHT / 2)]
    knots.append((points[-1], 0.0))
    controls = [points[0]]
    for ((x0, y0), slope0), ((x1, y1), slope1) in pairwise(knots):
        reach0, reach1 = ((y1 - y0) * (1 / 3 if slope else 0.45) for slope in (slope0, slope1))
        controls += [(x0 + slope0 * reach0, y0 + reach0), (x1 - slope1 * reach1, y1 - reach1)]
        controls.append((x1, y1))
    return np.array(controls)


def _ranks(dag: BoolMatrix) -> list[int]:
    """Layers by longest path from a root; then those with more children than parents move down."""
    order = topological_order(dag)
    rank = [0] * len(dag)
    if order is None:
        return rank
    parents = [np.flatnonzero(column).tolist() for column in dag.T]
    children = [np.flatnonzero(row).tolist() for row in dag]
    for node in order.tolist():
        rank[node] = max((rank[parent] + 1 for parent in parents[node]), default=0)
    for node in order.tolist()[::-1]:
        if len(children[node]) > len(parents[node]):
            rank[node] = min(rank[child] for child in children[node]) - 1
    top = min(rank)
    return [each - top for each in rank]


def _ordered(rank: list[int], above: Links, below: Links) -> list[list[int]]:
    """Vertices of every layer from left to right; the best of many barycentre sweeps."""
    layers: list[list[int]] = [[] for _ in range(max(rank) + 1)]
    for vertex in _depth_first(rank, above, below):
        layers[rank[vertex]].append(vertex)
    best, fewest = [list(layer) for layer in layers], _crossings(layers, below)
    for sweep in range(ORDERING_SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        towards = above if down else below
        at: dict[int, float] = {}
        for layer in layers if down else layers[::-1]:
            spots = {v: float(spot) for spot, v in enumerate(layer)}
            wish = {
                v: sum(at[w] for w in towards[v]) / len(towards[v]) if towards[v] else spots[v]
                for v in layer
            }
            # every other pass reverses ties, so that sweeps do not repeat themselves
            turn = -1 if sweep % 4 > 1 else 1
            layer.sort(key=lambda v: (wish[v], turn * spots[v]))
            at |= {v: float(spot) for spot, v in enumerate(layer)}
        _swap_neighbours(layers, above, below)
        crossings = _crossings(layers, below)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def _depth_first(rank: list[int], above: Links, below: Links) -> list[int]:
    """A start in which neighbours are close: vertices as a walk along edges meets them."""
    seen: dict[int, None] = {}
    for root in sorted(range(len(rank)), key=lambda v: (rank[v], v)):
        stack = [root]
        while stack:
            vertex = stack.pop()
            if vertex not in seen:
                seen[vertex] = None
                stack += [w for w in (*above[vertex], *below[vertex]) if w not in seen][::-1]
    return list(seen)


def _crossings(layers: list[list[int]], below: Links) -> int:
    """Number of crossings between neighbouring layers."""
    total = 0
    for upper, lower in pairwise(layers):
        spot = {vertex: index for index, vertex in enumerate(lower)}
        ends: list[int] = []
        for vertex in upper:
            arrivals = sorted(spot[w] for w in below[vertex])
            total += sum(len(ends) - bisect_right(ends, end) for end in arrivals)
            for end in arrivals:
                insort(ends, end)
    return total


def _swap_neighbours(layers: list[list[int]], above: Links, below: Links) -> None:
    """Exchange neighbours in a layer wherever that removes crossings."""
    for number, layer in enumerate(layers):
        around = [
            (links, {v: index for index, v in enumerate(layers[other])})
            for links, other in ((above, number - 1), (below, number + 1))
            if 0 <= other < len(layers)
        ]
        for k in range(len(layer) - 1):
            a, b = layer[k], layer[k + 1]
            gain = 0
            for links, spot in around:
                for u in links[a]:
                    for w in links[b]:
                        gain += (spot[u] > spot[w]) - (spot[u] < spot[w])
            if gain > 0:
                layer[k], layer[k + 1] = b, a


def _spaced(
    wishes: Sequence[float], weights: Sequence[float], gaps: Sequence[float]
) -> list[float]:
    """Positions nearest to the wishes, in weighted squares, that keep order and distances.

    Pool adjacent violators (isotonic regression) after taking the distances off.
    """
    offsets = np.cumsum([0.0, *gaps])
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        mean, total, members = wish - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, other_total, other_members = pools.pop()
            mean = (mean * total + other * other_total) / (total + other_total)
            total, members = total + other_total, members + other_members
        pools.append((mean, total, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [float(mean + offset) for mean, offset in zip(means, offsets, strict=True)]


@dataclass(frozen=True, slots=True)
class EdgeShape:
    """An edge's course, cut where its ends cover it; arrowheads, (3, 2); circles' centres, (2,)."""

    course: FloatArray
    heads: tuple[FloatArray, ...]
    circles: tuple[FloatArray, ...]


def edge_shape(
    course: FloatArray, ends: tuple[End, End], length: float, width: float, *, down: bool
) -> EdgeShape:
    """An edge as it is drawn.

    The course leads from the upper to the lower box; ``down`` says whether the source is above. A
    circle is as wide as an arrowhead.
    """
    heads: list[FloatArray] = []
    circles: list[FloatArray] = []
    for end, at_end in zip(ends, (not down, down), strict=True):
        if end == "plain":
            continue
        tip, towards = (-1, 1.0) if at_end else (0, -1.0)
        x, y = course[tip]
        course = course.copy()
        if end == "arrow":
            back = y - towards * length
            heads.append(np.array([(x, y), (x - width / 2, back), (x + width / 2, back)]))
            course[tip, 1] -= HEAD_CUT * towards * length
        else:
            circles.append(np.array([x, y - towards * width / 2]))
            course[tip, 1] -= towards * width
    return EdgeShape(course, tuple(heads), tuple(circles))
