"""The parts of an estimated effect: arms, contrasts, refutations and differences between sites."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Scale = Literal["difference", "ratio", "odds ratio"]
Change = Literal[
    "placebo treatment",
    "random common cause",
    "rows left out",
    "variable left out",
]
NO_EFFECT = "no effect"
ESTIMATORS = {
    "regression": "regression of the outcome in every arm",
    "ipw": "inverse probability weighting",
    "aipw": "augmented inverse probability weighting",
    "linear": "linear regression",
    "standardise": "standardisation over strata",
}
"""What estimators are called in reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmMean:
    """The mean of the outcome if all rows were of one arm.

    Attributes:
        arm: The treatment's category, 0 for the first.
        rows: Rows of the arm.
        mean: Of the outcome, or of two categories the share of the second one.
        error: Its standard error.
        effective: How many rows of equal weight would be as good; None where none is weighted.
    """

    arm: int
    rows: int
    mean: float
    error: float
    effective: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One category of the treatment against the reference, or one unit of it.

    Attributes:
        arm: The category, 0 for the first; None of a number.
        scale: How the two are compared.
        estimate: The effect.
        error: Its standard error; of ratios that of the logarithm.
        low: Where its interval of 95 % begins.
        high: Where it ends.
    """

    arm: int | None
    scale: Scale
    estimate: float
    error: float
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
    """An effect where something was changed.

    Attributes:
        change: What was changed.
        left_out: The variable that is left out, or the number of the part of the rows.
        why: Empty, or why nothing is estimated.
        contrasts: The differences against the reference.
    """

    change: Change
    left_out: str = ""
    why: str = ""
    contrasts: tuple[Contrast, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenSites:
    """Heterogeneity of the sites' separate effect estimates, measured by Cochran's Q.

    Attributes:
        arm: The category, 0 for the first; None of a number.
        sites: How many sites' rows tell one.
        estimate: Their mean, weighted by 1 over the variance of each.
        error: Its standard error, if all sites have one effect.
        q: Cochran's Q: about its degrees of freedom, one less than sites, if they have.
    """

    arm: int | None
    sites: int
    estimate: float
    error: float
    q: float

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
class LeftOut:
    """A test whether missingness of rows depends on the treatment or on the outcome.

    Attributes:
        of: Which of the two.
        sites: How many sites tell of it.
        rows: How many rows these are there.
        z: How far its sum over these rows is from what chance makes it, in standard deviations.
    """

    of: Literal["treatment", "outcome"]
    sites: int
    rows: int
    z: float

    @property
    def p_value(self) -> float:
        """Two-sided."""
        return math.erfc(abs(self.z) / math.sqrt(2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedEffect:
    """The effect as one set of variables tells it.

    Attributes:
        adjust: The variables adjusted for.
        parents: The direct causes of the treatment in the DAGs that say so, where the graph leaves
            several possible; else None.
        n_dags: How many DAGs these are, if known.
        why: Empty, or why nothing is estimated; ``no effect``: because these DAGs have none.
        sites: How many sites add rows.
        rows: How many rows.
        means: Of every arm; none of a linear model.
        contrasts: Against the reference, by scale, differences first.
        overlap: How many rows have which propensity, category by category but the first, arm by
            arm, bin by bin of `PROPENSITY_EDGES`, but for counts that a site keeps.
        between: How far the sites' own differences lie apart, by category; none where too few tell.
        doubts: What makes the numbers doubtful, in sentences.
        refutations: The same after changes, where they were asked for; those that leave out a
            variable in the order of ``adjust``.
    """

    adjust: tuple[str, ...]
    parents: tuple[str, ...] | None = None
    n_dags: int | None = None
    why: str = ""
    sites: int = 0
    rows: int = 0
    means: tuple[ArmMean, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    overlap: tuple[tuple[tuple[int, ...], ...], ...] = ()
    between: tuple[BetweenSites, ...] = ()
    doubts: tuple[str, ...] = ()
    refutations: tuple[Refutation, ...] = ()


def e_value(ratio: float) -> float:
    """The E-value of a risk ratio; 1 for a ratio of 1 or below."""
    return ratio + math.sqrt(ratio * (ratio - 1.0)) if ratio > 1.0 else 1.0
