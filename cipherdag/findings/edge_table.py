"""The edges of a graph as a table, with what the run opened about each.

Leaks:
    Nothing new: the numbers are those of `GraphEvidence` and `Confidences`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cipherdag.findings.confidence import CONSENSUS, END_SHARES, SHARES, Confidences
from cipherdag.findings.edge_status import why
from cipherdag.graphs.edge_evidence import EdgeEvidence, Effect, GraphEvidence
from cipherdag.graphs.mixed_graph import MixedGraph

MARKED = ("from", "to", "mark")
EFFECT = (
    "effect", "effect_low", "effect_high", "effect_measure", "effect_sign", "effect_of",
)  # fmt: skip
SEPARATION = ("first", "second", "given", "support")
Rows = list[tuple[Any, ...]]


def edge_table(
    graph: MixedGraph, evidence: GraphEvidence, confidences: Confidences | None
) -> tuple[tuple[str, ...], Rows]:
    """Names of the columns, and a row for every edge; None where nothing is known of one.

    After `MARKED` stand, as far as the run has them: ``confidence`` and ``any_edge``, shares of the
    replicates, and ``consensus``, the mark that at least half of them have, or "" for none, and of
    a PAG `END_SHARES`, the shares with each mark at each end; else
    ``strength``, the evidence's measure; ``p_value``, the largest over all sites of the edge's
    tests, and ``given``, the set under which it was found, its names joined by "; "; ``effect``,
    the size of the dependence in that test, its interval at 95 %, what is measured, its sign, and
    which category of two the sign is of; no size and no interval where the sign alone is told;
    ``known``, what was known before: the "edge", its "direction", or nothing; ``status``, what the
    edge stands on, and ``why`` where that are no tests. An edge that stands since tests were not
    done has no p-value, no effect, no confidence and no strength.
    """
    known = {(own.source, own.target): own for own in evidence.edges}
    columns = _columns(graph, evidence, confidences)
    rows = []
    for edge in graph.edges:
        own = known.get((edge.source, edge.target))
        values: dict[str, Any] = {"from": edge.source, "to": edge.target, "mark": edge.mark}
        values |= {} if own is None else _opened(own)
        if confidences is not None:
            values["consensus"] = confidences.of(edge.source, edge.target).consensus(CONSENSUS)
        if confidences is not None and (own is None or own.stands_on_evidence):
            values |= zip(SHARES, confidences.shares(edge), strict=True)
            values |= zip(END_SHARES, confidences.end_shares(edge.source, edge.target), strict=True)
        rows.append(tuple(values.get(name, "" if name in WORDS else None) for name in columns))
    return columns, rows


WORDS = (
    "given",
    "effect_measure",
    "effect_sign",
    "effect_of",
    "known",
    "consensus",
    "status",
    "why",
)
"""Columns that are empty, and not None, where there is nothing to say."""


def _columns(
    graph: MixedGraph, evidence: GraphEvidence, confidences: Confidences | None
) -> tuple[str, ...]:
    edges = evidence.edges
    columns = [*MARKED, *((*SHARES, "consensus") if confidences is not None else ())]
    of_ends = graph.kind in ("pag", "pmg")
    columns += END_SHARES if confidences is not None and of_ends else ()
    if confidences is None and evidence.measure:
        columns.append("strength")
    tested = any(own.p_value is not None for own in edges)
    measured = any(own.effect is not None for own in edges)
    columns += ["p_value"] if tested else []
    columns += ["given"] if tested or measured else []
    columns += EFFECT if measured else ()
    columns += ["known"] if any(own.known for own in edges) else []
    columns += ["status", "why"] if any(own.status for own in edges) else []
    return tuple(columns)


def _opened(own: EdgeEvidence) -> dict[str, Any]:
    values: dict[str, Any] = {"known": own.known, "status": own.status, "why": why(own)}
    values["strength"] = own.strength if own.stands_on_evidence else None
    values |= {"p_value": own.p_value, "given": "; ".join(own.given)}
    if (effect := own.effect) is not None:
        told = (effect.size, effect.low, effect.high, effect.measure, effect.sign, effect.of)
        values |= zip(EFFECT, told, strict=True)
    return values


def edge_lines(columns: tuple[str, ...], rows: Rows) -> list[str]:
    """The rows of `edge_table` for a terminal: the edge, then what is known of it."""
    edges = [f"{source} {mark} {target}" for source, target, mark, *_ in rows]
    width = max(map(len, edges), default=0)
    said = edge_sentences(columns, rows)
    return [
        f"{edge:{width}}   {own}" if own else edge for edge, own in zip(edges, said, strict=True)
    ]


def edge_sentences(columns: tuple[str, ...], rows: Rows) -> list[str]:
    """What the rows of `edge_table` say of every edge, "" where they say nothing."""
    return [", ".join(_told(dict(zip(columns, row, strict=True)))) for row in rows]


def _told(own: dict[str, Any]) -> Iterator[str]:
    if own.get("any_edge") is not None:
        yield f"in {own['confidence']:.0%} of replicates ({own['any_edge']:.0%} in any way)"
    if own.get("strength") is not None:
        yield f"strength {own['strength']:.3g}"
    if (p_value := own.get("p_value")) is not None:
        yield f"p {p_value:.2g}"
    if own.get("effect_measure"):
        size, low, high, measure, sign, of = (own[name] for name in EFFECT)
        value = (1.0 if sign == "positive" else -1.0) if size is None else size
        yield str(Effect(measure, value, low, high, of))
    if own.get("given"):
        yield f"given {own['given']}"
    if own.get("known"):
        yield f"{own['known']} known before"
    if own.get("why") and own["status"] != "required":
        yield own["why"]


def separation_rows(evidence: GraphEvidence) -> Rows:
    """`SEPARATION` of every pair that was separated: the set's names joined by "; ".

    ``given`` is "" for the empty set, and None where no set was found, as ``support`` then is.
    """
    return [
        (own.first, own.second, None, None)
        if own.given is None
        else (own.first, own.second, "; ".join(own.given), own.support)
        for own in evidence.separations
    ]
