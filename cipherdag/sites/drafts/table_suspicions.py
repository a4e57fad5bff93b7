"""What looks like a mistake in a table that fits its schema."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherdag.sites.drafts.row_suspicions import row_suspicions
from cipherdag.sites.drafts.suspicions import Suspicion, suspicious_categories, suspicious_numbers
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.names import parse_number
from cipherdag.sites.table.site_table import SiteTable


def table_suspicions(table: SiteTable) -> list[tuple[str, Suspicion]]:
    """Columns, "" for the rows, with what is odd about them; details may hold values."""
    found = [("", each) for each in row_suspicions(table)]
    for position, column in enumerate(table.schema.variables):
        if column.kind == "discrete":
            found += [(column.name, own) for own in suspicious_categories(column.categories)]
        counted = None if column.date else _counted(table, position, column)
        if counted is not None:
            found += [(column.name, own) for own in suspicious_numbers(*counted)]
    return found


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
    known = [parse_number(own) for own in column.categories]
    if table.codes is None or not known or None in known:
        return None
    codes = table.codes[:, position]
    counts = np.bincount(np.extract(codes >= 0, codes), minlength=len(known)).astype(np.int64)
    numbers = np.array(known, dtype=np.float64)
    order = [place for place in np.argsort(numbers).tolist() if counts[place]]
    return numbers[order], counts[order]
