"""The result of a run that estimated an effect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cipherdag.findings.effect import (
    NO_EFFECT,
    AdjustedEffect,
    Contrast,
    EstimatedEffect,
    LeftOut,
)
from cipherdag.findings.forest import Estimate, Forest
from cipherdag.pages.numerals import shown
from cipherdag.pages.sheets import csv_text
from cipherdag.results.refuted import COLUMNS as REFUTED
from cipherdag.results.refuted import refutation_forest, refutation_lines, refutation_rows
from cipherdag.results.run import Run, shortened
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = (
    "set", "adjusted_for", "parents", "dags", "arm", "against", "scale", "estimate",
    "standard_error", "low", "high", "sites", "rows", "note",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class EffectResult(EstimatedEffect, Run):
    """An effect over all sites' rows together, what left each site, and what it cost.

    Its fields are those of `EstimatedEffect` and `Run`.
    """

    kind: ClassVar[str] = "effect"
    template: ClassVar[str] = "effect_run.html.j2"
    of_causes: ClassVar[bool] = False

    __repr__ = Run.__repr__

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        return f"<p>{escape(self._headline)}</p>{self.by_graph.to_html(index=False)}"

    @property
    def _counted(self) -> str:
        return f"the effect of {self.treatment} on {self.outcome}"

    @property
    def estimate(self) -> float:
        """The difference in means, or per unit of the treatment, of the first set.

        Of a treatment with more than two categories the first one against the reference. NaN where
        it is not estimated. `by_graph` has all, `range` how far they lie apart.
        """
        return self._first.estimate

    @property
    def standard_error(self) -> float:
        """Of `estimate`."""
        return self._first.error

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true difference lies at 95 %, if the graph and the models are right."""
        return self._first.low, self._first.high

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest difference over all sets that were estimated."""
        found = [own.estimate for one in self.sets for own in _told(one)[:1]]
        return min(found, default=math.nan), max(found, default=math.nan)

    @property
    def _first(self) -> Contrast:
        return (_told(self.sets[0]) or (_UNTOLD,))[0]

    @property
    def by_graph(self) -> pd.DataFrame:
        """One row per set, arm and scale; of a graph that leaves several sets possible, all.

        Columns ``set`` (number, from 1), ``adjusted_for``, ``parents`` (of the treatment, where the
        graph leaves them open), ``dags``, ``arm`` and ``against``, ``scale``, ``estimate``,
        ``standard_error`` (of ratios that of the logarithm), ``low`` and ``high`` (95 %),
        ``sites``, ``rows``, and ``note``: why nothing is estimated.
        """
        import pandas as pd

        return pd.DataFrame(self.effect_rows(), columns=list(COLUMNS))

    def unmeasured_lines(self) -> list[str]:
        """What E-values say of every ratio, in sentences."""
        told = [(own, one) for own in self.sets for one in own.contrasts if one.e_values]
        return [
            f"{self._line(own, one)}: an unmeasured cause could explain the ratio away only if "
            f"treatment and outcome each went with it by a risk ratio of {shown(found[0])} or more"
            + (f", and the interval by {shown(found[1])}." if found[1] > 1.0 else ".")
            for own, one in told
            if (found := one.e_values) and found[0] > 1.0
        ]

    @property
    def overlap(self) -> pd.DataFrame:
        """Rows by propensity: ``set``, ``arm``, ``of`` (whose propensity), ``from``, ``rows``."""
        import pandas as pd

        return pd.DataFrame(self.overlap_rows(), columns=["set", "arm", "of", "from", "rows"])

    @property
    def between_sites(self) -> pd.DataFrame:
        """How widely the differences scatter that each site's rows tell alone.

        One row per set and arm: ``set``, ``arm``, ``sites``, ``estimate`` and ``standard_error`` of
        the mean weighted by precision, ``q`` (Cochran), ``i2`` and ``p_value``.
        """
        import pandas as pd

        columns = ("set", "arm", "sites", "estimate", "standard_error", "q", "i2", "p_value")
        return pd.DataFrame(self.between_rows(), columns=list(columns))

    @property
    def refutations(self) -> pd.DataFrame:
        """The differences after changes that should, or should not, matter; empty if not asked for.

        Columns ``set``, ``change``, ``left_out`` (a variable, or a part of the rows), ``arm``,
        ``estimate``, ``standard_error``, ``low``, ``high``, and ``note``: why nothing is estimated.
        """
        import pandas as pd

        return pd.DataFrame(self.refutation_rows(), columns=list(REFUTED))

    def refutation_rows(self) -> list[tuple[Any, ...]]:
        """The rows of `refutations`."""
        return refutation_rows(self.sets, lambda arm: self._arms(arm)[0])

    def between_rows(self) -> list[tuple[Any, ...]]:
        """The rows of `between_sites`."""
        return [
            (
                number,
                self._arms(one.arm)[0],
                *(one.sites, one.estimate, one.error, one.q, one.i2, one.p_value),
            )
            for number, own in enumerate(self.sets, start=1)
            for one in own.between
        ]

    def effect_rows(self) -> list[tuple[Any, ...]]:
        """The rows of `by_graph`."""
        return [
            (
                number,
                ", ".join(own.adjust),
                None if own.parents is None else ", ".join(own.parents),
                own.n_dags,
                *(("", "") if own.why else self._arms(one.arm)),
                one.scale,
                *(_known(x) for x in (one.estimate, one.error, one.low, one.high)),
                own.sites,
                own.rows,
                own.why,
            )
            for number, own in enumerate(self.sets, start=1)
            for one in (_told(own) or (_UNTOLD,))
        ]

    def mean_rows(self) -> list[tuple[Any, ...]]:
        """Set, arm, rows, mean, standard error and effective rows of every arm."""
        return [
            (number, self.arm_name(one.arm), one.rows, one.mean, one.error, one.effective)
            for number, own in enumerate(self.sets, start=1)
            for one in own.means
        ]

    def overlap_rows(self) -> list[tuple[int, str, str, float, int]]:
        """The rows of `overlap`."""
        from cipherdag.questions.estimation.effect_sums import OVERLAP

        return [
            (number, self.arm_name(arm), self.arm_name(category + 1), OVERLAP[place], rows)
            for number, own in enumerate(self.sets, start=1)
            for category, by_arm in enumerate(own.overlap)
            for arm, bins in enumerate(by_arm)
            for place, rows in enumerate(bins)
        ]

    def _arms(self, arm: int | None) -> tuple[str, str]:
        if arm is None:
            column = self._column(self.treatment)
            unit = column.unit if column and column.unit else "unit"
            return f"{self.treatment} by one {unit} more", ""
        return self.arm_name(arm), self.arm_name(self.reference)

    def _pair(self, arm: int | None) -> str:
        return " against ".join(filter(None, self._arms(arm)))

    @property
    def measured(self) -> str:
        """What is compared: the outcome in its unit, or the share of one of its two categories."""
        column = self._column(self.outcome)
        if column is None:
            return self.outcome
        if column.cardinality:
            return (
                f"the share of {self.outcome} = {column.category_name(self.outcome_category - 1)}"
            )
        return f"{self.outcome} in {column.unit}" if column.unit else self.outcome

    def arm_name(self, arm: int) -> str:
        """A category of the treatment; its number from 1 where only the sites know its name."""
        column = self._column(self.treatment)
        return column.category_name(arm) if column and column.cardinality else str(arm + 1)

    def _column(self, name: str) -> Column | None:
        """What the schema says of a column; None where only the sites know it."""
        columns = Schema.loads(self.schema).variables if self.schema else ()
        return next((own for own in columns if own.name == name), None)

    def _found(self) -> dict[str, Any]:
        return {
            "treatment": self.treatment,
            "outcome": self.outcome,
            "estimator": self.estimator,
            "reference": self.reference,
            "all_rows": self.all_rows,
            "outcome_category": self.outcome_category,
            "left_out": [asdict(own) for own in self.left_out],
            "sets": [asdict(own) for own in self.sets],
            "details": dict(self.details),
        }

    @classmethod
    def _read(cls, report: Mapping[str, Any]) -> dict[str, Any]:
        plain = {key: report[key] for key in ("treatment", "outcome", "estimator", "reference")}
        sets = msgspec.convert(report["sets"], tuple[AdjustedEffect, ...])
        plain["all_rows"] = report.get("all_rows", 0)
        plain["outcome_category"] = report.get("outcome_category", 2)
        plain["left_out"] = msgspec.convert(report.get("left_out", []), tuple[LeftOut, ...])
        return {**plain, "sets": sets, "details": report["details"]}

    def _summary(self) -> list[str]:
        head = (
            f"The effect of {self.treatment} on {self.measured} ({self.estimator}), 95 % intervals:"
        )
        lines = ["", head]
        for own in self.sets:
            lines += shortened([*self._said(own)])
        lines += shortened([f"{said[:1].upper()}{said[1:]}" for said in self.unmeasured_lines()])
        if len(self.sets) > 1:
            low, high = self.range
            lines.append(f"Between {shown(low)} and {shown(high)}, as the graph leaves it open.")
        return lines

    def _said(self, own: AdjustedEffect) -> Iterator[str]:
        """The effect given one set, in lines."""
        head = f"adjusted for {', '.join(own.adjust) or 'nothing'}"
        if own.parents is not None:
            head = f"if the direct causes are {', '.join(own.parents) or 'none'}, {head}"
        yield f"{head}: {own.why or self._counted_rows(own)}"
        for one in own.contrasts:
            yield (
                f"  {self._pair(one.arm)}, {one.scale}: {shown(one.estimate)} "
                f"({shown(one.low)} to {shown(one.high)})"
            )
        for spread in own.between:
            yield (
                f"  {self._pair(spread.arm)}, difference from each site's rows alone, mean of "
                f"{spread.sites} sites: {shown(spread.estimate)}; scatter between them: "
                f"I2 {spread.i2:.0%}, p {spread.p_value:.2g} (Cochran's Q)"
            )
        yield from refutation_lines(own, self._pair)

    def _counted_rows(self, own: AdjustedEffect) -> str:
        """How many rows, and of how many."""
        of = f" of {self.all_rows:,}" if own.rows < self.all_rows else ""
        return f"{own.rows:,}{of} rows of {own.sites} sites"

    def _sections(self) -> dict[str, Any]:
        return {
            "remarks": (),
            "own_limits": [],
            "forests": self._forests(),
            "refuted": [*self._refuted()],
        }

    def _refuted(self) -> Iterator[Forest]:
        """A drawing for every difference that was doubted."""
        for own in self.sets:
            for one in own.contrasts:
                if one.scale == "difference":
                    title = f"{self._line(own, one)}, where something is changed"
                    found = refutation_forest(own, one, title, f"difference in {self.measured}")
                    yield from (found,) if found else ()

    def _forests(self) -> list[Forest]:
        """A drawing for every scale on which something is estimated."""
        told = [
            (own, one) for own in self.sets for one in _told(own) if math.isfinite(one.estimate)
        ]
        scales = dict.fromkeys(one.scale for _, one in told)
        return [
            Forest(
                title=f"Effect, {scale}",
                note="" if number else "95 % intervals; the broken line is where no effect lies.",
                label=f"{scale} {'in' if scale == 'difference' else 'of'} {self.measured}",
                ratios=scale != "difference",
                estimates=tuple(
                    Estimate(self._line(own, one), one.estimate, one.low, one.high)
                    for own, one in told
                    if one.scale == scale
                ),
            )
            for number, scale in enumerate(scales)
        ]

    def _line(self, own: AdjustedEffect, one: Contrast) -> str:
        """What a line of the drawing is called."""
        pair = self._pair(one.arm)
        if len(self.sets) == 1:
            return pair
        causes = ", ".join(own.parents or ()) or "none"
        return f"{NO_EFFECT if own.why else pair}, if its causes are {causes}"

    def _tables(self) -> dict[str, str]:
        tables = {"effects.csv": csv_text([COLUMNS, *self.effect_rows()])}
        if rows := self.refutation_rows():
            tables["refutations.csv"] = csv_text([REFUTED, *rows])
        return tables


_UNTOLD = Contrast(
    arm=None, scale="difference", estimate=math.nan, error=math.nan, low=math.nan, high=math.nan
)


def _told(own: AdjustedEffect) -> tuple[Contrast, ...]:
    """The contrasts of a set; 0 where its DAGs have no effect."""
    if own.why == NO_EFFECT:
        return (Contrast(arm=None, scale="difference", estimate=0.0, error=0.0, low=0.0, high=0.0),)
    return own.contrasts


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number
