"""Two runs on one page: which edges both have, which marks differ, and what was set otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cipherdag.findings.edge_table import edge_sentences
from cipherdag.graphs.edges import Edge, canonical, reversed_mark
from cipherdag.graphs.graph import CausalGraph
from cipherdag.graphs.pag import PartialMixedGraph
from cipherdag.pages.rendering import render
from cipherdag.pages.sheets import csv_text
from cipherdag.results.comparing import COLUMNS, edge_differences
from cipherdag.results.graph_sections import ARROWS, pictures

if TYPE_CHECKING:
    from cipherdag.results.graph_run import GraphRun

SHOWN = ARROWS | {"": "none"}
SAME, OTHER, HERE, THERE = "same", "other-mark", "only-here", "only-there"


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A pair that either run joins: its edge in the picture, how they differ, and what each says.

    ``how`` is "same", "other-mark", "only-here" or "only-there".
    """

    number: int
    edge: Edge
    how: str
    marks: tuple[str, str]
    said: tuple[str, str]


def compared_page(here: GraphRun, there: GraphRun, names: tuple[str, str]) -> str:
    """The comparison as one HTML page that needs no other file and asks no other machine.

    Args:
        here: A result.
        there: One of its kind; a variable that only one of them has is isolated in the other.
        names: What the page calls them, such as their folders.
    """
    differences = edge_differences(here.graph, there.graph)
    graph = _union(here.graph, there.graph, differences)
    rows = _rows(graph, differences, (here, there))
    marked = {row.edge: row.how for row in rows if row.how != SAME}
    return render(
        "compared.html.j2",
        title="Two runs compared",
        names=names,
        runs=(here, there),
        graph=graph,
        rows=rows,
        counts={how: sum(row.how == how for row in rows) for how in (SAME, OTHER, HERE, THERE)},
        shown=SHOWN,
        settings=_settings(here, there),
        differences=csv_text([COLUMNS, *differences]),
        **pictures(graph, {}, marked),
    )


Differences = list[tuple[str, str, str, str, bool]]


def _union(
    here: CausalGraph | PartialMixedGraph,
    there: CausalGraph | PartialMixedGraph,
    differences: Differences,
) -> CausalGraph | PartialMixedGraph:
    """Every pair that either joins, with the first one's mark where it has one."""
    edges = [canonical(first, second, one or two) for first, second, one, two, _ in differences]
    return here.with_edges(dict.fromkeys([*here.nodes, *there.nodes]), edges)


def _rows(
    graph: CausalGraph | PartialMixedGraph,
    differences: Differences,
    runs: tuple[GraphRun, GraphRun],
) -> list[ComparedRow]:
    by_pair = {frozenset(own[:2]): own for own in differences}
    said = [_said(run) for run in runs]
    rows = []
    for number, edge in enumerate(graph.edges, start=1):
        pair = frozenset((edge.source, edge.target))
        first, _, *marks, same = by_pair[pair]
        # marks are seen from the name that sorts first, the row begins with the edge's source
        one, two = (reversed_mark(own) if first != edge.source else own for own in marks)
        how = SAME if same else OTHER if one and two else HERE if one else THERE
        told = (said[0].get(pair, ""), said[1].get(pair, ""))
        rows.append(ComparedRow(number, edge, how, (one, two), told))
    return rows


def _said(run: GraphRun) -> dict[frozenset[str], str]:
    columns, rows = run.edge_table
    sentences = edge_sentences(columns, rows)
    return {frozenset(row[:2]): own for row, own in zip(rows, sentences, strict=True)}


def _settings(here: GraphRun, there: GraphRun) -> list[tuple[str, Any, Any]]:
    """What was set or present otherwise: name, and the values of both."""
    found = [_set(own) for own in (here, there)]
    names = dict.fromkeys([*found[0], *found[1]])
    pairs = [(name, found[0].get(name, ""), found[1].get(name, "")) for name in names]
    return [own for own in pairs if own[1] != own[2]]


def _set(run: GraphRun) -> dict[str, str]:
    values = {
        "algorithm": run.algorithm,
        "protection": run.protection,
        "sites": ", ".join(run.sites),
        "seed": run.seed,
        **run.parameters,
        **{f"version of {name}": own for name, own in run.versions.items()},
    }
    return {name: "none" if own is None else str(own) for name, own in values.items()}
