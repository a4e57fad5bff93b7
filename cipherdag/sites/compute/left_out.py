"""What a site's log says of rows that scores leave out."""

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
