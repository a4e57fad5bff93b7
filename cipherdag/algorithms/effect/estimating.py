"""Estimation of the effect given one adjustment set: M-estimation on sums over the sites."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from cipherdag.algorithms.algorithm import Facts
from cipherdag.algorithms.effect.estimates import (
    FEWEST_SPARE,
    Arms,
    Estimates,
    Uncertainty,
    arm_means,
    coefficient_estimates,
    departures,
    differences,
    ratios,
)
from cipherdag.arrays import FloatVector
from cipherdag.findings.effect import AdjustedEffect, ArmMean, BetweenSites, Contrast
from cipherdag.questions.encodings import pack_floats
from cipherdag.questions.estimation.effect_stages import (
    ArmMeans,
    ModelSteps,
    PerSite,
    Stage,
    Variance,
)
from cipherdag.questions.estimation.effect_sums import TREATMENT, EffectSums
from cipherdag.questions.gather import gather_two
from cipherdag.questions.question import Question
from cipherdag.questions.regression_steps import values_per_step
from cipherdag.questions.threshold import ContributorCounts, open_unsuppressed, sum_with_threshold
from cipherdag.statistics.newton import ESTIMATE_TOLERANCE, step_parts
from cipherdag.statistics.regression_fits import FEWEST_PER_COEFFICIENT, Fit
from cipherdag.statistics.regression_models import PROPENSITY_EDGES

Estimating = Generator["Question", "FloatVector", AdjustedEffect]
Opening = Generator["Question", "FloatVector", "FloatVector"]

EXTREME = 2  # bins at either end whose propensities, below 0.05 or above 0.95, hardly overlap
DOUBTFUL = 0.1
"""Share of extreme rows above which, or of an arm's effective rows below which, there is doubt."""
LEAST_LEFT_OUT = 1e-6
"""Rows left out are reported above this share; less is rounding of sums to their grid."""


@dataclass(slots=True)
class Estimation:
    """The estimation given one adjustment set."""

    question: EffectSums
    facts: Facts
    reference: int  # the arm that others are compared with
    leave_out: bool  # whether sites that may not contribute are left out
    between: bool = True  # whether the effects within each site are combined, too
    unchanged: Estimation | None = None  # of a refutation: its sites are counted first
    first: bool = False  # whether shares are of the outcome's first category, not of its second
    fits: dict[int, Fit] = field(default_factory=dict)  # the models so far, by number
    contributing: int = 0  # how many sites contribute, once they are enough
    small: bool = False  # whether small counts at some site stop it
    _sites: int = 0

    def run(self) -> Estimating:
        """The effect, or why there is none."""
        why = yield from self._count()
        if why:
            return AdjustedEffect(adjust=(), why=why)
        self.contributing = self._sites
        if not self.between:
            return (yield from self._estimated())
        effect, between = yield from gather_two(self._estimated(), self._between())
        return replace(effect, between=between)

    @property
    def determined(self) -> bool:
        """True if the rows determine every model."""
        return all(not f.diverged and f.determined for f in self.fits.values())

    def _between(self) -> Generator[Question, FloatVector, tuple[BetweenSites, ...]]:
        """Heterogeneity between sites: the weighted mean of their effects, and Cochran's Q."""
        asked = self._stage(PerSite(self.reference))
        sums = yield from sum_with_threshold(asked, self.facts.min_contributors)
        number = not asked.categories[asked.treatment]
        others = [a for a in range(asked.arms) if a != self.reference]
        arms = (None,) if number else others
        each = BetweenSites.all_of(sums, arms, [self._effect_scale()] * len(arms))
        return tuple(one for one in each if one is not None)

    def _estimated(self) -> Estimating:
        yield from self._fit()
        why = self._unfit()
        if why:
            return self._no_effect(why)
        if self.question.linear:
            return (yield from self._coefficients())
        return (yield from self._means())

    def _count(self) -> Generator[Question, FloatVector, str]:
        """The number of sites that add rows, or the reason why they are too few."""
        scope = self.question.counted_as
        asked = scope if self.facts.min_contributors <= 1 else ContributorCounts(question=scope)
        counts = np.rint((yield asked)).astype(np.int64)
        able, *arms = counts.tolist()
        self._sites, cohort, needed = able, self.facts.present.n_sites, self.facts.min_contributors
        if self.unchanged is not None and able != self.unchanged.contributing:
            if not self.unchanged.contributing:
                return "nothing is disclosed of the rows as they are"
            of = self.unchanged.contributing
            return f"{able} of {of} sites have enough rows that are changed so"
        if able < cohort and not self.leave_out:
            self.small = True
            others = "; withheld=leave-out leaves these sites out" if able >= needed else ""
            return f"{cohort - able} of {cohort} sites have {self._lacking}{others}"
        if able < needed:
            return f"{able} sites may tell of these rows, and {needed} have to"
        for arm, sites in enumerate(arms):
            if sites < max(needed, 1):
                which = f" of arm {arm + 1}" if self.question.arms > 1 else ""
                return f"{sites} sites have rows{which}, and {max(needed, 1)} have to"
        return ""

    @property
    def _lacking(self) -> str:
        """Why a site may not contribute, in words."""
        small = (
            "a count below their min_cell_size in the table of treatment, outcome and what is "
            "adjusted for"
        )
        if not self.question.site_effect:
            return small
        where = " together with any of what is adjusted for" if self.question.stratified else ""
        return f"{small}, or no row of some category of the treatment{where}"

    def _stage(self, stage: Stage) -> EffectSums:
        return msgspec.structs.replace(self.question, stage=stage)

    def _opened(self, question: EffectSums) -> Opening:
        if self.facts.min_contributors <= 1:
            return (yield question)
        return (yield from open_unsuppressed(question, np.ones(1 + question.arms, dtype=bool)))

    def _fit(self) -> Generator[Question, FloatVector, None]:
        """Fit all models by maximum likelihood, in the same rounds, one per Newton step."""
        question = self.question
        for model in question.needed:
            discrete = not question.linear and (
                model == TREATMENT or question.categories[question.outcome] > 0
            )
            start = np.zeros(question.size(model))
            self.fits[model] = Fit(
                start, tolerance=ESTIMATE_TOLERANCE, model=question.regression(model),
                discrete=discrete, site_effect=question.site_effect,
            )  # fmt: skip
        while active := tuple(m for m, fit in self.fits.items() if not fit.finished):
            proposed = [self.fits[model].proposed for model in active]
            stage = ModelSteps(active, pack_floats(np.concatenate(proposed)))
            sums = yield from self._opened(self._stage(stage))
            for model in active:
                count = question.size(model)
                step, sums = np.split(sums, [values_per_step(count)])
                self.fits[model].update(*step_parts(step, count), question.outputs(model))

    def _unfit(self) -> str:
        """Why the models cannot be used, in words."""
        treatment = self.fits.get(TREATMENT)
        if treatment is not None and treatment.diverged:
            return (
                "the treatment's model has no finite maximum: some values of what is adjusted for "
                "occur with one treatment only, where no rows tell an effect, and another "
                "estimator would guess it; leave such rows out at every site, or adjust for fewer "
                "or coarser variables"
            )
        for model, fit in self.fits.items():
            if fit.diverged:
                return (
                    f"the model of the outcome in arm {model + 1} has no finite maximum: some "
                    "values of what is adjusted for occur with one outcome only, and what it says "
                    "of other rows would be a guess; adjust for fewer or coarser variables"
                )
            size, rows = len(fit.coefficients), fit.limiting_rows
            size += self._sites - 1 if self.question.site_effect else 0
            if model != TREATMENT and not fit.discrete and rows <= size:
                return f"{rows:.0f} rows do not determine a model of {size} coefficients"
        return ""

    def _means(self) -> Estimating:
        asked = self._stage(ArmMeans(self._all_coefficients(), overlap=self.unchanged is None))
        arms = arm_means(asked, (yield from self._opened(asked)), self.fits)
        if why := self._truncation_fault(arms):
            return self._no_effect(why)
        covariance = yield from self._covariance(arms.estimates)
        return self._of_arms(
            arms.estimates.values,
            covariance,
            arms.rows,
            arms.effective,
            overlap=_whole(arms.overlap),
            departures=tuple(departures(asked, arms.scores)),
            doubts=tuple(self._doubts(arms)),
        )

    def _truncation_fault(self, arms: Arms) -> str:
        """Why the truncated weights of ``ipw`` do not adjust; "" if they do."""
        least, counts = self.question.truncate, arms.overlap
        bins = sum(edge <= least for edge in PROPENSITY_EDGES[1:])
        if self.question.estimator != "ipw" or not counts.size or not bins:
            return ""
        cut = float(counts[..., :bins].sum() + counts[..., -bins:].sum()) / max(counts.sum(), 1.0)
        if cut <= DOUBTFUL:
            return ""
        return (
            f"{cut:.0%} of the rows have a propensity beyond {least} or {1.0 - least}, where "
            "weights are cut, so that they do not adjust: choose aipw, or a smaller truncate"
        )

    def _of_arms(
        self,
        values: FloatVector,
        covariance: FloatVector,
        rows: FloatVector,
        effective: FloatVector,
        **more: Any,
    ) -> AdjustedEffect:
        unit, origin = self._outcome_scale()
        worth = self._effective_rows(values, rows, effective)
        coefficients = self._coefficients_per_arm
        spare = worth - coefficients
        arm = int(spare.argmin())
        if spare[arm] < FEWEST_SPARE:
            rare = worth[arm] < rows[arm] / 2.0
            rarer = ", few of them with the rarer outcome," if rare else ""
            return self._no_effect(
                f"{rows[arm]:.0f} rows of arm {arm + 1}{rarer} are worth {worth[arm]:.0f}, and "
                f"models with constants of {self._sites} sites have {coefficients} coefficients, "
                "so that no interval would hold: adjust for fewer or coarser variables"
            )
        values, covariance = origin + values * unit, covariance * unit * unit
        uncertainty = Uncertainty(covariance, worth, spare)
        errors = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
        contrasts = [*differences(values, uncertainty, self.reference)]
        if self.question.categories[self.question.outcome]:
            contrasts += ratios(values, uncertainty, self.reference)
        columns = (column.tolist() for column in (rows, values, errors, effective))
        means = tuple(
            ArmMean(arm=a, rows=int(n), mean=mean, error=error, effective=weights or None)
            for a, (n, mean, error, weights) in enumerate(zip(*columns, strict=True))
        )
        return self._effect(contrasts, rows=int(rows.sum()), means=means, **more)

    def _effective_rows(
        self, shares: FloatVector, rows: FloatVector, effective: FloatVector
    ) -> FloatVector:
        """How many rows the variance of each arm's mean is worth, shape (arms,).

        The variance of a share p is as certain as that of 2 n min(p, 1 - p) numbers. Without
        weights a model also predicts for rows unlike the arm's, so the arm's rows count half.
        """
        worth = np.where(effective > 0.0, effective, rows / 2.0)
        if self.question.categories[self.question.outcome]:
            worth = worth * 2.0 * np.minimum(shares, 1.0 - shares)
        return worth

    @property
    def _coefficients_per_arm(self) -> int:
        """Coefficients that an arm's rows determine, those of the sites among them."""
        question = self.question
        if question.stratified:
            return 1
        return question.size(0) + (self._sites - 1) * question.site_effect

    def _coefficients(self) -> Estimating:
        (fit,) = self.fits.values()
        estimates = coefficient_estimates(self.question, fit)
        values = estimates.values
        if not (np.diagonal(estimates.influence[:, -len(values) :]) > 0.0).all():
            why = "the treatment is constant, or a linear combination of what is adjusted for"
            return self._no_effect(why)
        covariance = yield from self._covariance(estimates)
        unit = self._effect_scale()
        constants = self._sites - 1 if self.question.site_effect else 0
        robust = covariance * unit * unit
        values, reference = values * unit, None
        if self.question.categories[self.question.treatment]:
            # of the first category, which has no coefficient, it is 0
            values, reference = np.append(0.0, values), self.reference
            robust = np.pad(robust, ((1, 0), (1, 0)))
        spare = np.full(len(values), fit.limiting_rows - fit.rank - constants)
        contrasts = [*differences(values, Uncertainty(robust, spare, spare), reference)]
        return self._effect(
            contrasts, rows=round(fit.limiting_rows), doubts=tuple(self._of_models())
        )

    def _covariance(self, estimates: Estimates) -> Opening:
        """Sandwich covariance of the estimates, shape (k, k)."""
        inverses = (pack_floats(self.fits[m].inverse) for m in self.question.of_outcome)
        stage = Variance(
            self._all_coefficients(), pack_floats(estimates.influence), b"".join(inverses)
        )
        return estimates.covariance((yield from self._opened(self._stage(stage))))

    def _no_effect(self, why: str) -> AdjustedEffect:
        return AdjustedEffect(adjust=(), why=why, sites=self._sites)

    def _effect(self, contrasts: list[Contrast], **more: Any) -> AdjustedEffect:
        cohort = self.facts.present.n_sites
        if self._sites < cohort:
            said = (
                f"{cohort - self._sites} of {cohort} sites are left out, as they have "
                f"{self._lacking}: the effect is that over the rows of the others."
            )
            more["doubts"] = (said, *more["doubts"])
        return AdjustedEffect(adjust=(), sites=self._sites, contrasts=tuple(contrasts), **more)

    def _all_coefficients(self) -> bytes:
        return pack_floats(
            np.concatenate([np.zeros(0), *(f.coefficients for f in self.fits.values())])
        )

    def _outcome_scale(self) -> tuple[float, float]:
        """The outcome's unit and origin; -1 and 1 turn the second category's share p into 1 - p."""
        question, outcome = self.question, self.question.outcome
        if self.first:
            return -1.0, 1.0
        unit = math.ldexp(1.0, int(question.unit_array()[outcome]))
        return unit, float(question.origin_array()[outcome])

    def _effect_scale(self) -> float:
        return math.ldexp(-1.0 if self.first else 1.0, self.question.effect_unit)

    def _doubts(self, arms: Arms) -> Iterator[str]:
        yield from self._of_models()
        share = float(arms.estimates.divisors.min()) / max(float(arms.rows.sum()), 1.0)
        if self.question.stratified and share < 1.0 - LEAST_LEFT_OUT:
            yield (
                f"{1.0 - share:.0%} of the rows are in strata in which their site has not every "
                "arm, and are left out: the effect is that over the others."
            )
        counts = arms.overlap
        if counts.size:
            extreme = [counts[..., :EXTREME].sum(), counts[..., -EXTREME:].sum()]
            share = sum(extreme) / max(counts.sum(), 1.0)
            if share > DOUBTFUL:
                yield (
                    f"{share:.0%} of the rows have a propensity below 0.05 or above 0.95: in them "
                    "one arm has hardly any row to learn from."
                )
        for a, (rows, effective) in enumerate(zip(arms.rows, arms.effective, strict=True)):
            if 0.0 < effective < DOUBTFUL * rows:
                yield (
                    f"Few rows of arm {a + 1} have nearly all the weight: {rows:.0f} rows are "
                    f"worth {effective:.0f}."
                )

    def _of_models(self) -> Iterator[str]:
        for model, fit in self.fits.items():
            whose = f"the outcome in arm {model + 1}" if self.question.arms > 1 else "the outcome"
            whose = "the treatment" if model == TREATMENT else whose
            if not fit.determined:
                yield (
                    f"The model of {whose} has {len(fit.coefficients)} coefficients, of which the "
                    f"rows determine {fit.rank}: what it says of other rows is a guess, unless two "
                    "variables say the same."
                )
            if fit.limiting_rows < FEWEST_PER_COEFFICIENT * len(fit.coefficients):
                yield f"The model of {whose} has few rows for {len(fit.coefficients)} coefficients."


def _whole(counts: FloatVector) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(map(tuple, by_arm)) for by_arm in counts.astype(int).tolist())
