"""Questions about Cox models: steps, how sites and patients differ, and sums over risk sets."""

from collections.abc import Sequence

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.disclosure import Quantity, coarse, sums
from cipherdag.questions.encodings import Encoding, OnScales, moment_encoding, unpack_floats
from cipherdag.questions.estimation.survival import InBins, Survived
from cipherdag.questions.question import PARTS_COUNTED, Question
from cipherdag.questions.regression_steps import values_per_step

MOST_COLUMNS = 256
LARGEST_COEFFICIENT = 64.0
"""Bound of a log hazard ratio per common unit: exp(64) is more than any report can show."""


class HazardSteps(OnScales, Survived, frozen=True, kw_only=True, tag="hazard-steps"):
    """Asks for the partial likelihood of a Cox model, its gradient and Hessian at coefficients.

    A row's hazard is that of its site times the exponential of a linear combination: of continuous
    predictors in common units from common origins, and of an indicator of every category but 0 of a
    discrete one. The site's own hazard is any function of time. With m coefficients the answer has
    the logarithm of the site's partial likelihood, its gradient, and minus its Hessian's upper
    triangle by rows, at the site's own times and not in bins; whether the site tells them; and then
    whether it has rows of every category of the predictors, and of every two, an upper triangle by
    rows: what a site alone has, gradient and Hessian tell of it alone.

    A site that restricts small counts tells nothing where a table of two among the event, whose
    counts by category the gradient has, and discrete predictors, whose counts the Hessian is made
    of, has a count below its ``min_cell_size``, but for 0. Numbers of few values that repeat are
    discrete there. Of times that are so, that holds of the joint table of all of them.

    A site whose rows are visits counts patients, and tells nothing of fewer than 11 more than there
    are coefficients. With ``of_patients`` the answer has, in place of a step, the upper triangle of
    the sum over n patients of products of what each one's rows add to the gradient; those of
    several rows times n / (n - 1).

    With ``by_site`` the answer has, of each coefficient and then of its change from the first event
    to the last, what one Newton step over the site's rows alone makes of it: 1 over the variance,
    that times the step, and times its square; and whether the site has events enough to tell.
    Variances are by patient where these have several rows. A site that restricts small counts
    perturbs steps by up to a quarter of their standard error.
    """

    discloses = (
        *sums(Quantity.HAZARDS, Quantity.SPREAD, Quantity.SITES),
        *coarse(Quantity.SITE_EFFECTS),
    )
    countable = True
    opt_in = True
    indivisible = True
    by_patient = True

    predictors: tuple[int, ...]  # positions, in the order of the coefficients
    origins: bytes  # packed 64-bit floats: taken off each predictor; not used of a discrete one
    units: bytes  # packed binary exponents that it is then divided by, likewise
    coefficients: bytes  # packed 64-bit floats
    efron: bool = True  # whether ties are taken as Efron does, or as Breslow
    by_site: bool = False  # whether sites' coefficients are compared, and no step is asked for
    of_patients: bool = False  # whether products of patients' parts are asked for, and no step

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_site and self.of_patients:
            raise ValueError("sites are compared, or patients, and not both")
        if len({*self.predictors}) != len(self.predictors) or not self.predictors:
            raise ValueError("a model has predictors, each once")
        if not {*self.predictors} <= {*self.complete_in}:
            raise ValueError("predictors must leave rows out, too")
        if not len(self.origins) == len(self.units) == 8 * len(self.predictors):
            raise ValueError("origins and units must be as many as predictors")
        self.check_scales()
        if not 1 <= self.n_columns <= MOST_COLUMNS:
            raise ValueError(f"a model must have 1 to {MOST_COLUMNS} coefficients")
        if len(self.coefficients) != 8 * self.n_columns:
            raise ValueError("there must be one coefficient for every column")
        if not (abs(self.coefficient_array()) <= LARGEST_COEFFICIENT).all():
            raise ValueError(f"coefficients must lie within {LARGEST_COEFFICIENT:g}")

    @property
    def n_columns(self) -> int:
        """How many coefficients there are, m."""
        return column_count(self.predictors, self.categories)

    def coefficient_array(self) -> FloatVector:
        """The coefficients, shape (m,)."""
        return unpack_floats(self.coefficients)

    @property
    def label(self) -> str:
        whose = "sites'" if self.by_site else "patients'"
        what = f"{whose} parts" if self.by_site or self.of_patients else "a step"
        return f"{what} of a Cox model of {self.n_columns} coefficients"

    @property
    def recorded_as(self) -> frozenset[str]:
        return frozenset({PARTS_COUNTED}) if self.of_patients else self.tags

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        m = self.n_columns
        if self.by_site:
            of_each = moment_encoding(6 * m, self.max_rows, coarse(Quantity.SITE_EFFECTS))
            return of_each, Encoding(2 * m, 1.0, sums(Quantity.SITES))
        length, opened = values_per_step(m), sums(Quantity.HAZARDS)
        if self.of_patients:
            length, opened = length - m - 1, sums(Quantity.SPREAD)
        return moment_encoding(length, self.max_rows, opened), self.contribution

    @property
    def indicated(self) -> tuple[tuple[int, int], ...]:
        """Position and code of every category of every predictor with at least two categories."""
        discrete = [v for v in self.predictors if self.categories[v] > 1]
        return tuple((v, code) for v in discrete for code in range(self.categories[v]))

    @property
    def contribution(self) -> Encoding:
        """Indicators of contribution.

        They say whether the site contributes, and whether it has rows in each category and in each
        pair of categories.
        """
        count = len(self.indicated)
        length = 1 + count * (count + 1) // 2
        return Encoding(length, 1.0, sums(Quantity.SITES))

    def value_mask(self, parts: BoolVector) -> BoolVector:
        return np.tile(parts, 4) if self.by_site else np.full(self.n_values, bool(parts[0]))


class HazardSums(InBins, Question, frozen=True, tag="hazard-sums"):
    """Asks for the sums over risk sets, bin by bin, of the partial likelihood of all sites' rows.

    The hazard is one function of time for all sites; times are those of their bins, as in
    `SurvivalCounts`. The answer has, bin by bin, the events; of each predictor's column the sum
    over all events; then bin by bin, with w the exponential of a row's linear combination and x its
    columns, the sums of w, of w x, and of w x x' (upper triangle by rows) over the rows at risk,
    and the same over the rows with the event there; and what `HazardSteps` has of the categories.

    A site that restricts small counts tells nothing: from the sums of adjacent bins follow those of
    the rows that end between them, category by category.

    Leaks:
        Of the rows that end in each bin it follows how many have each category of each predictor,
        means and squares of numbers, and, as coefficients move, about how they are distributed; of
        few rows, each one's values.
    """

    discloses = sums(Quantity.EVENTS, Quantity.RISK_SETS, Quantity.SITES)
    countable = True
    opt_in = True
    indivisible = True

    model: HazardSteps  # the rows, predictors and coefficients
    edges: bytes  # packed 64-bit floats above 0, ascending

    def __post_init__(self) -> None:
        self.check_edges()

    def fits(self, categories: tuple[int, ...], ordered: tuple[int, ...]) -> bool:
        return self.model.fits(categories, ordered)

    @property
    def label(self) -> str:
        return f"{self.model.label}, in {self.n_bins} bins"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """Event counts by bin, sums of the model, and indicators of contribution.

        The sums are the predictors' sums over events, and sums by bin over risk sets and events.
        """
        bins, columns, rows = self.n_bins, self.model.n_columns, self.model.max_rows
        length = columns + 2 * bins * values_per_step(columns)
        return (
            Encoding(bins, float(rows), sums(Quantity.EVENTS)),
            moment_encoding(length, rows, sums(Quantity.RISK_SETS)),
            self.model.contribution,
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        return np.full(self.n_values, bool(parts[0]))


def column_count(predictors: Sequence[int], categories: Sequence[int]) -> int:
    """Number of coefficients of a Cox model, which has no constant."""
    return sum(max(categories[v] - 1, 0) if categories[v] else 1 for v in predictors)
