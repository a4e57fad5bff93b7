"""Which column is the cause where columns of two kinds do not go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cipherdag.sites.table.site_table import SiteTable


def odd_column(table: SiteTable) -> str | None:
    """Of mixed columns the first of the kind that there is less of; else None."""
    if table.kind != "mixed":
        return None
    discrete = [column.name for column in table.schema.variables if column.cardinality]
    others = [column.name for column in table.schema.variables if not column.cardinality]
    return min(others, discrete, key=len)[0]
