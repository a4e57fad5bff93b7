"""The PAGs over all columns that fit the PAG of every group of sites: table, notes, warnings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cipherdag.findings.finding import Note, Report
from cipherdag.findings.panels import TablePanel
from cipherdag.graphs.ancestral.integration import Integration, LocalPAG
from cipherdag.graphs.edges import reversed_mark
from cipherdag.graphs.pag import PAG, PartialMixedGraph

DETAIL = "integrated"
TITLE = "Graphs that fit"
CAPTION = (
    "Graphs over all columns that have, among the columns of every group of sites, the graph of "
    "that group; of every pair that some of them join, in how many it has which mark."
)
NO_EDGE = "no edge"


def details_of(
    integrations: Integration, groups: Sequence[tuple[LocalPAG, bool]], names: Sequence[str]
) -> dict[str, Any]:
    """The details of the finding that `Integrated` reads, in the form that JSON has.

    Each of ``groups`` is the marks over its columns, and whether these are a valid PAG.
    """
    return {
        "complete": integrations.complete,
        "looked_at": integrations.looked_at,
        "graphs": [_edges(PAG(tuple(names), marks)) for marks in integrations.pags],
        "groups": [
            {
                "variables": (variables := [names[v] for v in local.variables]),
                "edges": _edges(PartialMixedGraph(tuple(variables), local.endpoints)),
                "consistent": consistent,
            }
            for local, consistent in groups
        ],
    }


@dataclass(frozen=True, slots=True)
class Integrated:
    """The graphs that fit all groups of sites, read from the details of a finding.

    Attributes:
        details: From `details_of`: ``complete`` (whether ``graphs`` are all that fit),
            ``looked_at``, ``graphs`` and ``groups``; an edge is [source, target, mark].
    """

    details: Mapping[str, Any]

    @property
    def settled(self) -> bool:
        """True if all graphs that fit are enumerated, and there is at least one."""
        return bool(self.details["complete"] and self.details["graphs"])

    def graphs(self, names: Sequence[str]) -> tuple[PAG, ...]:
        """The graphs that fit, over all columns."""
        graphs = self.details["graphs"]
        return tuple(PAG.from_marked(names, map(tuple, edges)) for edges in graphs)

    def edge_sentence(self, first: str, second: str) -> str:
        """In how many of them two columns have an edge, in a sentence; "" if not all are known."""
        if not self.settled:
            return ""
        every = len(self.details["graphs"])
        one, other = sorted((first, second))
        have = every - self._marks().get((one, other), Counter({NO_EDGE: every}))[NO_EDGE]
        if have == every:
            return "Every graph that fits has an edge here."
        return f"{have} of the {every} graphs that fit have an edge here."

    def report(self) -> Report:
        """A warning if no graph fits or the list is not complete, else a note; and the table."""
        every, marks = len(self.details["graphs"]), self._marks()
        report = Report() if self.settled else Report(warnings=(self._warning(),))
        if self.settled:
            some = [
                f"{a} and {b}: in {every - counts[NO_EDGE]} of {every}"
                for (a, b), counts in marks.items()
                if counts[NO_EDGE]
            ]
            title = (
                f"Graphs over all columns that fit every group of sites: {every}, and no other "
                f"({self.details['looked_at']} were looked at). Marks are those that hold in all"
                + ("; not all have these edges:" if some else ".")
            )
            report = Report(notes=(Note(title, tuple(some)),))
        panel = TablePanel(
            title=TITLE,
            note=CAPTION,
            columns=("From", "To", "Marks"),
            rows=tuple(
                (*pair, ", ".join(f"{mark} in {n}" for mark, n in sorted((+counts).items())))
                for pair, counts in marks.items()
            ),
        )
        return report + Report(panels=(panel,))

    def _warning(self) -> str:
        if not self.details["complete"]:
            return (
                "The search for graphs that fit all groups of sites ended after "
                f"{self.details['looked_at']} graphs were looked at: the list of "
                f"{len(self.details['graphs'])} is not complete. The graph shown has only what "
                "follows without it; a larger integrate looks at more."
            )
        alone = "".join(
            f" Those of {', '.join(group['variables'])} do so by themselves."
            for group in self.details["groups"]
            if not group["consistent"]
        )
        return (
            "No graph over all columns fits what tests say of every group's: they contradict one "
            f"another, by chance or since groups differ in what causes what.{alone} The graph "
            "shown has the marks that some group tells and none gainsays."
        )

    def _marks(self) -> dict[tuple[str, str], Counter[str]]:
        """By pair that some graph joins, the graphs with each mark, and those with `NO_EDGE`.

        Pairs, and the two of a pair, are in the order of the alphabet.
        """
        graphs = self.details["graphs"]
        marks: dict[tuple[str, str], Counter[str]] = {}
        for source, target, mark in (edge for edges in graphs for edge in edges):
            pair = (source, target) if source < target else (target, source)
            seen = mark if source < target else reversed_mark(mark)
            marks.setdefault(pair, Counter())[seen] += 1
        for counts in marks.values():
            counts[NO_EDGE] = len(graphs) - counts.total()
        return dict(sorted(marks.items()))


def _edges(graph: PartialMixedGraph) -> list[list[str]]:
    return [[edge.source, edge.target, edge.mark] for edge in graph.edges]
