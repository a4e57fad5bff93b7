"""About where a site's numbers lie and how far they spread, too coarsely to tell of few rows.

Leaks:
    Nothing: an answer stays inside the site until it is protected.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cipherdag.questions.pooled_data import PLACE_EXPONENT

if TYPE_CHECKING:
    from cipherdag.questions.encodings import FloatVector

LARGEST_PLACE = 2.0**900  # beyond it a mark of place no longer grows, so that it stays finite
LEAST_SPREAD = 2.0**-45  # of the largest value: less is rounding
PLACE_STEP = 2
"""A place is told to 2**-2 of the power of two next to the standard deviation."""
FAR_STEP = 8
"""Values that few rows dominate widen a spread to a multiple of 8 at most, and by 8 at most."""
MOST = 0.5

Marks = tuple[float, tuple[float, float], tuple[float, float]]
NO_MARKS: Marks = (0.0, (0.0, 0.0), (0.0, 0.0))


def marks_of(present: FloatVector, least: int) -> Marks:
    """Marks of place, of spread, and of size where there is no spread; the latter two with 1.

    Spread and size are whole powers of two. All are 0 without values, where all of them are 0, and
    of fewer than ``least``.
    """
    largest = float(np.abs(present).max(initial=0.0))
    if largest == 0.0 or len(present) < least:
        return NO_MARKS
    near = drawn_in(present, least)
    spread, size = _exponent(present, near), round(math.log2(largest))
    mean = float((near / largest).mean()) * largest
    within = max(-LARGEST_PLACE, min(mean, LARGEST_PLACE))
    drawn = _log_deviation(near)
    width = round(drawn) if drawn is not None else size if spread is None else spread
    step = width - PLACE_STEP
    rounded = math.ldexp(round(math.ldexp(within, -step)), step)
    place = math.asinh(math.ldexp(rounded, PLACE_EXPONENT))
    if spread is None:
        return place, (0.0, 0.0), (float(size), 1.0)
    return place, (float(spread), 1.0), (0.0, 0.0)


def drawn_in(values: FloatVector, least: int) -> FloatVector:
    """The values, in which fewer than ``least`` rows hold most of no sum of squares.

    Where they would, of squared distances from the median, they are drawn in to the distance of
    the next one; elsewhere all values stay.

    Args:
        values: No NaN, at least ``least`` of them.
        least: Smallest number of rows that may be told apart, but for 0.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if least <= 1 or largest == 0.0:
        return values
    exponent = math.frexp(largest)[1]
    scaled = np.ldexp(values, -exponent)  # exact, and no difference is infinite
    middle = float(np.median(scaled))
    distance = np.abs(scaled - middle)
    reach = float(np.partition(distance, -least)[-least])
    unit = max(float(distance.max()), np.finfo(np.float64).tiny)
    near = np.minimum(distance, reach) / unit
    if (near**2).sum() >= MOST * ((distance / unit) ** 2).sum():
        return values
    bounds = np.ldexp([middle - reach, middle + reach], exponent)
    drawn: FloatVector = np.where(distance > reach, np.clip(values, *bounds), values)
    return drawn


def _exponent(present: FloatVector, near: FloatVector) -> int | None:
    """The power of two that numbers spread by; None where they are one number."""
    own, drawn = _log_deviation(present), _log_deviation(near)
    if own is None or near is present:
        return None if own is None else round(own)
    coarse = math.ceil(own / FAR_STEP) * FAR_STEP
    return coarse if drawn is None else min(coarse, round(drawn) + FAR_STEP)


def _log_deviation(values: FloatVector) -> float | None:
    largest = float(np.abs(values).max(initial=0.0))
    deviation = float((values / largest).std()) if largest else 0.0
    return None if deviation <= LEAST_SPREAD else math.log2(deviation) + math.log2(largest)
