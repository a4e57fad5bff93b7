"""A learnt graph in a report: its drawing, every edge with its evidence, the truth beside it."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from cipherdag.errors import GraphError
from cipherdag.findings.doubts import UNRESOLVED
from cipherdag.findings.edge_table import why
from cipherdag.findings.graph_finding import AnyGraph, GraphFinding
from cipherdag.graphs.drawing.communities import opened, overview
from cipherdag.graphs.drawing.picture import graph_picture, overview_picture
from cipherdag.graphs.edge_evidence import EdgeEvidence, EffectSize
from cipherdag.graphs.edges import Edge, confirmed_mark
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.mixed_graph import MixedGraph
from cipherdag.graphs.pag import PartialMixedGraph
from cipherdag.pages.numerals import LEAST_SHARE, probability, share_shown

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
SAID = {
    "-->": "{a} is a cause of {b}.",
    "<--": "{b} is a cause of {a}.",
    "---": "{a} and {b} are related; the data do not say which is the cause.",
    "<->": "{a} and {b} share an unmeasured cause; neither causes the other.",
    "o->": "{a} causes {b}, or both share an unmeasured cause; {b} is no cause of {a}.",
    "<-o": "{b} causes {a}, or both share an unmeasured cause; {a} is no cause of {b}.",
    "o-o": "{a} and {b} are related; which causes which, or an unmeasured cause of both, is open.",
    "o--": "{b} is a cause of {a}, or of what rows were selected by; the other end is open.",
    "--o": "{a} is a cause of {b}, or of what rows were selected by; the other end is open.",
}
"""What an edge says, if no test errs."""
SAID_OF_PAGS = SAID | {
    "-->": "{a} is a cause of {b}, perhaps through others.",
    "<--": "{b} is a cause of {a}, perhaps through others.",
    "---": "{a} and {b} each cause the other, or what rows were selected by.",
}
SUPPLIED = {"edge": "this edge", "direction": "its direction"}
MOST_DRAWN = 500  # variables beyond which a drawing of all takes long and shows little
BEGUN = ("the effect", "if ")  # with what an answer begins where it is no name
MOST_ASKED = 20  # variables
MOST_SEPARATIONS = 300  # rows of the report; `separations.csv` has all
AS_IN_TRUTH, NOT_IN_TRUTH = "as in the truth", "not in the truth"


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """An edge of the report; ``mark`` is drawn, without what too few replicates have."""

    number: int
    edge: Edge
    evidence: EdgeEvidence | None
    verdict: str
    mark: str
    sentence: str

    @property
    def sureness(self) -> tuple[float, str] | None:
        """The number that edges are filtered by, larger for surer ones, and its text."""
        evidence = self.evidence
        if evidence is not None and evidence.known == "edge":
            return math.inf, evidence.known
        if evidence is not None and evidence.shown:
            return evidence.strength, evidence.shown
        if evidence is None or evidence.p_value is None:
            return None
        return -evidence.p_value, probability(evidence.p_value)


def graph_sections(finding: GraphFinding[CausalGraph], truth: CausalGraph | None) -> dict[str, Any]:
    """The report's sections on a graph, its evidence and a true DAG, if there is one."""
    graph = finding.graph
    true = _comparable(graph, truth)
    count = len(graph.directed)
    return _sections(finding, true) | {
        "queries": effect_queries(graph, finding.sample),
        "missing": _missing(graph, true),
        "told": f"{count} edge{'s' * (count != 1)} with a direction and "
        f"{len(graph.undirected)} without",
    }


def edge_in_words(
    edge: Edge, said: str, evidence: EdgeEvidence | None, units: Mapping[str, str]
) -> str:
    """An edge in sentences: what it says, its size with reference and unit.

    ``said`` is what the mark that is drawn says; an edge that stands since tests were not done says
    that alone, and no cause. Units of numbers are by column.
    """
    a, b = (
        f"{name} ({units[name]})" if name in units else name for name in (edge.source, edge.target)
    )
    sentences = [said.format(a=a, b=b)]
    if evidence is not None and not evidence.stands_on_evidence:
        sentences = [f"{a} and {b} {why(evidence)}."]
    if evidence is not None and evidence.effect is not None:
        given = f"Among rows with the same {', '.join(evidence.given)}, " if evidence.given else ""
        sentences.append(f"{given}{_effect_in_words(evidence.effect, edge, (a, b))}.")
    if evidence is not None and evidence.known:
        sentences.append(f"You gave {SUPPLIED[evidence.known]} before the run.")
    return " ".join(sentences)


def _effect_in_words(effect: EffectSize, edge: Edge, named: tuple[str, str]) -> str:
    """Which ends go together, by reference categories, and how strongly where that is open."""
    ends = [
        name
        for name, end in zip(named, (edge.source, edge.target), strict=True)
        if f"{end} = " not in effect.of
    ]
    direction = "go together" if effect.sign == "positive" else "go against each other"
    size = "" if effect.size is None else f": {replace(effect, of='')}"
    return f"{' and '.join([*([effect.of] if effect.of else []), *ends])} {direction}{size}"


def effect_queries(
    graph: CausalGraph, sample: GraphSample | None = None
) -> list[tuple[str, str, str]]:
    """The identification of the effect of every ordered pair of variables in the graph.

    Returns:
        Cause, outcome and the answer, after the share of a sample of graphs that have the effect;
        none of many variables, of which the answers take long, nor of a graph that stands for no
        class of DAGs.
    """
    if len(graph.nodes) > MOST_ASKED:
        return []
    try:
        answers = [(a, b, graph.identify(a, b)) for a, b in permutations(graph.nodes, 2)]
    except GraphError:  # a PDAG, of which nothing is claimed
        return []
    return [(a, b, _over(sample, a, b) + _in_sentences(str(answer))) for a, b, answer in answers]


def _over(sample: GraphSample | None, cause: str, outcome: str) -> str:
    if sample is None:
        return ""
    share = float(sample.causes[sample.nodes.index(cause), sample.nodes.index(outcome)])
    return f"{cause} causes {outcome} in {share_shown(share)} of graphs that fit. In the one here: "


def _in_sentences(answer: str) -> str:
    lines = map(str.strip, answer.split("\n"))
    begun = (f"{line[0].upper()}{line[1:]}" if line.startswith(BEGUN) else line for line in lines)
    return " ".join(f"{line}." for line in begun)


def pag_sections(finding: GraphFinding[PartialMixedGraph]) -> dict[str, Any]:
    """The report's sections on a partial ancestral graph and its evidence."""
    marks = Counter(edge.mark for edge in finding.graph.edges)
    counts = (f"{count} {ARROWS[mark]}" for mark, count in sorted(marks.items()))
    return _sections(finding, None) | {
        "queries": [],
        "missing": [],
        "told": finding.headline + (f" ({', '.join(counts)})" if marks else ""),
    }


def _sections(finding: GraphFinding[AnyGraph], true: CausalGraph | None) -> dict[str, Any]:
    """The report's sections that graphs of all kinds share."""
    evidence = finding.evidence
    by_ends = {(edge.source, edge.target): edge for edge in evidence.edges}
    return {
        **pictures(finding.graph, by_ends),
        "arrows": ARROWS,
        "verbs": VERBS,
        "evidence": evidence,
        "edges": _edge_rows(finding, by_ends, true),
        "measured": any(edge.shown for edge in evidence.edges),
        "tested": any(edge.p_value is not None for edge in evidence.edges),
        "signs": {"consensus" for edge in evidence.edges if edge.consensus is not None}
        | {"known" for edge in evidence.edges if edge.known},
        "separations": evidence.separations[:MOST_SEPARATIONS],
        "unresolved": bool(finding.details.get(UNRESOLVED)),
    }


def pictures(
    graph: MixedGraph,
    by_ends: Mapping[tuple[str, str], EdgeEvidence],
    marked: Mapping[Edge, str] | None = None,
) -> dict[str, Any]:
    """The whole graph unless it is too large, and of many variables its groups, each opened too."""
    whole = graph_picture(graph, by_ends, marked) if len(graph.nodes) <= MOST_DRAWN else None
    shown = overview(graph)
    if not shown.collapsed:
        return {"picture": whole, "overview": None, "groups": {}}
    groups = [name for name, members in shown.members.items() if members[1:]]
    return {
        "picture": whole,
        "overview": overview_picture(shown, graph, by_ends, marked),
        "groups": {
            name: overview_picture(opened(graph, shown, name), graph, by_ends, marked)
            for name in groups
        },
    }


def _edge_rows(
    finding: GraphFinding[AnyGraph],
    by_ends: Mapping[tuple[str, str], EdgeEvidence],
    true: CausalGraph | None,
) -> list[EdgeRow]:
    rows = []
    graph, sample, units = finding.graph, finding.sample, finding.dictionary.units
    said = SAID_OF_PAGS if isinstance(graph, PartialMixedGraph) else SAID
    for number, edge in enumerate(graph.edges, start=1):
        evidence = by_ends.get((edge.source, edge.target))
        consensus = None if evidence is None else evidence.consensus
        mark = (
            edge.mark
            if consensus is None
            else confirmed_mark(edge.mark, consensus, graph.undetermined)
        )
        verdict = "" if true is None else _verdict(edge, true)
        words = said[mark] if sample is None else _in_graphs(sample, edge)
        sentence = edge_in_words(edge, words, evidence, units)
        rows.append(EdgeRow(number, edge, evidence, verdict, mark, sentence))
    return rows


def _in_graphs(sample: GraphSample, edge: Edge) -> str:
    """What the graphs that fit say of an edge, in place of what one graph says as if it were so."""
    there, back = sample.shares(edge.source, edge.target)
    rest = "" if there + back > 1.0 - LEAST_SHARE else "; in the others neither does"
    said = f"{{a}} causes {{b}} directly in {share_shown(there)} of graphs that fit"
    return f"{said}, {{b}} causes {{a}} in {share_shown(back)}{rest}."


def _verdict(edge: Edge, true: CausalGraph) -> str:
    a, b = true.nodes.index(edge.source), true.nodes.index(edge.target)
    there, back = bool(true.arcs[a, b]), bool(true.arcs[b, a])
    if not (there or back):
        return NOT_IN_TRUTH
    if there and back == (edge.mark == "---"):
        return AS_IN_TRUTH
    source, target = (edge.source, edge.target) if there else (edge.target, edge.source)
    return f"truth: {source} {ARROWS['---' if there and back else '-->']} {target}"


def _comparable(graph: CausalGraph, truth: CausalGraph | None) -> CausalGraph | None:
    """The true DAG where the learnt graph tells more than a CPDAG can, else the true CPDAG."""
    if truth is None:
        return None
    return truth if graph.is_dag and graph.to_cpdag() != graph else truth.to_cpdag()


def _missing(graph: CausalGraph, true: CausalGraph | None) -> list[Edge]:
    """Edges of the truth between variables that the learnt graph does not join."""
    if true is None:
        return []
    joined = {frozenset((edge.source, edge.target)) for edge in graph.edges}
    return [edge for edge in true.edges if frozenset((edge.source, edge.target)) not in joined]
