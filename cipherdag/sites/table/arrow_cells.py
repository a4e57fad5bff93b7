"""The columns of an Arrow batch as cells, as Parquet files and DuckDB give their rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from cipherdag.sites.table.cells import Cells, TextCells
from cipherdag.sites.table.data_frame import series_cells

BATCH_ROWS = 2**16
"""Read at a time: 37 columns of numbers are 20 MB, as far as a file's own blocks are no larger."""


def arrow_cells(column: Any) -> Cells:
    """The cells of one column of a batch.

    Args:
        column: A ``pyarrow.Array``, shape (rows,).
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        column = column.dictionary_decode()
    if not _is_text(column.type):
        return series_cells(column.to_pandas(integer_object_nulls=True))
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    index = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return TextCells([*texts, ""], index.astype(np.int64))


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
