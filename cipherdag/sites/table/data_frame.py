"""The columns of a pandas DataFrame as cells."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, overload

import numpy as np

from cipherdag.errors import EmptyDataError, UnreadableDataError
from cipherdag.sites.table.cells import Cells, ColumnType, NumberCells, RawTable, TextCells
from cipherdag.sites.table.names import LARGEST_EXACT, normalise_name, number_text

if TYPE_CHECKING:
    import pandas as pd


def frame_table(frame: object) -> RawTable:
    """A DataFrame's table, without its index.

    Raises:
        UnreadableDataError: It is no DataFrame, or its columns have more than one level.
        EmptyDataError: It has no column.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        kind = type(frame).__name__
        raise UnreadableDataError(f"{kind} is neither a path nor a pandas DataFrame")
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
        places = range(self._width)[column]
        if isinstance(places, range):
            return [self._made(place) for place in places]
        return self._made(places)


def declared_type(series: pd.Series) -> ColumnType | None:
    """The type of an ordered categorical column, or one of lists; None of another."""
    import pandas as pd

    from cipherdag.sites.table.cells import ColumnType

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
