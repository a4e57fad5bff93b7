"""Frames of any library as cells, and files that are read as such: Stata and Parquet.

SAS files are not read: in a transport file pandas takes every empty text of the last 80 bytes for
padding, and leaves out as many rows without a word (3.1.1, `XportReader._record_count`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from cipherdag.errors import DamagedFileError, EmptyDataError, ParameterError, UnreadableDataError
from cipherdag.sites.table.cells import Cells, ColumnType, NumberCells, RawTable, Source, TextCells
from cipherdag.sites.table.file_description import FileDescription
from cipherdag.sites.table.names import (
    LARGEST_EXACT,
    nearest,
    normalise_name,
    normalise_value,
    number_text,
)

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd

BATCH_ROWS = 2**16
"""Rows read at a time: 37 columns of numbers take 20 MB, unless a file's blocks are larger."""
_SAVED_INDEX = re.compile("__index_level_[0-9]+__")  # how pandas saves an index without a name


def _pandas_table(frame: pd.DataFrame) -> RawTable:
    """A DataFrame's table, without its index; raises as `frame_table`."""
    import pandas as pd

    if isinstance(frame.columns, pd.MultiIndex):
        raise UnreadableDataError(
            "the columns have more than one level",
            remedy="Join them: `frame.set_axis([*map('_'.join, frame.columns)], axis=1)`.",
        )
    if frame.shape[1] == 0:
        raise EmptyDataError("there are no columns", rows=len(frame))
    names = ["" if pd.isna(name) is True else str(name) for name in frame.columns]
    chunks = (_Columns(frame) for _ in range(1))
    types = tuple(declared_type(column) for _, column in frame.items())
    return RawTable(tuple(map(normalise_name, names)), chunks, types=types)


class _Columns(Sequence["Cells"]):
    """The cells of a frame's columns, each made when it is asked for, which saves memory."""

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
    """The type of an ordered categorical column or of a column of lists; None for any other."""
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
    """The cells of one column of a batch, a ``pyarrow.Array``."""
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
    """Read a Stata file: values by their labels, and all codes of missing values as missing."""
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
    yield _pandas_table(frame)


@contextmanager
def open_parquet(path: Path, _description: FileDescription) -> Iterator[RawTable]:
    """Open a Parquet file, read in blocks, without an index that pandas saved without a name."""
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
            types = tuple(_parquet_type(file, schema.field(v)) for v in positions)
        if not positions:
            raise EmptyDataError("there are no columns", rows=file.metadata.num_rows)
        names = tuple(normalise_name(schema.names[v]) for v in positions)
        yield RawTable(names, _blocks(file, positions), types=types)


def _blocks(file: Any, positions: list[int]) -> Iterator[list[Cells]]:
    with _whole():
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            yield [arrow_cells(batch.column(v)) for v in positions]


def _parquet_type(file: Any, field: Any) -> ColumnType | None:
    read = partial(file.read, columns=[field.name])
    return _arrow_type(field.type, lambda: read().to_pandas(ignore_metadata=True).iloc[:, 0])


def _arrow_type(kind: Any, column: Callable[[], pd.Series]) -> ColumnType | None:
    """The type that an Arrow column declares: nested, or of ordered categories."""
    import pyarrow as pa

    if pa.types.is_nested(kind):
        return ColumnType("other", str(kind))
    ordered = pa.types.is_dictionary(kind) and kind.ordered
    return declared_type(column()) if ordered else None


@contextmanager
def _whole() -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedFileError("this is not a whole Parquet file") from error


STATA = Source("Stata (.dta)", open_stata, suffix=".dta")
PARQUET = Source("Parquet", open_parquet, magic=b"PAR1", endings=(".parquet",))


def frame_table(frame: object) -> RawTable:
    """The table of a frame that narwhals reads: pandas, polars, pyarrow, DuckDB and others.

    A pandas DataFrame is read without its index. Every other frame is read as a Parquet file with
    the same columns would be; a lazy one is computed first.

    UnreadableDataError where it is no frame, its columns have more than one level, or pyarrow,
    which other frames than those of pandas need, is not installed; EmptyDataError where it has no
    column.
    """
    import pandas as pd

    if isinstance(frame, pd.DataFrame):
        return _pandas_table(frame)
    try:
        table = _whole_frame(frame).to_arrow()
    except ImportError as error:
        raise UnreadableDataError(
            f"a {type(frame).__name__} is read with pyarrow, which is not installed",
            remedy="Run `pip install 'cipherdag[parquet]'`, or give a pandas DataFrame.",
        ) from error
    if not table.num_columns:
        raise EmptyDataError("there are no columns", rows=table.num_rows)
    return RawTable(
        tuple(map(normalise_name, table.column_names)),
        ([*map(arrow_cells, part.columns)] for part in table.to_batches(max_chunksize=BATCH_ROWS)),
        types=tuple(_arrow_type(each.type, each.to_pandas) for each in table.columns),
    )


def parts_by(frame: object, column: str) -> dict[str, Any]:
    """A frame divided by the values of one column; raises ParameterError where it cannot be."""
    import narwhals as nw

    try:
        table = _whole_frame(frame)
    except UnreadableDataError as error:
        raise ParameterError(
            f"{type(frame).__name__} is no DataFrame that a column could divide",
            remedy="Read it into a DataFrame first, for instance with pandas.read_csv.",
        ) from error
    if column not in table.columns:
        near = nearest(column, table.columns)
        listed = f"The columns are {', '.join(map(str, table.columns))}."
        raise ParameterError(
            f"there is no column '{column}' to divide the rows by",
            remedy=f"Did you mean '{near}'?" if near else listed,
        )
    values = table.get_column(column)
    if missing := int(values.is_null().sum()):
        raise ParameterError(
            f"column '{column}' names no site in {missing} rows",
            remedy="Fill it in, or leave these rows out.",
        )
    named: dict[str, list[object]] = {}
    for value in values.unique().to_list():
        named.setdefault(normalise_value(str(value)), []).append(value)
    return {
        name: table.filter(nw.col(column).is_in(named[name])).drop(column).to_native()
        for name in sorted(named)
    }


def _whole_frame(frame: object) -> nw.DataFrame[Any]:
    """A frame as narwhals has it, all of it computed."""
    import narwhals as nw

    try:
        table: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(frame)
    except TypeError as error:
        raise UnreadableDataError(
            f"{type(frame).__name__} is neither a path nor a DataFrame",
            remedy="Give a path, or a DataFrame of pandas, polars or pyarrow.",
        ) from error
    whole = table.collect("pyarrow") if isinstance(table, nw.LazyFrame) else table
    return _without_views(whole) if whole.implementation.is_pyarrow() else whole


def _without_views(table: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """An Arrow table whose views of texts are texts: pyarrow selects no rows of views."""
    import narwhals as nw
    import pyarrow as pa

    native = table.to_native()
    texts = [
        field.with_type(pa.large_string()) if pa.types.is_string_view(field.type) else field
        for field in native.schema
    ]
    return nw.from_native(native.cast(pa.schema(texts)), eager_only=True)
