"""Two runs on one page: which edges both have, which marks differ, and what was set otherwise."""

from dataclasses import dataclass

from cipherdag.findings.edge_table import (
    DIFFERENCES,
    Difference,
    edge_differences,
    edge_sentences,
    in_graphs,
)
from cipherdag.findings.graph_finding import AnyGraph, GraphFinding
from cipherdag.findings.graph_page import ARROWS, pictures
from cipherdag.graphs.edges import Edge, canonical, reversed_mark
from cipherdag.pages.files import csv_text, render
from cipherdag.results.run import Run

SHOWN = ARROWS | {"": "none"}
GraphRun = Run[GraphFinding[AnyGraph]]
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
    said: tuple[str, ...]


def compared_page(here: GraphRun, there: GraphRun, names: tuple[str, str]) -> str:
    """The comparison as one HTML page that needs no other file and asks no other machine.

    A variable that only one of them has is isolated in the other. The page calls them by ``names``,
    such as their folders.
    """
    differences = edge_differences(here.finding.graph, there.finding.graph)
    graph = _union(here.finding.graph, there.finding.graph, differences)
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
        differences=csv_text([DIFFERENCES, *differences]),
        **pictures(graph, {}, marked),
    )


def _union(here: AnyGraph, there: AnyGraph, differences: list[Difference]) -> AnyGraph:
    """Every pair that either joins, with the first one's mark where it has one."""
    edges = [canonical(first, second, one or two) for first, second, one, two, _ in differences]
    return here.with_edges(dict.fromkeys([*here.nodes, *there.nodes]), edges)


def _rows(
    graph: AnyGraph, differences: list[Difference], runs: tuple[GraphRun, GraphRun]
) -> list[ComparedRow]:
    by_pair = {frozenset(row[:2]): row for row in differences}
    said = [_said(run) for run in runs]
    rows = []
    for number, edge in enumerate(graph.edges, start=1):
        pair = frozenset((edge.source, edge.target))
        first, _, *marks, same = by_pair[pair]
        # marks are seen from the name that sorts first, the row begins with the edge's source
        one, two = (reversed_mark(mark) if first != edge.source else mark for mark in marks)
        how = SAME if same else OTHER if one and two else HERE if one else THERE
        sentences = tuple(
            by_run.get(pair) or in_graphs(run.finding.sample, edge.source, edge.target)
            for by_run, run in zip(said, runs, strict=True)
        )
        rows.append(ComparedRow(number, edge, how, (one, two), sentences))
    return rows


def _said(run: GraphRun) -> dict[frozenset[str], str]:
    names, rows = run.finding.content("edges")
    sentences = edge_sentences(names, rows)
    return {frozenset(row[:2]): said for row, said in zip(rows, sentences, strict=True)}


def _settings(here: GraphRun, there: GraphRun) -> list[tuple[str, str, str]]:
    """The settings in which two runs differ: name, and the values of both."""
    one, two = _set(here), _set(there)
    names = dict.fromkeys([*one, *two])
    pairs = [(name, one.get(name, ""), two.get(name, "")) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]


def _set(run: GraphRun) -> dict[str, str]:
    values = {
        "algorithm": run.algorithm,
        "protection": run.protection,
        "sites": ", ".join(run.sites),
        "seed": run.seed,
        **run.settings,
        **{f"version of {name}": number for name, number in run.versions.items()},
    }
    return {name: str(value) for name, value in values.items()}
