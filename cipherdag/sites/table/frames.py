"""Frames of other libraries than pandas as Arrow tables, and any frame divided by a column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cipherdag.errors import EmptyDataError, ParameterError, UnreadableDataError
from cipherdag.sites.table.cells import Cells, ColumnType, RawTable
from cipherdag.sites.table.data_frame import BATCH_ROWS, arrow_cells, declared_type
from cipherdag.sites.table.data_frame import frame_table as pandas_table
from cipherdag.sites.table.names import nearest, normalise_name, normalise_value

if TYPE_CHECKING:
    import narwhals as nw


def frame_table(frame: object) -> RawTable:
    """The table of a frame that narwhals reads: pandas, polars, pyarrow, DuckDB and others.

    A pandas DataFrame is read without its index. Every other frame is read as a Parquet file with
    the same columns would be; a lazy one is computed first.

    Raises:
        UnreadableDataError: It is no frame, its columns have more than one level, or pyarrow, which
            other frames than those of pandas need, is not installed.
        EmptyDataError: It has no column.
    """
    import pandas as pd

    if isinstance(frame, pd.DataFrame):
        return pandas_table(frame)
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
        _blocks(table),
        types=tuple(map(_type, table.columns)),
    )


def parts_by(frame: object, column: str) -> dict[str, Any]:
    """A frame divided by the values of one column, which no part has.

    Args:
        frame: A frame that narwhals reads.
        column: The name of the column.

    Returns:
        For each value, in alphabetical order, the frame of its rows in their order.

    Raises:
        ParameterError: It is no frame, it has no such column, or a row has no value there.
    """
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


def _blocks(table: Any) -> Iterator[list[Cells]]:
    for batch in table.to_batches(max_chunksize=BATCH_ROWS):
        yield [arrow_cells(column) for column in batch.columns]


def _type(column: Any) -> ColumnType | None:
    """The type that an Arrow column declares: nested, or of ordered categories."""
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        return ColumnType("other", str(column.type))
    ordered = pa.types.is_dictionary(column.type) and column.type.ordered
    return declared_type(column.to_pandas()) if ordered else None
