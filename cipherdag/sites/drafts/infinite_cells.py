"""Numbers that are infinite: refused where a draft is made, with site and row of the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cipherdag.errors import NotNumericError
from cipherdag.sites.table.column import Column
from cipherdag.sites.table.names import is_plain_number
from cipherdag.sites.table.reading import open_table
from cipherdag.sites.table.schema import Schema
from cipherdag.sites.table.site_table import load_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cipherdag.sites.table.reading import TableSource

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
    for site, source in sources:
        with open_table(source) as table:
            names = table.names
        if name in names:
            own = Column(name, "continuous", missing=missing, allow_constant=True)
            ignored = (Column(other, "ignore") for other in names if other != name)
            load_table(source, Schema((own, *ignored)), site=site or None)
    raise NotNumericError(
        f"the column holds '{infinite[0]}', which is no finite number",
        column=name,
        remedy="Leave the field empty where the value is missing, or correct it.",
    )
