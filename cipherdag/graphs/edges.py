"""Edges by name, their marks as text, and edges read from CSV and from other libraries' graphs."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from cipherdag.errors import GraphError
from cipherdag.pages.files import without_shield
from cipherdag.pages.numerals import first_of

Pair = tuple[str, str]
Mark = Literal["-->", "---", "<->", "o->", "o-o", "o--"]
"""What stands at both ends; circles and double arrows in a PAG only."""
# control characters, halves of surrogate pairs and non-characters: no export format can hold them
_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_DRAWN = re.compile(r"(strict +)?(dag|digraph|graph|mag|pag|pdag)\b")
EDGE_LINES = "Write an edge like age,bmi,--> below from,to,mark; like age,bmi below parent,child."
MOST_LISTED = 5
End = Literal["arrow", "circle", "plain"]
ENDS: dict[str, End] = {"-": "plain", "o": "circle", "<": "arrow", ">": "arrow"}

CAUSALLEARN = {"TAIL": "--", "ARROW": "<>", "CIRCLE": "oo"}
"""What causal-learn calls an end, and how it is written at the left and at the right."""


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """One edge; of an undirected one the source is the name that sorts first."""

    source: str
    target: str
    mark: Mark

    @property
    def ends(self) -> tuple[End, End]:
        """What stands at the source and at the target."""
        return ends_of(self.mark)

    @property
    def symmetric(self) -> bool:
        """Whether both ends have the same mark."""
        return self.ends[0] == self.ends[1]

    def __str__(self) -> str:
        return f"{self.source} {self.mark} {self.target}"


def ends_of(mark: str) -> tuple[End, End]:
    """What a mark has at the source and at the target."""
    return ENDS[mark[0]], ENDS[mark[2]]


def reversed_mark(mark: str) -> str:
    """A mark seen from the other end, such as "<-o" for "o->"."""
    return mark[::-1].translate(str.maketrans("<>", "><"))


def canonical(first: str, second: str, mark: str) -> tuple[str, str, str]:
    """Source, target and mark as graphs write them: an edge with "<--" is turned round."""
    if mark in get_args(Mark):
        return first, second, mark
    return second, first, reversed_mark(mark)


def confirmed_mark(mark: str, other: str, undetermined: str) -> str:
    """A mark without the ends at which another one, such as a consensus, differs.

    ``other`` is written in the same direction; "" differs at both ends. An end is left open as in
    ``undetermined``: "---", or in a PAG "o-o".
    """
    ends = (sign if other[k : k + 1] == sign else undetermined[k] for k, sign in enumerate(mark))
    return "".join(ends)


def checked_names(nodes: Iterable[str], size: int) -> tuple[str, ...]:
    """A graph's names; GraphError at another number, a repetition, or one not to be written."""
    names = tuple(nodes)
    if len(names) != size:
        raise GraphError(
            f"{len(names)} names do not fit a matrix of shape {(size, size)}",
            remedy="Give one name for each row of the matrix.",
        )
    if len(set(names)) != size:
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise GraphError(
            f"a variable is named twice: {quoted(repeated)}", remedy="Name each variable once."
        )
    wrong = [name for name in names if not name or _UNWRITABLE.search(name)]
    if wrong:
        raise GraphError(
            f"a name is empty or has control characters: {wrong[0]!r}",
            remedy="Give every variable a name that can be written on one line.",
        )
    return names


def quoted(names: list[str]) -> str:
    """Up to five names in quotation marks."""
    return first_of([f"'{name}'" for name in names], MOST_LISTED)


def edges_from_csv(
    text: str, *, nodes: Sequence[str] | None = None, marks: Sequence[str] = ("-->", "---")
) -> list[tuple[str, str, str]]:
    """Edges (source, target, mark) of a CSV: ``from,to,mark`` or, all directed, ``parent,child``.

    Further columns are ignored, and marks are those of ``marks``. If variables are declared, a name
    that is none of them is tried again without surrounding white space and in Unicode form C, as
    names are compared everywhere. An apostrophe that `cipherdag.pages.files.csv_text` put in front
    of a name is taken off, unless only the name with it is declared. GraphError for another
    header, an unknown mark, or a line that is too short, by its number.
    """
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    declared = frozenset(nodes or ())
    try:
        columns = _columns(next(rows, []))
        return [_edge(row, columns, rows.line_num, declared, marks) for row in rows if row]
    except csv.Error as error:
        raise GraphError(
            f"the edges are no CSV at line {rows.line_num}: {error}", remedy=EDGE_LINES
        ) from error


def edges_from_networkx(graph: Any) -> list[tuple[str, str, str]]:
    """Edges of a networkx graph, or of an object that is one, such as a DAG or PDAG of pgmpy.

    The attribute ``mark`` of an edge counts where it is there, with ``source`` and ``target`` if
    these are. Else an edge of a ``Graph``, and two arcs that join a pair both ways, have the mark
    ``---``. GraphError where it is no networkx graph, or a multigraph.
    """
    try:
        directed, multiple = graph.is_directed(), graph.is_multigraph()
        edges = list(graph.edges(data=True))
    except (AttributeError, TypeError) as error:
        raise GraphError(
            f"a {type(graph).__name__} is no graph of networkx",
            remedy="Give a networkx Graph or DiGraph.",
        ) from error
    if multiple:
        raise GraphError(
            "a multigraph can join a pair by several edges",
            remedy="Give a Graph or a DiGraph of networkx.",
        )
    read = set()
    for a, b, data in edges:
        one_way = directed and not graph.has_edge(b, a)
        mark = str(data.get("mark", "-->" if one_way else "---"))
        ends = str(data.get("source", a)), str(data.get("target", b))
        ends = min(ends, ends[::-1]) if mark == reversed_mark(mark) else ends
        read.add(canonical(*ends, mark))
    return sorted(read)


def edges_from_causallearn(graph: Any) -> list[tuple[str, str, str]]:
    """Edges of a ``GeneralGraph`` of causal-learn.

    GraphError where it is something else, or an end has a mark that no graph here has.
    """
    try:
        joined = [
            (
                edge.get_node1().get_name(),
                edge.get_node2().get_name(),
                str(edge.get_endpoint1()),
                str(edge.get_endpoint2()),
            )
            for edge in graph.get_graph_edges()
        ]
    except AttributeError as error:
        raise GraphError(
            f"a {type(graph).__name__} is no GeneralGraph of causal-learn",
            remedy="Give the attribute G of what pc returns, or the first value that fci returns.",
        ) from error
    for _, _, *ends in joined:
        if strange := [end for end in ends if end not in CAUSALLEARN]:
            raise GraphError(f"an edge of causal-learn has the mark {strange[0]}")
    return [
        canonical(a, b, f"{CAUSALLEARN[left][0]}-{CAUSALLEARN[right][1]}")
        for a, b, left, right in joined
    ]


def _columns(header: list[str]) -> tuple[int, ...]:
    """Positions of source, target and, where there is one, mark."""
    names = [name.strip().lower() for name in header]
    for wanted in (("from", "to", "mark"), ("parent", "child")):
        if all(name in names for name in wanted):
            return tuple(names.index(name) for name in wanted)
    drawn = _DRAWN.match(names[0] if names else "") is not None
    raise GraphError(
        "the header of a CSV of edges is from,to,mark or parent,child"
        + (", and this is a graph of DAGitty or Graphviz" if drawn else ""),
        remedy="Write `parent,child` into the first line, and below it a line like age,bmi for "
        "each arrow.",
    )


def _edge(
    row: list[str],
    columns: tuple[int, ...],
    line: int,
    declared: frozenset[str],
    marks: Sequence[str],
) -> tuple[str, str, str]:
    if len(row) <= max(columns):
        raise GraphError(f"line {line} of the edges has too few columns", remedy=EDGE_LINES)
    source, target = (_declared_name(row[column], declared) for column in columns[:2])
    if len(columns) == len(("parent", "child")):
        return source, target, "-->"
    mark = row[columns[2]]
    if mark.strip() not in marks:
        allowed = " or ".join(marks)
        raise GraphError(
            f"line {line} of the edges has the mark {mark!r}, not {allowed}", remedy=EDGE_LINES
        )
    return source, target, mark.strip()


def _declared_name(name: str, declared: frozenset[str]) -> str:
    plain = without_shield(name)
    if not declared or plain in declared:
        return plain
    if name in declared:
        return name
    return unicodedata.normalize("NFC", plain).strip()
