"""Columns of tables as codes and numbers, and which of them follow from one or two others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cipherdag.sites.table.names import parse_number
from cipherdag.sites.table.site_table import SiteTable

Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]

MOST_CODES = 1000
"""Different numbers of a column that is taken for codes, too; and at most a quarter of its rows."""
SAMPLE = 2000
"""Rows by which columns of more different numbers are told."""
TWO_VALUES = 2
Step = tuple[int, int]
"""The second column follows from the first, by position."""
CHANCE = -40.0
"""Logarithm of the chance, were they independent, above which a relation is none."""
MIXED_ROWS, CONTRADICTIONS = 20, 5.0
"""Rows, and what chance expects of these, that would have contradicted what follows from two."""
MOST_JOINED = 64
"""Columns of few values up to which pairs of them are looked at."""
FEW_ROWS = 400
"""Rows that rule most pairs out before all rows are looked at."""


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """One column of n rows as numbers, NaN where missing, and as codes, -1 where missing.

    Numbers are those of continuous columns, of categories that are numbers, and of two categories
    (0 and 1); else None. Codes are None where values are too many to occur again and again.
    """

    name: str
    number: Numbers | None = field(repr=False)
    codes: Codes | None = field(repr=False)
    continuous: bool

    @cached_property
    def counts(self) -> Codes:
        """The number of rows of each code that occurs."""
        assert self.codes is not None, "a column of few values"
        counts = np.bincount(self.codes[self.codes >= 0])
        return counts[counts > 0]

    @property
    def varies(self) -> bool:
        """True if the column holds two different values."""
        return self.codes is None or len(self.counts) > 1

    @property
    def two_valued(self) -> bool:
        """True if the column holds exactly two different values."""
        return self.codes is not None and len(self.counts) == TWO_VALUES


def comparable(entry: ColumnValues) -> Numbers:
    """The numbers, or else the codes, NaN where missing, shape (n,)."""
    if entry.number is not None:
        return entry.number
    assert entry.codes is not None, "a column has codes or numbers"
    return np.where(entry.codes < 0, np.nan, entry.codes)


def column_values(tables: Sequence[SiteTable]) -> list[ColumnValues]:
    """The columns that vary, of all rows of tables of one schema."""
    values = []
    for position, column in enumerate(tables[0].schema.variables):
        if column.cardinality == 0:
            number = np.concatenate([entry.values[:, position] for entry in tables])  # type: ignore[index]
            entry = ColumnValues(column.name, number, _few(number), continuous=True)
        else:
            codes = np.concatenate([entry.codes[:, position] for entry in tables])  # type: ignore[index]
            codes = codes.astype(np.int64)
            numerals = [parse_number(text) for text in column.categories]
            entry = ColumnValues(column.name, _numbers(codes, numerals), codes, continuous=False)
        if entry.varies:
            values.append(entry)
    return values


def _few(number: Numbers) -> Codes | None:
    """Codes of numbers that occur again and again."""
    most = min(MOST_CODES, len(number) // 4)
    some = number[:: max(1, len(number) // SAMPLE)]
    if len(np.unique(some[~np.isnan(some)])) > most:
        return None
    there = ~np.isnan(number)
    distinct, inverse = np.unique(number[there], return_inverse=True)
    if len(distinct) > most:
        return None
    codes = np.full(len(number), -1, dtype=np.int64)
    codes[there] = inverse
    return codes


def _numbers(codes: Codes, numerals: Sequence[float | None]) -> Numbers | None:
    """Numbers of categories that are numbers, or two."""
    values = [entry for entry in numerals if entry is not None]
    if not numerals or len(values) < len(numerals):
        present = np.unique(codes[codes >= 0])
        if len(present) != TWO_VALUES:
            return None
        return np.where(codes < 0, np.nan, codes == present[1])
    return np.where(codes < 0, np.nan, np.array(values)[codes])


def steps(columns: Sequence[ColumnValues]) -> set[Step]:
    """The pairs of columns of which one determines the other in every row, beyond chance."""
    if not columns:
        return set()
    few = _few_rows(columns[0])
    return {*_by_codes(columns, few), *_by_order(columns, few)}


def _by_codes(columns: Sequence[ColumnValues], few: Codes) -> Iterator[Step]:
    coded = [v for v, entry in enumerate(columns) if entry.codes is not None]
    if not coded:
        return
    sample = np.column_stack([columns[v].codes[few] for v in coded])  # type: ignore[index]
    for index, a in enumerate(coded):
        entry = sample[:, index]
        for other in _may_follow(sample, entry):
            if other != index and _determined_by(columns[a].codes, columns[coded[other]].codes):
                yield a, coded[other]


def joint_steps(
    columns: Sequence[ColumnValues], pairwise: set[Step], sites: Codes
) -> Iterator[tuple[int, ...]]:
    """Columns that follow from two others together and from neither alone, each after the two.

    Rows of two sites have to show it, where ``sites``, shape (n,), has several. Of more than
    `MOST_JOINED` columns of few values none is looked for.
    """
    coded = {v: entry.codes for v, entry in enumerate(columns) if entry.codes is not None}
    if not 0 < len(coded) <= MOST_JOINED:
        return
    few = _few_rows(next(columns[v] for v in coded))
    sample = np.column_stack([codes[few] for codes in coded.values()])
    for (i, a), (j, b) in combinations(enumerate(coded), 2):
        for index in _may_follow(sample, _joined(sample[:, i], sample[:, j])):
            then = [*coded][index]
            alone = {(a, then), (b, then), (a, b), (b, a)} & pairwise
            one, other, third = (coded[v] for v in (a, b, then))
            if (
                then not in (a, b)
                and not alone
                and _determined_by(_joined(one, other), third)
                and _needed(np.column_stack([one, other, third, sites]))
                and _needed(np.column_stack([other, one, third, sites]))
            ):
                yield a, b, then


def _joined(one: Codes, other: Codes) -> Codes:
    """One code for each pair of codes of two columns; -1 where either is missing."""
    return np.where((one < 0) | (other < 0), -1, one * (int(other.max()) + 1) + other)


def _needed(codes: Codes) -> bool:
    """True if rows show, whichever site is left out, that a third column needs the first one.

    Columns are the first, the second, the third and the site. Rows that agree in the second are
    mixed where they have several codes of the third. Were these dealt out by chance, some rows that
    agree in both would differ in the third.
    """
    codes = codes[(codes >= 0).all(axis=1)]
    held = np.unique(codes[:, 3])
    for site in held if len(held) > 1 else (-1,):
        rows = codes[codes[:, 3] != site]
        cell = np.unique(rows[:, 1], return_inverse=True)[1]
        counts = np.zeros((int(cell.max(initial=0)) + 1, int(rows[:, 2].max(initial=0)) + 1))
        np.add.at(counts, (cell, rows[:, 2]), 1.0)
        differ = 1.0 - ((counts / counts.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
        _, first, agreeing = np.unique(rows[:, :2], axis=0, return_index=True, return_counts=True)
        chance = differ[cell[first]]  # that two rows of a mixed cell differ
        mixed = agreeing[(chance > 0.0) & (agreeing > 1)].sum()
        if mixed < MIXED_ROWS or ((agreeing - 1) * chance).sum() <= CONTRADICTIONS:
            return False
    return True


def _determined_by(given: Codes | None, codes: Codes | None) -> bool:
    """True if each code of one column has a single code of the other, beyond chance."""
    assert given is not None and codes is not None  # noqa: PT018 - of columns of few values
    both = (given >= 0) & (codes >= 0)
    entry, then = given[both], codes[both]
    if not is_function(entry, then) or not len(entry):
        return False
    shares = np.bincount(then) / len(then)
    groups = np.bincount(entry)
    logs = np.log(shares[shares > 0])
    # a group of m rows agrees with the chance of the sum of all shares to the power of m
    sizes, times = np.unique(groups[groups > 0], return_counts=True)
    chances = np.array([np.logaddexp.reduce(size * logs) for size in sizes])
    return bool((times * chances).sum() < CHANCE)


def is_function(given: Codes, then: Codes) -> bool:
    """True if equal codes of one column have equal codes of the other, shape (n,) each."""
    if not len(given):
        return True
    width = int(then.max()) + 1
    return len(np.unique(given * width + then)) == len(np.unique(given))


def _by_order(columns: Sequence[ColumnValues], few: Codes) -> Iterator[Step]:
    """Columns that stand in few blocks, or in order, where rows are sorted by another's numbers."""
    numbers = [v for v, entry in enumerate(columns) if entry.continuous]
    if not numbers:
        return
    ranked = np.column_stack([_ranks(entry, few) for entry in columns])
    kinds = np.array([entry.continuous for entry in columns])
    for a in numbers:
        entry = ranked[:, a]
        sample = ranked[np.argsort(entry, kind="stable")][int((entry < 0).sum()) :]
        there = (sample[1:] >= 0) & (sample[:-1] >= 0)
        change = np.diff(sample, axis=0) * there
        ordered = (change >= 0).all(axis=0) | (change <= 0).all(axis=0)
        distinct = 1 + (np.diff(np.sort(sample, axis=0), axis=0) != 0).sum(axis=0)
        blocks = (change != 0).sum(axis=0) < 2 * distinct
        for b in np.flatnonzero(np.where(kinds, ordered, blocks)).tolist():
            if b != a and _in_order(columns[a], columns[b]):
                yield a, b


def _in_order(a: ColumnValues, b: ColumnValues) -> bool:
    """True if b is a monotone or a block-wise function of the numbers of a."""
    from scipy.special import gammaln

    assert a.number is not None, "a column of numbers"
    then: Numbers = b.number if b.continuous else b.codes.astype(np.float64)  # type: ignore[union-attr, assignment]
    missing = np.isnan(a.number) | (np.isnan(then) if b.continuous else then < 0)
    entry, then = a.number[~missing], then[~missing]
    order = np.lexsort((then, entry))
    entry, then = entry[order], then[order]
    change = np.diff(then)
    if (change[np.diff(entry) == 0] != 0).any():
        return False
    counts = np.unique(then, return_counts=True)[1]
    turns = len(counts)
    if b.continuous:
        if not ((change >= 0).all() or (change <= 0).all()):
            return False
        arrangements = np.log(2)
    else:
        if int((change != 0).sum()) != turns - 1:
            return False
        arrangements = gammaln(turns + 1)
    return bool(arrangements - gammaln(len(then) + 1) + gammaln(counts + 1).sum() < CHANCE)


def _ranks(entry: ColumnValues, few: Codes) -> Codes:
    """Whole numbers in the order of some rows' numbers, or their codes; -1 where missing."""
    if not entry.continuous:
        assert entry.codes is not None, "categories have codes"
        return entry.codes[few]
    assert entry.number is not None, "a column of numbers"
    number = entry.number[few]
    there = ~np.isnan(number)
    ranks = np.full(len(few), -1, dtype=np.int64)
    ranks[there] = np.unique(number[there], return_inverse=True)[1]
    return ranks


def _may_follow(sample: Codes, entry: Codes) -> list[int]:
    """The columns of a sample, (n, k), in which rows agree that agree in an entry, shape (n,)."""
    _, first, back = np.unique(entry, return_index=True, return_inverse=True)
    ahead = sample[first][back]
    fits = (sample == ahead) | (ahead < 0) | (sample < 0) | (entry < 0)[:, None]
    following: list[int] = np.flatnonzero(fits.all(axis=0)).tolist()
    return following


def _few_rows(entry: ColumnValues) -> Codes:
    held = entry.codes if entry.number is None else entry.number
    assert held is not None, "a column has codes or numbers"
    return np.unique(np.linspace(0, len(held) - 1, min(FEW_ROWS, len(held))).astype(np.int64))
