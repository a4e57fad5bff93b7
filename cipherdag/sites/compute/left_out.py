"""Log how many rows a site leaves out of its scores and of its beliefs (probabilities of edges)."""

from __future__ import annotations

import logging

log = logging.getLogger("cipherdag.site")


def log_left_out(rows: int, complete: int) -> None:
    """Log how many rows miss a value, if any do.

    Args:
        rows: All rows.
        complete: Those that miss none.
    """
    if complete < rows:
        log.warning("%d of %d rows miss a value; scores leave them out", rows - complete, rows)


def log_few(regimes: list[int]) -> None:
    """Log how many rows belong to experiments of fewer than `min_cell_size`, if any do.

    Args:
        regimes: Rows of every such experiment.
    """
    if regimes:
        log.warning(
            "%d experiments have fewer rows than min_cell_size, %d in all; beliefs leave them out",
            len(regimes),
            sum(regimes),
        )
