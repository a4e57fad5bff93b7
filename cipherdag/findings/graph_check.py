"""What data say of a graph: which of the independences that it implies stand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec

from cipherdag.findings.finding import Cells, Column, Finding, Table, plain, shortened
from cipherdag.graphs.edge_evidence import EffectSize
from cipherdag.graphs.graph import CausalGraph
from cipherdag.pages.numerals import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpliedIndependence:
    """Two variables without an edge, and what a test of them says."""

    first: str
    second: str
    given: tuple[str, ...]  # a set that separates them in the graph
    # of their independence given the set; None where the test could not be done. Where bits are
    # opened, the smallest level at which the test says dependent, or 1.
    p_value: float | None
    adjusted: float | None  # the same, corrected for the number of tests
    fails: bool  # whether that is below the level
    effect: EffectSize | None = None  # how strongly they go together, where the opened sums tell it

    def __str__(self) -> str:
        given = f" given {', '.join(self.given)}" if self.given else ""
        return f"{self.first} and {self.second} independent{given}"


@dataclass(frozen=True, kw_only=True)
class CheckedGraph(Finding):
    """A graph and the tests of what it implies, one for every pair without an edge."""

    kind: ClassVar[str] = "graph check"
    template: ClassVar[str] = "graph_check_run.html.j2"
    causal: ClassVar[bool] = False
    promise: ClassVar[str] = (
        "which of the independences that a given graph implies the rows contradict."
    )

    graph: CausalGraph
    tests: tuple[ImpliedIndependence, ...]
    alpha: float
    correction: str

    @property
    def decisions(self) -> bytes:
        return msgspec.json.encode([[test.first, test.second, test.fails] for test in self.tests])

    @property
    def failing(self) -> tuple[ImpliedIndependence, ...]:
        """The independences that the data contradict, the clearest first."""
        return tuple(sorted((test for test in self.tests if test.fails), key=_by_p_value))

    @property
    def undone(self) -> tuple[ImpliedIndependence, ...]:
        """The independences that could not be tested."""
        return tuple(test for test in self.tests if test.p_value is None)

    @property
    def headline(self) -> str:
        return f"{len(self.failing)} of {len(self.tests)} independences fail"

    def lines(self, n_sites: int) -> list[str]:
        del n_sites
        head = (
            f"The graph implies {len(self.tests)} independences; {len(self.failing)} fail at "
            f"{self.alpha:g} ({self.correction}):"
        )
        most = "at most " if self.opens_bits else ""
        sentences = [
            f"{test}: p {most}{shown(test.p_value)}, adjusted {shown(test.adjusted)}"
            + (f"; {test.effect}" if test.effect else "")
            for test in self.failing
            if test.p_value is not None and test.adjusted is not None
        ]
        return ["", head if sentences else f"{head[:-1]}.", *shortened(sentences)]

    def to_json(self, identifiers: Mapping[str, str]) -> dict[str, Any]:
        del identifiers
        return {
            "graph": self.graph.dumps(),
            "tests": plain(self.tests),
            "alpha": self.alpha,
            "correction": self.correction,
            "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Self:
        return cls(
            graph=CausalGraph.loads(report["graph"]),
            tests=msgspec.convert(report["tests"], tuple[ImpliedIndependence, ...]),
            **{name: report[name] for name in ("alpha", "correction", "details")},
        )

    def _rows(self) -> Cells:
        return [
            (
                *(test.first, test.second, ", ".join(test.given)),
                *(test.p_value, test.adjusted, test.fails),
                *_size(test.effect),
            )
            for test in sorted(self.tests, key=_by_p_value)
        ]

    tables = (
        Table(
            name="independences",
            doc="One row per pair without an edge, the smallest p-value first.",
            columns=(
                Column("first", str, "The one variable."),
                Column("second", str, "The other one."),
                Column("given", str, "A set that separates them in the graph."),
                Column("p_value", float, "The p-value; NaN where the test could not be done."),
                Column("adjusted", float, "The same, corrected for the number of tests."),
                Column("fails", bool, "Whether that is below the level."),
                Column("measure", str, "The measure of their association, where sums give it."),
                Column("association", float, "Its size; no causal effect."),
                Column("low", float, "The lower end of its interval at 95 %, of this test alone."),
                Column("high", float, "The upper end."),
            ),
            rows=_rows,
        ),
    )


def _by_p_value(test: ImpliedIndependence) -> tuple[float, str, str]:
    """The sort key of tests: ascending p-value, tests that were not done last."""
    return (2.0 if test.p_value is None else test.p_value, test.first, test.second)


def _size(effect: EffectSize | None) -> tuple[str, float | None, float | None, float | None]:
    """The measure of an effect, its size and the ends of its interval."""
    if effect is None:
        return "", None, None, None
    measure = effect.measure if effect.size is not None else f"{effect.measure} {effect.sign}"
    named = f"{measure} of {effect.of}" if effect.of else measure
    return named, effect.size, effect.low, effect.high
