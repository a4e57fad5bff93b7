"""Questions about times until an event: counts in public bins, and steps of Cox models."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.disclosure import Disclosure, Quantity, coarse, in_units, of_any, sums
from cipherdag.questions.encodings import (
    Encoding,
    OnScales,
    finest_grid,
    moment_encoding,
    unpack_floats,
)
from cipherdag.questions.pooled_data import check_categories
from cipherdag.questions.question import Question
from cipherdag.questions.regression_steps import values_per_step

MOST_BINS = 1024
MOST_GROUPS = 64
FEWEST_GROUPS = 2  # fewest groups that a log-rank test compares
MOST_COLUMNS = 256
LARGEST_COEFFICIENT = 64.0
"""Bound of a log hazard ratio per common unit: exp(64) is more than any report can show."""


class Survived(Question, frozen=True, kw_only=True):
    """Rows that are followed up until an event or until they are censored."""

    # number of categories of every variable, 0 for a continuous one, shape (p,)
    categories: tuple[int, ...]
    time: int  # position of the time until the event or the end of follow-up, a continuous variable
    event: int  # position of the variable of two categories that says which of the two it was
    code: int = 1  # which of these categories is the event, 0 or 1
    # further positions whose missing values leave a row out, ascending
    complete_in: tuple[int, ...] = ()
    max_rows: int = 1 << 20  # declared bound of a site's rows

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        p, others = len(self.categories), self.complete_in
        if not all(0 <= v < p for v in (self.time, self.event, *others)):
            raise ValueError("a position lies beyond the variables")
        if self.categories[self.time] or self.categories[self.event] != 2:  # noqa: PLR2004
            raise ValueError("times are numbers, and an event has two categories")
        if self.code not in (0, 1):
            raise ValueError("the event is category 0 or 1")
        if [*others] != sorted({*others} - {self.time, self.event}):
            raise ValueError("further variables must ascend, and be others")


class Grouped(Survived, frozen=True, kw_only=True):
    """Rows that are followed up, in groups, of which some are compared."""

    # position of the variable whose categories are the groups; -1 for one group of all
    by: int = -1
    compared: tuple[int, ...] = ()  # which groups the test compares, ascending; none for no test

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by != -1 and self.by not in self.complete_in:
            raise ValueError("the groups' variable must leave rows out, too")
        if not 1 <= self.n_groups <= MOST_GROUPS:
            raise ValueError(f"there are 1 to {MOST_GROUPS} groups")
        groups = {*range(self.n_groups)}
        if [*self.compared] != sorted({*self.compared} & groups):
            raise ValueError("groups that are compared must ascend, and be some of the groups")
        if 0 < len(self.compared) < FEWEST_GROUPS:
            raise ValueError("one group is compared with nothing")

    @property
    def n_groups(self) -> int:
        return 1 if self.by == -1 else self.categories[self.by]

    def tested(self, parts: BoolVector) -> bool:
        """Whether enough sites contribute to the test, the last part, and to all its groups."""
        return bool(parts[-1] and parts[list(self.compared)].all())


class _InBins:
    __slots__ = ()

    if TYPE_CHECKING:
        edges: bytes

    def check_edges(self) -> None:
        """Raise ValueError unless these are the packed upper edges of bins of time."""
        if len(self.edges) % 8 or not 1 <= self.n_bins <= MOST_BINS:
            raise ValueError(f"times are counted in 1 to {MOST_BINS} bins")
        edges = self.edge_array()
        if not np.isfinite(edges).all() or not (np.diff(edges, prepend=0.0) > 0.0).all():
            raise ValueError("the edges of bins must be finite, above 0, and ascend")

    def edge_array(self) -> FloatVector:
        """The upper edge of every bin, shape (B,)."""
        return unpack_floats(self.edges)

    @property
    def n_bins(self) -> int:
        return len(self.edges) // 8


class SurvivalCounts(_InBins, Grouped, frozen=True, kw_only=True, tag="survival-counts"):
    """Asks for events and rows at risk in each bin of time, and for log-rank sums.

    Bin j has the times above edge j - 1 (of the first, from 0) up to edge j; a row is at risk in
    every bin up to that of its time, and beyond the last edge it is not counted. The answer
    has, group by group, the events in each bin; then the rows at risk in each, likewise; whether
    some time lies below 0 (a comparison; such a site tells nothing else); of the log-rank test
    within the site of the groups that are compared, at its own times and not in bins, the events of
    every group, how many are expected, and the upper triangle by rows of their covariances; and of
    each group, and of the test, whether the site tells of it.

    A site that restricts small counts answers no sums of counts: of these it takes part in
    `RoundedTotals` alone, and of the test in `LogRankSums`. To the groups that are compared, and to
    their test, a site contributes if it does to them all: so curves and test are of the same sites,
    and the difference of the two of no site alone.

    Leaks:
        By subtraction it follows how many rows end in each bin without the event. A Cox model of
        the groups (`HazardSteps`) tells expected events and covariances exactly.

    Attributes:
        edges: Packed 64-bit floats above 0, ascending.
    """

    discloses = (
        *of_any(Quantity.NEGATIVE),
        *sums(Quantity.EVENTS, Quantity.LOG_RANK, Quantity.SITES),
    )
    rounded: ClassVar[tuple[Disclosure, ...]] = in_units(Quantity.GROUP_COUNTS)
    countable = True

    edges: bytes

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_edges()

    @property
    def label(self) -> str:
        return f"times until an event in {self.n_bins} bins"

    @property
    def by_difference(self) -> bool:
        """Whether ends and rows of the first group, of two, are counted with the second's."""
        return self.n_groups == FEWEST_GROUPS

    @property
    def n_counts(self) -> int:
        """How many counts are rounded: by group events up to each edge, all ends likewise, rows."""
        return self.n_groups * (2 * self.n_bins + 1)

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        groups, rows = self.n_groups, float(self.max_rows)
        cells = Encoding(groups * self.n_bins, rows, sums(Quantity.EVENTS))
        of_test = partial(Encoding, bound=rows, discloses=sums(Quantity.LOG_RANK))
        grid = finest_grid(rows)
        return (
            cells,
            cells,
            Encoding(1, 1.0, of_any(Quantity.NEGATIVE), comparison=True),
            of_test(length=groups),
            of_test(length=groups, resolution_bits=grid),
            of_test(length=groups * (groups + 1) // 2, resolution_bits=grid, signed=True),
            Encoding(groups + 1, 1.0, sums(Quantity.SITES)),
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        """Which values are opened; the last part is the test, the others are groups.

        A group's counts are where enough sites contribute to it, the log-rank sums where they also
        do to the test and to every group compared, and the check for negative times always.
        """
        groups = self.n_groups
        cells = np.repeat(parts[:-1], self.n_bins)
        test = np.repeat(self.tested(parts), 2 * groups + groups * (groups + 1) // 2)
        return np.concatenate([cells, cells, [True], test, parts])


class LogRankSums(Grouped, frozen=True, kw_only=True, tag="log-rank-sums"):
    """Asks for the log-rank test within the sites, where some site restricts small counts.

    The answer has whether some time lies below 0, as in `SurvivalCounts`; if groups are compared,
    by how many the events of each are more than expected, and the upper triangle by rows of their
    covariances; and of each group, and of the test, whether the site tells of it. Events themselves
    are no part of it, as these would be exact counts.
    """

    discloses = (*of_any(Quantity.NEGATIVE), *sums(Quantity.EXCESS, Quantity.SITES))
    countable = True
    opens_without_parts = True

    @property
    def label(self) -> str:
        return "a log-rank test within sites" if self.compared else "whether a time is below 0"

    @property
    def needs_count(self) -> bool:
        return bool(self.compared)

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        groups, rows = self.n_groups, float(self.max_rows)
        of_test = partial(
            Encoding, bound=rows, discloses=sums(Quantity.EXCESS),
            resolution_bits=finest_grid(rows), signed=True,
        )  # fmt: skip
        length = groups * bool(self.compared)
        return (
            Encoding(1, 1.0, of_any(Quantity.NEGATIVE), comparison=True),
            of_test(length=length),
            of_test(length=length * (groups + 1) // 2),
            Encoding(groups + 1, 1.0, sums(Quantity.SITES)),
        )

    def value_mask(self, parts: BoolVector) -> BoolVector:
        opened = np.repeat(self.tested(parts), self.n_values - 1 - len(parts))
        return np.concatenate([[True], opened, parts])


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

    With ``by_site`` the answer has, of each coefficient and then of its change from the first event
    to the last, what one Newton step over the site's rows alone makes of it: 1 over the variance,
    that times the step, and times its square; and whether the site has events enough to tell. A
    site that restricts small counts perturbs steps by up to a quarter of their standard error.
    """

    discloses = (*sums(Quantity.HAZARDS, Quantity.SITES), *coarse(Quantity.SITE_EFFECTS))
    countable = True
    opt_in = True
    indivisible = True

    predictors: tuple[int, ...]  # positions, in the order of the coefficients
    origins: bytes  # packed 64-bit floats: taken off each predictor; not used of a discrete one
    units: bytes  # packed binary exponents that it is then divided by, likewise
    coefficients: bytes  # packed 64-bit floats
    efron: bool = True  # whether ties are taken as Efron does, or as Breslow
    by_site: bool = False  # whether sites' coefficients are compared, and no step is asked for

    def __post_init__(self) -> None:
        super().__post_init__()
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
        what = "sites' parts" if self.by_site else "a step"
        return f"{what} of a Cox model of {self.n_columns} coefficients"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        if self.by_site:
            of_each = moment_encoding(6 * self.n_columns, self.max_rows, self.discloses[2:])
            return of_each, Encoding(2 * self.n_columns, 1.0, sums(Quantity.SITES))
        length, opened = values_per_step(self.n_columns), sums(Quantity.HAZARDS)
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


class HazardSums(_InBins, Question, frozen=True, tag="hazard-sums"):
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
