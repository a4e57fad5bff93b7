"""Signs of mistakes in a table: rows that are no independent sample, and columns that fit a schema.

Leaks:
    Nothing: what is said of rows holds no value and no number of rows; a detail may hold a value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cipherdag.errors import DataError, NotNumericError
from cipherdag.pages.numerals import first_of
from cipherdag.sites.compute.patients import FEWEST_LEFT
from cipherdag.sites.drafts.column_values import ColumnValues, column_values, comparable
from cipherdag.sites.drafts.suspicions import Suspicion, suspicious_categories, suspicious_numbers
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.column_reader import MISSING_CODE
from cipherdag.sites.table.names import parse_number
from cipherdag.sites.table.reading import TableSource
from cipherdag.sites.table.repeated_rows import FEWEST_KINDS, repeated_rows, row_marks
from cipherdag.sites.table.schema import PERSONS, Schema
from cipherdag.sites.table.site_table import SiteTable, load_table

Numbers = NDArray[np.float64]

FEWEST_ROWS = 40
MOST_ROWS = 20_000
"""From the first on, by which rows are compared with those before them."""
SERIAL = 0.1
"""Correlation of one row with the next below which it harms no test much."""
BEYOND_CHANCE = 6.0
"""Standard deviations, of independent rows, beyond which it is none of chance: once in 10^9."""
FEWEST_SHARED = 30
"""Rows that chance would give two columns, from which on none is no chance."""
PIECES = 20
"""By how many pieces of a column in order the others' trend along it is taken out."""
FEW_SHOWN = 5
COPIES = "rows that stand there several times"


def readable_tables(
    schema: Schema, runnable: Sequence[Column], sources: Sequence[TableSource]
) -> tuple[list[SiteTable], list[str], DataError | None]:
    """The tables of a draft, without columns of numbers where some cell is none.

    Returns:
        The tables; the names of these columns; and what else keeps the tables from being read.
    """
    unread: list[str] = []
    while True:
        columns = (Column(one.name, "ignore") if one.name in unread else one for one in runnable)
        try:
            whole = replace(schema, columns=tuple(columns))
            return [load_table(source, whole) for source in sources], unread, None
        except DataError as error:
            if not isinstance(error, NotNumericError) or error.column in (None, *unread):
                return [], unread, error
            unread.append(str(error.column))


def row_suspicions(table: SiteTable) -> list[Suspicion]:
    """Too few rows or patients, rows of several kinds, equal rows, and rows like those before."""
    return [*_few(table), *_never_together(table), *_equal(table), *_serial(table)]


def _never_together(table: SiteTable) -> Iterator[Suspicion]:
    """Columns that no row has both of, though chance would give some."""
    step = -(-table.rows // MOST_ROWS)
    filled = np.zeros((len(range(0, table.rows, step)), len(table.names)), dtype=np.float32)
    if table.codes is not None:
        filled += table.codes[::step] != MISSING_CODE
    if table.values is not None:
        filled += ~np.isnan(table.values[::step])
    counts = filled.sum(axis=0)
    disjoint = (filled.T @ filled == 0.0) & (np.outer(counts, counts) > FEWEST_SHARED * len(filled))
    if disjoint.any():
        named = " and ".join(repr(table.names[v]) for v in np.argwhere(disjoint)[0])
        yield Suspicion(
            "columns that no row has both of",
            f"No row has both {named}, and no test can compare them.",
            "If the file is an export of REDCap with events or repeating instruments, declare "
            "rows_of under [source] of site.toml. Else leave one of them out.",
        )


def _few(table: SiteTable) -> Iterator[Suspicion]:
    if table.rows < len(table.names):
        yield Suspicion(
            "more columns than rows",
            "There are more columns than rows, so that many edges of any graph would be chance.",
            "Ask of fewer columns, or with more rows.",
        )
    if table.persons < table.rows and table.persons <= FEWEST_LEFT:
        yield Suspicion(
            "rows of few patients",
            f"Rows are of few patients, and a site that has {FEWEST_LEFT} or fewer does no test.",
            "See that the column says whose row it is, or take rows of more patients.",
        )


def _equal(table: SiteTable) -> Iterator[Suspicion]:
    """Rows that stand there several times."""
    if repeated_rows(table).copied:
        yield Suspicion(
            COPIES,
            "Rows stand there several times, as if copied; every copy counts as another case.",
            "If they are copies, keep one of each.",
        )


def same_rows(tables: Sequence[tuple[str, SiteTable]]) -> list[Suspicion]:
    """Tables of one schema that hold the same rows, by their names.

    In whatever order where many rows differ. Few rows may be the same by chance.
    """
    holders: dict[bytes, list[str]] = {}
    for name, table in tables:
        marks = row_marks(table)
        if len(np.unique(marks)) >= FEWEST_KINDS:
            marks = np.sort(marks)
        elif table.rows < FEWEST_KINDS:
            continue
        holders.setdefault(marks.tobytes(), []).append(name)
    return [
        Suspicion(
            "the same rows twice",
            f"{' and '.join(map(repr, names))} hold the same rows: all persons count again.",
            "If one is a copy of the other, give one of them.",
        )
        for names in holders.values()
        if len(names) > 1
    ]


def _serial(table: SiteTable) -> Iterator[Suspicion]:
    """Rows that are like those before them, in what the order of the file does not explain."""
    # keys that are all different answer nothing
    answered = table.schema.rows == PERSONS or table.persons < table.rows
    if table.rows < FEWEST_ROWS or answered:
        return
    first = table.take(np.arange(min(table.rows, MOST_ROWS)))
    columns = column_values([first])
    ranks_of = [ranked(entry) for entry in columns]
    sorted_by = [entry for entry in ranks_of if _in_order(entry)]
    following = [
        entry.name
        for entry, ranks in zip(columns, ranks_of, strict=True)
        if not _in_order(ranks) and _follows_itself(_without_trend(ranks, sorted_by))
    ]
    if following:
        yield Suspicion(
            "rows that are like those before them",
            f"Rows are like those before them in {first_of(following, FEW_SHOWN)}, as in a time "
            "series, repeated visits, or wards one after the other. Tests and scores take rows as "
            "independent: their p-values and intervals are then far too small.",
            'If a column says whose row it is, name it (kind = "patient", or --patient). Else keep '
            "one row of each person, or rows far enough from each other in time; if no person has "
            'two rows, write rows = "persons" at the top of schema.toml.',
        )


def ranked(entry: ColumnValues) -> Numbers:
    """Ranks of numbers, or codes of two or more categories, NaN where missing, shape (n,)."""
    values = comparable(entry)
    missing = np.isnan(values)
    ranks = np.unique(values[~missing], return_inverse=True)[1].astype(np.float64)
    ranked = np.full(len(values), np.nan)
    ranked[~missing] = ranks
    return ranked


def _in_order(ranks: Numbers) -> bool:
    """True if the rows are sorted by a column."""
    change = np.diff(ranks[~np.isnan(ranks)])
    return bool((change >= 0).all() or (change <= 0).all())


def _without_trend(ranks: Numbers, sorted_by: Sequence[Numbers]) -> Numbers:
    """The residuals after the position in a sorted file: rows sorted by x trend in its effects."""
    if not sorted_by:
        return ranks
    pieces = np.arange(len(ranks)) * PIECES // len(ranks)
    there = ~np.isnan(ranks)
    sums = np.bincount(pieces[there], ranks[there], minlength=PIECES)
    counts = np.maximum(np.bincount(pieces[there], minlength=PIECES), 1)
    return ranks - (sums / counts)[pieces]


def _follows_itself(values: Numbers) -> bool:
    """True if the autocorrelation of successive rows is beyond chance, and not small."""
    entry = values - np.nanmean(values)
    both = ~np.isnan(entry[1:]) & ~np.isnan(entry[:-1])
    spread = np.nanmean(entry**2)
    if not both.any() or spread == 0.0:
        return False
    correlation = float((entry[1:] * entry[:-1])[both].mean() / spread)
    return bool(correlation > max(SERIAL, BEYOND_CHANCE / both.sum() ** 0.5))


def table_suspicions(table: SiteTable) -> list[tuple[str, Suspicion]]:
    """Columns, "" for the rows, with what is odd about them; details may hold values."""
    suspicions = [("", each) for each in row_suspicions(table)]
    for position, column in enumerate(table.schema.variables):
        if column.kind == "discrete":
            suspicions += [
                (column.name, entry) for entry in suspicious_categories(column.categories)
            ]
        counted = None if column.date else _counted(table, position, column)
        if counted is not None:
            suspicions += [(column.name, entry) for entry in suspicious_numbers(*counted)]
    return suspicions


def _counted(
    table: SiteTable, position: int, column: Column
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """The different numbers of a column, ascending, and how often each occurs.

    Columns of numbers have them, and those whose categories are all numbers.
    """
    if column.kind == "continuous" and table.values is not None:
        values = table.values[:, position]
        distinct, counts = np.unique(np.extract(~np.isnan(values), values), return_counts=True)
        return distinct, counts.astype(np.int64)
    numerals = [parse_number(category) for category in column.categories]
    if table.codes is None or not numerals or None in numerals:
        return None
    codes = table.codes[:, position]
    counts = np.bincount(np.extract(codes >= 0, codes), minlength=len(numerals)).astype(np.int64)
    numbers = np.array(numerals, dtype=np.float64)
    order = [index for index in np.argsort(numbers).tolist() if counts[index]]
    return numbers[order], counts[order]
