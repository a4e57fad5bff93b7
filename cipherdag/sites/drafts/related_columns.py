"""Which columns of a site are functions of others: what a person looks at, and a schema declares.

Copies, a code and its name, a category and its dummies, categories that are made of finer ones or
cut from numbers, one-hot sets, and numbers with a constant sum or product, rounded ones among them.
In a search for sums columns join one after the other an independent set; of one that lies in its
span the weights name the set that it follows from (a fundamental circuit; Oxley, Matroid Theory,
2011, section 1.2).

Leaks:
    Nothing leaves the site. A relation names columns, and no value and no number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cipherdag.graphs.relations import FEWEST_ONE_HOT, Form, Relation
from cipherdag.sites.drafts.column_values import (
    ColumnValues,
    Step,
    column_values,
    comparable,
    is_function,
    joint_steps,
    steps,
)
from cipherdag.sites.table.site_table import SiteTable

Numbers = NDArray[np.float64]

EXACT = 1e-6
"""What is left of a column, in its standard deviations, where it follows from others."""
ROUNDED = 0.1
"""Last digit of a column, in its standard deviations, up to which it may be a rounded sum."""
WEIGHTS = 1e-4
"""Of columns in standard deviations, below which one has no part in a sum."""
ROUNDED_WEIGHTS = 0.02
MORE_ROWS = 20
"""Rows beyond the columns, without which any columns have a constant sum."""
MOST_ROWS = 5000
MOST_COLUMNS = 600
MOST_DIGITS = 4
FEWEST_TOGETHER = 20.0
"""Rows with two events, were these independent, without which nobody knows that none has both."""
PAIR = 2
FEWEST_DUMMIES = 2
NEARLY = 0.1
"""Standard deviations by which a number that follows from others may differ, as rounding does."""


def constant_sums(columns: Sequence[ColumnValues]) -> Iterator[Relation[str]]:
    """Relations of numbers: sums, products, and sets of which one is set in every row."""
    numbers = [entry for entry in columns if entry.number is not None]
    exact_columns = set()
    for entry in _related(numbers, "sum"):
        exact_columns.add(frozenset(entry.columns))
        yield entry
    positive = [entry for entry in numbers if entry.continuous and np.nanmin(_number(entry)) > 0.0]
    for entry in _related(positive, "product"):
        # a power of one column has its order, and pairs in the same order are found as such
        if len(entry.columns) > PAIR and frozenset(entry.columns) not in exact_columns:
            yield entry


@dataclass(frozen=True)
class _Matrix:
    """Columns in standard deviations from their means, shape (n, k), and how they are rounded.

    ``digits`` are the last digits in these units; 0 of a column that has too many or too few.
    """

    columns: Sequence[ColumnValues]
    values: Numbers = field(repr=False)
    digits: Numbers = field(repr=False)

    @classmethod
    def of(cls, columns: Sequence[ColumnValues], form: Form) -> _Matrix | None:
        """The matrix of the complete rows; None where they are too few."""
        if not 1 < len(columns) <= MOST_COLUMNS:
            return None
        values = np.column_stack([_number(entry) for entry in columns])
        whole = np.flatnonzero(~np.isnan(values).any(axis=1))
        if len(whole) < len(columns) + MORE_ROWS:
            return None
        values = values[whole[:: max(1, len(whole) // max(MOST_ROWS, 4 * len(columns)))]]
        digits = np.array([_last_digit(entry) for entry in values.T])
        if form == "product":
            digits, values = digits / values.min(axis=0), np.log(values)
        size = np.frexp(np.abs(values).max(axis=0))[1]  # squares of the largest would overflow
        values, digits = np.ldexp(values, -size), np.ldexp(digits, -size)
        spread = values.std(axis=0)
        varying = np.flatnonzero(spread > 0.0)
        digits = digits[varying] / spread[varying]
        scaled = (values[:, varying] - values[:, varying].mean(axis=0)) / spread[varying]
        few = np.array([not columns[v].continuous for v in varying.tolist()])
        digits[few | (digits > ROUNDED)] = 0.0
        return cls([columns[v] for v in varying.tolist()], scaled, digits)


def _related(columns: Sequence[ColumnValues], form: Form) -> Iterator[Relation[str]]:
    matrix = _Matrix.of(columns, form)
    if matrix is None:
        return
    seen: dict[frozenset[int], None] = {}
    last, exact = matrix.values.shape[1] - 1, set()
    for circuit in _circuits(matrix.values, range(last + 1)):
        seen[frozenset(circuit)] = None
        exact.add(circuit[0])
    for circuit in _circuits(matrix.values, range(last, -1, -1)) if seen else ():
        seen[frozenset(circuit)] = None  # as where two totals have parts in common
    for entry in seen:
        named = [matrix.columns[v] for v in sorted(entry)]
        if _beyond_chance(named, len(matrix.values)):
            yield _named(named, form)
    for target, by, each in _rounded(matrix, exact):
        columns = [matrix.columns[v] for v in (target, *by)]
        yield _named(columns, form if each else "function")


def _circuits(values: Numbers, order: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """Columns that follow from earlier ones, with those of them that do."""
    basis: list[int] = []
    whole = np.empty(values.shape, order="F")
    for v in order:
        entry, span = values[:, v], whole[:, : len(basis)]
        left = entry - span @ (span.T @ entry)
        left -= span @ (span.T @ left)  # twice, for what rounding left of the first time
        size = float(np.linalg.norm(left) / np.linalg.norm(entry))
        if size > EXACT:
            whole[:, len(basis)] = left / np.linalg.norm(left)
            basis.append(v)
            continue
        weights = np.linalg.lstsq(values[:, basis], entry, rcond=None)[0]
        yield (v, *(basis[k] for k in np.flatnonzero(np.abs(weights) > WEIGHTS).tolist()))


def _beyond_chance(columns: Sequence[ColumnValues], rows: int) -> bool:
    """True if the rows suffice to show joint events of a set of two-valued columns.

    Where all but one are rare, no row has two of them, whatever they are.
    """
    if not all(entry.two_valued for entry in columns):
        return True
    rates = np.array(sorted(entry.counts.min() / entry.counts.sum() for entry in columns)[:-1])
    together = (rates.sum() ** 2 - (rates**2).sum()) / 2  # two of them, were they independent
    return bool(rows * together > FEWEST_TOGETHER)


def _rounded(matrix: _Matrix, exact: set[int]) -> Iterator[tuple[int, tuple[int, ...], bool]]:
    """Columns that follow from others up to their last digit, with these.

    And whether each of the others follows as nearly from the rest.
    """
    remaining = [v for v in range(matrix.values.shape[1]) if v not in exact]
    values = matrix.values[:, remaining]
    if len(remaining) <= 1 or not matrix.digits[remaining].any():
        return
    left = 1.0 / np.diag(np.linalg.inv(values.T @ values / len(values)))
    for index in np.flatnonzero(np.sqrt(left) < matrix.digits[remaining]).tolist():
        others = np.delete(np.arange(len(remaining)), index)
        for _ in range(PAIR):  # once with all others, and once with those that matter
            weights = np.linalg.lstsq(values[:, others], values[:, index], rcond=None)[0]
            others = others[np.abs(weights) > ROUNDED_WEIGHTS]
        if not len(others):
            continue
        weights = np.linalg.lstsq(values[:, others], values[:, index], rcond=None)[0]
        misses = np.abs(values[:, index] - values[:, others] @ weights).max()
        if misses < 0.75 * matrix.digits[remaining[index]]:
            each = bool((np.abs(weights) * ROUNDED > matrix.digits[remaining[index]]).all())
            yield remaining[index], tuple(remaining[v] for v in others.tolist()), each


def _named(columns: Sequence[ColumnValues], form: Form) -> Relation[str]:
    names = tuple(entry.name for entry in columns)
    if form == "function":
        return Relation(form, names)
    if len(names) == PAIR:
        return Relation("coded", names)
    if len(names) >= FEWEST_ONE_HOT and all(entry.two_valued for entry in columns):
        codes = np.column_stack([entry.codes for entry in columns])  # type: ignore[misc]
        codes = codes[(codes >= 0).all(axis=1)]
        high = codes == codes.max(axis=0)
        one = high.sum(axis=1)
        if (one == 1).all() or (one == len(names) - 1).all():
            return Relation("one-hot", names)
    return Relation(form, names)


def _last_digit(values: Numbers) -> float:
    """The last decimal digit that numbers have; 0 where it is not among the first four."""
    for digits in range(MOST_DIGITS + 1):
        scaled = values * 10.0**digits
        if (np.abs(scaled - np.rint(scaled)) < 1e-6 * (1.0 + np.abs(scaled))).all():
            return 10.0**-digits
    return 0.0


def _number(entry: ColumnValues) -> Numbers:
    assert entry.number is not None, "a column of numbers"
    return entry.number


def related_columns(*tables: SiteTable) -> tuple[Relation[str], ...]:
    """Relations that hold in every row of tables of one schema, beyond chance.

    What holds in all rows of several sites together holds at each of them. What follows from two
    columns together has to show at two of several sites.
    """
    sites = np.repeat(np.arange(len(tables)), [table.rows for table in tables])
    columns = column_values(tables)
    determined = steps(columns)
    leader = _leaders(len(columns), determined)
    leaders = [v for v, entry in enumerate(leader) if entry == v]
    relations = [
        _relation("coded", columns, (leader[v], v)) for v in range(len(columns)) if leader[v] != v
    ]
    direct = _direct({(leader[a], leader[b]) for a, b in determined if leader[a] != leader[b]})
    for v in leaders:
        dummies = [b for a, b in sorted(direct) if a == v and columns[b].two_valued]
        if len(dummies) >= FEWEST_DUMMIES and _together(columns, dummies, v):
            relations.append(_relation("coded", columns, (v, *dummies)))
            direct -= {(v, b) for b in dummies}
    relations += [_relation("function", columns, (b, a)) for a, b in direct]
    sums = list(constant_sums([columns[v] for v in leaders]))
    summed = {name for relation in sums for name in relation.columns}
    alone = [columns[v] for v in leaders]
    relations += [
        _relation("function", alone, (then, a, b))
        for a, b, then in joint_steps(alone, steps(alone), sites)
        if not {alone[v].name for v in (a, b, then)} <= summed
    ]
    relations += sums
    return tuple(sorted(set(relations), key=lambda entry: (entry.form, entry.columns)))


def contradicted(relation: Relation[str], table: SiteTable) -> bool:
    """True if rows of a table contradict a relation; few rows may be inconclusive."""
    held = {column.name: column for column in column_values([table])}
    for target, by in relation.rules:
        columns = [held[name] for name in by if name in held]
        entry = held.get(target)
        if entry is None:
            continue  # of one value: it follows from anything
        given = np.column_stack([np.zeros(table.rows), *map(comparable, columns)])
        there = ~np.isnan(np.column_stack([given, comparable(entry)])).any(axis=1)
        groups = np.unique(given[there], axis=0, return_inverse=True)[1].reshape(-1)
        values = comparable(entry)[there]
        low, high = np.full(len(values), np.inf), np.full(len(values), -np.inf)
        np.minimum.at(low, groups, values)
        np.maximum.at(high, groups, values)
        spread = (high - low)[np.unique(groups)]
        if (spread > NEARLY * max(float(values.std()), 0.0)).any():
            return True
    return False


def _relation(form: str, columns: Sequence[ColumnValues], which: Sequence[int]) -> Relation[str]:
    return Relation(form, tuple(columns[v].name for v in which))  # type: ignore[arg-type]


def _leaders(count: int, determined: set[Step]) -> list[int]:
    """The first of the columns that each is a copy of, itself where it is none."""
    leader = list(range(count))
    for a, b in sorted(determined):
        if a < b and (b, a) in determined:
            leader[b] = min(leader[b], leader[a])
    return leader


def _direct(determined: set[Step]) -> set[Step]:
    """The steps but those that follow from two others."""
    after: dict[int, set[int]] = {}
    for a, b in determined:
        after.setdefault(a, set()).add(b)
    return {
        (a, b) for a, b in determined if not any(b in after.get(c, ()) for c in after[a] if c != b)
    }


def _together(columns: Sequence[ColumnValues], dummies: Sequence[int], whole: int) -> bool:
    """True if a category is determined by its dummy variables together."""
    entry = columns[whole].codes
    codes = [columns[v].codes for v in dummies]
    if entry is None or any(each is None for each in codes):
        return False
    stacked = np.column_stack([entry, *codes])  # type: ignore[list-item]
    stacked = stacked[(stacked >= 0).all(axis=1)]
    joint = np.unique(stacked[:, 1:], axis=0, return_inverse=True)[1].reshape(-1)
    return is_function(joint, stacked[:, 0])
