"""DataFrames as cells, and files that are read as such or as Arrow batches: Stata and Parquet.

SAS files are not read: in a transport file pandas takes every empty text of the last 80 bytes for
padding, and leaves out as many rows without a word (3.1.1, `XportReader._record_count`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from cipherdag.errors import EmptyDataError, UnreadableDataError
from cipherdag.sites.table.cells import Cells, ColumnType, NumberCells, RawTable, Source, TextCells
from cipherdag.sites.table.file_description import FileDescription
from cipherdag.sites.table.names import LARGEST_EXACT, normalise_name, number_text

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 2**16
"""Read at a time: 37 columns of numbers are 20 MB, as far as a file's own blocks are no larger."""
_SAVED_INDEX = re.compile("__index_level_[0-9]+__")  # how pandas saves an index without a name


def frame_table(frame: pd.DataFrame) -> RawTable:
    """A DataFrame's table, without its index.

    Raises:
        UnreadableDataError: Its columns have more than one level.
        EmptyDataError: It has no column.
    """
    import pandas as pd

    if isinstance(frame.columns, pd.MultiIndex):
        raise UnreadableDataError("the columns have more than one level")
    if frame.shape[1] == 0:
        raise EmptyDataError("there are no columns", rows=len(frame))
    names = ["" if pd.isna(name) is True else str(name) for name in frame.columns]
    chunks = (_Columns(frame) for _ in range(1))
    types = tuple(declared_type(column) for _, column in frame.items())
    return RawTable(tuple(map(normalise_name, names)), chunks, types=types)


class _Columns(Sequence["Cells"]):
    """The cells of a frame's columns, each made when it is asked for: all at once would be many."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._width = frame.shape[1]
        self._made = lru_cache(maxsize=1)(lambda column: series_cells(frame.iloc[:, column]))

    def __len__(self) -> int:
        return self._width

    @overload
    def __getitem__(self, column: int) -> Cells: ...

    @overload
    def __getitem__(self, column: slice) -> list[Cells]: ...

    def __getitem__(self, column: int | slice) -> Cells | list[Cells]:
        positions = range(self._width)[column]
        if isinstance(positions, range):
            return [self._made(position) for position in positions]
        return self._made(positions)


def declared_type(series: pd.Series) -> ColumnType | None:
    """The type of an ordered categorical column, or one of lists; None of another."""
    import pandas as pd

    if series.dtype == object:
        first = next(iter(series.dropna()), "")
        return None if isinstance(first, Hashable) else ColumnType("other", type(first).__name__)
    if not isinstance(series.dtype, pd.CategoricalDtype) or not series.dtype.ordered:
        return None
    values = tuple(map(_object_text, series.dtype.categories))
    return ColumnType("enum", "Ordered categorical", values, ordered=True)


def series_cells(series: pd.Series) -> Cells:
    """The cells of one column; of lists and other structures their text."""
    import pandas as pd

    kinds = pd.api.types
    numeric = kinds.is_numeric_dtype(series) and not kinds.is_bool_dtype(series)
    if numeric and not kinds.is_complex_dtype(series):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        # larger integers are no longer distinct as floats
        if not (kinds.is_integer_dtype(series) and (np.abs(values) >= LARGEST_EXACT).any()):
            return NumberCells(values)
    try:
        index, distinct = pd.factorize(series)
    except TypeError:
        index, distinct = pd.factorize(series.map(str, na_action="ignore"))
    boolean = all(isinstance(value, bool | np.bool_) for value in distinct)
    rows = index.astype(np.int64) % (len(distinct) + 1)  # -1, a missing value, becomes the last
    return TextCells([*map(_object_text, distinct), ""], rows, boolean=boolean)


def _object_text(value: object) -> str:
    if isinstance(value, float | np.floating):
        return number_text(float(value))
    return str(value)


def arrow_cells(column: Any) -> Cells:
    """The cells of one column of a batch.

    Args:
        column: A ``pyarrow.Array``, shape (rows,).
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if not _is_text(column.type):
        return series_cells(column.to_pandas(integer_object_nulls=True))
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    index = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return TextCells([*texts, ""], index.astype(np.int64))


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    of_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(each(kind) for each in of_text)


@contextmanager
def open_stata(path: Path, _description: FileDescription) -> Iterator[RawTable]:
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


@contextmanager
def open_parquet(path: Path, _description: FileDescription) -> Iterator[RawTable]:
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
            positions = [
                v for v, name in enumerate(schema.names) if not _SAVED_INDEX.fullmatch(name)
            ]
            types = tuple(_type(file, schema.field(v)) for v in positions)
        if not positions:
            raise EmptyDataError("there are no columns", rows=file.metadata.num_rows)
        names = tuple(normalise_name(schema.names[v]) for v in positions)
        yield RawTable(names, _blocks(file, positions), types=types)


def _blocks(file: Any, positions: list[int]) -> Iterator[list[Cells]]:
    with _whole():
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield [arrow_cells(batch.column(v)) for v in positions]


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


STATA = Source("Stata (.dta)", open_stata, suffix=".dta")
PARQUET = Source("Parquet", open_parquet, magic=b"PAR1", endings=(".parquet",))
