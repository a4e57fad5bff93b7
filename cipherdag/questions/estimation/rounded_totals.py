"""Counts over all sites, of which no more is opened than how many whole units each of them has.

The unit is the largest ``min_cell_size`` of the sites. Secure comparisons of a total with multiples
of the unit, and with nothing else, find ``floor(total / unit)``: each round cuts what a total may
be into parts, for all counts at once. Every bit follows from the floors that are found, so
that the search for them tells no more than they do.

Leaks:
    Whoever knows the counts of all sites but one learns that of the last one to within a unit, as
    a site that invents rows, and runs again, does ever more exactly.
"""

from collections.abc import Generator

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.predicates import Predicates
from cipherdag.questions.comparison import fewest_parts, secure_max
from cipherdag.questions.descriptions import ValueCounts
from cipherdag.questions.disclosure import Disclosure, Quantity, of_one
from cipherdag.questions.encodings import Encoding, pack_integers, unpack_integers
from cipherdag.questions.estimation.survival import SurvivalCounts
from cipherdag.questions.question import Question
from cipherdag.questions.verdicts import Verdicts

LARGEST_UNIT = 256
MOST_PARTS = 8
"""That a round cuts what a total may be into; fewer, where the rounds are as many."""
COUNTS_AT_ONCE = 2048
"""Counts that are looked for together; more are asked about in further rounds."""
MOST_UNITS = 1 << 40
"""With which a total is compared: more than all sites have rows, and far from any overflow."""
SMALLEST_UNIT = 2  # counts in units of 1 are exact, and summed in the open


class CellSizes(Question, frozen=True, tag="cell-sizes"):
    """Asks how large the largest ``min_cell_size`` of any site is.

    The answer says of each number from 1 on whether that of the site is larger.
    """

    discloses = of_one(Quantity.CELL_SIZE)
    by_patient = True

    @property
    def label(self) -> str:
        return "the largest min_cell_size of any site"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        return (Encoding(LARGEST_UNIT - 1, 1.0, self.discloses, comparison=True),)

    def answer_of(self, min_cell_size: int) -> FloatVector:
        """What a site with this ``min_cell_size`` answers."""
        return (min_cell_size > np.arange(1, LARGEST_UNIT)).astype(np.float64)

    def largest(self, exceeded: FloatVector) -> int:
        """The largest of any site, or `SMALLEST_UNIT`."""
        return SMALLEST_UNIT + int(max(np.flatnonzero(exceeded > 0.0), default=0))


class RoundedTotals(Verdicts, frozen=True, tag="rounded-totals"):
    """Asks whether totals of counts have more whole units than some numbers."""

    discloses = (*SurvivalCounts.rounded, *ValueCounts.rounded)
    resamplable = False
    by_patient = True

    question: SurvivalCounts | ValueCounts  # what is counted
    unit: int  # a site answers only if this is at least its ``min_cell_size``
    # of every count the numbers of units that its total is compared with, packed, shape (counts,
    # ``comparisons``)
    units: bytes
    comparisons: int  # how many numbers there are for each
    first: int = 0  # which of the counts is the first that is asked about

    def __post_init__(self) -> None:
        if not SMALLEST_UNIT <= self.unit <= LARGEST_UNIT:
            raise ValueError(f"a unit lies in {SMALLEST_UNIT}..{LARGEST_UNIT}")
        if self.comparisons < 1 or not self.units or len(self.units) % (8 * self.comparisons):
            raise ValueError("every count is compared with as many numbers")
        if self.first < 0 or self.first + self.n_counts > self.question.n_counts:
            raise ValueError("there are fewer counts than are asked about")
        units = self.unit_array()
        if units.min() < 0 or units.max() > MOST_UNITS:
            raise ValueError("no count has so many units")

    @property
    def label(self) -> str:
        return f"{self.question.label}, in units of {self.unit}"

    @property
    def _bits(self) -> tuple[Disclosure, ...]:
        return self.question.rounded

    @property
    def max_rows(self) -> int:
        """Declared bound of a site's rows."""
        return self.question.max_rows

    @property
    def n_counts(self) -> int:
        """How many counts are asked about."""
        return self.n_verdicts // self.comparisons

    @property
    def n_verdicts(self) -> int:
        """One per count and number, count by count."""
        return len(self.units) // 8

    def fits(self, categories: tuple[int, ...], ordered: tuple[int, ...]) -> bool:
        return self.question.fits(categories, ordered)

    def unit_array(self) -> IndexArray:
        """The numbers that totals are compared with, shape (counts, comparisons)."""
        return unpack_integers(self.units, (self.n_counts, self.comparisons))

    def words(self, answer: FloatVector | IndexArray) -> IndexArray:
        """A site's counts that are asked about, of all of them, shape (counts,)."""
        return answer[self.first : self.first + self.n_counts].astype(np.int64)

    def predicates(self, n_sites: int) -> Predicates:
        """One comparison each: a total is at least one unit more than a number of units."""
        count, each = self.n_counts, np.arange(self.n_verdicts)
        terms = np.stack([each, each // self.comparisons, np.ones_like(each)], axis=1)
        return Predicates(
            np.zeros(count, dtype=np.int64),
            np.full(count, n_sites * self.max_rows),
            np.ones(len(each), dtype=np.int64),
            np.zeros((0, 4), dtype=np.int64),
            terms,
            1 - (self.unit_array().ravel() + 1) * self.unit,
        )


def rounded_totals(
    question: SurvivalCounts | ValueCounts, unit: int, most: int
) -> Generator[Question, FloatVector, IndexArray]:
    """How many whole units the total of every count has, shape (counts,); none is above ``most``.

    It takes as many rounds as if each left an eighth of the possible numbers of units;
    `COUNTS_AT_ONCE` counts are asked about together.
    """
    floors, parts = [np.zeros(0, dtype=np.int64)], fewest_parts(most // unit + 1, MOST_PARTS)
    for first in range(0, question.n_counts, COUNTS_AT_ONCE):
        count = min(COUNTS_AT_ONCE, question.n_counts - first)

        def ask(units: IndexArray, first: int = first) -> Question:
            return RoundedTotals(
                question, unit, pack_integers(units), comparisons=parts - 1, first=first
            )

        floors.append((yield from secure_max(ask, np.full(count, most // unit), arity=parts)))
    return np.concatenate(floors)
