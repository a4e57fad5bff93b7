"""Graphs as networkx and in the formats of other programs, and edges back from CSV.

Any name that a `CausalGraph` may have survives every format, quotation marks, commas and all.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from cipherdag.errors import GraphError, OutputError
from cipherdag.graphs.drawing import PICTURES
from cipherdag.graphs.edges import Edge, Graph, Mark
from cipherdag.pages.whole_file import write_whole

if TYPE_CHECKING:
    import networkx as nx

MARKS: tuple[Mark, ...] = ("-->", "---")
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
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # behind apostrophes, so that one more can be taken off


def to_networkx(graph: Graph, *, two_arcs: bool = False) -> nx.DiGraph[str] | nx.Graph[str]:
    """A networkx graph that says what it is: a DAG is a ``DiGraph``, any other one no ``DiGraph``.

    The attribute ``kind`` of the graph is that of `Graph.kind`. Every edge has the attribute
    ``mark``, one of `cipherdag.graphs.edges.Mark`.

    Args:
        graph: The graph.
        two_arcs: A ``DiGraph`` of any graph: an edge whose ends are alike, such as an undirected
            one, is two arcs. Algorithms for directed graphs take those for a cycle.

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
    found: nx.Graph[str] = nx.Graph(kind=graph.kind)
    found.add_nodes_from(graph.nodes)
    for edge in graph.edges:
        ends = {"source": edge.source, "target": edge.target}
        found.add_edge(edge.source, edge.target, mark=edge.mark, **ends)
    return found


def to_graphml(graph: Graph) -> str:
    """GraphML with ``kind``, and ``mark`` on every arc; an edge of like ends is two arcs."""
    import networkx as nx

    body = "\n".join(nx.generate_graphml(to_networkx(graph, two_arcs=True)))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def to_gml(graph: Graph) -> str:
    """GML with ``kind``, and ``mark`` on every arc; an edge of like ends is two arcs.

    Characters beyond ASCII and quotation marks stand as numeric entities, as GML wants it.
    """
    import networkx as nx

    return "\n".join(nx.generate_gml(to_networkx(graph, two_arcs=True))) + "\n"


def to_dot(graph: Graph) -> str:
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
    if edge.mark in MARKS:
        return " [dir=none]" if edge.mark == "---" else ""
    tail, head = (_DOT[end] for end in edge.ends)
    return f" [dir=both, arrowtail={tail}, arrowhead={head}]"


def to_dagitty(graph: Graph) -> str:
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


def to_csv(graph: Graph) -> str:
    """A CSV with the header ``from,to,mark``, one edge per line, without isolated variables."""
    edges = ((edge.source, edge.target, edge.mark) for edge in graph.edges)
    return csv_text([("from", "to", "mark"), *edges])


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, each line ended by a line feed alone, and no text that a spreadsheet computes.

    Text that begins as a formula does gets an apostrophe in front, by which spreadsheets know text.

    Source: OWASP, "CSV Injection".
    """
    text = io.StringIO(newline="")
    lines = ([_shielded(cell) for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _shielded(cell: object) -> object:
    formula = isinstance(cell, str) and _FORMULA.match(cell) and cell not in MARKS
    return f"'{cell}" if formula else cell


def _unshielded(cell: str) -> str:
    """The text that `csv_text` wrote so."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def edges_from_csv(
    text: str, *, nodes: Sequence[str] | None = None, marks: Sequence[str] = MARKS
) -> list[tuple[str, str, str]]:
    """Edges of a CSV with the columns ``from,to,mark`` or, all directed, ``parent,child``.

    Args:
        text: The content of the file; further columns are ignored.
        nodes: The variables, if known: a name that is none of them is tried again without
            surrounding white space and in Unicode form C, as names are compared everywhere.
        marks: Those that an edge may have.

    An apostrophe that `csv_text` put in front of a name is taken off, unless only the name with it
    is known.

    Returns:
        (source, target, mark) of every line.

    Raises:
        GraphError: Another header, an unknown mark, or a line that is too short, by its number.
    """
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    known = frozenset(nodes or ())
    try:
        columns = _columns(next(rows, []))
        return [_edge(row, columns, rows.line_num, known, marks) for row in rows if row]
    except csv.Error as error:
        raise GraphError(f"the edges are no CSV at line {rows.line_num}: {error}") from error


def _columns(header: list[str]) -> tuple[int, ...]:
    """Positions of source, target and, where there is one, mark."""
    names = [name.strip().lower() for name in header]
    for wanted in (("from", "to", "mark"), ("parent", "child")):
        if all(name in names for name in wanted):
            return tuple(names.index(name) for name in wanted)
    raise GraphError("the header of a CSV of edges is from,to,mark or parent,child")


def _edge(
    row: list[str],
    columns: tuple[int, ...],
    line: int,
    known: frozenset[str],
    marks: Sequence[str],
) -> tuple[str, str, str]:
    if len(row) <= max(columns):
        raise GraphError(f"line {line} of the edges has too few columns")
    source, target = (_known_name(row[column], known) for column in columns[:2])
    if len(columns) == len(("parent", "child")):
        return source, target, "-->"
    mark = row[columns[2]]
    if mark.strip() not in marks:
        allowed = " or ".join(marks)
        raise GraphError(f"line {line} of the edges has the mark {mark!r}, not {allowed}")
    return source, target, mark.strip()


def _known_name(name: str, known: frozenset[str]) -> str:
    plain = _unshielded(name)
    if not known or plain in known:
        return plain
    if name in known:
        return name
    return unicodedata.normalize("NFC", plain).strip()


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


def _picture(graph: Graph, *, kind: str) -> bytes:
    from cipherdag.graphs.drawing.figure import drawn

    return drawn(graph, kind)


EXPORTS: Mapping[str, Callable[[Graph], str | bytes]] = MappingProxyType(
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


def export_graph(graph: Graph, kind: str, path: str | Path) -> None:
    """Write a graph in one of the formats of `EXPORTS`; the file may have any ending.

    Raises:
        OutputError: An unknown format, a graph that the format cannot hold, matplotlib is not
            installed, or the file cannot be written.
    """
    if kind not in EXPORTS:
        raise OutputError(f"no export format '{kind}'", remedy=f"Use one of {', '.join(EXPORTS)}.")
    content = EXPORTS[kind](graph)
    write_whole(path, content)
