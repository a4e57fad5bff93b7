"""A site's rows as codes and numbers, with missing values, and which columns have few values."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherdag.arrays import BoolVector, FloatVector, IndexArray
from cipherdag.sites.table.stored_rows import taken_rows

FEW_VALUES = 32
"""Sums of a numeric column of at most this many distinct values would disclose counts."""
FEW_LEVELS = 12
"""Numbers of at most this many distinct values are as categories to steps of models.

From steps of logistic regressions and of Cox models follow their joint tables with other columns.
"""
_FIRST_ROWS = 100  # rows that are looked at first; measurements have many values already in these

log = logging.getLogger("cipherdag.site")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows:
    """Rows of a site, n of them, over p variables; values may be missing.

    Codes, (n, p), are negative where missing and for numbers, ``values``, (n, p), NaN where missing
    and for categories; None without any. ``categories`` is 0 for a number. ``weights`` are about 1,
    (n,), where a site weighs its rows, and ``patients`` says whose visit a row is, (n,), if not all
    are persons.
    """

    codes: NDArray[np.integer] | None
    values: NDArray[np.float64] | None
    categories: tuple[int, ...]
    weights: FloatVector | None = None
    patients: IndexArray | None = None

    def __len__(self) -> int:
        array = self.values if self.codes is None else self.codes
        assert array is not None, "a table has codes or values"
        return len(array)

    def column(self, variable: int) -> FloatVector:
        """Codes or numbers of a variable as floats, NaN where missing, shape (n,)."""
        if self.categories[variable]:
            assert self.codes is not None, "a discrete variable has codes"
            column = self.codes[:, variable]
            return np.where(column >= 0, column, np.nan).astype(np.float64)
        assert self.values is not None, "a continuous variable has values"
        return np.asarray(self.values[:, variable])

    def missing(self, variable: int) -> BoolVector:
        """Which rows miss a value of a variable, shape (n,)."""
        if self.categories[variable]:
            assert self.codes is not None, "a discrete variable has codes"
            return np.asarray(self.codes[:, variable] < 0)
        assert self.values is not None, "a continuous variable has values"
        return np.isnan(self.values[:, variable])

    def complete(self, variables: Iterable[int]) -> BoolVector:
        """Which rows miss a value of none of these variables, shape (n,)."""
        complete = np.ones(len(self), dtype=bool)
        for variable in variables:
            complete &= ~self.missing(variable)
        return complete

    @property
    def filled(self) -> list[int]:
        """The variables of which some row has a value."""
        return [v for v in range(len(self.categories)) if not self.missing(v).all()]

    def take(self, chosen: BoolVector | IndexArray) -> Rows:
        """Some rows, by position or by mask, codes one column after the other in memory."""
        index = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        return Rows(
            None if self.codes is None else taken_rows(self.codes, index),
            None if self.values is None else self.values[index],
            self.categories,
            None if self.weights is None else self.weights[index],
            None if self.patients is None else self.patients[index],
        )


def has_levels(column: FloatVector, categories: int) -> bool:
    """Whether a column is of categories, or of numbers that repeat few values, shape (n,)."""
    if categories:
        return True
    few = len(np.unique(column[:_FIRST_ROWS])) <= FEW_LEVELS
    return few and len(np.unique(column)) <= min(FEW_LEVELS, len(column) - 1)


def smallest_cell(columns: Iterable[FloatVector], patients: IndexArray | None = None) -> int:
    """The smallest nonzero count of rows, or of patients, in the joint table of columns; or 0."""
    cell: IndexArray | None = None
    for column in columns:
        _, level = np.unique(column, return_inverse=True)
        # numbered anew each time, so that no product of many levels overflows
        joint = level if cell is None else cell * (int(level.max(initial=0)) + 1) + level
        cell = np.unique(joint, return_inverse=True)[1]
    if cell is None:
        return 0
    if patients is not None:
        cell = np.unique(np.column_stack([cell, patients]), axis=0)[:, 0]
    counts = np.bincount(cell)
    return int(counts[counts > 0].min(initial=len(cell)))


def few_valued(values: NDArray[np.float64]) -> BoolVector:
    """Which columns of numbers, shape (n, p), have few distinct values but NaN, shape (p,)."""
    few = _few(values[:_FIRST_ROWS].T)
    for v in np.flatnonzero(few).tolist():
        few[v] = _few(values[None, :, v])[0]
    return few


def repeated_values(values: NDArray[np.float64]) -> BoolVector:
    """Which columns have few distinct values, some of them in several rows, shape (p,)."""
    few = few_valued(values)
    for v in np.flatnonzero(few).tolist():
        # few rows have few measurements, too, but no two of these are equal
        few[v] = len(np.unique(values[:, v], equal_nan=False)) < len(values)
    return few


def _few(columns: NDArray[np.float64]) -> BoolVector:
    """Which columns have few distinct values, shape (k,), of columns of shape (k, n)."""
    ordered = np.sort(columns)  # what is missing comes last
    differ = (ordered[:, 1:] != ordered[:, :-1]) & ~np.isnan(ordered[:, 1:])
    return differ.sum(axis=1) < FEW_VALUES


def log_left_out(rows: int, complete: int) -> None:
    """Log how many rows a site's scores leave out, as they miss a value, if any do."""
    if complete < rows:
        log.warning("%d of %d rows miss a value; scores leave them out", rows - complete, rows)
