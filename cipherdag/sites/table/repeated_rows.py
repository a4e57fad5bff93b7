"""Rows that repeat another one in every column, and whether they look like copies.

Leaks:
    Nothing: the number of such rows is for the site's own screen.
"""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cipherdag.sites.table.site_table import SiteTable

FEWEST_KINDS = 20
"""Different rows from which on it is no chance that each stands there twice, or three times."""
FEWEST_COPIES = 3
MOST_BY_CHANCE = 0.1
"""Share of the pairs of equal rows that chance may explain, as if columns were independent: where
they are not, it explains more. At 0.1 fifteen answers that follow one trait are no copies yet."""
MOST_COLUMNS = 50
"""Up to which is asked whether one is determined by others, such as an index by two sizes."""
GROUPS = 5  # of columns: fewer leave too few columns over, more take longer
MISSING = float(np.finfo(np.float64).max)
FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Odd, so that no two numbers of 64 bits have one product (Steele et al., SplitMix, 2014)."""


@dataclass(frozen=True, slots=True)
class RepeatedRows:
    """How many rows repeat an earlier one, and whether chance does not explain them."""

    rows: int
    copied: bool


def repeated_rows(table: SiteTable) -> RepeatedRows:
    """Count the rows that repeat another, a patient's key included.

    Pairs that agree in all columns but one say how many agree in this one by chance, too; of
    copies there are hardly any such pairs, whichever column is left out before.
    """
    marks = _marks(table)
    whole = marks.sum(axis=0, dtype=np.uint64)
    times = np.unique(whole, return_counts=True)[1]
    rows = table.rows - len(times)
    if len(times) >= FEWEST_KINDS and np.gcd.reduce(times) > 1:
        return RepeatedRows(rows, copied=True)
    if not FEWEST_COPIES <= rows <= table.rows // 2:
        return RepeatedRows(rows, copied=False)
    pairs, every = _pairs(whole), table.rows * (table.rows - 1) / 2.0
    agreeing = np.array([_pairs(each) / every for each in marks])
    copied = _by_chance(whole, marks, agreeing) <= MOST_BY_CHANCE * pairs
    if copied and len(marks) <= MOST_COLUMNS:  # a column that others determine hides what is chance
        determined = [at for at, each in enumerate(marks) if _pairs(whole - each) == pairs]
        near = _near(whole, marks)  # no other rows agree in all columns but two
        whole, marks = whole[near], marks[:, near]
        copied = all(
            _by_chance(whole - marks[at], np.delete(marks, at, axis=0), np.delete(agreeing, at))
            <= pairs / 2.0
            for at in determined
        )
    return RepeatedRows(rows, copied=copied)


def _near(whole: NDArray[np.uint64], marks: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Positions of the rows that may agree with a different one in all columns but two.

    The two are of two groups of columns at most, without which such rows agree.
    """
    kinds, first, kind = np.unique(whole, return_index=True, return_inverse=True)
    groups = [marks[at::GROUPS, first].sum(axis=0, dtype=np.uint64) for at in range(GROUPS)]
    near = np.zeros(len(kinds), dtype=bool)
    for one, other in combinations(groups, 2):
        _, rest, times = np.unique(kinds - one - other, return_inverse=True, return_counts=True)
        near |= times[rest] > 1
    return np.flatnonzero(near[kind])


def _by_chance(
    whole: NDArray[np.uint64], marks: NDArray[np.uint64], agreeing: NDArray[np.float64]
) -> float:
    """How many pairs of rows agree by chance in one column more, of which these shares agree."""
    pairs = _pairs(whole)
    return sum(
        (_pairs(whole - each) - pairs) * agree / (1.0 - agree)
        for each, agree in zip(marks, agreeing, strict=True)
        if agree < 1.0
    )


def _pairs(marks: NDArray[np.uint64]) -> float:
    """How many pairs of rows have one mark."""
    times = np.unique(marks, return_counts=True)[1].astype(np.float64)
    return float((times * (times - 1.0)).sum() / 2.0)


def row_marks(table: SiteTable) -> NDArray[np.uint64]:
    """A number for each row, whoever's it is, shape (n,), equal for equal rows and hardly else."""
    return _marks(replace(table, patients=None)).sum(axis=0, dtype=np.uint64)


def _marks(table: SiteTable) -> NDArray[np.uint64]:
    """A number for each cell, shape (columns, n); a patient's key is the last column."""
    parts = (table.codes, table.values, None if table.patients is None else table.patients[:, None])
    columns = [column.astype(np.float64) for part in parts if part is not None for column in part.T]
    return np.array([_mixed(column, at) for at, column in enumerate(columns, start=1)])


def _mixed(column: NDArray[np.float64], position: int) -> NDArray[np.uint64]:
    """A number for each cell, shape (n,), equal for equal cells of this column alone."""
    bits = (np.nan_to_num(column, nan=MISSING) + 0.0).view(np.uint64)  # -0 is 0
    for factor in FACTORS:
        bits = (bits + np.uint64(position)) * factor
        bits ^= bits >> np.uint64(29)
    return bits
