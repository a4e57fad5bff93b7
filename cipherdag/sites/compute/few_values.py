"""Which columns have few distinct values, so that sums over them are counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector

FEW_VALUES = 32
"""A column of numbers of no more distinct values tells counts."""
_SOME = 100  # rows: of measurements they hold many values, and no more are looked at


def few_valued(codes: NDArray[np.integer] | None, values: NDArray[np.float64] | None) -> BoolVector:
    """Which columns are categories, or numbers with few distinct values, shape (p,).

    Args:
        codes: Codes, shape (n, p), negative where missing; None of numbers.
        values: Numbers, shape (n, p), NaN where missing; None of categories.
    """
    if values is None:
        assert codes is not None, "a table has codes or values"
        return np.ones(codes.shape[1], dtype=bool)
    few = _few(values[:_SOME].T)
    for v in np.flatnonzero(few).tolist():
        few[v] = _few(values[None, :, v])[0]
    return few


def repeated_values(values: NDArray[np.float64]) -> BoolVector:
    """Which columns have few distinct values, and rows that are alike in them, shape (p,).

    Args:
        values: Numbers, shape (n, p), NaN where missing.
    """
    few = few_valued(None, values)
    for v in np.flatnonzero(few).tolist():
        # of few rows measurements are few, too, but no two are alike
        few[v] = len(np.unique(values[:, v], equal_nan=False)) < len(values)
    return few


def _few(columns: NDArray[np.float64]) -> BoolVector:
    """Which columns have few distinct values, shape (k,), of columns of shape (k, n)."""
    ordered = np.sort(columns)  # what is missing comes last
    differ = (ordered[:, 1:] != ordered[:, :-1]) & ~np.isnan(ordered[:, 1:])
    return differ.sum(axis=1) < FEW_VALUES
