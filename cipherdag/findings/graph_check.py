"""What data say of a graph: which of the independences that it implies stand.

Leaks:
    Nothing new: all of it follows from opened sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cipherdag.graphs.edge_evidence import Effect
from cipherdag.graphs.graph import CausalGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpliedIndependence:
    """Two variables without an edge, and what a test of them says.

    Attributes:
        first: The one.
        second: The other.
        given: A set that separates them in the graph.
        p_value: Of their independence given the set; None where the test could not be done. Where
            bits are opened, the smallest level at which the test says dependent, or 1.
        adjusted: The same, corrected for the number of tests.
        fails: Whether that is below the level.
        effect: How strongly they go together, where the opened sums tell it.
    """

    first: str
    second: str
    given: tuple[str, ...]
    p_value: float | None
    adjusted: float | None
    fails: bool
    effect: Effect | None = None

    def __str__(self) -> str:
        given = f" given {', '.join(self.given)}" if self.given else ""
        return f"{self.first} and {self.second} independent{given}"


@dataclass(frozen=True, kw_only=True)
class CheckedGraph:
    """A graph and the tests of what it implies.

    Attributes:
        graph: The graph.
        tests: One for every pair without an edge.
        alpha: The level of all tests together.
        correction: How p-values are corrected.
        details: What else was found.
    """

    graph: CausalGraph
    tests: tuple[ImpliedIndependence, ...]
    alpha: float
    correction: str
    details: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def failing(self) -> tuple[ImpliedIndependence, ...]:
        """The independences that the data contradict, the clearest first."""
        return tuple(sorted((own for own in self.tests if own.fails), key=by_p_value))

    @property
    def undone(self) -> tuple[ImpliedIndependence, ...]:
        """Those that could not be tested."""
        return tuple(own for own in self.tests if own.p_value is None)

    @property
    def decisions(self) -> bytes:
        """Which independences fail: equal verdicts, equal bytes."""
        return msgspec.json.encode([[own.first, own.second, own.fails] for own in self.tests])


def by_p_value(own: ImpliedIndependence) -> tuple[float, str, str]:
    """What tests are sorted by: those that were not done come last."""
    return (2.0 if own.p_value is None else own.p_value, own.first, own.second)
