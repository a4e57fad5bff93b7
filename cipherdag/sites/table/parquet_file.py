"""Parquet files, which need the extra ``parquet``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cipherdag.errors import EmptyDataError, UnreadableDataError
from cipherdag.sites.table.arrow_cells import BATCH_ROWS, arrow_cells
from cipherdag.sites.table.cells import Cells, ColumnType, RawTable
from cipherdag.sites.table.data_frame import declared_type
from cipherdag.sites.table.names import normalise_name

_SAVED_INDEX = re.compile("__index_level_[0-9]+__")  # how pandas saves an index without a name


@contextmanager
def open_parquet(path: Path) -> Iterator[RawTable]:
    """Open a Parquet file; the rows are read in blocks while the context lasts.

    The index that pandas saves without a name is left out.

    Raises:
        OSError: The file cannot be opened.
        UnreadableDataError: It is damaged, or pyarrow is not installed.
        EmptyDataError: It has no column.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise UnreadableDataError(
            "Parquet files need pyarrow, which is not installed",
            remedy="Run `pip install 'cipherdag[parquet]'`, or export the table as CSV.",
        ) from error
    with path.open("rb") as raw:
        with _whole():
            file = pq.ParquetFile(raw)
            schema = file.schema_arrow
            kept = [v for v, name in enumerate(schema.names) if not _SAVED_INDEX.fullmatch(name)]
            types = tuple(_type(file, schema.field(v)) for v in kept)
        if not kept:
            raise EmptyDataError("there are no columns", rows=file.metadata.num_rows)
        names = tuple(normalise_name(schema.names[v]) for v in kept)
        yield RawTable(names, _blocks(file, kept), types=types)


def _blocks(file: Any, kept: list[int]) -> Iterator[list[Cells]]:
    with _whole():
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield [arrow_cells(batch.column(v)) for v in kept]


def _type(file: Any, field: Any) -> ColumnType | None:
    import pyarrow as pa

    if pa.types.is_nested(field.type):
        return ColumnType("other", str(field.type))
    if not pa.types.is_dictionary(field.type) or not field.type.ordered:
        return None
    return declared_type(file.read(columns=[field.name]).to_pandas(ignore_metadata=True).iloc[:, 0])


@contextmanager
def _whole() -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableDataError("this is not a whole Parquet file") from error
