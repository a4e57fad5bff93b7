"""What a site's log says of rows that scores and beliefs leave out."""

from __future__ import annotations

import logging

log = logging.getLogger("cipherdag.site")


def tell_left_out(rows: int, complete: int) -> None:
    """Say how many rows miss a value, if any do.

    Args:
        rows: All rows.
        complete: Those that miss none.
    """
    if complete < rows:
        log.warning("%d of %d rows miss a value; scores leave them out", rows - complete, rows)


def tell_few(regimes: list[int]) -> None:
    """Say how many rows belong to experiments of fewer than `min_cell_size`, if any do.

    Args:
        regimes: Rows of every such experiment.
    """
    if regimes:
        log.warning(
            "%d experiments have fewer rows than min_cell_size, %d in all; beliefs leave them out",
            len(regimes),
            sum(regimes),
        )
