"""Evidence of tests as sums over the sites: weighted p-values and strengths, or logarithms of p.

Leaks:
    Sums are exact. Where columns have few values and sites are few, often just one set of tables
    of the sites gives these sums. Policies refuse plans that open them unless they say
    ``reveal = "sums"``.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import msgspec
import numpy as np

from cipherdag.arrays import BoolVector, FloatVector, PositionRows
from cipherdag.questions.ci_tests import CITestSpec, tests_of
from cipherdag.questions.disclosure import Quantity, sums
from cipherdag.questions.encodings import (
    MAX_VARIABLES,
    Encoding,
    check_blocks,
    mean_of,
    segments,
    unpack_blocks,
)
from cipherdag.questions.question import Question

GRID_BITS = 20
MAX_ROWS_LIMIT = 1 << 30


class WeightedEvidence(Question, frozen=True, tag="weighted-evidence"):
    """Asks for weighted evidence that x and y depend given S: FedCMFS, section 4.2, Eq. 1 and 2.

    The answer has three segments: n p of every triplet, n r of the triplets with empty S, and n of
    every triplet. p is the site's p-value, r its strength of dependence (G2, or the absolute
    correlation), and n the rows behind them; all three are 0 where the site's test is unreliable,
    so that the quotients of the sums are means over the sites whose test is reliable.

    Attributes:
        counts: How many triplets have |S| = 0, 1, 2, ...
        members: Packed positions, two bytes each: the rows (x, y) of the triplets with empty S,
            then the rows (x, y, s) of those with one condition, and so on.
    """

    discloses = sums(Quantity.P_VALUES, Quantity.STRENGTHS, Quantity.TEST_ROWS)
    countable = True

    n_variables: int
    test: CITestSpec
    counts: tuple[int, ...]
    members: bytes
    part: Literal["FedCFL", "FedCFR", "FedCFC"] = "FedCFL"
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        check_triplets(self.counts, self.members, self.n_variables, self.max_rows)

    @property
    def label(self) -> str:
        return f"{self.part}: {tests_of(self.counts)}"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        # a strength is at most 2 n max(ln n, 20): G2 <= 2 n ln(levels), and a likelihood ratio of
        # two numbers is at most 36.1 n in double precision
        rows = float(self.max_rows)
        total = sum(self.counts)
        return (
            Encoding(total, rows, sums(Quantity.P_VALUES), resolution_bits=GRID_BITS),
            Encoding(
                self.counts[0] if self.counts else 0,
                2.0 * rows * rows * max(math.log(rows), 20.0),
                sums(Quantity.STRENGTHS),
                resolution_bits=GRID_BITS,
            ),
            Encoding(total, rows, sums(Quantity.TEST_ROWS)),
        )

    def rows(self) -> list[PositionRows]:
        """The triplets by size of S: row (x, y, s1, ..., sl) of an array of shape (B_l, 2 + l)."""
        return unpack_blocks(self.counts, self.members, narrowest=2)


def check_triplets(
    counts: tuple[int, ...], members: bytes, n_variables: int, max_rows: int
) -> None:
    """Raise ValueError unless these are packed triplets of distinct positions of a study."""
    if not 1 <= n_variables <= MAX_VARIABLES:
        raise ValueError(f"n_variables must lie in 1..{MAX_VARIABLES}")
    if not 2 <= max_rows <= MAX_ROWS_LIMIT:  # noqa: PLR2004
        raise ValueError(f"max_rows must lie in 2..{MAX_ROWS_LIMIT}")
    check_blocks(counts, members, 2, most=n_variables - 1, n_variables=n_variables)
    for rows in unpack_blocks(counts, members, narrowest=2):
        ordered = np.sort(rows, axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise ValueError("a triplet names one variable twice")


def weighted_means(
    question: WeightedEvidence, sums: FloatVector
) -> tuple[FloatVector, FloatVector]:
    """Weighted p-values (Eq. 1) and strengths (Eq. 2) from the sums over the sites.

    Mean p of every triplet, shape (B,), and mean r of those with empty S, shape (M,); NaN where no
    site had a reliable test.
    """
    weighted, strengths, rows = segments(question.encodings, sums)
    return mean_of(weighted, rows), mean_of(strengths, rows[: len(strengths)])


Combination = Literal["fisher", "weighted_p"]
COMBINATIONS: tuple[Combination, ...] = get_args(Combination)

LOG_BITS = 32
P_BITS = 32
RELIABILITY_BITS = 20
SMALLEST_P = 1e-300
SUMMED = {"auto": "pearson-or-fisherz", "by-type": "pearson-by-type"}
"""The sites' test in place of one that depends on the columns: Pearson's needs fewer rows."""
SITE_ROWS_PER_CELL = {
    "g2": 200.0,
    **dict.fromkeys(("pearson", *SUMMED.values()), 10.0),
    "regression": 10.0,
}
"""Rows per cell, or coefficient, below which a site leaves a test to the others; 1 for other tests.

The sites that remain must reach the usual five together. Sums over many sites of tests with fewer
rows do not keep their level (``benchmarks/calibration.py``).
"""


class CombinedEvidence(Question, frozen=True, tag="combined-evidence"):
    """Asks for the summands of combined p-values of x and y given S: a meta-analysis of the sites.

    A site that cannot do a test adds 0 everywhere. The answer has, for B triplets:

    - ``fisher``: B times -2 ln p, B times 1, B reliabilities (Fisher, 1932);
    - ``weighted_p``: B products n p, B times n (FedCMFS, Eq. 1).

    The reliability of a table test is its rows per cell, at most `rows_per_cell`; that of other
    tests is `rows_per_cell`. A test without degrees of freedom says nothing: it adds its
    reliability only.
    """

    discloses = sums(
        Quantity.P_VALUES,
        Quantity.TEST_ROWS,
        Quantity.LOG_P_VALUES,
        Quantity.SITES,
        Quantity.RELIABILITY,
    )
    resamplable = True
    countable = True

    n_variables: int
    test: CITestSpec  # the test of every site
    combination: Combination
    counts: tuple[int, ...]  # how many triplets have |S| = 0, 1, 2,
    members: bytes  # packed positions as in `WeightedEvidence`
    rows_per_cell: float = 5.0  # reliability that the sum needs
    max_rows: int = 1 << 20

    def __post_init__(self) -> None:
        if not 0.0 < self.rows_per_cell < MAX_ROWS_LIMIT:
            raise ValueError("rows_per_cell must be a finite number > 0")
        check_triplets(self.counts, self.members, self.n_variables, self.max_rows)

    @classmethod
    def over_sites(
        cls, test: CITestSpec, combination: Combination, n_variables: int, max_rows: int
    ) -> CombinedEvidence:
        """An empty question whose ``test`` needs its rows per cell over all sites together."""
        site_test = test
        if combination != "weighted_p":
            least = SITE_ROWS_PER_CELL.get(test.name, 1.0)
            # a test that requires no rows requires none at a site either
            least = least if test.min_rows_per_cell > 0 else 0.0
            name = SUMMED.get(test.name, test.name)
            site_test = msgspec.structs.replace(test, name=name, min_rows_per_cell=least)
        return cls(
            n_variables=n_variables,
            test=site_test,
            combination=combination,
            counts=(),
            members=b"",
            rows_per_cell=test.min_rows_per_cell,
            max_rows=max_rows,
        )

    @classmethod
    def about(cls, triplets: WeightedEvidence, combination: Combination) -> CombinedEvidence:
        """A copy of the question about the triplets of weighted evidence."""
        empty = cls.over_sites(triplets.test, combination, triplets.n_variables, triplets.max_rows)
        return msgspec.structs.replace(empty, counts=triplets.counts, members=triplets.members)

    @property
    def label(self) -> str:
        return f"{tests_of(self.counts)}, combined by {self.combination}"

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        total, rows = sum(self.counts), float(self.max_rows)
        if self.combination == "weighted_p":
            return (
                Encoding(total, rows, sums(Quantity.P_VALUES), resolution_bits=P_BITS),
                Encoding(total, rows, sums(Quantity.TEST_ROWS)),
            )
        logs = Encoding(
            total,
            -2.0 * math.log(SMALLEST_P),
            sums(Quantity.LOG_P_VALUES),
            resolution_bits=LOG_BITS,
        )
        reliability = Encoding(
            total, self.rows_per_cell, sums(Quantity.RELIABILITY), resolution_bits=RELIABILITY_BITS
        )
        return (logs, Encoding(total, 1.0, sums(Quantity.SITES)), reliability)

    def rows(self) -> list[PositionRows]:
        """The triplets by size of S, as `WeightedEvidence.rows` yields them."""
        return unpack_blocks(self.counts, self.members, narrowest=2)

    def contributes(self, answer: FloatVector) -> BoolVector:
        """Tests that have weight, reliable or not."""
        return self.weights(answer) > 0

    def weights(self, answer: FloatVector) -> FloatVector:
        """Read the weights that an answer gives its tests in their sums, shape (B,).

        0 where a test has no degrees of freedom at the site, reliable or not.
        """
        *_, last = parts = segments(self.encodings, answer)
        return last if self.combination == "weighted_p" else parts[-2]


def combined_p(question: CombinedEvidence, sums: FloatVector) -> FloatVector:
    """The p-value over all sites of every triplet, shape (B,).

    NaN where the sites together were not reliable, 1 where no site's test had degrees of freedom.
    """
    from scipy.special import gammaincc

    parts = segments(question.encodings, sums)
    if question.combination == "weighted_p":
        return mean_of(*parts)
    amount, tests, reliability = parts
    informed = tests > 0
    p_value = gammaincc(np.where(informed, tests, 1.0), np.maximum(amount, 0.0) / 2.0)
    p_value = np.where(informed, np.clip(p_value, 0.0, 1.0), 1.0)
    # the sum of reliabilities is rounded once per site
    slack = 2.0 ** (8 - RELIABILITY_BITS)
    enough = (reliability > 0) & (reliability >= question.rows_per_cell - slack)
    return np.where(enough, p_value, np.nan)
