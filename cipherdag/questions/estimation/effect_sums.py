"""Estimating equations of a treatment effect, summed over the rows of all sites.

Every estimator is an M-estimator, the root of stacked estimating functions: the scores of the
models of treatment and outcome, then the functions of the arm means or of the coefficients that are
wanted. Its sandwich variance is the sum of squared influence functions. All of these are sums over
rows, so they add up over sites.

Source: Stefanski and Boos, The American Statistician 56 (2002) 29-38.
"""

import math
from typing import Literal, Self

import msgspec
import numpy as np

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.disclosure import Quantity, once_more, sums
from cipherdag.questions.encodings import Encoding, OnScales, moment_encoding, unpack_floats
from cipherdag.questions.estimation.effect_stages import (
    STAGES,
    ArmMeans,
    Contribution,
    Missing,
    ModelSteps,
    PerSite,
    Stage,
    Variance,
)
from cipherdag.questions.pooled_data import check_categories
from cipherdag.questions.question import Question
from cipherdag.questions.regression_steps import values_per_step
from cipherdag.statistics.regression_models import PROPENSITY_EDGES, Regression, coefficient_count

Estimator = Literal["regression", "ipw", "aipw", "linear", "standardise"]
Refutation = Literal["", "placebo", "random-cause", "subset"]

TRUNCATIONS = (0.0001, 0.001, 0.01, 0.05, 0.1)
"""The permitted truncations of propensities.

They are few, since two runs at nearly equal ones could differ by a single row, and so disclose it.
"""
MOST_CELLS = 1 << 16
TREATMENT = -1
"""Number of the treatment's model; a model of the outcome has the number of its arm."""
FOLDS = 5  # random folds of a site's rows, of which a refutation leaves out one at a time
MARKS = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Of a number, in common units from its common origin: rows below are compared with a model."""
PER_ARM = 5
"""Sums of an arm before derivatives: rows, numerator, denominator, weights, squared weights."""
_REFUTED: dict[Refutation, str] = {
    "": "",
    "placebo": " of a placebo",
    "random-cause": " and for a random cause",
    "subset": " without a part of the rows",
}
_CHANGED: dict[Refutation, tuple[Quantity, ...]] = {
    "": (),
    "placebo": (Quantity.CHANGED,),
    "random-cause": (Quantity.CHANGED,),
    "subset": (Quantity.FOLDS,),
}


class EffectSums(OnScales, Question, frozen=True, tag="effect-sums"):
    """Asks for sums of the estimating functions of a treatment effect.

    Only rows without a gap in treatment, outcome, ``adjust`` and ``complete_in`` count. The arms
    are the treatment's categories, and the outcome has one model per arm. The predictors of a row
    are 1 and the adjustment set: numbers in the common unit, and an indicator of every category
    but 0. ``linear`` has one model instead, number 0, with the treatment likewise as the last
    predictor. Models are logistic for two categories of the response, multinomial for more (of
    treatments only), else linear. An answer holds the sums of its `Stage`, then indicators: whether
    the site contributes, and whether it has rows of each arm.

    The mean of an arm is sum (m + w (y - m)) / sum d over rows, with m the fitted outcome and w 1
    over the propensity in the arm's rows and 0 elsewhere: ``aipw`` has both and d = 1, the
    g-formula ``regression`` w = 0 and d = 1, Hajek's ``ipw`` m = 0 and d = w. Propensities are
    truncated to ``truncate`` from 0 and 1. ``standardise`` has no models, but the strata of the
    adjustment set at the site: m is the mean of the arm in the row's stratum, w in the arm's rows
    the stratum's rows over those of the arm in it, and d = 1; all are 0 in strata without some arm.

    With ``site_effect`` every model has intercepts per site (fixed effects). The site profiles them
    out of steps and derivatives and adds them to fitted outcomes and propensities; their positions
    in coefficients and derivatives stay empty. A site with 15 rows per coefficient, of the rarest
    response, fits a model of an arm or of the treatment on its rows alone. That fit takes the place
    of the shared one in all stages but `ModelSteps`, where the site still adds to the shared fit
    for the other sites. A site that lacks rows of some arm does not contribute.

    A site does not contribute where the table of all discrete variables named, and of numbers with
    few values that repeat, has a nonzero count below its ``min_cell_size``. In the bins of an arm
    it suppresses such counts, and the smallest other one, too, where those are of too few rows
    together: their number is the arm's, which is opened, less the other bins.

    To refute an effect, a site changes its rows by random numbers that follow from all its rows and
    its key: nobody else can foretell the change, and another run repeats it. ``placebo`` permutes
    the treatment; ``random-cause`` adds a last column of standard normal numbers, which the study
    lacks; ``subset`` leaves out one of `FOLDS` random folds, and the site then has rows of an arm
    only if every fold has. Where numbers are named, the rule on counts holds for the permuted
    treatment and every fold, too, and each arm in each fold needs four rows per coefficient of the
    largest model. Categories alone need no such rule: a random change of their table adds nothing.

    Leaks:
        No row's weight or propensity is opened. With discrete variables, the steps without
        ``site_effect`` add up to the table of them all. A site that restricts small counts perturbs
        its effect first, by up to a quarter of its standard error. Counts of propensities given two
        sets may differ by single rows. By subtraction ``subset`` tells of every fifth of the rows.
    """

    discloses = (
        *sums(Quantity.SITES, Quantity.PROPENSITIES, Quantity.SCORES),
        *(each for stage in STAGES for each in stage.opens),
        *once_more(Quantity.CHANGED, Quantity.FOLDS),
    )
    countable = True
    by_patient = True
    opt_in = True
    keeps_count = True

    # number of categories of every variable, 0 for a continuous one, shape (p,)
    categories: tuple[int, ...]
    origins: bytes  # packed 64-bit floats: what is taken off each continuous column, shape (p,)
    units: bytes  # packed binary exponents that it is then divided by, shape (p,)
    treatment: int  # position
    outcome: int  # position, of numbers or of two categories
    adjust: tuple[int, ...] = ()  # positions of the adjustment set, ascending
    # further variables that decide which rows and sites count, ascending, so that questions of one
    # run are all of the same rows
    complete_in: tuple[int, ...] = ()
    estimator: Estimator = "aipw"  # how the effect is estimated
    truncate: float = 0.01  # least propensity
    # whether every site has intercepts of its own. If it restricts small counts it then weighs
    # every row by 0.9 to 1.1, by chance, since exact sums of categories within three sites tell
    # every site's counts.
    site_effect: bool = True
    max_rows: int = 1 << 20  # declared bound of a site's rows
    refutation: Refutation = ""  # how a site changes its rows; empty: not at all
    fold: int = 0  # which fold is left out, from 0
    stage: Stage = Contribution()  # what is asked

    def __post_init__(self) -> None:
        p = len(self.categories)
        check_categories(self.categories, self.max_rows)
        fits = len(self.origins) == len(self.units) == 8 * p
        _require(fits, "origins or units do not have the length of the study")
        self.check_scales()
        others = len({*self.named}) == len(self.named) and all(0 <= v < p for v in self.named)
        _require(others, "treatment, outcome and what is adjusted for must be other variables")
        for names in (self.adjust, self.complete_in):
            _require([*names] == sorted(names), "what is adjusted for must ascend")
        arms, values = self.categories[self.treatment], self.categories[self.outcome]
        _require(self.linear or arms > 0, "a treatment with arms must have categories")
        _require(values in (0, 1, 2), "an outcome must be a number or have two categories")
        _require(self.truncate in TRUNCATIONS, "the least propensity must be one of a few")
        if self.stratified:
            sides = [self.categories[v] for v in self.adjust]
            _require(all(sides), "strata are of categories")
            most = f"there must be at most {MOST_CELLS} strata and arms"
            _require(math.prod((*sides, self.arms)) <= MOST_CELLS, most)
            _require(self.site_effect, "strata are those of each site")
        self._check_refutation()
        self._check_stage()
        values = sum(map(values_per_step, map(self.size, self.needed)))
        _require(values <= 1 << 24, "the models have too many coefficients")

    def _check_refutation(self) -> None:
        unchanged = not (self.refutation and self.stage.per_part)
        _require(unchanged, "sites' own estimates are of their rows as they are")
        folds, last = FOLDS if self.refutation == "subset" else 1, len(self.categories) - 1
        said = f"there are {FOLDS} folds, and they are of rows that are dealt"
        _require(0 <= self.fold < folds, said)
        if self.refutation == "random-cause":
            added = last in self.adjust and not self.categories[last]
            _require(added, "a random cause is the last column, of numbers, and adjusted for")

    def _check_stage(self) -> None:
        stage, every = self.stage, sum(map(self.size, self.needed))
        if isinstance(stage, ModelSteps):
            ascend = {*stage.models} <= {*self.needed} and [*stage.models] == sorted(stage.models)
            _require(ascend, f"models must ascend and be among {(TREATMENT, *range(self.arms))}")
            _check_numbers(stage.coefficients, sum(map(self.size, stage.models)))
        elif isinstance(stage, ArmMeans | Variance):
            _check_numbers(stage.coefficients, every)
        if isinstance(stage, Variance):
            square = self.size(0) ** 2 if self.of_outcome else 0
            _check_numbers(stage.influence, self.estimates * self._influences)
            _check_numbers(stage.inverses, len(self.of_outcome) * square)
        if isinstance(stage, PerSite):
            _require(0 <= stage.reference < self.arms, "a reference is a category")

    @property
    def linear(self) -> bool:
        """Whether the effect is read off the treatment's coefficients in one linear model."""
        return self.estimator == "linear"

    @property
    def stratified(self) -> bool:
        """Whether means are taken stratum by stratum."""
        return self.estimator == "standardise"

    @property
    def arms(self) -> int:
        """Number of treatment arms; 1 if the treatment is continuous."""
        return max(self.categories[self.treatment], 1)

    @property
    def contrasts(self) -> int:
        return max(self.arms - 1, 1)

    @property
    def estimates(self) -> int:
        """How many means or coefficients are estimated."""
        return self.contrasts if self.linear else self.arms

    @property
    def effect_unit(self) -> int:
        """Binary exponent of the effect's unit: outcome unit over treatment unit."""
        units = self.unit_array()
        return int(units[self.outcome] - units[self.treatment])

    @property
    def needed(self) -> tuple[int, ...]:
        """The models that the estimator needs."""
        outcomes = (0,) if self.linear else tuple(range(self.arms))
        weighted = (TREATMENT,) * (self.estimator in ("ipw", "aipw"))
        return weighted + outcomes * (self.estimator not in ("ipw", "standardise"))

    @property
    def of_outcome(self) -> tuple[int, ...]:
        return tuple(model for model in self.needed if model != TREATMENT)

    @property
    def named(self) -> tuple[int, ...]:
        """All variables of the question, ascending."""
        return tuple(sorted((self.treatment, self.outcome, *self.adjust, *self.complete_in)))

    @property
    def counted_as(self) -> Self:
        """The same question at the stage `Contribution`.

        Which sites contribute is counted once for every stage that sums over all rows; a stage of
        separate parts is counted by itself.
        """
        if self.stage.per_part:
            return self
        return msgspec.structs.replace(self, stage=Contribution())

    def regression(self, model: int) -> Regression:
        """The model's response and predictors, as in `RegressionSteps`.

        Unless the effect is linear, an outcome model uses only the rows of its arm.
        """
        if self.linear:
            return Regression(self.outcome, (*self.adjust, self.treatment))
        return Regression(self.treatment if model == TREATMENT else self.outcome, self.adjust)

    def outputs(self, model: int) -> int:
        """Number of linear predictors of a model."""
        return self.arms - 1 if model == TREATMENT else 1

    def size(self, model: int) -> int:
        """Number of coefficients of a model."""
        categories = [*self.categories]
        if self.linear:
            categories[self.outcome] = 0
        return coefficient_count(self.regression(model), categories)

    def by_model(self) -> dict[int, FloatVector]:
        """The coefficients of every model whose coefficients this stage carries."""
        stage = self.stage
        if not isinstance(stage, ModelSteps | ArmMeans | Variance):
            return {}
        models = stage.models if isinstance(stage, ModelSteps) else self.needed
        ends = np.cumsum([self.size(model) for model in models])
        parts = np.split(unpack_floats(stage.coefficients), ends[:-1])
        return dict(zip(models, parts, strict=False))

    @property
    def _influences(self) -> int:
        """How many numbers describe one estimate's influence function.

        They are a factor of the denominator, which a linear effect lacks, and one weight per score.
        """
        return self.size(0) if self.linear else 1 + sum(self.derivatives)

    def influences(self) -> FloatVector:
        """The influence in the stage `Variance`, shape (estimates, numbers)."""
        assert isinstance(self.stage, Variance), "no other stage has influence functions"
        return unpack_floats(self.stage.influence).reshape(self.estimates, -1)

    def inverse(self, model: int) -> FloatVector:
        """The inverse of minus a Hessian of the outcome in the stage `Variance`, (m, m)."""
        assert isinstance(self.stage, Variance), "no other stage has inverses"
        size = self.size(model)
        return unpack_floats(self.stage.inverses).reshape(-1, size, size)[
            self.of_outcome.index(model)
        ]

    @property
    def derivatives(self) -> tuple[int, int]:
        """How many derivatives an arm's sum has.

        By the outcome model's coefficients, and by the treatment model's.
        """
        outcome, treatment = (self.size(m) * (m in self.needed) for m in (0, TREATMENT))
        return outcome, treatment

    @property
    def bins(self) -> tuple[int, int, int]:
        """Shape of the propensity counts, (arms - 1, arms, bins).

        There are 0 bins where they are not asked for, or no propensities are estimated.
        """
        counted = isinstance(self.stage, ArmMeans) and self.stage.overlap
        counted = counted and TREATMENT in self.needed
        return self.arms - 1, self.arms, len(PROPENSITY_EDGES) if counted else 0

    @property
    def compared(self) -> tuple[int, int, int]:
        """Shape of scores of the treatment's model, (arms - 1, numbers, marks and a square)."""
        numbers = sum(not self.categories[v] for v in self.adjust)
        return self.arms - 1, numbers, len(MARKS) + 1 if self.bins[-1] else 0

    @property
    def label(self) -> str:
        said = self.stage.label
        if isinstance(self.stage, ModelSteps):
            count = len(self.stage.models)
            said = f"a step of {count} model{'s' if count > 1 else ''}"
        return f"{said} for an effect{_REFUTED[self.refutation]}"

    @property
    def _sums(self) -> int:
        match self.stage:
            case ModelSteps(models=models):
                return sum(values_per_step(self.size(model)) for model in models)
            case ArmMeans():
                outcome, treatment = self.derivatives
                return self.arms * (PER_ARM + outcome + 2 * treatment)
            case Variance():
                return values_per_step(self.estimates) - 1
        return 3 * self._parts if self.stage.per_part else 0

    @property
    def _parts(self) -> int:
        """Number of indicators: one per part, or one for the site and one per arm."""
        per_part = {PerSite: self.contrasts, Missing: 2}
        return per_part.get(type(self.stage), 1 + self.arms)

    def fits(self, categories: tuple[int, ...], ordered: tuple[int, ...]) -> bool:
        del ordered
        study = self.categories[:-1] if self.refutation == "random-cause" else self.categories
        return study == categories

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Sums on the grid that `Moments` has, counts, and indicators of contribution."""
        opened = (*self.stage.opens, *once_more(*_CHANGED[self.refutation]))
        rows, scores = self.max_rows, 2 * math.prod(self.compared)
        return (
            moment_encoding(self._sums, rows, opened),
            Encoding(math.prod(self.bins), float(rows), sums(Quantity.PROPENSITIES)),
            moment_encoding(scores, rows, sums(Quantity.SCORES)),
            Encoding(self._parts, 1.0, sums(Quantity.SITES)),
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        """All values, if enough sites contribute and have rows of every arm."""
        if self.stage.per_part:
            return np.tile(parts, 4)
        return np.full(self.n_values, bool(parts.all()))


def _check_numbers(numbers: bytes, length: int) -> None:
    fits = len(numbers) == 8 * length
    _require(fits, "the packed coefficients do not have the length of the models")
    _require(bool(np.isfinite(unpack_floats(numbers)).all()), "coefficients must be finite")


def _require(holds: bool, said: str) -> None:
    if not holds:
        raise ValueError(said)
