"""A site's numeric columns, standardised block by block of rows, and their curves.

No second copy of the columns is held. A site remembers the mean and the spread of every column,
and one bit per row if values are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatArray, FloatVector, IndexArray
from cipherdag.sites.compute.device import PROCESSOR, Device, batch_bytes, placed
from cipherdag.sites.compute.score_tests.basis import Basis, curves, knots
from cipherdag.statistics.array_functions import Array, functions_of, host, like
from cipherdag.statistics.regression_fits import LEAST_REST

CHUNK_VALUES = 2**17
"""Values of the blocks that a processor computes with at a time; they stay in its cache."""
WHOLE_VALUES, WHOLE_ROWS = 2**24, 2**13
"""Up to this many values and rows, all rows are one block, which is made once."""
FEWEST_ROWS = 64  # the fewest rows of a block
SPARE_VALUES = 2**21
"""Memory that blocks take and give back without asking the system, which clears it slowly."""
BYTES_PER_VALUE = 64
"""Memory on a card for a value, its square, and the arrays that are computed from both."""
WIDEST_EXPONENT = 1000  # of a unit, either way, so that the unit is finite
WELL_CENTRED = 1e-5
"""If a variance is a smaller share of the mean's square, it is computed again about the mean."""


class Scale(NamedTuple):
    """How a column is standardised: (value * unit - mean) * inverse.

    The ``unit`` is a power of two, so that no square is too large or too small. ``inverse`` is one
    over the spread; 0 where values are constant.
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


class Numbers(NamedTuple):
    """Columns of numbers, (n,) each, that are read in standard deviations.

    Their ``scales`` have shape (3, k, 1), and the ``knots`` of their hinges (hinges, k, 1).
    """

    columns: list[Array]
    scales: Array
    knots: Array

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
    """The numbers of one site in standard deviations; it has ``rows`` once a column was read."""

    def __init__(self, column: Callable[[int], FloatVector], device: Device) -> None:
        self._column, self._device = column, device
        np.empty(SPARE_VALUES)  # from here on the allocator keeps as much of what is freed
        self.rows = 0
        self._scales: dict[int, Scale] = {}
        self._pattern_of: dict[int, int] = {}
        # by packed bits, which rows miss a value
        self._patterns: dict[bytes, int] = {}
        self._placed: dict[int, Array] = {}
        self._knots: dict[tuple[int, int], FloatVector] = {}

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
        """The rows in which none of the patterns has a missing value, (n,); None if all rows."""
        wanted = {*patterns.tolist()}
        packed = [bits for bits, pattern in self._patterns.items() if pattern in wanted]
        if not packed:
            return None
        missing = np.bitwise_or.reduce([np.frombuffer(bits, dtype=np.uint8) for bits in packed])
        return ~np.unpackbits(missing, count=self.rows).view(np.bool_)

    def knots(self, variable: int, hinges: int) -> FloatVector:
        """Knots for so many hinges, in standard deviations, shape (hinges,)."""
        if (variable, hinges) not in self._knots:
            values = self.standard(variable)
            present = values[~np.isnan(values)]
            self._knots[variable, hinges] = knots(np.sort(present), hinges)
        return self._knots[variable, hinges]

    def numbers(self, variables: IndexArray, hinges: int = 0) -> Numbers:
        """The columns of some variables, shape (k,), to be read in standard deviations."""
        chosen = variables.tolist()
        columns = [self._on_device(variable) for variable in chosen]
        scales = np.array([self._scales[variable] for variable in chosen])
        at = np.zeros((0, len(chosen)))
        if hinges:
            at = np.array([self.knots(variable, hinges) for variable in chosen]).T
        return Numbers(columns, *(like(each[..., None], columns[0]) for each in (scales.T, at)))

    def placed(self, values: NDArray[Any]) -> Array:
        """The array on the device that computes with the columns."""
        return placed(values, self._device)

    def whole(self, width: int) -> bool:
        """Whether all rows of ``width`` columns are one block."""
        return width * self.rows <= WHOLE_VALUES and self.rows <= WHOLE_ROWS

    def rows_at_once(self, width: int) -> int:
        """The number of rows of a block of ``width`` columns: all rows if they are few."""
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


Rows = tuple[Array, Array | None]
"""A block of rows, 0 in incomplete ones, and which are complete, (r,); None if all are."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Numbers, and their curves behind them, centred over the rows that have all of them.

    The k ``numbers``, of ascending ``variables``, give m columns, with curves if ``basis`` has
    any. Each column has a mean (``origin``), a deviation, and its inverse in ``scales``, (m,), 0 if
    constant. ``complete`` marks the ``count`` rows that are used, (n,); None if all are. ``table``
    holds correlations, those of these columns at ``index``, or variances alone. ``held`` has all
    rows as one block if they are few.
    """

    source: StandardColumns
    numbers: Numbers
    variables: IndexArray
    basis: Basis
    complete: Array | None
    count: int
    origin: FloatVector
    deviations: FloatVector
    scales: FloatVector
    table: FloatArray
    index: IndexArray
    held: Rows | None = None

    @classmethod
    def over(
        cls,
        source: StandardColumns,
        variables: IndexArray,
        complete: BoolVector | None,
        basis: Basis,
        *,
        crossed: bool,
    ) -> Columns:
        """Columns of ascending variables over complete rows, with correlations if ``crossed``."""
        count = source.rows if complete is None else int(complete.sum())
        rows = None if complete is None else source.placed(complete)
        zeros = np.zeros(len(variables) * (1 + basis.curves))
        index = np.arange(len(zeros))
        numbers = source.numbers(variables, basis.hinges)
        over = source, numbers, variables, basis, rows, count
        made = cls(*over, zeros, zeros, zeros, zeros, index)
        for _ in range(2):
            mean, table = made._moments(crossed=crossed)
            made = replace(made, origin=made.origin + mean)
            variance = table.diagonal() if crossed else table
            # squares far from the mean would lose its digits
            if (variance >= WELL_CENTRED * mean**2).all():
                break
        varies = variance > (LEAST_REST * made.origin) ** 2
        deviations = np.where(varies, np.sqrt(np.maximum(variance, 0.0)), 0.0)
        scales = np.where(varies, 1.0 / np.where(varies, deviations, 1.0), 0.0)
        made = replace(made, deviations=deviations, scales=scales)
        if crossed:
            table *= made.scales
            table *= made.scales[:, None]
        held = next(made.blocks()) if source.whole(len(zeros)) else None
        return replace(made, table=table, held=held)

    def of(self, variables: IndexArray, basis: Basis) -> Columns:
        """The columns of some of the numbers; their correlations are not computed again."""
        places = np.searchsorted(self.variables, variables)
        columns = self.regressors(places[None], basis)[0]
        return replace(
            self,
            numbers=self.source.numbers(variables, basis.hinges),
            variables=variables,
            basis=basis,
            origin=self.origin[columns],
            deviations=self.deviations[columns],
            scales=self.scales[columns],
            index=self.index[columns],
        )

    def correlations(
        self, regressors: IndexArray, numbers: IndexArray
    ) -> tuple[FloatArray, FloatArray]:
        """Correlations among the regressors, (U, m, m), and of numbers with them, (U, d, m)."""
        if self.table.ndim > 1 or self.held is None:
            places, others = self.index[regressors], self.index[numbers]
            among = self.table[places[:, :, None], places[:, None]]
            return among, self.table[others[:, :, None], places[:, None]]
        block, _ = self.held
        given = block[like(regressors, block)]
        turned, scales = given.swapaxes(1, 2), self.scales[regressors][:, None]
        among = host(given @ turned) * (scales * scales.swapaxes(1, 2) / self.count)
        across = host(block[like(numbers, block)] @ turned)
        return among, across * (scales * self.scales[numbers][:, :, None] / self.count)

    def regressors(self, given: IndexArray, basis: Basis) -> IndexArray:
        """The columns, (U, m), of sets of numbers, (U, k), and of their curves."""
        steps = len(self.variables) * np.arange(1 + basis.curves)
        return (given[:, None] + steps[:, None]).reshape(len(given), -1)

    def blocks(self, others: int = 0) -> Iterator[Rows]:
        """Yield blocks of rows, (m, r), which with ``others`` more columns fit a cache.

        Incomplete rows are 0; the complete ones of a block come with it, as in `Rows`.
        """
        if self.held is not None:
            yield self.held
            return
        size = self.source.rows_at_once(len(self.origin) + others)
        origin = self.source.placed(self.origin[:, None])
        for start in range(0, self.source.rows, size):
            part = slice(start, start + size)
            block = self.numbers.rows(part)
            xp, counts = functions_of(block), None
            if self.basis.curves:
                block = xp.concatenate([block, *curves(block, self.basis, self.numbers.knots)])
            block -= origin
            if self.complete is not None:
                counts = self.complete[part]
                block = xp.where(counts, block, 0.0)
            yield block, counts

    def _moments(self, *, crossed: bool) -> tuple[FloatVector, FloatArray]:
        """Means, and covariances if ``crossed``, else variances."""
        total, second = 0.0, 0.0
        for block, _ in self.blocks():
            total = total + block.sum(axis=1)
            second = second + (block @ block.T if crossed else dots(block, block))
        mean, products = (host(each) / self.count for each in (total, second))
        products -= np.outer(mean, mean) if crossed else mean**2
        return mean, products


def dots(first: Array, second: Array) -> Array:
    """The sums of the products of two arrays' rows, shape (k,) of (k, n)."""
    return functions_of(first).einsum("ij,ij->i", first, second)
