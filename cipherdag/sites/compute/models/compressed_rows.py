"""A site's rows compressed by their discrete variables: groups of rows, cut into pieces.

In a group the discrete part of a regression's logits is one number, and its gradient and Hessian
need sums over the continuous predictors only. The last piece of a group is filled up with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from cipherdag.arrays import FloatMatrix, FloatVector, IndexArray

FEWEST_IN_PIECE, MOST_IN_PIECE = 8, 512  # rows
MOST_CELLS = 2**62  # of the joint table, whose codes are integers of 64 bits
MOST_PATTERNS = 64  # sets of variables whose patterns are remembered
PIECES_PER_GROUP = 4
"""Pieces of an average group, about or more, so that few rows of the last are zeros."""


class CompressedRows:
    """Groups of rows that agree in some discrete variables, in the order of their codes.

    By group there are ``codes`` of the variables, (groups, variables), ``counts`` of rows, and
    ``padding``, the zeros behind its last row. ``group`` is that of each piece. ``present``,
    (pieces, rows of a piece), is 1 where there is a row, else 0.
    """

    def __init__(
        self,
        variables: Sequence[int],
        column: Callable[[int], FloatVector],
        order: IndexArray,
        first: IndexArray,
    ) -> None:
        self._variables, self._column = tuple(variables), column
        self.counts = np.diff(first, append=len(order))
        codes = [column(v)[order[first]] for v in variables]
        self.codes = np.column_stack([first, *codes])[:, 1:]
        self._cut(order, first)
        self._columns: dict[int, tuple[FloatMatrix, float]] = {}
        self._sums: dict[tuple[int | None, int | None], FloatVector] = {}
        self._patterns: dict[tuple[int, ...], Patterns] = {}

    @classmethod
    def of(
        cls,
        variables: Sequence[int],
        sizes: Sequence[int],
        column: Callable[[int], FloatVector],
        rows: int,
        *,
        fewest: int,
    ) -> CompressedRows | None:
        """The groups, or None where they have fewer rows than ``fewest`` on average.

        ``variables`` have ``sizes`` categories; ``column`` gives ``rows`` values, none missing.
        """
        cells = math.prod(sizes)
        if not rows or cells > MOST_CELLS:
            return None
        joint = np.zeros(rows, dtype=np.min_scalar_type(cells))  # short types sort fast
        for variable, size in zip(variables, sizes, strict=True):
            joint = joint * joint.dtype.type(size) + column(variable).astype(joint.dtype)
        order = np.argsort(joint, kind="stable")
        joint = joint[order]
        first = np.flatnonzero(np.append(True, joint[1:] != joint[:-1]))
        return cls(variables, column, order, first) if len(first) * fewest <= rows else None

    def _cut(self, order: IndexArray, first: IndexArray) -> None:
        rows, groups = len(order), len(first)
        size = 1 << (max(rows // (PIECES_PER_GROUP * groups), 1).bit_length() - 1)
        size = min(max(size, FEWEST_IN_PIECE), MOST_IN_PIECE)
        pieces = -(-self.counts // size)
        self.padding = pieces * size - self.counts
        self._starts = np.cumsum(pieces) - pieces
        self.group = np.repeat(np.arange(groups), pieces)
        cell = np.repeat(self._starts * size - first, self.counts) + np.arange(rows)
        self._cell = np.empty(rows, dtype=np.intp)
        self._cell[order] = cell
        self._shape = len(self.group), size
        self.present = self._laid_out(1.0)

    def _laid_out(self, values: FloatVector | float) -> FloatMatrix:
        pieces = np.zeros(self._shape)
        pieces.ravel()[self._cell] = values
        return pieces

    def column(self, variable: int) -> FloatMatrix:
        """Values of a continuous variable, shape (pieces, rows of a piece)."""
        return self._cached(variable)[0]

    def largest(self, variable: int) -> float:
        """The largest magnitude in a column."""
        return self._cached(variable)[1]

    def _cached(self, variable: int) -> tuple[FloatMatrix, float]:
        if variable not in self._columns:
            values = self._column(variable)
            self._columns[variable] = self._laid_out(values), float(np.abs(values).max())
        return self._columns[variable]

    def moments(self, numbers: Sequence[int]) -> FloatMatrix:
        """Sums of products of every two of 1, x1, ..., xk, (groups, q): 1, x1, ..., x1 x1, ..."""
        named: list[int | None] = [None, *numbers]
        pairs = combinations_with_replacement(named, 2)
        return np.column_stack([self._sums_of(*pair) for pair in pairs])

    def _sums_of(self, one: int | None, other: int | None) -> FloatVector:
        if (one, other) not in self._sums:
            left, right = (self.present if v is None else self.column(v) for v in (one, other))
            self._sums[one, other] = self.by_group((left * right).sum(axis=1))
        return self._sums[one, other]

    def by_group(self, of_pieces: FloatMatrix) -> FloatMatrix:
        """Sums over the pieces of every group, shape (groups, ...) of (pieces, ...)."""
        return np.add.reduceat(of_pieces, self._starts, axis=0)

    def patterns(self, variables: Sequence[int]) -> Patterns:
        """The distinct configurations of some of the variables among the groups."""
        named = tuple(variables)
        if named not in self._patterns:
            if len(self._patterns) == MOST_PATTERNS:
                del self._patterns[next(iter(self._patterns))]
            codes = self.codes[:, [self._variables.index(v) for v in named]]
            self._patterns[named] = Patterns.of(codes)
        return self._patterns[named]


@dataclass(frozen=True, slots=True)
class Patterns:
    """Distinct configurations, shape (m, variables), and that of every group, (groups,)."""

    codes: FloatMatrix
    which: IndexArray
    _order: IndexArray
    _first: IndexArray

    @classmethod
    def of(cls, codes: FloatMatrix) -> Patterns:
        """The distinct rows of the groups' codes, shape (groups, variables)."""
        distinct, which, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
        which = which.reshape(-1)
        order = np.argsort(which, kind="stable")
        return cls(distinct, which, order, np.cumsum(counts) - counts)

    def add_up(self, values: FloatMatrix) -> FloatMatrix:
        """Sum values of groups, shape (groups, ...), by configuration, shape (m, ...)."""
        return np.add.reduceat(values[self._order], self._first, axis=0)
