"""The parts of an estimated effect: arms, contrasts, refutations and differences between sites.

Refutations are estimates after changes that should, or should not, matter. Sources: Sharma and
Kiciman, arXiv:2011.04216 (refuters); Efron and Tibshirani, An Introduction to the Bootstrap (1993),
chapter 11 (the jackknife).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cipherdag.arrays import FloatVector
from cipherdag.findings.axes import Estimate, Forest
from cipherdag.findings.finding import Cells, Column
from cipherdag.pages.numerals import shown

Scale = Literal["difference", "ratio", "odds ratio"]
Change = Literal["placebo treatment", "random common cause", "rows left out", "variable left out"]
NO_EFFECT = "no effect"
ESTIMATORS = {
    "regression": "regression of the outcome in every arm",
    "ipw": "inverse probability weighting",
    "aipw": "augmented inverse probability weighting",
    "linear": "linear regression",
    "standardise": "standardisation over strata",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmMean:
    """The mean of the outcome if all rows were of one arm."""

    arm: int  # the treatment's category, 0 for the first
    rows: int
    mean: float  # of the outcome, or of two categories the share of the second one
    error: float
    # how many rows of equal weight would be as good; None where none is weighted
    effective: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One category of the treatment against the reference, or one unit, and a 95 % interval."""

    arm: int | None  # the category, 0 for the first; None of a number
    scale: Scale
    estimate: float
    error: float  # its standard error; of ratios that of the logarithm
    low: float
    high: float

    @property
    def e_values(self) -> tuple[float, float] | None:
        """The E-values of the estimate and of its interval; defined for ratios only.

        A cause that has less than this risk ratio with the treatment, or with the outcome, cannot
        alone turn the estimate, or the end of its interval that is nearer to 1, into no effect. 1
        where the interval has 1 in it.

        Source: VanderWeele and Ding, Annals of Internal Medicine 167 (2017) 268-274.
        """
        if self.scale != "ratio" or not 0.0 < self.low <= self.high < math.inf:
            return None
        turned = self.estimate < 1.0
        near = 1.0 / self.high if turned else self.low
        return e_value(1.0 / self.estimate if turned else self.estimate), e_value(near)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refutation:
    """An effect where something was changed."""

    change: Change
    left_out: str = ""  # the variable that is left out, or the number of the part of the rows
    why: str = ""  # empty, or why nothing is estimated
    contrasts: tuple[Contrast, ...] = ()  # the differences against the reference


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenSites:
    """Heterogeneity of the sites' separate effect estimates, measured by Cochran's Q."""

    arm: int | None  # the category, 0 for the first; None of a number
    sites: int  # how many sites' rows tell one
    estimate: float  # their mean, weighted by 1 over the variance of each
    error: float  # its standard error, if all sites have one effect
    q: float  # Cochran's Q: about its degrees of freedom, one less than sites, if they have

    @classmethod
    def all_of(
        cls, sums: FloatVector, arms: Sequence[int | None], units: Sequence[float]
    ) -> tuple[BetweenSites | None, ...]:
        """One of each effect; None where fewer than two sites tell.

        Sums are of sites' precisions, of these times effects, and times their squares, and how many
        sites there are, each of shape (k,), one after the other. Arms are the categories, None of a
        number; each effect is multiplied by its unit.
        """
        return tuple(
            cls(
                arm=arm,
                sites=round(sites),
                estimate=mean / weight * unit,
                error=abs(unit) / math.sqrt(weight),
                q=max(square - mean * mean / weight, 0.0),
            )
            if sites > 1.0 and weight > 0.0
            else None
            for arm, unit, weight, mean, square, sites in zip(
                arms, units, *sums.reshape(4, -1).tolist(), strict=True
            )
        )

    @property
    def i2(self) -> float:
        """The share of the scatter that is more than chance (Higgins and Thompson, 2002)."""
        return max(0.0, 1.0 - (self.sites - 1) / self.q) if self.q > 0.0 else 0.0

    @property
    def p_value(self) -> float:
        """The p-value of Q under the hypothesis that all sites have one effect."""
        from scipy.special import gammaincc

        return float(gammaincc((self.sites - 1) / 2.0, self.q / 2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Where rows have a category of the treatment more or less often than the model says."""

    arm: int  # the category, from 1 for the second
    variable: str  # the number by which rows are divided
    below: float  # the value, of several, below which the departure is clearest
    z: float  # by how many standard deviations more rows below it have the category
    tests: int  # how many values were tried
    # by how many standard deviations rows with the category have larger squares of it
    square: float = 0.0

    @property
    def p_value(self) -> float:
        """Two-sided, at most 1, multiplied by the values that were tried (Bonferroni)."""
        return min(1.0, max(self.tests, 1) * math.erfc(abs(self.z) / math.sqrt(2.0)))

    @property
    def p_of_square(self) -> float:
        """That of the square, two-sided."""
        return math.erfc(abs(self.square) / math.sqrt(2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A test whether missingness of rows depends on the treatment or on the outcome."""

    of: Literal["treatment", "outcome"]  # which of the two
    sites: int  # how many sites tell of it
    rows: int  # how many rows these are there
    z: float  # how far its sum over these rows is from what chance makes it, in standard deviations

    @property
    def p_value(self) -> float:
        """Two-sided."""
        return math.erfc(abs(self.z) / math.sqrt(2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedEffect:
    """The effect as one set of variables tells it."""

    adjust: tuple[str, ...]
    # the direct causes of the treatment in the DAGs that say so, where the graph leaves several
    # possible; else None
    parents: tuple[str, ...] | None = None
    n_dags: int | None = None  # how many DAGs these are, if known
    # the share of graphs that fit the data which say so, if a sample was drawn
    share: float | None = None
    why: str = ""  # empty, or why nothing is estimated; ``no effect``: because these DAGs have none
    sites: int = 0
    rows: int = 0
    means: tuple[ArmMean, ...] = ()  # of every arm; none of a linear model
    contrasts: tuple[Contrast, ...] = ()  # against the reference, by scale, differences first
    # how many rows have which propensity, category by category but the first, arm by arm, bin by
    # bin of `PROPENSITY_EDGES`, but for counts that a site keeps
    overlap: tuple[tuple[tuple[int, ...], ...], ...] = ()
    # by category but the first, and by number adjusted for, where the treatment's model misses most
    departures: tuple[Departure, ...] = ()
    # how far the sites' own differences lie apart, by category; none where too few tell
    between: tuple[BetweenSites, ...] = ()
    doubts: tuple[str, ...] = ()  # what makes the numbers doubtful, in sentences
    # the same after changes, where they were asked for; those that leave out a variable in the
    # order of ``adjust``
    refutations: tuple[Refutation, ...] = ()


def e_value(ratio: float) -> float:
    """The E-value of a risk ratio; 1 for a ratio of 1 or below."""
    return ratio + math.sqrt(ratio * (ratio - 1.0)) if ratio > 1.0 else 1.0


FEWEST_PARTS = 2
REFUTATIONS = (
    Column("set", int, "The number of the set, from 1."),
    Column("change", str, "The change, such as `placebo treatment`."),
    Column("left_out", str, "The variable, or the part of the rows, that is left out."),
    Column("arm", str, "The category of the treatment, or a unit more."),
    Column("estimate", float, "The difference after the change."),
    Column("standard_error", float, "Its standard error."),
    Column("low", float, "The lower end of its interval at 95 %."),
    Column("high", float, "The upper end."),
    Column("note", str, "Why nothing is estimated."),
)
Naming = Callable[[int | None], str]


def contrasts_after(
    refutations: Sequence[Refutation], change: Change, arm: int | None
) -> tuple[Contrast, ...]:
    """The estimates after changes of one kind, of one category of the treatment."""
    return tuple(
        one
        for changed in refutations
        if changed.change == change
        for one in changed.contrasts
        if one.arm == arm and math.isfinite(one.estimate)
    )


def normal_p_value(one: Contrast | BetweenSites) -> float:
    """The two-sided normal p-value of a difference of 0; 1 without a positive error."""
    if not 0.0 < one.error < math.inf:
        return 1.0
    return math.erfc(abs(one.estimate) / one.error / math.sqrt(2.0))


def left_out_p_value(parts: Sequence[Contrast], error: float) -> float:
    """A test whether leave-one-out estimates scatter as the standard error predicts.

    Parts are about alike in size; the error is that of the estimate from all rows. The p-value is
    small where they scatter more widely, and 1 of fewer than two.
    """
    from scipy.special import gammaincc

    count = len(parts)
    if count < FEWEST_PARTS or not 0.0 < error < math.inf:
        return 1.0
    mean = math.fsum(part.estimate for part in parts) / count
    squares = math.fsum((part.estimate - mean) ** 2 for part in parts)
    scatter = squares * (count - 1) ** 2 / (count * error * error)
    return float(gammaincc((count - 1) / 2.0, scatter / 2.0))


def refutation_rows(sets: tuple[AdjustedEffect, ...], arm_name: Naming) -> Cells:
    """The estimate after every change, or why there is none."""
    rows: Cells = []
    for number, effect in enumerate(sets, start=1):
        for changed in effect.refutations:
            head = (number, changed.change, changed.left_out)
            rows += [
                (*head, arm_name(one.arm), one.estimate, one.error, one.low, one.high, "")
                for one in changed.contrasts
            ]
            if changed.why:
                rows.append((*head, "", None, None, None, None, changed.why))
    return rows


def refutation_lines(effect: AdjustedEffect, pair: Naming) -> Iterator[str]:
    """One line per refutation with its estimate; parts of the rows share one line."""
    for one in effect.contrasts:
        if one.scale == "difference" and effect.refutations:
            yield f"  {pair(one.arm)}, the same difference after a change:"
            yield from _changed_lines(effect, one)
    for why in dict.fromkeys(
        f"{name(changed)}: {changed.why}" for changed in effect.refutations if changed.why
    ):
        yield f"    {why}"


def _changed_lines(effect: AdjustedEffect, one: Contrast) -> Iterator[str]:
    for changed in effect.refutations:
        for other in (other for other in changed.contrasts if other.arm == one.arm):
            line = f"    {name(changed)}: {shown(other.estimate)}"
            if changed.change == "placebo treatment":
                yield f"{line} ({shown(other.low)} to {shown(other.high)}), and 0 is expected"
            elif changed.change == "random common cause":
                shift = abs(other.estimate - one.estimate) / one.error if one.error else math.nan
                yield f"{line}, a shift of {shift:.2f} standard errors"
            elif changed.change != "rows left out":
                yield f"{line} ({shown(other.low)} to {shown(other.high)})"
    parts = contrasts_after(effect.refutations, "rows left out", one.arm)
    if parts:
        low, high = (end(part.estimate for part in parts) for end in (min, max))
        yield (
            f"    a fifth of the rows left out, each in turn: {shown(low)} to {shown(high)}; "
            f"p of their scatter {shown(left_out_p_value(parts, one.error))}"
        )


def name(changed: Refutation) -> str:
    """The name of the refutation in words."""
    if changed.change == "variable left out":
        return f"without {changed.left_out}"
    return "a fifth of the rows left out" if changed.change == "rows left out" else changed.change


def refutation_forest(
    effect: AdjustedEffect, one: Contrast, title: str, label: str
) -> Forest | None:
    """A drawing of one difference and of what it is after every change; None without any."""
    estimates = [
        Estimate(
            f"part {changed.left_out} of the rows left out"
            if changed.change == "rows left out"
            else name(changed),
            other.estimate,
            other.low,
            other.high,
        )
        for changed in effect.refutations
        for other in changed.contrasts
        if other.arm == one.arm and math.isfinite(other.low) and math.isfinite(other.high)
    ]
    if not estimates or not math.isfinite(one.low):
        return None
    whole = Estimate("as estimated", one.estimate, one.low, one.high)
    return Forest(title=title, note=f"{title}:", label=label, estimates=(whole, *estimates))
