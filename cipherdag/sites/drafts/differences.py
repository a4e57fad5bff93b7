"""Differences of schemas in words, column by column."""

import json
from collections.abc import Container, Iterator
from dataclasses import dataclass

from cipherdag.sites.table.schema import Schema

AGREED = ("kind", "categories", "ordered", "edges", "label", "unit", "date", "unmeasured_at")
"""What `Column.canonical` holds: sites with other values do not run together."""
_ORDER = "A run numbers categories by their order: give every site the same one."
_SAME = "Give every site the same."


@dataclass(frozen=True, slots=True)
class Difference:
    """Something in which drafts differ in a column, and what was done about it, or is to be done.

    While it is ``open`` people must decide, and the column takes no part.
    """

    column: str
    said: str
    remedy: str
    open: bool = False

    def __str__(self) -> str:
        return f"{'DECIDE' if self.open else 'taken '}  '{self.column}': {self.said} {self.remedy}"


def unlike_columns(
    first: tuple[str, Schema], second: tuple[str, Schema], said: Container[str]
) -> Iterator[Difference]:
    """What keeps sites with two schemas apart in columns of both of which nothing is said yet."""
    (one, here), (other, there) = first, second
    columns = {column.name: column for column in here.variables}
    for column in there.variables:
        for field in () if column.name in said else AGREED:
            a, b = getattr(columns.get(column.name, column), field), getattr(column, field)
            if a != b:
                listed = f"{field}: {_toml(a)} in '{one}', {_toml(b)} in '{other}'."
                is_order = field == "categories" and {*a} == {*b}
                yield Difference(column.name, listed, _ORDER if is_order else _SAME, open=True)


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
