"""Questions about times until an event: counts in public bins, and log-rank sums."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.disclosure import Disclosure, Quantity, in_units, of_any, sums
from cipherdag.questions.encodings import Encoding, finest_grid, unpack_floats
from cipherdag.questions.pooled_data import check_categories
from cipherdag.questions.question import Question

MOST_BINS = 1024
MOST_GROUPS = 64
FEWEST_GROUPS = 2  # fewest groups that a log-rank test compares


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


class InBins:
    """Base of questions whose times are those of bins."""

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


class SurvivalCounts(InBins, Grouped, frozen=True, kw_only=True, tag="survival-counts"):
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
    """

    discloses = (
        *of_any(Quantity.NEGATIVE),
        *sums(Quantity.EVENTS, Quantity.LOG_RANK, Quantity.SITES),
    )
    rounded: ClassVar[tuple[Disclosure, ...]] = in_units(Quantity.GROUP_COUNTS)
    countable = True

    edges: bytes  # packed 64-bit floats above 0, ascending

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
