"""Graphs as networkx and in the formats of other programs.

Any name that a graph may have survives every format, quotation marks, commas and all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from cipherdag.errors import OutputError
from cipherdag.graphs.drawing import PICTURES
from cipherdag.pages.sheets import csv_text
from cipherdag.pages.whole_file import write_whole

if TYPE_CHECKING:
    import networkx as nx

    from cipherdag.graphs.edges import Edge, Mark
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
_DAGITTY_KINDS = {
    "dag": "dag",
    **dict.fromkeys(("cpdag", "mpdag", "pdag"), "pdag"),
    **dict.fromkeys(("pag", "pmg"), "pag"),
}


def to_networkx(graph: MixedGraph, *, two_arcs: bool = False) -> nx.DiGraph[str] | nx.Graph[str]:
    """A networkx graph that says what it is: a DAG is a ``DiGraph``, any other one no ``DiGraph``.

    The attribute ``kind`` of the graph is that of `MixedGraph.kind`. Every edge has the attribute
    ``mark``, one of `cipherdag.graphs.edges.Mark`.

    Args:
        graph: The graph.
        two_arcs: A ``DiGraph`` of any graph: an edge with the same mark at both ends, such
            as an undirected one, is two arcs. Algorithms for directed graphs take those for a
            cycle.

    Returns:
        Of a DAG, or with `two_arcs`, a ``DiGraph``. Else a ``Graph`` whose edges have the
        attributes ``source`` and ``target`` too, for a mark reads from the one to the other.
    """
    import networkx as nx

    if two_arcs or graph.kind == "dag":
        arcs: nx.DiGraph[str] = nx.DiGraph(kind=graph.kind)
        arcs.add_nodes_from(graph.nodes)
        for edge in graph.edges:
            arcs.add_edge(edge.source, edge.target, mark=edge.mark)
            if edge.symmetric:
                arcs.add_edge(edge.target, edge.source, mark=edge.mark)
        return arcs
    edges: nx.Graph[str] = nx.Graph(kind=graph.kind)
    edges.add_nodes_from(graph.nodes)
    for edge in graph.edges:
        ends = {"source": edge.source, "target": edge.target}
        edges.add_edge(edge.source, edge.target, mark=edge.mark, **ends)
    return edges


def to_graphml(graph: MixedGraph) -> str:
    """GraphML with ``kind``, and ``mark`` on every arc; a symmetric edge is two arcs."""
    import networkx as nx

    body = "\n".join(nx.generate_graphml(to_networkx(graph, two_arcs=True)))
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
    lines = [f"digraph {{  // {graph.kind}", "  node [shape=box, style=rounded];"]
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
        OutputError: A name ends in a backslash, which dagitty's grammar has no way to write.
    """
    lines = [f"{_DAGITTY_KINDS[graph.kind]} {{"]
    lines += [_dagitty_quoted(name) for name in graph.nodes]
    for edge in graph.edges:
        arrow = _DAGITTY[edge.mark]
        lines.append(f"{_dagitty_quoted(edge.source)} {arrow} {_dagitty_quoted(edge.target)}")
    return "\n".join([*lines, "}"]) + "\n"


def to_csv(graph: MixedGraph) -> str:
    """A CSV with the header ``from,to,mark``, one edge per line, without isolated variables."""
    edges = ((edge.source, edge.target, edge.mark) for edge in graph.edges)
    return csv_text([("from", "to", "mark"), *edges])


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _dagitty_quoted(name: str) -> str:
    if name.endswith("\\"):
        raise OutputError(
            f"dagitty cannot read the name '{name}', which ends in a backslash",
            remedy="Rename the variable, or export to GraphML, DOT or CSV.",
        )
    # a backslash stands for itself in dagitty unless a quotation mark follows
    return '"' + name.replace('"', '\\"') + '"'


def _picture(graph: MixedGraph, *, kind: str) -> bytes:
    from cipherdag.graphs.drawing.figure import picture_file

    return picture_file(graph, kind)


EXPORTS: Mapping[str, Callable[[MixedGraph], str | bytes]] = MappingProxyType(
    {
        "graphml": to_graphml,
        "gml": to_gml,
        "dot": to_dot,
        "dagitty": to_dagitty,
        "csv": to_csv,
        **{kind: partial(_picture, kind=kind) for kind in PICTURES},
    }
)
"""Every format that a graph is written in, and what makes its content."""


def export_graph(graph: MixedGraph, kind: str, path: str | Path) -> None:
    """Write a graph in one of the formats of `EXPORTS`; the file may have any ending.

    Raises:
        OutputError: An unknown format, a graph that the format cannot hold, matplotlib is not
            installed, or the file cannot be written.
    """
    if kind not in EXPORTS:
        raise OutputError(f"no export format '{kind}'", remedy=f"Use one of {', '.join(EXPORTS)}.")
    content = EXPORTS[kind](graph)
    write_whole(path, content)
