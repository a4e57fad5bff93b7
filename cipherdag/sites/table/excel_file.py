"""Excel workbooks (.xlsx), which need the extra ``excel``."""

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

from cipherdag.errors import CipherdagError, DamagedFileError, EmptyDataError, UnreadableDataError
from cipherdag.sites.table.cells import CHUNK_ROWS, Cells, RawTable, Source, value_cells
from cipherdag.sites.table.file_description import FileDescription, undeclared
from cipherdag.sites.table.names import normalise_name

Row = tuple[object, ...]

_WORKBOOK = "xl/workbook.xml"
SMALL_BYTES = 32 * 1024 * 1024  # what any workbook may unpack to
MOST_UNPACKED = 100
"""How many times its size a larger workbook may unpack to; tables come to 10 to 30 times."""
_FORMULA = b"<f"
_MERGED = b"<mergeCell "


@contextmanager
def open_excel(path: Path, description: FileDescription) -> Iterator[RawTable]:
    """Open one sheet of a workbook; empty rows are skipped.

    A formula counts as the value that was saved with it. Dates read as ISO 8601 writes them.
    """
    with _parsing():
        _check_workbook(path)
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UnreadableDataError(
            "Excel files need openpyxl, which is not installed",
            remedy="Run `pip install 'cipherdag[excel]'`, or save the sheet as CSV UTF-8.",
        ) from None
    with path.open("rb") as raw, path.open("rb") as again, ExitStack() as closing:
        # by content, since openpyxl goes by the name; its warnings are of pictures and the like
        with warnings.catch_warnings(action="ignore"), _parsing():
            book = load_workbook(raw, read_only=True, data_only=True)
            closing.callback(book.close)
            sheet, formulas = _sheet(book, description, path.name), None
            if _holds(path, _FORMULA):
                written = load_workbook(again, read_only=True)
                closing.callback(written.close)
                formulas = written[sheet.title]
            if _holds(path, _MERGED):
                _check_merged(load_workbook(again)[sheet.title], description.skip_rows)
        rows = _Rows(sheet, formulas, description.skip_rows)
        lines = iter(rows)
        with _parsing():
            names = next(lines, None)
        if names is None:
            raise EmptyDataError(f"the sheet '{sheet.title}' is empty", rows=0)
        header = tuple(normalise_name("" if name is None else str(name)) for name in names)
        yield RawTable(header, _chunks(lines), location_of=rows.location)


@contextmanager
def _parsing() -> Iterator[None]:
    """Name as UnreadableDataError what openpyxl and the parsers of XML below it raise."""
    try:
        yield
    except (CipherdagError, OSError):
        raise
    except Exception as error:
        raise UnreadableDataError(
            f"a part of the workbook cannot be read ({type(error).__name__})",
            remedy="Open it in Excel and save it again as .xlsx, or save the sheet as CSV UTF-8.",
        ) from error


def _check_workbook(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            inside = set(archive.namelist())
            unpacked = sum(part.file_size for part in archive.infolist())
    except zipfile.BadZipFile as error:
        raise DamagedFileError(
            "this is not a whole Excel workbook: it is cut short or damaged"
        ) from error
    # what a part unpacks to is never more than its entry says: zipfile stops there
    if unpacked > max(SMALL_BYTES, MOST_UNPACKED * path.stat().st_size):
        raise UnreadableDataError(
            f"{path.stat().st_size / 1e6:.1f} MB of this workbook unpack to {unpacked / 1e6:.0f} "
            f"MB, more than {MOST_UNPACKED} times as much, as no table does",
            remedy="Save the sheet as 'CSV UTF-8' and give that file, if you trust its sender.",
        )
    if _WORKBOOK in inside:
        return
    what = "an OpenDocument sheet" if "content.xml" in inside else "a zip archive"
    raise UnreadableDataError(
        f"this is {what}, not an Excel workbook",
        remedy="Save the sheet as .xlsx or as 'CSV UTF-8', and give that file.",
    )


def _check_merged(sheet: Any, skip: int) -> None:
    """Refuse merged cells: all but the first of them hold nothing."""
    for merged in sorted(sheet.merged_cells.ranges, key=lambda each: each.min_row):
        if merged.max_row > skip and merged.size != {"rows": 1, "columns": 1}:
            raise UnreadableDataError(
                f"the cells {merged.coord} of the sheet '{sheet.title}' are merged",
                remedy="Unmerge them in Excel, and write the value into each; or declare skip_rows "
                "if they stand above the header.",
            )


def _holds(path: Path, mark: bytes) -> bool:
    """True if a sheet of the workbook has an element."""
    with zipfile.ZipFile(path) as archive:
        sheets = [name for name in archive.namelist() if name.startswith("xl/worksheets/")]
        for name in sheets:
            with archive.open(name) as part:
                rest = b""
                while block := part.read(1 << 20):
                    if mark in rest + block:
                        return True
                    rest = block[-len(mark) :]
    return False


def _sheet(book: Any, description: FileDescription, file: str) -> Any:
    titles = [sheet.title for sheet in book.worksheets]
    listed = ", ".join(f"'{title}'" for title in titles)
    if not description.sheet and len(titles) != 1:
        largest = max(
            book.worksheets, key=lambda each: (each.max_row or 0) * (each.max_column or 0)
        )
        raise undeclared(
            f"the workbook has {len(titles)} sheets ({listed}), and none is named",
            file,
            sheet=largest.title,
        )
    if description.sheet and description.sheet not in titles:
        raise UnreadableDataError(
            f"the workbook has no sheet '{description.sheet}': {listed}",
            remedy="Correct the sheet's name to one of these.",
        )
    return book[description.sheet or titles[0]]


class _Rows:
    """The rows of a sheet that hold something, the header first, all of the header's length."""

    def __init__(self, sheet: Any, formulas: Any, skip: int) -> None:
        self._sheet = sheet
        self._formulas = formulas
        self._skip = skip
        self._numbers: list[int] = []  # of the rows of data, as the sheet shows them

    def location(self, row: int) -> str:
        """A row of data, counted from 0, as Excel counts it."""
        return f"row {self._numbers[row]} of the sheet '{self._sheet.title}'"

    def __iter__(self) -> Iterator[Row]:
        width = 0
        for number, row in enumerate(self._pairs(), start=1):
            if number <= self._skip or all(value is None for value in row):
                continue
            if not width:
                width = max(column for column, value in enumerate(row, 1) if value is not None)
                yield row[:width]
                continue
            if any(value is not None for value in row[width:]):
                raise UnreadableDataError(
                    f"row {number} of the sheet '{self._sheet.title}' goes on to the right of the "
                    f"{width} columns that have a name",
                    remedy="Give every column a name in the header, or clear what has none.",
                )
            self._numbers.append(number)
            yield (*map(_plain, row[:width]), *(None,) * (width - len(row)))

    def _pairs(self) -> Iterator[Row]:
        """The values of every row, once no formula among them lacks its value."""
        rows = self._sheet.iter_rows(min_row=1, values_only=True)
        if self._formulas is None:
            yield from rows
            return
        both = zip(rows, self._formulas.iter_rows(min_row=1, values_only=True), strict=True)
        for number, (row, written) in enumerate(both, start=1):
            for value, formula in zip(row, written, strict=True):
                if value is None and formula is not None:
                    raise UnreadableDataError(
                        f"a formula in row {number} of '{self._sheet.title}' has no value",
                        remedy="Open the workbook in Excel, let it compute, and save it.",
                    )
            yield row


def _chunks(rows: Iterator[Row]) -> Iterator[list[Cells]]:
    while True:
        with _parsing():
            block = list(islice(rows, CHUNK_ROWS))
        if not block:
            return
        yield [value_cells(column) for column in zip(*block, strict=True)]


def _plain(value: object) -> object:
    """A date at midnight as a date; whatever else as it is."""
    if isinstance(value, datetime) and value.time() == time(0):
        return date(value.year, value.month, value.day)
    return value


EXCEL = Source(
    "Excel (.xlsx)",
    open_excel,
    reads=("sheet", "skip_rows"),
    magic=b"PK\x03\x04",
    endings=(".xlsx", ".xlsm"),
)
