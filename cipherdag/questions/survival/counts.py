"""Times until an event over all sites: rows at risk in each bin of time, and events there.

Leaks:
    Every site and whoever carries the messages see the columns, by position, and the edges of the
    bins. The coordinator sees the sums that `SurvivalCounts` lists, of groups that enough sites
    tell of.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from cipherdag.arrays import BoolVector, FloatVector
from cipherdag.questions.encodings import Encoding, finest_grid
from cipherdag.questions.pooled_data import check_categories

MOST_BINS = 1024
MOST_GROUPS = 64
FEWEST_GROUPS = 2
"""That can be compared."""


class Survived(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rows that are looked at until an event, or for as long as they are followed.

    Attributes:
        categories: Number of categories of every variable, 0 for a continuous one, shape (p,).
        time: Position of the time until the event or the end of follow-up, a continuous variable.
        event: Position of the variable of two categories that says which of the two it was.
        code: Which of these categories is the event, 0 or 1.
        complete_in: Further positions whose missing values leave a row out, ascending.
        max_rows: Declared bound of a site's rows.
    """

    categories: tuple[int, ...]
    time: int
    event: int
    code: int = 1
    complete_in: tuple[int, ...] = ()
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        check_categories(self.categories, self.max_rows)
        p, own = len(self.categories), self.complete_in
        if not all(0 <= v < p for v in (self.time, self.event, *own)):
            raise ValueError("a position lies beyond the variables")
        if self.categories[self.time] or self.categories[self.event] != 2:  # noqa: PLR2004
            raise ValueError("times are numbers, and an event has two categories")
        if self.code not in (0, 1):
            raise ValueError("the event is category 0 or 1")
        if list(own) != sorted({*own} - {self.time, self.event}):
            raise ValueError("further variables must ascend, and be others")


class SurvivalCounts(Survived, frozen=True, kw_only=True, tag="survival-counts"):
    """How many rows have the event in each bin of time, and how many are still at risk there?

    Bin j has the times above edge j - 1 (of the first, from 0) up to edge j; a row is at risk in
    every bin up to that of its time, and beyond the last edge nothing is told of it. The answer
    has, group by group, the events in each bin; then the rows at risk in each, likewise; whether
    some time lies below 0 (a comparison; such a site tells nothing else); of the log-rank test
    within the site of the groups that are compared, at its own times and not in bins, the events of
    every group, how many are expected, and the upper triangle by rows of their covariances; and of
    each group, and of the test, whether the site tells of it.

    A site that restricts small counts moves events, and ends of follow-up, to a near edge, so that
    no count of either is below its ``min_cell_size``, but for 0; and tells nothing of a group that
    has too few of either; see `cipherdag.sites.compute.pooled.followed`. Of the groups that are
    compared a site tells, and of their test, if it tells of them all: so curves and test are of the
    same sites, and the difference of the two of no site alone.

    Leaks:
        The coordinator learns the counts summed over the sites, of groups that enough sites tell
        of, and by subtraction how many rows end in each bin without the event; and the sums of
        what the test needs, which tell of each group its events at any time. A Cox model of the
        groups (`HazardSteps`) tells expected events and covariances exactly.

    Attributes:
        edges: Packed 64-bit floats above 0, ascending.
        by: Position of the variable whose categories are the groups; -1 for one group of all.
        compared: Which groups the test compares, ascending; none for no test.
    """

    leaves: ClassVar[str] = "events and rows at risk in public bins of time, and log-rank tests"

    edges: bytes
    by: int = -1
    compared: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_edges(self.edges)
        if self.by != -1 and self.by not in self.complete_in:
            raise ValueError("the groups' variable must leave rows out, too")
        if not 1 <= self.n_groups <= MOST_GROUPS:
            raise ValueError(f"there are 1 to {MOST_GROUPS} groups")
        within = {*self.compared} <= {*range(self.n_groups)}
        if list(self.compared) != sorted({*self.compared}) or not within:
            raise ValueError("groups that are compared must ascend, and be some of the groups")
        if 0 < len(self.compared) < FEWEST_GROUPS:
            raise ValueError("one group is compared with nothing")

    def edge_array(self) -> FloatVector:
        """The upper edge of every bin, shape (B,)."""
        return np.frombuffer(self.edges, dtype="<f8").astype(np.float64)

    @property
    def n_bins(self) -> int:
        """How many bins there are."""
        return len(self.edges) // 8

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return 1 if self.by == -1 else self.categories[self.by]

    @property
    def label(self) -> str:
        """What a progress line calls it."""
        return f"times until an event in {self.n_bins} bins"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """The segments of the class, in order."""
        groups, rows = self.n_groups, float(self.max_rows)
        cells = Encoding(length=groups * self.n_bins, bound=rows)
        bits = finest_grid(rows)
        return (
            cells,
            cells,
            Encoding(length=1, bound=1.0, comparison=True),
            Encoding(length=groups, bound=rows),
            Encoding(length=groups, bound=rows, resolution_bits=bits),
            Encoding(
                length=groups * (groups + 1) // 2, bound=rows, resolution_bits=bits, signed=True
            ),
            Encoding(length=groups + 1, bound=1.0),
        )

    def where(self, chosen: BoolVector) -> BoolVector:
        """Which values of an answer are of some groups, of the test, or of none of these.

        Args:
            chosen: The groups, and the test last, shape (G + 1,).

        Returns:
            Shape (number of values,).
        """
        groups = self.n_groups
        cells = np.repeat(chosen[:-1], self.n_bins)
        tested = chosen[-1] and chosen[list(self.compared)].all()
        test = np.repeat(tested, 2 * groups + groups * (groups + 1) // 2)
        return np.concatenate([cells, cells, [True], test, chosen])


def check_edges(packed: bytes) -> None:
    """Raise ValueError unless these are the packed upper edges of bins of time."""
    if len(packed) % 8 or not 1 <= len(packed) // 8 <= MOST_BINS:
        raise ValueError(f"times are counted in 1 to {MOST_BINS} bins")
    edges = np.frombuffer(packed, dtype="<f8")
    if not np.isfinite(edges).all() or not (np.diff(edges, prepend=0.0) > 0.0).all():
        raise ValueError("the edges of bins must be finite, above 0, and ascend")
