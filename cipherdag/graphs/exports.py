"""Graphs as objects of Python libraries, and as text for other programs.

Any name that a graph may have survives every format, quotation marks, commas and all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cipherdag.errors import OutputError, writing
from cipherdag.graphs.drawing import PICTURES
from cipherdag.pages.files import csv_text, replace_file

if TYPE_CHECKING:
    import networkx as nx

    from cipherdag.graphs.edges import Edge, End, Mark
    from cipherdag.graphs.graph_sample import GraphSample
    from cipherdag.graphs.mixed_graph import MixedGraph

_DOT = {"arrow": "normal", "circle": "odot", "plain": "none"}
_DAGITTY: dict[Mark, str] = {
    "-->": "->",
    "---": "--",
    "<->": "<->",
    "o->": "@->",
    "o-o": "@-@",
    "o--": "@--",
}
_ENDPOINTS: dict[End, str] = {"plain": "TAIL", "arrow": "ARROW", "circle": "CIRCLE"}
_TAKE_A_DAG = "Take `finding.dag`, or `graph.to_dag()`: a DAG of the class."
_NO_HIDDEN_CAUSES = "Learn a CPDAG with FedPC or FedBOSS, where no cause is hidden."
_RENAME = "Rename the variable, or export to GraphML, DOT or CSV."
_DAGITTY_WORDS = ("graph", "node")
_DAGITTY_KINDS = {
    "dag": "dag",
    **dict.fromkeys(("cpdag", "mpdag", "pdag"), "pdag"),
    **dict.fromkeys(("pag", "pmg"), "pag"),
}


def to_networkx(
    graph: MixedGraph, *, two_arcs: bool = False, sample: GraphSample | None = None
) -> nx.DiGraph[str] | nx.Graph[str]:
    """A networkx graph: a ``DiGraph`` of a DAG, a ``Graph`` of any other kind of graph.

    The attribute ``kind`` of the graph is that of `MixedGraph.kind`. Every edge has the attribute
    ``mark``, one of `cipherdag.graphs.edges.Mark`.

    A graph that is no DAG is a ``Graph`` whose edges have the attributes ``source`` and ``target``
    too, for a mark reads from the one to the other. With ``two_arcs`` it is a ``DiGraph``: an edge
    with the same mark at both ends is two arcs, which algorithms for directed graphs take for a
    cycle.

    With a sample of graphs, such as ``finding.sample``, every edge has the shares of graphs that
    join the two (``in_graphs``) and that lead from source to target (``arrow_in_graphs``); the
    graph has ``causes``, the share with a path from a name to another, by the two names.
    """
    import networkx as nx

    directed = two_arcs or graph.kind == "dag"
    made: nx.DiGraph[str] | nx.Graph[str] = (nx.DiGraph if directed else nx.Graph)(kind=graph.kind)
    made.add_nodes_from(graph.nodes)
    for edge in graph.edges:
        ends = {} if directed else {"source": edge.source, "target": edge.target}
        made.add_edge(edge.source, edge.target, mark=edge.mark, **ends)
        if directed and edge.symmetric:
            made.add_edge(edge.target, edge.source, mark=edge.mark)
    if sample is not None:
        index = {name: position for position, name in enumerate(sample.nodes)}
        arrows, paths = sample.arrows.tolist(), sample.causes.tolist()
        for first, second, attributes in made.edges(data=True):
            x, z = index[attributes.get("source", first)], index[attributes.get("target", second)]
            attributes |= {
                "in_graphs": arrows[x][z] + arrows[z][x],
                "arrow_in_graphs": arrows[x][z],
            }
        made.graph["causes"] = {
            a: {b: paths[x][z] for b, z in index.items() if b != a} for a, x in index.items()
        }
    return made


def to_dowhy(graph: MixedGraph) -> nx.DiGraph[str]:
    """The ``DiGraph`` of a DAG, for ``dowhy.CausalModel(graph=...)`` and ``dowhy.gcm``.

    DoWhy reads the texts of `to_gml` and `to_dot` too.

    Raises:
        OutputError: The graph is no DAG, and DoWhy takes no other.
    """
    import networkx as nx

    if graph.kind != "dag":
        raise OutputError(
            f"DoWhy takes a DAG, and this graph is a {graph.kind.upper()}",
            remedy=_TAKE_A_DAG if _is_pattern(graph) else _NO_HIDDEN_CAUSES,
        )
    made = to_networkx(graph)
    assert isinstance(made, nx.DiGraph)  # as of every DAG
    return made


def to_pgmpy(graph: MixedGraph) -> Any:
    """A ``pgmpy.base.DAG`` of a DAG, a ``pgmpy.base.PDAG`` of a CPDAG, an MPDAG and a PDAG.

    Raises:
        OutputError: The graph is a PAG, which pgmpy cannot hold, or pgmpy is not installed.
    """
    _require_pattern(graph, "pgmpy")
    try:
        from pgmpy.base import DAG, PDAG
    except ImportError as error:
        raise _not_installed("pgmpy") from error
    arrows = [(edge.source, edge.target) for edge in graph.edges if not edge.symmetric]
    lines = [(edge.source, edge.target) for edge in graph.edges if edge.symmetric]
    made = DAG(arrows) if graph.kind == "dag" else PDAG(arrows, lines)
    made.add_nodes_from(graph.nodes)
    return made


def to_causallearn(graph: MixedGraph) -> Any:
    """A ``GeneralGraph`` of causal-learn, which holds every mark; or an OutputError without it."""
    try:
        from causallearn.graph.Edge import Edge as Joined
        from causallearn.graph.Endpoint import Endpoint
        from causallearn.graph.GeneralGraph import GeneralGraph
        from causallearn.graph.GraphNode import GraphNode
    except ImportError as error:
        raise _not_installed("causal-learn") from error
    named = {name: GraphNode(name) for name in graph.nodes}
    made = GeneralGraph(list(named.values()))
    for edge in graph.edges:
        ends = [
            (named[name], Endpoint[_ENDPOINTS[end]])
            for name, end in zip((edge.source, edge.target), edge.ends, strict=True)
        ]
        # `add_edge` leaves out an edge whose tail comes after its circle
        (a, at_a), (b, at_b) = ends[::-1] if edge.mark == "o--" else ends
        made.add_edge(Joined(a, b, at_a, at_b))
    return made


def to_graphml(graph: MixedGraph, *, sample: GraphSample | None = None) -> str:
    """GraphML with ``kind``, and ``mark`` on every arc; a symmetric edge is two arcs.

    A sample's shares are those of `to_networkx`, ``causes`` as JSON.
    """
    import networkx as nx

    made = to_networkx(graph, two_arcs=True, sample=sample)
    if sample is not None:
        made.graph["causes"] = json.dumps(made.graph["causes"])
    body = "\n".join(nx.generate_graphml(made))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def to_gml(graph: MixedGraph) -> str:
    """GML with ``kind``, and ``mark`` on every arc; a symmetric edge is two arcs.

    Characters beyond ASCII and quotation marks stand as numeric entities, as GML wants it.
    """
    import networkx as nx

    return "\n".join(nx.generate_gml(to_networkx(graph, two_arcs=True))) + "\n"


def to_dot(graph: MixedGraph) -> str:
    r"""Graphviz DOT; an undirected edge is one edge with ``dir=none``.

    Names stand in quotation marks, with ``\"`` for a quotation mark and ``\\`` for a backslash, so
    that Graphviz draws them as they are.
    """
    lines = [f"digraph {{  /* {graph.kind} */", "  node [shape=box, style=rounded];"]
    lines += [f"  {_quoted(name)};" for name in graph.nodes]
    for edge in graph.edges:
        ends = _dot_ends(edge)
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)}{ends};")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_ends(edge: Edge) -> str:
    if edge.mark in ("-->", "---"):
        return " [dir=none]" if edge.mark == "---" else ""
    tail, head = (_DOT[end] for end in edge.ends)
    return f" [dir=both, arrowtail={tail}, arrowhead={head}]"


def to_dagitty(graph: MixedGraph) -> str:
    r"""The text form of dagitty (dagitty.net and the R package): ``dag``, ``pdag`` or ``pag``.

    Raises:
        OutputError: A name ends in a backslash, which dagitty's grammar has no way to write, or is
            ``graph`` or ``node``, which are its words for settings.
    """
    lines = [f"{_DAGITTY_KINDS[graph.kind]} {{"]
    lines += [_dagitty_quoted(name) for name in graph.nodes]
    for edge in graph.edges:
        arrow = _DAGITTY[edge.mark]
        lines.append(f"{_dagitty_quoted(edge.source)} {arrow} {_dagitty_quoted(edge.target)}")
    return "\n".join([*lines, "}"]) + "\n"


def to_bnlearn(graph: MixedGraph) -> str:
    """R code that makes the ``bn`` object of the R package bnlearn: ``dget("graph.R")``.

    Raises:
        OutputError: The graph is a PAG or has a cycle of arrows: bnlearn can hold neither.
    """
    from cipherdag.graphs.extension import topological_order

    _require_pattern(graph, "bnlearn")
    if topological_order(graph.arcs & ~graph.arcs.T) is None:
        raise OutputError(
            "bnlearn cannot hold this graph, whose arrows form a cycle",
            remedy="Take `graph.without_cycles()`, or export to pcalg, GraphML, DOT or CSV.",
        )
    arcs = [
        f"    {_r_text(a)}, {_r_text(b)}"
        for edge in graph.edges
        for a, b in ((edge.source, edge.target), (edge.target, edge.source))[: 1 + edge.symmetric]
    ]
    lines = ["local({", f"  graph <- bnlearn::empty.graph({_r_texts(graph.nodes)})"]
    if arcs:
        lines += [
            "  bnlearn::arcs(graph, check.cycles = FALSE) <- matrix(c(",
            ",\n".join(arcs),
            "  ), ncol = 2, byrow = TRUE)",
        ]
    return "\n".join([*lines, "  graph", "})"]) + "\n"


def to_pcalg(graph: MixedGraph) -> str:
    """R code that makes an adjacency matrix for the R package pcalg: ``dget("graph.R")``.

    It is of pcalg's type ``amat.cpdag``, where [b, a] is 1 for a --> b, and [a, b] too for a --- b.
    A PAG's is of the type ``amat.pag``, which numbers marks as `MixedGraph.endpoints` does.
    """
    pattern = _is_pattern(graph)
    matrix = graph.arcs.T.astype(int) if pattern else graph.endpoints
    rows = [", ".join(f"{value}L" for value in row) for row in matrix.tolist()]
    lines = [
        f"# amat.{'cpdag' if pattern else 'pag'}",
        "matrix(c(",
        ",\n".join(f"  {row}" for row in rows),
        f"), nrow = {len(rows)}, byrow = TRUE, dimnames = rep(list({_r_texts(graph.nodes)}), 2))",
    ]
    return "\n".join(lines) + "\n"


def to_csv(graph: MixedGraph) -> str:
    """A CSV with the header ``from,to,mark``, one edge per line, without isolated variables."""
    edges = ((edge.source, edge.target, edge.mark) for edge in graph.edges)
    return csv_text([("from", "to", "mark"), *edges])


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _r_text(name: str) -> str:
    """A name as R reads it in any locale: what is beyond ASCII stands by its number."""
    plain = name.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isascii() else f"\\U{ord(c):08x}" for c in plain) + '"'


def _r_texts(names: Iterable[str]) -> str:
    return f"c({', '.join(map(_r_text, names))})"


def _is_pattern(graph: MixedGraph) -> bool:
    """Whether tails and arrowheads are the only marks of this kind of graph."""
    return graph.undetermined == "---"


def _require_pattern(graph: MixedGraph, program: str) -> None:
    if not _is_pattern(graph):
        raise OutputError(
            f"{program} cannot hold a {graph.kind.upper()}: its edges have no circles, and "
            "arrowheads at one end only",
            remedy="Export to causal-learn, networkx, pcalg, dagitty, GraphML or CSV.",
        )


def _not_installed(package: str) -> OutputError:
    return OutputError(
        f"this export needs {package}, which is not installed",
        remedy=f"Run `pip install {package}`.",
    )


def _dagitty_quoted(name: str) -> str:
    if name.endswith("\\"):
        raise OutputError(
            f"dagitty cannot read the name '{name}', which ends in a backslash", remedy=_RENAME
        )
    if name in _DAGITTY_WORDS:
        raise OutputError(f"dagitty takes the name '{name}' for a setting", remedy=_RENAME)
    # a backslash stands for itself in dagitty unless a quotation mark follows
    return '"' + name.replace('"', '\\"') + '"'


def _picture(graph: MixedGraph, *, kind: str) -> bytes:
    from cipherdag.graphs.drawing.figure import picture_file

    return picture_file(graph, kind)


EXPORTS: Mapping[str, Callable[..., str | bytes]] = MappingProxyType(
    {
        "graphml": to_graphml,
        "gml": to_gml,
        "dot": to_dot,
        "dagitty": to_dagitty,
        "bnlearn": to_bnlearn,
        "pcalg": to_pcalg,
        "csv": to_csv,
        **{kind: partial(_picture, kind=kind) for kind in PICTURES},
    }
)
"""Every format that a graph is written in, and what makes its content."""


def export_graph(
    graph: MixedGraph, kind: str, path: str | Path, *, sample: GraphSample | None = None
) -> None:
    """Write a graph in one of the formats of `EXPORTS`; the file may have any ending.

    GraphML has a sample's shares, too.

    Raises:
        OutputError: An unknown format, a graph that the format cannot hold, matplotlib is not
            installed, or the file cannot be written.
    """
    if kind not in EXPORTS:
        raise OutputError(f"no export format '{kind}'", remedy=f"Use one of {', '.join(EXPORTS)}.")
    shares = {"sample": sample} if kind == "graphml" else {}
    content = EXPORTS[kind](graph, **shares)
    with writing(path):
        replace_file(path, content)
