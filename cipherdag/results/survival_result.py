"""The result of a run about times until an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cipherdag.findings.forest import Estimate, Forest
from cipherdag.findings.survival import GroupCurve, GroupTest, HazardModel, SurvivalAnalysis
from cipherdag.pages.numerals import probability, shown
from cipherdag.pages.sheets import csv_text
from cipherdag.results.run import Run, category_names, shortened

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = ("group", "time", "at_risk", "events", "survival", "low", "high")

MOVED = "Sites moved few events to later edges, so that medians and curves are near, not exact."
RATIOS = ("of", "ratio", "low", "high", "p_value", "log_ratio", "deviation", "fault")


@dataclass(frozen=True, kw_only=True, repr=False)
class SurvivalResult(SurvivalAnalysis, Run):
    """Curves over all sites, what left each site, and what it cost.

    Its fields are those of `SurvivalAnalysis` and `Run`.
    """

    kind: ClassVar[str] = "survival"
    template: ClassVar[str] = "survival_run.html.j2"
    of_causes: ClassVar[bool] = False

    __repr__ = Run.__repr__

    def _repr_html_(self) -> str:
        """The tables in a notebook."""
        told = self.model is not None and self.model.sites > 0
        shown_tables = [self.table, *([self.hazard_ratios] if told else [])]
        tables = "".join(own.to_html(index=False) for own in shown_tables)
        return f"<p>{escape(self._headline)}</p>{tables}"

    @property
    def _counted(self) -> str:
        return f"{sum(sum(own.events) for own in self.curves)} events ({self.event_name})"

    @property
    def group_names(self) -> tuple[str, ...]:
        """What the groups are called, in the order of `curves`."""
        if not (self.by and self.schema):
            return super().group_names
        return category_names(self.schema, self.by, len(self.curves))

    @property
    def event_name(self) -> str:
        """Which category is the event, such as "died = yes"."""
        if not self.schema:
            return super().event_name
        return f"{self.event} = {self.category_name(self.event, self.event_category - 1)}"

    def category_name(self, column: str, category: int) -> str:
        """What a category is called, by its place."""
        if not self.schema:
            return super().category_name(column, category)
        return category_names(self.schema, column, category + 1)[category]

    @property
    def hazard_ratios(self) -> pd.DataFrame:
        """One row per column of the Cox model.

        Columns ``of`` (the column, and the two categories that are compared), ``ratio`` (how many
        times the hazard is, with others alike), its 95 % interval ``low`` and ``high``,
        ``p_value``, ``log_ratio`` and ``deviation``, and ``fault``: why there is no number.
        """
        import pandas as pd

        numbers = dict.fromkeys(RATIOS[1:-1], "float64")
        return pd.DataFrame(self.ratio_rows(), columns=list(RATIOS)).astype(numbers)

    def ratio_rows(self) -> list[tuple[Any, ...]]:
        """The rows of `hazard_ratios`; None where there is no number."""
        ratios = () if self.model is None else self.model.ratios
        return [
            (name, *(getattr(own, column) for column in RATIOS[1:]))
            for name, own in zip(self.ratio_names, ratios, strict=True)
        ]

    @property
    def table(self) -> pd.DataFrame:
        """One row per group and bin of time.

        Columns ``group``, ``time`` (the upper edge of the bin), ``at_risk`` (rows when it begins),
        ``events`` (rows with the event in it), ``survival`` (estimated chance of no event up to the
        edge), and its 95 % interval ``low`` and ``high``; NaN without rows at risk.
        """
        import pandas as pd

        numbers = dict.fromkeys(("survival", "low", "high"), "float64")
        return pd.DataFrame(self.curve_rows(), columns=list(COLUMNS)).astype(numbers)

    def curve_rows(self) -> list[tuple[Any, ...]]:
        """The rows of `table`; None where there is no number."""
        return [
            (name, *row)
            for name, own in zip(self.group_names, self.curves, strict=True)
            if own.told
            for row in zip(
                self.edges, own.at_risk, own.events, own.survival, own.low, own.high, strict=True
            )
        ]

    def group_rows(self) -> list[tuple[Any, ...]]:
        """Of every group its name, sites, rows, events in the bins, median with its ends, and test.

        Of the test within the sites, which is over all follow-up, events and as many as it expects;
        None where there is none, or where it leaves the group out.
        """
        observed: list[int | None] = [None] * len(self.curves)
        expected: list[float | None] = [None] * len(self.curves)
        if self.test:
            for k in self.test.groups or range(len(observed)):
                observed[k], expected[k] = int(self.test.observed[k]), self.test.expected[k]
        return [
            (name, own.sites, own.at_risk[0], sum(own.events), *own.median, d, e)
            if own.told
            else (name, own.sites, *(None,) * 7)
            for name, own, d, e in zip(
                self.group_names, self.curves, observed, expected, strict=True
            )
        ]

    def _found(self) -> dict[str, Any]:
        return msgspec.to_builtins(
            {
                **{
                    name: getattr(self, name)
                    for name in ("time", "event", "event_category", "by", "n_sites", "edges")
                },
                "groups": self.group_names,
                "curves": self.curves,
                "test": self.test,
                "together": self.together,
                "model": self.model,
                "restricted": self.restricted,
                "all_rows": self.all_rows,
                "details": self.details,
            }
        )

    @classmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **{name: report[name] for name in ("time", "event", "by", "n_sites", "details")},
            "edges": tuple(map(float, report["edges"])),
            "event_category": report.get(
                "event_category", report.get("parameters", {}).get("event_category", 2)
            ),
            "restricted": report.get("restricted", False),
            "all_rows": report.get("all_rows", 0),
            "curves": msgspec.convert(report["curves"], tuple[GroupCurve, ...]),
            **{
                name: msgspec.convert(report[name], GroupTest | None)
                for name in ("test", "together")
            },
            "model": msgspec.convert(report["model"], HazardModel | None),
        }

    def _summary(self) -> list[str]:
        rows = sum(own.at_risk[0] for own in self.curves if own.told)
        of = f" of {self.all_rows:,}" if rows < self.all_rows else ""
        until = f"up to {self.time} {self.edges[-1]:g}"
        lines = [
            "",
            f"{rows:,}{of} rows of {self.n_sites} sites, event: {self.event_name}, {until}:",
        ]
        wide = max(map(len, self.group_names))
        lines += shortened(
            [f"{row[0]:{wide}}  {_line(self.time, *row[1:])}" for row in self.group_rows()]
        )
        lines += [MOVED] if self.restricted else []
        lines += ["", *self.tested_lines()] if self.test or self.together else []
        told = [row for row in self.ratio_rows() if row[1] is not None]
        wide = max((len(row[0]) for row in told), default=0)
        if told:
            lines += ["", "Ratios of hazards, all else alike:"]
            lines += shortened([f"{row[0]:{wide}}  {_ratio(*row[1:5])}" for row in told])
        return lines

    def tested_lines(self) -> list[str]:
        """Each log-rank test in one line."""
        tests = ("within sites", self.test), ("of the rows of all sites", self.together)
        return [_tested(what, own) for what, own in tests if own is not None]

    def _sections(self) -> dict[str, Any]:
        return {
            "remarks": (),
            "own_limits": [],
            "forest": self._forest(),
        }

    def _forest(self) -> Forest | None:
        """The ratios that are told, drawn; None without any."""
        ratios = () if self.model is None else self.model.ratios
        drawn = tuple(
            Estimate(name, own.ratio, own.low, own.high)
            for name, own in zip(self.ratio_names, ratios, strict=True)
            if own.ratio is not None and own.low is not None and own.high is not None
        )
        if not drawn:
            return None
        return Forest(
            title="Ratios of hazards",
            note="95 % intervals; the broken line is where hazards do not differ.",
            label="ratio of hazards",
            ratios=True,
            estimates=drawn,
        )

    def _tables(self) -> dict[str, str]:
        ratios = {"hazard_ratios.csv": csv_text([RATIOS, *self.ratio_rows()])}
        return {
            "curves.csv": csv_text([COLUMNS, *self.curve_rows()]),
            **(ratios if self.model else {}),
        }


def _tested(what: str, test: GroupTest) -> str:
    if test.p_value is None:
        return f"Log-rank test {what}: not done, as no groups are at risk together at an event."
    return (
        f"Log-rank test {what}, {test.sites} of them: chi-square {test.statistic:.2f} with "
        f"{test.dof} degree{'s' * (test.dof != 1)} of freedom, p = {probability(test.p_value)}."
    )


def _line(
    time: str,
    sites: int,
    rows: int | None,
    events: int,
    median: float | None,
    low: float | None,
    high: float | None,
    observed: int | None,
    expected: float | None,
) -> str:
    """A group in one line of a terminal."""
    if rows is None:
        return "not told of: too few sites have enough rows with the event, and without"
    ends = " to ".join("-" if end is None else shown(end) for end in (low, high))
    half = "no median yet" if median is None else f"median {time} {shown(median)} (95 %: {ends})"
    said = f"{rows:,} rows at {sites} sites, {events:,} events, {half}"
    if observed is None:
        return said
    return f"{said}; over all follow-up {observed:,} events, {expected:.1f} expected"


def _ratio(ratio: float, low: float, high: float, p_value: float) -> str:
    return f"{shown(ratio)} ({shown(low)} to {shown(high)}), p = {probability(p_value)}"
