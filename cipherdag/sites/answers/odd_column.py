"""Which column is the cause where something does not go: of two kinds, or far from the rest."""

from __future__ import annotations

import numpy as np

from cipherdag.errors import BoundExceededError
from cipherdag.sites.table.site_table import SiteTable

FAR = 1000.0
"""Robust standard deviations from the median, beyond which a number is what ended a run."""
NORMAL = 1.4826  # from a median deviation to the standard deviation of a Gaussian


def far_number(table: SiteTable) -> BoundExceededError | None:
    """Why an answer is beyond its bound, for the site's own screen; None where that is unclear.

    The column whose farthest number lies farthest from its others, as many deviations from the
    median.
    """
    worst, column = FAR, ""
    for position, variable in enumerate(table.schema.variables):
        if variable.cardinality or table.values is None:
            continue
        held = table.values[:, position]
        away = np.abs(held - np.nanmedian(held)) if not np.isnan(held).all() else np.zeros(1)
        spread = NORMAL * float(np.nanmedian(away)) or float(np.nanmean(away))
        if spread > 0.0 and (far := float(np.nanmax(away)) / spread) > worst:
            worst, column = far, variable.name
    if not column:
        return None
    return BoundExceededError(
        f"a number of column '{column}' is so far from its others that sums of it are beyond what "
        "the run declares",
        remedy=f"If it is a mistake, correct it, or write it under missing of '{column}' in "
        "schema.toml (plausible = [least, greatest] there finds its row); if it is right, write "
        f"logarithms of '{column}' into the data of every site.",
    )


def odd_column(table: SiteTable) -> str | None:
    """Of mixed columns the first of the kind that there is less of; else None."""
    if table.kind != "mixed":
        return None
    discrete = [column.name for column in table.schema.variables if column.cardinality]
    others = [column.name for column in table.schema.variables if not column.cardinality]
    return min(others, discrete, key=len)[0]
