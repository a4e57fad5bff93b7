"""Where a site's own process writes what must not leave the site."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from cipherdag.errors import writing

if TYPE_CHECKING:
    from pathlib import Path

SITE_LOG: Final = "site.log"


def log_into(path: Path) -> None:
    """Send the package's log records to one file, and to no handler of an engine.

    Raises:
        OutputError: The file cannot be written.
    """
    logger = logging.getLogger("cipherdag")
    with writing(path):
        handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)  # the command's own level shows errors alone
    logger.propagate = False
