"""The result of a run that tested what a graph implies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cipherdag.findings.graph_check import CheckedGraph, ImpliedIndependence, by_p_value
from cipherdag.graphs.graph import CausalGraph
from cipherdag.pages.numerals import shown
from cipherdag.pages.sheets import csv_text
from cipherdag.results.run import Run, shortened

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "first", "second", "given", "p_value", "adjusted", "fails", "measure", "effect", "low", "high",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class GraphCheckResult(CheckedGraph, Run):
    """Tests of all that a graph implies, what left each site, and what it cost.

    Its fields are those of `CheckedGraph` and `Run`.
    """

    kind: ClassVar[str] = "graph check"
    template: ClassVar[str] = "graph_check_run.html.j2"
    of_causes: ClassVar[bool] = False

    __repr__ = Run.__repr__

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        return f"<p>{escape(self._headline)}</p>{self.table.to_html(index=False)}"

    @property
    def _counted(self) -> str:
        return f"{len(self.failing)} of {len(self.tests)} independences fail"

    @property
    def table(self) -> pd.DataFrame:
        """One row for every pair without an edge.

        Columns ``first``, ``second``, ``given`` (a set that separates them in the graph),
        ``p_value`` and ``adjusted`` (NaN where the test could not be done), ``fails``, and how
        strongly the two go together, where the opened sums tell it: ``measure``, ``effect``,
        ``low``, ``high`` (95 %, of this test alone).
        """
        import pandas as pd

        return pd.DataFrame(self.test_rows(), columns=list(COLUMNS))

    def test_rows(self) -> list[tuple[Any, ...]]:
        """The rows of `table`, the smallest p-value first."""
        return [
            (
                *(own.first, own.second, ", ".join(own.given)),
                *(own.p_value, own.adjusted, own.fails),
                *(("", None, None, None) if own.effect is None else _told(own)),
            )
            for own in sorted(self.tests, key=by_p_value)
        ]

    def _found(self) -> dict[str, Any]:
        return {
            "graph": self.graph.dumps(),
            "tests": [asdict(own) for own in self.tests],
            "alpha": self.alpha,
            "correction": self.correction,
            "details": dict(self.details),
        }

    @classmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "graph": CausalGraph.loads(report["graph"]),
            "tests": msgspec.convert(report["tests"], tuple[ImpliedIndependence, ...]),
            **{key: report[key] for key in ("alpha", "correction", "details")},
        }

    def _summary(self) -> list[str]:
        head = (
            f"The graph implies {len(self.tests)} independences; {len(self.failing)} fail at "
            f"{self.alpha:g} ({self.correction}):"
        )
        most = "at most " if self.opens_bits else ""
        said = [
            f"{own}: p {most}{shown(own.p_value)}, adjusted {shown(own.adjusted)}"
            + (f"; {own.effect}" if own.effect else "")
            for own in self.failing
            if own.p_value is not None and own.adjusted is not None
        ]
        return ["", head if said else f"{head[:-1]}.", *shortened(said)]

    def _sections(self) -> dict[str, Any]:
        return {"remarks": (), "own_limits": []}

    def _tables(self) -> dict[str, str]:
        return {"independences.csv": csv_text([COLUMNS, *self.test_rows()])}


def _told(own: ImpliedIndependence) -> tuple[Any, ...]:
    assert own.effect is not None, "an effect is told"
    effect = own.effect
    size = effect.size
    said = f"{effect.measure} {effect.sign}" if size is None else effect.measure
    return (f"{said} of {effect.of}" if effect.of else said), size, effect.low, effect.high
