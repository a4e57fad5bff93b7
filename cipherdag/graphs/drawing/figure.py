"""Pictures of causal graphs with matplotlib alone: no Graphviz, no other program.

A directed edge is an arrow from cause to effect; an undirected edge is a plain line in another
colour. The same graph gives the same SVG bytes under the same version of matplotlib.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cipherdag.arrays import FloatArray
from cipherdag.errors import OutputError, writing
from cipherdag.graphs.drawing import PICTURES
from cipherdag.graphs.drawing.communities import MOST_VARIABLES, Overview, overview
from cipherdag.graphs.drawing.layout import BOX_HEIGHT, Layout, edge_shape, layered
from cipherdag.graphs.drawing.picture import FONT_SIZE
from cipherdag.graphs.mixed_graph import MixedGraph
from cipherdag.pages.files import replace_file
from cipherdag.pages.numerals import box_width, cut, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path as Curve


MARGIN = 14.0
NOTE, NOTE_SIZE = "plain line: direction not determined", 9.0
CIRCLE_NOTE = "circle: arrowhead or none, not determined; two arrowheads: an unmeasured cause"
COLLAPSED_NOTE = "a box: variables with many edges among them; plain line: edges both ways"
HEAD_LENGTH, HEAD_WIDTH = 9.0, 7.5
INK, BORDER, FILL = "#1b2a41", "#4a6fa5", "#eef4fc"
DIRECTED, UNDIRECTED = "#34495e", "#c8590a"
POINTS_PER_INCH = 72.0
PNG_DPI, MOST_PIXELS = 160.0, 12_000.0


def draw(graph: MixedGraph, path: str | Path, *, most: int = MOST_VARIABLES) -> None:
    """Draw a graph into a file.

    The ending of the path chooses the format: ``.svg``, ``.png`` or ``.pdf``. A graph of more than
    ``most`` variables is drawn as boxes of communities.

    Raises:
        OutputError: Another ending, matplotlib is not installed, or the file cannot be written.
    """
    content = picture_file(graph, Path(path).suffix.lower().removeprefix("."), most=most)
    with writing(path):
        replace_file(path, content)


def picture_file(graph: MixedGraph, kind: str, *, most: int = MOST_VARIABLES) -> bytes:
    """The content of a picture file of one of the `PICTURES`; see `draw`."""
    if kind not in PICTURES:
        raise OutputError(f"no picture format '.{kind}'", remedy="Use .svg, .png or .pdf.")
    content = io.BytesIO()
    with _settings():
        figure = _figure(graph, most)
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
        longest = max(figure.get_size_inches())
        dpi = min(PNG_DPI, MOST_PIXELS / longest) if kind == "png" else POINTS_PER_INCH
        figure.savefig(content, format=kind, dpi=dpi, metadata=metadata)
    return content.getvalue()


def plot(graph: MixedGraph, *, most: int = MOST_VARIABLES) -> Figure:
    """The drawing as a matplotlib figure of its size, which no window shows; ``most`` as in `draw`.

    Raises:
        OutputError: matplotlib is not installed.
    """
    with _settings():
        return _figure(graph, most)


@contextmanager
def _settings() -> Iterator[None]:
    """Settings under which every machine draws the same."""
    try:
        import matplotlib as mpl
        from matplotlib.backends import backend_agg  # noqa: F401  (fail here, not while drawing)
    except ImportError as error:
        raise OutputError(
            "drawing needs matplotlib, which is not installed",
            remedy="Run `pip install 'cipherdag[plot]'`.",
        ) from error
    settings: dict[Any, object] = {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
        "path.simplify": False,
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "cipherdag",
        "text.usetex": False,
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        # names in scripts that the font lacks: an SVG viewer has its own font for them
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        yield


def _figure(whole: MixedGraph, most: int) -> Figure:
    from matplotlib.figure import Figure

    shown = overview(whole, most=most)
    graph = shown.graph
    labels = [cut(name) for name in graph.nodes]
    widths = [box_width(label, FONT_SIZE) for label in labels]
    layout = layered(graph.arcs, widths)
    note = _note(shown)
    width = max(layout.size[0], BOX_HEIGHT, text_width(note) * NOTE_SIZE) + 2 * MARGIN
    height = max(layout.size[1], BOX_HEIGHT) + 2 * MARGIN + (2 * NOTE_SIZE if note else 0.0)
    figure = Figure(figsize=(width / POINTS_PER_INCH, height / POINTS_PER_INCH), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(-MARGIN, width - MARGIN)
    axes.set_ylim(height - MARGIN, -MARGIN)
    _add_edges(axes, graph, layout)
    _add_boxes(axes, labels, widths, layout.centres)
    axes.text(0.0, height - 1.5 * MARGIN, note, color=UNDIRECTED, fontsize=NOTE_SIZE)
    return figure


def _note(shown: Overview) -> str:
    """What the lines and boxes mean, where that needs saying."""
    if shown.collapsed:
        return COLLAPSED_NOTE
    ends = {end for edge in shown.graph.edges for end in edge.ends}
    if "circle" in ends or any(edge.mark == "<->" for edge in shown.graph.edges):
        return CIRCLE_NOTE
    return NOTE if any(edge.mark == "---" for edge in shown.graph.edges) else ""


def _add_edges(axes: Axes, graph: MixedGraph, layout: Layout) -> None:
    from matplotlib.collections import PathCollection, PolyCollection

    arrows: list[Curve] = []
    lines: list[Curve] = []
    heads: list[FloatArray] = []
    circles: list[Curve] = []
    index = {name: position for position, name in enumerate(graph.nodes)}
    joined = {frozenset((index[edge.source], index[edge.target])): edge for edge in graph.edges}
    for (upper, lower), points in sorted(layout.routes.items()):
        edge = joined[frozenset((upper, lower))]
        down = index[edge.source] == upper
        shape = edge_shape(points, edge.ends, HEAD_LENGTH, HEAD_WIDTH, down=down)
        (arrows if shape.heads else lines).append(_curve(shape.course))
        heads += shape.heads
        circles += [_circle(centre) for centre in shape.circles]
    for curves, colour in ((arrows, DIRECTED), (lines, UNDIRECTED)):
        axes.add_collection(
            PathCollection(
                curves, facecolors="none", edgecolors=colour, linewidths=1.4, capstyle="butt"
            ),
            autolim=False,
        )
    axes.add_collection(PolyCollection(heads, facecolors=DIRECTED, linewidths=0.0), autolim=False)
    if circles:
        axes.add_collection(
            PathCollection(circles, facecolors="white", edgecolors=INK, linewidths=1.2),
            autolim=False,
        )


def _add_boxes(axes: Axes, labels: list[str], widths: list[float], centres: FloatArray) -> None:
    from matplotlib.patches import FancyBboxPatch

    for label, width, (x, y) in zip(labels, widths, centres, strict=True):
        axes.add_patch(
            FancyBboxPatch(
                (x - width / 2, y - BOX_HEIGHT / 2),
                width,
                BOX_HEIGHT,
                boxstyle="round,pad=0,rounding_size=6",
                facecolor=FILL,
                edgecolor=BORDER,
                linewidth=1.1,
            )
        )
        axes.text(
            x,
            y,
            label,
            color=INK,
            fontsize=FONT_SIZE,
            horizontalalignment="center",
            verticalalignment="center_baseline",
            parse_math=False,
        )


def _circle(centre: FloatArray) -> Curve:
    from matplotlib.path import Path as Curve

    return Curve.circle((float(centre[0]), float(centre[1])), HEAD_WIDTH / 2)


def _curve(controls: FloatArray) -> Curve:
    from matplotlib.path import Path as Curve

    codes = [Curve.MOVETO] + [Curve.CURVE4] * (len(controls) - 1)
    return Curve(controls, codes)
