"""What a FedBOSS run comes to, by position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cipherdag.arrays import BoolMatrix
from cipherdag.findings.confidence import EdgeCounts
from cipherdag.graphs.dags import Dag
from cipherdag.graphs.edge_evidence import Effect
from cipherdag.graphs.knowledge import Constraints


@dataclass(frozen=True, slots=True)
class BestGraph:
    """What a search comes to.

    Attributes:
        dag: The best graph.
        curve: The best score, on the grid, after every start or phase of the search.
    """

    dag: Dag
    curve: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FedBOSSOutcome:
    """The best graph and what it scores; p variables.

    Attributes:
        dag: The best DAG found, directed edges of shape (p, p).
        arcs: Its CPDAG, shape (p, p): True where i -> j or i - j (undirected edges both ways).
        curve: The best score after every start or phase of the search, in nats; larger is better.
        worth: Of every edge (cause, effect, nats): how much the score falls without it alone.
        effects: Of edges (cause, effect) the partial correlation given the effect's other causes,
            where moments were opened.
        sets: How many sets of variables were scored in which way; empty for moments.
        cut_short: Whether the budget kept the search from asking.
        bootstrap: In how many replicates each edge stands; None without any.
        known: What was known before; None for nothing.
        incomplete: Columns that miss values at some site.
        rows: Rows of all sites.
    """

    dag: BoolMatrix
    arcs: BoolMatrix
    curve: tuple[float, ...]
    worth: tuple[tuple[int, int, float], ...] = field(repr=False, default=())
    effects: Mapping[tuple[int, int], Effect] = field(repr=False, default_factory=dict)
    sets: Mapping[str, int] = field(default_factory=dict)
    cut_short: bool = False
    bootstrap: EdgeCounts | None = field(repr=False, default=None)
    known: Constraints | None = field(repr=False, default=None)
    incomplete: tuple[int, ...] = ()
    rows: int = 0
