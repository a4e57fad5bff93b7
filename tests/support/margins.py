"""All tables with given margins, and how likely each is if rows and columns are independent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator


def fillings(total: int, room: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All rows of non-negative whole numbers of this sum, each at most the room that is left."""
    if not room:
        if total == 0:
            yield ()
        return
    for first in range(min(total, room[0]) + 1):
        for rest in fillings(total - first, room[1:]):
            yield (first, *rest)


def tables_of(rows: tuple[int, ...], columns: tuple[int, ...]) -> Iterator[tuple]:
    """All tables, as tuples of their rows."""
    if not rows:
        yield ()
        return
    for first in fillings(rows[0], columns):
        left = tuple(have - used for have, used in zip(columns, first, strict=True))
        for rest in tables_of(rows[1:], left):
            yield (first, *rest)


def exact_moments(rows: tuple[int, ...], columns: tuple[int, ...]) -> tuple[float, float]:
    """Mean and variance of Pearson's chi-square times (n - 1) / n, over all tables."""
    total = sum(rows)
    expected = np.outer(rows, columns) / total
    chances, values = [], []
    ways = math.prod(map(math.factorial, (*rows, *columns)))
    for table in tables_of(rows, columns):
        cells = np.array(table)
        product = math.factorial(total) * math.prod(math.factorial(own) for own in cells.flat)
        chances.append(ways / product)
        values.append(((cells - expected) ** 2 / expected).sum() * (total - 1) / total)
    assert math.isclose(sum(chances), 1.0)
    mean = np.dot(chances, values)
    return float(mean), float(np.dot(chances, (np.array(values) - mean) ** 2))
