"""What a coordinator asks to estimate the effect of a treatment: sums of estimating functions.

An estimator is a root of estimating functions stacked upon each other: the scores of the models
of treatment and outcome, then the functions of the means or coefficients that are wanted. Its
variance is the sum of squares of what one row moves it by (Stefanski and Boos, The American
Statistician 56 (2002) 29-38). All of these are sums over rows, so they add up over sites.

Leaks:
    Every site and whoever carries the messages see treatment, outcome and what is adjusted for, by
    position, and the coefficients so far. The coordinator sees the sums that `EffectSums` lists.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self

import msgspec
import numpy as np

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.encodings import Encoding
from cipherdag.questions.pooled_data import (
    LARGEST_DEVIATION,
    MOMENT_BITS,
    OnScales,
    check_categories,
)
from cipherdag.questions.regression_steps import step_length
from cipherdag.statistics.regression_models import Regression, coefficient_count

Estimator = Literal["regression", "ipw", "aipw", "linear", "standardise"]
Stage = Literal["rows", "models", "means", "spread", "apart", "missing"]
Drawn = Literal["", "placebo", "cause", "part"]

OVERLAP = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Where the bins of propensities begin; the last one ends at 1."""
TRUNCATIONS = (0.0001, 0.001, 0.01, 0.05, 0.1)
"""The least propensities: of two runs that differ in them a little, the difference is one row."""
MOST_CELLS = 1 << 16
TREATMENT = -1
"""The model of the treatment; those of the outcome have the number of their arm."""
PARTS = 5
"""Into how many parts a site deals its rows to leave out one at a time."""
PER_ARM = 5
"""Sums of an arm beside derivatives: rows, numerator, denominator, weights and their squares."""
_CHANGED: dict[Drawn, str] = {
    "": "",
    "placebo": " of a placebo",
    "cause": " beside a random cause",
    "part": " without a part of the rows",
}


class EffectSums(OnScales, msgspec.Struct, frozen=True, forbid_unknown_fields=True,
                 tag="effect-sums"):  # fmt: skip
    """What do the rows say of the effect of a treatment, given these coefficients?

    All rows complete in treatment, outcome, what is adjusted for and ``beside`` count. The arms are
    the treatment's categories. A row's design has 1, then per variable that is adjusted for a
    number in the common unit, or an indicator of every category but 0; for ``linear``, whose one
    model has the number 0, the treatment comes last, likewise. Models are logistic where the
    response has two categories, multinomial for more (treatments alone), and linear otherwise; the
    outcome has a model of its own in every arm. The answer has, by stage:

    - ``rows``: nothing;
    - ``models``: what `RegressionSteps` has of the models named, ``linear`` on numbers throughout;
    - ``means``: arm by arm its rows; the sums of numerators and denominators whose ratio is the
      mean of the arm; the weights and their squares; the derivatives of the numerators by the
      coefficients of the arm's outcome, of numerators and of denominators by those of the
      treatment; then how many rows of every arm have a propensity in each bin of `OVERLAP`, for
      every category of the treatment but 0;
    - ``spread``: of every row what it moves the estimates by, summed, and the sums of squares and
      products, the upper triangle by rows;
    - ``apart``: per category of the treatment but the reference, or of a number once, of what the
      site's own rows tell alone: 1 over its variance, that times the effect, and times its square;
      then whether they tell it;
    - ``missing``: of the treatment, then the outcome, in the rows that have it: how far its sum
      over rows that do not count is from that of as many drawn by chance; its variance if they
      were; how many rows; and whether the site tells that, which needs rows of both kinds, and if
      it restricts small counts enough in every category: it then moves its sum first;
    and in every other stage, whether the site tells anything, and whether it has rows of each arm.
    A row's numerator and denominator are the fitted outcome and 1 (``regression``); w y and w,
    where w is 1 over the propensity of the arm in the arm's rows and 0 elsewhere (``ipw``); the
    fitted outcome plus w times the residual, and 1 (``aipw``). Propensities are kept off 0 and 1 by
    ``truncate``. ``standardise`` has no models: a row's fitted outcome is the mean of the arm in
    its site's rows with the same categories of what is adjusted for, w how many times these are the
    arm's; numerator and denominator are 0 where not every arm has such rows.

    With ``site_effect`` every model has constants of each site's own, which the site takes out
    of steps and derivatives and puts into fitted outcomes and propensities; the constants' places
    in coefficients and derivatives are then empty. A site without rows of every arm tells nothing.

    A site tells nothing where the table of all discrete variables named has a count below its
    ``min_cell_size`` but 0; and of the bins of an arm it leaves out such counts, with the smallest
    of the others where these rows are too few together, since the rows of an arm are told.

    To doubt an effect, a site changes its rows before it answers, by numbers that follow from all
    of them and its key, so that nobody else can tell how, and another run changes them alike: with
    ``placebo`` it deals the treatment out anew; with ``cause`` it adds a column of standard normal
    numbers, which the question has as one more than the study; with ``part`` it leaves out one of
    `PARTS` parts, drawn row by row. It then has rows of an arm if every part does. Where numbers
    are named, the rule on counts holds of the treatment dealt, and of every part, and each arm in
    each part has four rows per coefficient of the largest model. Of categories alone what chance
    makes of their table says nothing that the table does not.

    Leaks:
        The coordinator learns these sums over the sites: models of treatment and outcome, means of
        the arms, and counts of propensities. With discrete variables, the steps without
        ``site_effect`` add up to the table of them all. How widely the sites' own
        effects scatter, not whose lies where; a site that restricts small counts moves its own
        first, by up to a quarter of its standard error. Counts of propensities given
        two sets may differ by single rows. No row's weight or propensity. With ``part`` all of this
        but counts of propensities of four fifths of the rows, and by subtraction of every fifth;
        which rows these are, only the site knows.

    Attributes:
        categories: Number of categories of every variable, 0 for a continuous one, shape (p,).
        origins: Packed 64-bit floats: what is taken off each continuous column, shape (p,).
        units: Packed binary exponents that it is then divided by, shape (p,).
        treatment: Position.
        outcome: Position, of numbers or of two categories.
        adjust: Positions of what is adjusted for, ascending.
        beside: Further variables that decide which rows and sites count, ascending, so that
            questions of one run are all of the same rows.
        estimator: How the effect is estimated.
        stage: What is asked.
        models: In the stage ``models`` those that are stepped, ascending.
        coefficients: Packed 64-bit floats: of these models, or in later stages of all.
        influence: Packed 64-bit floats, in the stage ``spread``: per estimate what is taken off its
            numerator per denominator, and the weights of the scores of the arm's outcome and of
            the treatment; of ``linear`` the weights of its model's scores.
        inverses: Packed 64-bit floats, in the stage ``spread``: the inverse of minus the Hessian of
            each model of the outcome, by which a row's leverage is known.
        truncate: Least propensity.
        site_effect: Whether every site has constants of its own. If it restricts small counts it
            then weighs every row by 0.9 to 1.1, by chance, since exact sums of categories within
            three sites tell every site's counts.
        against: In the stage ``apart`` the category that others are compared with.
        max_rows: Declared bound of a site's rows.
        drawn: How a site changes its rows; empty: not at all.
        part: Which part is left out, from 0.
        overlap: Whether propensities are counted.
    """

    leaves: ClassVar[str] = "estimating functions of a treatment's effect"

    categories: tuple[int, ...]
    origins: bytes
    units: bytes
    treatment: int
    outcome: int
    adjust: tuple[int, ...] = ()
    beside: tuple[int, ...] = ()
    estimator: Estimator = "aipw"
    stage: Stage = "rows"
    models: tuple[int, ...] = ()
    coefficients: bytes = b""
    influence: bytes = b""
    inverses: bytes = b""
    truncate: float = 0.01
    site_effect: bool = True
    against: int = 0
    max_rows: int = 1 << 20
    drawn: Drawn = ""
    part: int = 0
    overlap: bool = True

    def __post_init__(self) -> None:
        p = len(self.categories)
        check_categories(self.categories, self.max_rows)
        if not len(self.origins) == len(self.units) == 8 * p:
            raise ValueError("origins or units do not have the length of the study")
        self.check_scales()
        named = (self.treatment, self.outcome, *self.adjust, *self.beside)
        if len(set(named)) < len(named) or not all(0 <= v < p for v in named):
            raise ValueError("treatment, outcome and what is adjusted for must be other variables")
        if any(list(own) != sorted(own) for own in (self.adjust, self.beside)):
            raise ValueError("what is adjusted for must ascend")
        if not self.linear and self.categories[self.treatment] == 0:
            raise ValueError("a treatment with arms must have categories")
        if self.categories[self.outcome] > 2:  # noqa: PLR2004
            raise ValueError("an outcome must be a number or have two categories")
        if self.truncate not in TRUNCATIONS:
            raise ValueError("the least propensity must be one of a few")
        self._check_stage()
        self._check_drawn()
        self._check_numbers()

    def _check_stage(self) -> None:
        if self.stratified and not all(self.categories[v] for v in self.adjust):
            raise ValueError("strata are of categories")
        cells = math.prod((*(self.categories[v] for v in self.adjust), self.arms))
        if self.stratified and cells > MOST_CELLS:
            raise ValueError(f"there must be at most {MOST_CELLS} strata and arms")
        if self.stratified and not self.site_effect:
            raise ValueError("strata are those of each site")
        if not 0 <= self.against < self.arms:
            raise ValueError("a reference is a category")

    def _check_drawn(self) -> None:
        if self.drawn and self.by_part:
            raise ValueError("sites' own estimates are of their rows as they are")
        if not 0 <= self.part < (PARTS if self.drawn == "part" else 1):
            raise ValueError(f"there are {PARTS} parts, and they are of rows that are dealt")
        last = len(self.categories) - 1
        if self.drawn == "cause" and (last not in self.adjust or self.categories[last]):
            raise ValueError("a random cause is the last column, of numbers, and adjusted for")

    def _check_numbers(self) -> None:
        known = (TREATMENT, *range(self.arms))
        if not set(self.models) <= set(self.needed) or list(self.models) != sorted(self.models):
            raise ValueError(f"models must ascend and be among {known}")
        sizes = {"rows": 0, "apart": 0, "missing": 0, "models": sum(map(self.size, self.models))}
        whole = sizes.get(self.stage, sum(map(self.size, self.needed)))
        influence = self.estimates * self._influenced if self.stage == "spread" else 0
        spread = self.stage == "spread"
        square = len(self.of_outcome) * self.size(0) ** 2 if spread and self.of_outcome else 0
        lengths = map(len, (self.coefficients, self.influence, self.inverses))
        if [*lengths] != [8 * whole, 8 * influence, 8 * square]:
            raise ValueError("the packed coefficients do not have the length of the models")
        numbers = map(_unpacked, (self.coefficients, self.influence, self.inverses))
        if not all(np.isfinite(own).all() for own in numbers):
            raise ValueError("coefficients must be finite")
        if sum(map(step_length, map(self.size, self.needed))) > 1 << 24:
            raise ValueError("the models have too many coefficients")

    @property
    def by_part(self) -> bool:
        """Whether what a site tells of each part is counted by itself."""
        return self.stage in ("apart", "missing")

    @property
    def linear(self) -> bool:
        """Whether one linear model has the effect as its coefficients."""
        return self.estimator == "linear"

    @property
    def stratified(self) -> bool:
        """Whether means are taken stratum by stratum."""
        return self.estimator == "standardise"

    @property
    def arms(self) -> int:
        """Categories of the treatment; 1 of a number."""
        return max(self.categories[self.treatment], 1)

    @property
    def estimates(self) -> int:
        """How many means or coefficients are estimated."""
        return self.contrasts if self.linear else self.arms

    @property
    def contrasts(self) -> int:
        """How many effects there are."""
        return max(self.arms - 1, 1)

    @property
    def effect_unit(self) -> int:
        """The power of two that effects come in: of the outcome, per unit of a number."""
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
        """Those of the outcome."""
        return tuple(model for model in self.needed if model != TREATMENT)

    @property
    def named(self) -> tuple[int, ...]:
        """All variables of the question, ascending."""
        return tuple(sorted((self.treatment, self.outcome, *self.adjust, *self.beside)))

    @property
    def scope(self) -> Self:
        """The question of which sites add rows, the same in every stage of sums over all rows."""
        if self.by_part:
            return self
        return msgspec.structs.replace(
            self, stage="rows", models=(), coefficients=b"", influence=b"", inverses=b""
        )

    def regression(self, model: int) -> Regression:
        """A model as `RegressionSteps` has it, but for the rows of an arm."""
        if self.linear:
            return Regression(self.outcome, (*self.adjust, self.treatment))
        return Regression(self.treatment if model == TREATMENT else self.outcome, self.adjust)

    def outputs(self, model: int) -> int:
        """Linear combinations that a model has."""
        return self.arms - 1 if model == TREATMENT else 1

    def size(self, model: int) -> int:
        """Coefficients of a model."""
        own, categories = self.regression(model), list(self.categories)
        if self.linear:
            categories[self.outcome] = 0
        return coefficient_count(own, categories)

    def by_model(self) -> dict[int, FloatVector]:
        """The coefficients of every model that has some here."""
        models = self.models if self.stage == "models" else self.needed
        ends = np.cumsum([self.size(model) for model in models])
        parts = np.split(_unpacked(self.coefficients), ends[:-1])
        return dict(zip(models, parts, strict=False))

    @property
    def _influenced(self) -> int:
        """Numbers per estimate: what is taken off, and the weights of scores."""
        if self.linear:
            return self.size(0)
        outcome, treatment = (m in self.needed for m in (0, TREATMENT))
        return 1 + self.size(0) * outcome + self.size(TREATMENT) * treatment

    def influences(self) -> FloatVector:
        """The influence, shape (estimates, numbers)."""
        return _unpacked(self.influence).reshape(self.estimates, -1)

    def inverse(self, model: int) -> FloatVector:
        """The inverse of minus a Hessian of the outcome, shape (m, m)."""
        size = self.size(model)
        place = self.of_outcome.index(model) * size * size
        return _unpacked(self.inverses)[place : place + size * size].reshape(size, size)

    @property
    def derivatives(self) -> tuple[int, int]:
        """Sums of derivatives of an arm, by the outcome's and by the treatment's coefficients."""
        outcome = self.size(0) if 0 in self.needed else 0
        treatment = self.size(TREATMENT) if TREATMENT in self.needed else 0
        return outcome, 2 * treatment

    @property
    def bins(self) -> tuple[int, int, int]:
        """Shape of the counts: categories but 0, arms, bins; no bin without propensities."""
        counted = self.overlap and TREATMENT in self.needed
        return self.arms - 1, self.arms, len(OVERLAP) if counted else 0

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        said = {
            "rows": "rows",
            "models": f"a step of {len(self.models)} model{'s' if len(self.models) > 1 else ''}",
            "means": "means of the arms",
            "spread": "spread of the estimates",
            "apart": "the sites' own estimates",
            "missing": "rows left out",
        }[self.stage]
        return f"{said} for an effect{_CHANGED[self.drawn]}"

    @property
    def _lengths(self) -> tuple[int, int]:
        """How many sums, and how many counts."""
        if self.stage == "models":
            return sum(step_length(self.size(model)) for model in self.models), 0
        if self.stage == "means":
            return self.arms * (PER_ARM + sum(self.derivatives)), math.prod(self.bins)
        if self.stage == "apart":
            return 3 * self.contrasts, 0
        if self.stage == "missing":
            return 6, 0
        k = self.estimates if self.stage == "spread" else 0
        return k + k * (k + 1) // 2, 0

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Sums on the grid that `Moments` has, counts, and whether anything is told, arm by arm."""
        sums, counts = self._lengths
        bits = MOMENT_BITS - math.ceil(math.log2(self.max_rows))
        bound = float(self.max_rows) * LARGEST_DEVIATION**2
        return (
            Encoding(length=sums, bound=bound, resolution_bits=bits, signed=True),
            Encoding(length=counts, bound=float(self.max_rows)),
            Encoding(length=self._told, bound=1.0),
        )

    @property
    def _told(self) -> int:
        """How many things a site may have to tell of."""
        if self.stage == "apart":
            return self.contrasts
        return 2 if self.stage == "missing" else 1 + self.arms

    def where(self, chosen: BoolVector) -> BoolVector:
        """Which values are told: all, if enough sites tell something and have rows of every arm."""
        if self.by_part:
            return np.tile(chosen, 4)
        length = sum(encoding.length for encoding in self.encodings)
        return np.full(length, bool(chosen.all()))


def _unpacked(numbers: bytes) -> FloatVector:
    return np.frombuffer(numbers, dtype="<f8").astype(np.float64)
