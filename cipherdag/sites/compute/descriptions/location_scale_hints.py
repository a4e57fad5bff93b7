"""Coarse hints of the origin and unit to sum a site's numbers in, and their exact moments."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from cipherdag.arrays import BoolVector, FloatMatrix, FloatVector
from cipherdag.errors import MalformedMessageError
from cipherdag.questions.pooled_data import LOCATION_EXPONENT, Moments
from cipherdag.sites.compute.device import PROCESSOR, ROW_BLOCK, Device, placed
from cipherdag.statistics.array_functions import average, functions_of, host, in_units, like

LARGEST_LOCATION = 2.0**900  # beyond it a hint of location no longer grows
LEAST_SPREAD = 2.0**-45  # of the largest value: less is rounding
LOCATION_STEP = 2
"""A location is rounded to 2**-2 of the power of two next to the standard deviation."""
FAR_STEP = 8
"""Where few rows dominate, an exponent rises to a multiple of 8, at most 8 over the winsorised."""
MOST = 0.5  # of a sum of squares
FAR_OFF = 10.0
"""How many times as far from the median as all others a value lies that may be a typing error."""

Hints = tuple[float, tuple[float, float], tuple[float, float]]  # location, (spread, 1), (size, 1)
NO_HINTS: Hints = (0.0, (0.0, 0.0), (0.0, 0.0))
BLOCK_VALUES = 2**17
"""Values of several columns that are looked at together, if they have as many rows."""


def column_hints(columns: Iterable[FloatVector], min_cell_size: int) -> FloatMatrix:
    """`hints_of` of every column, none of which has a NaN: `Hints` as rows, shape (5, columns)."""
    hints: list[Hints] = []
    for block in column_blocks(columns):
        hints += hints_of(np.stack(block), min_cell_size)
    numbers = [(location, *spread, *size) for location, spread, size in hints]
    return np.array(numbers, dtype=np.float64).reshape(-1, 5).T


def column_blocks(columns: Iterable[FloatVector]) -> Iterator[list[FloatVector]]:
    """Columns of as many rows as their neighbours, few at a time."""
    block: list[FloatVector] = []
    for column in columns:
        full = block and (len(column) != len(block[0]) or len(block) * len(column) >= BLOCK_VALUES)
        if full:
            yield block
            block = []
        block.append(column)
    if block:
        yield block


def hints_of(columns: FloatMatrix, min_cell_size: int) -> list[Hints]:
    """Hints of location and spread of columns, shape (k, n); of size where nothing varies.

    Spread and size are binary exponents, followed by 1; both are 0 for the one that is not given.
    All are 0 where all values are 0, or there are fewer than ``min_cell_size``.
    """
    if columns.shape[1] < max(min_cell_size, 1):
        return [NO_HINTS] * len(columns)
    largest = np.abs(columns).max(axis=1)
    near, clipped = _winsorised(columns, min_cell_size)
    spreads = _log_deviations(columns)
    widths = _log_deviations(near) if clipped.any() else spreads
    mean = (near / np.where(largest > 0.0, largest, 1.0)[:, None]).mean(axis=1) * largest
    scalars = zip(largest.tolist(), mean.tolist(), spreads, widths, clipped.tolist(), strict=True)
    return [_hints(*scalar) for scalar in scalars]


def _hints(
    largest: float, mean: float, spread: float | None, width: float | None, clipped: bool
) -> Hints:
    """The hints of one column from log deviations: ``spread``, and ``width`` once winsorised."""
    if largest == 0.0:
        return NO_HINTS
    exponent, size = _exponent(spread, width, clipped=clipped), round(math.log2(largest))
    bounded = max(-LARGEST_LOCATION, min(mean, LARGEST_LOCATION))
    power = round(width) if width is not None else size if exponent is None else exponent
    step = power - LOCATION_STEP
    rounded = math.ldexp(round(math.ldexp(bounded, -step)), step)
    location = math.asinh(math.ldexp(rounded, LOCATION_EXPONENT))
    if exponent is None:
        return location, (0.0, 0.0), (float(size), 1.0)
    return location, (float(exponent), 1.0), (0.0, 0.0)


def winsorise(values: FloatVector, min_cell_size: int) -> FloatVector:
    """Winsorise numbers of which fewer than ``min_cell_size`` rows hold most of a sum of squares.

    Where they would, of squared distances from the median, they are drawn in to the distance of
    the next one; elsewhere all values stay.
    """
    near, clipped = _winsorised(values[None], min_cell_size)
    return near[0] if clipped[0] else values


def far_off(values: FloatVector, min_cell_size: int) -> bool:
    """Whether fewer than ``min_cell_size`` numbers lie `FAR_OFF` times as far off as all others.

    Distances are from the median, those of 0 left out; half of them lie before the gap.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(values - np.median(values)) if len(values) else values
        distance = np.sort(distance[distance > 0.0])
        typical = distance >= np.median(distance) if len(distance) else distance > 0.0
        far = typical[:-1] & (distance[1:] > FAR_OFF * distance[:-1])
    return bool(far[-min_cell_size + 1 :].any()) if min_cell_size > 1 else False


def _winsorised(columns: FloatMatrix, min_cell_size: int) -> tuple[FloatMatrix, BoolVector]:
    """`winsorise` of columns, shape (k, n), and whether each was changed, shape (k,)."""
    if min_cell_size <= 1:
        return columns, np.zeros(len(columns), dtype=bool)
    exponent = np.frexp(np.abs(columns).max(axis=1, initial=0.0))[1]
    scaled = np.ldexp(columns, -exponent[:, None])  # exact, and no difference is infinite
    middle = np.median(scaled, axis=1)
    distance = np.abs(scaled - middle[:, None])
    reach = np.partition(distance, -min_cell_size, axis=1)[:, -min_cell_size]
    unit = np.maximum(distance.max(axis=1), np.finfo(np.float64).tiny)[:, None]
    near = np.minimum(distance, reach[:, None]) / unit
    clipped: BoolVector = (near**2).sum(axis=1) < MOST * ((distance / unit) ** 2).sum(axis=1)
    if not clipped.any():
        return columns, clipped
    result = columns.copy()
    for row in np.flatnonzero(clipped).tolist():
        ends = [middle[row] - reach[row], middle[row] + reach[row]]
        bounds = np.ldexp(ends, exponent[row])
        far = distance[row] > reach[row]
        result[row] = np.where(far, np.clip(columns[row], *bounds), columns[row])
    return result, clipped


def _exponent(spread: float | None, width: float | None, *, clipped: bool) -> int | None:
    """The binary exponent of the numbers' scale; None where they are constant."""
    if spread is None or not clipped:
        return None if spread is None else round(spread)
    coarse = math.ceil(spread / FAR_STEP) * FAR_STEP
    return coarse if width is None else min(coarse, round(width) + FAR_STEP)


def _log_deviations(columns: FloatMatrix) -> list[float | None]:
    """The binary logarithm of every column's standard deviation; None where that is rounding."""
    largest = np.abs(columns).max(axis=1)
    deviation = (columns / np.where(largest > 0.0, largest, 1.0)[:, None]).std(axis=1)
    return [
        None if spread <= LEAST_SPREAD else math.log2(spread) + math.log2(size)
        for spread, size in zip(deviation.tolist(), largest.tolist(), strict=True)
    ]


def moments_of(
    question: Moments,
    values: FloatMatrix,
    weights: FloatVector | None,
    device: Device,
    worth: FloatVector | None = None,
) -> FloatVector:
    """Rows, sums, products and logarithms of columns, as `Moments` has them, of values (n, p).

    Rows are weighed for centred columns alone. They count as one each, or as what they are
    ``worth``, shape (n,), which adds up to a whole number. MalformedMessageError where a column
    misses values.
    """
    positions, rows = question.positions(), len(values)
    if worth is not None:
        weights = worth if weights is None else weights * worth
    sums, products = np.zeros(len(positions)), np.zeros((len(positions),) * 2)
    origin, roots = question.origin_array(), None
    columns: Any = positions
    if device != PROCESSOR:
        values, columns = placed(values[:, positions], device), slice(None)
        sums, products, origin = (like(array, values) for array in (sums, products, origin))
        weights = None if weights is None else like(weights, values)
    if question.centred and rows:
        origin = average(values[:, columns], weights)
        roots = None if weights is None else functions_of(weights).sqrt(weights)[:, None]
    for start in range(0, rows, ROW_BLOCK):
        taken = slice(start, start + ROW_BLOCK)
        block = in_units(values[taken, columns] - origin, question.unit_array())
        if functions_of(block).isnan(block).any():
            raise MalformedMessageError("moments of a column in which the site misses values")
        if roots is None:
            sums += block.sum(axis=0)
        else:  # about a weighted mean the weighted sum is 0
            block *= roots[taken]
        products += block.T @ block
    matrix, logarithms = host(products), np.zeros(0)
    rows = rows if worth is None else round(float(worth.sum()))
    if question.centred:
        variances = np.diag(matrix) / max(rows, 1)
        varies = variances > 0.0
        logarithms = rows * np.log2(np.where(varies, variances, 1.0))
        scaled = varies & np.frombuffer(question.standardised or bytes(len(positions)), dtype=bool)
        scale = np.where(scaled, 1.0 / np.sqrt(np.where(varies, variances, 1.0)), 1.0)
        matrix = matrix * scale * scale[:, None]
    upper = matrix[np.triu_indices(len(positions))]
    return np.concatenate([[float(rows)], host(sums), upper, logarithms])
