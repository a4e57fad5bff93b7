"""The edges of a graph, by name, and what drawings and exports read of a graph."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, Self, get_args

from cipherdag.arrays import BoolMatrix
from cipherdag.errors import GraphError
from cipherdag.graphs.listing import first_of

Pair = tuple[str, str]
Mark = Literal["-->", "---", "<->", "o->", "o-o", "o--"]
"""What stands at both ends; circles and double arrows in a PAG only."""
# control characters, halves of surrogate pairs and non-characters: no export format can hold them
_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
MOST_LISTED = 5
End = Literal["arrow", "circle", "plain"]
ENDS: dict[str, End] = {"-": "plain", "o": "circle", "<": "arrow", ">": "arrow"}
"""What each sign at an end of a mark stands for."""


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
        """Whether the same stands at both ends."""
        return self.ends[0] == self.ends[1]

    def __str__(self) -> str:
        return f"{self.source} {self.mark} {self.target}"


class Graph(Protocol):
    """A graph as drawings and exports read it; `cipherdag.graphs.graph.CausalGraph` is one."""

    between: ClassVar[tuple[Mark, Mark]]
    """The marks of edges that all lead one way, and both ways, between groups of variables."""

    @classmethod
    def from_marked(cls, nodes: Iterable[str], edges: Iterable[tuple[str, str, str]]) -> Self:
        """A graph of the same kind from names and (source, target, mark) triples."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the p variables."""

    @property
    def arcs(self) -> BoolMatrix:
        """Shape (p, p): ``arcs[i, j]`` is True where i --> j or i --- j."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every edge once, sorted."""

    @property
    def kind(self) -> str:
        """``dag``, ``cpdag``, ``mpdag``, ``pag``; ``pdag`` and ``pmg`` where nothing is claimed."""

    def with_edges(self, nodes: Iterable[str], edges: Iterable[tuple[str, str, str]]) -> Graph:
        """A graph of such edges, of which nothing is claimed."""

    def skeleton(self) -> BoolMatrix:
        """Symmetric adjacency, shape (p, p)."""

    def says(self, edge: Edge) -> str:
        """What an edge says of its variables, in words."""


def writable(nodes: Iterable[str], size: int) -> tuple[str, ...]:
    """The names of a graph.

    Args:
        nodes: The names.
        size: How many there have to be.

    Raises:
        GraphError: Another number of names, or one is repeated or cannot be written.
    """
    names = tuple(nodes)
    if len(names) != size:
        raise GraphError(f"{len(names)} names do not fit a matrix of shape {(size, size)}")
    if len(set(names)) != size:
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise GraphError(f"a variable is named twice: {listed(repeated)}")
    wrong = [name for name in names if not name or _UNWRITABLE.search(name)]
    if wrong:
        raise GraphError(f"a name is empty or has control characters: {wrong[0]!r}")
    return names


def listed(names: list[str]) -> str:
    """Up to five names in quotation marks."""
    return first_of([f"'{name}'" for name in names], MOST_LISTED)


def ends_of(mark: str) -> tuple[End, End]:
    """What a mark has at the source and at the target."""
    return ENDS[mark[0]], ENDS[mark[2]]


def turned_mark(mark: str) -> str:
    """A mark seen from the other end, such as "<-o" for "o->"."""
    return mark[::-1].translate(str.maketrans("<>", "><"))


def straight(first: str, second: str, mark: str) -> tuple[str, str, str]:
    """Source, target and mark as graphs write them: an edge with "<--" is turned round."""
    if mark in get_args(Mark):
        return first, second, mark
    return second, first, turned_mark(mark)


def sure_mark(mark: str, told: str, undecided: str) -> str:
    """A mark with nothing at the ends of which another one, such as a consensus, says otherwise.

    Args:
        mark: A mark.
        told: The other one, seen from the same end; "" says otherwise of both ends.
        undecided: The mark of an edge of which neither end is told: "---", or in a PAG "o-o".
    """
    ends = (own if told[k : k + 1] == own else undecided[k] for k, own in enumerate(mark))
    return "".join(ends)
