"""Numbers that are infinite: refused where a draft is made, with site and row of the first."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cipherdag.errors import DataError, NotNumericError
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.column_reader import ColumnReader
from cipherdag.sites.table.names import is_plain_number
from cipherdag.sites.table.reading import TableSource, open_table

_INFINITE = frozenset({"inf", "-inf", "+inf", "infinity", "-infinity", "+infinity"})


def refuse_infinite(
    name: str,
    values: Collection[str],
    missing: tuple[str, ...],
    sources: Iterable[tuple[str, TableSource]],
) -> None:
    """Refuse numbers one of which is infinite, rather than take them all for texts.

    Args:
        name: The column's.
        values: What it holds in all tables together.
        missing: The words for these.
        sources: The tables by site, read again where one is infinite; a site may have no name.

    Raises:
        NotNumericError: One is.
    """
    marks = {*missing, ""}
    infinite = [value for value in values if value.lower() in _INFINITE]
    others = (value for value in values if value not in marks and value not in infinite)
    if not infinite or not all(map(is_plain_number, others)):
        return
    numbers = Column(name, "continuous", missing=missing)
    for site, source in sources:
        _refuse_cell(numbers, site, source)
    raise NotNumericError(
        f"the column holds '{infinite[0]}', which is no finite number",
        column=name,
        remedy="Leave the field empty where the value is missing, or correct it.",
    )


def _refuse_cell(numbers: Column, site: str, source: TableSource) -> None:
    """Refuse the first cell of a table that is no finite number, if there is one."""
    with open_table(source) as table:
        if numbers.name not in table.names:
            return
        reader = ColumnReader(numbers, table.names.index(numbers.name))
        rows = 0
        for chunk in table.chunks:
            rows += len(chunk[0])
            reader.read(chunk[reader.position])
        try:
            reader.raise_fault(table.place)
        except DataError as error:
            error.file, error.rows, error.site = table.file, rows, site or None
            raise
