"""Stata files, which pandas reads.

SAS files are not read: in a transport file pandas takes every empty text of the last 80 bytes for
padding, and leaves out as many rows without a word (3.1.1, `XportReader._record_count`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cipherdag.errors import UnreadableDataError
from cipherdag.sites.table.cells import RawTable
from cipherdag.sites.table.data_frame import frame_table


@contextmanager
def open_stata(path: Path) -> Iterator[RawTable]:
    """Read a Stata file: labelled values by their labels, all codes of missing values as missing.

    Raises:
        OSError: The file cannot be opened.
        UnreadableDataError: It is damaged, or two values of a column have one label.
    """
    import pandas as pd

    try:
        frame = pd.read_stata(path, order_categoricals=False)
    except OSError:
        raise
    except Exception as error:  # what pandas raises on a damaged file is not documented
        raise UnreadableDataError(
            f"this is not a whole Stata file, or two values have one label: {type(error).__name__}",
            remedy="Open it in Stata, correct labels that occur twice, and save it again; or "
            "export it as CSV UTF-8.",
        ) from error
    yield frame_table(frame)
