"""The columns of a site's table as codes and numbers, for relations between them to be looked for.

Leaks:
    Nothing leaves the site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cipherdag.sites.table.names import parse_number

if TYPE_CHECKING:
    from cipherdag.sites.table.site_table import SiteTable

Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]

MOST_CODES = 1000
"""Different numbers of a column that is taken for codes, too; and at most a quarter of its rows."""
SAMPLE = 2000
"""Rows by which columns of more different numbers are told."""
TWO_VALUES = 2


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """One column, of n rows.

    Attributes:
        name: Of the variable.
        number: Its numbers, NaN where missing, shape (n,), of numbers, categories that are numbers,
            and two categories (0 and 1); else None.
        codes: Codes of its categories or different numbers, -1 where missing, shape (n,); None
            where these are too many to occur again and again.
        continuous: Whether the schema says that it holds numbers.
    """

    name: str
    number: Numbers | None = field(repr=False)
    codes: Codes | None = field(repr=False)
    continuous: bool

    @cached_property
    def counts(self) -> Codes:
        """How many rows each code has that occurs."""
        assert self.codes is not None, "a column of few values"
        counts = np.bincount(self.codes[self.codes >= 0])
        return counts[counts > 0]

    @property
    def varies(self) -> bool:
        """Whether it holds two different values."""
        return self.codes is None or len(self.counts) > 1

    @property
    def two_valued(self) -> bool:
        """Whether it holds just two different values."""
        return self.codes is not None and len(self.counts) == TWO_VALUES


def comparable(entry: ColumnValues) -> Numbers:
    """Its numbers, or else its codes, NaN where missing, shape (n,)."""
    if entry.number is not None:
        return entry.number
    assert entry.codes is not None, "a column has codes or numbers"
    return np.where(entry.codes < 0, np.nan, entry.codes)


def column_values(tables: Sequence[SiteTable]) -> list[ColumnValues]:
    """The columns that vary, of all rows of tables of one schema."""
    found = []
    for position, column in enumerate(tables[0].schema.variables):
        if column.cardinality == 0:
            number = np.concatenate([entry.values[:, position] for entry in tables])  # type: ignore[index]
            entry = ColumnValues(column.name, number, _few(number), continuous=True)
        else:
            codes = np.concatenate([entry.codes[:, position] for entry in tables])  # type: ignore[index]
            codes = codes.astype(np.int64)
            known = [parse_number(text) for text in column.categories]
            entry = ColumnValues(column.name, _numbers(codes, known), codes, continuous=False)
        if entry.varies:
            found.append(entry)
    return found


def _few(number: Numbers) -> Codes | None:
    """Codes of numbers that occur again and again."""
    most = min(MOST_CODES, len(number) // 4)
    some = number[:: max(1, len(number) // SAMPLE)]
    if len(np.unique(some[~np.isnan(some)])) > most:
        return None
    there = ~np.isnan(number)
    distinct, place = np.unique(number[there], return_inverse=True)
    if len(distinct) > most:
        return None
    codes = np.full(len(number), -1, dtype=np.int64)
    codes[there] = place
    return codes


def _numbers(codes: Codes, known: Sequence[float | None]) -> Numbers | None:
    """Numbers of categories that are numbers, or two."""
    values = [entry for entry in known if entry is not None]
    if not known or len(values) < len(known):
        present = np.unique(codes[codes >= 0])
        if len(present) != TWO_VALUES:
            return None
        return np.where(codes < 0, np.nan, codes == present[1])
    return np.where(codes < 0, np.nan, np.array(values)[codes])
