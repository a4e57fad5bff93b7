"""A graph as shapes that a page or a notebook draws as SVG; lengths are in points, y downwards."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cipherdag.arrays import FloatArray
from cipherdag.graphs.drawing.communities import Overview, overview
from cipherdag.graphs.drawing.layout import BOX_HEIGHT, Layout, edge_shape, layered
from cipherdag.graphs.edge_evidence import EdgeEvidence
from cipherdag.graphs.edges import Edge, End, confirmed_mark, ends_of
from cipherdag.graphs.mixed_graph import MixedGraph
from cipherdag.pages.files import render
from cipherdag.pages.numerals import box_width, cut

FONT_SIZE = 11.0
MARGIN = 10.0
HEAD_LENGTH, HEAD_WIDTH = 8.0, 7.0
THINNEST, WIDEST, PLAIN = 1.2, 3.2, 1.6
MOST_LABELLED = 40  # edges beyond which strengths would cover one another
SAMPLES = 9  # points along a course that are tried for a strength's label
LABEL_ROOM = (26.0, 13.0)  # across and down
DIAMOND = 4.5  # half its width


@dataclass(frozen=True, slots=True)
class Box:
    """A variable, or a community of them: its box, and a note about it."""

    name: str
    label: str
    x: float
    y: float
    width: float
    height: float
    note: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """An edge: its course, its arrowheads and circles, and its row's number in the table of edges.

    ``directed`` says that it has an arrowhead; ``row`` is 0 where there is no row. ``marks``
    are names of what else is drawn: "doubtful" (dashed), "known" (with a diamond at ``given``), or
    how two graphs differ.
    """

    source: str
    target: str
    directed: bool
    path: str
    heads: tuple[str, ...]
    circles: tuple[tuple[float, float], ...]
    width: float
    strength: str
    x: float
    y: float
    note: str
    row: int
    marks: tuple[str, ...] = ()
    given: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """How an edge is drawn, and a note about it; see `Line`."""

    note: str
    ends: tuple[End, End]
    width: float = PLAIN
    strength: str = ""
    row: int = 0
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and lines, what they show together, and whether a box stands for many variables."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    title: str
    collapsed: bool = False


def graph_picture(
    graph: MixedGraph,
    evidence: Mapping[tuple[str, str], EdgeEvidence] | None = None,
    marked: Mapping[Edge, str] | None = None,
) -> Picture:
    """Every variable and edge; the n-th line belongs to the n-th edge.

    Evidence is by source and target; ``marked`` adds a mark, such as how another graph differs.
    """
    look = _looks(graph, evidence or {}, marked or {})
    directed = sum(edge.mark == "-->" for edge in graph.edges)
    title = (
        f"{len(graph.nodes)} variables, {directed} edge{'s' * (directed != 1)} with a direction "
        f"and {len(graph.edges) - directed} without"
    )
    return _picture(graph, title, look.__getitem__, lambda name: (name, ()))


def overview_picture(
    shown: Overview,
    graph: MixedGraph,
    evidence: Mapping[tuple[str, str], EdgeEvidence] | None = None,
    marked: Mapping[Edge, str] | None = None,
) -> Picture:
    """Communities of a graph that is too large to draw whole, and variables that stand alone."""
    alone = _looks(graph, evidence or {}, marked or {})

    def look(edge: Edge) -> Look:
        if edge in alone and all(len(shown.members[e]) == 1 for e in (edge.source, edge.target)):
            return alone[edge]
        count = shown.between[min(edge.source, edge.target), max(edge.source, edge.target)]
        arrow = "both ways" if edge.symmetric else "all from the first to the second"
        words = f"{edge.source} and {edge.target}: {count} edge{'s' * (count != 1)}, {arrow}"
        width = min(WIDEST, THINNEST + 0.2 * count)
        return Look(words, edge.ends, width, str(count))

    def members(name: str) -> tuple[str, tuple[str, ...]]:
        variables = shown.members[name]
        note = f"{', '.join(variables)}: {shown.inside[name]} edges among them"
        return (note, variables) if variables[1:] else (name, ())

    boxes = len(shown.graph.nodes)
    variables = sum(map(len, shown.members.values()))
    title = f"{variables} variables in {boxes} boxes, groups with many edges among them"
    return _picture(shown.graph, title, look, members, collapsed=shown.collapsed)


def notebook_html(graph: MixedGraph) -> str:
    """A graph in a notebook, without scripts; above 100 variables the drawing shows communities."""
    shown = overview(graph)
    picture = overview_picture(shown, graph) if shown.collapsed else graph_picture(graph)
    return render("notebook.html.j2", graph=graph, picture=picture)


def _looks(
    graph: MixedGraph, evidence: Mapping[tuple[str, str], EdgeEvidence], marked: Mapping[Edge, str]
) -> dict[Edge, Look]:
    most = max([1.0, *(each.strength for each in evidence.values())])
    return {
        edge: _look(
            edge, graph, evidence.get((edge.source, edge.target)), row, marked.get(edge, ""), most
        )
        for row, edge in enumerate(graph.edges, start=1)
    }


def _look(
    edge: Edge, graph: MixedGraph, evidence: EdgeEvidence | None, row: int, mark: str, most: float
) -> Look:
    """How an edge is drawn: without marks that replicates contradict, dashed if they lack it."""
    words, ends = graph.describe(edge), edge.ends
    marks = [mark] if mark else []
    if evidence is None:
        return Look(words, ends, row=row, marks=tuple(marks))
    if evidence.consensus is not None:
        confirmed = confirmed_mark(edge.mark, evidence.consensus, graph.undetermined)
        ends = ends_of(confirmed)
        marks += [] if evidence.consensus else ["doubtful"]
        words += "; few replicates have this direction" if confirmed != edge.mark else ""
        words += "" if evidence.consensus else "; few replicates join the two"
    if evidence.known:
        marks.append("known")
        words += f"; the {evidence.known} was given"
    if not evidence.shown:
        return Look(words, ends, row=row, marks=tuple(marks))
    width = THINNEST + (WIDEST - THINNEST) * max(0.0, evidence.strength) / most
    label = evidence.shown.split()[0]  # its unit stands in the legend
    return Look(f"{words}; strength {evidence.shown}", ends, width, label, row, tuple(marks))


def _picture(
    graph: MixedGraph,
    title: str,
    look: Callable[[Edge], Look],
    describe: Callable[[str], tuple[str, tuple[str, ...]]],
    *,
    collapsed: bool = False,
) -> Picture:
    labels = [cut(name) for name in graph.nodes]
    widths = [box_width(label, FONT_SIZE) for label in labels]
    layout = layered(graph.arcs, widths)
    boxes = []
    for name, label, width, (x, y) in zip(graph.nodes, labels, widths, layout.centres, strict=True):
        words, members = describe(name)
        boxes.append(
            Box(
                name=name,
                label=label,
                x=round(float(x) + MARGIN, 1),
                y=round(float(y) + MARGIN, 1),
                width=round(width, 1),
                height=BOX_HEIGHT,
                note=words,
                members=members,
            )
        )
    return Picture(
        width=round(max(layout.size[0], BOX_HEIGHT) + 2 * MARGIN, 1),
        height=round(max(layout.size[1], BOX_HEIGHT) + 2 * MARGIN, 1),
        boxes=tuple(boxes),
        lines=tuple(_lines(graph, layout, look)),
        title=title,
        collapsed=collapsed,
    )


def _lines(graph: MixedGraph, layout: Layout, look: Callable[[Edge], Look]) -> Iterator[Line]:
    position = {name: index for index, name in enumerate(graph.nodes)}
    spots: list[tuple[float, float]] = [(float(x), float(y)) for x, y in layout.centres]
    for edge in graph.edges:
        a, b = position[edge.source], position[edge.target]
        down = (a, b) in layout.routes
        course = (layout.routes[a, b] if down else layout.routes[b, a]) + MARGIN
        drawn = look(edge)
        shape = edge_shape(course, drawn.ends, HEAD_LENGTH, HEAD_WIDTH, down=down)
        strength = drawn.strength if len(graph.edges) <= MOST_LABELLED else ""
        x, y = _label_spot(course, spots) if strength else (0.0, 0.0)
        spots += [(x - MARGIN, y - MARGIN)] if strength else []
        yield Line(
            source=edge.source,
            target=edge.target,
            directed="arrow" in drawn.ends,
            path=_path(shape.course),
            heads=tuple(" ".join(f"{x:.1f},{y:.1f}" for x, y in head) for head in shape.heads),
            circles=tuple((round(float(x), 1), round(float(y), 1)) for x, y in shape.circles),
            width=round(drawn.width, 2),
            strength=strength,
            x=x,
            y=y,
            note=drawn.note,
            row=drawn.row,
            marks=drawn.marks,
            given=_diamond(course if down else course[::-1]) if "known" in drawn.marks else "",
        )


def _diamond(course: FloatArray) -> str:
    """A small diamond where a course begins, clear of the box."""
    x, y = _along(course)[0]
    ends = ((0, -DIAMOND), (DIAMOND, 0), (0, DIAMOND), (-DIAMOND, 0))
    return " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in ends)


def _path(points: FloatArray) -> str:
    """Control points of joined cubic Bezier curves as an SVG path."""
    start, *rest = [f"{x:.1f},{y:.1f}" for x, y in points]
    return f"M{start}C{' '.join(rest)}"


def _label_spot(course: FloatArray, taken: list[tuple[float, float]]) -> tuple[float, float]:
    """A point on the course far from boxes and other labels, as near to its middle as can be."""
    points = _along(course)
    middle = (len(points) - 1) / 2
    order = sorted(range(len(points)), key=lambda k: (abs(k - middle), k))

    def room(k: int) -> float:
        x, y = points[k] - MARGIN
        across, down = LABEL_ROOM
        return min((max(abs(x - u) / across, abs(y - v) / down) for u, v in taken), default=1.0)

    best = next((k for k in order if room(k) >= 1.0), max(order, key=room))
    return round(float(points[best][0]), 1), round(float(points[best][1]), 1)


def _along(course: FloatArray) -> FloatArray:
    """Points on a course, evenly by parameter but not at its ends, shape (SAMPLES, 2)."""
    pieces = (len(course) - 1) // 3
    points = []
    for parameter in np.linspace(0.15, 0.85, SAMPLES) * pieces:
        k = min(int(parameter), pieces - 1)
        t, (a, b, c, d) = parameter - k, course[3 * k : 3 * k + 4]
        points.append(
            (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
        )
    return np.array(points)
