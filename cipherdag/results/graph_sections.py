"""A learnt graph in a report: its drawing, every edge with its evidence, the truth beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from cipherdag.errors import GraphError
from cipherdag.findings.conclusion import LearntGraph, LearntPAG
from cipherdag.findings.unresolved import unresolved_of
from cipherdag.graphs.drawing.communities import opened, overview
from cipherdag.graphs.drawing.picture import graph_picture, overview_picture
from cipherdag.graphs.edge_evidence import EdgeEvidence
from cipherdag.graphs.edges import Edge, confirmed_mark
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.mixed_graph import MixedGraph
from cipherdag.pages.numerals import counted, probability

ARROWS = {
    "-->": "→",
    "<--": "←",
    "---": "—",
    "<->": "↔",
    "o->": "o→",
    "<-o": "←o",
    "o-o": "o—o",
    "o--": "o—",
    "--o": "—o",
}
VERBS = dict.fromkeys(ARROWS, "is connected to") | {
    "-->": "causes",
    "<->": "shares an unmeasured cause with",
    "o->": "may cause and is not caused by",
    "<-o": "may be caused by and does not cause",
}
MOST_DRAWN = 500  # variables beyond which a drawing of all takes long and shows little
MOST_ASKED = 20  # variables
MOST_SEPARATIONS = 300  # rows of the report; `separations.csv` has all
AS_IN_TRUTH, NOT_IN_TRUTH = "as in the truth", "not in the truth"
OPEN_END = (
    "A circle at an end is an arrowhead or none in reality; these data and tests cannot tell which."
)
NO_DIRECTION = (
    "An edge without an arrow has a direction in reality; these data and tests cannot tell which."
)


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """An edge of the report: its number, its evidence, and what the truth says of it.

    Attributes:
        number: From 1 on.
        edge: The edge.
        evidence: What speaks for it.
        verdict: What the truth says of it, if there is one.
        mark: The mark that is drawn: without what too few replicates have.
    """

    number: int
    edge: Edge
    evidence: EdgeEvidence | None
    verdict: str
    mark: str

    @property
    def sureness(self) -> tuple[float, str] | None:
        """By what edges are filtered, larger for surer, and as people read it."""
        own = self.evidence
        if own is not None and own.known == "edge":
            return math.inf, own.known
        if own is not None and own.shown:
            return own.strength, own.shown
        if own is None or own.p_value is None:
            return None
        return -own.p_value, probability(own.p_value)


def graph_sections(found: LearntGraph, truth: CausalGraph | None) -> dict[str, Any]:
    """What a report shows of a graph.

    Args:
        found: The graph.
        truth: A true DAG, if there is one.
    """
    true = _comparable(found, truth)
    limits = [NO_DIRECTION] if found.graph.undirected else []
    count = len(found.graph.directed)
    return _sections(found, true) | {
        "queries": effect_queries(found.graph),
        "missing": _missing(found, true),
        "told": f"{count} edge{'s' * (count != 1)} with a direction and "
        f"{len(found.graph.undirected)} without",
        "own_limits": [*limits, *([found.dag_note] if found.dag_note else [])],
    }


def effect_queries(graph: CausalGraph) -> list[tuple[str, str, str]]:
    """Of every ordered pair of variables what the graph says of the effect of one on the other.

    Returns:
        Cause, outcome and the answer; none of many variables, of which the answers take long, nor
        of a graph that stands for no class of DAGs.
    """
    if len(graph.nodes) > MOST_ASKED:
        return []
    try:
        answers = [(a, b, graph.identify(a, b)) for a, b in permutations(graph.nodes, 2)]
    except GraphError:  # a PDAG, of which nothing is claimed
        return []
    return [(a, b, "; ".join(map(str.strip, str(own).split("\n")))) for a, b, own in answers]


def pag_sections(found: LearntPAG) -> dict[str, Any]:
    """What a report shows of a partial ancestral graph."""
    marks = Counter(edge.mark for edge in found.graph.edges)
    counts = (f"{count} {ARROWS[mark]}" for mark, count in sorted(marks.items()))
    limits = [OPEN_END] if any("o" in mark for mark in marks) else []
    return _sections(found, None) | {
        "queries": [],
        "missing": [],
        "told": counted(len(found.graph.edges), "edge")
        + (f" ({', '.join(counts)})" if marks else ""),
        "own_limits": limits,
    }


def _sections(found: LearntGraph | LearntPAG, true: CausalGraph | None) -> dict[str, Any]:
    """What the reports of all kinds of graphs show."""
    evidence = found.evidence
    known = {(edge.source, edge.target): edge for edge in evidence.edges}
    return {
        **pictures(found.graph, known),
        "arrows": ARROWS,
        "verbs": VERBS,
        "evidence": evidence,
        "edges": _edge_rows(found.graph, known, true),
        "measured": any(own.shown for own in evidence.edges),
        "tested": any(own.p_value is not None for own in evidence.edges),
        "signs": {mark for own in evidence.edges for mark in _signs(own)},
        "separations": evidence.separations[:MOST_SEPARATIONS],
        "remarks": evidence.remarks,
        "unresolved": bool(unresolved_of(found.details)),
    }


def pictures(
    graph: MixedGraph,
    known: Mapping[tuple[str, str], EdgeEvidence],
    marked: Mapping[Edge, str] | None = None,
) -> dict[str, Any]:
    """The whole graph unless it is too large, and of many variables its groups, each opened too."""
    whole = graph_picture(graph, known, marked) if len(graph.nodes) <= MOST_DRAWN else None
    shown = overview(graph)
    if not shown.collapsed:
        return {"picture": whole, "overview": None, "groups": {}}
    groups = [name for name, members in shown.members.items() if members[1:]]
    return {
        "picture": whole,
        "overview": overview_picture(shown, graph, known, marked),
        "groups": {
            name: overview_picture(opened(graph, shown, name), graph, known, marked)
            for name in groups
        },
    }


def _signs(own: EdgeEvidence) -> tuple[str, ...]:
    """What the picture's legend has to say for this edge."""
    doubtful = ("consensus",) if own.consensus is not None else ()
    return (*doubtful, *(("known",) if own.known else ()))


def _edge_rows(
    graph: MixedGraph, known: dict[tuple[str, str], EdgeEvidence], true: CausalGraph | None
) -> list[EdgeRow]:
    rows = []
    for number, edge in enumerate(graph.edges, start=1):
        own = known.get((edge.source, edge.target))
        told = None if own is None else own.consensus
        mark = edge.mark if told is None else confirmed_mark(edge.mark, told, graph.undetermined)
        verdict = "" if true is None else _verdict(edge, true)
        rows.append(EdgeRow(number, edge, own, verdict, mark))
    return rows


def _verdict(edge: Edge, true: CausalGraph) -> str:
    a, b = true.nodes.index(edge.source), true.nodes.index(edge.target)
    there, back = bool(true.arcs[a, b]), bool(true.arcs[b, a])
    if not (there or back):
        return NOT_IN_TRUTH
    if there and back == (edge.mark == "---"):
        return AS_IN_TRUTH
    source, target = (edge.source, edge.target) if there else (edge.target, edge.source)
    return f"truth: {source} {ARROWS['---' if there and back else '-->']} {target}"


def _comparable(found: LearntGraph, truth: CausalGraph | None) -> CausalGraph | None:
    """The true DAG where the learnt graph tells more than a CPDAG can, else the true CPDAG."""
    if truth is None:
        return None
    graph = found.graph
    return truth if graph.is_dag and graph.to_cpdag() != graph else truth.to_cpdag()


def _missing(found: LearntGraph, true: CausalGraph | None) -> list[Edge]:
    """Edges of the truth between variables that the learnt graph does not join."""
    if true is None:
        return []
    joined = {frozenset((edge.source, edge.target)) for edge in found.graph.edges}
    return [edge for edge in true.edges if frozenset((edge.source, edge.target)) not in joined]
