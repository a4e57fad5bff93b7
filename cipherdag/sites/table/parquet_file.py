"""Parquet files, which need the extra ``parquet``."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cipherdag.errors import UnreadableDataError
from cipherdag.sites.table.data_frame import frame_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cipherdag.sites.table.cells import RawTable

_SAVED_INDEX = re.compile("__index_level_[0-9]+__")  # how pandas saves an index without a name


@contextmanager
def open_parquet(path: Path) -> Iterator[RawTable]:
    """Read a Parquet file; the index that pandas saves without a name is left out.

    Raises:
        OSError: The file cannot be opened.
        UnreadableDataError: It is damaged, or pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UnreadableDataError(
            "Parquet files need pyarrow, which is not installed",
            remedy="Run `pip install 'cipherdag[parquet]'`, or export the table as CSV.",
        ) from error
    with path.open("rb") as raw:
        try:
            table = pq.ParquetFile(raw).read()
            index = [name for name in table.column_names if _SAVED_INDEX.fullmatch(name)]
            kept = table.drop_columns(index)
            frame = kept.to_pandas(ignore_metadata=True, integer_object_nulls=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UnreadableDataError("this is not a whole Parquet file") from error
        yield frame_table(frame)
