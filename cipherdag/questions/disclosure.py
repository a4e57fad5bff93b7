"""What a question discloses, as data: a quantity of whom, to whom, how exactly.

Whatever people read of what leaves a site is rendered here from these, and written nowhere else.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial

import msgspec

from cipherdag.pages.language import ENGLISH, Language

MOST_WORDS = 30  # of one sentence; more quantities begin another
LARGEST_USUAL_LEVEL = 0.1  # a test at a larger one says so


class Quantity(StrEnum):
    """All that this package ever opens; the value is what people read."""

    ROWS = "the number of rows"
    PATIENTS = "the number of patients"
    CATEGORIES = "how many categories columns have"
    MISSING = "which columns miss values"
    RESTRICTED = "whether a site restricts small counts"
    ORDERED = "which have categories in an order"
    FEW_VALUES = "which numbers have few values"
    LOCATIONS = "about where numbers lie, and how widely they spread"
    LABELS = "which columns are labels"
    SITES = "how many sites have enough rows for each part"
    RESAMPLED = "the same of rows that each site drew anew"
    CHANGED = "the same of rows that each site changed at random"
    FOLDS = "the same without a fifth of the rows, and so of that fifth"

    DECISION = "whether a test says dependent"
    ABLE = "whether any site can do a test"
    LENIENT = "whether a test says dependent at a level above 0.1"
    LEVELS = "whether a test says dependent at each of several levels"
    CURVED = "whether a number follows a given one as tests cannot"
    SMALL_COUNTS = "whether any site's table has small counts"
    EDGE_FALLS = "whether an edge falls by the sites' votes"
    STRONGER = "which of two pairs of columns is more dependent"
    SCALE = "which powers of four the strengths of dependence reach"
    HIGHER = "which of two graphs scores higher"

    TABLES = "contingency tables"
    MOMENTS = "means and covariances of numbers"
    WITHIN = "covariances of numbers within sites"
    VARIANCES = "logarithms of the sites' variances"
    LIKELIHOODS = "how well sets of columns explain the rows"
    SCORES = "scores of tests and their variances, from which small counts may follow"
    SITE_SCORES = "normal scores of tests at single sites"
    TEST_ROWS = "rows of each test"
    COMPARED_ROWS = "rows of each column that is compared, by strata if others are given"
    LOG_P_VALUES = "logarithms of p-values, from which small counts may follow"
    P_VALUES = "p-values times rows, from which small counts may follow"
    STRENGTHS = "strengths of dependence times rows"
    RELIABILITY = "rows per cell of each test, up to a bound"
    VOTES = "votes on edges or separating sets"
    BEST_P_VALUE = "p-values of separating sets"
    BEST_SET = "the separating sets that have them"
    REGRESSIONS = "likelihoods, gradients and Hessians of regressions, and so their coefficients"
    SHARES = "shares of categories, and of numbers up to marks, and how sites scatter about them"
    CODES = "whether numbers seem to have a code for missing values"

    BELIEFS = "beliefs in every edge"
    BELIEVERS = "how many sites believe in each edge"
    WEIGHTS = "weights of beliefs, from which the rows of each experiment may follow"
    WORST_REGRET = "regrets of graphs against the site's best, from which its table may follow"
    REGRETS = "regrets of sets of parents, from which tables may follow"

    VALUES = "values that each column has"
    SUMS = "sums and squares of numbers"
    COUNTS = "counts of categories, and of numbers up to public marks"
    LEFT_OUT = "whether any site has values far from its others, and leaves out or draws in such"
    EVENTS = "where no site restricts small counts, events and rows at risk in each bin of time"
    CELL_SIZE = "its min_cell_size"
    GROUP_COUNTS = "rows of groups, and events and all ends up to each edge"
    NEGATIVE = "whether any time is below 0"
    LOG_RANK = "events of each group, those expected, and their covariances"
    EXCESS = "by how much events of groups exceed those expected, and their covariances"
    HAZARDS = "partial likelihoods, gradients and Hessians of Cox models"
    RISK_SETS = "sums over the rows at risk in each bin, from which those of few rows may follow"
    ARMS = "rows, means and weights of each arm, and their derivatives"
    PROPENSITIES = "rows of each arm by ranges of propensity"
    SPREAD = "squares and products of the estimates' influences"
    SITE_EFFECTS = "effects within single sites and their squares, by precision"
    INCOMPLETE = "by how much incomplete rows differ in treatment and outcome, and their number"


def decision_at(level: float) -> Quantity:
    """What the decision of a test at a level is called."""
    return Quantity.DECISION if level <= LARGEST_USUAL_LEVEL else Quantity.LENIENT


class Precision(StrEnum):
    """How exactly a quantity is opened."""

    BIT = "one bit each"
    UNITS = "counts in whole min_cell_sizes"
    EXACT = "exact sums"
    ROUNDED = "rounded sums"
    NOISY = "sums with noise"
    COARSE = "sums, coarser of sites that restrict small counts,"
    AGAIN = "once more"


class Whose(StrEnum):
    """Whose a quantity is."""

    ALL = "over all sites"
    ANY = "of any site, not whose"
    ONE = "the largest of any site, not whose"


class Audience(StrEnum):
    """Who learns it."""

    EVERYBODY = ""
    COORDINATOR = "to the coordinator, as to the sites"


class Disclosure(msgspec.Struct, frozen=True, order=True):
    """One thing that a run may disclose."""

    quantity: Quantity
    precision: Precision = Precision.EXACT
    whose: Whose = Whose.ALL
    audience: Audience = Audience.EVERYBODY

    @property
    def heading(self) -> str:
        """How exactly it is disclosed, of whom and to whom, in words."""
        if self.audience == Audience.COORDINATOR:
            return self.audience
        return self.whose if self.whose == Whose.ONE else f"{self.precision} {self.whose}"

    @property
    def sealed(self) -> bool:
        """Whether answers leave in sealed parts, from which it is computed."""
        by_bits = self.precision in (Precision.BIT, Precision.UNITS)
        return by_bits and self.whose == Whose.ALL


def _each(
    precision: Precision, *quantities: Quantity, whose: Whose = Whose.ALL
) -> tuple[Disclosure, ...]:
    return tuple(Disclosure(each, precision, whose) for each in quantities)


bits, sums = partial(_each, Precision.BIT), partial(_each, Precision.EXACT)
in_units = partial(_each, Precision.UNITS)
rounded, noisy = partial(_each, Precision.ROUNDED), partial(_each, Precision.NOISY)
once_more, coarse = partial(_each, Precision.AGAIN), partial(_each, Precision.COARSE)
of_one = partial(_each, Precision.ROUNDED, whose=Whose.ONE)
of_any = partial(_each, Precision.BIT, whose=Whose.ANY)
"""Disclosures of some quantities, of all sites or, found by comparisons, of one or any."""


def joined(*disclosures: Iterable[Disclosure]) -> tuple[Disclosure, ...]:
    """All of them once, in the order of `Quantity`."""
    order = list(Quantity)
    every = {each for some in disclosures for each in some}
    return tuple(sorted(every, key=lambda each: (order.index(each.quantity), each)))


def sentences(disclosures: Iterable[Disclosure], say: Language = ENGLISH) -> tuple[str, ...]:
    """What is disclosed, in sentences of at most about `MOST_WORDS` English words."""
    said: dict[str, list[list[str]]] = {}
    for each in joined(disclosures):
        groups = said.setdefault(each.heading, [[]])
        words = " ".join([each.heading, *groups[-1], each.quantity]).split()
        if len(words) > MOST_WORDS:
            groups.append([])
        groups[-1].append(each.quantity)
    return tuple(
        say(
            "{heading}: {quantities}.",
            heading=f"{heading[0].upper()}{heading[1:]}",
            quantities=say("; ").join(map(say, group)),
        )
        for heading, groups in ((say(heading), groups) for heading, groups in said.items())
        for group in groups
    )
