"""What a score test's regressions take of S beside S itself: a basis that grows with the rows.

A confounder that acts along a curve leaves a false dependence where the curve is fitted by a line.
So each number of S brings its square, its hinges (what it exceeds a knot by, or lacks), and its
products with the others, as many as the site's rows allow. Knots are values of the site's rows
near quantiles, and nobody else sees them.

Coefficients cost power: the score keeps as many degrees of freedom as there are rows less
coefficients. One coefficient more in `ROWS_PER_MORE` rows costs a fortieth of the power at most. A
bias is seen sooner the more rows all sites have together, so a site may then spend a larger part.

Source: Friedman and Silverman, Technometrics 31 (1989) 3-21, for hinges at quantiles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cipherdag.arrays import FloatVector, IndexArray
from cipherdag.statistics.array_functions import Array, at_least, like

ROWS_PER_SQUARE = 10  # rows per coefficient from which squares of S are among them
ROWS_PER_MORE, MOST_SHARE = 25, 0.1
"""Rows for each further coefficient, and the largest share of the rows if all sites have many."""
ALL_ROWS_PER_SHARE = 25_000  # rows of all sites at which the share would be 1
FEWEST_HINGES, MOST_HINGES = 2, 7
ALONE = (4, 5)
"""With this many columns for each number the hinges follow a square, too, so it gives way."""
ALONE_AT_FEW_ROWS = (2, *ALONE)  # the same where there are too few rows for squares otherwise


class Basis(NamedTuple):
    """What regressions take of each number of S: its square or not, hinges, and products or not."""

    squares: bool = False
    hinges: int = 0
    products: bool = False

    @property
    def curves(self) -> int:
        """Columns for each number beside itself."""
        return self.squares + self.hinges

    def begins_with(self, other: Basis) -> bool:
        """Whether the first columns are those of another basis, products left out."""
        squares = other == Basis(squares=self.squares)
        return squares or other.curves == 0 or self[:2] == other[:2]

    @classmethod
    def affordable(cls, numbers: int, products: int, more: int, *, squares: bool) -> Basis:
        """The basis for S with some ``numbers``, beside which there may be ``products``.

        ``more`` columns are affordable beside the ``squares``, if a site has rows enough for these.
        """
        if not numbers:
            return cls()
        columns, alone = more + squares * numbers, ALONE if squares else ALONE_AT_FEW_ROWS
        for crossed in dict.fromkeys((products > 0, False)):
            each = min((columns - products * crossed) // numbers, 1 + MOST_HINGES)
            hinges = each - (each not in alone)
            if hinges >= FEWEST_HINGES:
                return cls(hinges < each, hinges, crossed)
        return cls(columns >= numbers)


def more_columns(rows: int, all_rows: int) -> int:
    """How many more columns ``rows`` of a site afford, if all sites together have ``all_rows``."""
    share = max(1.0 / ROWS_PER_MORE, all_rows / ALL_ROWS_PER_SHARE)
    return int(rows * min(share, MOST_SHARE))


def knots(ordered: FloatVector, count: int) -> FloatVector:
    """Knots for ``count`` hinges among a number's present values, ascending, shape (count,).

    The more there are, the closer they lie towards both ends. Equal knots, and those at an end,
    are infinite from the second on, so that their hinges are constant.
    """
    shares = (np.arange(count) + 0.5) / max(count, 1)
    ends = min(max((count - FEWEST_HINGES) / 6.0, 0.0), 1.0)
    shares += ends * ((1.0 - np.cos(np.pi * shares)) / 2.0 - shares)
    signs = _signs(count)
    if not len(ordered):
        return signs * np.inf
    # no last digit of a cosine decides which value it is; between two it is their mean
    ranks = np.round(shares * (len(ordered) - 1), 6)
    low, high = (each.astype(np.int64) for each in (np.ceil(ranks - 0.5), np.floor(ranks + 0.5)))
    chosen = ordered[low] / 2.0 + ordered[high] / 2.0
    inside = (chosen > ordered[0]) & (chosen < ordered[-1])
    inside &= np.append(True, chosen[1:] > chosen[:-1])[:count]
    return np.where(inside, chosen, signs * np.inf)


def _signs(count: int) -> FloatVector:
    """Which way hinges open, away from the middle: -1 or 1, shape (count,)."""
    return np.where(np.arange(count) < count // 2, -1.0, 1.0)


def curves(numbers: Array, basis: Basis, at: Array) -> list[Array]:
    """The curves of numbers, (..., k, n), for knots (..., hinges, k, 1): some (..., k, n) each."""
    made = [numbers * numbers] if basis.squares else []
    for hinge, sign in enumerate(_signs(basis.hinges).tolist()):
        made.append(at_least((numbers - at[..., hinge, :, :]) * sign, 0.0))
    return made


def pairs(count: int) -> tuple[IndexArray, IndexArray]:
    """The two numbers of each product of ``count`` numbers."""
    first, second = np.triu_indices(count, 1)
    return first, second


def products_of(numbers: Array, basis: Basis) -> list[Array]:
    """The products of every two numbers, one (..., k (k - 1) / 2, n) of (..., k, n), or none."""
    if not basis.products:
        return []
    first, second = (like(side, numbers) for side in pairs(numbers.shape[-2]))
    return [numbers[..., first, :] * numbers[..., second, :]]
