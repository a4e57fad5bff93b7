"""What looks like a mistake in a table that fits its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cipherdag.sites.drafts.suspicions import suspicious_categories, suspicious_numbers
from cipherdag.sites.table.names import parse_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cipherdag.sites.drafts.suspicions import Suspicion
    from cipherdag.sites.table.column import Column
    from cipherdag.sites.table.site_table import SiteTable


def table_suspicions(table: SiteTable) -> list[tuple[str, Suspicion]]:
    """Columns with what is odd about them; their details may hold values of the table."""
    found = []
    for position, column in enumerate(table.schema.variables):
        if column.kind == "discrete":
            found += [(column.name, own) for own in suspicious_categories(column.categories)]
        numbers = _numbers(table, position, column)
        if numbers is not None and not column.date:
            distinct, counts = np.unique(numbers, return_counts=True)
            odd = suspicious_numbers(distinct, counts.astype(np.int64))
            found += [(column.name, own) for own in odd]
    return found


def _numbers(table: SiteTable, position: int, column: Column) -> NDArray[np.float64] | None:
    """The numbers of a continuous column, or of one whose categories are numbers."""
    if column.kind == "continuous" and table.values is not None:
        values = table.values[:, position]
        return np.extract(~np.isnan(values), values)
    known = [parse_number(own) for own in column.categories]
    if table.codes is None or not known or None in known:
        return None
    codes = table.codes[:, position]
    return np.array(known, dtype=np.float64)[np.extract(codes >= 0, codes)]
