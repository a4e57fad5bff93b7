"""The estimated effect of one variable on another, for every set that it may be adjusted for."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import msgspec

from cipherdag.findings.averaging import OTHERWISE, SUPPOSED, SURE, averaged_effect
from cipherdag.findings.axes import Estimate, Forest
from cipherdag.findings.effect import (
    ESTIMATORS,
    NO_EFFECT,
    REFUTATIONS,
    AdjustedEffect,
    Contrast,
    LeftOut,
    refutation_forest,
    refutation_lines,
    refutation_rows,
)
from cipherdag.findings.finding import Cells, Column, Finding, Table, shortened
from cipherdag.graphs.graph import CausalGraph
from cipherdag.pages.numerals import share_shown, shown
from cipherdag.statistics.regression_models import PROPENSITY_EDGES

NO_CONTRAST = Contrast(
    arm=None, scale="difference", estimate=math.nan, error=math.nan, low=math.nan, high=math.nan
)


@dataclass(frozen=True, kw_only=True)
class EstimatedEffect(Finding):
    """The effect of one variable on another.

    Attributes:
        reference: The category of the treatment that the others are compared with, 0 for the first.
        all_rows: How many rows the sites hold, those with missing values, too; 0 if not known.
        outcome_category: Of which of an outcome's two categories shares are, 1 for the first.
        left_out: Whether rows that miss a value differ; empty where no site misses one, or too few
            sites tell.
    """

    kind: ClassVar[str] = "effect"
    template: ClassVar[str] = "effect_run.html.j2"
    causal: ClassVar[bool] = False
    promise: ClassVar[str] = (
        "how much one variable of the study changes another, if the graph that says "
        "what to adjust for is right."
    )

    treatment: str
    outcome: str
    estimator: str
    reference: int
    all_rows: int = 0
    outcome_category: int = 2
    left_out: tuple[LeftOut, ...] = ()
    sets: tuple[AdjustedEffect, ...]

    @property
    def decisions(self) -> bytes:
        parts = [self.treatment, self.outcome, self.estimator, *map(asdict, self.sets)]
        return msgspec.json.encode(parts, order="deterministic")

    @property
    def estimate(self) -> float:
        """The difference in means, or per unit of the treatment, of the first set.

        Of a treatment with more than two categories the first one against the reference. NaN where
        it is not estimated. The table ``effects`` has all, `range` what their intervals span.
        """
        return self._first.estimate

    @property
    def standard_error(self) -> float:
        """The standard error of `estimate`."""
        return self._first.error

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the difference, under the graph and the models."""
        return self._first.low, self._first.high

    @property
    def range(self) -> tuple[float, float]:
        """The hull of the 95 % intervals of the difference over all sets that were estimated.

        It holds the truth at least as often as the interval of the set that is right.
        """
        first = [one for each in self.sets for one in _contrasts(each)[:1]]
        low = min((one.low for one in first), default=math.nan)
        return low, max((one.high for one in first), default=math.nan)

    @property
    def share_with_effect(self) -> float | None:
        """The share of graphs that fit the data in which there is an effect; None of one graph."""
        shares = [one.share for one in self.sets if one.share is not None]
        without = sum(one.share or 0.0 for one in self.sets if one.why == NO_EFFECT)
        return 1.0 - without if shares else None

    @property
    def _first(self) -> Contrast:
        """Of a sample of graphs the mean over those with an effect, else of the first set."""
        over_graphs = averaged_effect(self.sets)
        return over_graphs or (_contrasts(self.sets[0]) or (NO_CONTRAST,))[0]

    @property
    def headline(self) -> str:
        return f"the effect of {self.treatment} on {self.outcome}"

    @property
    def measured(self) -> str:
        """The estimand: the outcome in its unit, or the share of one of its two categories."""
        if self.outcome in self.dictionary.categories:
            category = self.dictionary.category(self.outcome, self.outcome_category - 1)
            return f"the share of {self.outcome} = {category}"
        unit = self.dictionary.units.get(self.outcome)
        return f"{self.outcome} in {unit}" if unit else self.outcome

    def arm_name(self, arm: int) -> str:
        """A category of the treatment; its number from 1 where only the sites know its name."""
        return self.dictionary.category(self.treatment, arm)

    def _arms(self, arm: int | None) -> tuple[str, str]:
        if arm is None:
            unit = self.dictionary.units.get(self.treatment, "unit")
            return f"{self.treatment} by one {unit} more", ""
        return self.arm_name(arm), self.arm_name(self.reference)

    def _pair(self, arm: int | None) -> str:
        return " against ".join(filter(None, self._arms(arm)))

    def _title(self, effect: AdjustedEffect, one: Contrast) -> str:
        """The label of one line of the forest plot."""
        pair = self._pair(one.arm)
        if len(self.sets) == 1:
            return pair
        said = NO_EFFECT if effect.why else pair
        if effect.parents is None:
            return f"{said}, adjusted for {', '.join(effect.adjust) or 'nothing'}"
        return f"{said}, if its causes are {', '.join(effect.parents) or 'none'}"

    @property
    def unmeasured_lines(self) -> list[str]:
        """One sentence per ratio with its E-value."""
        return [
            f"{self._title(effect, one)}: an unmeasured cause could explain the ratio away only if "
            f"treatment and outcome each went with it by a risk ratio of {shown(values[0])} or more"
            + (f", and the interval by {shown(values[1])}." if values[1] > 1.0 else ".")
            for effect in self.sets
            for one in effect.contrasts
            if (values := one.e_values) and values[0] > 1.0
        ]

    def lines(self, n_sites: int) -> list[str]:
        del n_sites  # every set says of how many sites it is
        head = (
            f"The effect of {self.treatment} on {self.measured} "
            f"by {ESTIMATORS[self.estimator]}, 95 % intervals:"
        )
        lines = ["", head]
        for effect in self.sets:
            lines += shortened([*self._set_lines(effect)])
        lines += shortened([f"{line[:1].upper()}{line[1:]}" for line in self.unmeasured_lines])
        if said := self.sampled_lines:
            lines[1:1] = [*said, ""]
        elif len(self.sets) > 1:
            low, high = self.range
            ends = f"Between {shown(low)} and {shown(high)}"
            lines.append(f"{ends} over all of these intervals, as the graph leaves it open.")
        return lines

    @property
    def sampled_lines(self) -> list[str]:
        """In how many graphs there is an effect, and how large it is then; none of one graph."""
        if (share := self.share_with_effect) is None:
            return []
        one = self._first
        graphs = f"{share_shown(share)} of graphs that fit the data"
        size = f"{shown(one.estimate)} ({shown(one.low)} to {shown(one.high)}, 95 %)"
        other = OTHERWISE.format(outcome=self.outcome, treatment=self.treatment)
        return [
            SUPPOSED,
            f"{self.treatment} causes {self.outcome} in {graphs}.",
            f"If it does, {self._pair(one.arm)} changes {self.measured} by {size}.",
            "That interval allows for scatter between the sites; those below do not.",
            *([other] if share < SURE else []),
        ]

    def _set_lines(self, effect: AdjustedEffect) -> Iterator[str]:
        """The effect given one set, in lines."""
        if effect.why == NO_EFFECT and effect.share is not None:
            return  # the first sentence says so
        head = f"adjusted for {', '.join(effect.adjust) or 'nothing'}"
        if effect.parents is not None:
            graphs = "" if effect.share is None else f" (in {share_shown(effect.share)} of graphs)"
            head = f"if the direct causes are {', '.join(effect.parents) or 'none'}{graphs}, {head}"
        of = f" of {self.all_rows:,}" if effect.rows < self.all_rows else ""
        yield f"{head}: {effect.why or f'{effect.rows:,}{of} rows of {effect.sites} sites'}"
        for one in effect.contrasts:
            yield (
                f"  {self._pair(one.arm)}, {one.scale}: {shown(one.estimate)} "
                f"({shown(one.low)} to {shown(one.high)})"
            )
        for spread in effect.between:
            yield (
                f"  {self._pair(spread.arm)}, difference from each site's rows alone, mean of "
                f"{spread.sites} sites: {shown(spread.estimate)}; scatter between them: "
                f"I2 {spread.i2:.0%}, p {spread.p_value:.2g} (Cochran's Q)"
            )
        yield from refutation_lines(effect, self._pair)

    def sections(self, truth: CausalGraph | None) -> dict[str, Any]:
        del truth
        return {
            "estimator": ESTIMATORS[self.estimator],
            "n_sets": sum(one.why != NO_EFFECT for one in self.sets),
            "share_shown": share_shown,
            "forests": self._forests(),
            "refuted": [*self._refuted()],
        }

    def _refuted(self) -> Iterator[Forest]:
        """A drawing for every difference that was doubted."""
        for effect in self.sets:
            for one in effect.contrasts:
                if one.scale == "difference":
                    title = f"{self._title(effect, one)}, after a change"
                    label = f"difference in {self.measured}"
                    forest = refutation_forest(effect, one, title, label)
                    yield from (forest,) if forest else ()

    def _forests(self) -> list[Forest]:
        """A drawing for every scale on which something is estimated."""
        estimated = [
            (self._title(effect, one), one)
            for effect in self.sets
            for one in (_contrasts(effect) if effect.share is None else effect.contrasts)
            if math.isfinite(one.estimate)
        ]
        if (over := averaged_effect(self.sets)) is not None:
            estimated.insert(0, (f"{self._pair(over.arm)}, over graphs with an effect", over))
        scales = dict.fromkeys(one.scale for _, one in estimated)
        return [
            Forest(
                title=f"Effect, {scale}",
                note="" if number else "95 % intervals; the broken line is where no effect lies.",
                label=f"{scale} {'in' if scale == 'difference' else 'of'} {self.measured}",
                ratios=scale != "difference",
                estimates=tuple(
                    Estimate(title, one.estimate, one.low, one.high)
                    for title, one in estimated
                    if one.scale == scale
                ),
            )
            for number, scale in enumerate(scales)
        ]

    def _repr_html_(self) -> str:
        return self.table("effects").to_html(index=False)

    def _arm_rows(self) -> Cells:
        return [
            (number, self.arm_name(one.arm), one.rows, one.mean, one.error, one.effective)
            for number, effect in enumerate(self.sets, start=1)
            for one in effect.means
        ]

    def _effect_rows(self) -> Cells:
        return [
            (
                number,
                ", ".join(effect.adjust),
                None if effect.parents is None else ", ".join(effect.parents),
                effect.n_dags,
                *(("", "") if effect.why else self._arms(one.arm)),
                one.scale,
                *(
                    None if math.isnan(value) else value
                    for value in (one.estimate, one.error, one.low, one.high)
                ),
                effect.sites,
                effect.rows,
                effect.why,
                effect.share,
            )
            for number, effect in enumerate(self.sets, start=1)
            for one in (_contrasts(effect) or (NO_CONTRAST,))
        ]

    def _refutation_rows(self) -> Cells:
        return refutation_rows(self.sets, lambda arm: self._arms(arm)[0])

    def _between_rows(self) -> Cells:
        return [
            (
                number,
                self._arms(one.arm)[0],
                *(one.sites, one.estimate, one.error, one.q, one.i2, one.p_value),
            )
            for number, effect in enumerate(self.sets, start=1)
            for one in effect.between
        ]

    def _overlap_rows(self) -> Cells:
        return [
            (number, self.arm_name(arm), self.arm_name(category + 1), PROPENSITY_EDGES[start], rows)
            for number, effect in enumerate(self.sets, start=1)
            for category, by_arm in enumerate(effect.overlap)
            for arm, bins in enumerate(by_arm)
            for start, rows in enumerate(bins)
        ]

    tables = (
        Table(
            name="effects",
            doc="One row per set to adjust for, arm and scale; all sets that the graph leaves "
            "possible.",
            columns=(
                Column("set", int, "The number of the set, from 1."),
                Column("adjusted_for", str, "The variables adjusted for."),
                Column("parents", str, "The direct causes of the treatment, where open; or None."),
                Column("dags", int, "The number of DAGs that say so, if it was counted."),
                Column("arm", str, "The category of the treatment, or a unit more."),
                Column("against", str, "The category that it is compared with."),
                Column("scale", str, "`difference`, `ratio` or `odds ratio`."),
                Column("estimate", float, "The effect."),
                Column("standard_error", float, "Its standard error, of the logarithm of a ratio."),
                Column("low", float, "The lower end of its interval at 95 %."),
                Column("high", float, "The upper end."),
                Column("sites", int, "The number of sites that add rows."),
                Column("rows", int, "The number of rows."),
                Column("note", str, "Why nothing is estimated."),
                Column("share", float, "The share of a sample of graphs that say so, or None."),
            ),
            rows=_effect_rows,
        ),
        Table(
            name="arms",
            doc="One row per set and arm: the outcome's mean if all rows were of the arm.",
            columns=(
                Column("set", int, "The number of the set, from 1."),
                Column("arm", str, "The arm."),
                Column("rows", int, "The rows of the arm."),
                Column("mean", float, "The mean, or of two categories the share of the second."),
                Column("standard_error", float, "Its standard error."),
                Column("effective_rows", float, "How many rows of equal weight are as good."),
            ),
            rows=_arm_rows,
            saved="never",
        ),
        Table(
            name="refutations",
            doc="One row per change that should, or should not, matter; none if not asked for.",
            columns=REFUTATIONS,
            rows=_refutation_rows,
            saved="with rows",
        ),
        Table(
            name="between_sites",
            doc="One row per set and arm: how widely the effects scatter that each site tells "
            "alone.",
            columns=(
                Column("set", int, "The number of the set, from 1."),
                Column("arm", str, "The category of the treatment, or a unit more."),
                Column("sites", int, "The number of sites that tell one."),
                Column("estimate", float, "Their mean, weighted by precision."),
                Column("standard_error", float, "Its standard error."),
                Column("q", float, "Cochran's Q."),
                Column("i2", float, "The share of the scatter that is more than chance."),
                Column("p_value", float, "The p-value of Q."),
            ),
            rows=_between_rows,
            saved="never",
        ),
        Table(
            name="overlap",
            doc="One row per set, arm and bin of the propensity.",
            columns=(
                Column("set", int, "The number of the set, from 1."),
                Column("arm", str, "The arm of the rows."),
                Column("of", str, "The category whose propensity it is."),
                Column("from", float, "Where the bin begins."),
                Column("rows", int, "The rows in the bin."),
            ),
            rows=_overlap_rows,
            saved="never",
        ),
    )


def _contrasts(effect: AdjustedEffect) -> tuple[Contrast, ...]:
    """The contrasts of a set; 0 where its DAGs have no effect."""
    if effect.why == NO_EFFECT:
        return (Contrast(arm=None, scale="difference", estimate=0.0, error=0.0, low=0.0, high=0.0),)
    return effect.contrasts
