"""The edges of a graph as a table: what was opened about each, and what it stands on.

What an edge stands on is the `status` and the `tests` of `EdgeEvidence`; terminal, CSV, JSON, page
and warnings all read it here.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from cipherdag.findings.confidence import CONSENSUS, Confidences
from cipherdag.findings.finding import Cells, Column
from cipherdag.graphs.edge_evidence import EdgeEvidence, EffectSize, GraphEvidence
from cipherdag.graphs.edges import canonical, reversed_mark
from cipherdag.graphs.graph_sample import GraphSample
from cipherdag.graphs.mixed_graph import MixedGraph
from cipherdag.pages.numerals import counted, first_of, share_shown

Difference = tuple[str, str, str, str, bool]
"""A pair of names, the mark that each of two graphs has there, and whether these are the same."""
MARKED = (
    Column("from", str, "The variable at the first end."),
    Column("to", str, "The variable at the second end."),
    Column("mark", str, "The edge, such as `-->`, or an empty text where there is none."),
)
REPLICATED = (
    Column("confidence", float, "The share of replicates with the edge as it is."),
    Column("any_edge", float, "The share of replicates that join the two in any way."),
)
SAMPLED = (
    Column("in_graphs", float, "The share of graphs that fit the data which join the two."),
    Column(
        "arrow_in_graphs", float, "The share of them with an edge from the first to the second."
    ),
)
ENDS = tuple(
    Column(f"{end}_{sign}", float, f"The share of replicates with {sign_words} at {end}.")
    for end in ("from", "to")
    for sign, sign_words in (("arrow", "an arrowhead"), ("tail", "a tail"), ("circle", "a circle"))
)
ASSOCIATIONS = (
    Column("association", float, "Its size in the test of `p_value`; no causal effect."),
    Column("association_low", float, "The lower end of its interval at 95 %."),
    Column("association_high", float, "The upper end of its interval at 95 %."),
    Column("association_measure", str, "The measure, such as `odds ratio`."),
    Column("association_sign", str, "Its sign, where there is one; it may stand without a size."),
    Column("association_of", str, "The categories that the sign is of."),
)
EVIDENCE = (
    Column("strength", float, "The evidence for the edge, where there are no replicates."),
    Column("p_value", float, "The largest p-value over all sites of the tests of the edge."),
    Column("given", str, "The set of that test, its names joined by `; `."),
    *ASSOCIATIONS,
    Column("known", str, "What was given before the run: the `edge`, its `direction`, or nothing."),
    Column("status", str, "What the edge stands on, such as `tested` or `required`."),
    Column("why", str, "Why it stands, where no tests speak for it."),
)
CONSENSUS_COLUMN = Column("consensus", str, "The mark that half of the replicates have, if any.")
EDGES = (*MARKED, *SAMPLED, *REPLICATED, CONSENSUS_COLUMN, *EVIDENCE)
PAG_EDGES = (*MARKED, *REPLICATED, CONSENSUS_COLUMN, *ENDS, *EVIDENCE)
SEPARATIONS = (
    Column("first", str, "The one variable."),
    Column("second", str, "The other one; no edge joins the two."),
    Column("given", str, "The set that separates them, joined by `; `; None where there is none."),
    Column("support", float, "The evidence for it, as `evidence.support` says; None if untested."),
)
DIFFERENCES = ("from", "to", "here", "there", "same")
"""What two graphs have at a pair, of which the name that sorts first comes first."""
MOST_UNDONE = 0.1
"""Share of the decisive tests that may be left undone before that is the first thing to say."""
WHAT_HELPS = (
    "Categories with fewer levels, more sites that have such rows, or other evidence (of FedPC and "
    "FedFCI, evidence glm or pooled where sites allow it) may do them."
)


def edge_rows(
    columns: Sequence[Column],
    graph: MixedGraph,
    evidence: GraphEvidence,
    shares: Confidences | None,
    sample: GraphSample | None = None,
) -> Cells:
    """A row of `EDGES` or `PAG_EDGES` for every edge; None, or "" of words, where nothing is known.

    An edge that stands since tests were not done has no p-value, no effect, no confidence and no
    strength.
    """
    by_ends = {(edge.source, edge.target): edge for edge in evidence.edges}
    rows = []
    for edge in graph.edges:
        opened = by_ends.get((edge.source, edge.target))
        values: dict[str, Any] = {"from": edge.source, "to": edge.target, "mark": edge.mark}
        values |= {} if opened is None else _opened(opened)
        if sample is not None:
            there, back = sample.shares(edge.source, edge.target)
            values |= {"in_graphs": there + back, "arrow_in_graphs": there}
        if shares is not None:
            counts = shares.of(edge.source, edge.target)
            values["consensus"] = counts.consensus(CONSENSUS)
            if opened is None or opened.stands_on_evidence:
                values["confidence"] = counts.as_drawn(edge.mark) / counts.replicates
                values["any_edge"] = counts.any_edge
                values |= zip(_names(ENDS), counts.end_shares, strict=True)
        rows.append(
            tuple(values.get(column.name, "" if column.type is str else None) for column in columns)
        )
    return rows


def edge_columns(
    evidence: GraphEvidence, shares: Confidences | None, sample: GraphSample | None
) -> list[str]:
    """The names of the columns of which a run has something to say."""
    edges = evidence.edges
    names = _names(MARKED) if sample is None else _names((*MARKED, *SAMPLED))
    names += [] if shares is None else _names((*REPLICATED, CONSENSUS_COLUMN, *ENDS))
    if shares is None and evidence.measure:
        names.append("strength")
    tested = any(edge.p_value is not None for edge in edges)
    measured = any(edge.effect is not None for edge in edges)
    names += ["p_value"] if tested else []
    names += ["given"] if tested or measured else []
    names += _names(ASSOCIATIONS) if measured else []
    names += ["known"] if any(edge.known for edge in edges) else []
    names += ["status", "why"] if any(edge.status for edge in edges) else []
    return names


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _opened(edge: EdgeEvidence) -> dict[str, Any]:
    values: dict[str, Any] = {"known": edge.known, "status": edge.status, "why": why(edge)}
    values["strength"] = edge.strength if edge.stands_on_evidence else None
    values |= {"p_value": edge.p_value, "given": "; ".join(edge.given)}
    if (effect := edge.effect) is not None:
        numbers = (effect.size, effect.low, effect.high, effect.measure, effect.sign, effect.of)
        values |= zip(_names(ASSOCIATIONS), numbers, strict=True)
    return values


def edge_lines(names: Sequence[str], rows: Cells) -> list[str]:
    """The edges for a terminal, each with what was opened of it."""
    edges = [f"{source} {mark} {target}" for source, target, mark, *_ in rows]
    width = max(map(len, edges), default=0)
    sentences = edge_sentences(names, rows)
    return [
        f"{edge:{width}}   {said}" if said else edge
        for edge, said in zip(edges, sentences, strict=True)
    ]


def edge_sentences(names: Sequence[str], rows: Cells) -> list[str]:
    """One sentence per row of a table of edges, "" where the row has no evidence."""
    return [", ".join(_phrases(dict(zip(names, row, strict=True)))) for row in rows]


def _phrases(row: dict[str, Any]) -> Iterator[str]:
    if row.get("in_graphs") is not None:
        yield _share_phrase(row["in_graphs"], row["arrow_in_graphs"], row["from"])
    if row.get("any_edge") is not None:
        yield f"in {row['confidence']:.0%} of replicates ({row['any_edge']:.0%} in any way)"
    if row.get("strength") is not None:
        yield f"strength {row['strength']:.3g}"
    if (p_value := row.get("p_value")) is not None:
        yield f"p {p_value:.2g}"
    if row.get("association_measure"):
        size, low, high, measure, sign, of = (row[name] for name in _names(ASSOCIATIONS))
        value = (1.0 if sign == "positive" else -1.0) if size is None else size
        yield str(EffectSize(measure, value, low, high, of))
    if row.get("given"):
        yield f"given {row['given']}"
    if row.get("known"):
        yield f"{row['known']} given before the run"
    if row.get("why") and row["status"] != "required":
        yield row["why"]


def separation_rows(evidence: GraphEvidence) -> Cells:
    """A row of `SEPARATIONS` for every pair without an edge, as far as it was disclosed."""
    return [
        (pair.first, pair.second, None, None)
        if pair.given is None
        else (pair.first, pair.second, "; ".join(pair.given), pair.support)
        for pair in evidence.separations
    ]


def edge_differences(here: MixedGraph, there: MixedGraph) -> list[Difference]:
    """`DIFFERENCES` of every pair that either graph joins, in the order of names.

    A variable that only one of them has is isolated in the other; marks are such as "-->" or "<--".
    """
    first, second = _marks(here), _marks(there)
    rows = []
    for pair in sorted(first.keys() | second.keys()):
        one, two = first.get(pair, ""), second.get(pair, "")
        rows.append((*pair, one, two, one == two))
    return rows


def difference_sentences(
    rows: Sequence[Difference],
    here: str,
    there: str,
    samples: tuple[GraphSample | None, GraphSample | None] = (None, None),
) -> Iterator[str]:
    """A sentence for every pair of which two graphs differ, which are called by their folders.

    Of a folder with a sample of graphs another says how many of them join the two.
    """
    for first, second, one, two, same in rows:
        if same:
            continue
        ends = [canonical(first, second, mark) for mark in (one, two) if mark]
        edges = [f"{source} {mark} {target}" for source, target, mark in ends]
        if one and two:
            said = [f"{edges[0]} in {here} is {edges[1]} in {there}."]
        else:
            said = [f"{edges[0]} is in {here if one else there} only."]
        shares = (
            (name, in_graphs(sample, first, second))
            for name, sample in zip((here, there), samples, strict=True)
        )
        yield " ".join([*said, *(f"Of {name} it is {share}." for name, share in shares if share)])


def in_graphs(sample: GraphSample | None, first: str, second: str) -> str:
    """In how many graphs two variables are joined, in a phrase; "" without a sample of them."""
    if sample is None or not {first, second} <= {*sample.nodes}:
        return ""
    there, back = sample.shares(first, second)
    return _share_phrase(there + back, there, first)


def _share_phrase(joined: float, arrow: float, cause: str) -> str:
    return f"in {share_shown(joined)} of graphs, with {cause} as the cause in {share_shown(arrow)}"


def _marks(graph: MixedGraph) -> dict[tuple[str, str], str]:
    marks: dict[tuple[str, str], str] = {}
    for edge in graph.edges:
        turned = edge.source > edge.target
        pair = (edge.target, edge.source) if turned else (edge.source, edge.target)
        marks[pair] = reversed_mark(edge.mark) if turned else edge.mark
    return marks


def why(edge: EdgeEvidence) -> str:
    """Why an edge stands that tests do not speak for, in a phrase; "" for others."""
    if edge.status == "required":
        return "required by background knowledge"
    if edge.stands_on_evidence:
        return ""
    which, reason, were = "the test", "", "was"
    if (tests := edge.tests) is not None:
        reason, were = f" ({tests.reason})", "was" if tests.undone == 1 else "were"
        which = f"{tests.undone} of {tests.asked} {tests.unit}s" if tests.asked > 1 else "the test"
    return f"may be connected; {which} that could separate them {were} not done{reason}"


def undone_warnings(edges: Sequence[EdgeEvidence], fallen: int) -> tuple[str, ...]:
    """Warnings about edges that stand because tests were not done; empty if there are none.

    Of ``fallen`` pairs, which have no edge, the only test could not be done.
    """
    standing = [edge for edge in edges if not edge.stands_on_evidence]
    tests = [edge.tests for edge in edges if edge.tests is not None]
    asked = fallen + sum(each.asked for each in tests)
    undone = fallen + sum(each.undone for each in tests)
    unit = "vote" if any(each.unit == "vote" for each in tests) else "test"
    warnings = []
    if asked and undone > MOST_UNDONE * asked:
        warnings.append(
            f"{undone} of {counted(asked, unit)} that decide on this graph could not be done, "
            f"so that much of it rests on no evidence. {WHAT_HELPS}"
        )
    if standing:
        named = [f"{edge.source} and {edge.target}" for edge in standing]
        missing = f"{unit}s that could remove them were"
        if len(standing) == 1:
            missing = f"a {unit} that could remove it was"
        warnings.append(
            f"{counted(len(standing), 'edge')} of {len(edges)} may remain only because {missing} "
            f"not done: {first_of(named, between='; ')}. The reason stands with each edge."
        )
    return tuple(warnings)
