"""A site's numbers in standard deviations, made on blocks of rows, and curves of them.

No second copy of the columns is held: of every column a site remembers its mean and its spread,
and a bit a row where values are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.sites.compute.device import PROCESSOR, Device, batch_bytes, placed
from cipherdag.statistics.array_functions import Array, functions_of, like
from cipherdag.statistics.regression_fits import LEAST_REST

CURVES = 1
"""Regressors that a number of S brings beside itself."""
CHUNK_VALUES = 2**17
"""Of the blocks that a processor computes with together: they stay in its cache."""
WHOLE_VALUES, WHOLE_ROWS = 2**24, 2**13
"""Up to which all rows are one block, which need not be made again."""
FEWEST_ROWS = 64
"""Of a block."""
SPARE_VALUES = 2**21
"""Memory that blocks take and give back without asking the system, which clears it slowly."""
BYTES_PER_VALUE = 64
"""On a card: of a value, its curve, and what is made of both."""
WIDEST_EXPONENT = 1000


class Scale(NamedTuple):
    """How a column is standardised: (value * unit - mean) * inverse.

    Attributes:
        unit: A power of two, so that no square is too large or too small.
        mean: Of the values in units.
        inverse: One over their spread; 0 where they are constant.
    """

    unit: float
    mean: float
    inverse: float

    @classmethod
    def of(cls, present: FloatVector) -> Scale:
        """The scale of a column's values, none of them missing."""
        if not len(present):
            return cls(1.0, 0.0, 0.0)
        largest = max(float(present.max()), -float(present.min()))
        exponent = np.clip(np.frexp(largest)[1], -WIDEST_EXPONENT, WIDEST_EXPONENT)
        unit = float(np.ldexp(1.0, -exponent))
        centred = present * unit
        mean = float(centred.mean())
        centred -= mean
        spread = float(np.sqrt(centred @ centred / len(centred)))
        varies = spread > LEAST_REST * largest * unit
        return cls(unit, mean, 1.0 / spread if varies else 0.0)


def curves(numbers: Array) -> Array:
    """What regressions on S take of its numbers beside themselves: their squares.

    Args:
        numbers: In standard deviations, shape (..., k, n).

    Returns:
        Shape (..., `CURVES` k, n): the first curve of every number, then the second, and so on.
    """
    return numbers * numbers


class Numbers(NamedTuple):
    """Columns of numbers that are read in standard deviations.

    Attributes:
        columns: As they are, shape (n,) each.
        scales: Their `Scale`, shape (3, k, 1).
    """

    columns: list[Array]
    scales: Array

    def rows(self, part: slice = slice(None)) -> Array:
        """Some rows, NaN where missing, shape (k, r)."""
        joined = functions_of(self.scales).concatenate([column[part] for column in self.columns])
        block = joined.reshape(len(self.columns), -1)
        unit, mean, inverse = self.scales
        block *= unit
        block -= mean
        block *= inverse
        return block


class StandardColumns:
    """The numbers of one site in standard deviations.

    Args:
        column: Values of one variable, float64 of shape (n,), NaN where missing.
        device: Where to compute.

    Attributes:
        rows: How many there are, once a column was read.
    """

    def __init__(self, column: Callable[[int], FloatVector], device: Device) -> None:
        self._column, self._device = column, device
        np.empty(SPARE_VALUES)  # from here on the allocator keeps as much of what is freed
        self.rows = 0
        self._scales: dict[int, Scale] = {}
        self._pattern_of: dict[int, int] = {}
        # by packed bits, which rows miss a value
        self._patterns: dict[bytes, int] = {}
        self._placed: dict[int, Array] = {}

    def standard(self, variable: int) -> FloatVector:
        """All values in deviations from their mean, NaN where missing, shape (n,)."""
        unit, mean, inverse = self._scale(variable)
        return (self._column(variable) * unit - mean) * inverse

    def patterns(self, variables: Sequence[int]) -> IndexArray:
        """Read columns; of each the number of its pattern of missing values, 0 for none, (k,)."""
        for variable in variables:
            self._scale(variable)
        return np.array([self._pattern_of[variable] for variable in variables], dtype=np.int64)

    def complete(self, patterns: IndexArray) -> BoolVector | None:
        """The rows that miss a value by none of some patterns, shape (n,); None for all of them."""
        wanted = {*patterns.tolist()}
        packed = [bits for bits, pattern in self._patterns.items() if pattern in wanted]
        if not packed:
            return None
        missing = np.bitwise_or.reduce([np.frombuffer(bits, dtype=np.uint8) for bits in packed])
        return ~np.unpackbits(missing, count=self.rows).view(np.bool_)

    def numbers(self, variables: IndexArray) -> Numbers:
        """Some of them, shape (k,), to be read in standard deviations."""
        chosen = variables.tolist()
        columns = [self._on_device(variable) for variable in chosen]
        scales = np.array([self._scales[variable] for variable in chosen])
        return Numbers(columns, like(scales.T[:, :, None], columns[0]))

    def placed(self, values: NDArray[Any]) -> Array:
        """An array where the columns are computed with."""
        return placed(values, self._device)

    def whole(self, width: int) -> bool:
        """Whether so many columns have so few rows that all of them are one block."""
        return width * self.rows <= WHOLE_VALUES and self.rows <= WHOLE_ROWS

    def rows_at_once(self, width: int) -> int:
        """Rows of a block of so many columns: all of them if they are few."""
        if self.whole(width):
            return max(self.rows, 1)
        most = CHUNK_VALUES
        if self._device != PROCESSOR:
            most = batch_bytes(self._device) // BYTES_PER_VALUE
        return max(most // width, FEWEST_ROWS)

    def _scale(self, variable: int) -> Scale:
        if variable not in self._scales:
            column = self._column(variable)
            self.rows = len(column)
            missing = np.isnan(column)
            gaps = bool(missing.any())
            pattern = 0
            if gaps:
                bits = np.packbits(missing).tobytes()
                pattern = self._patterns.setdefault(bits, len(self._patterns) + 1)
            self._pattern_of[variable] = pattern
            self._scales[variable] = Scale.of(column[~missing] if gaps else column)
        return self._scales[variable]

    def _on_device(self, variable: int) -> Array:
        if variable not in self._placed:
            self._placed[variable] = placed(self._column(variable), self._device)
        return self._placed[variable]
