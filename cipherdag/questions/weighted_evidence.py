"""Question of FedCMFS: weighted p-values and strengths of (x, y, S) triplets.

Leaks:
    Exact sums of n p and n r over three sites often fit one set of tables of the sites alone.
    Policies refuse plans that open these sums unless they say ``reveal = "sums"``.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from cipherdag.arrays import FloatVector, PositionRows
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
        n_variables: Number of aligned variables, p.
        test: The test.
        counts: How many triplets have |S| = 0, 1, 2, ...
        members: Packed positions, two bytes each: the rows (x, y) of the triplets with empty S,
            then the rows (x, y, s) of those with one condition, and so on.
        part: The subroutine that asks.
        max_rows: Declared bound of n.
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
        """All n p, then n r of the triplets with empty S, then all n.

        The strength is at most 2 n max(ln n, 20) whichever test it is: G2 <= 2 n ln(levels), and a
        likelihood ratio of two numbers is at most 36.1 n in double precision.
        """
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
